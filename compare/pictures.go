// SPDX-License-Identifier: BSD-3-Clause

package main

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

// The colours of the backgrounds are GitHub's.
var themes = [...]theme{
	{name: "light", paper: rgb(0xffffff), ink: rgb(0x1f2328), faint: rgb(0xe6e8eb), soft: rgb(0x8c959f), label: textSize, tick: textSize, padding: 2},
	{name: "dark", paper: rgb(0x0d1117), ink: rgb(0xe6edf3), faint: rgb(0x262c36), soft: rgb(0x7d8590), dark: true, label: textSize, tick: textSize, padding: 2},
}

// tone makes a colour that is chosen for white paper legible on this theme's.
func (t theme) tone(c color.Color) color.Color {
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
func (t theme) style(size font.Length, c color.Color, x text.XAlignment, y text.YAlignment) draw.TextStyle {
	f := plot.DefaultFont
	f.Size = size
	return draw.TextStyle{Color: c, Font: f, XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler}
}

// event is something that happens in a world, at a time or from one to another, s.
type event struct {
	from, to float64
	name     string // "" is not named again
}

// chart is a plot of lines.
type chart struct {
	title  string
	x, y   axis
	curves []curve
	events []event
}

// plot returns the plot in a theme.
func (c *chart) plot(t theme) (f frame, err error) {
	f = t.plot(c.x, c.y)
	for _, e := range c.events {
		if err := t.mark(f, e); err != nil {
			return f, err
		}
	}
	for _, line := range c.curves {
		if _, err := f.lines(line.parts, line.style(t, 0)); err != nil {
			return f, err
		}
	}
	return f, nil
}

// mark shades an event, or draws a line where it has no length, and names it.
func (t theme) mark(f frame, e event) error {
	if e.to > e.from {
		area, err := plotter.NewPolygon(f.inside(plotter.XYs{{X: e.from, Y: f.Y.Min}, {X: e.to, Y: f.Y.Min}, {X: e.to, Y: f.Y.Max}, {X: e.from, Y: f.Y.Max}}))
		if err != nil {
			return err
		}
		area.Color, area.LineStyle.Width = fade(t.soft), 0
		f.Add(area)
	} else if err := f.vertical(e.from, draw.LineStyle{Color: t.soft, Width: 1, Dashes: []vg.Length{2, 2}}); err != nil {
		return err
	}
	name, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: e.from, Y: f.Y.Max}}, Labels: []string{e.name}})
	if err != nil {
		return err
	}
	name.TextStyle[0] = t.style(textSize-1, t.ink, draw.XLeft, draw.YTop)
	name.Offset = vg.Point{X: 3, Y: -2}
	f.Add(name)
	return nil
}

// drawCharts draws charts below each other into a picture, each below its title and the names
// of its lines.
func drawCharts(path string, t theme, charts ...*chart) error {
	img, all := t.canvas(vg.Length(len(charts)) * pictureHeight)
	plots := make([]frame, len(charts))
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
func (c curve) style(t theme, wider vg.Length) draw.LineStyle {
	s := draw.LineStyle{Color: t.tone(c.color), Width: 1.1 + wider}
	if c.dash {
		s.Dashes = []vg.Length{4, 2.5}
	} else if c.width > 1 {
		s.Width = 1.6 + wider
	}
	return s
}

// head writes the title and the names above a plot that ends at y.
func (c *chart) head(t theme, all draw.Canvas, y vg.Length) {
	const left, sample, gap = 8, 14, 12
	all.FillText(t.style(textSize+1, t.ink, draw.XLeft, draw.YBottom), vg.Point{X: all.Min.X + left, Y: y + 17}, c.title)
	at := all.Min.X + left
	style := t.style(textSize, t.ink, draw.XLeft, draw.YBottom)
	for _, line := range c.curves {
		all.StrokeLine2(line.style(t, 0.6), at, y+8, at+sample, y+8)
		all.FillText(style, vg.Point{X: at + sample + 3, Y: y + 3}, line.name)
		at += sample + 3 + style.Width(line.name) + gap
	}
}

func (t theme) canvas(height vg.Length) (*vgimg.Canvas, draw.Canvas) {
	img := vgimg.NewWith(vgimg.UseWH(pictureWidth, height), vgimg.UseDPI(pictureDPI), vgimg.UseBackgroundColor(t.paper))
	return img, draw.New(img)
}

// strip is a row of drawStrips: a dot for each world, and their mean.
type strip struct {
	name  string
	color color.Color
	dots  []float64
	mean  float64
}

// drawStrips draws a row for each method, the best on top.
func drawStrips(path string, t theme, title string, x axis, strips []strip) error {
	var names []plot.Tick
	for i, s := range strips {
		names = append(names, plot.Tick{Value: -float64(i), Label: s.name})
	}
	p := t.plot(x, axis{min: -float64(len(strips)) + 0.5, max: 0.8, ticks: names})
	p.Y.Tick.Length = 0
	for i, s := range strips {
		y, tone := -float64(i), t.tone(s.color)
		var dots plotter.XYs
		for _, v := range s.dots {
			dots = append(dots, plotter.XY{X: v, Y: y})
		}
		if err := p.scatter(dots, fade(tone), 2); err != nil {
			return err
		}
		if _, err := p.lines([]plotter.XYs{{{X: s.mean, Y: y - 0.26}, {X: s.mean, Y: y + 0.26}}}, draw.LineStyle{Color: tone, Width: 2.5}); err != nil {
			return err
		}
		mean, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: s.mean, Y: y + 0.28}}, Labels: []string{micros(s.mean)}})
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
