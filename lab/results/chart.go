// SPDX-License-Identifier: BSD-3-Clause

package results

import (
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"math"
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
	Name  string
	Paper color.NRGBA // the background
	ink   color.NRGBA // letters
	faint color.NRGBA // the grid
	soft  color.NRGBA // axes and events
	width vg.Length
}

// Sizes in points. A point is a pixel of a phone that is 375 pixels wide, so that letters are
// legible there.
const (
	narrow        = 354 // as wide as a phone, less its margins
	wide          = 700 // as wide as a screen
	pictureHeight = 230
	textSize      = 10
	pictureDPI    = 200
)

// Themes are those of light and of dark pages. The colours of the backgrounds are GitHub's.
var Themes = [...]Theme{
	{
		Name:  "light",
		Paper: RGB(0xffffff),
		ink:   RGB(0x1f2328),
		faint: RGB(0xe6e8eb),
		soft:  RGB(0x8c959f),
		width: narrow,
	},
	{
		Name:  "dark",
		Paper: RGB(0x0d1117),
		ink:   RGB(0xe6edf3),
		faint: RGB(0x262c36),
		soft:  RGB(0x7d8590),
		width: narrow,
	},
}

// Screen returns the theme of pictures that are looked at one at a time, as wide as a screen.
func Screen() Theme {
	t := Themes[0]
	t.width = wide
	return t
}

// Tone makes a colour that was chosen for white paper legible on this theme's paper.
func (t Theme) Tone(c color.NRGBA) color.NRGBA {
	if t.Name != "dark" {
		return c
	}
	if nearBlack := max(c.R, c.G, c.B) < 0x40; nearBlack {
		return color.NRGBA{R: t.ink.R, G: t.ink.G, B: t.ink.B, A: c.A}
	}
	const lighter = 0.42
	for _, v := range []*uint8{&c.R, &c.G, &c.B} {
		*v += uint8(lighter * float64(255-*v))
	}
	return c
}

// RGB returns the opaque colour 0xRRGGBB.
func RGB(v uint32) color.NRGBA {
	return color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: 255}
}

// Fade makes a colour transparent, so that dots may lie over each other.
func Fade(c color.NRGBA) color.NRGBA {
	c.A = 90
	return c
}

// textStyle is the style of a text, which begins at its place and stands above it.
func textStyle(size vg.Length, c color.NRGBA) draw.TextStyle {
	return draw.TextStyle{
		Color:   c,
		Font:    font.From(plot.DefaultFont, size),
		Handler: plot.DefaultTextHandler,
	}
}

// Axis describes an axis.
type Axis struct {
	Label    string
	Log      bool
	Min, Max float64
	Ticks    []plot.Tick // nil chooses
}

// ErrorAxis returns a logarithmic axis from one microsecond to a power of ten of them. The powers
// of ten have labels, and there are lines between them.
func ErrorAxis(to float64) Axis {
	a := Axis{Label: "error (floor: 1 us)", Log: true, Min: 1, Max: to}
	for d := 1.0; d < to*1.001; d *= 10 {
		a.Ticks = append(a.Ticks, plot.Tick{Value: d, Label: Micros(d)})
		for k := 2.0; k < 10 && d*k < to; k++ {
			a.Ticks = append(a.Ticks, plot.Tick{Value: d * k})
		}
	}
	return a
}

// TicksAt returns ticks at the values, which are their labels.
func TicksAt(values ...float64) (ticks []plot.Tick) {
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.4g", v)})
	}
	return ticks
}

// Curve is a line of a chart.
type Curve struct {
	Name  string
	Color color.NRGBA
	Width vg.Length // of lines; 0 is a thin one
	Dash  bool
	Parts []plotter.XYs // lines with gaps between them
	Dots  vg.Length     // the radius of dots instead of lines
	At    *plotter.XY   // where its name begins; nil is above the plot
	Above bool          // its name stands above At, not beside it
}

// Bold is the width of the line that matters most.
const Bold = 1.6

