// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"timesync/compare/kept"
	"timesync/compare/play"
	"timesync/internal/stat"
)

// csvHead is the first line of report.csv. Times are in microseconds or seconds, as their
// names say; what is empty was not measured, or never came.
var csvHead = []string{"set", "world", "method", "p50_us", "p95_us", "p99_us", "max_us", "unanswered",
	"first_answer_s", "to_1ms_s", "to_100us_s", "p95_first_1s_us", "p95_first_3s_us", "p95_first_10s_us", "bound_held", "bound_median_us", "judged_us"}

// writeCSV writes all figures of all worlds: judged is that of the tables, which in the
// author's benchmark is his.
func (f *figures) writeCSV(path string) error {
	rows := [][]string{csvHead}
	for i, world := range f.worlds {
		for _, column := range play.Columns() {
			rows = append(rows, f.csvRow(i, column))
		}
		if c := f.chronyd.Find(world.Set, world.Name, 1); c != nil {
			row := make([]string, len(csvHead))
			copy(row, []string{world.Set, world.Name, play.Chronyd})
			for k, v := range c.Best {
				row[3+k] = kept.Number(v)
			}
			row[len(row)-1] = kept.Number(kept.At(c.Best, 0.99))
			rows = append(rows, row)
		}
	}
	return kept.WriteCSV(path, rows)
}

func (f *figures) csvRow(i int, column string) []string {
	world, r := f.worlds[i], f.results[i][column]
	row := []string{world.Set, world.Name, column}
	for _, q := range kept.Kept {
		row = append(row, kept.Number(stat.OrNaN(r.Errs, q)))
	}
	row = append(row, fmt.Sprint(r.Missed), kept.Number(stat.OrNaN(r.First, 0.5)), kept.Number(stat.OrNaN(r.Within[0], 0.5)), kept.Number(stat.OrNaN(r.Within[1], 0.5)))
	for _, v := range r.Start {
		row = append(row, kept.Number(stat.OrNaN(v, 0.95)))
	}
	return append(row, kept.Number(float64(r.Held)/float64(len(r.Bounds))), kept.Number(stat.OrNaN(r.Bounds, 0.5)), kept.Number(f.value(i, column, 0.99)))
}
