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
	"math"
	"os"
	"strconv"

	"github.com/jszwec/csvutil"

	"timesync/internal/testkit"
)

// The tables.
const (
	ChronydFile = "chronyd.csv" // of Figures
	SeriesFile  = "series.csv"  // of Second: chronyd in the worlds that are drawn over time
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
	return Quantiles{testkit.OrNaN(errs, 0.5), testkit.OrNaN(errs, 0.95), testkit.OrNaN(errs, 0.99), testkit.OrNaN(errs, 1)}
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

// Same reports whether other is of the same world.
func (f Figures) Same(other Figures) bool { return f.Set == other.Set && f.World == other.World }

// Second is the largest error of a second in a world.
type Second struct {
	World  string  `csv:"world"`
	Second int     `csv:"second"`
	Worst  float64 `csv:"worst_us"`
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
