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
	var points plotter.XYs
	for i := range r.notes {
		points = append(points, plotter.XY{X: r.notes[i].at, Y: value(&r.notes[i])})
	}
	parts := graph.Split(points, max(leastSilence, 5*r.pace()))
	for i := range parts {
		parts[i] = thinned(parts[i], len(r.notes)/mostDrawn)
	}
	return graph.Curve{Name: name, Color: c, Width: width, Parts: parts}
}

// mostDrawn is so many points of a curve that more would not be seen, in a picture 1900 wide.
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

// fitted returns an axis that holds 98 % of the points of all curves.
func fitted(label string, curves []graph.Curve) graph.Axis {
	var ys []float64
	for _, c := range curves {
		for _, part := range c.Parts {
			for _, p := range part {
				ys = append(ys, p.Y)
			}
		}
	}
	if len(ys) == 0 {
		return graph.Axis{Label: label, Min: 0, Max: 1} // with nothing to see: ticks of NaN take for ever
	}
	slices.Sort(ys)
	lo, hi := stat.OrNaN(ys, 0.01), stat.OrNaN(ys, 0.99)
	room := max((hi-lo)/10, 0.1, math.Abs(lo)/1e6)
	return graph.Axis{Label: label, Min: lo - room, Max: hi + room}
}

// charts returns what is drawn, from top to bottom.
func (r *reel) charts(title string) []*graph.Chart {
	mine, theirs, green := colors[0], colors[1], colors[2]
	offset := r.drift()
	bound := func(sign float64) func(n *note) float64 {
		return whenKnown(func(n *note) float64 { return offset(n) + sign*graph.Millis(n.snapshot.ErrorBound) })
	}
	floor := func(of int) func(n *note) float64 {
		return whenKnown(func(n *note) float64 { return n.floors()[of] })
	}
	delays := []graph.Curve{
		r.line("fastest to us", graph.Fade(mine), 0, func(n *note) float64 { return n.fastest[0] }),
		r.line("floor to us", mine, graph.Bold, floor(0)), r.line("floor to peer", theirs, graph.Bold, floor(1)),
	}
	offsets := []graph.Curve{
		r.line("+ bound", graph.Fade(green), 0, bound(1)), r.line("- bound", graph.Fade(green), 0, bound(-1)), r.line("offset", mine, graph.Bold, offset),
	}
	if r.both {
		delays = slices.Insert(delays, 1, r.line("fastest to peer", graph.Fade(theirs), 0, func(n *note) float64 { return n.fastest[1] }))
		offsets = append(offsets, r.line("disagreement", theirs, 0, func(n *note) float64 { return n.disagree / 1e3 }))
	}
	trip := r.line("both floors", mine, graph.Bold, whenKnown(func(n *note) float64 { return n.floors()[0] + n.floors()[1] }))
	skew := func(errors float64) func(n *note) float64 {
		return whenKnown(func(n *note) float64 { return n.snapshot.Skew + errors*n.snapshot.SkewError })
	}
	skews := []graph.Curve{r.line("skew", mine, graph.Bold, skew(0)), r.line("+ error", graph.Fade(mine), 0, skew(1)), r.line("- error", graph.Fade(mine), 0, skew(-1))}
	happened, kinds := r.events()
	lasts := r.notes[len(r.notes)-1].at
	chart := func(title string, y graph.Axis, curves []graph.Curve) *graph.Chart {
		return &graph.Chart{Title: title, X: graph.Axis{Max: lasts}, Y: y, Curves: curves}
	}
	charts := []*graph.Chart{
		chart(title+": the fastest datagrams of each 0.2 s, and the floors below them", fitted("delay, ms", delays), delays),
		chart("the offset, without its drift, and its error bound", fitted("offset, ms", offsets), offsets),
		chart("the round trip: the sum of both floors", fitted("round trip, ms", []graph.Curve{trip}), []graph.Curve{trip}),
		chart("the skew, and by how much it may be off", fitted("skew, ppm", skews), skews),
		chart("what happened", kinds, happened),
	}
	charts[len(charts)-1].X.Label = "seconds since " + r.clock(0) + " UTC"
	return charts
}

// events returns the dots of what happened, and the axis that names them.
func (r *reel) events() (dots []graph.Curve, y graph.Axis) {
	y = graph.Axis{Min: -float64(rows) + 0.4, Max: 0.6}
	for row, name := range rowNames {
		y.Ticks = append(y.Ticks, plot.Tick{Value: -float64(row), Label: name})
	}
	for _, h := range r.told.all {
		dot := plotter.XYs{{X: h.at, Y: -float64(h.row)}}
		dots = append(dots, graph.Curve{Color: colors[h.row], Dots: 3.5, Parts: []plotter.XYs{dot}})
	}
	return dots, y
}
