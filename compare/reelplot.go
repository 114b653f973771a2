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
)

// line returns the curve of something over time.
func (r *reel) line(name string, c color.Color, width vg.Length, value func(n *note) float64) curve {
	parts := overTime(len(r.notes), max(leastSilence, 5*r.pace()), func(i int) (x, y float64) {
		return r.notes[i].at, value(&r.notes[i])
	})
	for i := range parts {
		parts[i] = thinned(parts[i], len(r.notes)/mostDrawn)
	}
	return curve{name: name, color: c, width: width, parts: parts}
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
			skew, last = n.in.skew, n.offset
		}
	}
	straight := func(n *note) float64 { return float64(n.offset-last) - skew*n.at }
	for i := range r.notes {
		if n := &r.notes[i]; n.known {
			offsets = append(offsets, straight(n))
		}
	}
	middle := medianOf(offsets)
	return whenKnown(func(n *note) float64 { return (straight(n) - middle) / 1e3 })
}

// panels returns what is drawn, from top to bottom, without the events.
func (r *reel) panels(title string) []panel {
	mine, theirs, green := methods[ours].color, methods[original].color, methods[ntp].color
	offset := r.drift()
	bound := func(sign float64) func(n *note) float64 {
		return whenKnown(func(n *note) float64 { return offset(n) + sign*n.bound/1e3 })
	}
	delays := []curve{
		r.line("fastest to us", fade(mine), 1, func(n *note) float64 { return n.fastest[0] }),
		r.line("floor to us", mine, 2, whenKnown(func(n *note) float64 { return n.floors()[0] })),
		r.line("floor to peer", theirs, 2, whenKnown(func(n *note) float64 { return n.floors()[1] })),
	}
	offsets := []curve{
		r.line("+ bound", fade(green), 1, bound(1)), r.line("- bound", fade(green), 1, bound(-1)), r.line("offset", mine, 2, offset),
	}
	if r.both {
		delays = slices.Insert(delays, 1, r.line("fastest to peer", fade(theirs), 1, func(n *note) float64 { return n.fastest[1] }))
		offsets = append(offsets, r.line("disagreement", theirs, 1.2, func(n *note) float64 { return n.disagree / 1e3 }))
	}
	trips, skews := stateCurves(func(name string, c color.Color, width vg.Length, value func(in *inside) float64) curve {
		return r.line(name, c, width, whenKnown(func(n *note) float64 { return value(&n.in) }))
	})
	return []panel{
		{title + ": the fastest datagrams of each 0.2 s, and the floors below them", fitted("delay, ms", delays), delays},
		{"the offset, without its drift, and its error bound", fitted("offset, ms", offsets), offsets},
		{"the round trip: of both floors, and the one at which the offset is known", fitted("round trip, ms", trips), trips},
		{"the skew", fitted("skew, ppm", skews), skews},
	}
}

// events returns the panel of what happened.
func (r *reel) events() panel {
	p := panel{title: "what happened", y: axis{min: -float64(rows) + 0.4, max: 0.6}}
	for row, name := range rowNames {
		var dots plotter.XYs
		for _, h := range r.told.all {
			if h.row == row {
				dots = append(dots, plotter.XY{X: h.at, Y: -float64(row)})
			}
		}
		p.y.ticks = append(p.y.ticks, plot.Tick{Value: -float64(row), Label: name})
		if len(dots) > 0 {
			p.curves = append(p.curves, curve{color: methods[row%len(methods)].color, dots: true, parts: []plotter.XYs{dots}})
		}
	}
	return p
}

// draw draws the five panels.
func (r *reel) draw(path, title string) error {
	return drawPanels(path, axis{max: r.notes[len(r.notes)-1].at, label: "seconds since " + r.clock(0) + " UTC"},
		append(r.panels(title), r.events()), func(frame) {})
}
