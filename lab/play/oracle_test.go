// These tests prove that the oracle is a limit. TestLimit of the report proves it in all worlds.

package play

import (
	"flag"
	"math"
	"testing"

	"timesync/internal/sim"
	"timesync/internal/testkit"
)

var (
	oracleFirst = flag.Uint64("seed.first", 0,
		"added to the seeds of TestCausalOracle, as to those of TestCoarse")
	oracleWorlds = flag.Int("worlds", 3, "worlds a scenario of TestCausalOracle")
)

// TestCausalOracle shows how much of the oracle is hindsight where clocks are coarse. Beside its
// 99th percentiles, us, are those of an oracle that has seen no more than what had arrived when
// it was asked.
func TestCausalOracle(t *testing.T) {
	for _, sc := range sim.CoarseScenarios() {
		var p99 [2]float64
		for i, causal := range []bool{false, true} {
			var errs []float64
			w := SimWorld(sc, Coarse, *oracleWorlds)
			for n := range uint64(*oracleWorlds) {
				seed, o := *oracleFirst+n+1, Oracle{causal: causal}
				o.Play(w, seed)
				o.answer(w.Events(seed), w.Warmup, func(o *sim.Observation) {
					if o.OK && o.At >= w.Warmup {
						errs = append(errs, math.Abs(o.Excess()))
					}
				})
			}
			p99[i] = testkit.OrNaN(errs, 0.99)
		}
		t.Logf("%-24s %8.0f %8.0f", sc.Name, p99[0], p99[1])
		if p99[1] < 0.8*p99[0] {
			t.Errorf("%s: hindsight makes it worse", sc.Name)
		}
	}
}
