// The tests in this file prove that whatever a peer, a replayed recording or a broken clock does to
// a synchronizer is over soon after it ends: no panic, the truth inside of the bound after 15 s,
// and the offset right again. They tell which wrong answers nobody could have avoided: a clock that
// was set may look like a path that was shorter for a while.
package simtest

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"timesync"
	"timesync/internal/testkit"
)

// hostileWorlds are at least 1,000: of 500, three wrong ends of an attack are more than 5 %.
var hostileWorlds = testkit.Count("hostile.worlds",
	"random worlds of TestHostileWorlds", 1000, 2000, 10_000)

const (
	attackOver = 15 * sec  // after it the truth is inside of the bound,
	soonOver   = 30 * sec  // and nearly all offsets are right again,
	surelyOver = 300 * sec // and all are
)

// attack begins at the true time from of a siege. begin draws until when it lasts and
// returns what becomes of datagrams that arrive at a victim meanwhile.
type attack struct {
	name string
	// harmless attacks tell nothing that is wrong: the bound holds throughout.
	harmless bool
	begin    func(s *siege) tampering

	// What follows are the figures of attacks that miss a must, from a million worlds: percent of
	// the ends with the truth outside of the bound later than 15 s though one could know, and with
	// a wrong offset later than 300 s; and how far outside of the bound, us, while nothing that was
	// told is wrong.
	//
	// What nobody could know is counted apart. Early stamps or receive times that an end takes, by
	// a few ms and for some seconds, are what shorter paths are, on which two queues drained and
	// came back. Nobody can tell them apart. A queue that comes must not widen the bound
	// (TestBoundWidening), so the bound must not forget a shorter path at once: see
	// likeShorterPaths.
	beyond, surely, meanwhile float64
}

// tampering gets what arrives at a victim, and decides what that takes.
type tampering = func(side int, d datagram, localUsec uint64)

// siege is a world with an attack on one end, or on both.
type siege struct {
	*peers
	seed     uint64
	attack   *attack
	from, to time.Duration
	victims  [2]bool
	after    func() // what ends the attack
	shortest [2]shortest

	outcomes [2]outcome
	panics   any
}

// outcome is what became of an end. Times count since the attack was over.
type outcome struct {
	// the last answer beyond the bound, though one could know later than attackOver
	beyond time.Duration
	// later than attackOver one was beyond the bound, and nobody could know
	like bool
	// us: how far beyond it one was at most, from the beginning of the attack on
	meanwhile float64
	// the last answer that was over 1 ms off
	wrong time.Duration
}

// isOver reports whether the attack did no harm for longer than it should, so far.
func (o *outcome) isOver() bool { return o.beyond <= attackOver && o.wrong <= soonOver }

// newSiege draws a world and its attack. A quarter of the attacks come before the ends know
// their skew.
func newSiege(seed uint64) *siege {
	r := newRand(seed, 'h')
	s := &siege{
		peers:  newPeers(r),
		seed:   seed,
		attack: &attacks[seed%uint64(len(attacks))],
		after:  func() {},
	}
	s.from = usecs(s.Between(20e6, 60e6))
	if r.IntN(4) == 0 {
		s.from = usecs(s.Between(0.5e6, 10e6))
	}
	s.deliver = s.take
	for side := range s.shortest {
		s.shortest[side].forget()
	}
	victims := [][2]bool{{true, false}, {false, true}, {true, true}}
	s.victims = victims[r.IntN(len(victims))]
	return s
}

// take gives a datagram to the synchronizer.
func (s *siege) take(side int, d datagram, localUsec uint64) {
	s.peers.take(side, d, localUsec)
	s.shortest[side].datagram(uint32(d.stamp), localUsec, s.offset(side))
	if d.reports {
		s.shortest[side].report(uint32(d.report), s.offset(side))
	}
}

// set lets a clock jump, us.
func (s *siege) set(side int, step int64) {
	s.clocks[side].Step(s.now, step)
	s.shortest[side].offsetJumps(-step)
	s.shortest[1-side].offsetJumps(step)
}

// besiege plans the attack.
func (s *siege) besiege() {
	s.to = forever
	s.at(s.from, func() {
		tampered := s.attack.begin(s)
		s.deliver = func(side int, d datagram, local uint64) {
			if s.victims[side] {
				tampered(side, d, local)
			} else {
				s.take(side, d, local)
			}
		}
		often := s.poll
		s.poll = max(often, (s.to-s.from)/100) // it may last for years
		s.at(s.to, func() {
			s.deliver = s.take
			s.reports = 0
			s.poll = often
			s.askAt = [2]time.Duration{s.now, s.now}
			s.after()
		})
	})
}

