// SPDX-License-Identifier: BSD-3-Clause

package play

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"timesync/internal/sim"
	"timesync/internal/sim/authorbench"
	"timesync/internal/sim/simnet"
)

// World is a kind of world that can be played with any seed.
type World struct {
	Name     string
	Set      string       // which table it belongs to
	Group    string       // what happens in it
	Scenario sim.Scenario // that of package sim; the author's worlds have none
	Seeds    int
	Warmup   time.Duration
	Play     func(seed uint64, pairs []sim.Pair, obs sim.Observer)
	Events   func(seed uint64) Events
}

// The sets of worlds. In those of equal rates all methods send equally often.
const (
	Simulated  = "simulated"
	Coarse     = "coarse clocks"
	EqualRates = "equal rates"
	Published  = "author's benchmark, as published"
	Skewed     = "author's benchmark, CORE with skew"
	recorded   = "recorded"
)

// How many seeds are played of each kind of world, and the first.
const (
	SimSeeds    = 6 // of each simulated world
	equalSeeds  = 3 // of each world of equal rates
	coreSeeds   = 9 // of each of the author's CORE scenarios with skew
	authorSeeds = 3 // of each of his scenarios as published
	FirstSeed   = 1
)

// groups say what happens in simulated worlds.
var groups = map[sim.Tag]string{
	sim.Calm:   "jitter at most",
	sim.Lossy:  "loss, silences",
	sim.Queued: "queues that stand",
	sim.Routed: "paths that change",
	sim.Jumped: "clocks that are set",
}

// Taught are the worlds that teach most, which are drawn over time, with the titles of their
// pictures. Of those the lab keeps chronyd's error of each second.
var Taught = map[string]string{
	"bufferbloat-both":    "Bufferbloat: others fill the queues of both ways",
	"route-longer-oneway": "A path becomes longer by 20 ms, one way",
	"clockstep":           "A clock is set by 5 ms",
}

// SimWorld is a scenario of package sim.
func SimWorld(sc sim.Scenario, set string, seeds int) World {
	return World{
		Name: sc.Name, Set: set, Group: cmp.Or(groups[sc.Tag], "faults of all kinds"),
		Scenario: sc, Seeds: seeds, Warmup: sc.Warmup,
		Play: func(seed uint64, pairs []sim.Pair, obs sim.Observer) { sim.Run(sc, seed, pairs, obs) },
		Events: func(seed uint64) (e Events) {
			for _, x := range slices.Concat(sc.A(seed).Events, sc.B(seed).Events) {
				if x.Step != 0 || x.PPM != 0 {
					e.Clocks = append(e.Clocks, x.At, x.At+x.For)
				}
			}
			const step = 10 * time.Millisecond
			for _, l := range []*simnet.Link{sc.AB(seed), sc.BA(seed)} {
				for t := time.Duration(0); t < sc.Duration; t += step {
					if l.BaseAt(t) != l.BaseAt(t+step) {
						e.Paths = append(e.Paths, t+step)
					}
				}
			}
			return e
		},
	}
}

// authorWorld is a scenario of the original author's benchmark.
func authorWorld(sc *authorbench.Scenario, set string, mode authorbench.Mode, seeds int) World {
	return World{
		Name: sc.Name, Set: set, Seeds: seeds, Warmup: sc.Warmup(),
		Play: func(seed uint64, pairs []sim.Pair, obs sim.Observer) {
			authorbench.New(sc, seed, mode).Run(pairs, obs)
		},
		Events: func(seed uint64) Events {
			return Events{Clocks: authorbench.New(sc, seed, mode).ClockEvents()}
		},
	}
}

// AllWorlds returns the simulated ones, those of equal rates, the author's and the recorded ones:
// the project's own, and those of the folder traces.
func AllWorlds(traces string) (ws []World, err error) {
	for _, sc := range sim.Scenarios() {
		ws = append(ws, SimWorld(sc, Simulated, SimSeeds))
	}
	for _, sc := range sim.CoarseScenarios() {
		ws = append(ws, SimWorld(sc, Coarse, SimSeeds))
	}
	equal, err := equalWorlds()
	authors, bad := authorbench.Scenarios()
	replayed, worse := replays(traces)
	var published []World
	ws = append(ws, equal...)
	for _, sc := range authors {
		if sc.Classification == "CORE" {
			mode := authorbench.Mode{Integrated: true, Skewed: true}
			ws = append(ws, authorWorld(sc, Skewed, mode, coreSeeds))
		}
		published = append(published, authorWorld(sc, Published, authorbench.Mode{}, authorSeeds))
	}
	return append(append(ws, published...), replayed...), errors.Join(err, bad, worse)
}

// ChronydRate is how many times a second clknetsim updates rates and logs offsets, and ours is
// asked in the worlds of equal rates.
const ChronydRate = 10

// recordings is the folder of the project's own recordings of a real queue.
const recordings = "../internal/sim/testdata"

// ownTrace is its recording of one that TCP fills.
const ownTrace = "kernel-tcp-10m-60pps.csv.gz"

const us, ms = time.Microsecond, time.Millisecond

// The clocks of those worlds. Their rates follow a sine, and a random walk as the usual ones of
// internal/sim.
var (
	strong = simnet.ClockSpec{SinePPM: 8, SinePeriod: 600 * time.Second, WanderPPM: 0.01}
	quiet  = simnet.ClockSpec{SinePPM: 2, SinePeriod: 900 * time.Second, WanderPPM: 0.01}
)

