// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/csv"
	"errors"
	"math"
	"os"
	"strconv"
)

// readCSV reads a table. A file that is not there is empty.
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

func writeCSV(path string, rows [][]string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(csv.NewWriter(f).WriteAll(rows), f.Close())
}

// csvNumber prints four digits.
func csvNumber(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
