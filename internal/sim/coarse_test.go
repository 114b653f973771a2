// These tests prove how accurate the offset is where clocks advance in steps, and that the error
// bound holds there.

package sim_test

import (
	"fmt"
	"strings"
	"testing"

	"timesync/internal/sim"
)

// coarseLimits are what the 99th percentile must be and what it should be, us, where one clock is
// coarse and there are 60 datagrams a second.
var coarseLimits = map[string][2]float64{"coarse-100us": {40, 25}, "coarse-1ms": {120, 60}, "coarse-15.6ms": {700, 450}}

// TestCoarse prints the table of all methods where clocks are coarse. The original has the same
// clock, and the same times of receipt.
func TestCoarse(t *testing.T) {
	worldsEach := worlds()
	scenarios := chosen(sim.CoarseScenarios())
	results := measureAll(scenarios, worldsEach)
	t.Logf("-seed.first %d, %d worlds a scenario\n%s", *seedFirst, worldsEach, accuracyTable(scenarios, results))
	m := musts{t: t}
	for i, sc := range scenarios {
		original, ours := results[i][0].poll.quantile(0.99), results[i][len(results[i])-1].poll.quantile(0.99)
		if limit, ok := coarseLimits[sc.Name]; ok && !testing.Short() { // one world says little
			m.judge(sc.Name+", p99 of the error, us", ours, limit[0], limit[1])
		}
		if strings.HasSuffix(sc.Name, "both") {
			continue
		}
		if ours > 1.1*original+25 {
			t.Errorf("%s: p99 error %.0f us, the original's %.0f us", sc.Name, ours, original)
		}
	}
	m.log()
}

// TestRoundedUp shows what it is worth that times of receipt are rounded up: for the table in
// docs/PRODUCTION.md.
func TestRoundedUp(t *testing.T) {
	seeds := worlds()
	var s strings.Builder
	for _, name := range []string{"coarse-100us", "coarse-1ms", "coarse-15.6ms"} {
		var p99 [2]float64
		for i, down := range []bool{true, false} {
			sc := sim.ScenarioNamed(name)
			clock := sc.A
			sc.A = func(seed uint64) sim.ClockSpec {
				spec := clock(seed)
				spec.Coarse.RoundDown = down
				return spec
			}
			p99[i] = measure(sc, alone, seeds)[0].poll.quantile(0.99)
		}
		fmt.Fprintf(&s, "%-22s %8.0f %8.0f\n", name, p99[0], p99[1])
		if p99[1] > p99[0]/2+10 {
			t.Errorf("%s: rounded up %.0f us, down %.0f us", name, p99[1], p99[0])
		}
	}
	t.Logf("-seed.first %d, %d worlds: p99 of the error, us, times of receipt rounded down and up\n%s", *seedFirst, seeds, s.String())
}
