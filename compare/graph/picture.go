// SPDX-License-Identifier: BSD-3-Clause

package graph

import (
	"bytes"
	"cmp"
	"image/color"
	"math"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Curve is a line of a chart.
type Curve struct {
	Name  string
	Color color.Color
	Width vg.Length // of lines; 0 is a thin one
	Dash  bool
	Parts []plotter.XYs // lines with gaps between them
	Dots  vg.Length     // the radius of dots instead of lines
	At    *plotter.XY   // where its name begins; nil is above the plot
	Above bool          // its name stands above At, not beside it
}

// Bold is the width of the line that matters most.
const Bold = 1.6

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
	Height vg.Length // 0 is the usual one
}

// plot returns the plot in a theme.
func (c *Chart) plot(t Theme) *plot.Plot {
	f := t.plot(c.X, c.Y)
	for _, e := range c.Events {
		t.mark(f, e)
	}
	for _, line := range c.Curves {
		if line.Dots > 0 {
			f.scatter(t.Tone(line.Color), line.Dots, line.Parts[0])
		} else {
			f.lines(line.style(t, 0), line.Parts...)
		}
		name := t.style(textSize, t.Tone(line.Color), draw.XLeft, draw.YCenter)
		if line.Above {
			name.XAlign, name.YAlign = draw.XCenter, draw.YBottom
		}
		if line.At != nil {
			f.write(line.Name, line.At.X, line.At.Y, name)
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
	var height vg.Length
	var plots [][]*plot.Plot
	for _, c := range charts {
		height += cmp.Or(c.Height, pictureHeight)
		plots = append(plots, []*plot.Plot{c.plot(t)})
	}
	img := vgimg.NewWith(vgimg.UseWH(t.width, height), vgimg.UseDPI(pictureDPI), vgimg.UseBackgroundColor(t.Paper))
	all := draw.New(img)
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
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// style is how a line is drawn in a picture, wider by so much.
func (c Curve) style(t Theme, wider vg.Length) draw.LineStyle {
	s := draw.LineStyle{Color: t.Tone(c.Color), Width: cmp.Or(c.Width, 1.1) + wider}
	if c.Dash {
		s.Dashes = []vg.Length{4, 2.5}
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
		if line.Dots > 0 || line.At != nil {
			continue // the axis names them, or they stand beside their lines
		}
		all.StrokeLine2(line.style(t, 0.6), at, y+8, at+sample, y+8)
		all.FillText(style, vg.Point{X: at + sample + 3, Y: y + 3}, line.Name)
		at += sample + 3 + style.Width(line.Name) + gap
	}
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
