// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"image/color"
	"math"
	"slices"
	"timesync/internal/stat"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"timesync/compare/graph"
)

// colors are those of the curves, and of the rows of events.
var colors = [rows]color.Color{graph.RGB(0x0060df), graph.RGB(0xd9480f), graph.RGB(0x74a57f), graph.RGB(0x9c36b5), graph.RGB(0x846000), graph.RGB(0xe64980)}

// line returns the curve of something over time.
func (r *reel) line(name string, c color.Color, width vg.Length, value func(n *note) float64) graph.Curve {
	parts := graph.OverTime(len(r.notes), max(leastSilence, 5*r.pace()), func(i int) (x, y float64) {
		return r.notes[i].at, value(&r.notes[i])
	})
	for i := range parts {
		parts[i] = thinned(parts[i], len(r.notes)/mostDrawn)
	}
	return graph.Curve{Name: name, Color: c, Width: width, Parts: parts}
}

// mostDrawn is so many points of a curve that more would not be seen, in a picture 1100 wide.
const mostDrawn = 1500

// thinned leaves the lowest and the highest of each k points.
func thinned(p plotter.XYs, k int) (left plotter.XYs) {
	if k <= 2 {
		return p
	}
	for some := range slices.Chunk(p, k) {
		a := slices.MinFunc(some, func(a, b plotter.XY) int { return cmp.Compare(a.Y, b.Y) })
		b := slices.MaxFunc(some, func(a, b plotter.XY) int { return cmp.Compare(a.Y, b.Y) })
		if a.X > b.X {
			a, b = b, a
		}
		left = append(left, a, b)
	}
	return left
}

// whenKnown makes a value of what is there only while the offset is known.
func whenKnown(f func(n *note) float64) func(n *note) float64 {
	return func(n *note) float64 {
		if !n.known {
			return math.NaN()
		}
		return f(n)
	}
}

// drift returns how the offset differs from the straight line of the last skew through the
// middle offset, ms: so the drift of the clocks does not hide the rest.
func (r *reel) drift() func(n *note) float64 {
	var skew float64
	var last int64
	var offsets []float64
	for _, n := range r.notes {
		if n.known {
			skew, last = n.snapshot.Skew, n.snapshot.OffsetUsec
		}
	}
	straight := func(n *note) float64 { return float64(n.snapshot.OffsetUsec-last) - skew*n.at }
	for i := range r.notes {
		if n := &r.notes[i]; n.known {
			offsets = append(offsets, straight(n))
		}
	}
	middle := stat.OrNaN(offsets, 0.5)
	return whenKnown(func(n *note) float64 { return (straight(n) - middle) / 1e3 })
}

// panels returns what is drawn, from top to bottom, without the events.
func (r *reel) panels(title string) []graph.Panel {
	mine, theirs, green := colors[0], colors[1], colors[2]
	offset := r.drift()
	bound := func(sign float64) func(n *note) float64 {
		return whenKnown(func(n *note) float64 { return offset(n) + sign*graph.Millis(n.snapshot.ErrorBound) })
	}
	delays := []graph.Curve{
		r.line("fastest to us", graph.Fade(mine), 1, func(n *note) float64 { return n.fastest[0] }),
		r.line("floor to us", mine, 2, whenKnown(func(n *note) float64 { return n.floors()[0] })),
		r.line("floor to peer", theirs, 2, whenKnown(func(n *note) float64 { return n.floors()[1] })),
	}
	offsets := []graph.Curve{
		r.line("+ bound", graph.Fade(green), 1, bound(1)), r.line("- bound", graph.Fade(green), 1, bound(-1)), r.line("offset", mine, 2, offset),
	}
	if r.both {
		delays = slices.Insert(delays, 1, r.line("fastest to peer", graph.Fade(theirs), 1, func(n *note) float64 { return n.fastest[1] }))
		offsets = append(offsets, r.line("disagreement", theirs, 1.2, func(n *note) float64 { return n.disagree / 1e3 }))
	}
	trips := []graph.Curve{r.line("both floors", mine, 2, whenKnown(func(n *note) float64 { return n.floors()[0] + n.floors()[1] }))}
	skew := func(errors float64) func(n *note) float64 {
		return whenKnown(func(n *note) float64 { return n.snapshot.Skew + errors*n.snapshot.SkewError })
	}
	skews := []graph.Curve{r.line("skew", mine, 2, skew(0)), r.line("+ error", graph.Fade(mine), 1, skew(1)), r.line("- error", graph.Fade(mine), 1, skew(-1))}
	return []graph.Panel{
		{Title: title + ": the fastest datagrams of each 0.2 s, and the floors below them", Y: graph.Fitted("delay, ms", delays), Curves: delays},
		{Title: "the offset, without its drift, and its error bound", Y: graph.Fitted("offset, ms", offsets), Curves: offsets},
		{Title: "the round trip: the sum of both floors", Y: graph.Fitted("round trip, ms", trips), Curves: trips},
		{Title: "the skew, and by how much it may be off", Y: graph.Fitted("skew, ppm", skews), Curves: skews},
	}
}

// events returns the panel of what happened.
func (r *reel) events() graph.Panel {
	p := graph.Panel{Title: "what happened", Y: graph.Axis{Min: -float64(rows) + 0.4, Max: 0.6}}
	for row, name := range rowNames {
		var dots plotter.XYs
		for _, h := range r.told.all {
			if h.row == row {
				dots = append(dots, plotter.XY{X: h.at, Y: -float64(row)})
			}
		}
		p.Y.Ticks = append(p.Y.Ticks, plot.Tick{Value: -float64(row), Label: name})
		if len(dots) > 0 {
			p.Curves = append(p.Curves, graph.Curve{Color: colors[row], Dots: true, Parts: []plotter.XYs{dots}})
		}
	}
	return p
}

// draw draws the five panels.
func (r *reel) draw(path, title string) error {
	return graph.Panels(path, graph.Axis{Max: r.notes[len(r.notes)-1].at, Label: "seconds since " + r.clock(0) + " UTC"},
		append(r.panels(title), r.events()), func(graph.Frame) {})
}
