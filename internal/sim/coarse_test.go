// These tests prove how accurate the offset is where clocks advance in steps, and that the error
// bound holds there.

package sim_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"timesync/internal/long"
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

var coarseWorlds = long.Count("coarse.worlds", "random worlds of TestCoarseBound", 500, 1500, 10_000)

// coarsen gives the clocks of a random world steps.
func coarsen(d *duel) (largest time.Duration) {
	r := newRand(d.seed, 'k')
	for side := range d.ends {
		step := []time.Duration{0, 5 * us, 100 * us, ms, 15600 * us}[r.IntN(5)]
		if step == 0 {
			continue
		}
		d.ends[side].clock.Coarse = sim.Coarse{Step: step, Phase: phase(r, step), Jittered: r.IntN(4) == 0}
		largest = max(largest, step)
	}
	return largest
}

func phase(r *rand.Rand, step time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(step))).Truncate(us)
}

// coarseBound is what one of the random worlds says about the bound.
type coarseBound struct {
	answers, beyond int     // 15 s after a clock event
	bound           float64 // the last, us
	worst           string
	by              float64
}

func playCoarse(seed uint64, coarse bool) (b coarseBound, quiet bool, largest time.Duration) {
	d, _ := randomWorld(seed)
	if coarse {
		largest = coarsen(d)
	}
	d.onQuery = func(q *query) {
		if !q.ok {
			return
		}
		b.bound = q.bound
		if q.stale || q.since < boundAges[0].age {
			return
		}
		b.answers++
		if x := q.excess(); x > 0 {
			if b.beyond++; x > b.by {
				b.by = x
				b.worst = fmt.Sprintf("seed %d, clocks of %v and %v: %c at %.3f s is off by %.0f us, bound %.0f us%v", seed,
					d.ends[0].clock.Coarse, d.ends[1].clock.Coarse, 'A'+rune(q.side), q.at.Seconds(), q.err, q.bound, d)
			}
		}
	}
	d.run()
	return b, len(d.jumps)+len(d.slews) == 0, largest
}

// TestCoarseBound: the error bound holds in the worlds of TestErrorBound as often where each clock
// has steps of 0, 5 us, 100 us, 1 ms or 15.6 ms, and is wider by the larger step at most.
func TestCoarseBound(t *testing.T) {
	n := coarseWorlds()
	var mu sync.Mutex
	var sum [2]coarseBound
	var wider errors // in steps; 200 us are free, as in boundUse
	worlds := [2]int{}
	worst := []coarseBound{}
	eachOf(n, func(i int) {
		seed := *seedFirst + uint64(i) + 46_000_001
		fine, quiet, _ := playCoarse(seed, false)
		coarse, _, largest := playCoarse(seed, true)
		mu.Lock()
		defer mu.Unlock()
		for k, b := range []coarseBound{fine, coarse} {
			sum[k].answers += b.answers
			sum[k].beyond += b.beyond
			if b.beyond > 0 {
				worlds[k]++
			}
		}
		if coarse.beyond > 0 && fine.beyond == 0 {
			worst = append(worst, coarse)
		}
		if quiet && largest >= 100*us && fine.bound > 0 && coarse.bound > 0 {
			wider = append(wider, (coarse.bound-fine.bound-200)/float64(largest/us))
		}
	})
	slices.Sort(wider)
	slices.SortFunc(worst, func(a, b coarseBound) int { return -cmp.Compare(a.by, b.by) })
	for _, b := range worst[:min(len(worst), 5)] {
		t.Log(b.worst)
	}
	for k, what := range []string{"fine", "coarse"} {
		t.Logf("-seed.first %d, %d worlds, %s clocks: %d of %d answers beyond the bound, in %d worlds", *seedFirst, n, what, sum[k].beyond, sum[k].answers, worlds[k])
	}
	t.Logf("%d of them only with coarse clocks; the bound is wider, in steps: median %.2f, 95 %% %.2f, 99 %% %.2f, most %.2f; by more than a step in %d of %d",
		len(worst), wider.quantile(0.5), wider.quantile(0.95), wider.quantile(0.99), wider.quantile(1),
		len(wider)-func() int { i, _ := slices.BinarySearch(wider, 1.0); return i }(), len(wider))
}
