// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// What was measured of chronyd is kept in files, because it takes an hour and other programs.
// The report reads them, and plays the other methods anew.
const (
	chronyFile   = "measured.csv" // of folder chronyd
	chronySeries = "series.csv"
)

// kept are the quantiles that are kept.
var kept = [...]float64{0.5, 0.95, 0.99, 1}

// chronyFigures are those of chronyd in one world at one rate, us.
type chronyFigures struct {
	set, world, version string
	rate                float64
	tried               int    // settings
	setting             string // the best one; "" is the defaults
	best, stock         [len(kept)]float64
}

func (c *chronyFigures) key() string { return fmt.Sprintf("%s, %s, %g/s", c.set, c.world, c.rate) }

// at returns a quantile that is kept, NaN for others.
func at(values [len(kept)]float64, q float64) float64 {
	if i := slices.Index(kept[:], q); i >= 0 {
		return values[i]
	}
	return math.NaN()
}

// chronyd is all that was measured of it.
type chronyd struct {
	figures []chronyFigures
	series  map[string][]float64 // of the worlds that are drawn over time: the largest error of each second, us
}

// find returns the figures of a world, nil if it was not measured.
func (c *chronyd) find(set, world string, rate float64) *chronyFigures {
	want := chronyFigures{set: set, world: world, rate: rate}
	for i := range c.figures {
		if c.figures[i].key() == want.key() {
			return &c.figures[i]
		}
	}
	return nil
}

// value is a quantile in a simulated world at an exchange a second with the best setting, NaN
// if it was not measured.
func (c *chronyd) value(world string, q float64) float64 {
	if f := c.find(simulated, world, 1); f != nil {
		return at(f.best, q)
	}
	return math.NaN()
}

var chronyHead = []string{"set", "world", "rate", "version", "tried", "setting",
	"best_p50_us", "best_p95_us", "best_p99_us", "best_max_us", "stock_p50_us", "stock_p95_us", "stock_p99_us", "stock_max_us"}

// readChronyd reads both files of a folder. A file that is not there is empty.
func readChronyd(folder string) (*chronyd, error) {
	c := &chronyd{series: map[string][]float64{}}
	rows, err := readCSV(filepath.Join(folder, chronyFile))
	if err != nil {
		return nil, err
	}
	for _, row := range rows[min(1, len(rows)):] {
		if len(row) != len(chronyHead) {
			return nil, fmt.Errorf("%s: a row of %d", chronyFile, len(row))
		}
		v, err := parseFloats(append([]string{row[2], row[4]}, row[6:]...))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", chronyFile, err)
		}
		f := chronyFigures{set: row[0], world: row[1], version: row[3], rate: v[0], tried: int(v[1]), setting: row[5]}
		copy(f.best[:], v[2:])
		copy(f.stock[:], v[2+len(kept):])
		c.figures = append(c.figures, f)
	}
	if rows, err = readCSV(filepath.Join(folder, chronySeries)); err != nil {
		return nil, err
	}
	for _, row := range rows {
		if c.series[row[0]], err = parseFloats(row[1:]); err != nil {
			return nil, fmt.Errorf("%s: %w", chronySeries, err)
		}
	}
	return c, nil
}

// write writes both files.
func (c *chronyd) write(folder string) error {
	rows := [][]string{chronyHead}
	for _, f := range c.figures {
		row := []string{f.set, f.world, fmt.Sprint(f.rate), f.version, fmt.Sprint(f.tried), f.setting}
		for _, v := range append(f.best[:], f.stock[:]...) {
			row = append(row, csvNumber(v))
		}
		rows = append(rows, row)
	}
	if err := writeCSV(filepath.Join(folder, chronyFile), rows); err != nil {
		return err
	}
	rows = nil
	for world, errs := range c.series {
		row := []string{world}
		for _, v := range errs {
			row = append(row, csvNumber(v))
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	return writeCSV(filepath.Join(folder, chronySeries), rows)
}

// measureChronyd plays all worlds, and writes what chronyd did into its files as soon as it is
// known.
func measureChronyd(o options) error {
	folder, err := filepath.Abs(o.clknetsim)
	if err != nil {
		return err
	}
	known, err := readChronyd(o.out)
	if err != nil {
		return err
	}
	worlds, err := allChronyWorlds()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for i := range worlds {
		for _, rate := range worlds[i].rates {
			run := chronyRun{w: &worlds[i], rate: rate}
			if f := (chronyFigures{set: run.w.set, world: run.w.Name, rate: rate}); !strings.Contains(f.key(), o.only) {
				continue
			}
			if err := known.measure(run, folder); err != nil {
				return err
			}
			if err := known.write(o.out); err != nil {
				return err
			}
		}
	}
	return nil
}
