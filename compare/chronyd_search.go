// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// chronySettings are those that a knowing user would try first, one from each line: how
// many samples the line is laid through, which of them count, and whether a few are
// merged to one before.
var chronySettings = [][]string{
	{"", "maxsamples 8", "maxsamples 16", "minsamples 32", "minsamples 64"},
	{"", "maxdelayquant 0.1", "maxdelayquant 0.5", "maxdelayratio 2", "maxdelaydevratio 1"},
	{"", "filter 4", "filter 16"},
}

// chronyTails are tried with the best of those: for how long chronyd slews the clock, and
// from what on it sets it instead.
var chronyTails = []string{"", "corrtimeratio 1", "corrtimeratio 10", "makestep 0.001 -1"}

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

// measure looks for the best setting in one world, and keeps its figures.
func (c *chronyd) measure(run chronyRun, clknetsim string) error {
	f, best, err := run.search(clknetsim)
	if err != nil {
		return err
	}
	if old := c.find(f.set, f.world, f.rate); old != nil {
		*old = *f
	} else {
		c.figures = append(c.figures, *f)
	}
	fmt.Fprintf(os.Stderr, "compare: %s: p99 %.1f us (%q), with its defaults %.1f us\n", f.key(), at(f.best, 0.99), f.setting, at(f.stock, 0.99))
	if f.set != simulated || !slices.ContainsFunc(taught, func(t lesson) bool { return t.world == f.world }) {
		return nil
	}
	errs, err := best.once(clknetsim, firstSeed)
	if err != nil {
		return err
	}
	c.series[f.world] = nil
	for second := range slices.Chunk(errs, chronyRate) {
		c.series[f.world] = append(c.series[f.world], slices.Max(second))
	}
	return nil
}

// search looks for chronyd's best setting: all on the first seed, then the best three on all
// seeds, each with every tail. What is best is judged on the very seeds that are reported,
// which favours chronyd.
func (r chronyRun) search(clknetsim string) (*chronyFigures, chronyRun, error) {
	seeds := r.w.firstSeeds()
	var tried []chronyRun
	for _, server := range combinations(chronySettings) {
		r.server = server
		tried = append(tried, r)
	}
	first, err := playAll(clknetsim, tried, seeds[:1])
	if err != nil {
		return nil, r, err
	}
	short := []chronyRun{{w: r.w, rate: r.rate}} // as it is
	for _, i := range byTail(first)[:3] {
		for _, tail := range chronyTails {
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
	f := &chronyFigures{set: r.w.set, world: r.w.Name, rate: r.rate, version: version("chronyd"), tried: len(tried) + len(short), setting: short[best].name()}
	for i, q := range kept {
		f.best[i], f.stock[i] = quantile(last[best], q), quantile(last[0], q)
	}
	return f, short[best], nil
}

// playAll plays runs on all processors.
func playAll(clknetsim string, runs []chronyRun, seeds []uint64) ([][]float64, error) {
	errs, failed := make([][]float64, len(runs)), make([]error, len(runs))
	each(len(runs), func(i int) { errs[i], failed[i] = runs[i].play(clknetsim, seeds) })
	return errs, errors.Join(failed...)
}

// byTail returns the indexes of errors in order of their 99th percentile.
func byTail(errs [][]float64) (order []int) {
	for i := range errs {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(quantile(errs[a], 0.99), quantile(errs[b], 0.99)) })
	return order
}
