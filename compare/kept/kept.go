// SPDX-License-Identifier: BSD-3-Clause

// Package kept has what the lab has measured beside other programs, because that takes them, and an
// hour. The report reads it, and plays the other methods anew. All are CSV files; a row is a struct,
// whose tags name the columns.
package kept

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jszwec/csvutil"

	"timesync/compare/play"
	"timesync/internal/stat"
)

const (
	chronyFile   = "chronyd.csv"
	chronySeries = "series.csv"
	queueFile    = "queue.csv"
)

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

// Figures are those of chronyd in one world.
type Figures struct {
	Set     string    `csv:"set"`
	World   string    `csv:"world"`
	Version string    `csv:"version"`
	Tried   int       `csv:"tried"`   // settings
	Setting string    `csv:"setting"` // the best one; "" is the defaults
	Best    Quantiles `csv:"best_,inline"`
	Stock   Quantiles `csv:"stock_,inline"`
}

// P99 is the 99th percentile with the best setting, NaN if there are no figures.
func (f *Figures) P99() float64 {
	if f == nil {
		return math.NaN()
	}
	return f.Best.P99
}

// Chronyd is all that was measured of it.
type Chronyd struct {
	Figures []Figures
	Series  map[string]play.Seconds // of the worlds that are drawn over time
}

// Find returns the figures of a world, nil if it was not measured.
func (c *Chronyd) Find(set, world string) *Figures {
	i := slices.IndexFunc(c.Figures, func(f Figures) bool { return f.Set == set && f.World == world })
	if i < 0 {
		return nil
	}
	return &c.Figures[i]
}

// second is one of a series.
type second struct {
	World  string  `csv:"world"`
	Second int     `csv:"second"`
	Worst  float64 `csv:"worst_us"`
}

// ReadChronyd reads both of its files.
func ReadChronyd(folder string) (*Chronyd, error) {
	figures, err := Read[Figures](filepath.Join(folder, chronyFile))
	seconds, bad := Read[second](filepath.Join(folder, chronySeries))
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
	return errors.Join(Write(filepath.Join(folder, chronyFile), c.Figures), Write(filepath.Join(folder, chronySeries), seconds))
}

// Queue is the 99th percentile of a method beside TCP on a real queue.
type Queue struct {
	Method string  `csv:"method"`
	P99    float64 `csv:"p99_us"`
}

// ReadQueue returns those figures by method, us.
func ReadQueue(folder string) (map[string]float64, error) {
	rows, err := Read[Queue](filepath.Join(folder, queueFile))
	queue := map[string]float64{}
	for _, row := range rows {
		queue[row.Method] = row.P99
	}
	return queue, err
}

// WriteQueue keeps them, in the order of their methods.
func WriteQueue(folder string, rows []Queue) error {
	slices.SortFunc(rows, func(a, b Queue) int { return strings.Compare(a.Method, b.Method) })
	return Write(filepath.Join(folder, queueFile), rows)
}

// Read reads a table. A file that is not there is empty.
func Read[T any](path string) (rows []T, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return rows, errors.Join(err, csvutil.Unmarshal(text, &rows))
}

// Write writes a table. Numbers have four decimals at most; what is none is empty.
func Write[T any](path string, rows []T) error {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	e := csvutil.NewEncoder(w)
	e.WithMarshalers(csvutil.MarshalFunc(func(v float64) ([]byte, error) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, nil
		}
		return strconv.AppendFloat(nil, math.Round(v*1e4)/1e4, 'f', -1, 64), nil
	}))
	err := e.Encode(rows)
	w.Flush()
	return errors.Join(err, os.WriteFile(path, b.Bytes(), 0o644))
}
