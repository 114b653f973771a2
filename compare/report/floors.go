// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"time"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"timesync/compare/graph"
	"timesync/compare/play"
	"timesync/internal/sim"
)

// floorsCharts are the charts of DESIGN.md: what A knows of B while a path and a clock change, on a
// path without noise.
func floorsCharts() []*graph.Chart {
	const delay, longer, ahead = 30 * time.Millisecond, 20 * time.Millisecond, 10 * time.Millisecond
	const changed, set, back, lasts = 35 * time.Second, 70 * time.Second, 95 * time.Second, 120 * time.Second
	toA := sim.Route(delay, sim.RouteStep{At: changed, Change: longer}, sim.RouteStep{At: back, Change: -longer})
	world := sim.Scenario{
		Duration: lasts, RateAB: 20, RateBA: 20,
		A:  func(uint64) sim.ClockSpec { return sim.ClockSpec{} },
		B:  func(uint64) sim.ClockSpec { return sim.ClockSpec{Events: []sim.ClockEvent{{At: set, Step: ahead}}} },
		AB: func(uint64) *sim.Link { return &sim.Link{Base: sim.Fixed(delay)} },
		BA: func(uint64) *sim.Link { return &sim.Link{Base: toA} },
	}
	var fastest, own, peer, trip, middle, truth, offset plotter.XYs
	a := new(sim.Core)
	sim.Run(world, play.FirstSeed, []sim.Pair{{A: a, B: new(sim.Core)}}, sim.Observer{Poll: func(o *sim.Observation) {
		s, ok := a.Sync.Snapshot(o.LocalUsec)
		if o.Side == sim.B || !ok {
			return
		}
		add := func(line *plotter.XYs, ms float64) { *line = append(*line, plotter.XY{X: o.At.Seconds(), Y: ms}) }
		r := float64(s.OffsetUsec) / 1e3
		m, p, is := graph.Millis(s.MinimumOneWayDelay)-r, graph.Millis(s.MinimumDelayToPeer)+r, r-o.ErrUsec/1e3
		add(&fastest, graph.Millis(toA(o.At))-is)
		add(&own, m)
		add(&peer, p)
		add(&trip, p+m)
		add(&middle, (p-m)/2)
		add(&truth, is)
		add(&offset, r)
	}})
	ms := func(label string, from, to float64) graph.Axis {
		return graph.Axis{Label: label, Min: from, Max: to}
	}
	at := func(t time.Duration, name string) graph.Event {
		return graph.Event{From: t.Seconds(), To: t.Seconds(), Name: name}
	}
	events := []graph.Event{at(changed, "path B to A longer"), at(set, "B's clock set"), at(back, "path as before")}
	panel := func(title string, y graph.Axis, curves ...graph.Curve) *graph.Chart {
		return &graph.Chart{Title: title, X: ms("", 0, lasts.Seconds()), Y: y, Events: events, Curves: curves}
	}
	// The looks of lines: what is true, what A says, what the peer says, and what follows from both.
	line := func(name, column string, width vg.Length, dash bool, xys plotter.XYs) graph.Curve {
		return graph.Curve{Name: name, Color: play.ColorOf(column), Width: width, Dash: dash, Parts: []plotter.XYs{xys}}
	}
	charts := []*graph.Chart{
		panel("Deltas, and the floors below them", ms("ms", 10, 60), line("fastest datagram", play.OracleName, 0, false, fastest),
			line("own floor, delta_in", play.Ours, graph.Bold, false, own), line("peer's floor, delta_out", play.Original, 0, true, peer)),
		panel("The round trip", ms("ms", 40, 90), line("S = delta_in + delta_out", play.Ours, graph.Bold, false, trip)),
		panel("B's clock minus A's", ms("ms", -20, 30), line("truth", play.OracleName, 0, false, truth),
			line("midpoint", play.Original, 0, true, middle), line("offset r", play.NTP, graph.Bold, false, offset)),
	}
	charts[len(charts)-1].X.Label = "seconds since the start"
	return charts
}
