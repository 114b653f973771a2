// These tests prove that a session may be trusted from its first answer on, and say how soon that is.

package simtest

import (
	"math"
	"sync"
	"testing"
	"time"

	"timesync"
	"timesync/internal/long"
	"timesync/internal/sim"
	"timesync/internal/stat"
)

// TestTrustedSoon: at 60 datagrams a second, 30 ms each way and exponential jitter of 3 ms, the
// time from the first datagram until Within(50 ms) says nil.
func TestTrustedSoon(t *testing.T) {
	n := long.Sized(200, 1000, 10_000)
	var mu sync.Mutex
	var waits []float64
	eachOf(n, func(i int) {
		d := &duel{seed: *seedFirst + 47_000_001 + uint64(i), until: 5 * sec, reports: sec / 2}
		for side := range d.ends {
			d.ends[side].rate = 60
			d.ends[side].clock = sim.ClockSpec{OffsetUsec: d.seed * 1e9 * uint64(1+side), SkewPPM: 40 * float64(1-2*side)}
			d.ends[side].out = &sim.Link{Base: sim.Fixed(30 * ms), Delay: sim.Exp(3 * ms)}
		}
		first, trusted := [2]time.Duration{-1, -1}, [2]time.Duration{-1, -1}
		d.onQuery = func(q *query) {
			if first[q.side] < 0 && d.ends[q.side].heard {
				first[q.side] = q.at
			}
			if s, _ := q.s.Sync.Snapshot(q.local); trusted[q.side] < 0 && s.Within(50*ms) == nil {
				trusted[q.side] = q.at
			}
		}
		d.run()
		mu.Lock()
		defer mu.Unlock()
		for side := range d.ends {
			wait := math.Inf(1)
			if trusted[side] >= 0 {
				wait = (trusted[side] - first[side]).Seconds()
			}
			waits = append(waits, wait)
		}
	})
	m := musts{t: t}
	m.judge("from the first datagram to Within(50 ms), s, median", stat.Quantile(waits, 0.5), 0.3, 0.2)
	m.note("  p99", stat.Quantile(waits, 0.99))
	m.judge("  the longest", stat.Quantile(waits, 1), 1.5, 1)
	t.Logf("%d ends, from seed %d on", len(waits), *seedFirst+47_000_001)
	m.log()
}

// trustAges divide the first 15 s of a session.
var trustAges = [...]time.Duration{2 * sec, 5 * sec, 10 * sec, timesync.Settled}

// trustScore counts answers that Within lets pass, and those of them that are beyond their bound.
type trustScore struct {
	quiet, quietBeyond [len(trustAges)]int // by age of the session, in worlds without a clock change by then
	set, setBeyond     int                 // in the others, in the first 15 s
	late, lateBeyond   int                 // later, in all worlds
	kept, keptBeyond   int                 // of a Snapshot that was kept for up to 10 s, without a clock change by then
}

func (s *trustScore) play(seed uint64) {
	d, _ := randomWorld(seed)
	quiet, event := true, d.until
	for _, j := range d.jumps {
		quiet, event = quiet && j.from > timesync.Settled, min(event, j.from)
	}
	for _, w := range d.slews {
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
			s.kept++
			if err := q.err + float64(int64(then.RemoteUsec-live)); math.Abs(err)-1 > float64(then.ErrorBound)/float64(us) {
				s.keptBeyond++
			}
		}
		known, _ := q.s.Sync.Snapshot(q.local)
		if known.Within(math.MaxInt64) != nil || q.stale { // nobody can know yet that a clock was set
			return
		}
		beyond := 0
		if q.excess() > 0 {
			beyond = 1
		}
		switch age := q.at - d.ends[q.side].born; {
		case age >= timesync.Settled:
			s.late++
			s.lateBeyond += beyond
		case quiet:
			i := 0
			for age >= trustAges[i] {
				i++
			}
			s.quiet[i]++
			s.quietBeyond[i] += beyond
		default:
			s.set++
			s.setBeyond += beyond
		}
	}
	d.run()
}

// TestTrustedAtOnce: answers of the first 15 s are as good as later ones, if no clock is set
// meanwhile. 100,000 worlds that nobody has looked at:
//
//	go test ./internal/simtest -run TestTrustedAtOnce -v -trust.worlds 100000 -seed.first 1000000
func TestTrustedAtOnce(t *testing.T) {
	n := trustWorlds()
	var sum trustScore
	var mu sync.Mutex
	eachOf(n, func(i int) {
		var s trustScore
		s.play(*seedFirst + 48_000_001 + uint64(i))
		mu.Lock()
		defer mu.Unlock()
		for i := range s.quiet {
			sum.quiet[i] += s.quiet[i]
			sum.quietBeyond[i] += s.quietBeyond[i]
		}
		sum.set += s.set
		sum.setBeyond += s.setBeyond
		sum.late += s.late
		sum.lateBeyond += s.lateBeyond
		sum.kept += s.kept
		sum.keptBeyond += s.keptBeyond
	})
	perMillion := func(beyond, of int) float64 { return 1e6 * float64(beyond) / float64(of) }
	m := musts{t: t}
	all, beyond := 0, 0
	from := time.Duration(0)
	for i, age := range trustAges {
		all, beyond = all+sum.quiet[i], beyond+sum.quietBeyond[i]
		m.note("beyond the bound, of 10^6, without a clock change, from "+from.String()+" to "+age.String(), perMillion(sum.quietBeyond[i], sum.quiet[i]))
		from = age
	}
	what := "  in all the first 15 s"
	if rate := perMillion(beyond, all); n >= 10_000 { // few worlds say little
		m.judge(what, rate, 150, 0)
	} else {
		m.judge(what, rate, 1000, 150)
	}
	m.note("  in the first 15 s, with a clock change in them", perMillion(sum.setBeyond, sum.set))
	m.note("  later, in all worlds", perMillion(sum.lateBeyond, sum.late))
	if kept := perMillion(sum.keptBeyond, sum.kept); n >= 10_000 {
		m.judge("  of a snapshot kept for up to 10 s, without a clock change by then", kept, 150, 100)
	} else {
		m.judge("  of a snapshot kept for up to 10 s, without a clock change by then", kept, 1000, 150)
	}
	t.Logf("%d worlds from seed %d on; answers that Within lets pass: %d, %d with a clock change, %d later", n, *seedFirst+48_000_001, all, sum.set, sum.late)
	m.log()
}

var trustWorlds = long.Count("trust.worlds", "random worlds of TestTrustedAtOnce", 500, 1000, 5000)
