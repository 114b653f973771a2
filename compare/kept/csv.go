// SPDX-License-Identifier: BSD-3-Clause

package kept

import (
	"encoding/csv"
	"errors"
	"io/fs"
	"math"
	"os"
	"strconv"
)

// ReadCSV reads a table. A file that is not there is empty.
func ReadCSV(folder fs.FS, name string) ([][]string, error) {
	f, err := folder.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
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

// WriteCSV writes a table.
func WriteCSV(path string, rows [][]string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(csv.NewWriter(f).WriteAll(rows), f.Close())
}

// Number prints four digits.
func Number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
