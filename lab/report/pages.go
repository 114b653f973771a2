// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"slices"
	"strings"

	"timesync/internal/sim/inputs"
	"timesync/internal/testkit"
	"timesync/lab/play"
	"timesync/lab/results"
)

// pages are the documents that this program writes parts of, or draws pictures for. A new page,
// part or picture is an entry here.
func (f *figures) pages() []results.Page {
	return []results.Page{
		{
			Path: "README.md",
			Parts: map[string]string{
				"busy":    f.busyText(),
				"figures": f.readmeTable(),
			},
			Pictures: map[string][]*results.Chart{"busy": {busyChart()}},
		},
		{
			Path:     "docs/DESIGN.md",
			Pictures: map[string][]*results.Chart{"floors": floorsCharts()},
		},
		{
			Path: "lab/results/REPORT.md",
			Parts: map[string]string{
				"headline": f.headline(),
				"wins":     results.Text("%s.", f.won(play.Simulated)),
				"core":     results.Text("%s.", f.won(play.Skewed)),
				"worlds":   f.worldTable(),
				"starts":   f.starts(),
			},
			Pictures: f.reportPictures(),
		},
		{
			Path: "lab/results/ACCURACY.md",
			Parts: map[string]string{
				"offset": f.accuracyTable(),
				"coarse": f.coarseTable(),
			},
		},
		{
			Path: "lab/results/CHRONYD.md",
			Parts: map[string]string{
				"equal": f.equalTable(),
				"wins":  f.equalWins(),
			},
		},
		{
			Path: "lab/results/INPUTS.md",
			Parts: map[string]string{
				"inputs":  f.inputTable(true),
				"changes": f.changeTable(),
				"worlds":  f.inputTable(false),
			},
			Pictures: map[string][]*results.Chart{"inputs": {inputChart()}},
		},
		{
			Path:     "lab/results/JITTER.md",
			Parts:    map[string]string{"waits": waitTable()},
			Pictures: map[string][]*results.Chart{"waits": {waitChart()}},
		},
		{
			Path:     "lab/results/PLAYOUT.md",
			Parts:    map[string]string{"playout": f.playoutTable()},
			Pictures: map[string][]*results.Chart{"playout": f.playoutCharts()},
		},
	}
}

// reportPictures are those of REPORT.md.
func (f *figures) reportPictures() map[string][]*results.Chart {
	pictures := map[string][]*results.Chart{
		"methods": {f.methodsChart()},
		"skew":    {skewChart()},
		"rate":    {rateChart()},
	}
	for world, title := range play.Taught {
		pictures[world] = []*results.Chart{f.taughtChart(world, title)}
	}
	return pictures
}

// busyText says below README's picture what it shows, and what comes out in all seeds of its
// world.
func (f *figures) busyText() string {
	p99 := func(column string) string { return results.Micros(f.named(busyWorld).value(column)) }
	return results.Text("Simulated: other traffic fills one way's queue for 150 s. Over %d seeds the "+
		"99th percentile of timesync's error is **%s**. The NTP filter of the picture is a bare one; "+
		"chronyd, asking once a second, has %s here. [REPORT](lab/results/REPORT.md) has all methods "+
		"and worlds; `cd lab && go run ./report` draws it.",
		play.SimSeeds, p99(play.Ours), p99(play.Chronyd))
}

// readmeTable has the figures of the report.
func (f *figures) readmeTable() string {
	worlds := f.of(play.Simulated)
	mine, orig, limit := means(worlds)
	const head = "| 99th percentile of the error, geometric mean of %d simulated worlds | |\n|---|--:|\n"
	const rows = "| timesync | **%s** |\n" +
		"| the C++ original, on the same datagrams | %s |\n" +
		"| chronyd, asking once a second | %s |\n" +
		"| the best possible: an oracle that knows each world in advance | %s |\n\n" +
		"[REPORT](lab/results/REPORT.md) has each world: `cd lab && go run ./report`\n\n"
	chrony := mean(worlds, play.Chronyd)
	return fmt.Sprintf(head+rows, len(worlds), results.Micros(mine), results.Micros(orig),
		results.Micros(chrony), results.Micros(limit))
}

// accuracyWorlds are the worlds of ACCURACY.md, and what happens in them.
var accuracyWorlds = []struct{ world, what string }{
	{"ideal", "no jitter, 100 ppm"},
	{"cellular", "4-10 ms of jitter, 100 ppm"},
	{"mediumjitter", "exponential, 3 ms"},
	{"bufferbloat-both", ""},
	{"clockstep", "5 ms"},
	{"mediumjitter-1hz", "one datagram a second"},
	{"slew", "by 500 ppm for 30 s"},
	{"standingqueue", "for 150 s"},
}

func (f *figures) accuracyTable() string {
	columns := []string{play.Ours, play.Original, play.NTP, play.Netfox, play.Slot, play.Sutphin}
	heads := []string{
		"timesync", "C++ original", "NTP's filter", "netfox", "Slot", "one round trip, halved",
	}
	rows := [][]string{append([]string{"world", "timesync, median"}, heads...)}
	for _, a := range accuracyWorlds {
		w := f.named(a.world)
		median := testkit.OrNaN(w.results[play.Ours].Errs, 0.5)
		row := slices.Insert(w.row(columns), 1, number(median))
		row[0] = strings.TrimSuffix(a.world+", "+a.what, ", ")
		rows = append(rows, row)
	}
	return results.Table(rows)
}

func (f *figures) coarseTable() string {
	chronyd := func(column string) bool { return column == play.Chronyd } // it was not played there
	columns := slices.DeleteFunc(shown(), chronyd)
	rows := [][]string{append([]string{"world"}, columns...)}
	for _, w := range f.of(play.Coarse) {
		rows = append(rows, w.row(columns))
	}
	return results.Table(rows)
}

// inputsOf has a row for each world that is shown, and cells for each method with these heads.
func (f *figures) inputsOf(
	heads []string, shown func(w *inputWorld) bool, cells func(r *inputs.Result) []string,
) string {
	rows := [][]string{{"world"}}
	for _, m := range inputs.Methods {
		rows[0] = append(rows[0], m.Name+", "+heads[0])
		rows[0] = append(rows[0], heads[1:]...)
	}
	for _, w := range f.inputs {
		if !shown(&w) {
			continue
		}
		row := []string{w.Name}
		for i := range w.results {
			row = append(row, cells(&w.results[i])...)
		}
		rows = append(rows, row)
	}
	return results.Table(rows)
}

// inputTable returns late share and lead in the worlds that are about inputs, or in the others.
func (f *figures) inputTable(own bool) string {
	shown := func(w *inputWorld) bool {
		return w.own == own && w.Off == nil // who sleeps has no lead
	}
	cells := func(r *inputs.Result) []string {
		return []string{
			fmt.Sprintf("%.2f %%", 100*r.Share()),
			fmt.Sprintf("%.1f ms", results.Millis(r.Lead)),
		}
	}
	return f.inputsOf([]string{"late", "lead"}, shown, cells)
}

// changeTable returns what the changes cost.
func (f *figures) changeTable() string {
	shown := func(w *inputWorld) bool { return w.Change != 0 }
	cells := func(r *inputs.Result) []string {
		return []string{
			fmt.Sprintf("%.2f s", r.Until.Seconds()),
			fmt.Sprint(r.Lost),
			fmt.Sprintf("%.1f s", r.Excess.Seconds()),
		}
	}
	return f.inputsOf([]string{"late for", "inputs", "lead too long for"}, shown, cells)
}
