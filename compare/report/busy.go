// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"timesync/compare/graph"
	"timesync/compare/page"
	"timesync/compare/play"
)

// busyWorld is that of README's picture: one way has a queue for 150 s.
const busyWorld = "standingqueue"

// busyChart is README's picture: the error of three methods before others fill a queue, meanwhile,
// and after. Its axis is linear, in milliseconds.
func (f *figures) busyChart() *graph.Chart {
	const before, after = 40, 30 // s
	busy := f.series[busyWorld]
	queue := busy.events[0]
	from, to := int(queue.From), int(queue.To)
	// ms are the errors of each second, from the left end of the picture on.
	ms := func(column string) (v []float64) {
		for _, us := range busy.errs[column][from-before : to+after] {
			v = append(v, us/1e3)
		}
		return v
	}
	curve := func(column, name string, y float64) graph.Curve {
		v := ms(column)
		c := play.CurveOf(column, graph.Parts(v)...)
		if column == play.NTP {
			c.Color = graph.RGB(0x2b6b40) // darker than elsewhere: its name stands on grey
		}
		c.Name, c.Width = fmt.Sprintf("%s: %.2g ms off", name, slices.Max(v[before:before+to-from])), graph.Bold
		c.At = &plotter.XY{X: before + 32, Y: y}
		return c
	}
	top := max(slices.Max(ms(play.Original)), slices.Max(ms(play.NTP)))
	curves := []graph.Curve{
		curve(play.Original, "the C++ original", 0.84*top), curve(play.NTP, "NTP's filter", 1.1*top), curve(play.Ours, "timesync", 0.1*top),
	}
	ticks := []plot.Tick{{Value: 0, Label: "0"}}
	for at := 10.0; at < 1.2*top; at += 10 {
		ticks = append(ticks, plot.Tick{Value: at, Label: fmt.Sprintf("%.0f ms", at)})
	}
	return &graph.Chart{
		Title: "While others fill the queue, timesync still knows the other clock",
		About: "How far off each one has the other computer's clock, on the same path",
		X:     graph.Axis{Label: "seconds", Max: float64(before + to - from + after)}, Y: graph.Axis{Max: 1.35 * top, Ticks: ticks},
		Curves: curves,
		Events: []graph.Event{{From: before, To: float64(before + to - from), Name: "others fill the queue"}},
	}
}

// busyText says below README's picture what it shows, and what comes out in all seeds of its world.
func (f *figures) busyText() string {
	p99 := func(column string) string { return graph.Micros(f.value(f.named(busyWorld), column, 0.99)) }
	return page.Text("Simulated; one way has a queue for 150 s. Over %d such worlds the 99th percentile of the error is %s; the C++ original's %s, NTP's filter's %s, and chronyd's, which asks once a second, %s. `cd compare && go run ./report` draws it; [REPORT](docs/REPORT.md) has all worlds and methods.",
		play.SimSeeds, p99(play.Ours), p99(play.Original), p99(play.NTP), p99(play.Chronyd))
}
