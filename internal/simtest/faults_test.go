// These tests prove what steps of a clock, suspended machines, restarts, changed routes and
// absurd stamps do to the offset, and for how long.

package simtest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
)

// settled is when faults come: the estimator knows its skew by then.
const settled = 25 * sec

// faultWorld is the usual world of a fault: 30 ms each way, exponential jitter of
// 1 ms, 60 datagrams a second, two quartzes 40 ppm apart.
func faultWorld(seed uint64) *duel {
	seed += *seedFirst
	d := newDuel(seed, settled+8*sec)
	d.poll = 50 * ms
	for side := range d.ends {
		e := &d.ends[side]
		e.rate = 60
		e.base = 30 * ms
		e.clock = simnet.ClockSpec{
			OffsetUsec: seed * 0x9e3779b97f4a7c15 << side,
			SkewPPM:    20 - 40*float64(side),
			SinePPM:    2,
			SinePeriod: 900 * sec,
			WanderPPM:  0.01,
		}
	}
	d.bothDelay(simnet.Exp(ms))
	return d
}

// verdict is how two ends took a fault, or a world without one. Times count from its end.
type verdict struct {
	within [2]time.Duration // from then on the error is below 1 ms
	lost   time.Duration    // the last question without an answer

	// those after the first datagram of the new era, so long after the last clock change that
	// their bound counts
	answers int
	beyond  float64 // the most that one of them was beyond its bound, us
	worst   string  // that one

	widest float64          // the greatest bound, us; infinite if a question has no answer
	bound  float64          // the last bound
	moved  [2]float64       // the largest error, us
	last   [2]float64       // the last error
	steps  [2]int           // how many steps were counted
	off    [2]bool          // answers were off by more than 1 ms until it could be known
	owd    [2]time.Duration // from then on the minimum one-way delay is right
}

// judge plays a world in which something happens from the time from to the time to. The bound
// counts while no clock is set, and again at that age of the change, when both ends have seen and
// told. A restarted end counts its steps from 0.
func judge(d *duel, from, to, age time.Duration) (v verdict) {
	v.beyond = math.Inf(-1)
	var before [2]int
	var known [2]bool
	d.onQuery = func(q *query) {
		if q.at < from {
			before[q.side] = q.s.Steps()
		}
		if q.at < to {
			return
		}
		v.steps[q.side] = q.s.Steps() - before[q.side]
		least, _ := q.s.Sync.MinimumOneWayDelay()
		base := d.ends[1-q.side].out.BaseAt(q.at)
		if (least - base).Abs() > ms { // the mean of the jitter
			v.owd[q.side] = q.at - to
		}
		off := math.Abs(q.err)
		v.last[q.side] = off
		if off > 1000 {
			v.within[q.side] = q.at - to
		}
		v.widest = max(v.widest, q.bound)
		if q.ok {
			v.bound = q.bound
		} else {
			v.lost = q.at - to
		}
		if !known[q.side] {
			known[q.side] = !q.stale
			v.off[q.side] = v.off[q.side] || off > 1000
		}
		if !q.counts() {
			return
		}
		v.moved[q.side] = max(v.moved[q.side], off)
		if q.since >= age {
			v.answers++
			excess := q.excess()
			v.beyond = max(v.beyond, excess)
			if excess > 0 && excess == v.beyond {
				v.worst = q.in(d)
			}
		}
	}
	d.run()
	return v
}

// stepSizes are all sizes of steps: 1 ms to hours, evenly and at random, and around the
// rings of 67.1 s and 134.2 s, where part of a step cannot be seen.
func stepSizes() (sizes []time.Duration) {
	per := testkit.Sized(2., 6, 6)
	add := func(decades float64) {
		sizes = append(sizes, time.Duration(math.Pow(10, decades)*float64(ms)))
	}
	for i := 0.0; i <= math.Log10(3.6e7)*per; i++ { // to 10 h
		add(i / per)
	}
	r := newRand(*seedFirst+1, 's')
	for i := 0.0; i < 25*per; i++ { // most of them small ones, which are the hard ones
		most := []float64{2, 7}[int(i)%2]
		add(most * r.Float64())
	}
	const ring = 1 << 26 * us
	for _, k := range []time.Duration{1, 2, 3, 4, 100} {
		for _, by := range []time.Duration{
			-30 * sec, -sec, -100 * ms, -10 * ms, -2 * ms,
			2 * ms, 10 * ms, 100 * ms, sec, 30 * sec,
		} {
			if !testing.Short() || by > 0 {
				sizes = append(sizes, k*ring+by)
			}
		}
	}
	return sizes
}

// foldTime returns d modulo 67.1 s, signed.
func foldTime(d time.Duration) time.Duration {
	return time.Duration(int64(d/us)<<38>>38) * us
}

// faultCase is one line of a test of faults.
type faultCase struct {
	name   string
	seed   uint64
	happen func(d *duel)
	to     time.Duration
	counts [2]bool // the ends that must count a step if their answers jump
}

