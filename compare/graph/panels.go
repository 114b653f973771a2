// SPDX-License-Identifier: BSD-3-Clause

package graph

import (
	"math"
	"slices"
	"timesync/internal/stat"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// The pictures of -world and -recording are panels below each other, which share the time axis.

// Screen is how they look. The pictures of the documents are in pictures.go.
var Screen = Theme{Paper: RGB(0xfdfdfb), ink: RGB(0x222222), faint: RGB(0xe2e2de), Soft: RGB(0x777777), label: 12, tick: 11, padding: 4}

// Panel is one of the plots.
type Panel struct {
	Title  string
	Y      Axis
	Curves []Curve
}

// Panels draws panels, each with its legend to the right, where it hides nothing. The time
// axis is named below the last one; also adds to each.
func Panels(path string, x Axis, panels []Panel, also func(f Frame)) error {
	const width, height, legendWidth, resolution = 25 * vg.Centimeter, 6 * vg.Centimeter, 3.6 * vg.Centimeter, 110
	x.Ticks = Even(x.Min, x.Max)
	plots, legends := make([]Frame, len(panels)), make([]plot.Legend, len(panels))
	for i, spec := range panels {
		labelled := x
		if i < len(panels)-1 {
			labelled.Label = ""
		}
		p := Screen.plot(labelled, spec.Y)
		p.Title.Text, p.Title.TextStyle.Font.Size, p.Title.TextStyle.Color, p.Title.Padding = spec.Title, 12, Screen.ink, 8
		also(p)
		var err error
		if legends[i], err = p.add(spec.Curves); err != nil {
			return err
		}
		plots[i] = p
	}
	img := vgimg.NewWith(vgimg.UseWH(width, vg.Length(len(panels))*height), vgimg.UseDPI(resolution), vgimg.UseBackgroundColor(Screen.Paper))
	all := draw.New(img)
	tiles := draw.Tiles{PadTop: 8, PadBottom: 6, PadLeft: 6, PadRight: 6, PadY: 4}
	for i, where := range aligned(plots, tiles, draw.Crop(all, 0, -legendWidth, 0, 0)) {
		plots[i].Draw(where)
		l := draw.Crop(all, width-legendWidth, -6, 0, 0)
		l.Min.Y, l.Max.Y = where.Min.Y, where.Max.Y-24
		legends[i].Draw(l)
	}
	return saveImage(path, img)
}

// add draws curves, and returns their legend.
func (f Frame) add(curves []Curve) (plot.Legend, error) {
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	legend.TextStyle.Font.Size, legend.TextStyle.Color = 11, Screen.ink
	legend.Padding, legend.ThumbnailWidth = 3, 22
	for _, c := range curves {
		if c.Dots {
			if err := f.scatter(c.Parts[0], c.Color, 3.5); err != nil {
				return legend, err
			}
			continue
		}
		first, err := f.lines(c.Parts, draw.LineStyle{Color: c.Color, Width: max(c.Width, 1)})
		if err != nil {
			return legend, err
		}
		if first != nil {
			legend.Add(c.Name, first)
		}
	}
	return legend, nil
}

// OverTime returns the lines through n points in order of x, with gaps where y is NaN for longer
// than gap.
func OverTime(n int, gap float64, at func(i int) (x, y float64)) (parts []plotter.XYs) {
	last := math.Inf(-1)
	for i := range n {
		x, y := at(i)
		if math.IsNaN(y) {
			continue
		}
		if x > last+gap {
			parts = append(parts, nil)
		}
		last = x
		p := &parts[len(parts)-1]
		*p = append(*p, plotter.XY{X: x, Y: y})
	}
	return parts
}

// Fitted returns an axis that holds 98 % of the points of all curves.
func Fitted(label string, curves []Curve) Axis {
	var ys []float64
	for _, c := range curves {
		for _, part := range c.Parts {
			for _, p := range part {
				ys = append(ys, p.Y)
			}
		}
	}
	if len(ys) == 0 {
		return Axis{Label: label, Min: 0, Max: 1} // with nothing to see: ticks of NaN take for ever
	}
	slices.Sort(ys)
	lo, hi := stat.OrNaN(ys, 0.01), stat.OrNaN(ys, 0.99)
	room := max((hi-lo)/10, 0.1, math.Abs(lo)/1e6)
	return Axis{Label: label, Min: lo - room, Max: hi + room}
}

// Even returns ticks at round numbers, about eight of them.
func Even(from, to float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((to-from)/8)))
	for _, k := range []float64{1, 2, 5, 10} {
		if (to-from)/(k*step) <= 10 {
			step *= k
			break
		}
	}
	var values []float64
	for v := math.Ceil(from/step) * step; v <= to; v += step {
		values = append(values, v)
	}
	return Fixed("%.4g", values...)
}

// Parts returns the lines through values at 0, 1, 2 and so on, with gaps where there is none.
func Parts(values []float64) []plotter.XYs {
	return OverTime(len(values), 1, func(i int) (x, y float64) { return float64(i), values[i] })
}
