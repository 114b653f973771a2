// SPDX-License-Identifier: BSD-3-Clause

// Package graph draws what the programs here, and the viewer of recordings, show over time, over
// something that is turned up, or by method.
package graph

import (
	"fmt"
	"image/color"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Theme is how a picture looks.
type Theme struct {
	Name                    string
	Paper, ink, faint, soft color.Color
	width                   vg.Length
	dark                    bool
}

// A point is a pixel of a telephone that is 375 pixels wide, so that letters are legible there.
const (
	narrow        = 354 // points: as wide as that
	wide          = 700 // as a screen
	pictureHeight = 230
	pictureDPI    = 200
	textSize      = 10
)

// Themes are those of light and of dark pages. The colours of the backgrounds are GitHub's.
var Themes = [...]Theme{
	{Name: "light", Paper: RGB(0xffffff), ink: RGB(0x1f2328), faint: RGB(0xe6e8eb), soft: RGB(0x8c959f), width: narrow},
	{Name: "dark", Paper: RGB(0x0d1117), ink: RGB(0xe6edf3), faint: RGB(0x262c36), soft: RGB(0x7d8590), width: narrow, dark: true},
}

// Screen is that of pictures that are looked at one at a time.
func Screen() Theme {
	t := Themes[0]
	t.width = wide
	return t
}

// Tone makes a colour that is chosen for white paper legible on this theme's.
func (t Theme) Tone(c color.Color) color.Color {
	if !t.dark {
		return c
	}
	const lighter = 0.42
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	if max(n.R, n.G, n.B) < 0x40 {
		ink := t.ink.(color.NRGBA)
		ink.A = n.A
		return ink
	}
	for _, v := range []*uint8{&n.R, &n.G, &n.B} {
		*v += uint8(lighter * float64(255-*v))
	}
	return n
}

// RGB is an opaque colour.
func RGB(v uint32) color.Color {
	return color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: 255}
}

// Fade makes a colour transparent, so that dots may lie over each other.
func Fade(c color.Color) color.Color {
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	n.A = 90
	return n
}

// style is that of a text.
func (t Theme) style(size vg.Length, c color.Color, x text.XAlignment, y text.YAlignment) draw.TextStyle {
	f := plot.DefaultFont
	f.Size = size
	return draw.TextStyle{Color: c, Font: f, XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler}
}

// Axis describes an axis.
type Axis struct {
	Label    string
	Log      bool
	Min, Max float64
	Ticks    []plot.Tick // nil chooses
}

// ErrorLabel says where the axis of errors begins.
const ErrorLabel = "error (floor: 1 us)"

// ErrorAxis is a logarithmic axis from a microsecond to a power of ten, with words at those and lines between.
func ErrorAxis(label string, to float64) Axis {
	var ticks []plot.Tick
	for d := 1.0; d < to*0.999; d *= 10 {
		ticks = append(ticks, plot.Tick{Value: d, Label: Micros(d)})
		for k := 2.0; k < 10; k++ {
			ticks = append(ticks, plot.Tick{Value: d * k})
		}
	}
	ticks = append(ticks, plot.Tick{Value: to, Label: Micros(to)})
	return Axis{Label: label, Log: true, Min: 1, Max: to, Ticks: ticks}
}

// Fixed returns ticks at the values, which are their labels.
func Fixed(values ...float64) (ticks []plot.Tick) {
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.4g", v)})
	}
	return ticks
}

// frame is a plot that knows what it shows.
type frame struct{ *plot.Plot }

// plot returns an empty plot.
func (t Theme) plot(x, y Axis) frame {
	p := plot.New()
	p.BackgroundColor = t.Paper
	for a, spec := range map[*plot.Axis]Axis{&p.X: x, &p.Y: y} {
		a.Label.Text, a.Min, a.Max = spec.Label, spec.Min, spec.Max
		a.Label.TextStyle.Font.Size, a.Tick.Label.Font.Size = textSize, textSize
		a.Label.TextStyle.Color, a.Tick.Label.Color, a.Color, a.Tick.Color = t.ink, t.ink, t.soft, t.soft
		a.Padding = 2
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

// lines adds lines in a style.
func (f frame) lines(style draw.LineStyle, parts ...plotter.XYs) {
	for _, xys := range parts {
		f.Add(&plotter.Line{XYs: f.inside(xys), LineStyle: style})
	}
}

// scatter adds dots.
func (f frame) scatter(c color.Color, radius vg.Length, dots plotter.XYs) {
	style := draw.GlyphStyle{Color: c, Radius: radius, Shape: draw.CircleGlyph{}}
	f.Add(&plotter.Scatter{XYs: f.inside(dots), GlyphStyle: style})
}

// write writes a word at a place: to which side of it, the style says.
func (f frame) write(word string, x, y float64, style draw.TextStyle) {
	f.Add(&plotter.Labels{XYs: plotter.XYs{{X: x, Y: y}}, Labels: []string{word}, TextStyle: []draw.TextStyle{style}})
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

// Millis returns milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