// checkFaults prints how long it took and asserts what every fault has in common. The
// limits, in seconds, are for the median and the longest of the times until both ends are
// within 1 ms for good; a median of which the limit is 0 is only printed.
func checkFaults(m *musts, title string, cases []faultCase, median, longest float64) {
	verdicts := eachSeed(len(cases), func(i uint64) verdict {
		c := &cases[i]
		d := faultWorld(c.seed)
		c.happen(d)
		return judge(d, settled, c.to, 5*sec)
	})
	var worst errors
	for i, v := range verdicts {
		c := &cases[i]
		back := max(v.within[0], v.within[1]).Seconds()
		worst = append(worst, back)
		fails := func(is bool, what, format string, args ...any) {
			if is {
				m.fail(title+": "+what, "%s: %s", c.name, fmt.Sprintf(format, args...))
			}
		}
		fails(back > longest, "too long until within 1 ms",
			"A %v, B %v, last errors %.0f us", v.within[0], v.within[1], v.last)
		fails(v.lost > 6*sec, "no answer at the end", "%v", v.lost)
		fails(v.beyond > 8000, "error beyond the bound by 8 ms, later than 5 s", "%s", v.worst)
		for side, must := range c.counts {
			// The count tells callers where answers jump. At an end whose own clock
			// jumped far, the rate carried on over the jump may happen to be right.
			missed := must && v.off[side] && v.steps[side] < 1
			fails(missed, "not counted as a step", "by %c", 'A'+rune(side))
		}
	}
	if median == 0 {
		median = math.Inf(1)
	}
	m.judge(title+": within 1 ms, median, s", worst.median(), median, median)
	m.judge("  longest", worst.most(), longest, 1)
}

// TestSteps lets clocks step by any size, at either end in either direction.
func TestSteps(t *testing.T) {
	m := newMusts(t)
	rates := []struct {
		every  time.Duration
		median float64 // seconds
	}{
		{sec / 2, 0.6},
		{sec, 0.5},
		{2 * sec, 1.2},
	}
	for _, x := range rates[:testkit.Sized(1, 2, 3)] {
		var cases []faultCase
		for i, size := range stepSizes() {
			// A clock that is set ahead by nearly a ring of stamps passes for a silence of that
			// length, over which the skew carries the floors further than the rest of the step.
			if size.Abs() > 60*sec && foldTime(size).Abs() < 12*ms {
				continue
			}
			for k := range 4 {
				side := k & 1
				step := size
				if k&2 != 0 {
					step = -size
				}
				// Each way may show half of a step, and up to a millisecond may be a slew.
				seen := foldTime(step).Abs() >= 2200*us
				cases = append(cases, faultCase{
					name:   fmt.Sprintf("%c by %v, seed %d", 'A'+rune(side), step, i),
					seed:   uint64(i),
					to:     settled,
					counts: [2]bool{seen, seen},
					happen: func(d *duel) {
						d.reports = x.every
						d.step(side, settled, step)
					},
				})
			}
		}
		checkFaults(m, fmt.Sprintf("steps, reports every %v", x.every), cases, x.median, 1.5)
	}
}

// TestSuspends lets computers sleep: one alone, or both while only one's clock runs.
func TestSuspends(t *testing.T) {
	seconds := []time.Duration{
		2, 3, 5, 10, 20, 37, 60, 67, 90, 134, 200, 500, 1000, 3600, 5 * 3600, 86400, 2 * 86400,
	}
	if testing.Short() {
		seconds = []time.Duration{2, 3, 5, 10, 500, 1000}
	}
	var cases []faultCase
	for _, n := range seconds {
		length := n * sec
		both := length >= 500*sec
		for seed := range testkit.Sized[uint64](1, 3, 3) {
			for side := range 2 {
				cases = append(cases, faultCase{
					name: fmt.Sprintf("%c for %v, both asleep %v, seed %d",
						'A'+rune(side), length, both, seed),
					seed:   seed,
					to:     settled + length,
					counts: [2]bool{true, true},
					happen: func(d *duel) {
						d.suspend(side, settled, length, both)
						d.until += length
					},
				})
			}
		}
	}
	checkFaults(newMusts(t), "suspends", cases, 0, 2.1)
}

// TestRestarts replaces an end by one with another clock, which the other end is not
// told, or is told by Reset. Nobody counts a step who starts anew.
func TestRestarts(t *testing.T) {
	worlds := testkit.Sized[uint64](6, 40, 40)
	m := newMusts(t)
	for _, reset := range []bool{false, true} {
		var cases []faultCase
		for seed := range worlds {
			side := int(seed & 1)
			hash := (*seedFirst + seed) * 0x9e3779b97f4a7c15
			size := time.Duration(int64(hash) >> 14).Truncate(us) // +-6.5 days
			c := faultCase{
				name: fmt.Sprintf("%c by %v (%v modulo 67.1 s), seed %d",
					'A'+rune(side), size, foldTime(size), seed),
				seed:   seed,
				to:     settled,
				happen: func(d *duel) { d.restart(side, settled, size, reset) },
			}
			c.counts[1-side] = !reset && foldTime(size).Abs() >= ms
			cases = append(cases, c)
		}
		checkFaults(m, fmt.Sprintf("restarts, the other resets %v", reset), cases, 0, 1.6)
	}
}

