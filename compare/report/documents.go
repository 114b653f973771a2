// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"timesync/compare/graph"
	"timesync/compare/kept"
	"timesync/compare/page"
	"timesync/compare/play"
)

// root is the folder of the project, seen from that of the module.
const root = ".."

// documents are the files that this program writes parts of, and the parts by their names.
func (f *figures) documents() (map[string]map[string]string, error) {
	queue, err := kept.ReadQueue()
	return map[string]map[string]string{
		"README.md":        {"busy": f.busyText(), "figures": f.readmeTable(queue)},
		"docs/ACCURACY.md": {"offset": f.accuracyTable(), "coarse": f.coarseTable()},
		"docs/REPORT.md":   {"headline": f.headline(), "wins": f.wins(), "worlds": f.worldTable(), "starts": f.starts(), "costs": costTable()},
		"docs/CHRONYD.md":  {"equal": f.equalTable(), "wins": page.List(f.equalWins())},
		"docs/INPUTS.md":   {"inputs": f.inputTable(true), "changes": f.changeTable(), "worlds": f.inputTable(false)},
	}, err
}

// pictures are those of the documents, by their names.
func (f *figures) pictures() map[string][]*graph.Chart {
	charts := map[string][]*graph.Chart{"inputs": {inputChart()}, "skew": {f.skewChart()}, "rate": {f.rateChart()}, "floors": floorsCharts(), "busy": {f.busyChart()}, "methods": {f.methodsChart()}}
	for world, title := range taught {
		charts[world] = []*graph.Chart{f.series[world].chart(title)}
	}
	return charts
}

// write writes documents and pictures where they stand, or into a folder.
func (f *figures) write(folder string) error {
	documents, err := f.documents()
	for name, parts := range documents {
		path := filepath.Join(root, name)
		err = errors.Join(err, page.Write(path, cmp.Or(folder, filepath.Dir(path)), parts))
	}
	docs := cmp.Or(folder, filepath.Join(root, "docs"))
	return errors.Join(err, page.Draw(docs, f.pictures()), f.writeCSV(filepath.Join(docs, "report.csv")))
}

// readmeTable has the figures of the report, and those of the real queue.
func (f *figures) readmeTable(queue map[string]float64) string {
	chronyd := min(queue[play.Chronyd], queue[play.ChronydOften])
	mine, orig, limit := f.means(play.Simulated, 0.99)
	return page.Words([][]string{
		{"error of the remote clock, 99th percentile", "", "command"},
		{fmt.Sprintf("geometric mean over %d simulated scenarios", len(f.of(play.Simulated))),
			fmt.Sprintf("**%s**; the C++ original's is %.0f times as large; chronyd, asking once a second, %s; an oracle that knows each series in advance is %.1f times better",
				graph.Micros(mine), orig/mine, graph.Micros(f.mean(play.Simulated, play.Chronyd, 0.99)), mine/limit),
			"[REPORT](docs/REPORT.md): `cd compare && go run ./report`"},
		{"beside TCP that fills a real queue of 300 ms",
			fmt.Sprintf("**%s**; chronyd %s, the original %s", graph.Micros(queue[play.Ours]), graph.Micros(chronyd), graph.Micros(queue[play.Original])),
			"[QUEUE](docs/QUEUE.md): `sudo compare/lab/queue.sh FOLDER`"},
	})
}

// accuracyWorlds are the worlds of ACCURACY.md, and what happens in them.
var accuracyWorlds = []struct{ world, what string }{
	{"ideal", "no jitter, 100 ppm"}, {"cellular", "4-10 ms of jitter, 100 ppm"}, {"mediumjitter", "exponential, 3 ms"}, {"bufferbloat-both", ""},
	{"clockstep", "5 ms"}, {"mediumjitter-1hz", "one datagram a second"}, {"slew", "by 500 ppm for 30 s"}, {"standingqueue", "for 150 s"},
}

