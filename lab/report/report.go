// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"timesync/internal/testkit"
	"timesync/lab/play"
	"timesync/lab/results"
)

// shown returns the columns that the report shows, chronyd beside the original. Those of two
// methods are in the CSV only.
func shown() []string {
	hidden := func(column string) bool { return column == play.NTP || column == play.Sutphin }
	all := slices.DeleteFunc(play.Columns(), hidden)
	return slices.Insert(all, slices.Index(all, play.Original)+1, play.Chronyd)
}

// headline says how far apart the methods are in the simulated worlds.
func (f *figures) headline() string {
	worlds := f.of(play.Simulated)
	mine, orig, limit := means(worlds)
	alone := func(w *played) bool { return math.IsNaN(w.chronyd.Best.P99) }
	both := slices.DeleteFunc(slices.Clone(worlds), alone)
	chrony, beside := mean(both, play.Chronyd), mean(both, play.Ours)
	return results.Text("**In the geometric mean over %d worlds, the 99th percentile of the error "+
		"is %s with this package. That is %.0f times less than with the original (%s), which sends "+
		"the same datagrams, and %.0f times less than with chronyd in the %d worlds that it can be "+
		"played in (%s against %s). An oracle that knows each series in advance is %.1f times better "+
		"(%s).**",
		len(worlds), results.Micros(mine),
		orig/mine, results.Micros(orig),
		chrony/beside, len(both), results.Micros(chrony), results.Micros(beside),
		mine/limit, results.Micros(limit))
}

// winner returns the best method that is better than ours in a world, by more than a twentieth
// and the unit of a stamp; for chronyd, which has no such unit, by more than a twentieth. If
// there is none, name is "".
func (w *played) winner() (name string, us float64) {
	mine := w.value(play.Ours)
	us = mine * 0.95
	for _, column := range append(play.Columns(), play.Chronyd) {
		limit := us
		if column != play.Chronyd {
			limit = min(us, mine-8)
		}
		if v := w.value(column); v < limit && column != play.OracleName {
			name, us = column, v
		}
	}
	return name, us
}

// won lists the worlds of a set in which another method is better.
func (f *figures) won(set string) string {
	var worlds []string
	for _, w := range f.of(set) {
		if winner, us := w.winner(); winner != "" {
			mine := w.value(play.Ours)
			world := fmt.Sprintf("`%s` (%s %s; ours %s)", w.short(), winner, fine(us), fine(mine))
			worlds = append(worlds, world)
		}
	}
	return cmp.Or(strings.Join(worlds, ", "), "None")
}

// short is the beginning of a name.
func (w *played) short() string {
	name, _, _ := strings.Cut(w.Name, "_")
	return name
}

// variant are the names of worlds that are another one at another rate or with another period.
var variant = regexp.MustCompile(`-(3|5|200)hz$|^routeflaps-(7|60)s$|^wrap$`)

// worldTable has the 99th percentiles of all simulated worlds, in their groups.
func (f *figures) worldTable() string {
	rows := [][]string{append([]string{"world"}, shown()...)}
	addMeans := func(name string, worlds []*played) {
		row := []string{"**" + name + "**"}
		for _, column := range shown() {
			row = append(row, number(mean(worlds, column)))
		}
		rows = append(rows, row)
	}
	worlds := f.of(play.Simulated)
	groups := map[string][]*played{}
	var order []string // in which groups come first
	for _, w := range worlds {
		if groups[w.Group] == nil {
			order = append(order, w.Group)
		}
		groups[w.Group] = append(groups[w.Group], w)
	}
	for _, group := range order {
		addMeans(group, groups[group])
		for _, w := range groups[group] {
			if !variant.MatchString(w.Name) {
				rows = append(rows, w.row(shown()))
			}
		}
	}
	addMeans("all of them", worlds)
	return results.Table(rows)
}

// row has the figures of columns; that of the best that answers at once is bold.
func (w *played) row(columns []string) []string {
	best := math.Inf(1)
	for _, column := range columns {
		if v := w.value(column); column != play.OracleName && v < best {
			best = v
		}
	}
	row := []string{w.Name}
	for _, column := range columns {
		cell := number(w.value(column))
		if column != play.OracleName && w.value(column) == best {
			cell = "**" + cell + "**"
		}
		row = append(row, cell)
	}
	return row
}

