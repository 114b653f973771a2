// These tests prove that the oracle is a limit, and that its parts are worked out right.

package play

import (
	"math"
	"os"
	"testing"
	"time"

	"timesync/internal/sim"
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
	r := Measure(SimWorld(sc, Simulated, 1), 1)[OracleName]
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
