// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"image/color"
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"

	"timesync/compare/graph"
	"timesync/compare/page"
	"timesync/compare/play"
	"timesync/internal/ontime"
	"timesync/internal/sim"
)

const inputSeeds = 3 // of each world that is about inputs

// inputMethods are how the methods are drawn, and how they are turned up.
var inputMethods = map[string]struct {
	label string
	color color.Color
	knobs []float64
}{
	play.Ours:              {play.Ours, play.ColorOf(play.Ours), []float64{-2.3, -1, 0, 1, 2, 3, 4.3}},
	"Netcode for Entities": {"Unity's Netcode", graph.RGB(0xd9480f), []float64{0, 1, 2, 3, 4}},
	"lightyear":            {"lightyear", graph.RGB(0x2b8a3e), []float64{0, 0.5, 1, 1.5, 2}},
}

// inputWorld is a world, and the results of the methods as they are, by their names.
type inputWorld struct {
	ontime.World
	own     bool // it is about inputs; else it is one of the report's
	results map[string]*ontime.Result
}

// playInput plays all methods in a world.
func playInput(w ontime.World) inputWorld {
	own := !slices.ContainsFunc(sim.Scenarios(), func(sc sim.Scenario) bool { return sc.Name == w.Name })
	x := inputWorld{w, own, map[string]*ontime.Result{}}
	seeds := 1
	if own {
		seeds = inputSeeds
	}
	for _, m := range ontime.Methods {
		r := m.Play(w, seeds)
		x.results[m.Name] = &r
	}
	return x
}

// inputsOf has a row for each world that is shown, and cells for each method with these heads.
func (f *figures) inputsOf(heads []string, shown func(w *inputWorld) bool, cells func(r *ontime.Result) []string) string {
	rows := [][]string{{"world"}}
	for _, m := range ontime.Methods {
		rows[0] = append(append(rows[0], m.Name+", "+heads[0]), heads[1:]...)
	}
	for i := range f.inputs {
		w := &f.inputs[i]
		if !shown(w) {
			continue
		}
		row := []string{w.Name}
		for _, m := range ontime.Methods {
			row = append(row, cells(w.results[m.Name])...)
		}
		rows = append(rows, row)
	}
	return page.Table(rows)
}

// inputTable returns late share and lead in the worlds that are about inputs, or in the others.
func (f *figures) inputTable(own bool) string {
	return f.inputsOf([]string{"late", "lead"},
		func(w *inputWorld) bool { return w.own == own && w.Asleep == nil }, // who sleeps has no lead
		func(r *ontime.Result) []string {
			return []string{fmt.Sprintf("%.2f %%", 100*r.Share()), fmt.Sprintf("%.1f ms", 1e3*r.Lead.Seconds())}
		})
}

// changeTable returns what the changes cost.
func (f *figures) changeTable() string {
	return f.inputsOf([]string{"late for", "inputs", "lead too long for"},
		func(w *inputWorld) bool { return w.Change != 0 },
		func(r *ontime.Result) []string {
			return []string{fmt.Sprintf("%.2f s", r.Until.Seconds()), fmt.Sprint(r.Lost), fmt.Sprintf("%.1f s", r.Excess.Seconds())}
		})
}

// inputChart shows the share of late inputs over the mean lead: each method turned up in the world of
// jitter of 10 ms.
func inputChart() *graph.Chart {
	c := &graph.Chart{
		Title: "Late inputs against lead", X: graph.Axis{Label: "mean lead beyond the delay, ms", Min: 0, Max: 110},
		Y: graph.Axis{Label: "late inputs, % (floor: 0.01)", Log: true, Min: 0.01, Max: 20, Ticks: graph.Fixed(0.01, 0.1, 1, 10)},
	}
	worlds := ontime.Worlds()
	world := worlds[slices.IndexFunc(worlds, func(w ontime.World) bool { return w.Name == "jitter 10 ms" })]
	world.Length = 60 * time.Second
	for _, m := range ontime.Methods {
		looks := inputMethods[m.Name]
		var line plotter.XYs
		for _, knob := range looks.knobs {
			r := m.At(world, 2*inputSeeds, knob)
			line = append(line, plotter.XY{X: 1e3 * r.Lead.Seconds(), Y: max(100*r.Share(), 0.01)})
		}
		c.Curves = append(c.Curves, graph.Curve{Name: looks.label, Color: looks.color, Width: graph.Bold, Parts: []plotter.XYs{line}})
	}
	return c
}
