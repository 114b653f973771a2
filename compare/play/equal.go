// SPDX-License-Identifier: BSD-3-Clause

package play

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"timesync/internal/sim"
)

// The real chronyd in simulated worlds: clknetsim runs two chronyd processes on clocks and
// delays that it is given, faster than real time. The clocks are those that internal/sim
// gives to the other methods; the delays are drawn from the same links.

// ChronydWorld is a world in which chronyd polls at one rate. Its Set is EqualRates, where the
// others send as often, or Simulated, where they send as the scenario says.
type ChronydWorld struct {
	sim.Scenario
	Set   string
	Rate  float64 // exchanges a second
	Seeds int
}

// EqualRates is the set of the worlds in which all methods send equally often.
const EqualRates = "equal rates"

const (
	ChronydRate   = 10 // times a second that clknetsim updates rates and logs offsets, and that ours is asked
	ChronydWarmup = 30 * time.Second
	ChronydApart  = 40.0 // ppm
	chronyWander  = 0.01 // ppm, as of the usual clocks of internal/sim
	ChronydSeeds  = 3    // of each world of equal rates
	ChronydLasts  = 5 * time.Minute
)

// AllChronydWorlds returns them. On paths longer than 10 ms chronyd polls once a second at
// most. A computer that sleeps is not to be had from clknetsim, so those worlds are missing.
func AllChronydWorlds() ([]ChronydWorld, error) {
	worlds, err := EqualWorlds()
	for _, sc := range sim.Scenarios() {
		if sc.Off == nil {
			worlds = append(worlds, ChronydWorld{sc, Simulated, 1, SimSeeds})
		}
	}
	return worlds, err
}

// TaughtWorlds are drawn over time: of those the lab keeps chronyd's error of each second.
var TaughtWorlds = []string{"bufferbloat-both", "route-longer-oneway", "clockstep"}

// EqualWorlds are those of equal rates.
func EqualWorlds() (worlds []ChronydWorld, err error) {
	const us, ms = time.Microsecond, time.Millisecond
	path := func(base time.Duration, delay func() sim.Delay) func(uint64) *sim.Link {
		return func(uint64) *sim.Link { return &sim.Link{Base: sim.Fixed(base), Delay: delay()} }
	}
	exp := func(base, mean time.Duration) func(uint64) *sim.Link {
		return path(base, func() sim.Delay { return sim.Exp(mean) })
	}
	queues := func() sim.Delay { // 15 s of each minute
		d := []sim.Delay{sim.Exp(ms)}
		for at := 40 * time.Second; at < 20*time.Minute; at += time.Minute {
			d = append(d, sim.StandingQueue(at, 15*time.Second, 100*ms))
		}
		return sim.Sum(d...)
	}
	world := func(name string, up, down func(uint64) *sim.Link, sine float64) sim.Scenario {
		return drifting(sim.Scenario{Name: name, Duration: ChronydLasts, Warmup: ChronydWarmup, AB: up, BA: down}, sine)
	}
	scenarios := []sim.Scenario{
		world("LAN 0.2 ms, jitter 0.1 ms, strong wander", exp(200*us, 100*us), exp(200*us, 100*us), 8),
		world("LAN 0.2 ms, jitter 0.1 ms, quieter oscillator", exp(200*us, 100*us), exp(200*us, 100*us), 2),
		world("LAN 0.2 ms, jitter 5 us, quieter oscillator", exp(200*us, 5*us), exp(200*us, 5*us), 2),
		world("20 ms, jitter 3 ms, strong wander", exp(20*ms, 3*ms), exp(20*ms, 3*ms), 8),
		world("20 ms, jitter 3 ms, quieter oscillator", exp(20*ms, 3*ms), exp(20*ms, 3*ms), 2),
		world("20 ms, jitter 1 ms, a queue of 100 ms one way for 15 s of each minute", path(20*ms, queues), exp(20*ms, ms), 2),
	}
	recorded, err := recordedQueues()
	for _, sc := range append(scenarios, recorded...) {
		rates := []float64{1, 16, 64}
		if strings.HasPrefix(sc.Name, "20 ms") {
			rates = rates[:1] // chronyd does not poll more often there
		}
		name := sc.Name
		for _, rate := range rates {
			sc.Name, sc.RateAB, sc.RateBA = fmt.Sprintf("%s, %g/s", name, rate), rate, rate
			worlds = append(worlds, ChronydWorld{sc, EqualRates, rate, ChronydSeeds})
		}
	}
	return worlds, err
}

// drifting gives a scenario clocks that are 40 ppm apart, and whose rates follow a sine of so many
// ppm.
func drifting(sc sim.Scenario, sine float64) sim.Scenario {
	period := 900 * time.Second
	if sine > 2 {
		period = 600 * time.Second
	}
	clock := func(side sim.Side, ppm float64) func(seed uint64) sim.ClockSpec {
		return func(seed uint64) sim.ClockSpec {
			phase := sim.NewWorld(seed).Rand(fmt.Sprint("phase ", side)).Float64()
			return sim.ClockSpec{SkewPPM: ppm, SinePPM: sine, SinePeriod: period, SinePhase: 2 * math.Pi * phase, WanderPPM: chronyWander}
		}
	}
	sc.A, sc.B, sc.PollRate = clock(sim.A, ChronydApart/2), clock(sim.B, -ChronydApart/2), ChronydRate
	return sc
}

// recordedQueues are the project's own recordings of a real queue.
func recordedQueues() (all []sim.Scenario, err error) {
	for _, r := range []struct{ file, name string }{
		{"kernel-tcp-10m-60pps", "recorded queue that TCP fills"}, {"kernel-cross90-10m-60pps", "recorded queue, random traffic of 90 %"},
	} {
		sc, err := sim.Replay(r.name, filepath.Join("../internal/sim/testdata", r.file+".csv.gz"))
		if err != nil {
			return nil, err
		}
		all = append(all, drifting(sim.Scenario{Name: r.name, Duration: sc.Duration, Warmup: ChronydWarmup, AB: sc.AB, BA: sc.BA}, 2))
	}
	return all, nil
}
