// SPDX-License-Identifier: BSD-3-Clause

// Package play plays every method, chronyd aside, in every world on identical packets, beside an
// oracle that knows each world in advance.
package play

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"

	"timesync/internal/sim"
	"timesync/internal/sim/rivals"
	"timesync/lab/results"
)

// Method is a column of the report.
type Method struct {
	Name  string // short, for tables and legends
	color color.NRGBA
	Make  func() sim.Estimator
}

// The names of the columns that texts and pictures speak of. Some are no methods of the list
// below: chronyd is measured apart, and the oracle answers when all is over.
const (
	Ours         = "timesync"
	Original     = "original"
	NTP          = "NTP filter"
	Netfox       = "netfox"
	Slot         = "Slot"
	Sutphin      = "Sutphin"
	Chronyd      = "chronyd 1/s" // it says how often it asks
	ChronydOften = "chronyd 16/s"
	OracleName   = "oracle"
	ErrorBound   = "error bound" // of this package, in pictures
)

// Methods are all that are played. A new one is an entry here, and a file of internal/sim/rivals.
var Methods = []Method{
	{Ours, results.RGB(0x0060df), func() sim.Estimator { return new(sim.Core) }},
	{Original, results.RGB(0xd9480f), func() sim.Estimator { return new(rivals.Original) }},
	{NTP, results.RGB(0x74a57f), func() sim.Estimator { return new(rivals.NTPFilter) }},
	{Netfox, results.RGB(0x9c36b5), func() sim.Estimator { return new(rivals.Netfox) }},
	{Slot, results.RGB(0x846000), func() sim.Estimator { return new(rivals.Slot) }},
	{Sutphin, results.RGB(0xe64980), func() sim.Estimator { return new(rivals.Sutphin) }},
	{"Unity", results.RGB(0x0b9b9b), func() sim.Estimator { return new(rivals.Unity) }},
}

// Columns returns the names of all that are played: the methods, and the oracle last.
func Columns() (names []string) {
	for _, m := range Methods {
		names = append(names, m.Name)
	}
	return append(names, OracleName)
}

// ColorOf returns the colour of a column.
func ColorOf(column string) color.NRGBA {
	switch column {
	case Chronyd, ChronydOften:
		return results.RGB(0x2b8a3e)
	case OracleName:
		return results.RGB(0x111111)
	case ErrorBound:
		column = NTP
	}
	return Methods[slices.IndexFunc(Methods, func(m Method) bool { return m.Name == column })].color
}

// CurveOf returns the curve of a column: ours is bold, the oracle's dashed.
func CurveOf(column string, parts ...plotter.XYs) results.Curve {
	c := results.Curve{Name: column, Color: ColorOf(column), Parts: parts, Dash: column == OracleName}
	if column == Ours {
		c.Width = results.Bold
	}
	return c
}

// Chart shows the errors of some columns from one second to another.
func Chart(
	title string, errs map[string]plotter.XYs, events []results.Event,
	from, to int, columns ...string,
) *results.Chart {
	x := results.Axis{Label: "seconds since the start", Min: float64(from), Max: float64(to)}
	c := &results.Chart{Title: title, X: x}
	top := 1.0
	for _, column := range columns {
		seconds := errs[column][from:min(to, len(errs[column]))]
		for _, p := range seconds {
			if p.Y > top { // none of NaN
				top = p.Y
			}
		}
		c.Curves = append(c.Curves, CurveOf(column, results.Split(seconds, 1)...))
	}
	c.Y = results.ErrorAxis(math.Pow(10, math.Ceil(math.Log10(top))))
	outside := func(e results.Event) bool { return e.To < x.Min || e.From > x.Max }
	c.Events = slices.DeleteFunc(events, outside)
	return c
}
