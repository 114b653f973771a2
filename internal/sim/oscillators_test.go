// This test proves how well skews are followed that change, on a LAN and on a longer path.

package sim_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"timesync/internal/sim"
)

const strong, quiet = 8, 2 // ppm

// oscillators are paths and clocks, and what p99 must be and should be there, us.
var oscillators = []struct {
	name         string
	base, jitter time.Duration
	rate, ppm    float64
	must, aim    float64
}{
	{"LAN, 0.1 ms of jitter, strong wander, 60/s", 200 * us, 100 * us, 60, strong, 16, 7},
	{"LAN, 0.1 ms of jitter, strong wander, 16/s", 200 * us, 100 * us, 16, strong, 30, 14},
	{"LAN, 0.1 ms of jitter, strong wander, 1/s", 200 * us, 100 * us, 1, strong, 76, 58},
	{"LAN, 0.1 ms of jitter, quiet, 60/s", 200 * us, 100 * us, 60, quiet, 7, 5},
	{"LAN, 0.1 ms of jitter, quiet, 16/s", 200 * us, 100 * us, 16, quiet, 9, 8},
	{"LAN, 5 us of jitter, quiet, 60/s", 200 * us, 5 * us, 60, quiet, 6, 1},
	{"20 ms, 3 ms of jitter, strong wander, 60/s", 20 * ms, 3 * ms, 60, strong, 40, 30},
	{"20 ms, 3 ms of jitter, strong wander, 10/s", 20 * ms, 3 * ms, 10, strong, 150, 80},
}

// TestOscillators plays clocks whose temperature moves their rates by 8 ppm in 10 min, as
// that of a warming laptop does, or by 2 ppm in 15 min.
func TestOscillators(t *testing.T) {
	worlds := 8
	if testing.Short() {
		worlds = 2
	}
	m := musts{t: t}
	for _, c := range oscillators {
		r := measure(oscillating(c.base, c.jitter, c.rate, c.ppm), alone, worlds)
		m.judge(c.name+": p99, us", r[0].poll.quantile(0.99), c.must, c.aim)
		m.note("  median", r[0].poll.quantile(0.5))
	}
	m.log()
}

// oscillating is a world whose clocks are 40 ppm apart and move by ppm, as their temperature
// does.
func oscillating(base, jitter time.Duration, rate, ppm float64) sim.Scenario {
	period := 600 * sec
	if ppm < 5 {
		period = 900 * sec
	}
	clock := func(side uint64, skew float64) func(uint64) sim.ClockSpec {
		return func(seed uint64) sim.ClockSpec {
			r := rand.New(rand.NewPCG(seed, side))
			return sim.ClockSpec{OffsetUsec: r.Uint64(), SkewPPM: skew, SinePPM: ppm, SinePeriod: period,
				SinePhase: 2 * math.Pi * r.Float64(), WanderPPM: 0.01}
		}
	}
	link := func(uint64) *sim.Link { return &sim.Link{Base: sim.Fixed(base), Delay: sim.Exp(jitter)} }
	return sim.Scenario{Duration: 300 * sec, Warmup: 30 * sec, A: clock(0, 20), B: clock(1, -20), AB: link, BA: link, RateAB: rate, RateBA: rate}
}
