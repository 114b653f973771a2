// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"errors"
	"math"
	"path/filepath"
	"slices"

	"timesync/internal/sim"
	"timesync/internal/sim/inputs"
	"timesync/internal/sim/listening"
	"timesync/internal/testkit"
	"timesync/lab/play"
	"timesync/lab/results"
)

// figures is all that is measured, before anybody draws or writes.
type figures struct {
	worlds  []*played
	inputs  []inputWorld
	heard   []heard
	seconds []results.ChronydSecond // chronyd's errors over time
}

// played is a world, and what came out in it.
type played struct {
	play.World
	results play.Results
	chronyd results.ChronydWorld // NaN where it was not measured
}

// collect plays everything. Recorded series are those of the folder traces, and the
// project's own.
func collect(traces string) (*figures, error) {
	chronyd, err := results.ReadCSV[results.ChronydWorld](
		filepath.Join(results.Folder, results.ChronydFile))
	seconds, bad := results.ReadCSV[results.ChronydSecond](
		filepath.Join(results.Folder, results.ChronydSecondsFile))
	worlds, worse := play.AllWorlds(traces)
	if err = errors.Join(err, bad, worse); err != nil {
		return nil, err
	}
	playWorld := func(w play.World) *played {
		none := results.QuantilesOf(nil)
		p := &played{
			World:   w,
			results: play.Measure(w),
			chronyd: results.ChronydWorld{Set: w.Set, World: w.Name, Best: none, Stock: none},
		}
		if i := slices.IndexFunc(chronyd, p.chronyd.Same); i >= 0 {
			p.chronyd = chronyd[i]
		}
		return p
	}
	return &figures{
		worlds:  play.Map(worlds, playWorld),
		inputs:  play.Map(inputs.Worlds(), playInput),
		heard:   play.Map(listening.Kinds, listen),
		seconds: seconds,
	}, nil
}

// inputWorld is a world, and the results of the methods as they are.
type inputWorld struct {
	inputs.World
	own     bool // it is about inputs; else it is one of the report's
	results []inputs.Result
}

const inputSeeds = 3 // of each world that is about inputs

// playInput plays all methods in a world.
func playInput(w inputs.World) inputWorld {
	x := inputWorld{World: w, own: true}
	seeds := inputSeeds
	named := func(sc sim.Scenario) bool { return sc.Name == w.Name }
	if slices.ContainsFunc(sim.Scenarios(), named) {
		x.own = false
		seeds = 1
	}
	for _, m := range inputs.Methods {
		x.results = append(x.results, m.At(w, seeds, m.Default))
	}
	return x
}

// of returns the worlds of a set.
func (f *figures) of(set string) (worlds []*played) {
	for _, w := range f.worlds {
		if w.Set == set {
			worlds = append(worlds, w)
		}
	}
	return worlds
}

// named returns the simulated world of that name.
func (f *figures) named(name string) *played {
	worlds := f.of(play.Simulated)
	return worlds[slices.IndexFunc(worlds, func(w *played) bool { return w.Name == name })]
}

// value is the figure by which a column is judged in a world: the 99th percentile of all errors,
// or in the author's benchmark what he looks at: the 95th percentile at the worse end, of which
// the median of the seeds. It is NaN where there is none: chronyd is played in some worlds only.
func (w *played) value(column string) float64 {
	r := w.results[column]
	switch {
	case column == play.Chronyd:
		return w.chronyd.Best.P99
	case w.Set == play.Published || w.Set == play.Skewed:
		return testkit.OrNaN(r.Worse, 0.5)
	}
	return testkit.OrNaN(r.Errs, 0.99)
}

// mean returns the geometric mean of a column over worlds, of those in which it has a value.
// Below a microsecond all are equal.
func mean(worlds []*played, column string) float64 {
	sum, n := 0.0, 0.0
	for _, w := range worlds {
		if x := w.value(column); !math.IsNaN(x) {
			sum += math.Log(max(x, 1))
			n++
		}
	}
	return math.Exp(sum / n)
}

// means returns those of this package, the original and the oracle.
func means(worlds []*played) (mine, orig, limit float64) {
	return mean(worlds, play.Ours), mean(worlds, play.Original), mean(worlds, play.OracleName)
}

// csvRow is one of report.csv. What is NaN was not measured, or never came.
type csvRow struct {
	Set               string `csv:"set"`
	World             string `csv:"world"`
	Method            string `csv:"method"`
	results.Quantiles `csv:",inline"`
	Unanswered        float64 `csv:"unanswered"`
	FirstAnswer       float64 `csv:"first_answer_s"`
	To1ms             float64 `csv:"to_1ms_s"`
	BoundHeld         float64 `csv:"bound_held"`
	BoundMedian       float64 `csv:"bound_median_us"`
	Judged            float64 `csv:"judged_us"` // that of the tables: in the author's benchmark his
}

// writeCSV writes all figures of all worlds.
func (f *figures) writeCSV(path string) error {
	var rows []csvRow
	for _, w := range f.worlds {
		for _, column := range play.Columns() {
			r := w.results[column]
			rows = append(rows, csvRow{
				Set:         w.Set,
				World:       w.Name,
				Method:      column,
				Quantiles:   results.QuantilesOf(r.Errs),
				Unanswered:  float64(r.Missed),
				FirstAnswer: testkit.OrNaN(r.First, 0.5),
				To1ms:       testkit.OrNaN(r.To1ms, 0.5),
				BoundHeld:   float64(r.Held) / float64(len(r.Bounds)),
				BoundMedian: testkit.OrNaN(r.Bounds, 0.5),
				Judged:      w.value(column),
			})
		}
		best := w.chronyd.Best
		if math.IsNaN(best.P99) {
			continue
		}
		none := math.NaN()
		rows = append(rows, csvRow{
			Set:         w.Set,
			World:       w.Name,
			Method:      play.Chronyd,
			Quantiles:   best,
			Unanswered:  none,
			FirstAnswer: none,
			To1ms:       none,
			BoundHeld:   none,
			BoundMedian: none,
			Judged:      best.P99,
		})
	}
	return results.WriteCSV(path, rows)
}
