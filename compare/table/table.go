// SPDX-License-Identifier: BSD-3-Clause

// Package table reads and writes CSV files. A row is a struct, whose tags name the columns.
package table

import (
	"encoding/csv"
	"errors"
	"io/fs"
	"math"
	"os"
	"strconv"

	"github.com/jszwec/csvutil"
)

// Read reads a table. A file that is not there is empty.
func Read[T any](folder fs.FS, name string) (rows []T, err error) {
	text, err := fs.ReadFile(folder, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = csvutil.Unmarshal(text, &rows)
	}
	return rows, err
}

// Write writes a table. Numbers have four decimals at most; what is none is empty.
func Write[T any](path string, rows []T) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	e := csvutil.NewEncoder(w)
	e.WithMarshalers(csvutil.MarshalFunc(func(v float64) ([]byte, error) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, nil
		}
		return strconv.AppendFloat(nil, math.Round(v*1e4)/1e4, 'f', -1, 64), nil
	}))
	err = e.Encode(rows)
	w.Flush()
	return errors.Join(err, w.Error(), f.Close())
}
