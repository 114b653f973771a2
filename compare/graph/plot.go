// SPDX-License-Identifier: BSD-3-Clause

// Package graph draws what the programs here, and the viewer of recordings, show over time, over
// something that is turned up, or by method.
package graph

import (
	"bytes"
	"fmt"
	"image/color"
	"os"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Theme is how a picture looks.
type Theme struct {
	Name                    string
	Paper, ink, faint, Soft color.Color
	dark                    bool
	label, tick             font.Length // sizes of the letters
	padding                 vg.Length
}

// Curve is a line of a plot.
type Curve struct {
	Name  string
	Color color.Color
	Width vg.Length // 0 is 1 point
	Dash  bool
	Parts []plotter.XYs // lines with gaps between them
	Dots  bool          // instead of lines
}

// Axis describes an axis.
type Axis struct {
	Label    string
	Log      bool
	Min, Max float64
	Ticks    []plot.Tick // nil chooses
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

// ErrorAxis is a logarithmic axis of microseconds.
func ErrorAxis(label string, from, to float64) Axis {
	return Axis{Label: label, Log: true, Min: from, Max: to, Ticks: timeTicks(from, to)}
}

// Fixed returns ticks at the values, which are their labels.
func Fixed(format string, values ...float64) (ticks []plot.Tick) {
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf(format, v)})
	}
	return ticks
}

// Multiples returns ticks at the multiples of step.
func Multiples(format string, step, to float64) []plot.Tick {
	var values []float64
	for v := 0.0; v <= to; v += step {
		values = append(values, v)
	}
	return Fixed(format, values...)
}

// Fade makes a colour transparent, so that dots may lie over each other.
func Fade(c color.Color) color.Color {
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	n.A = 90
	return n
}

// Frame is a plot that knows what it shows.
type Frame struct{ *plot.Plot }

// plot returns an empty plot.
func (t Theme) plot(x, y Axis) Frame {
	p := plot.New()
	p.BackgroundColor = t.Paper
	for a, spec := range map[*plot.Axis]Axis{&p.X: x, &p.Y: y} {
		a.Label.Text, a.Min, a.Max = spec.Label, spec.Min, spec.Max
		a.Label.TextStyle.Font.Size, a.Tick.Label.Font.Size = t.label, t.tick
		a.Label.TextStyle.Color, a.Tick.Label.Color, a.Color, a.Tick.Color = t.ink, t.ink, t.Soft, t.Soft
		a.Padding = t.padding
		if spec.Log {
			a.Scale = plot.LogScale{}
		}
		if spec.Ticks != nil {
			a.Tick.Marker = plot.ConstantTicks(spec.Ticks)
		}
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = t.faint, t.faint
	p.Add(grid)
	return Frame{p}
}

// inside moves what the axes do not show to their edges.
func (f Frame) inside(xys plotter.XYs) plotter.XYs {
	moved := make(plotter.XYs, len(xys))
	for i, p := range xys {
		moved[i] = plotter.XY{X: min(max(p.X, f.X.Min), f.X.Max), Y: min(max(p.Y, f.Y.Min), f.Y.Max)}
	}
	return moved
}

// lines adds lines in a style, and returns the first.
func (f Frame) lines(parts []plotter.XYs, style draw.LineStyle) (first *plotter.Line, err error) {
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

// Vertical adds a line from the lower to the upper edge.
func (f Frame) Vertical(x float64, style draw.LineStyle) error {
	_, err := f.lines([]plotter.XYs{{{X: x, Y: f.Y.Min}, {X: x, Y: f.Y.Max}}}, style)
	return err
}

// scatter adds dots.
func (f Frame) scatter(dots plotter.XYs, c color.Color, radius vg.Length) error {
	s, err := plotter.NewScatter(f.inside(dots))
	if err == nil {
		s.GlyphStyle = draw.GlyphStyle{Color: c, Radius: radius, Shape: draw.CircleGlyph{}}
		f.Add(s)
	}
	return err
}

// aligned returns where plots are drawn below each other, so that their axes are aligned.
func aligned(plots []Frame, tiles draw.Tiles, all draw.Canvas) (where []draw.Canvas) {
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

// Micros prints microseconds for people: three digits and a unit.
func Micros(us float64) string {
	switch {
	case us != us:
		return "never"
	case us < 99.5:
		return fmt.Sprintf("%.0f us", us)
	case us < 9950:
		return fmt.Sprintf("%.2g ms", us/1e3)
	case us < 999500:
		return fmt.Sprintf("%.0f ms", us/1e3)
	}
	return fmt.Sprintf("%.3g s", us/1e6)
}

// RGB is an opaque colour.
func RGB(v uint32) color.Color {
	return color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: 255}
}

// Millis returns milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ErrorLabel says where the axis of errors begins.
const ErrorLabel = "error (floor: 1 us)"
