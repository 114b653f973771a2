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
	"gonum.org/v1/plot/vg/draw"
)

// line returns the curve of something over time, with gaps where it is not known.
func (r *reel) line(name string, c color.Color, width vg.Length, value func(n *note) float64) curve {
	var all []plotter.XYs
	last, gap := math.Inf(-1), max(leastSilence, 5*r.pace())
	for i := range r.notes {
		n := &r.notes[i]
		v := value(n)
		if math.IsNaN(v) {
			continue
		}
		if n.at > last+gap {
			all = append(all, nil)
		}
		last = n.at
		p := &all[len(all)-1]
		*p = append(*p, plotter.XY{X: n.at, Y: v})
	}
	for i := range all {
		all[i] = thinned(all[i], len(r.notes)/mostDrawn)
	}
	return curve{name: name, color: c, width: width, parts: all}
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
	skew := func(sigmas float64) func(n *note) float64 {
		return whenKnown(func(n *note) float64 { return n.in.skew + sigmas*n.in.skewError })
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
	trips := []curve{
		r.line("both floors", mine, 2, whenKnown(func(n *note) float64 { return circle(n.in.own+n.in.peer, 27) / 1e3 })),
		r.line("trusted", theirs, 1.5, whenKnown(func(n *note) float64 { return n.in.trip / 1e3 })),
	}
	skews := []curve{r.line("skew", mine, 2, skew(0)), r.line("+ sigma", fade(mine), 1, skew(1)), r.line("- sigma", fade(mine), 1, skew(-1))}
	return []panel{
		{title + ": the fastest datagrams of each 0.2 s, and the floors below them", fitted("delay, ms", delays), delays},
		{"the offset, without its drift, and its error bound", fitted("offset, ms", offsets), offsets},
		{"the round trip: of both floors, and the one at which the offset is known", fitted("round trip, ms", trips), trips},
		{"the skew", fitted("skew, ppm", skews), skews},
	}
}

// events returns the panel of what happened.
func (r *reel) events(x axis) (*plot.Plot, error) {
	y := axis{min: -float64(rows) + 0.4, max: 0.6}
	var dots [rows]plotter.XYs
	for i, name := range rowNames {
		y.ticks = append(y.ticks, plot.Tick{Value: -float64(i), Label: name})
	}
	for _, h := range r.told.all {
		dots[h.row] = append(dots[h.row], plotter.XY{X: h.at, Y: -float64(h.row)})
	}
	p := newPlot("what happened", x, y)
	p.Title.TextStyle.Font.Size = 12
	for i, xys := range dots {
		if len(xys) == 0 {
			continue
		}
		s, err := plotter.NewScatter(xys)
		if err != nil {
			return nil, err
		}
		s.GlyphStyle = draw.GlyphStyle{Color: methods[i%len(methods)].color, Radius: 3.5, Shape: draw.CircleGlyph{}}
		p.Add(s)
	}
	return p, nil
}

// draw draws the five panels.
func (r *reel) draw(path, title string) error {
	end := r.notes[len(r.notes)-1].at
	x := axis{min: 0, max: end, ticks: even(0, end)}
	var plots []*plot.Plot
	var legends []plot.Legend
	for _, spec := range r.panels(title) {
		p := newPlot(spec.title, x, spec.y)
		p.Title.TextStyle.Font.Size = 12
		legend, err := add(p, spec.curves)
		if err != nil {
			return err
		}
		plots, legends = append(plots, p), append(legends, legend)
	}
	x.label = "seconds since " + r.clock(0) + " UTC"
	p, err := r.events(x)
	if err != nil {
		return err
	}
	plots = append(plots, p)
	const panelHeight = 6 * vg.Centimeter
	return save(path, vg.Length(len(plots))*panelHeight, plots, legends)
}
