// SPDX-License-Identifier: BSD-3-Clause

package play

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"timesync/internal/sim"
	"timesync/internal/upstream"
)

// World is a kind of world that can be played with any seed.
type World struct {
	Name   string
	Set    string // which table it belongs to
	Group  string // what happens in it
	seeds  int
	warmup time.Duration
	Play   func(seed uint64, pairs []sim.Pair, obs sim.Observer)
	Events func(seed uint64) Events
}

// The sets of worlds.
const (
	Simulated = "simulated"
	Coarse    = "coarse clocks"
	Published = "author's benchmark, as published"
	Skewed    = "author's benchmark, CORE with skew"
	recorded  = "recorded"
)

// SimWorld is a scenario of package sim.
func SimWorld(sc sim.Scenario, set string, seeds int) World {
	return World{
		Name: sc.Name, Set: set, Group: cmp.Or(groups[sc.Tag], "faults of all kinds"), seeds: seeds, warmup: sc.Warmup,
		Play: func(seed uint64, pairs []sim.Pair, obs sim.Observer) { sim.Run(sc, seed, pairs, obs) },
		Events: func(seed uint64) (e Events) {
			for _, spec := range []sim.ClockSpec{sc.A(seed), sc.B(seed)} {
				for _, x := range spec.Events {
					if x.Step != 0 || x.PPM != 0 {
						e.Clocks = append(e.Clocks, x.At, x.At+x.For)
					}
				}
			}
			for _, l := range []*sim.Link{sc.AB(seed), sc.BA(seed)} {
				e.Paths = append(e.Paths, changes(l, sc.Duration)...)
			}
			return e
		},
	}
}

// changes returns when the delay of a path without any queue changes.
func changes(l *sim.Link, until time.Duration) (all []time.Duration) {
	const step = 10 * time.Millisecond
	for t := time.Duration(0); t < until; t += step {
		if l.BaseAt(t) != l.BaseAt(t+step) {
			all = append(all, t+step)
		}
	}
	return all
}

// authorWorld is a scenario of the original author's benchmark.
func authorWorld(sc *upstream.Scenario, set string, mode upstream.Mode, seeds int) World {
	return World{
		Name: sc.Name, Set: set, seeds: seeds, warmup: sc.Warmup(),
		Play: func(seed uint64, pairs []sim.Pair, obs sim.Observer) {
			upstream.New(sc, seed, mode).Run(pairs, obs)
		},
		Events: func(seed uint64) Events {
			return Events{Clocks: upstream.New(sc, seed, mode).ClockEvents()}
		},
	}
}

// groups say what happens in simulated worlds.
var groups = map[sim.Tag]string{
	sim.Calm:   "jitter at most",
	sim.Lossy:  "loss, silences",
	sim.Queued: "queues that stand",
	sim.Routed: "paths that change",
	sim.Jumped: "clocks that are set",
}

// AllWorlds returns the simulated ones, those of equal rates, the author's and the recorded ones.
func AllWorlds(traces string) (ws []World, err error) {
	for _, sc := range sim.Scenarios() {
		ws = append(ws, SimWorld(sc, Simulated, SimSeeds))
	}
	for _, sc := range sim.CoarseScenarios() {
		ws = append(ws, SimWorld(sc, Coarse, SimSeeds))
	}
	equal, err := EqualWorlds()
	authors, bad := upstream.Scenarios()
	if err = errors.Join(err, bad); err != nil {
		return nil, err
	}
	for _, w := range equal {
		ws = append(ws, SimWorld(w.Scenario, EqualRates, w.Seeds))
	}
	for _, sc := range authors {
		if sc.Classification == "CORE" {
			ws = append(ws, authorWorld(sc, Skewed, upstream.Mode{Integrated: true, Skewed: true}, CoreSeeds))
		}
	}
	for _, sc := range authors {
		ws = append(ws, authorWorld(sc, Published, upstream.Mode{}, authorSeeds))
	}
	replayed, err := replays(traces)
	return append(ws, replayed...), err
}

// ownTrace is the project's own recording of a real TCP queue.
const ownTrace = "../internal/sim/testdata/kernel-tcp-10m-60pps.csv.gz"

// replays returns the recorded worlds. In a series with symmetric delays no method errs, and
// a modelled direction is not recorded.
func replays(folder string) (ws []World, err error) {
	paths := []string{ownTrace}
	if folder != "" {
		more, _ := filepath.Glob(filepath.Join(folder, "*.csv.gz"))
		if len(more) == 0 {
			return nil, fmt.Errorf("-traces %s: no *.csv.gz there", folder)
		}
		paths = append(paths, slices.DeleteFunc(more, func(p string) bool {
			return strings.Contains(p, "symsplit") || strings.Contains(p, "modelled") || filepath.Base(p) == filepath.Base(ownTrace)
		})...)
	}
	for _, p := range paths {
		sc, err := sim.Replay(strings.TrimSuffix(filepath.Base(p), ".csv.gz"), p)
		if err != nil {
			return nil, err
		}
		ws = append(ws, SimWorld(sc, recorded, SimSeeds))
	}
	return ws, nil
}

// Find returns the world of that name, among the simulated ones, the recorded ones and the
// author's, whose names may end in "+skew".
func Find(name, traces string) (World, error) {
	ws, err := AllWorlds(traces)
	if err != nil {
		return World{}, err
	}
	var names []string
	for _, w := range ws {
		if w.Set == Skewed {
			w.Name += "+skew"
		}
		if w.Name == name {
			return w, nil
		}
		names = append(names, w.Name)
	}
	return World{}, fmt.Errorf("no world is called %q; there are %s", name, strings.Join(names, ", "))
}

// How many seeds are played of each kind of world, and the first.
const (
	SimSeeds    = 6 // of each simulated world
	CoreSeeds   = 9 // of each of the author's CORE scenarios with skew
	authorSeeds = 3 // of each of his scenarios as published
	FirstSeed   = 1
)