// play lets time pass until lasting after the attack.
func (s *siege) play(lasting time.Duration) {
	defer func() {
		if p := recover(); p != nil {
			s.panics = p
		}
	}()
	s.goOn(s.from)
	s.goOn(s.to + lasting)
}

// isOver reports whether that is so of both ends.
func (s *siege) isOver() bool { return s.outcomes[0].isOver() && s.outcomes[1].isOver() }

func (s *siege) judge(q *query) {
	o := &s.outcomes[q.side]
	since := s.now - s.to
	if q.beyond() && s.now >= s.from {
		o.meanwhile = max(o.meanwhile, math.Abs(q.err)-math.Floor(q.bound))
		if since > attackOver && s.shortest[q.side].likeShorterPaths(q.err, q.bound) {
			o.like = true
		} else {
			o.beyond = max(o.beyond, since)
		}
	}
	if s.wrong(q) {
		o.wrong = max(o.wrong, since)
	}
}

func (s *siege) String() string {
	text := fmt.Sprintf("-hostile.worlds 1 -seed.first %d: %s from %.1f s to %.1f s, "+
		"victims A and B %v, panics: %v",
		s.seed, s.attack.name, s.from.Seconds(), s.to.Seconds(), s.victims, s.panics)
	for side, o := range s.outcomes {
		name := 'A' + rune(side)
		text += fmt.Sprintf("; %c wrong for %.1f s, beyond the bound for %.1f s, by up to %.0f us",
			name, o.wrong.Seconds(), o.beyond.Seconds(), o.meanwhile)
	}
	return text
}

// ---- The attacks ----

// units turns microseconds into those of a stamp.
func units(us float64) timesync.Counter24 { return timesync.NewCounter24(uint64(int64(us / 8))) }

// lasts draws for how long the attack lasts, us.
func (s *siege) lasts(lo, hi float64) { s.to = s.from + usecs(s.LogBetween(lo, hi)) }

// size draws by how much a time is wrong: 1 ms to 30 s.
func (s *siege) size() float64 { return s.LogBetween(1e3, 30e6) }

// few shifts one or two stamps by us microseconds, each by another.
func few(sign float64) func(s *siege) tampering {
	return func(s *siege) tampering {
		s.to = s.from + sec
		left := 1 + s.R.IntN(2)
		same := s.R.IntN(2) == 0
		size := s.size()
		return func(side int, d datagram, local uint64) {
			left--
			if left >= 0 {
				if !same {
					size = s.size()
				}
				d.stamp = d.stamp.Add(units(sign * size))
			}
			s.take(side, d, local)
		}
	}
}

// some tampers with some of the datagrams, or with all, for 0.1 to 30 s. draw draws how.
func some(draw func(s *siege) func(d *datagram, localUsec *uint64)) func(s *siege) tampering {
	return func(s *siege) tampering {
		s.lasts(0.1e6, 30e6)
		shares := []float64{1, 0.5, 0.1}
		share := shares[s.R.IntN(len(shares))]
		tamper := draw(s)
		return func(side int, d datagram, local uint64) {
			if s.R.Float64() < share {
				tamper(&d, &local)
			}
			s.take(side, d, local)
		}
	}
}

// stream shifts stamps.
func stream(shift func(s *siege) float64) func(s *siege) tampering {
	return some(func(s *siege) func(*datagram, *uint64) {
		by := shift(s)
		wander := float64(s.R.IntN(2)) * s.LogBetween(100, 100e3)
		return func(d *datagram, _ *uint64) {
			d.stamp = d.stamp.Add(units(by + wander*s.R.Float64()))
		}
	})
}

// halfRing is half of the ring of stamps: 67.1 s.
const halfRing = 1 << 26

const day = 86400e6 // us

