// SPDX-License-Identifier: BSD-3-Clause

// Package play plays every method, chronyd aside, in every world on identical packets, beside an
// oracle that knows each world in advance.
package play

import (
	"image/color"
	"reflect"
	"slices"

	"gonum.org/v1/plot/plotter"

	"timesync/compare/graph"
	"timesync/internal/rivals"
	"timesync/internal/sim"
)

// Method is a column of the report.
type Method struct {
	Name  string // short, for tables and legends
	What  string // what it does, for readers
	color color.Color
	Make  func() sim.Estimator
	Bytes float64 // that one end sends a second
}

// What an end sends a second, bytes, beside 60 datagrams.
const (
	datagrams = 60
	counter   = 3                           // a stamp, or a report
	header    = 28                          // a packet of its own: IPv4 and UDP
	stamped   = counter * (datagrams + 0.5) // stamps in datagrams, and a report every 2 s
)

// Asked is that of exchanges that an end begins and as many that it answers.
func Asked(perSecond, request, response float64) float64 {
	return perSecond * (request + response + 2*header)
}

// The names of the columns that texts and pictures speak of. Some are no methods of the list below:
// chronyd is measured apart, and the oracle answers when all is over.
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

// Methods are all that are played. A new one is an entry here, and a file of internal/rivals. Where
// nobody says how large a message is, a time has 8 bytes: a request carries one, and a response three.
var Methods = []Method{
	{Ours, "this package: the floors of both directions as straight lines, and rules for what a floor, a path and a clock can do",
		graph.RGB(0x0060df), func() sim.Estimator { return new(sim.Core) }, stamped},
	{Original, "the C++ original: the smallest delta of 10 s in each direction, half their difference",
		graph.RGB(0xd9480f), func() sim.Estimator { return new(rivals.Original) }, stamped},
	{NTP, "of the last 8 exchanges, one every 2 s, the one with the shortest round trip",
		graph.RGB(0x74a57f), func() sim.Estimator { return new(rivals.NTPFilter) }, Asked(0.5, 48, 48)},
	{Netfox, "the mean of 8 exchanges, four a second, weighted by the logarithm of the round trip; an eighth is taken at once",
		graph.RGB(0x9c36b5), func() sim.Estimator { return new(rivals.Netfox) }, Asked(4, 8, 24)},
	{Slot, "every 5 s an exchange; if its round trip is among the best fifth of 32 and the clock is 3 ms off, the clock is set",
		graph.RGB(0x846000), func() sim.Estimator { return new(rivals.Slot) }, Asked(0.2, 8, 24)},
	{Sutphin, "one exchange at the start: the answer and half the round trip, for ever",
		graph.RGB(0xe64980), func() sim.Estimator { return new(rivals.Sutphin) }, 0},
	{"Unity", "once a second the server pushes its time, half the transport's round trip is added, and the clock follows at 1 % of the speed of time",
		graph.RGB(0x0b9b9b), func() sim.Estimator { return new(rivals.Unity) }, 8 + header},
}

// Columns returns the names of all that are played: the methods, and the oracle last.
func Columns() (names []string) {
	for _, m := range Methods {
		names = append(names, m.Name)
	}
	return append(names, OracleName)
}

// MethodNamed returns the method of a column that is one.
func MethodNamed(column string) Method {
	return Methods[slices.IndexFunc(Methods, func(m Method) bool { return m.Name == column })]
}

// ColorOf returns the colour of a column.
func ColorOf(column string) color.Color {
	switch column {
	case Chronyd, ChronydOften:
		return graph.RGB(0x2b8a3e)
	case OracleName:
		return graph.RGB(0x111111)
	case ErrorBound:
		return MethodNamed(NTP).color
	}
	return MethodNamed(column).color
}

// Size returns the bytes that a method keeps for a peer.
func Size(m Method) int {
	e := m.Make()
	n := int(reflect.TypeOf(e).Elem().Size())
	if _, ok := e.(*rivals.Netfox); ok {
		n += 8 * 16 // its samples
	}
	return n
}

// CurveOf returns the curve of a column: ours is bold, the oracle's dashed.
func CurveOf(column string, parts ...plotter.XYs) graph.Curve {
	c := graph.Curve{Name: column, Color: ColorOf(column), Parts: parts, Dash: column == OracleName}
	if column == Ours {
		c.Width = graph.Bold
	}
	return c
}
