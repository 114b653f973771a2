// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"timesync/internal/sim"
	"timesync/internal/upstream"
)

// world is a kind of world that can be played with any seed.
type world struct {
	name   string
	set    string // which table it belongs to
	group  string // what happens in it
	seeds  int
	warmup time.Duration
	play   func(seed uint64, pairs []sim.Pair, obs sim.Observer)
	events func(seed uint64) events
}

// The sets of worlds.
const (
	simulated = "simulated"
	coarse    = "coarse clocks"
	published = "author's benchmark, as published"
	skewed    = "author's benchmark, CORE with skew"
	recorded  = "recorded"
)

// simWorld is a scenario of package sim.
func simWorld(sc sim.Scenario, set string, seeds int) world {
	return world{
		name: sc.Name, set: set, group: group(sc), seeds: seeds, warmup: sc.Warmup,
		play: func(seed uint64, pairs []sim.Pair, obs sim.Observer) { sim.Run(sc, seed, pairs, obs) },
		events: func(seed uint64) (e events) {
			for _, spec := range []sim.ClockSpec{sc.A(seed), sc.B(seed)} {
				for _, x := range spec.Events {
					if x.Step != 0 || x.PPM != 0 {
						e.clocks = append(e.clocks, x.At, x.At+x.For)
					}
				}
			}
			for _, l := range []*sim.Link{sc.AB(seed), sc.BA(seed)} {
				e.paths = append(e.paths, changes(l, sc.Duration)...)
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
func authorWorld(sc *upstream.Scenario, set string, mode upstream.Mode, seeds int) world {
	return world{
		name: sc.Name, set: set, seeds: seeds, warmup: sc.Warmup(),
		play: func(seed uint64, pairs []sim.Pair, obs sim.Observer) {
			upstream.New(sc, seed, mode).Run(pairs, obs)
		},
		events: func(seed uint64) events {
			return events{clocks: upstream.New(sc, seed, mode).ClockEvents()}
		},
	}
}

// group says what happens in a simulated world.
func group(sc sim.Scenario) string {
	switch sc.Tag {
	case sim.Calm:
		return "jitter at most"
	case sim.Lossy:
		return "loss, silences"
	case sim.Queued:
		return "queues that stand"
	case sim.Routed:
		return "paths that change"
	case sim.Jumped:
		return "clocks that are set"
	}
	return "faults of all kinds"
}

// allWorlds returns the simulated ones, the author's and the recorded ones.
func allWorlds(traces string) (ws []world, err error) {
	for _, sc := range sim.Scenarios() {
		ws = append(ws, simWorld(sc, simulated, simSeeds))
	}
	for _, sc := range sim.CoarseScenarios() {
		ws = append(ws, simWorld(sc, coarse, simSeeds))
	}
	authors, err := upstream.Scenarios()
	if err != nil {
		return nil, err
	}
	for _, sc := range authors {
		if sc.Classification == "CORE" {
			ws = append(ws, authorWorld(sc, skewed, upstream.Mode{Integrated: true, Skewed: true}, coreSeeds))
		}
	}
	for _, sc := range authors {
		ws = append(ws, authorWorld(sc, published, upstream.Mode{}, authorSeeds))
	}
	replayed, err := replays(traces)
	return append(ws, replayed...), err
}

// ownTrace is the project's own recording of a real TCP queue.
const ownTrace = "../internal/sim/testdata/kernel-tcp-10m-60pps.csv.gz"

// replays returns the recorded worlds. In a series with symmetric delays no method errs, and
// a modelled direction is not recorded.
func replays(folder string) (ws []world, err error) {
	paths := []string{ownTrace}
	if folder != "" {
		more, err := filepath.Glob(filepath.Join(folder, "*.csv.gz"))
		if err != nil {
			return nil, err
		}
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
		ws = append(ws, simWorld(sc, recorded, simSeeds))
	}
	return ws, nil
}

// find returns the world of that name, among the simulated ones, the recorded ones and the
// author's, whose names may end in "+skew".
func find(name, traces string) (world, error) {
	ws, err := allWorlds(traces)
	if err != nil {
		return world{}, err
	}
	var names []string
	for _, w := range ws {
		if w.set == skewed {
			w.name += "+skew"
		}
		if w.name == name {
			return w, nil
		}
		names = append(names, w.name)
	}
	return world{}, fmt.Errorf("no world is called %q; there are %s", name, strings.Join(names, ", "))
}
