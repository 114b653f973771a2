// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that the real chronyd is given the worlds that the other methods get.

package main

import (
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"timesync/internal/sim"
)

var clknetsim = flag.String("clknetsim", "", "a built checkout of clknetsim; without it, chronyd itself is not tested")

// lanRun returns a run in the first world.
func lanRun(t *testing.T) chronyRun {
	t.Helper()
	worlds, err := allChronyWorlds()
	if err != nil {
		t.Fatal(err)
	}
	worlds[0].lasting = time.Minute
	return chronyRun{w: &worlds[0], rate: 16}
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

// TestChronyClocks: the rates add up to the readings that sim.Run's clock of that seed has.
func TestChronyClocks(t *testing.T) {
	r := lanRun(t)
	const seed = 7
	sc := r.w.scenario(r.rate)
	var offset float64 // of B to A at the last question, as sim.Run has it
	var last time.Duration
	pair := sim.Pair{A: &oracleEnd{}, B: &oracleEnd{}}
	sim.Run(sc, seed, []sim.Pair{pair}, sim.Observer{Poll: func(o *sim.Observation) {
		if o.Side == sim.A {
			last, offset = o.At, float64(int64(pair.A.(*oracleEnd).near-o.LocalUsec))
		}
	}})
	sum := 0.0
	a, b := values(t, r.rates(sim.A, seed)), values(t, r.rates(sim.B, seed))
	for i := range int(last.Seconds() * chronyRate) {
		sum += (b[i] - a[i]) * 1e6 / chronyRate
	}
	// Up to a step of the rates, 0.1 s of 60 ppm, is missing.
	if math.Abs(sum-offset) > 8 || math.Abs(offset) < 1000 {
		t.Errorf("after %v the clocks of clknetsim are %.0f us apart, those of sim.Run %.0f", last, sum, offset)
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
	lost.up = func(uint64) *sim.Link { return &sim.Link{Loss: sim.Bernoulli(1)} }
	r.w = &lost
	if v := values(t, r.delays(1)[sim.A]); v[0] != -1 {
		t.Errorf("a lost packet has a delay of %g", v[0])
	}
}

// TestChronyOffsets: the warm-up does not count, and a simulation that ended early is no
// result.
func TestChronyOffsets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "offsets")
	warm := int(chronyWarmup.Seconds() * chronyRate)
	text := strings.Repeat("0\t1\n", warm) + "0.000001\t-0.000002\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	errs, err := readOffsets(path, warm+1)
	if err != nil || len(errs) != 1 || math.Abs(errs[0]-3) > 1e-9 {
		t.Errorf("errors %v, %v, want 3 us", errs, err)
	}
	if _, err := readOffsets(path, warm+9); err == nil {
		t.Error("a simulation that ended early passes")
	}
}

// TestChronyd runs chronyd itself. On a quiet LAN it is right to some microseconds.
func TestChronyd(t *testing.T) {
	if _, err := exec.LookPath("chronyd"); err != nil || *clknetsim == "" {
		t.Skip("needs chronyd, and -clknetsim FOLDER")
	}
	r := lanRun(t)
	r.server = "minsamples 32 maxdelayquant 0.1"
	errs, err := r.play(*clknetsim, []uint64{1})
	if err != nil {
		t.Fatal(err)
	}
	if p := quantile(errs, 0.99); len(errs) < 290 || p > 100 || p == 0 {
		t.Errorf("%d answers, p99 %.1f us", len(errs), p)
	}
}
