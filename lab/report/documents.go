// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"slices"
	"strings"

	"timesync/internal/sim/inputs"
	"timesync/internal/testkit"
	"timesync/lab/graph"
	"timesync/lab/page"
	"timesync/lab/play"
)

// documents are the files that this program writes parts of, and the parts by their names.
func (f *figures) documents() map[string]map[string]string {
	return map[string]map[string]string{
		"README.md":               {"busy": f.busyText(), "figures": f.readmeTable()},
		"lab/results/ACCURACY.md": {"offset": f.accuracyTable(), "coarse": f.coarseTable()},
		"lab/results/REPORT.md":   {"headline": f.headline(), "wins": page.Text("%s.", f.won(play.Simulated)), "core": page.Text("%s.", f.won(play.Skewed)), "worlds": f.worldTable(), "starts": f.starts()},
		"lab/results/CHRONYD.md":  {"equal": f.equalTable(), "wins": f.equalWins()},
		"lab/results/INPUTS.md":   {"inputs": f.inputTable(true), "changes": f.changeTable(), "worlds": f.inputTable(false)},
	}
}

// pictures are those of the documents, by their names.
func (f *figures) pictures() map[string][]*graph.Chart {
	charts := map[string][]*graph.Chart{
		"inputs": {inputChart()}, "skew": {skewChart()}, "rate": {rateChart()},
		"floors": floorsCharts(), "busy": {busyChart()}, "methods": {f.methodsChart()},
	}
	for world, title := range play.Taught {
		charts[world] = []*graph.Chart{f.taughtChart(world, title)}
	}
	return charts
}

// busyText says below README's picture what it shows, and what comes out in all seeds of its world.
func (f *figures) busyText() string {
	p99 := func(column string) string { return graph.Micros(f.named(busyWorld).value(column)) }
	return page.Text("Simulated; one way has a queue for 150 s. Over %d such worlds the 99th percentile of "+
		"the error is %s; the C++ original's %s, NTP's filter's %s, and chronyd's, which asks "+
		"once a second, %s. `cd lab && go run ./report` draws it; [REPORT](lab/results/REPORT.md) "+
		"has all worlds and methods.",
		play.SimSeeds, p99(play.Ours), p99(play.Original), p99(play.NTP), p99(play.Chronyd))
}

// readmeTable has the figures of the report.
func (f *figures) readmeTable() string {
	worlds := f.of(play.Simulated)
	mine, orig, limit := means(worlds)
	return "| error of the remote clock, 99th percentile |  | command |\n|---|---|---|\n" +
		fmt.Sprintf("| geometric mean over %d simulated scenarios | **%s**; the C++ original's is %.0f times as large; chronyd, asking once a second, %s; "+
			"an oracle that knows each series in advance is %.1f times better | [REPORT](lab/results/REPORT.md): `cd lab && go run ./report` |\n\n",
			len(worlds), graph.Micros(mine), orig/mine, graph.Micros(mean(worlds, play.Chronyd)), mine/limit)
}

// accuracyWorlds are the worlds of ACCURACY.md, and what happens in them.
var accuracyWorlds = []struct{ world, what string }{
	{"ideal", "no jitter, 100 ppm"}, {"cellular", "4-10 ms of jitter, 100 ppm"}, {"mediumjitter", "exponential, 3 ms"}, {"bufferbloat-both", ""},
	{"clockstep", "5 ms"}, {"mediumjitter-1hz", "one datagram a second"}, {"slew", "by 500 ppm for 30 s"}, {"standingqueue", "for 150 s"},
}

func (f *figures) accuracyTable() string {
	rows := [][]string{{"world", "timesync, median", "timesync", "C++ original", "NTP's filter", "netfox", "Slot", "one round trip, halved"}}
	for _, a := range accuracyWorlds {
		w := f.named(a.world)
		row := w.row([]string{play.Ours, play.Original, play.NTP, play.Netfox, play.Slot, play.Sutphin})
		row[0] = strings.TrimSuffix(a.world+", "+a.what, ", ")
		rows = append(rows, slices.Insert(row, 1, number(testkit.OrNaN(w.results[play.Ours].Errs, 0.5))))
	}
	return page.Table(rows)
}

func (f *figures) coarseTable() string {
	columns := slices.DeleteFunc(shown(), func(column string) bool { return column == play.Chronyd })
	rows := [][]string{append([]string{"world"}, columns...)}
	for _, w := range f.of(play.Coarse) {
		rows = append(rows, w.row(columns))
	}
	return page.Table(rows)
}

// inputsOf has a row for each world that is shown, and cells for each method with these heads.
func (f *figures) inputsOf(heads []string, shown func(w *inputWorld) bool, cells func(r *inputs.Result) []string) string {
	rows := [][]string{{"world"}}
	for _, m := range inputs.Methods {
		rows[0] = append(append(rows[0], m.Name+", "+heads[0]), heads[1:]...)
	}
	for _, w := range f.inputs {
		row := []string{w.Name}
		for i := range w.results {
			row = append(row, cells(&w.results[i])...)
		}
		if shown(&w) {
			rows = append(rows, row)
		}
	}
	return page.Table(rows)
}

// inputTable returns late share and lead in the worlds that are about inputs, or in the others.
func (f *figures) inputTable(own bool) string {
	return f.inputsOf([]string{"late", "lead"},
		func(w *inputWorld) bool { return w.own == own && w.Off == nil }, // who sleeps has no lead
		func(r *inputs.Result) []string {
			return []string{fmt.Sprintf("%.2f %%", 100*r.Share()), fmt.Sprintf("%.1f ms", graph.Millis(r.Lead))}
		})
}

// changeTable returns what the changes cost.
func (f *figures) changeTable() string {
	return f.inputsOf([]string{"late for", "inputs", "lead too long for"},
		func(w *inputWorld) bool { return w.Change != 0 },
		func(r *inputs.Result) []string {
			return []string{fmt.Sprintf("%.2f s", r.Until.Seconds()), fmt.Sprint(r.Lost), fmt.Sprintf("%.1f s", r.Excess.Seconds())}
		})
}