var attacks = []attack{
	{name: "nothing", begin: nothing, harmless: true},
	{name: "1 or 2 early stamps", begin: few(1), beyond: 0.01},
	{name: "1 or 2 late stamps", begin: few(-1)},
	{name: "a stream of early stamps", begin: stream((*siege).size), beyond: 0.04},
	{
		name:   "a stream of late stamps",
		begin:  stream(func(s *siege) float64 { return -s.size() }),
		beyond: 0.01,
	},
	{
		name: "stamps half a ring away",
		begin: stream(func(s *siege) float64 {
			return halfRing + s.Sign()*s.LogBetween(1, 1e6)
		}),
	},
	{name: "stamps 67.2 s old", begin: stream(func(s *siege) float64 { return -67.2e6 })},
	{name: "random stamps", begin: some(randomStamps)},
	{name: "lying reports", begin: lyingReports, beyond: 0.01},
	{name: "replays", begin: replays},
	{name: "extreme receive times", begin: extremeTimes},
	{name: "receive times up to 1 s early", begin: some(earlyReceipt), beyond: 0.1, surely: 0.01},
	{name: "a clock set back up to 1 s, often", begin: setsBack, beyond: 0.11, surely: 0.01},
	{name: "datagrams handed over up to 1 s late", begin: lateHandover, harmless: true},
	{name: "only reports", begin: onlyReports, harmless: true, beyond: 0.01, meanwhile: 5e3},
	{name: "only datagrams", begin: onlyDatagrams, harmless: true},
	{
		name:      "1 datagram in 10 s to 100,000 in 1 s",
		begin:     anotherRate,
		harmless:  true,
		beyond:    0.01,
		meanwhile: 300,
	},
	{name: "silence of 10 s to 1 day", begin: silent(10e6, day), harmless: true, meanwhile: 40e3},
	// For longer, and two clocks may have drifted apart by half the ring of offsets.
	{name: "silence of 1 day to 50 years", begin: silent(day, 50*365.25*day)},
}

// nothing is over as soon as it begins.
func nothing(s *siege) tampering {
	s.to = s.from
	return s.take
}

// randomStamps replaces stamps by any.
func randomStamps(s *siege) func(*datagram, *uint64) {
	return func(d *datagram, _ *uint64) {
		d.stamp = timesync.NewCounter24(s.R.Uint64())
	}
}

// earlyReceipt lets times of receipt be too early, each by another time.
func earlyReceipt(s *siege) func(*datagram, *uint64) {
	size := s.LogBetween(1e3, 1e6)
	return func(_ *datagram, local *uint64) {
		*local -= uint64(s.R.Float64() * size)
	}
}

// setsBack sets the victim's clock back again and again.
func setsBack(s *siege) tampering {
	s.lasts(1e6, 30e6)
	size := s.LogBetween(1e3, 1e6)
	every := s.LogBetween(0.05e6, 3e6)
	next := s.from
	return func(side int, d datagram, local uint64) {
		if s.now >= next {
			next = s.now + usecs(every*2*s.R.Float64())
			s.set(side, -int64(size*s.R.Float64()))
			local = s.clocks[side].Usec(s.now)
		}
		s.take(side, d, local)
	}
}

// lateHandover lets a program read some datagrams late.
func lateHandover(s *siege) tampering {
	s.lasts(1e6, 30e6)
	return s.handsOverLate(s.LogBetween(1e3, 0.9e6))
}

// onlyReports keeps stamps from the victim, and gives it the reports.
func onlyReports(s *siege) tampering {
	s.lasts(1e6, 100e6)
	s.reports = time.Duration(1 - s.R.IntN(2)) // every datagram has one, or as usual
	return func(side int, d datagram, local uint64) {
		if d.reports {
			s.ends[side].s.Sync.OnPeerMinDeltaTS24(d.report, local)
		}
	}
}

// onlyDatagrams keeps reports from the victim.
func onlyDatagrams(s *siege) tampering {
	s.lasts(1e6, 300e6)
	return func(side int, d datagram, local uint64) {
		d.reports = false
		s.take(side, d, local)
	}
}

// anotherRate lets both ends send seldom or very often.
func anotherRate(s *siege) tampering {
	rate := s.LogBetween(0.1, 100e3)
	s.to = s.from + usecs(min(s.LogBetween(1e6, 300e6), 10e3/rate*1e6))
	usual := s.ends[0].period // that of both
	for side := range s.ends {
		s.ends[side].sendAt = s.from
		s.ends[side].period = max(usecs(1e6/rate), us)
	}
	s.after = func() {
		for side := range s.ends {
			e := &s.ends[side]
			e.period = usual
			e.sendAt = min(e.sendAt, s.to+usual)
		}
	}
	return s.take
}

// lyingReports lets all reports be wrong by the same, or by more and more, or at random.
func lyingReports(s *siege) tampering {
	s.lasts(1e6, 30e6)
	s.reports = time.Duration(1 - s.R.IntN(2))
	kind := s.R.IntN(4)
	by := s.Sign() * s.size()
	return func(side int, d datagram, local uint64) {
		switch kind {
		case 0:
			d.report = d.report.Add(units(by))
		case 1:
			d.report = timesync.NewCounter24(s.R.Uint64())
		case 2:
			d.report = d.report.Add(units(by * float64((s.now-s.from)/us) / 30e6))
		case 3:
			d.report = d.report.Add(units(halfRing + by))
		}
		s.take(side, d, local)
	}
}

