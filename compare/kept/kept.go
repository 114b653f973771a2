// SPDX-License-Identifier: BSD-3-Clause

// Package kept has what the lab has measured beside other programs, because that takes them, and an
// hour. The report reads it, and plays the other methods anew.
package kept

import (
	"embed"
	"errors"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"timesync/compare/play"
	"timesync/compare/table"
	"timesync/internal/stat"
)

const (
	chronyFile   = "chronyd.csv"
	chronySeries = "series.csv"
	queueFile    = "queue.csv"
)

//go:embed *.csv
var files embed.FS

// Quantiles are those of errors, us.
type Quantiles struct {
	P50 float64 `csv:"p50_us"`
	P95 float64 `csv:"p95_us"`
	P99 float64 `csv:"p99_us"`
	Max float64 `csv:"max_us"`
}

// QuantilesOf returns those of the sizes of errors, NaN of none.
func QuantilesOf(errs []float64) Quantiles {
	return Quantiles{stat.OrNaN(errs, 0.5), stat.OrNaN(errs, 0.95), stat.OrNaN(errs, 0.99), stat.OrNaN(errs, 1)}
}

// ChronydFigures are those of chronyd in one world.
type ChronydFigures struct {
	Set     string    `csv:"set"`
	World   string    `csv:"world"`
	Version string    `csv:"version"`
	Tried   int       `csv:"tried"`   // settings
	Setting string    `csv:"setting"` // the best one; "" is the defaults
	Best    Quantiles `csv:"best_,inline"`
	Stock   Quantiles `csv:"stock_,inline"`
}

// Chronyd is all that was measured of it.
type Chronyd struct {
	Figures []ChronydFigures
	Series  map[string]play.Seconds // of the worlds that are drawn over time
}

// second is one of a series.
type second struct {
	World  string  `csv:"world"`
	Second int     `csv:"second"`
	Worst  float64 `csv:"worst_us"`
}

// Find returns the figures of a world, nil if it was not measured.
func (c *Chronyd) Find(set, world string) *ChronydFigures {
	i := slices.IndexFunc(c.Figures, func(f ChronydFigures) bool { return f.Set == set && f.World == world })
	if i < 0 {
		return nil
	}
	return &c.Figures[i]
}

// P99 is the 99th percentile in a world with the best setting, NaN if it was not measured.
func (c *Chronyd) P99(set, world string) float64 {
	if f := c.Find(set, world); f != nil {
		return f.Best.P99
	}
	return math.NaN()
}

// ReadChronyd returns what was measured of chronyd.
func ReadChronyd() (*Chronyd, error) { return ChronydIn(files) }

// ChronydIn reads both files of a folder. A file that is not there is empty.
func ChronydIn(folder fs.FS) (*Chronyd, error) {
	figures, err := table.Read[ChronydFigures](folder, chronyFile)
	seconds, bad := table.Read[second](folder, chronySeries)
	c := &Chronyd{figures, map[string]play.Seconds{}}
	for _, s := range seconds {
		c.Series[s.World] = append(c.Series[s.World], s.Worst)
	}
	return c, errors.Join(err, bad)
}

// Write writes both files.
func (c *Chronyd) Write(folder string) error {
	var seconds []second
	for _, world := range slices.Sorted(maps.Keys(c.Series)) {
		for i, worst := range c.Series[world] {
			seconds = append(seconds, second{world, i, worst})
		}
	}
	return errors.Join(table.Write(filepath.Join(folder, chronyFile), c.Figures), table.Write(filepath.Join(folder, chronySeries), seconds))
}

// queueFigure is the 99th percentile of a method beside TCP on a real queue.
type queueFigure struct {
	Method string  `csv:"method"`
	P99    float64 `csv:"p99_us"`
}

// ReadQueue returns those figures by method, us.
func ReadQueue() (map[string]float64, error) {
	rows, err := table.Read[queueFigure](files, queueFile)
	queue := map[string]float64{}
	for _, row := range rows {
		queue[row.Method] = row.P99
	}
	return queue, err
}

// WriteQueue keeps them.
func WriteQueue(folder string, queue map[string]float64) error {
	var rows []queueFigure
	for _, method := range slices.Sorted(maps.Keys(queue)) {
		rows = append(rows, queueFigure{method, queue[method]})
	}
	return table.Write(filepath.Join(folder, queueFile), rows)
}
