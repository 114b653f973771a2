// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"math"

	"timesync/compare/kept"
	"timesync/compare/play"
	"timesync/compare/table"
	"timesync/internal/stat"
)

// csvRow is one of report.csv. What is NaN was not measured, or never came.
type csvRow struct {
	Set            string `csv:"set"`
	World          string `csv:"world"`
	Method         string `csv:"method"`
	kept.Quantiles `csv:",inline"`
	Unanswered     float64 `csv:"unanswered"`
	FirstAnswer    float64 `csv:"first_answer_s"`
	To1ms          float64 `csv:"to_1ms_s"`
	BoundHeld      float64 `csv:"bound_held"`
	BoundMedian    float64 `csv:"bound_median_us"`
	Judged         float64 `csv:"judged_us"` // that of the tables, which in the author's benchmark is his
}

// writeCSV writes all figures of all worlds.
func (f *figures) writeCSV(path string) error {
	var rows []csvRow
	none := math.NaN()
	for i, world := range f.worlds {
		for _, column := range play.Columns() {
			r := f.results[i][column]
			rows = append(rows, csvRow{world.Set, world.Name, column, kept.QuantilesOf(r.Errs), float64(r.Missed),
				stat.OrNaN(r.First, 0.5), stat.OrNaN(r.To1ms, 0.5),
				float64(r.Held) / float64(len(r.Bounds)), stat.OrNaN(r.Bounds, 0.5), f.value(i, column, 0.99)})
		}
		if c := f.chronyd.Find(world.Set, world.Name); c != nil {
			rows = append(rows, csvRow{world.Set, world.Name, play.Chronyd, c.Best, none, none, none, none, none, c.Best.P99})
		}
	}
	return table.Write(path, rows)
}
