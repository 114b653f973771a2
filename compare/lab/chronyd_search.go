// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"timesync/compare/kept"
	"timesync/compare/play"
	"timesync/internal/stat"
)

// chronydSettings are those that a knowing user would try first, one from each line: how
// many samples the line is laid through, which of them count, and whether a few are
// merged to one before.
var chronydSettings = [][]string{
	{"", "maxsamples 8", "maxsamples 16", "minsamples 32", "minsamples 64"},
	{"", "maxdelayquant 0.1", "maxdelayquant 0.5", "maxdelayratio 2", "maxdelaydevratio 1"},
	{"", "filter 4", "filter 16"},
}

// chronydTails are tried with the best of those: for how long chronyd slews the clock, and
// from what on it sets it instead.
var chronydTails = []string{"", "corrtimeratio 1", "corrtimeratio 10", "makestep 0.001 -1"}

// combinations returns one choice from each line, joined.
func combinations(lines [][]string) []string {
	all := []string{""}
	for _, line := range lines {
		var longer []string
		for _, head := range all {
			for _, word := range line {
				longer = append(longer, strings.TrimSpace(head+" "+word))
			}
		}
		all = longer
	}
	return all
}

// measureWorld looks for the best setting in one world, and keeps its figures.
func measureWorld(c *kept.Chronyd, w *play.ChronydWorld, clknetsim string) error {
	all, err := search(w, clknetsim)
	if err != nil {
		return err
	}
	best := byTail(all)[0]
	f := kept.ChronydFigures{Set: w.Set, World: w.Name, Version: version("chronyd"), Tried: len(combinations(chronydSettings)) + len(all),
		Setting: best.name(), Best: kept.QuantilesOf(best.errs), Stock: kept.QuantilesOf(all[0].errs)}
	if old := c.Find(f.Set, f.World); old != nil {
		*old = f
	} else {
		c.Figures = append(c.Figures, f)
	}
	fmt.Fprintf(os.Stderr, "lab: %s: p99 %.1f us (%q), with its defaults %.1f us\n", f.World, f.Best.P99, f.Setting, f.Stock.P99)
	if f.Set != play.Simulated || !slices.Contains(play.TaughtWorlds, f.World) {
		return nil
	}
	errs, err := best.once(clknetsim, play.FirstSeed)
	var series play.Seconds
	for i, e := range errs {
		series.Take(time.Duration(i)*time.Second/play.ChronydRate, e)
	}
	c.Series[f.World] = series
	return err
}

// search tries all settings on the first seed, then the defaults and the best three on all seeds, each
// of those with every tail, and returns the latter. What is best is judged on the very seeds that are
// reported, which favours chronyd.
func search(w *play.ChronydWorld, clknetsim string) ([]chronyRun, error) {
	var tried []chronyRun
	for _, server := range combinations(chronydSettings) {
		tried = append(tried, chronyRun{w: w, server: server})
	}
	tried, err := playAll(clknetsim, tried, 1)
	if err != nil {
		return nil, err
	}
	short := []chronyRun{{w: w}}
	for _, run := range byTail(tried)[:3] {
		for _, run.tail = range chronydTails {
			short = append(short, run)
		}
	}
	return playAll(clknetsim, short, w.Seeds)
}

// playAll plays runs on all processors.
func playAll(clknetsim string, runs []chronyRun, seeds int) ([]chronyRun, error) {
	var failed []error
	played := play.Map(runs, func(r chronyRun) chronyRun {
		r.errs, r.failed = r.play(clknetsim, seeds)
		return r
	})
	for _, r := range played {
		failed = append(failed, r.failed)
	}
	return played, errors.Join(failed...)
}

// byTail returns runs in order of their 99th percentile.
func byTail(runs []chronyRun) []chronyRun {
	return slices.SortedStableFunc(slices.Values(runs), func(a, b chronyRun) int {
		return cmp.Compare(stat.OrNaN(a.errs, 0.99), stat.OrNaN(b.errs, 0.99))
	})
}

// measureChronyd plays all worlds, and writes what chronyd did into its files as soon as it is
// known.
func measureChronyd(o options) error {
	folder, err := filepath.Abs(o.clknetsim)
	if err != nil {
		return err
	}
	known, err := kept.ChronydIn(os.DirFS(o.out))
	if err != nil {
		return err
	}
	worlds, err := play.AllChronydWorlds()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for i := range worlds {
		if w := &worlds[i]; strings.Contains(w.Set+", "+w.Name, o.only) {
			err := measureWorld(known, w, folder)
			if err = errors.Join(err, known.Write(o.out)); err != nil {
				return err
			}
		}
	}
	return nil
}