// number prints microseconds in a table.
func number(us float64) string {
	if math.IsNaN(us) {
		return "-"
	}
	return fmt.Sprintf("%.0f", math.Round(us))
}

// short prints microseconds without their unit, small ones with a digit more.
func short(us float64) string {
	if us < 9.95 {
		return fmt.Sprintf("%.1f", us)
	}
	return fmt.Sprintf("%.0f", us)
}

// fine prints microseconds for people, small ones with a digit more.
func fine(us float64) string {
	if us < 9.95 {
		return short(us) + " us"
	}
	return results.Micros(us)
}

// starts says when methods answer, how often the error bound holds, and what comes out in the
// original author's benchmark.
func (f *figures) starts() string {
	var parts []string
	var widths []float64 // of the error bound, which one method has
	held := 0
	for _, column := range []string{play.Ours, play.Original, play.NTP, play.Netfox} {
		var first, milli []float64
		for _, w := range f.of(play.Simulated) {
			r := w.results[column]
			first = append(first, r.First...)
			milli = append(milli, r.To1ms...)
			widths = append(widths, r.Bounds...)
			held += r.Held
		}
		parts = append(parts, fmt.Sprintf("%s after %s and %s", column, after(first), after(milli)))
	}
	core, better := f.of(play.Skewed), 0
	for _, w := range core {
		if w.value(play.Ours) <= w.value(play.Original) {
			better++
		}
	}
	us, orig, limit := means(core)
	return results.Text("When a method answers first, and from when on its error stays below 1 ms, "+
		"medians over all ends of all simulated worlds: %s.", strings.Join(parts, ", ")) +
		results.Text("From 30 s on, %.2f %% of this package's answers are within its `ErrorBound`, "+
			"whose median width is %s: half the round trip.",
			100*float64(held)/float64(len(widths)), results.Micros(testkit.OrNaN(widths, 0.5))) +
		results.Text("In the original author's scenarios called CORE, with a skew of 25 to 400 ppm, "+
			"this package comes to %s in the geometric mean (the original %s, the oracle %s), and is no "+
			"worse than the original in %d of %d.",
			results.Micros(us), results.Micros(orig), results.Micros(limit), better, len(core))
}

// after prints a median of seconds, if it is one.
func after(all []float64) string {
	if median := testkit.OrNaN(all, 0.5); median < math.Inf(1) {
		return fmt.Sprintf("%.1f s", median)
	}
	return "never"
}

// equalWins says where chronyd is better at equal numbers of packets by more than a twentieth.
func (f *figures) equalWins() string {
	var ahead []string
	for _, w := range f.of(play.EqualRates) {
		if chrony, mine := w.value(play.Chronyd), w.value(play.Ours); chrony < mine*0.95 {
			row := fmt.Sprintf("%s (%s against %s)", w.Name, fine(chrony), fine(mine))
			ahead = append(ahead, row)
		}
	}
	return results.Text("%s.", cmp.Or(strings.Join(ahead, "; "), "None"))
}

// equalTable is the table of CHRONYD.md, and what it comes to.
func (f *figures) equalTable() string {
	better, version := 0, ""
	rows := [][]string{{
		"world",
		"timesync",
		"chronyd, best setting",
		"chronyd, its defaults",
		"original",
		"the best setting",
	}}
	for _, w := range f.of(play.EqualRates) {
		chrony := w.chronyd
		setting := "its defaults"
		if chrony.Setting != "" {
			setting = "`" + chrony.Setting + "`"
		}
		if w.value(play.Ours) <= chrony.Best.P99 {
			better++
		}
		version = cmp.Or(chrony.Version, version)
		rows = append(rows, []string{
			w.Name,
			pair(results.QuantilesOf(w.results[play.Ours].Errs)),
			pair(chrony.Best),
			pair(chrony.Stock),
			pair(results.QuantilesOf(w.results[play.Original].Errs)),
			setting,
		})
	}
	return results.Text("**In %d of %d rows this package's 99th percentile is at most that of "+
		"chronyd %s with the best of its settings.**", better, len(rows)-1, version) +
		results.Table(rows)
}

// pair prints a median and a 99th percentile in microseconds without their unit.
func pair(q results.Quantiles) string { return short(q.P50) + " / " + short(q.P99) }
