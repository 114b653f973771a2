// These tests prove that the oracle is a limit. TestLimit of the report proves it in all worlds.

package play

import (
	"flag"
	"math"
	"os"
	"testing"
	"time"

	"timesync/internal/sim"
	"timesync/internal/stat"
)

// Programs run in the folder of the module.
func init() { os.Chdir("..") }

// TestOracle: without jitter the oracle errs by the rounding of stamps, although one clock
// is set by 3 s, runs 100 ppm fast and 2^26 us wrap meanwhile.
func TestOracle(t *testing.T) {
	sc := sim.Scenario{
		Name: "step", Duration: 2 * time.Minute,
		A: func(uint64) sim.ClockSpec {
			return sim.ClockSpec{SkewPPM: 100, Events: []sim.ClockEvent{{At: time.Minute, Step: 3 * time.Second}}}
		},
		B:  func(uint64) sim.ClockSpec { return sim.ClockSpec{OffsetUsec: 1 << 63} },
		AB: func(uint64) *sim.Link { return &sim.Link{Base: sim.Fixed(30 * time.Millisecond)} },
		BA: func(uint64) *sim.Link { return &sim.Link{Base: sim.Fixed(30 * time.Millisecond)} },
	}
	r := Measure(SimWorld(sc, Simulated, 1))[OracleName]
	if most := stat.OrNaN(r.Errs, 1); len(r.Errs) < 2000 || r.Missed > 0 || most > 8 {
		t.Errorf("%d answers, %d missed, errors up to %.0f us", len(r.Errs), r.Missed, most)
	}
}

var (
	oracleFirst  = flag.Uint64("seed.first", 0, "added to the seeds of TestCausalOracle, as to those of TestCoarse")
	oracleWorlds = flag.Int("worlds", 3, "worlds a scenario of TestCausalOracle")
)

// TestCausalOracle shows how much of the oracle is hindsight where clocks are coarse. Beside its 99th
// percentiles, us, are those of an oracle that has seen no more than what had arrived when it was asked.
func TestCausalOracle(t *testing.T) {
	for _, sc := range sim.CoarseScenarios() {
		var p99 [2]float64
		for i, causal := range []bool{false, true} {
			var errs []float64
			w := SimWorld(sc, Coarse, *oracleWorlds)
			for n := range uint64(*oracleWorlds) {
				seed := *oracleFirst + n + 1
				o := Oracle{causal: causal}
				o.Play(w, seed)
				o.answer(w.Events(seed), w.Warmup, func(o *sim.Observation) {
					if o.OK && o.At >= w.Warmup {
						errs = append(errs, math.Abs(o.Excess()))
					}
				})
			}
			p99[i] = stat.OrNaN(errs, 0.99)
		}
		t.Logf("%-24s %8.0f %8.0f", sc.Name, p99[0], p99[1])
		if p99[1] < 0.8*p99[0] {
			t.Errorf("%s: hindsight makes it worse", sc.Name)
		}
	}
}
