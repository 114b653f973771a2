// These tests prove that a session may be trusted from its first answer on, and say how soon that is.

package simtest

import (
	"math"
	"testing"
	"time"

	"timesync"
	"timesync/internal/long"
	"timesync/internal/sim"
)

// TestTrustedSoon: at 60 datagrams a second, 30 ms each way and exponential jitter of 3 ms, the
// time from the first datagram until Within(50 ms) says nil.
func TestTrustedSoon(t *testing.T) {
	n := long.Sized(200, 1000, 10_000)
	var waits errors // s
	for _, both := range eachSeed(n, func(seed uint64) (waits [2]float64) {
		d := &duel{seed: *seedFirst + 47_000_001 + seed, until: 5 * sec, reports: sec / 2}
		for side := range d.ends {
			d.ends[side].rate = 60
			d.ends[side].clock = sim.ClockSpec{OffsetUsec: d.seed * 1e9 * uint64(1+side), SkewPPM: 40 * float64(1-2*side)}
			d.ends[side].out = path(30*ms, 3*ms)(seed)
		}
		waits = [2]float64{math.Inf(1), math.Inf(1)}
		var first [2]time.Duration // 0 is not yet
		d.onQuery = func(q *query) {
			if first[q.side] == 0 && d.ends[q.side].heard {
				first[q.side] = q.at
			}
			if s, _ := q.s.Sync.Snapshot(q.local); s.Within(50*ms) == nil {
				waits[q.side] = min(waits[q.side], (q.at - first[q.side]).Seconds())
			}
		}
		d.run()
		return waits
	}) {
		waits = append(waits, both[:]...)
	}
	m := newMusts(t)
	m.judge("from the first datagram to Within(50 ms), s, median", waits.median(), 0.3, 0.2)
	m.note("  p99", waits.p99())
	m.judge("  the longest", waits.most(), 1.5, 1)
	t.Logf("%d ends, from seed %d on", len(waits), *seedFirst+47_000_001)
}

// trustAges divide the first 15 s of a session.
var trustAges = [...]time.Duration{2 * sec, 5 * sec, 10 * sec, timesync.Settled}

// tally counts answers that Within lets pass, and those of them that are beyond their bound.
type tally struct{ answers, beyond int }

func (t *tally) add(other tally) {
	t.answers, t.beyond = t.answers+other.answers, t.beyond+other.beyond
}

// perMillion is the share of those beyond, of 10^6.
func (t tally) perMillion() float64 { return 1e6 * float64(t.beyond) / float64(t.answers) }

// What a trustScore counts apart: by age of the session, in worlds without a clock change by then; and
const (
	inSet  = len(trustAges) + iota // in the others, in the first 15 s
	inLate                         // later, in all worlds
	inKept                         // of a Snapshot that was kept for up to 10 s, without a clock change by then
	trustKinds
)

type trustScore [trustKinds]tally

func (s *trustScore) add(kind int, beyond bool) { s[kind].add(tally{1, count(beyond)}) }

func playTrust(seed uint64) (s trustScore) {
	d, _ := randomWorld(seed)
	quiet, event := true, d.until
	for _, w := range d.changes {
		quiet, event = quiet && w.From > timesync.Settled, min(event, w.From)
	}
	var kept [2]timesync.Snapshot
	var since [2]time.Duration // when they were taken
	d.onQuery = func(q *query) {
		if !q.ok {
			return
		}
		if k := &kept[q.side]; q.at < event {
			if q.at-since[q.side] > 10*sec || k.ErrorBound == 0 {
				*k, since[q.side] = q.s.snapshot().At(q.local), q.at
			}
			live, _ := q.s.Sync.RemoteTime(q.local)
			then := k.At(q.local)
			err := q.err + float64(int64(then.RemoteUsec-live))
			s.add(inKept, math.Abs(err)-1 > float64(then.ErrorBound)/float64(us))
		}
		known, _ := q.s.Sync.Snapshot(q.local)
		if known.Within(math.MaxInt64) != nil || q.stale { // nobody can know yet that a clock was set
			return
		}
		kind := 0
		switch age := q.at - d.ends[q.side].born; {
		case age >= timesync.Settled:
			kind = inLate
		case quiet:
			for age >= trustAges[kind] {
				kind++
			}
		default:
			kind = inSet
		}
		s.add(kind, q.excess() > 0)
	}
	d.run()
	return s
}

// TestTrustedAtOnce: answers of the first 15 s are as good as later ones, if no clock is set
// meanwhile. 100,000 worlds that nobody has looked at:
//
//	go test ./internal/simtest -run TestTrustedAtOnce -v -trust.worlds 100000 -seed.first 1000000
func TestTrustedAtOnce(t *testing.T) {
	n := trustWorlds()
	var sum trustScore
	for _, s := range eachSeed(n, func(seed uint64) trustScore { return playTrust(*seedFirst + 48_000_001 + seed) }) {
		for kind, one := range s {
			sum[kind].add(one)
		}
	}
	m := newMusts(t)
	var all tally
	from := time.Duration(0)
	for i, age := range trustAges {
		all.add(sum[i])
		m.note("beyond the bound, of 10^6, without a clock change, from "+from.String()+" to "+age.String(), sum[i].perMillion())
		from = age
	}
	judge := func(what string, one tally, aim float64) {
		if n >= 10_000 {
			m.judge(what, one.perMillion(), 150, aim)
		} else { // few worlds say little
			m.judge(what, one.perMillion(), 1000, 150)
		}
	}
	judge("  in all the first 15 s", all, 0)
	m.note("  in the first 15 s, with a clock change in them", sum[inSet].perMillion())
	m.note("  later, in all worlds", sum[inLate].perMillion())
	judge("  of a snapshot kept for up to 10 s, without a clock change by then", sum[inKept], 100)
	t.Logf("%d worlds from seed %d on; answers that Within lets pass: %d, %d with a clock change, %d later", n, *seedFirst+48_000_001, all.answers, sum[inSet].answers, sum[inLate].answers)
}

var trustWorlds = long.Count("trust.worlds", "random worlds of TestTrustedAtOnce", 500, 1000, 5000)
