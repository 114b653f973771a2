// SPDX-License-Identifier: BSD-3-Clause

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
func measureWorld(c *kept.Chronyd, run chronyRun, clknetsim string) error {
	f, best, err := run.search(clknetsim)
	if err != nil {
		return err
	}
	if old := c.Find(f.Set, f.World); old != nil {
		*old = *f
	} else {
		c.Figures = append(c.Figures, *f)
	}
	fmt.Fprintf(os.Stderr, "compare: %s: p99 %.1f us (%q), with its defaults %.1f us\n", f.World, f.Best.P99, f.Setting, f.Stock.P99)
	if f.Set != play.Simulated || !slices.Contains(play.TaughtWorlds, f.World) {
		return nil
	}
	errs, err := best.once(clknetsim, play.FirstSeed)
	if err != nil {
		return err
	}
	var series play.Seconds
	for i, e := range errs {
		series.Take(time.Duration(i)*time.Second/play.ChronydRate, e)
	}
	c.Series[f.World] = series
	return nil
}

// search looks for chronyd's best setting: all on the first seed, then the best three on all
// seeds, each with every tail. What is best is judged on the very seeds that are reported,
// which favours chronyd.
func (r chronyRun) search(clknetsim string) (*kept.ChronydFigures, chronyRun, error) {
	seeds := r.w.FirstSeeds()
	var tried []chronyRun
	for _, server := range combinations(chronydSettings) {
		r.server = server
		tried = append(tried, r)
	}
	first, err := playAll(clknetsim, tried, seeds[:1])
	if err != nil {
		return nil, r, err
	}
	short := []chronyRun{{w: r.w}} // as it is
	for _, i := range byTail(first)[:3] {
		for _, tail := range chronydTails {
			run := tried[i]
			run.tail = tail
			short = append(short, run)
		}
	}
	last, err := playAll(clknetsim, short, seeds)
	if err != nil {
		return nil, r, err
	}
	best := byTail(last)[0]
	f := &kept.ChronydFigures{Set: r.w.Set, World: r.w.Name, Version: version("chronyd"), Tried: len(tried) + len(short), Setting: short[best].name(),
		Best: kept.QuantilesOf(last[best]), Stock: kept.QuantilesOf(last[0])}
	return f, short[best], nil
}

// playAll plays runs on all processors.
func playAll(clknetsim string, runs []chronyRun, seeds []uint64) ([][]float64, error) {
	errs, failed := make([][]float64, len(runs)), make([]error, len(runs))
	play.Each(len(runs), func(i int) { errs[i], failed[i] = runs[i].play(clknetsim, seeds) })
	return errs, errors.Join(failed...)
}

// byTail returns the indexes of errors in order of their 99th percentile.
func byTail(errs [][]float64) (order []int) {
	for i := range errs {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(stat.OrNaN(errs[a], 0.99), stat.OrNaN(errs[b], 0.99)) })
	return order
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
			err := measureWorld(known, chronyRun{w: w}, folder)
			if err = errors.Join(err, known.Write(o.out)); err != nil {
				return err
			}
		}
	}
	return nil
}
