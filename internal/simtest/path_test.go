// This test proves that a path is found which few datagrams take.

package simtest

import (
	"math/rand/v2"
	"testing"
	"time"

	"timesync/internal/sim"
)

// slots returns a delay as the scheduler of a cellular network gives it: a datagram waits for one
// of few slots. One in six waits for the first slot only, never two in a row, and none in the first
// second.
func slots() sim.Delay {
	fast := false
	return func(r *rand.Rand, t time.Duration) time.Duration {
		if fast = t > sec && !fast && r.IntN(6) == 0; fast {
			return time.Duration(r.IntN(2)) * 167 * us
		}
		return 3*ms + time.Duration(r.IntN(7)*r.IntN(7))*333*us
	}
}

// TestFewFastDatagrams: datagrams that are faster than the path seemed to allow come back all the
// time, but never three in a row. They are the path, and the time must not stay wrong by half of
// what the others wait for.
func TestFewFastDatagrams(t *testing.T) {
	m := newMusts(t)
	for _, rate := range []float64{60, 200} {
		sc := oscillating(20*ms, 0, rate, quiet)
		sc.AB = func(uint64) *sim.Link { return &sim.Link{Base: sim.Fixed(20 * ms), Delay: slots()} }
		sc.Duration, sc.Warmup = 120*sec, 30*sec
		r := measure(sc, scorePairs, 12)
		m.judge("few fast datagrams: p99 error, us", r[1].poll.p99(), 60, 30)
		m.note("  the original's", r[0].poll.p99())
	}
}
