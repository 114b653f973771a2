// These tests prove that the oracle is a limit, and that its parts are worked out right.

package play

import (
	"math"
	"os"
	"slices"
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
	if len(r.Errs) < 2000 || r.Missed > 0 {
		t.Fatalf("%d answers, %d missed", len(r.Errs), r.Missed)
	}
	for _, err := range r.Errs {
		if err > 8 {
			t.Fatalf("error %.0f us", err)
		}
	}
}

// TestHull: no point is below the hull, and its slopes rise.
func TestHull(t *testing.T) {
	var ps []point
	for i := range 200 {
		ps = append(ps, point{at: time.Duration(i) * time.Second, delta: math.Abs(float64(i)-90) + 40*math.Abs(math.Sin(float64(i*i)))})
	}
	h := hull(ps)
	if len(h) < 3 || h[0] != ps[0] || h[len(h)-1] != ps[len(ps)-1] {
		t.Fatalf("%v", h)
	}
	slope := func(a, b point) float64 { return (b.delta - a.delta) / (b.at - a.at).Seconds() }
	for i := 2; i < len(h); i++ {
		if slope(h[i-2], h[i-1]) >= slope(h[i-1], h[i]) {
			t.Errorf("not convex at %v", h[i-1].at)
		}
	}
	for i := 1; i < len(h); i++ {
		for _, p := range ps {
			if p.at > h[i-1].at && p.at < h[i].at && slope(h[i-1], p) < slope(h[i-1], h[i])-1e-9 {
				t.Errorf("%v is below the hull", p)
			}
		}
	}
}

// TestCausalOracle shows how much of the oracle is hindsight where clocks are coarse. Beside its 99th
// percentiles, us, are those of an oracle that has seen no more than what had arrived when it was asked.
func TestCausalOracle(t *testing.T) {
	const seeds = 3
	for _, sc := range sim.CoarseScenarios() {
		var p99 [2]float64
		for i, causal := range []bool{false, true} {
			var errs []float64
			w := SimWorld(sc, Coarse, seeds)
			for seed := range uint64(seeds) {
				o := Oracle{causal: causal}
				w.Play(1+seed, []sim.Pair{{Name: OracleName, A: &o.Ends[0], B: &o.Ends[1]}}, sim.Observer{Poll: o.Asked, OWD: o.Heard})
				o.Answer(0, w.Events(1+seed), w.warmup, func(o *sim.Observation) {
					if o.OK && o.At >= w.warmup {
						errs = append(errs, math.Abs(o.Excess()))
					}
				})
			}
			slices.Sort(errs)
			p99[i] = stat.OrNaN(errs, 0.99)
		}
		t.Logf("%-24s %8.0f %8.0f", sc.Name, p99[0], p99[1])
		if p99[1] < 0.8*p99[0] {
			t.Errorf("%s: hindsight makes it worse", sc.Name)
		}
	}
}
