// These tests prove that the error bound returns to what it was after a fault, and that what
// the documentation advises about it holds.

package simtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"timesync/internal/long"
	"timesync/internal/sim"
	"timesync/internal/stat"
)

// Tests of the error bound in worlds in which one thing happens: what means nothing
// for it must not widen it, after what does it must come back, and callers who wait
// for it must be right.

// boundWorldWith is a faultWorld with exponential jitter of the given mean.
func boundWorldWith(seed uint64, jitter time.Duration) *duel {
	d := faultWorld(seed)
	for side := range d.ends {
		d.ends[side].out.Delay = sim.Exp(jitter)
	}
	return d
}

// eachSeed returns what f says of each seed below n, from all processors.
func eachSeed[T any](n int, f func(seed uint64) T) []T {
	results := make([]T, n)
	eachOf(n, func(i int) {
		results[i] = f(uint64(i))
	})
	return results
}

// greatestBound plays a world and returns the greatest bound of both ends between two
// times, in microseconds: infinite if a question has no answer. fail is told of answers
// beyond their bound.
func greatestBound(d *duel, from, to time.Duration, fail func(q *query)) float64 {
	greatest := math.NaN()
	d.onQuery = func(q *query) {
		if q.at < from || q.at > to {
			return
		}
		bound := q.bound
		if !q.ok {
			bound = math.Inf(1)
		} else if q.excess() > 0 {
			fail(q)
		}
		if !(greatest >= bound) {
			greatest = bound
		}
	}
	d.run()
	return greatest
}

// stall holds back what is sent within lasting from a time on: it all arrives together.
func stall(from, lasting time.Duration) sim.Delay {
	return func(_ *rand.Rand, t time.Duration) time.Duration {
		if t < from || t > from+lasting {
			return 0
		}
		return from + lasting - t
	}
}

// TestBoundWidening compares the bound with that of the same world without what only
// delays or loses datagrams: that sets no clock, so it must hardly widen the bound.
func TestBoundWidening(t *testing.T) {
	n := long.Sized(2, 4, 16)
	const jitter = 100 * us
	disturbances := []struct {
		name    string
		lasting time.Duration
		add     func(d *duel)
	}{
		{"a stall of 150 ms one way", 150 * ms, func(d *duel) {
			d.ends[1].out.Delay = sim.Sum(sim.Exp(jitter), stall(settled, 150*ms))
		}},
		{"a stall of 150 ms both ways", 150 * ms, func(d *duel) {
			for side := range d.ends {
				d.ends[side].out.Delay = sim.Sum(sim.Exp(jitter), stall(settled, 150*ms))
			}
		}},
		{"a queue of 100 ms for 150 s one way", 150 * sec, func(d *duel) {
			d.ends[0].out.Delay = sim.Sum(sim.Exp(jitter), sim.StandingQueue(settled, 150*sec, 100*ms))
		}},
		{"jitter of 3 ms from the start", 20 * sec, func(d *duel) {
			for side := range d.ends {
				d.ends[side].out.Delay = sim.Exp(3 * ms)
			}
		}},
		{"jitter of 3 ms that comes", 60 * sec, func(d *duel) {
			for side := range d.ends {
				little, much := sim.Exp(jitter), sim.Exp(3*ms)
				d.ends[side].out.Delay = func(r *rand.Rand, t time.Duration) time.Duration {
					if t > settled && t < settled+60*sec {
						return much(r, t)
					}
					return little(r, t)
				}
			}
		}},
		{"60 s of silence both ways", 60 * sec, func(d *duel) {
			for side := range d.ends {
				d.ends[side].out.Loss = sim.Silence(sim.Window{From: settled, To: settled + 60*sec})
			}
		}},
	}
	m := musts{t: t}
	var f failures
	for _, x := range disturbances {
		var plain float64
		ratios := eachSeed(n, func(seed uint64) float64 {
			to := settled + x.lasting + 20*sec
			play := func(add func(d *duel)) float64 {
				d := boundWorldWith(seed, jitter)
				d.until = to
				add(d)
				return greatestBound(d, settled, to, func(q *query) {
					f.add("error beyond the bound", "%s, seed %d at %.3f s: %.0f us, bound %.0f us", x.name, seed, q.at.Seconds(), q.err, q.bound)
				})
			}
			without := play(func(*duel) {})
			if seed == 0 {
				plain = without
			}
			return play(x.add)/without - 1
		})
		m.judge("wider by, after "+x.name, slices.Max(ratios), 0.25, 0.1)
		m.note("  bound without it, us", plain)
	}
	loopback := eachSeed(n, func(seed uint64) float64 {
		d := boundWorldWith(seed, 5*us)
		for side := range d.ends {
			d.ends[side].out.Base = sim.Fixed(30 * us)
		}
		return greatestBound(d, 10*sec, d.until, func(q *query) {
			f.add("error beyond the bound", "loopback, seed %d at %.3f s: %.0f us, bound %.0f us", seed, q.at.Seconds(), q.err, q.bound)
		})
	})
	m.note("bound on loopback, round trip 60 us, after 10 s at most, us", slices.Max(loopback))
	t.Logf("worst of %d worlds", n)
	m.log()
	f.report(t)
}

