//go:build linux

// These tests prove that the real chronyd is given the worlds that the other methods get.

package main

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
	"timesync/lab/play"
)

// lan is a world with 16 polls a second.
const lan = "LAN 0.2 ms, jitter 0.1 ms, strong wander, 16/s"

// runIn returns a run in the world of that name.
func runIn(name string) chronyRun { return chronyRun{w: must(play.Find(name, ""))} }

// values reads one number from each line.
func values(lines string) (v []float64) {
	for line := range strings.Lines(lines) {
		v = append(v, must(strconv.ParseFloat(strings.TrimSpace(line), 64)))
	}
	return v
}

// TestChronyClocks: rates and steps add up to the readings that sim.Run's clocks of that seed
// have, also where one of them is set by 5 ms.
func TestChronyClocks(t *testing.T) {
	const seed = 7
	for _, name := range []string{
		"LAN 0.2 ms, jitter 0.1 ms, strong wander, 1/s", "slew", "clockstep",
	} {
		r := runIn(name)
		var all []sim.Observation // of A, whose errors are the offset of A to B
		r.w.Play(seed, []sim.Pair{{A: new(play.OracleEnd), B: new(play.OracleEnd)}},
			sim.Observer{Poll: func(o *sim.Observation) {
				if o.Side == sim.A {
					all = append(all, *o)
				}
			}})
		first, last, sum := all[0], all[len(all)-1], 0.0
		for side, sign := range []float64{-1, 1} {
			lines := r.rates(sim.Side(side), seed)
			rates, steps := values(lines[0]), values(lines[1])
			for i := range int(last.At.Seconds() * play.ChronydRate) {
				sum += sign * (rates[i]/play.ChronydRate + steps[i]) * 1e6
			}
		}
		// Up to a step of the rates, 0.1 s of 60 ppm, is missing at either end.
		if want := first.ErrUsec - last.ErrUsec; math.Abs(sum-want) > 16 || math.Abs(sum) < 1000 {
			t.Errorf("%s: after %v the clocks of clknetsim are %.0f us further apart, those of sim.Run %.0f",
				name, last.At, sum, want)
		}
	}
}

// TestChronyDelays: their mean is that of the world, and what is lost is -1.
func TestChronyDelays(t *testing.T) {
	r := runIn(lan)
	for _, lines := range r.delays(1) {
		v, sum := values(lines), 0.0
		for _, x := range v {
			sum += x
		}
		if mean := sum / float64(len(v)); len(v) < 16*300 || math.Abs(mean-300e-6) > 20e-6 {
			t.Errorf("%d delays, mean %.0f us, want 300", len(v), mean*1e6)
		}
	}
	r.w.Scenario.AB = func(uint64) *simnet.Link { return &simnet.Link{Loss: simnet.Bernoulli(0.5)} }
	d := r.delays(1)
	requests, responses := len(values(d[sim.A]))-strings.Count(d[sim.A], "-1\n"), len(values(d[sim.B]))
	if requests != responses || responses < 16*100 || responses > 16*250 {
		t.Errorf("of 5760 requests every second is lost; %d arrive, and %d are answered",
			requests, responses)
	}
}

// TestChronyOffsets: half of what unequal paths differ by is taken off, and a simulation that
// ended early is no result.
func TestChronyOffsets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "offsets")
	r := runIn(lan)
	n := int(r.w.Scenario.Duration.Seconds() * play.ChronydRate)
	for _, c := range []struct {
		lines int
		back  time.Duration
		want  float64 // us; 0 is none
	}{{n, 200 * us, 3}, {n, 204 * us, 1}, {n / 2, 200 * us, 0}} {
		r.w.Scenario.BA = func(uint64) *simnet.Link { return &simnet.Link{Base: simnet.Fixed(c.back)} }
		bad := os.WriteFile(path, []byte(strings.Repeat("0.000001\t-0.000002\n", c.lines)), 0o600)
		answers, err := r.readOffsets(path, 1)
		if bad != nil || (err == nil) != (c.want > 0) ||
			err == nil && (len(answers) != n || math.Abs(answers[n-1].Err-c.want) > 1e-9) {
			t.Errorf("%+v: %d errors of %d, %v", c, len(answers), n, err)
		}
	}
}
