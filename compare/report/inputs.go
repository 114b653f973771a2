// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"image/color"
	"strings"
	"time"

	"gonum.org/v1/plot/plotter"

	"timesync/compare/graph"
	"timesync/compare/page"
	"timesync/compare/play"
	"timesync/internal/ontime"
)

const (
	inputSeeds = 3
	ownWorlds  = 10 // of those of package ontime: the first ones, which are about inputs
)

var inputColors = []color.Color{graph.RGB(0x0060df), graph.RGB(0xd9480f), graph.RGB(0x2b8a3e)}

// playInputs returns the results of all methods as they are, by world.
func playInputs() [][]ontime.Result {
	worlds, n := ontime.Worlds(), len(ontime.Methods)
	results := make([][]ontime.Result, len(worlds))
	for i := range results {
		results[i] = make([]ontime.Result, n)
	}
	play.Each(n*len(worlds), func(i int) { results[i/n][i%n] = ontime.Methods[i%n].Play(worlds[i/n], seedsOf(i/n)) })
	return results
}

// seedsOf returns how many seeds of a world are played.
func seedsOf(world int) int {
	if world < ownWorlds {
		return inputSeeds
	}
	return 1
}

// inputChart shows the share of late inputs over the mean lead.
func inputChart() *graph.Chart {
	return &graph.Chart{
		Title: "Late inputs against lead", X: graph.Axis{Label: "mean lead beyond the delay, ms", Min: 0, Max: 110},
		Y: graph.Axis{Label: "late inputs, % (floor: 0.01)", Log: true, Min: 0.01, Max: 20, Ticks: graph.Fixed(0.01, 0.1, 1, 10)}, Curves: leadCurves(),
	}
}

// inputsOf has a row for each world that is shown, and cells for each method with these heads.
func (f *figures) inputsOf(heads []string, shown func(i int, w ontime.World) bool, cells func(r *ontime.Result) []string) string {
	rows := [][]string{{"world"}}
	for _, m := range ontime.Methods {
		rows[0] = append(append(rows[0], m.Name+", "+heads[0]), heads[1:]...)
	}
	for i, w := range ontime.Worlds() {
		if shown(i, w) {
			row := []string{w.Name}
			for k := range f.inputs[i] {
				row = append(row, cells(&f.inputs[i][k])...)
			}
			rows = append(rows, row)
		}
	}
	return page.Table(rows)
}

// inputTable returns late share and lead in the worlds that are about inputs, or in the others.
func (f *figures) inputTable(own bool) string {
	return f.inputsOf([]string{"late", "lead"},
		func(i int, w ontime.World) bool { return (i < ownWorlds) == own && w.Asleep == nil }, // who sleeps has no lead
		func(r *ontime.Result) []string {
			return []string{fmt.Sprintf("%.2f %%", 100*r.Share()), fmt.Sprintf("%.1f ms", 1e3*r.Lead.Seconds())}
		})
}

// changeTable returns what the changes cost.
func (f *figures) changeTable() string {
	return f.inputsOf([]string{"late for", "inputs", "lead too long for"},
		func(_ int, w ontime.World) bool { return w.Change != 0 },
		func(r *ontime.Result) []string {
			return []string{fmt.Sprintf("%.2f s", r.Until.Seconds()), fmt.Sprint(r.Lost), fmt.Sprintf("%.1f s", r.Excess.Seconds())}
		})
}

// leadCurves are each method turned up in the world of jitter of 10 ms.
func leadCurves() (curves []graph.Curve) {
	var world ontime.World
	for _, w := range ontime.Worlds() {
		if strings.HasPrefix(w.Name, "jitter 10") {
			world = w
		}
	}
	world.Length = 60 * time.Second
	for k, turned := range [][]float64{{-2.3, -1, 0, 1, 2, 3, 4.3}, {0, 1, 2, 3, 4}, {0, 0.5, 1, 1.5, 2}} {
		var line plotter.XYs
		for _, knob := range turned {
			r := ontime.Methods[k].At(world, 2*inputSeeds, knob)
			line = append(line, plotter.XY{X: 1e3 * r.Lead.Seconds(), Y: max(100*r.Share(), 0.01)})
		}
		curves = append(curves, graph.Curve{Name: []string{"timesync", "Unity's Netcode", "lightyear"}[k], Color: inputColors[k], Bold: true, Parts: []plotter.XYs{line}})
	}
	return curves
}
