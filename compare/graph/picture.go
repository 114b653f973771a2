// SPDX-License-Identifier: BSD-3-Clause

package graph

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Pictures of the documents: each is drawn for light and for dark pages. A point of theirs is
// a pixel of a telephone that is 375 pixels wide, so that letters are legible there.
const (
	pictureWidth  = 354 // points
	pictureHeight = 230
	pictureDPI    = 200
	textSize      = 10
)

// Themes are those of light and of dark pages. The colours of the backgrounds are GitHub's.
var Themes = [...]Theme{
	{Name: "light", Paper: RGB(0xffffff), ink: RGB(0x1f2328), faint: RGB(0xe6e8eb), Soft: RGB(0x8c959f), label: textSize, tick: textSize, padding: 2},
	{Name: "dark", Paper: RGB(0x0d1117), ink: RGB(0xe6edf3), faint: RGB(0x262c36), Soft: RGB(0x7d8590), dark: true, label: textSize, tick: textSize, padding: 2},
}

// Tone makes a colour that is chosen for white paper legible on this theme's.
func (t Theme) Tone(c color.Color) color.Color {
	if !t.dark {
		return c
	}
	const lighter = 0.42
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	if max(n.R, n.G, n.B) < 0x40 {
		return t.ink
	}
	for _, v := range []*uint8{&n.R, &n.G, &n.B} {
		*v += uint8(lighter * float64(255-*v))
	}
	return n
}

// style is that of a text.
func (t Theme) style(size font.Length, c color.Color, x text.XAlignment, y text.YAlignment) draw.TextStyle {
	f := plot.DefaultFont
	f.Size = size
	return draw.TextStyle{Color: c, Font: f, XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler}
}

// Event is something that happens in a world, at a time or from one to another, s.
type Event struct {
	From, To float64
	Name     string // "" is not named again
}

// Chart is a plot of lines.
type Chart struct {
	Title  string
	X, Y   Axis
	Curves []Curve
	Events []Event
}

// plot returns the plot in a theme.
func (c *Chart) plot(t Theme) (f Frame, err error) {
	f = t.plot(c.X, c.Y)
	for _, e := range c.Events {
		if err := t.mark(f, e); err != nil {
			return f, err
		}
	}
	for _, line := range c.Curves {
		if _, err := f.lines(line.Parts, line.style(t, 0)); err != nil {
			return f, err
		}
	}
	return f, nil
}

// mark shades an event, or draws a line where it has no length, and names it.
func (t Theme) mark(f Frame, e Event) error {
	if e.To > e.From {
		area, err := plotter.NewPolygon(f.inside(plotter.XYs{{X: e.From, Y: f.Y.Min}, {X: e.To, Y: f.Y.Min}, {X: e.To, Y: f.Y.Max}, {X: e.From, Y: f.Y.Max}}))
		if err != nil {
			return err
		}
		area.Color, area.LineStyle.Width = Fade(t.Soft), 0
		f.Add(area)
	} else if err := f.Vertical(e.From, draw.LineStyle{Color: t.Soft, Width: 1, Dashes: []vg.Length{2, 2}}); err != nil {
		return err
	}
	name, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: e.From, Y: f.Y.Max}}, Labels: []string{e.Name}})
	if err != nil {
		return err
	}
	name.TextStyle[0] = t.style(textSize-1, t.ink, draw.XLeft, draw.YTop)
	name.Offset = vg.Point{X: 3, Y: -2}
	f.Add(name)
	return nil
}

// Charts draws charts below each other into a picture, each below its title and the names
// of its lines.
func Charts(path string, t Theme, charts ...*Chart) error {
	img, all := t.canvas(vg.Length(len(charts)) * pictureHeight)
	plots := make([]Frame, len(charts))
	for i, c := range charts {
		var err error
		if plots[i], err = c.plot(t); err != nil {
			return err
		}
	}
	for i, where := range aligned(plots, draw.Tiles{PadTop: 34, PadBottom: 4, PadLeft: 4, PadRight: 12, PadY: 38}, all) {
		// The plot leaves room above itself for a vertical label that is not so long.
		const letters = 9
		top := where.Max.Y
		where.Max.Y += top - plots[i].DataCanvas(where).Max.Y - letters
		plots[i].Draw(where)
		charts[i].head(t, all, top)
	}
	return saveImage(path, img)
}

// style is how a line is drawn in a picture, wider by so much: this package's is wider than the
// others'.
func (c Curve) style(t Theme, wider vg.Length) draw.LineStyle {
	s := draw.LineStyle{Color: t.Tone(c.Color), Width: 1.1 + wider}
	if c.Dash {
		s.Dashes = []vg.Length{4, 2.5}
	} else if c.Width > 1 {
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
	for _, line := range c.Curves {
		all.StrokeLine2(line.style(t, 0.6), at, y+8, at+sample, y+8)
		all.FillText(style, vg.Point{X: at + sample + 3, Y: y + 3}, line.Name)
		at += sample + 3 + style.Width(line.Name) + gap
	}
}

func (t Theme) canvas(height vg.Length) (*vgimg.Canvas, draw.Canvas) {
	img := vgimg.NewWith(vgimg.UseWH(pictureWidth, height), vgimg.UseDPI(pictureDPI), vgimg.UseBackgroundColor(t.Paper))
	return img, draw.New(img)
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
	p := t.plot(x, Axis{Min: -float64(len(strips)) + 0.5, Max: 0.8, Ticks: names})
	p.Y.Tick.Length = 0
	for i, s := range strips {
		y, tone := -float64(i), t.Tone(s.Color)
		var dots plotter.XYs
		for _, v := range s.Dots {
			dots = append(dots, plotter.XY{X: v, Y: y})
		}
		if err := p.scatter(dots, Fade(tone), 2); err != nil {
			return err
		}
		if _, err := p.lines([]plotter.XYs{{{X: s.Mean, Y: y - 0.26}, {X: s.Mean, Y: y + 0.26}}}, draw.LineStyle{Color: tone, Width: 2.5}); err != nil {
			return err
		}
		mean, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: s.Mean, Y: y + 0.28}}, Labels: []string{Micros(s.Mean)}})
		if err != nil {
			return err
		}
		mean.TextStyle[0] = t.style(textSize, tone, draw.XCenter, draw.YBottom)
		p.Add(mean)
	}
	img, all := t.canvas(pictureHeight * 1.3)
	all.FillText(t.style(textSize+1, t.ink, draw.XLeft, draw.YTop), vg.Point{X: 8, Y: all.Max.Y - 5}, title)
	p.Draw(draw.Crop(all, 4, 0, 4, -20))
	return saveImage(path, img)
}