// replays takes datagrams again that were recorded up to a minute ago, with their reports.
func replays(s *siege) tampering {
	s.lasts(0.1e6, 30e6)
	var tape [2][]datagram
	for side := range tape {
		for t := max(s.from-60*sec, 0); t < s.from; t += sec / 2 {
			// What the peer sent then is what its clock would have said: the tape is made here.
			sent := s.clocks[1-side].Usec(t)
			d := datagram{stamp: timesync.LocalTimeToDatagramTS24(sent)}
			tape[side] = append(tape[side], d)
		}
	}
	times := 1 + s.R.IntN(3)
	return func(side int, d datagram, local uint64) {
		s.take(side, d, local)
		tape[side] = append(tape[side], d)
		for range times {
			s.take(side, tape[side][s.R.IntN(len(tape[side]))], local)
		}
	}
}

// extremeTimes calls everything with local times at the ends of the range and at random.
func extremeTimes(s *siege) tampering {
	s.lasts(0.1e6, 10e6)
	left := 1 + s.R.IntN(20)
	return func(side int, d datagram, local uint64) {
		left--
		if left >= 0 {
			extremes := []uint64{
				0,
				1,
				math.MaxUint64,
				math.MaxInt64,
				1 << 63,
				1 << 52,
				local + 1<<63,
				local + 1<<40,
				local - 1<<40,
				s.R.Uint64(),
			}
			x := extremes[s.R.IntN(len(extremes))]
			e := &s.ends[side].s.Sync
			switch s.R.IntN(4) {
			case 0:
				e.OnPeerMinDeltaTS24(d.report, x)
			case 1:
				e.OnAuthenticatedDatagramTimestamp(timesync.NewCounter24(s.R.Uint64()), x)
			default:
				e.OnAuthenticatedDatagramTimestamp(d.stamp, x)
			}
			e.MinDeltaTS24(x)
			e.RemoteTime(x)
			e.Snapshot(x)
		}
		s.take(side, d, local)
	}
}

// handsOverLate holds back every second datagram until others arrived, about that long at most, us,
// but none in the last second. Its receive time stays what it was.
func (s *siege) handsOverLate(most float64) tampering {
	type held struct {
		d     datagram
		local uint64
		until time.Duration
	}
	var waits [2][]held
	return func(side int, d datagram, local uint64) {
		if s.R.IntN(2) == 0 && s.now < s.to-sec {
			until := s.now + usecs(most*s.R.Float64())
			waits[side] = append(waits[side], held{d, local, until})
			return
		}
		s.take(side, d, local)
		waits[side] = slices.DeleteFunc(waits[side], func(h held) bool {
			if h.until > s.now {
				return false
			}
			s.take(side, h.d, h.local)
			return true
		})
	}
}

// silent lets neither end send.
func silent(lo, hi float64) func(s *siege) tampering {
	return func(s *siege) tampering {
		s.lasts(lo, hi)
		s.pause(s.to - s.from)
		return s.take
	}
}

// ---- The test ----

// fate is what became of the ends in all worlds of an attack.
type fate struct {
	ends      int
	beyond    int     // how many of them were beyond the bound later than attackOver
	like      int     // the same, but nobody could know
	soon      int     // how many had a wrong offset later than soonOver
	surely    int     // the same, later than surelyOver
	meanwhile float64 // us: the furthest beyond the bound from the beginning on
	longest   *siege  // in which the harm lasted longest,
	lasting   time.Duration
}

func (x *fate) add(s *siege) {
	for _, o := range s.outcomes {
		lasting := max(o.beyond, o.wrong)
		if !s.isOver() && (x.longest == nil || lasting > x.lasting) {
			x.longest = s
			x.lasting = lasting
		}
		x.ends++
		x.beyond += count(o.beyond > attackOver)
		x.like += count(o.like)
		x.soon += count(o.wrong > soonOver)
		x.surely += count(o.wrong > surelyOver)
		x.meanwhile = max(x.meanwhile, o.meanwhile)
	}
}

