// These tests prove that the error bound returns to what it was after a fault, and that what
// the documentation advises about it holds.

package simtest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"timesync/internal/long"
	"timesync/internal/sim"
)

// Tests of the error bound in worlds in which one thing happens: what means nothing
// for it must not widen it, after what does it must come back, and callers who wait
// for it must be right.

// boundWorldWith is a faultWorld with exponential jitter of the given mean.
func boundWorldWith(seed uint64, jitter time.Duration) *duel {
	d := faultWorld(seed)
	d.bothDelay(sim.Exp(jitter))
	return d
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
			d.bothDelay(sim.Sum(sim.Exp(jitter), stall(settled, 150*ms)))
		}},
		{"a queue of 100 ms for 150 s one way", 150 * sec, func(d *duel) {
			d.ends[0].out.Delay = sim.Sum(sim.Exp(jitter), sim.StandingQueue(settled, 150*sec, 100*ms))
		}},
		{"jitter of 3 ms from the start", 20 * sec, func(d *duel) {
			d.bothDelay(sim.Exp(3 * ms))
		}},
		{"jitter of 3 ms that comes", 60 * sec, func(d *duel) {
			little, much := sim.Exp(jitter), sim.Exp(3*ms)
			d.bothDelay(func(r *rand.Rand, t time.Duration) time.Duration {
				if t > settled && t < settled+60*sec {
					return much(r, t)
				}
				return little(r, t)
			})
		}},
		{"60 s of silence both ways", 60 * sec, func(d *duel) {
			for side := range d.ends {
				d.ends[side].out.Loss = sim.Silence(sim.Window{From: settled, To: settled + 60*sec})
			}
		}},
	}
	m := newMusts(t)
	for _, x := range disturbances {
		var plain float64
		ratios := eachSeed(n, func(seed uint64) float64 {
			to := settled + x.lasting + 20*sec
			play := func(add func(d *duel)) float64 {
				d := boundWorldWith(seed, jitter)
				d.until = to
				add(d)
				return greatestBound(d, settled, to, func(q *query) {
					m.fail("error beyond the bound", "%s, seed %d at %.3f s: %.0f us, bound %.0f us", x.name, seed, q.at.Seconds(), q.err, q.bound)
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
			m.fail("error beyond the bound", "loopback, seed %d at %.3f s: %.0f us, bound %.0f us", seed, q.at.Seconds(), q.err, q.bound)
		})
	})
	m.note("bound on loopback, round trip 60 us, after 10 s at most, us", slices.Max(loopback))
	t.Logf("worst of %d worlds", n)
}