// boundBack plays a world in which something happens to a clock between two times. It
// returns how long after that the bound of each end is, for good, at most twice what
// it was before. The 200 us on top are for short paths, see boundUse. A bound that the
// truth is far outside of has not noticed yet.
func boundBack(d *duel, from, to time.Duration) (back [2]time.Duration) {
	var before [2]float64
	d.onQuery = func(q *query) {
		switch {
		case q.at < from-2*sec:
		case q.at < from:
			before[q.side] = max(before[q.side], q.bound)
		case q.at >= to && (!q.ok || q.bound > 2*before[q.side]+200 || q.excess() > 1000):
			back[q.side] = q.at - to
		}
	}
	d.run()
	return back
}

// boundCase is a world in which a clock is set.
type boundCase struct {
	name  string
	to    time.Duration // when it is over
	build func() *duel
}

// boundBacks plays the cases. It returns the times until the bounds are back, all of
// both ends in order, and how many ends take longer than 15 s.
func boundBacks(cases []boundCase) (backs []time.Duration, slow int) {
	for _, back := range eachSeed(len(cases), func(i uint64) [2]time.Duration {
		return boundBack(cases[i].build(), settled, cases[i].to)
	}) {
		backs = append(backs, back[:]...)
		for _, b := range back {
			if b > 15*sec {
				slow++
			}
		}
	}
	slices.Sort(backs)
	return backs, slow
}

// TestBoundReturns: once both ends have seen that a clock was set, the bound is what
// it was.
func TestBoundReturns(t *testing.T) {
	n := long.Sized(30, 30, 240)
	const until = settled + 25*sec
	world := func(i int) *duel {
		d := faultWorld(uint64(i))
		d.until = until
		d.reports = []time.Duration{sec / 2, sec, 2 * sec}[i%3]
		return d
	}
	kinds := []struct {
		name string
		make func(i int, r *rand.Rand) boundCase
	}{
		{"step", func(i int, r *rand.Rand) boundCase {
			size := time.Duration(math.Pow(7.2e5, r.Float64()) * 5 * float64(ms)) // 5 ms to 1 h
			if i&2 != 0 {
				size = -size
			}
			return boundCase{fmt.Sprintf("by %v", size), settled, func() *duel {
				d := world(i)
				d.step(i&1, settled, size)
				return d
			}}
		}},
		{"suspend", func(i int, r *rand.Rand) boundCase {
			lasting := time.Duration(math.Pow(100, r.Float64()) * 2 * float64(sec)) // 2 to 200 s
			return boundCase{fmt.Sprintf("for %v", lasting), settled + lasting, func() *duel {
				d := world(i)
				d.until += lasting
				d.suspend(i&1, settled, lasting, false)
				return d
			}}
		}},
		{"restart", func(i int, r *rand.Rand) boundCase {
			size := time.Duration(r.Int64N(int64(1000 * time.Hour)))
			return boundCase{fmt.Sprintf("by %v", size), settled, func() *duel {
				d := world(i)
				d.restart(i&1, settled, size, i&2 != 0)
				return d
			}}
		}},
	}
	m := musts{t: t}
	for _, kind := range kinds {
		r := newRand(*seedFirst+1, 'b')
		var cases []boundCase
		for i := range n {
			c := kind.make(i, r)
			c.name = fmt.Sprintf("%s of %c %s, seed %d", kind.name, 'A'+rune(i&1), c.name, i)
			cases = append(cases, c)
		}
		backs, slow := boundBacks(cases)
		at := func(q float64) float64 { return stat.Quantile(backs, q).Seconds() }
		m.judge("bound back after a "+kind.name+", s, median", at(0.5), 2, 1)
		m.judge("  the same, p90", at(0.9), 8, 2)
		m.note("  the same, the slowest", at(1))
		m.misses("  ends of a hundred that take longer than 15 s", 100*float64(slow)/float64(len(backs)), 0, 1)
	}

	// Never stuck.
	sizes, stuck := []time.Duration{5 * ms, 20 * ms, 70 * ms, 300 * ms, sec, 5 * sec, 30 * sec, 100 * sec, time.Hour}, 5.0
	if !*long.Flag {
		sizes, stuck = sizes[:2], 10 // the hard ones
	}
	var cases []boundCase
	for _, size := range sizes {
		for k := range 4 {
			side, size := k&1, size
			if k&2 != 0 {
				size = -size
			}
			for _, rate := range []float64{10, 60} {
				for _, jitter := range []time.Duration{100 * us, 4 * ms} {
					for _, delay := range []time.Duration{73 * us, ms, 10 * ms, 50 * ms} {
						name := fmt.Sprintf("%c by %v, %.0f/s, jitter %v, delay %v, seed %d", 'A'+rune(side), size, rate, jitter, delay, len(cases))
						seed := uint64(len(cases))
						cases = append(cases, boundCase{name, settled, func() *duel {
							d := boundWorldWith(seed, jitter)
							d.until = until
							for side := range d.ends {
								d.ends[side].rate = rate
								d.ends[side].out.Base = sim.Fixed(delay)
							}
							d.step(side, settled, size)
							return d
						}})
					}
				}
			}
		}
	}
	backs, slow := boundBacks(cases)
	m.note("the same after steps in all kinds of worlds, median", backs[len(backs)/2].Seconds())
	m.note("  the same, the slowest", backs[len(backs)-1].Seconds())
	// All of them have 10 datagrams a second that queue for 4 ms on a path of 1 ms and less.
	m.misses("  ends of a hundred that take longer than 15 s", 100*float64(slow)/float64(len(backs)), 0, stuck)
	t.Logf("%d worlds of each kind, then %d, both ends of each", n, len(cases))
	m.log()
}
