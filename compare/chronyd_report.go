// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
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

func readCSV(path string) ([][]string, error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = -1
	return r.ReadAll()
}

func parseFloats(fields []string) (v []float64, err error) {
	for _, s := range fields {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, err
		}
		v = append(v, x)
	}
	return v, nil
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

func writeCSV(path string, rows [][]string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(csv.NewWriter(f).WriteAll(rows), f.Close())
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
	errs := make([][]float64, len(runs))
	var mu sync.Mutex
	var failed error
	each(len(runs), func(i int) {
		e, err := runs[i].play(clknetsim, seeds)
		mu.Lock()
		defer mu.Unlock()
		if errs[i] = e; err != nil {
			failed = err
		}
	})
	return errs, failed
}

// byTail returns the indexes of errors in order of their 99th percentile.
func byTail(errs [][]float64) (order []int) {
	for i := range errs {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(quantile(errs[a], 0.99), quantile(errs[b], 0.99)) })
	return order
}

// version returns the version of a program that is installed.
func version(program string) string {
	out, err := exec.Command(program, "-v").Output()
	if err != nil {
		return ""
	}
	return regexp.MustCompile(`\d+\.[\d.]+`).FindString(string(out))
}

// rivalVersions names what is installed.
func rivalVersions() string {
	var versions []string
	for _, program := range []string{"chronyd", "ptp4l"} {
		if v := version(program); v != "" {
			versions = append(versions, program+" "+v)
		} else {
			versions = append(versions, program+" is not installed")
		}
	}
	return strings.Join(versions, ", ")
}
