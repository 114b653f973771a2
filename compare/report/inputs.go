// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"image/color"
	"strings"
	"sync"
	"time"

	"gonum.org/v1/plot/plotter"

	"timesync/compare/graph"
	"timesync/compare/page"
	"timesync/internal/ontime"
)

const (
	inputSeeds = 3
	ownWorlds  = 10 // of those of package ontime: the first ones, which are about inputs
)

var inputColors = []color.Color{graph.RGB(0x0060df), graph.RGB(0xd9480f), graph.RGB(0x2b8a3e)}

// played are the results of all methods as they are, by world.
var played = sync.OnceValue(func() [][]ontime.Result {
	worlds := ontime.Worlds()
	results := make([][]ontime.Result, len(worlds))
	var tasks sync.WaitGroup
	for i, w := range worlds {
		results[i] = make([]ontime.Result, len(ontime.Methods))
		for k := range ontime.Methods {
			tasks.Go(func() { results[i][k] = ontime.Methods[k].Play(w, seedsOf(i)) })
		}
	}
	tasks.Wait()
	return results
})

// seedsOf returns how many seeds of a world are played.
func seedsOf(world int) int {
	if world < ownWorlds {
		return inputSeeds
	}
	return 1
}

// inputDocument is INPUTS.md.
func inputDocument() *page.Document {
	d := new(page.Document)
	d.Heading(1, "Inputs in time")
	d.Text("A client of package `tick` plays ahead of its server, so that its inputs arrive before their ticks run. This page compares it with the rules of Netcode for Entities (ServerCommandAge is steered to TargetCommandSlack) and lightyear (the round trip and four times its jitter), each with its defaults. There are 60 ticks a second, and a datagram each way for each tick. Each input is sent in three datagrams. *Late* is the share of the inputs that come after their tick; inputs count from 10 s on. *Lead* is the mean time that the client is ahead of the server, beyond the shortest delay of the way. Each figure is from %d seeds, with 30 ms each way and jitter of 1 ms unless the row says otherwise. *Server at 90 %%*: the server falls behind with its ticks for 20 s and then catches up; lead counts from where its ticks are.", inputSeeds)
	d.Table(inputTable(true))
	d.Text("The second table shows what a change costs: for how long three or more inputs in a row are late, how many inputs are late within 2 s, and for how long the lead is more than 10 ms longer than before. Each figure is that of the worst seed.")
	d.Table(changeTable())
	d.Picture("inputs", "The share of late inputs over the mean lead, of package tick, Netcode for Entities and lightyear",
		"Jitter of 10 ms each way: package tick by LateShare from 5 % down to 0.05 %, Netcode for Entities by TargetCommandSlack from 0 to 4 ticks, lightyear by jitter_margin from 0 to 2 ticks. Further down and to the left is better. The others must be set by hand; package tick finds its lead by itself.",
		func(path string, t graph.Theme) error {
			return graph.Charts(path, t, &graph.Chart{
				Title: "Late inputs against lead", X: graph.Axis{Label: "mean lead beyond the delay, ms", Min: 0, Max: 110, Ticks: graph.Even(0, 110)},
				Y: graph.Axis{Label: "late inputs, % (floor: 0.01)", Log: true, Min: 0.01, Max: 20, Ticks: graph.Fixed(0.01, 0.1, 1, 10)}, Curves: leadCurves(),
			})
		})
	d.Text("This is the first table for the worlds of [the report](REPORT.md), with a datagram each tick and one seed:")
	d.Table(inputTable(false))
	d.Text("`go test ./internal/ontime -all` asserts two things in all worlds whose jitter is stationary: at most 1 %% of the inputs are late, and neither of the other methods, with any of its settings, has a shorter lead for the same share. `cd compare && go run ./report` writes this page.")
	return d
}

// tableOf has a row for each world that is shown, and cells for each method with these heads.
func tableOf(heads []string, shown func(i int, w ontime.World) bool, cells func(r *ontime.Result) []string) [][]string {
	rows := [][]string{{"world"}}
	for _, m := range ontime.Methods {
		rows[0] = append(append(rows[0], m.Name+", "+heads[0]), heads[1:]...)
	}
	for i, w := range ontime.Worlds() {
		if shown(i, w) {
			row := []string{w.Name}
			for k := range played()[i] {
				row = append(row, cells(&played()[i][k])...)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// inputTable returns late share and lead in the worlds that are about inputs, or in the others.
func inputTable(own bool) [][]string {
	return tableOf([]string{"late", "lead"},
		func(i int, w ontime.World) bool { return (i < ownWorlds) == own && w.Asleep == nil }, // who sleeps has no lead
		func(r *ontime.Result) []string {
			return []string{fmt.Sprintf("%.2f %%", 100*r.Share()), fmt.Sprintf("%.1f ms", 1e3*r.Lead.Seconds())}
		})
}

// changeTable returns what the changes cost.
func changeTable() [][]string {
	return tableOf([]string{"late for", "inputs", "lead too long for"},
		func(_ int, w ontime.World) bool { return w.Change != 0 },
		func(r *ontime.Result) []string {
			return []string{fmt.Sprintf("%.2f s", r.Until.Seconds()), fmt.Sprint(r.Lost), fmt.Sprintf("%.1f s", r.Excess.Seconds())}
		})
}

// leadCurves are each method turned up in the world of jitter of 10 ms.
var leadCurves = sync.OnceValue(func() (curves []graph.Curve) {
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
})
