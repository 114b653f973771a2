// SPDX-License-Identifier: BSD-3-Clause

// Package kept has what the lab has measured beside other programs, so that the report needs none of
// them.
package kept

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"timesync/compare/play"
)

// What the lab measured beside other programs is kept in files, because it takes them, and an hour.
// The report reads the files, and plays the other methods anew.
const (
	chronyFile   = "chronyd.csv"
	chronySeries = "series.csv"
	queueFile    = "queue.csv"
)

//go:embed *.csv
var files embed.FS

// Kept are the quantiles that are kept.
var Kept = [...]float64{0.5, 0.95, 0.99, 1}

// ChronydFigures are those of chronyd in one world at one rate, us.
type ChronydFigures struct {
	Set, World, Version string
	Rate                float64
	Tried               int    // settings
	Setting             string // the best one; "" is the defaults
	Best, Stock         [len(Kept)]float64
}

// Key names the world and the rate.
func (c *ChronydFigures) Key() string { return fmt.Sprintf("%s, %s, %g/s", c.Set, c.World, c.Rate) }

// At returns a quantile that is kept, NaN for others.
func At(values [len(Kept)]float64, q float64) float64 {
	if i := slices.Index(Kept[:], q); i >= 0 {
		return values[i]
	}
	return math.NaN()
}

// Chronyd is all that was measured of it.
type Chronyd struct {
	Figures []ChronydFigures
	Series  map[string][]float64 // of the worlds that are drawn over time: the largest error of each second, us
}

// Find returns the figures of a world, nil if it was not measured.
func (c *Chronyd) Find(set, world string, rate float64) *ChronydFigures {
	want := ChronydFigures{Set: set, World: world, Rate: rate}
	for i := range c.Figures {
		if c.Figures[i].Key() == want.Key() {
			return &c.Figures[i]
		}
	}
	return nil
}

// Value is a quantile in a simulated world at an exchange a second with the best setting, NaN
// if it was not measured.
func (c *Chronyd) Value(world string, q float64) float64 {
	if f := c.Find(play.Simulated, world, 1); f != nil {
		return At(f.Best, q)
	}
	return math.NaN()
}

var chronyHead = []string{"set", "world", "rate", "version", "tried", "setting",
	"best_p50_us", "best_p95_us", "best_p99_us", "best_max_us", "stock_p50_us", "stock_p95_us", "stock_p99_us", "stock_max_us"}

// ReadChronyd returns what was measured of chronyd.
func ReadChronyd() (*Chronyd, error) { return ChronydIn(files) }

// ChronydIn reads both files of a folder. A file that is not there is empty.
func ChronydIn(folder fs.FS) (*Chronyd, error) {
	c := &Chronyd{Series: map[string][]float64{}}
	rows, err := ReadCSV(folder, chronyFile)
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
		f := ChronydFigures{Set: row[0], World: row[1], Version: row[3], Rate: v[0], Tried: int(v[1]), Setting: row[5]}
		copy(f.Best[:], v[2:])
		copy(f.Stock[:], v[2+len(Kept):])
		c.Figures = append(c.Figures, f)
	}
	if rows, err = ReadCSV(folder, chronySeries); err != nil {
		return nil, err
	}
	for _, row := range rows {
		if c.Series[row[0]], err = parseFloats(row[1:]); err != nil {
			return nil, fmt.Errorf("%s: %w", chronySeries, err)
		}
	}
	return c, nil
}

// Write writes both files.
func (c *Chronyd) Write(folder string) error {
	rows := [][]string{chronyHead}
	for _, f := range c.Figures {
		row := []string{f.Set, f.World, fmt.Sprint(f.Rate), f.Version, fmt.Sprint(f.Tried), f.Setting}
		for _, v := range append(f.Best[:], f.Stock[:]...) {
			row = append(row, Number(v))
		}
		rows = append(rows, row)
	}
	if err := WriteCSV(filepath.Join(folder, chronyFile), rows); err != nil {
		return err
	}
	rows = nil
	for world, errs := range c.Series {
		row := []string{world}
		for _, v := range errs {
			row = append(row, Number(v))
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	return WriteCSV(filepath.Join(folder, chronySeries), rows)
}

// ReadQueue returns the 99th percentiles beside TCP on a real queue, us, by column.
func ReadQueue() (map[string]float64, error) {
	rows, err := ReadCSV(files, queueFile)
	queue := map[string]float64{}
	for _, row := range rows {
		v, bad := parseFloats(row[1:])
		if bad != nil {
			return nil, fmt.Errorf("%s: %w", queueFile, bad)
		}
		queue[row[0]] = v[0]
	}
	return queue, err
}

// WriteQueue keeps them.
func WriteQueue(folder string, queue map[string]float64) error {
	var rows [][]string
	for _, column := range slices.Sorted(maps.Keys(queue)) {
		rows = append(rows, []string{column, Number(queue[column])})
	}
	return WriteCSV(filepath.Join(folder, queueFile), rows)
}

// ChronydSettings are those that a knowing user would try first, one from each line: how
// many samples the line is laid through, which of them count, and whether a few are
// merged to one before.
var ChronydSettings = [][]string{
	{"", "maxsamples 8", "maxsamples 16", "minsamples 32", "minsamples 64"},
	{"", "maxdelayquant 0.1", "maxdelayquant 0.5", "maxdelayratio 2", "maxdelaydevratio 1"},
	{"", "filter 4", "filter 16"},
}

// ChronydTails are tried with the best of those: for how long chronyd slews the clock, and
// from what on it sets it instead.
var ChronydTails = []string{"", "corrtimeratio 1", "corrtimeratio 10", "makestep 0.001 -1"}