func (f *figures) accuracyTable() string {
	rows := [][]string{{"world", "timesync, median", "timesync", "C++ original", "NTP's filter", "netfox", "Slot", "one round trip, halved"}}
	for _, a := range accuracyWorlds {
		i := f.named(a.world)
		row := []string{strings.TrimSuffix(a.world+", "+a.what, ", "), number(f.value(i, play.Ours, 0.5), false)}
		for _, column := range []string{play.Ours, play.Original, play.NTP, play.Netfox, play.Slot, play.Sutphin} {
			row = append(row, number(f.value(i, column, 0.99), column == play.Ours))
		}
		rows = append(rows, row)
	}
	return page.Table(rows)
}

func (f *figures) coarseTable() string {
	columns := slices.DeleteFunc(shown(), func(column string) bool { return column == play.Chronyd })
	rows := [][]string{append([]string{"world"}, columns...)}
	for _, i := range f.of(play.Coarse) {
		rows = append(rows, f.worldRow(i, columns))
	}
	return page.Table(rows)
}

// taught are the worlds that teach most, those of play.TaughtWorlds, with the titles of their pictures.
var taught = map[string]string{
	"bufferbloat-both":    "Bufferbloat: others fill the queues of both ways",
	"route-longer-oneway": "A path becomes longer by 20 ms, one way",
	"clockstep":           "A clock is set by 5 ms",
}

// chart shows the errors over time.
func (s series) chart(title string) *graph.Chart {
	seconds := float64(len(s.errs[play.Ours]))
	x := graph.Axis{Label: "seconds since the start", Min: 0, Max: seconds}
	return &graph.Chart{Title: title, X: x, Y: graph.ErrorAxis(graph.ErrorLabel, s.highest()), Curves: s.curves(), Events: s.events}
}

func (f *figures) skewChart() *graph.Chart {
	x := graph.Axis{Label: "how far the rates of the clocks are apart, ppm", Min: 0, Max: 1000, Ticks: graph.Fixed(0, 100, 200, 300, 500, 700, 1000)}
	return &graph.Chart{Title: "Error against skew, 99th percentile", X: x, Y: graph.ErrorAxis(graph.ErrorLabel, 1e5),
		Curves: f.skews.curves(), Events: []graph.Event{{From: 0, To: 100, Name: "two crystals"}}}
}

func (f *figures) rateChart() *graph.Chart {
	x := graph.Axis{Label: "datagrams a second each way", Log: true, Min: 1, Max: 120, Ticks: graph.Fixed(f.rates.values...)}
	return &graph.Chart{Title: "Error against the rate of datagrams, 99th percentile", X: x, Y: graph.ErrorAxis(graph.ErrorLabel, 1e5), Curves: f.rates.curves()}
}

// methodsChart has a row for each method, the best on top: a dot for the p99 in each simulated world, and
// a bar at their mean.
func (f *figures) methodsChart() *graph.Chart {
	columns := shown()
	mean := func(column string) float64 { return f.mean(play.Simulated, column, 0.99) }
	slices.SortStableFunc(columns, func(a, b string) int { return cmp.Compare(mean(a), mean(b)) })
	c := &graph.Chart{
		Title: "99th percentile of the error in all simulated worlds", About: "a dot for each world, a bar at their geometric mean",
		X: graph.ErrorAxis("error, less is better (floor: 1 us)", 1e6), Y: graph.Axis{Min: -float64(len(columns)) + 0.5, Max: 0.8}, Height: 300,
	}
	for i, column := range columns {
		y, at := -float64(i), mean(column)
		c.Y.Ticks = append(c.Y.Ticks, plot.Tick{Value: y, Label: column})
		var dots plotter.XYs
		for _, i := range f.of(play.Simulated) {
			if v := f.value(i, column, 0.99); !math.IsNaN(v) {
				dots = append(dots, plotter.XY{X: v, Y: y})
			}
		}
		bar := []plotter.XYs{{{X: at, Y: y - 0.26}, {X: at, Y: y + 0.26}}}
		c.Curves = append(c.Curves, graph.Curve{Color: graph.Fade(play.ColorOf(column)), Dots: 2, Parts: []plotter.XYs{dots}},
			graph.Curve{Name: graph.Micros(at), Color: play.ColorOf(column), Width: 2.5, Parts: bar, At: &plotter.XY{X: at, Y: y + 0.28}, Above: true})
	}
	return c
}
