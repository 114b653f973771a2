// These tests prove that the oracle is a limit, and that its parts are worked out right.

package main

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"timesync/internal/sim"
)

// TestLimit: the oracle is a limit where nothing is forged. In no simulated world is a
// method better than it by more than the rounding of a stamp; where one way slows down for 100 s or
// queues for 150 s, and the rates of the clocks change meanwhile, a straight line is the limit to a
// fifth only.
func TestLimit(t *testing.T) {
	f := figuresOf(t)
	for _, i := range f.of(simulated) {
		limit := f.value(i, len(methods), 0.99)
		least := limit - 8
		if name := f.worlds[i].name; name == "delayramp" || name == "standingqueue" {
			least -= limit / 5
		}
		for column, m := range methods {
			if v := f.value(i, column, 0.99); v < least {
				t.Errorf("%s: %s %.0f us, the oracle %.0f us", f.worlds[i].name, m.name, v, limit)
			}
		}
		if r := f.results[i][len(methods)]; r.missed > 0 {
			t.Errorf("%s: the oracle has no answer to %d questions", f.worlds[i].name, r.missed)
		}
	}
}

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
	results := make([]result, len(methods)+1)
	playSeed(simWorld(sc, simulated, 1), 1, results, nil)
	r := results[len(methods)]
	if len(r.errs) < 2000 || r.missed > 0 {
		t.Fatalf("%d answers, %d missed", len(r.errs), r.missed)
	}
	for _, err := range r.errs {
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

// TestInside: the fields that the plot of one world shows exist, and mean what it says.
func TestInside(t *testing.T) {
	w, err := find("clockstep", "")
	if err != nil {
		t.Fatal(err)
	}
	d := keep(w, 1)
	last := d.moments[len(d.moments)-1]
	if math.Abs(math.Abs(last.in.skew)-40) > 5 {
		t.Errorf("skew %.1f ppm in a world of 40", last.in.skew)
	}
	if trip := circle(last.in.own+last.in.peer, 27); trip < 50e3 || trip > 70e3 || math.Abs(trip-last.in.trip) > 200 {
		t.Errorf("round trip %.0f us, trusted %.0f us", trip, last.in.trip)
	}
	if len(d.seen) != 1 || last.in.gate < 100 || last.in.noise <= 0 {
		t.Errorf("steps at %v, gate %.0f us, noise %.0f us", d.seen, last.in.gate, last.in.noise)
	}
	if err := d.draw(filepath.Join(t.TempDir(), "world.png"), "clockstep"); err != nil {
		t.Error(err)
	}
}