// Event is something that happens at a time, or from one time to another. It is drawn as a line
// or as a grey area.
type Event struct {
	From, To float64 // s
	Name     string  // "" if an event of that name is drawn already
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

// frame is a plot in a theme.
type frame struct {
	*plot.Plot
	Theme
}

// plot returns the plot in a theme.
func (c *Chart) plot(t Theme) *plot.Plot {
	f := frame{plot.New(), t}
	f.BackgroundColor = t.Paper
	f.axis(&f.X, c.X)
	f.axis(&f.Y, c.Y)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = t.faint, t.faint
	f.Add(grid)
	for _, e := range c.Events {
		f.mark(e)
	}
	for _, line := range c.Curves {
		f.curve(line)
	}
	return f.Plot
}

// axis makes an axis as it is described.
func (f frame) axis(a *plot.Axis, spec Axis) {
	a.Label.Text = spec.Label
	a.Min, a.Max = spec.Min, spec.Max
	a.Padding = 2
	a.Color = f.soft
	a.Tick.Color = f.soft
	for _, style := range []*draw.TextStyle{&a.Label.TextStyle, &a.Tick.Label} {
		style.Font.Size = textSize
		style.Color = f.ink
	}
	if spec.Log {
		a.Scale = plot.LogScale{}
	}
	if spec.Ticks != nil {
		a.Tick.Marker = plot.ConstantTicks(spec.Ticks)
	}
}

// mark shades an event, or draws a line where it has no length, and names it.
func (f frame) mark(e Event) {
	low := plotter.XY{X: e.From, Y: f.Y.Min}
	high := plotter.XY{X: e.From, Y: f.Y.Max}
	if e.To > e.From {
		area := plotter.XYs{low, {X: e.To, Y: f.Y.Min}, {X: e.To, Y: f.Y.Max}, high}
		f.Add(&plotter.Polygon{XYs: []plotter.XYs{f.inside(area)}, Color: Fade(f.soft)})
	} else {
		dashed := draw.LineStyle{Color: f.soft, Width: 1, Dashes: []vg.Length{2, 2}}
		f.line(dashed, plotter.XYs{low, high})
	}
	f.write(" "+e.Name, high, textStyle(textSize-1, f.ink), draw.XLeft, draw.YTop)
}

// curve adds a curve, and its name if that has a place.
func (f frame) curve(c Curve) {
	for _, part := range c.Parts {
		if c.Dots > 0 {
			dot := draw.GlyphStyle{Color: f.Tone(c.Color), Radius: c.Dots, Shape: draw.CircleGlyph{}}
			f.Add(&plotter.Scatter{XYs: f.inside(part), GlyphStyle: dot})
		} else {
			f.line(c.style(f.Theme, 0), part)
		}
	}
	style := textStyle(textSize, f.Tone(c.Color))
	switch {
	case c.Above:
		f.write(c.Name, *c.At, style, draw.XCenter, draw.YBottom)
	case c.At != nil:
		f.write(c.Name, *c.At, style, draw.XLeft, draw.YCenter)
	}
}

// inside moves what the axes do not show to their edges.
func (f frame) inside(xys plotter.XYs) plotter.XYs {
	moved := make(plotter.XYs, len(xys))
	for i, p := range xys {
		moved[i] = plotter.XY{X: min(max(p.X, f.X.Min), f.X.Max), Y: min(max(p.Y, f.Y.Min), f.Y.Max)}
	}
	return moved
}

// line adds a line in a style.
func (f frame) line(style draw.LineStyle, xys plotter.XYs) {
	f.Add(&plotter.Line{XYs: f.inside(xys), LineStyle: style})
}

// write writes a word at a place.
func (f frame) write(
	word string, at plotter.XY, style draw.TextStyle, x draw.XAlignment, y draw.YAlignment,
) {
	style.XAlign, style.YAlign = x, y
	f.Add(&plotter.Labels{
		XYs:       plotter.XYs{at},
		Labels:    []string{word},
		TextStyle: []draw.TextStyle{style},
	})
}

// Draw draws charts below each other into a PNG file, each below its title and the names of its
// lines.
func Draw(path string, t Theme, charts ...*Chart) error {
	var height vg.Length
	var plots [][]*plot.Plot
	for _, c := range charts {
		height += cmp.Or(c.Height, pictureHeight)
		plots = append(plots, []*plot.Plot{c.plot(t)})
	}
	img := vgimg.NewWith(
		vgimg.UseWH(t.width, height),
		vgimg.UseDPI(pictureDPI),
		vgimg.UseBackgroundColor(t.Paper),
	)
	canvas := draw.New(img)
	tiles := draw.Tiles{
		Rows:      len(plots),
		Cols:      1,
		PadTop:    34,
		PadBottom: 4,
		PadLeft:   4,
		PadRight:  12,
		PadY:      38,
	}
	for i, row := range plot.Align(plots, tiles, canvas) {
		// A plot leaves room above itself for a vertical label that is longer than ours.
		const letters = 9
		p, tile := plots[i][0], row[0]
		top := tile.Max.Y
		tile.Max.Y += top - p.DataCanvas(tile).Max.Y - letters
		p.Draw(tile)
		charts[i].head(t, canvas, top)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = vgimg.PngCanvas{Canvas: img}.WriteTo(f)
	return errors.Join(err, f.Close())
}

// style is how a line is drawn in a picture, wider than it is by some points.
func (c Curve) style(t Theme, wider vg.Length) draw.LineStyle {
	s := draw.LineStyle{Color: t.Tone(c.Color), Width: cmp.Or(c.Width, 1.1) + wider}
	if c.Dash {
		s.Dashes = []vg.Length{4, 2.5}
	}
	return s
}

// head writes the title and the names above a plot that ends at y.
func (c *Chart) head(t Theme, canvas draw.Canvas, y vg.Length) {
	const left, sample, gap = 8, 14, 12
	at := canvas.Min.X + left
	text := textStyle(textSize, t.ink)
	canvas.FillText(textStyle(textSize+1, t.ink), vg.Point{X: at, Y: y + 17}, c.Title)
	canvas.FillText(text, vg.Point{X: at, Y: y + 3}, c.About)
	for _, line := range c.Curves {
		if line.Dots > 0 || line.At != nil || len(line.Parts) == 0 {
			continue // the axis names them, or they stand beside their lines
		}
		canvas.StrokeLine2(line.style(t, 0.6), at, y+8, at+sample, y+8)
		canvas.FillText(text, vg.Point{X: at + sample + 3, Y: y + 3}, line.Name)
		at += sample + 3 + text.Width(line.Name) + gap
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

// Micros prints microseconds for people: three digits and a unit.
func Micros(us float64) string {
	switch {
	case math.IsNaN(us):
		return "never"
	case us < 99.5:
		return fmt.Sprintf("%.0f us", us)
	case us < 9950:
		return fmt.Sprintf("%.2g ms", us/1e3)
	case us < 999500:
		return fmt.Sprintf("%.0f ms", us/1e3)
	case us < 999.5e6:
		return fmt.Sprintf("%.3g s", us/1e6)
	}
	return fmt.Sprintf("%.0f s", us/1e6)
}

// Millis returns a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