// judge holds the figures to what the attacked must be able to take.
func (x *fate) judge(m *musts, a *attack) {
	percent := 100 / float64(x.ends)
	figure := func(what string, n int, must, now float64) {
		if now == 0 {
			m.judge(what, percent*float64(n), must, 0)
			return
		}
		scatter := 2 + 3*math.Sqrt(now/percent) // of the ends of few worlds
		m.misses(what, percent*float64(n), must, now+percent*scatter)
	}
	beyond := fmt.Sprintf("%s: %% of %d ends beyond the bound > 15 s", a.name, x.ends)
	figure(beyond, x.beyond, 0, a.beyond)
	m.note("  % beyond the bound, and nobody could know", percent*float64(x.like))
	figure("  offset wrong > 30 s", x.soon, 5, 0)
	figure("  offset wrong > 300 s", x.surely, 0, a.surely)
	if a.harmless {
		m.misses("  the furthest beyond the bound ever, us", x.meanwhile, 0, a.meanwhile)
	}
	if x.longest != nil {
		m.t.Logf("the longest: %v", x.longest)
	}
}

// playSieges plays n worlds. One in which all is well soon is not played to its end, but for
// every eighth: harm may come to light late.
func playSieges(n int) []*siege {
	return eachSeed(n, func(i uint64) *siege {
		s := newSiege(*seedFirst + i)
		s.onQuery = s.judge
		s.besiege()
		s.play(80 * sec)
		if !s.isOver() || i/uint64(len(attacks))%8 == 0 {
			s.play(surelyOver + 10*sec)
		}
		s.peers = nil // 10^6 of them are much
		return s
	})
}

// TestHostileWorlds besieges synchronizers in every way.
func TestHostileWorlds(t *testing.T) {
	fates := make([]fate, len(attacks))
	m := newMusts(t)
	for _, s := range playSieges(hostileWorlds()) {
		fates[s.seed%uint64(len(attacks))].add(s)
		if s.panics != nil {
			m.fail("panics", "%v", s)
		}
	}
	for i := range attacks {
		fates[i].judge(m, &attacks[i])
	}
}

// afterSilence lets nothing arrive for 5 s to 10 min after both ends know each other well. It
// returns by how much an end is further off afterwards than in the silence, us, and for how long by
// more than 1 ms, s.
func afterSilence(seed uint64) (by, lasting float64) {
	p := newPeers(newRand(seed, 'q'))
	for side := range p.ends {
		p.ways[side].jitter = 4 * ms
	}
	from := usecs(p.Between(20e6, 120e6))
	to := from + usecs(p.LogBetween(5e6, 600e6))
	var silent [2]float64 // us: how far off in the silence, at most
	p.onQuery = func(q *query) {
		off := math.Abs(q.err - p.asymmetry(q.side))
		switch {
		case p.now > from && p.now < to:
			silent[q.side] = max(silent[q.side], off)
		case p.now > to:
			further := off - silent[q.side]
			if further > 1000 {
				lasting = (p.now - to).Seconds()
			}
			by = max(by, further)
		}
	}
	p.goOn(from)
	p.pause(to - from)
	p.goOn(to + 60*sec)
	return by, lasting
}

// shortest is what an end was shown of both paths: for how long the fastest datagram to here was
// under way, and the fastest from here as reports told, us, if the clocks had always been as
// they are now. What an attack or a clock that was set makes of it may be negative.
type shortest struct{ here, there float64 }

func (s *shortest) forget() {
	s.here = math.Inf(1)
	s.there = math.Inf(1)
}

// datagram takes one that arrived when the remote minus the local clock was offset, us.
func (s *shortest) datagram(ts24 uint32, localUsec uint64, offset int64) {
	s.here = min(s.here, signedDelta(localUsec-uint64(ts24)*8+uint64(offset)))
}

// report takes one that arrived when the remote minus the local clock was offset, us.
func (s *shortest) report(minDelta uint32, offset int64) {
	s.there = min(s.there, signedDelta(uint64(minDelta)*8-uint64(offset)))
}

// signedDelta returns a delay modulo 134 s, us.
func signedDelta(usec uint64) float64 { return float64(int64(usec<<37) >> 37) }

// offsetJumps says that the remote minus the local clock became larger by d, us.
func (s *shortest) offsetJumps(d int64) {
	s.here += float64(d)
	s.there -= float64(d)
}

// likeShorterPaths reports whether nobody could know that an answer which is off by err is
// further off than its bound. All that the end took may also come from a world in which no
// clock is ever set, and paths were shorter for a while: there the truth is where no delay is
// negative, and it is all within the bound. Longer paths must not widen it.
func (s *shortest) likeShorterPaths(err, bound float64) bool {
	const rounding = 16 // us: of a stamp and of a report
	low, high := -s.here, s.there
	return low <= high+rounding && err-bound <= low+rounding && err+bound >= high-rounding
}
