// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bytes"
	"fmt"
	"image/color"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// theme is how a picture looks.
type theme struct {
	name                    string
	paper, ink, faint, soft color.Color
	dark                    bool
	label, tick             font.Length // sizes of the letters
	padding                 vg.Length
}

// curve is a line of a plot.
type curve struct {
	name  string
	color color.Color
	width vg.Length // 0 is 1 point
	dash  bool
	parts []plotter.XYs // lines with gaps between them
	dots  bool          // instead of lines
}

// curveOf returns the curve of a column: ours is bold, the oracle's dashed.
func curveOf(column int, parts ...plotter.XYs) curve {
	c := curve{name: columns()[column], color: colorOf(column), parts: parts}
	c.dash = column == len(methods)
	if column == ours || c.dash {
		c.width = 2.2
	}
	return c
}

// axis describes an axis.
type axis struct {
	label    string
	log      bool
	min, max float64
	ticks    []plot.Tick // nil chooses
}

// timeTicks are the ticks of a logarithmic axis of microseconds, in words, and between
// them lines without.
func timeTicks(from, to float64) (ticks []plot.Tick) {
	names := map[float64]string{1: "1 us", 10: "10 us", 100: "100 us", 1e3: "1 ms", 1e4: "10 ms", 1e5: "100 ms", 1e6: "1 s", 1e7: "10 s", 1e8: "100 s"}
	for d := 1.0; d <= to*1.001; d *= 10 {
		for k := 1.0; k < 10; k++ {
			if v := d * k; v >= from*0.999 && v <= to*1.001 {
				ticks = append(ticks, plot.Tick{Value: v, Label: names[v]})
			}
		}
	}
	return ticks
}

// errorAxis is a logarithmic axis of microseconds.
func errorAxis(label string, from, to float64) axis {
	return axis{label: label, log: true, min: from, max: to, ticks: timeTicks(from, to)}
}

// fixed returns ticks at the values, which are their labels.
func fixed(format string, values ...float64) (ticks []plot.Tick) {
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf(format, v)})
	}
	return ticks
}

// multiples returns ticks at the multiples of step.
func multiples(format string, step, to float64) []plot.Tick {
	var values []float64
	for v := 0.0; v <= to; v += step {
		values = append(values, v)
	}
	return fixed(format, values...)
}

// fade makes a colour transparent, so that dots may lie over each other.
func fade(c color.Color) color.Color {
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	n.A = 90
	return n
}

// frame is a plot that knows what it shows.
type frame struct{ *plot.Plot }

// plot returns an empty plot.
func (t theme) plot(x, y axis) frame {
	p := plot.New()
	p.BackgroundColor = t.paper
	for a, spec := range map[*plot.Axis]axis{&p.X: x, &p.Y: y} {
		a.Label.Text, a.Min, a.Max = spec.label, spec.min, spec.max
		a.Label.TextStyle.Font.Size, a.Tick.Label.Font.Size = t.label, t.tick
		a.Label.TextStyle.Color, a.Tick.Label.Color, a.Color, a.Tick.Color = t.ink, t.ink, t.soft, t.soft
		a.Padding = t.padding
		if spec.log {
			a.Scale = plot.LogScale{}
		}
		if spec.ticks != nil {
			a.Tick.Marker = plot.ConstantTicks(spec.ticks)
		}
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = t.faint, t.faint
	p.Add(grid)
	return frame{p}
}

// inside moves what the axes do not show to their edges.
func (f frame) inside(xys plotter.XYs) plotter.XYs {
	moved := make(plotter.XYs, len(xys))
	for i, p := range xys {
		moved[i] = plotter.XY{X: min(max(p.X, f.X.Min), f.X.Max), Y: min(max(p.Y, f.Y.Min), f.Y.Max)}
	}
	return moved
}

// lines adds lines in a style, and returns the first.
func (f frame) lines(parts []plotter.XYs, style draw.LineStyle) (first *plotter.Line, err error) {
	for _, xys := range parts {
		if len(xys) == 0 {
			continue
		}
		l, err := plotter.NewLine(f.inside(xys))
		if err != nil {
			return nil, err
		}
		if l.LineStyle = style; first == nil {
			first = l
		}
		f.Add(l)
	}
	return first, nil
}

// vertical adds a line from the lower to the upper edge.
func (f frame) vertical(x float64, style draw.LineStyle) error {
	_, err := f.lines([]plotter.XYs{{{X: x, Y: f.Y.Min}, {X: x, Y: f.Y.Max}}}, style)
	return err
}

// scatter adds dots.
func (f frame) scatter(dots plotter.XYs, c color.Color, radius vg.Length) error {
	s, err := plotter.NewScatter(f.inside(dots))
	if err == nil {
		s.GlyphStyle = draw.GlyphStyle{Color: c, Radius: radius, Shape: draw.CircleGlyph{}}
		f.Add(s)
	}
	return err
}

// aligned returns where plots are drawn below each other, so that their axes are aligned.
func aligned(plots []frame, tiles draw.Tiles, all draw.Canvas) (where []draw.Canvas) {
	rows := make([][]*plot.Plot, len(plots))
	for i, p := range plots {
		rows[i] = []*plot.Plot{p.Plot}
	}
	tiles.Rows, tiles.Cols = len(plots), 1
	for _, row := range plot.Align(rows, tiles, all) {
		where = append(where, row[0])
	}
	return where
}

// saveImage writes a PNG.
func saveImage(path string, img *vgimg.Canvas) error {
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
