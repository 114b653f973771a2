// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

// These tests prove that the real chronyd is given the worlds that the other methods get.

package main

import (
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"timesync/compare/kept"
	"timesync/compare/play"
	"timesync/internal/sim"
	"timesync/internal/stat"
)

var clknetsim = flag.String("clknetsim", "", "a built checkout of clknetsim; without it, chronyd itself is not tested")

// lanRun returns a run in the first world.
func lanRun(t *testing.T) chronyRun {
	t.Helper()
	worlds, err := play.AllChronydWorlds()
	if err != nil {
		t.Fatal(err)
	}
	worlds[1].Duration = time.Minute // 16 polls a second
	return chronyRun{w: &worlds[1]}
}

// values reads one number from each line.
func values(t *testing.T, lines string) (v []float64) {
	t.Helper()
	for line := range strings.Lines(lines) {
		x, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
		if err != nil {
			t.Fatal(err)
		}
		v = append(v, x)
	}
	return v
}

// TestChronyClocks: rates and steps add up to the readings that sim.Run's clocks of that seed
// have, also where one of them is set by 5 ms.
func TestChronyClocks(t *testing.T) {
	worlds, err := play.AllChronydWorlds()
	if err != nil {
		t.Fatal(err)
	}
	const seed = 7
	for _, name := range []string{worlds[0].Name, "slew", "clockstep"} {
		w := &worlds[slices.IndexFunc(worlds, func(w play.ChronydWorld) bool { return w.Name == name })]
		r := chronyRun{w: w}
		var first, offset int64 // of B to A, as sim.Run has it
		var last time.Duration
		pair := sim.Pair{A: &play.OracleEnd{}, B: &play.OracleEnd{}}
		sim.Run(w.Scenario, seed, []sim.Pair{pair}, sim.Observer{Poll: func(o *sim.Observation) {
			if o.Side == sim.A {
				last, offset = o.At, int64(pair.A.(*play.OracleEnd).Near-o.LocalUsec)
				if first == 0 {
					first = offset
				}
			}
		}})
		sum := 0.0
		a, b := r.rates(sim.A, seed), r.rates(sim.B, seed)
		rates, steps := [2][]float64{values(t, a[0]), values(t, b[0])}, [2][]float64{values(t, a[1]), values(t, b[1])}
		for i := range int(last.Seconds() * play.ChronydRate) {
			sum += (rates[1][i]-rates[0][i])*1e6/play.ChronydRate + (steps[1][i]-steps[0][i])*1e6
		}
		// Up to a step of the rates, 0.1 s of 60 ppm, is missing at either end.
		if math.Abs(sum-float64(offset-first)) > 16 || math.Abs(sum) < 1000 {
			t.Errorf("%s: after %v the clocks of clknetsim are %.0f us further apart, those of sim.Run %d", name, last, sum, offset-first)
		}
	}
}

// TestChronyDelays: their mean is that of the world, and what is lost is -1.
func TestChronyDelays(t *testing.T) {
	r := lanRun(t)
	for _, lines := range r.delays(1) {
		v := values(t, lines)
		mean := 0.0
		for _, x := range v {
			mean += x / float64(len(v))
		}
		if len(v) < 16*60 || math.Abs(mean-300e-6) > 20e-6 {
			t.Errorf("%d delays, mean %.0f us, want 300", len(v), mean*1e6)
		}
	}
	lost := *r.w
	lost.AB = func(uint64) *sim.Link { return &sim.Link{Loss: sim.Bernoulli(0.5)} }
	r.w = &lost
	d := r.delays(1)
	requests, responses := values(t, d[sim.A]), values(t, d[sim.B])
	requests = slices.DeleteFunc(requests, func(v float64) bool { return v == -1 })
	if len(requests) != len(responses) || len(responses) < 16*20 || len(responses) > 16*50 {
		t.Errorf("of 1152 requests every second is lost; %d arrive, and %d are answered", len(requests), len(responses))
	}
}

// TestChronyOffsets: half of what unequal paths differ by is taken off, and a simulation that
// ended early is no result.
func TestChronyOffsets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "offsets")
	r := lanRun(t)
	n := int(r.w.Duration.Seconds() * play.ChronydRate)
	text := strings.Repeat("0.000001\t-0.000002\n", n)
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	errs, err := r.readOffsets(path, 1)
	if err != nil || len(errs) != n || math.Abs(errs[n-1]-3) > 1e-9 {
		t.Errorf("%d errors, %v, want %d of 3 us", len(errs), err, n)
	}
	unequal := *r.w
	unequal.BA = func(uint64) *sim.Link { return &sim.Link{Base: sim.Fixed(204 * time.Microsecond)} }
	r.w = &unequal
	if errs, err = r.readOffsets(path, 1); err != nil || math.Abs(errs[0]-1) > 1e-9 {
		t.Errorf("errors %v, %v, want 1 us, since the way back is longer by 4 us", errs[:1], err)
	}
	write(text[:len(text)/2])
	if _, err := r.readOffsets(path, 1); err == nil {
		t.Error("a simulation that ended early passes")
	}
}

// TestChronyFiles: what is written is read again.
func TestChronyFiles(t *testing.T) {
	dir := t.TempDir()
	c := &kept.Chronyd{
		Figures: []kept.ChronydFigures{{Set: play.Simulated, World: "ideal", Version: "4.3", Tried: 58, Setting: "filter 4", Best: kept.QuantilesOf([]float64{3}), Stock: kept.QuantilesOf([]float64{5, 8.5})}},
		Series:  map[string]play.Seconds{"ideal": {1, 2.5}},
	}
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := kept.ChronydIn(os.DirFS(dir))
	if err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("%+v, %v", got, err)
	}
	if v := got.P99(play.Simulated, "ideal"); v != 3 {
		t.Errorf("p99 %g", v)
	}
	if v := got.P99(play.Simulated, "wander"); !math.IsNaN(v) {
		t.Errorf("p99 %g of a world that was not measured", v)
	}
	if empty, err := kept.ChronydIn(os.DirFS(t.TempDir())); err != nil || len(empty.Figures) > 0 {
		t.Errorf("%+v, %v", empty, err)
	}
}

// TestChronyd runs chronyd itself. On a quiet LAN it is right to some microseconds.
func TestChronyd(t *testing.T) {
	if _, err := exec.LookPath("chronyd"); err != nil || *clknetsim == "" {
		t.Skip("needs chronyd, and -clknetsim FOLDER")
	}
	r := lanRun(t)
	r.server = "minsamples 32 maxdelayquant 0.1"
	errs, err := r.play(*clknetsim, 1)
	if err != nil {
		t.Fatal(err)
	}
	if p := stat.OrNaN(errs, 0.99); len(errs) < 290 || p > 100 || p == 0 {
		t.Errorf("%d answers, p99 %.1f us", len(errs), p)
	}
}