// equals are the worlds of equal rates: a path with exponential jitter, or a recorded one.
var equals = []struct {
	name      string
	base      time.Duration
	jitter    time.Duration
	queues    bool // one way has a queue of 100 ms for 15 s of each minute
	clock     simnet.ClockSpec
	recording string
}{
	{
		name:   "LAN 0.2 ms, jitter 0.1 ms, strong wander",
		base:   200 * us,
		jitter: 100 * us,
		clock:  strong,
	},
	{
		name:   "LAN 0.2 ms, jitter 0.1 ms, quieter oscillator",
		base:   200 * us,
		jitter: 100 * us,
		clock:  quiet,
	},
	{
		name:   "LAN 0.2 ms, jitter 5 us, quieter oscillator",
		base:   200 * us,
		jitter: 5 * us,
		clock:  quiet,
	},
	{
		name:   "20 ms, jitter 3 ms, strong wander",
		base:   20 * ms,
		jitter: 3 * ms,
		clock:  strong,
	},
	{
		name:   "20 ms, jitter 3 ms, quieter oscillator",
		base:   20 * ms,
		jitter: 3 * ms,
		clock:  quiet,
	},
	{
		name:   "20 ms, jitter 1 ms, a queue of 100 ms one way for 15 s of each minute",
		base:   20 * ms,
		jitter: ms,
		queues: true,
		clock:  quiet,
	},
	{
		name:      "recorded queue that TCP fills",
		clock:     quiet,
		recording: ownTrace,
	},
	{
		name:      "recorded queue, random traffic of 90 %",
		clock:     quiet,
		recording: "kernel-cross90-10m-60pps.csv.gz",
	},
}

// equalWorlds returns those of equal rates, each at three. On a long path chronyd polls once a
// second at most.
func equalWorlds() (worlds []World, err error) {
	for _, x := range equals {
		link := func(queued bool) func(uint64) *simnet.Link {
			return func(uint64) *simnet.Link {
				d := []simnet.Delay{simnet.Exp(x.jitter)}
				for at := 40 * time.Second; queued && at < 20*time.Minute; at += time.Minute {
					d = append(d, simnet.StandingQueue(at, 15*time.Second, 100*ms))
				}
				return &simnet.Link{Base: simnet.Fixed(x.base), Delay: simnet.Sum(d...)}
			}
		}
		sc := sim.Scenario{Duration: 5 * time.Minute, AB: link(x.queues), BA: link(false)}
		if x.recording != "" {
			replay, bad := sim.Replay(x.name, filepath.Join(recordings, x.recording))
			sc = sim.Scenario{Duration: replay.Duration, AB: replay.AB, BA: replay.BA}
			err = errors.Join(err, bad)
		}
		sc.Warmup, sc.PollRate = 30*time.Second, ChronydRate
		sc.A, sc.B = drifting(sim.A, 20, x.clock), drifting(sim.B, -20, x.clock)
		for _, rate := range []float64{1, 16, 64} {
			if x.base > 10*ms && rate > 1 {
				continue
			}
			sc.Name, sc.RateAB, sc.RateBA = fmt.Sprintf("%s, %g/s", x.name, rate), rate, rate
			worlds = append(worlds, SimWorld(sc, EqualRates, equalSeeds))
		}
	}
	return worlds, err
}

// drifting is such a clock, whose rate is off by so many ppm.
func drifting(
	side sim.Side, skew float64, spec simnet.ClockSpec,
) func(seed uint64) simnet.ClockSpec {
	return func(seed uint64) simnet.ClockSpec {
		phase := simnet.NewWorld(seed).Rand(fmt.Sprint("phase ", side))
		c := spec
		c.SkewPPM = skew
		c.SinePhase = 2 * math.Pi * phase.Float64()
		return c
	}
}

// replays returns the recorded worlds. In a series with symmetric delays no method errs, and
// a modelled direction is not recorded.
func replays(folder string) (ws []World, err error) {
	paths, _ := filepath.Glob(filepath.Join(folder, "*.csv.gz"))
	if folder != "" && len(paths) == 0 {
		return nil, fmt.Errorf("-traces %s: no *.csv.gz there", folder)
	}
	paths = slices.DeleteFunc(paths, func(p string) bool {
		return strings.Contains(p, "symsplit") || strings.Contains(p, "modelled") ||
			filepath.Base(p) == ownTrace
	})
	for _, p := range append(paths, filepath.Join(recordings, ownTrace)) {
		sc, bad := sim.Replay(strings.TrimSuffix(filepath.Base(p), ".csv.gz"), p)
		ws, err = append(ws, SimWorld(sc, recorded, SimSeeds)), errors.Join(err, bad)
	}
	return ws, err
}

// Find returns the world of that name, among the simulated ones, the recorded ones and the
// author's, whose names may end in "+skew".
func Find(name, traces string) (World, error) {
	ws, err := AllWorlds(traces)
	if err != nil {
		return World{}, err
	}
	for _, w := range ws {
		if w.Set == Skewed {
			w.Name += "+skew"
		}
		if w.Name == name {
			return w, nil
		}
	}
	return World{}, fmt.Errorf("there is no world %q: lab/results/report.csv has their names", name)
}
