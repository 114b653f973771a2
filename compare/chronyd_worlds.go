// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"timesync/internal/sim"
)

// The real chronyd in simulated worlds: clknetsim runs two chronyd processes on clocks and
// delays that it is given, faster than real time. The clocks are those that internal/sim
// gives to the other methods; the delays are drawn from the same links.

// chronyWorld is a world in which chronyd polls at one rate or more. Its set is equalRates,
// where the others send as often, or simulated, where they send as the scenario says.
type chronyWorld struct {
	sim.Scenario
	set   string
	rates []float64 // exchanges a second
	seeds int
}

// equalRates is the set of the worlds in which all methods send equally often.
const equalRates = "equal rates"

const (
	chronyRate   = 10 // times a second that clknetsim updates rates and logs offsets, and that ours is asked
	chronyWarmup = 30 * time.Second
	chronyApart  = 40.0 // ppm
	chronyWander = 0.01 // ppm, as of the usual clocks of internal/sim
	chronySeeds  = 3    // of each world of equal rates
	chronyLasts  = 5 * time.Minute
)

// allChronyWorlds returns them. On paths longer than 10 ms chronyd polls once a second at
// most. A computer that sleeps is not to be had from clknetsim, so those worlds are missing.
func allChronyWorlds() ([]chronyWorld, error) {
	worlds, err := equalWorlds()
	for _, sc := range sim.Scenarios() {
		if sc.Off == nil {
			worlds = append(worlds, chronyWorld{sc, simulated, []float64{1}, simSeeds})
		}
	}
	return worlds, err
}

// equalWorlds are those of equal rates.
func equalWorlds() ([]chronyWorld, error) {
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
	world := func(name string, up, down func(uint64) *sim.Link, sine float64, rates ...float64) chronyWorld {
		return newChronyWorld(sim.Scenario{Name: name, Duration: chronyLasts, Warmup: chronyWarmup, AB: up, BA: down}, sine, rates)
	}
	lan := []float64{1, 16, 64}
	worlds := []chronyWorld{
		world("LAN 0.2 ms, jitter 0.1 ms, strong wander", exp(200*us, 100*us), exp(200*us, 100*us), 8, lan...),
		world("LAN 0.2 ms, jitter 0.1 ms, quieter oscillator", exp(200*us, 100*us), exp(200*us, 100*us), 2, lan...),
		world("LAN 0.2 ms, jitter 5 us, quieter oscillator", exp(200*us, 5*us), exp(200*us, 5*us), 2, lan...),
		world("20 ms, jitter 3 ms, strong wander", exp(20*ms, 3*ms), exp(20*ms, 3*ms), 8, 1),
		world("20 ms, jitter 3 ms, quieter oscillator", exp(20*ms, 3*ms), exp(20*ms, 3*ms), 2, 1),
		world("20 ms, jitter 1 ms, a queue of 100 ms one way for 15 s of each minute", path(20*ms, queues), exp(20*ms, ms), 2, 1),
	}
	recorded, err := recordedWorlds(lan)
	return append(worlds, recorded...), err
}

// newChronyWorld gives a scenario clocks that are 40 ppm apart, and whose rates follow a sine
// of so many ppm.
func newChronyWorld(sc sim.Scenario, sine float64, rates []float64) chronyWorld {
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
	sc.A, sc.B, sc.PollRate = clock(sim.A, chronyApart/2), clock(sim.B, -chronyApart/2), chronyRate
	return chronyWorld{sc, equalRates, rates, chronySeeds}
}

// recordedWorlds are the project's own recordings of a real queue.
func recordedWorlds(rates []float64) (worlds []chronyWorld, err error) {
	for _, r := range []struct{ file, name string }{
		{"kernel-tcp-10m-60pps", "recorded queue that TCP fills"}, {"kernel-cross90-10m-60pps", "recorded queue, random traffic of 90 %"},
	} {
		sc, err := sim.Replay(r.name, filepath.Join("../internal/sim/testdata", r.file+".csv.gz"))
		if err != nil {
			return nil, err
		}
		worlds = append(worlds, newChronyWorld(sim.Scenario{Name: r.name, Duration: sc.Duration, Warmup: chronyWarmup, AB: sc.AB, BA: sc.BA}, 2, rates))
	}
	return worlds, nil
}

// firstSeeds returns the seeds of a world.
func (w *chronyWorld) firstSeeds() (seeds []uint64) {
	for i := range w.seeds {
		seeds = append(seeds, firstSeed+uint64(i))
	}
	return seeds
}

// play returns the sizes of our errors, and of the original's, in order, where they send as
// often as chronyd.
func (w *chronyWorld) play(rate float64) (errs [2][]float64) {
	sc := w.Scenario
	sc.RateAB, sc.RateBA, sc.SendAB, sc.SendBA = rate, rate, nil, nil
	for _, seed := range w.firstSeeds() {
		pairs := []sim.Pair{{A: methods[ours].make(), B: methods[ours].make()}, {A: methods[original].make(), B: methods[original].make()}}
		sim.Run(sc, seed, pairs, sim.Observer{Poll: func(o *sim.Observation) {
			if o.At >= sc.Warmup && o.OK {
				errs[o.Pair] = append(errs[o.Pair], math.Abs(o.Excess()))
			}
		}})
	}
	slices.Sort(errs[0])
	slices.Sort(errs[1])
	return errs
}
