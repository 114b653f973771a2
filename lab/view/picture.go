// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"timesync/internal/testkit"
	"timesync/lab/results"
)

// colors are those of the curves, and of the rows of events.
var colors = [rows]color.NRGBA{
	results.RGB(0x0060df),
	results.RGB(0xd9480f),
	results.RGB(0x74a57f),
	results.RGB(0x9c36b5),
	results.RGB(0x846000),
	results.RGB(0xe64980),
}

// figure is what a note says of something.
type figure = func(n *note) float64

// line returns the curve of what the notes say over time.
func (r *reel) line(name string, c color.NRGBA, width vg.Length, value figure) results.Curve {
	points := make(plotter.XYs, len(r.notes))
	for i := range r.notes {
		points[i] = plotter.XY{X: r.notes[i].At, Y: value(&r.notes[i])}
	}
	parts := results.Split(points, r.silence())
	for i := range parts {
		parts[i] = thinned(parts[i], len(r.notes)/mostDrawn)
	}
	return results.Curve{Name: name, Color: c, Width: width, Parts: parts}
}

// mostDrawn is so many points of a curve that more would not be seen, in a picture 1900 wide.
const mostDrawn = 1500

// thinned leaves the lowest and the highest of each k points.
func thinned(p plotter.XYs, k int) (left plotter.XYs) {
	if k <= 2 {
		return p
	}
	higher := func(a, b plotter.XY) int { return cmp.Compare(a.Y, b.Y) }
	for some := range slices.Chunk(p, k) {
		a, b := slices.MinFunc(some, higher), slices.MaxFunc(some, higher)
		if a.X > b.X {
			a, b = b, a
		}
		left = append(left, a, b)
	}
	return left
}

// chart returns a chart whose axis holds 98 % of the points of all curves.
func (r *reel) chart(title, label string, curves ...results.Curve) *results.Chart {
	var ys []float64
	for _, c := range curves {
		for _, p := range slices.Concat(c.Parts...) {
			ys = append(ys, p.Y)
		}
	}
	y := results.Axis{Label: label, Max: 1} // with nothing to see: ticks of NaN take for ever
	if len(ys) > 0 {
		lo, hi := testkit.OrNaN(ys, 0.01), testkit.OrNaN(ys, 0.99)
		room := max((hi-lo)/10, 0.1, math.Abs(lo)/1e6)
		y.Min, y.Max = lo-room, hi+room
	}
	x := results.Axis{Max: r.notes[len(r.notes)-1].At}
	return &results.Chart{Title: title, X: x, Y: y, Curves: curves}
}

// charts returns what is drawn, from top to bottom.
func (r *reel) charts(title string) []*results.Chart {
	mine, theirs, green := colors[0], colors[1], colors[2]
	var last note // that knows
	for _, n := range r.notes {
		if n.known() {
			last = n
		}
	}
	offset := func(n *note) float64 { // ms: without the drift of the last skew, which hides the rest
		return (n.Offset - last.Offset - last.Skew*(n.At-last.At)) / 1e3
	}
	delays := []results.Curve{
		r.line("fastest to us", results.Fade(mine), 0, func(n *note) float64 { return n.ToUs }),
		r.line("floor to us", mine, results.Bold, func(n *note) float64 { return n.FloorToUs }),
		r.line("floor to peer", theirs, results.Bold, func(n *note) float64 { return n.FloorToPeer }),
	}
	upper := func(n *note) float64 { return offset(n) + n.Bound/1e3 }
	lower := func(n *note) float64 { return offset(n) - n.Bound/1e3 }
	offsets := []results.Curve{
		r.line("+ bound", results.Fade(green), 0, upper),
		r.line("- bound", results.Fade(green), 0, lower),
		r.line("offset", mine, results.Bold, offset),
	}
	if r.both {
		toPeer := func(n *note) float64 { return n.ToPeer }
		disagree := func(n *note) float64 { return n.Disagree / 1e3 }
		delays = slices.Insert(delays, 1, r.line("fastest to peer", results.Fade(theirs), 0, toPeer))
		offsets = append(offsets, r.line("disagreement", theirs, 0, disagree))
	}
	happened := r.chart("what happened", "")
	happened.X.Label = "seconds since " + r.clock(0) + " UTC"
	happened.Y = results.Axis{Min: -float64(rows) + 0.4, Max: 0.6}
	for row, name := range rowNames {
		happened.Y.Ticks = append(happened.Y.Ticks, plot.Tick{Value: -float64(row), Label: name})
	}
	for _, h := range r.told {
		dot := plotter.XYs{{X: h.at, Y: -float64(h.row)}}
		happened.Curves = append(happened.Curves,
			results.Curve{Color: colors[h.row], Dots: 3.5, Parts: []plotter.XYs{dot}})
	}
	return []*results.Chart{
		r.chart(title+": the fastest datagrams of each 0.2 s, and the floors below them",
			"delay, ms", delays...),
		r.chart("the offset, without its drift, and its error bound", "offset, ms", offsets...),
		r.chart("the round trip: the sum of both floors", "round trip, ms",
			r.line("both floors", mine, results.Bold, func(n *note) float64 { return n.RoundTrip / 1e3 })),
		r.chart("the skew, and by how much it may be off", "skew, ppm",
			r.line("skew", mine, results.Bold, func(n *note) float64 { return n.Skew }),
			r.line("+ error", results.Fade(mine), 0, func(n *note) float64 { return n.Skew + n.SkewError }),
			r.line("- error", results.Fade(mine), 0,
				func(n *note) float64 { return n.Skew - n.SkewError })),
		happened,
	}
}
