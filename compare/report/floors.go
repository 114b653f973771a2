// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"gonum.org/v1/plot/plotter"

	"timesync"
	"timesync/compare/graph"
	"timesync/compare/play"
)

// twoEnds is two synchronizers on a path without noise, for the picture of DESIGN.md.
type twoEnds struct {
	a, b   timesync.TimeSynchronizer
	now    uint64 // A's clock, us
	ahead  uint64 // us: B's clock minus A's
	longer uint64 // us: by which the way from B to A takes longer than the other
	sent   int
}

const (
	pictureDelay = 30_000  // us: of either way
	pictureStart = 1 << 40 // us: what A's clock shows first
	pictureLasts = 120     // s
)

// exchange sends a datagram each way, and with every tenth a report.
func (w *twoEnds) exchange() {
	there, toA, toB := w.now+w.ahead, w.now+pictureDelay+w.longer, w.now+w.ahead+pictureDelay
	reportA, okA := w.a.MinDeltaTS24(w.now)
	reportB, okB := w.b.MinDeltaTS24(there)
	w.a.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(there), toA)
	w.b.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(w.now), toB)
	if w.sent++; w.sent%10 == 2 && okA && okB {
		w.a.OnPeerMinDeltaTS24(reportB, toA)
		w.b.OnPeerMinDeltaTS24(reportA, toB)
	}
	w.now += 50_003
}

// floorsCharts are the charts of DESIGN.md: what A knows of B while a path and a clock change.
func floorsCharts() []*graph.Chart {
	changes := []struct {
		graph.Event
		happen func(w *twoEnds)
	}{
		{graph.Event{From: 35, To: 35, Name: "path B to A longer"}, func(w *twoEnds) { w.longer = 20_000 }},
		{graph.Event{From: 70, To: 70, Name: "B's clock set"}, func(w *twoEnds) { w.ahead += 10_000 }},
		{graph.Event{From: 95, To: 95, Name: "path as before"}, func(w *twoEnds) { w.longer = 0 }},
	}
	w := &twoEnds{now: pictureStart}
	var fastest, own, peer, trip, middle, truth, offset plotter.XYs
	for next := 0; w.now < pictureStart+pictureLasts*1e6; {
		at := float64(w.now-pictureStart) / 1e6
		if next < len(changes) && at >= changes[next].From {
			changes[next].happen(w)
			next++
		}
		w.exchange()
		s, ok := w.a.Snapshot(w.now)
		if !ok {
			continue
		}
		add := func(line *plotter.XYs, ms float64) { *line = append(*line, plotter.XY{X: at, Y: ms}) }
		r := float64(s.OffsetUsec) / 1e3
		m, p := graph.Millis(s.MinimumOneWayDelay)-r, graph.Millis(s.MinimumDelayToPeer)+r
		add(&fastest, float64(pictureDelay+w.longer)/1e3-float64(w.ahead)/1e3)
		add(&own, m)
		add(&peer, p)
		add(&trip, p+m)
		add(&middle, (p-m)/2)
		add(&truth, float64(w.ahead)/1e3)
		add(&offset, r)
	}
	var events []graph.Event
	for _, c := range changes {
		events = append(events, c.Event)
	}
	ms := func(label string, from, to float64) graph.Axis {
		return graph.Axis{Label: label, Min: from, Max: to, Ticks: graph.Even(from, to)}
	}
	mine, other, green := play.ColorOf(play.Ours), play.ColorOf(play.Original), play.ColorOf(play.NTP)
	panel := func(title string, y graph.Axis, curves ...graph.Curve) *graph.Chart {
		return &graph.Chart{Title: title, X: ms("", 0, pictureLasts), Y: y, Events: events, Curves: curves}
	}
	line := func(name string, i int, xys plotter.XYs) graph.Curve {
		c := [...]graph.Curve{{Color: play.ColorOf(play.OracleName)}, {Color: mine, Width: 2.2}, {Color: other, Dash: true}, {Color: green, Width: 2.2}}[i]
		c.Name, c.Parts = name, []plotter.XYs{xys}
		return c
	}
	charts := []*graph.Chart{
		panel("Deltas, and the floors below them", ms("ms", 10, 60), line("fastest datagram", 0, fastest), line("own floor m", 1, own), line("peer's floor p", 2, peer)),
		panel("The round trip", ms("ms", 40, 90), line("S = p + m", 1, trip)),
		panel("B's clock minus A's", ms("ms", -20, 30), line("truth", 0, truth), line("midpoint", 2, middle), line("offset r", 3, offset)),
	}
	charts[len(charts)-1].X.Label = "seconds since the start"
	return charts
}
