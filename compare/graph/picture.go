// SPDX-License-Identifier: BSD-3-Clause

package graph

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Curve is a line of a chart.
type Curve struct {
	Name       string
	Color      color.Color
	Bold, Dash bool
	Parts      []plotter.XYs // lines with gaps between them
	Dots       bool          // instead of lines
	At         *plotter.XY   // where its name begins; nil is above the plot
}

// Event is something that happens in a world, at a time or from one to another, s.
type Event struct {
	From, To float64
	Name     string // "" is not named again
}

// Chart is a plot of curves.
type Chart struct {
	Title  string
	About  string // a line below the title, where no names of lines stand
	X, Y   Axis
	Curves []Curve
	Events []Event
}

// plot returns the plot in a theme.
func (c *Chart) plot(t Theme) *plot.Plot {
	f := t.plot(c.X, c.Y)
	for _, e := range c.Events {
		t.mark(f, e)
	}
	for _, line := range c.Curves {
		if line.Dots {
			f.scatter(t.Tone(line.Color), 3.5, line.Parts[0])
		} else {
			f.lines(line.style(t, 0), line.Parts...)
		}
		if line.At != nil {
			f.write(line.Name, line.At.X, line.At.Y, t.style(textSize, t.Tone(line.Color), draw.XLeft, draw.YCenter))
		}
	}
	return f.Plot
}

// mark shades an event, or draws a line where it has no length, and names it.
func (t Theme) mark(f frame, e Event) {
	low, high := plotter.XY{X: e.From, Y: f.Y.Min}, plotter.XY{X: e.From, Y: f.Y.Max}
	if e.To > e.From {
		area := plotter.XYs{low, {X: e.To, Y: f.Y.Min}, {X: e.To, Y: f.Y.Max}, high}
		f.Add(&plotter.Polygon{XYs: []plotter.XYs{f.inside(area)}, Color: Fade(t.soft)})
	} else {
		f.lines(draw.LineStyle{Color: t.soft, Width: 1, Dashes: []vg.Length{2, 2}}, plotter.XYs{low, high})
	}
	f.write(" "+e.Name, high.X, high.Y, t.style(textSize-1, t.ink, draw.XLeft, draw.YTop))
}

// Charts draws charts below each other into a picture, each below its title and the names
// of its lines.
func Charts(path string, t Theme, charts ...*Chart) error {
	img, all := t.canvas(vg.Length(len(charts)) * pictureHeight)
	plots := make([][]*plot.Plot, len(charts))
	for i, c := range charts {
		plots[i] = []*plot.Plot{c.plot(t)}
	}
	tiles := draw.Tiles{Rows: len(plots), Cols: 1, PadTop: 34, PadBottom: 4, PadLeft: 4, PadRight: 12, PadY: 38}
	for i, row := range plot.Align(plots, tiles, all) {
		// The plot leaves room above itself for a vertical label that is not so long.
		const letters = 9
		p, where := plots[i][0], row[0]
		top := where.Max.Y
		where.Max.Y += top - p.DataCanvas(where).Max.Y - letters
		p.Draw(where)
		charts[i].head(t, all, top)
	}
	return saveImage(path, img)
}

// style is how a line is drawn in a picture, wider by so much.
func (c Curve) style(t Theme, wider vg.Length) draw.LineStyle {
	s := draw.LineStyle{Color: t.Tone(c.Color), Width: 1.1 + wider}
	if c.Dash {
		s.Dashes = []vg.Length{4, 2.5}
	} else if c.Bold {
		s.Width = 1.6 + wider
	}
	return s
}

// head writes the title and the names above a plot that ends at y.
func (c *Chart) head(t Theme, all draw.Canvas, y vg.Length) {
	const left, sample, gap = 8, 14, 12
	all.FillText(t.style(textSize+1, t.ink, draw.XLeft, draw.YBottom), vg.Point{X: all.Min.X + left, Y: y + 17}, c.Title)
	at := all.Min.X + left
	style := t.style(textSize, t.ink, draw.XLeft, draw.YBottom)
	all.FillText(style, vg.Point{X: at, Y: y + 3}, c.About)
	for _, line := range c.Curves {
		if line.Dots || line.At != nil {
			continue // the axis names them, or they stand beside their lines
		}
		all.StrokeLine2(line.style(t, 0.6), at, y+8, at+sample, y+8)
		all.FillText(style, vg.Point{X: at + sample + 3, Y: y + 3}, line.Name)
		at += sample + 3 + style.Width(line.Name) + gap
	}
}

// Strip is a row of Strips: a dot for each world, and their mean.
type Strip struct {
	Name  string
	Color color.Color
	Dots  []float64
	Mean  float64
}

// Strips draws a row for each method, the best on top.
func Strips(path string, t Theme, title string, x Axis, strips []Strip) error {
	var names []plot.Tick
	for i, s := range strips {
		names = append(names, plot.Tick{Value: -float64(i), Label: s.Name})
	}
	f := t.plot(x, Axis{Min: -float64(len(strips)) + 0.5, Max: 0.8, Ticks: names})
	f.Y.Tick.Length = 0
	for i, s := range strips {
		y, tone := -float64(i), t.Tone(s.Color)
		var dots plotter.XYs
		for _, v := range s.Dots {
			dots = append(dots, plotter.XY{X: v, Y: y})
		}
		f.scatter(Fade(tone), 2, dots)
		bar := plotter.XYs{{X: s.Mean, Y: y - 0.26}, {X: s.Mean, Y: y + 0.26}}
		f.lines(draw.LineStyle{Color: tone, Width: 2.5}, bar)
		f.write(Micros(s.Mean), s.Mean, y+0.28, t.style(textSize, tone, draw.XCenter, draw.YBottom))
	}
	img, all := t.canvas(pictureHeight * 1.3)
	all.FillText(t.style(textSize+1, t.ink, draw.XLeft, draw.YTop), vg.Point{X: 8, Y: all.Max.Y - 5}, title)
	f.Draw(draw.Crop(all, 4, 0, 4, -20))
	return saveImage(path, img)
}

// Split returns the lines through points in order of x, with gaps where y is NaN or nothing is for
// longer than gap.
func Split(points plotter.XYs, gap float64) (parts []plotter.XYs) {
	last := math.Inf(-1)
	for _, p := range points {
		if math.IsNaN(p.Y) {
			continue
		}
		if p.X > last+gap {
			parts = append(parts, nil)
		}
		last = p.X
		part := &parts[len(parts)-1]
		*part = append(*part, p)
	}
	return parts
}

// Parts returns the lines through values at 0, 1, 2 and so on, with gaps where there is none.
func Parts(values []float64) []plotter.XYs {
	points := make(plotter.XYs, len(values))
	for i, v := range values {
		points[i] = plotter.XY{X: float64(i), Y: v}
	}
	return Split(points, 1)
}
