// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"image/color"
	"math"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Plots of -world and -recording have a light background of their own. The pictures of the
// documents are in pictures.go.
var (
	paper = rgb(0xfdfdfb)
	ink   = rgb(0x222222)
	faint = rgb(0xe2e2de)
	soft  = rgb(0x777777)
)

const (
	plotWidth = 25 * vg.Centimeter
	plotDPI   = 110
)

// curve is a line of a plot.
type curve struct {
	name  string
	color color.Color
	width vg.Length // 0 is 1 point
	dash  bool
	parts []plotter.XYs // lines with gaps between them
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

// newPlot returns a plot in our style.
func newPlot(title string, x, y axis) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = paper
	p.Title.Text = title
	p.Title.TextStyle.Font.Size, p.Title.TextStyle.Color = 14, ink
	p.Title.Padding = 8
	for a, spec := range map[*plot.Axis]axis{&p.X: x, &p.Y: y} {
		a.Label.Text, a.Min, a.Max = spec.label, spec.min, spec.max
		a.Label.TextStyle.Font.Size, a.Tick.Label.Font.Size = 12, 11
		a.Label.TextStyle.Color, a.Tick.Label.Color, a.Color, a.Tick.Color = ink, ink, soft, soft
		a.Padding = 4
		if spec.log {
			a.Scale = plot.LogScale{}
		}
		if spec.ticks != nil {
			a.Tick.Marker = plot.ConstantTicks(spec.ticks)
		}
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = faint, faint
	p.Add(grid)
	return p
}

// add draws curves; what an axis does not show is drawn at its edge.
func add(p *plot.Plot, curves []curve) (plot.Legend, error) {
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	legend.TextStyle.Font.Size, legend.TextStyle.Color = 11, ink
	legend.Padding, legend.ThumbnailWidth = 3, 22
	for _, c := range curves {
		for part, xys := range c.parts {
			for i := range xys {
				xys[i].X = min(max(xys[i].X, p.X.Min), p.X.Max)
				xys[i].Y = min(max(xys[i].Y, p.Y.Min), p.Y.Max)
			}
			l, err := plotter.NewLine(xys)
			if err != nil {
				return legend, err
			}
			l.Color, l.Width = c.color, max(c.width, 1)
			if c.dash {
				l.Dashes = []vg.Length{5, 3}
			}
			p.Add(l)
			if c.name != "" && part == 0 {
				legend.Add(c.name, l)
			}
		}
	}
	return legend, nil
}

// save draws panels below each other, each with its legend to the right, where it hides
// nothing.
func save(path string, height vg.Length, panels []*plot.Plot, legends []plot.Legend) error {
	const legendWidth = 3.6 * vg.Centimeter
	img := vgimg.NewWith(vgimg.UseWH(plotWidth, height), vgimg.UseDPI(plotDPI), vgimg.UseBackgroundColor(paper))
	all := draw.New(img)
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadTop: 8, PadBottom: 6, PadLeft: 6, PadRight: 6, PadY: 4}
	column := make([][]*plot.Plot, len(panels))
	for i, p := range panels {
		column[i] = []*plot.Plot{p}
	}
	frames := plot.Align(column, tiles, draw.Crop(all, 0, -legendWidth, 0, 0))
	for i, p := range panels {
		c := frames[i][0]
		p.Draw(c)
		if i < len(legends) {
			l := draw.Crop(all, plotWidth-legendWidth, -6, 0, 0)
			l.Min.Y, l.Max.Y = c.Min.Y, c.Max.Y-24
			legends[i].Draw(l)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// fade makes a colour transparent, so that dots may lie over each other.
func fade(c color.Color) color.Color {
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	n.A = 90
	return n
}

// logSpace returns n+1 numbers from a to b in equal ratios.
func logSpace(a, b float64, n int) (v []float64) {
	for i := range n + 1 {
		v = append(v, a*math.Pow(b/a, float64(i)/float64(n)))
	}
	return v
}
