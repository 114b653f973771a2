// SPDX-License-Identifier: BSD-3-Clause

package results

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

// ReadCSV reads a table whose rows are structs with csv tags. A file that does not exist is an
// empty table.
func ReadCSV[T any](path string) (rows []T, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return rows, errors.Join(err, csvutil.Unmarshal(text, &rows))
}

// WriteCSV writes a table whose rows are structs with csv tags. Numbers have four decimals at
// most. NaN and infinity become empty cells.
func WriteCSV[T any](path string, rows []T) error {
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

// Quantiles are those of the sizes of errors, us.
type Quantiles struct {
	P50 float64 `csv:"p50_us"`
	P95 float64 `csv:"p95_us"`
	P99 float64 `csv:"p99_us"`
	Max float64 `csv:"max_us"`
}

// QuantilesOf returns the quantiles of errors, NaN if there are none.
func QuantilesOf(errs []float64) Quantiles {
	return Quantiles{
		P50: testkit.OrNaN(errs, 0.5),
		P95: testkit.OrNaN(errs, 0.95),
		P99: testkit.OrNaN(errs, 0.99),
		Max: testkit.OrNaN(errs, 1),
	}
}

// What chronyd did is kept in two tables, because measuring it takes the program, root and an
// hour. The report reads them, and plays all other methods again.
const (
	ChronydFile        = "chronyd.csv"         // of ChronydWorld
	ChronydSecondsFile = "chronyd-seconds.csv" // of ChronydSecond
)

// ChronydWorld is what chronyd did in one world.
type ChronydWorld struct {
	Set     string    `csv:"set"`
	World   string    `csv:"world"`
	Version string    `csv:"version"`
	Tried   int       `csv:"tried"`   // settings
	Setting string    `csv:"setting"` // the best one; "" is the defaults
	Best    Quantiles `csv:"best_,inline"`
	Stock   Quantiles `csv:"stock_,inline"`
}

// Same reports whether other is of the same world.
func (c ChronydWorld) Same(other ChronydWorld) bool {
	return c.Set == other.Set && c.World == other.World
}

// ChronydSecond is chronyd's largest error within a second of a world. Only worlds that are drawn
// over time have such rows.
type ChronydSecond struct {
	World  string  `csv:"world"`
	Second int     `csv:"second"`
	Worst  float64 `csv:"worst_us"`
}