// TestRoutes changes the path by 20 ms in one or both directions, or by 50 ms where a datagram goes
// each second. What both directions tell together moves no clock. Opposite changes at the same time
// are a step of a clock for all that anybody can see: there only the bound counts.
func TestRoutes(t *testing.T) {
	const by, longer = 20 * ms, 50 * ms
	type change struct {
		there, back, later time.Duration
		rate, most         float64       // so far may the offset be off, us
		seen               time.Duration // by then the minimum one-way delay is right
	}
	changes := []change{
		{longer, 0, 0, 1, 1e3, 30 * sec},
		{0, longer, 0, 1, 1e3, 30 * sec},
		{longer, longer, 0, 1, 1e3, 30 * sec},
	}
	for _, ways := range [][2]time.Duration{
		{-by, -by},
		{-by, 0},
		{-by, by},
		{0, -by},
		{0, by},
		{by, -by},
		{by, 0},
		{by, by},
	} {
		for _, later := range []time.Duration{0, 300 * ms, 3 * sec} {
			if later == 0 || ways[0] == ways[1] {
				changes = append(changes, change{ways[0], ways[1], later, 60, 150, 15 * sec})
			}
		}
	}
	m := newMusts(t)
	for _, c := range changes {
		name := fmt.Sprintf("%v there, %v back, %v later, %.0f/s", c.there, c.back, c.later, c.rate)
		at := settled
		if c.rate < 60 {
			at = 60 * sec
		}
		verdicts := eachSeed(testkit.Sized(1, 6, 6), func(seed uint64) verdict {
			d := faultWorld(seed)
			d.until = at + 2*c.seen
			for side, change := range []time.Duration{c.there, c.back} {
				d.ends[side].rate = c.rate
				d.route(side, at+time.Duration(side)*c.later, change)
			}
			return judge(d, at, at, 5*sec)
		})
		var moved, wrong errors
		for seed, v := range verdicts {
			moved = append(moved, v.moved[:]...)
			wrong = append(wrong, (max(v.owd[0], v.owd[1]) - c.later).Seconds())
			if v.beyond > 0 {
				m.fail("routes: error beyond the bound", "%s: %s", name, v.worst)
			}
			if v.steps != [2]int{} && c.there != -c.back {
				m.fail("routes: counted as a step", "%s, seed %d", name, seed)
			}
		}
		if c.there != -c.back {
			m.judge(name+": the offset moves by, us", moved.most(), c.most, c.most/2)
			seen := c.seen.Seconds()
			m.judge("  the minimum one-way delay is wrong by 1 ms for, s",
				wrong.most(), seen, seen/2)
		} else {
			m.note(name+": the offset moves by, us", moved.most())
		}
	}
}

// earlyStamps adds absurd stamps that are 1 to 200 ms too late: as if from datagrams that are
// faster than the path allows.
func earlyStamps(d *duel) {
	for at := 3 * sec; at < d.until; at += 1700 * ms {
		side := int(at/ms) & 1
		hash := uint64(at) * (d.seed + 1) * 0x9e3779b97f4a7c15
		by := time.Duration(hash>>40%200+1) * ms
		// Its random walk is another than the end's, by microseconds.
		sender := simnet.NewClock(d.ends[1-side].clock, 0)
		d.outlier(side, at, sim.Stamp(sender.Usec(at-30*ms+by)))
	}
}

// TestNuisances plays worlds with and without things that mean nothing: the answers stay right to 1
// ms, and within their bound.
func TestNuisances(t *testing.T) {
	seeds := testkit.Sized(1, 8, 8)
	nuisances := []struct {
		name string
		add  func(d *duel)
	}{
		{"nothing", func(*duel) {}},
		{"receive times that go back", func(d *duel) { d.swaps = 0.2 }},
		{"duplicates", func(d *duel) {
			for side := range d.ends {
				d.ends[side].out.Duplicate = 0.3
			}
		}},
		{"reordering", func(d *duel) { d.bothDelay(simnet.Exp(ms), simnet.Reorder(0.1, 50*ms)) }},
		{"absurd stamps", func(d *duel) {
			for at := 3 * sec; at < d.until; at += 1700 * ms {
				side := int(at/ms) & 1
				hash := uint64(at) * (d.seed + 1) * 0x9e3779b97f4a7c15
				d.outlier(side, at, uint32(hash>>40))
			}
		}},
		{"stamps a little early", earlyStamps},
	}
	m := newMusts(t)
	for _, n := range nuisances {
		eachOf(seeds, func(i int) {
			d := faultWorld(uint64(i))
			d.until = 40 * sec
			n.add(d)
			v := judge(d, 0, 0, 0)
			if v.beyond > 0 {
				m.fail(n.name+": error beyond the bound", "%s", v.worst)
			}
			if v.lost > 2*sec || max(v.within[0], v.within[1]) > 10*sec {
				m.fail(n.name+": wrong",
					"seed %d: no answer until %v, off by 1 ms until %v", i, v.lost, v.within)
			}
		})
	}
}
