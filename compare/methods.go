// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"image/color"
	"reflect"
	"time"

	"timesync/internal/rivals"
	"timesync/internal/sim"
)

// bounded is a method that says how wrong it may be.
type bounded interface {
	ErrorBound(localUsec uint64) (time.Duration, bool)
}

// method is a column of the report.
type method struct {
	name  string // short, for tables and legends
	what  string // what it does, for readers
	color color.Color
	make  func() sim.Estimator
	bytes func(rate float64) float64 // that one end sends a second at a rate of datagrams
	per   string                     // what the cost of this method is the cost of
}

// header is what a packet of its own costs besides: IPv4 and UDP.
const header = 28

// stamped is the bytes a second of what travels in datagrams: 3 for a stamp and for a
// report every 2 s.
func stamped(reports float64) func(rate float64) float64 {
	return func(rate float64) float64 { return 3*rate + 3*reports }
}

// asked is the bytes a second of exchanges that an end begins and as many that it answers.
func asked(perSecond, request, response float64) func(float64) float64 {
	return func(float64) float64 { return perSecond * (request + response + 2*header) }
}

// rgb is an opaque colour.
func rgb(v uint32) color.Color {
	return color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: 255}
}

const (
	ours     = 0 // index of this package
	original = 1 // of the original's algorithm
	ntp      = 2 // of NTP's filter
)

// methods are all columns but the oracle's, which comes last. Where nobody says how large a
// message is, a time has 8 bytes: a request carries one, and a response three.
var methods = []method{
	{"timesync", "this package: the floors of both directions as straight lines, and rules for what a floor, a path and a clock can do",
		rgb(0x0060df), func() sim.Estimator { return new(subject) }, stamped(0.5), "datagram"},
	{"original", "the C++ original: the smallest delta of 10 s in each direction, half their difference",
		rgb(0xd9480f), func() sim.Estimator { return new(rivals.Original) }, stamped(0.5), "datagram"},
	{"NTP filter", "of the last 8 exchanges, one every 2 s, the one with the shortest round trip",
		rgb(0x74a57f), func() sim.Estimator { return new(rivals.NTPFilter) }, asked(0.5, 48, 48), "exchange"},
	{"netfox", "the mean of 8 exchanges, four a second, weighted by the logarithm of the round trip; an eighth is taken at once",
		rgb(0x9c36b5), func() sim.Estimator { return new(rivals.Netfox) }, asked(4, 8, 24), "exchange"},
	{"Slot", "every 5 s an exchange; if its round trip is among the best fifth of 32 and the clock is 3 ms off, the clock is set",
		rgb(0x846000), func() sim.Estimator { return new(rivals.Slot) }, asked(0.2, 8, 24), "exchange"},
	{"Sutphin", "one exchange at the start: the answer and half the round trip, for ever",
		rgb(0xe64980), func() sim.Estimator { return new(rivals.Sutphin) }, func(float64) float64 { return 0 }, "exchange"},
	{"Unity", "once a second the server pushes its time, half the transport's round trip is added, and the clock follows at 1 % of the speed of time",
		rgb(0x0b9b9b), func() sim.Estimator { return new(rivals.Unity) }, func(float64) float64 { return 8 + header }, "datagram"},
	{"wall clock", "abs-send-time's assumption that both wall clocks are right, granted that somebody set them right when the world began",
		rgb(0x868e96), func() sim.Estimator { return new(rivals.WallClock) }, stamped(0), "datagram"},
}

// chronyColor is that of chronyd.
var chronyColor = rgb(0x2b8a3e)

// oracleName and its colour: the oracle is the last pair of each run.
const oracleName = "oracle"

var oracleColor = rgb(0x111111)

// columns returns the names of all methods, the oracle last.
func columns() (names []string) {
	for _, m := range methods {
		names = append(names, m.name)
	}
	return append(names, oracleName)
}

// colorOf returns the colour of a column.
func colorOf(column int) color.Color {
	switch column {
	case chronyColumn.method:
		return chronyColor
	case len(methods):
		return oracleColor
	}
	return methods[column].color
}

// newPairs returns every method at both ends, and the oracle.
func newPairs() (pairs []sim.Pair, o *oracle) {
	for _, m := range methods {
		pairs = append(pairs, sim.Pair{Name: m.name, A: m.make(), B: m.make()})
	}
	o = new(oracle)
	return append(pairs, sim.Pair{Name: oracleName, A: &o.ends[sim.A], B: &o.ends[sim.B]}), o
}

// size returns the bytes that a method keeps for a peer.
func size(m method) int {
	e := m.make()
	n := int(reflect.TypeOf(e).Elem().Size())
	if _, ok := e.(*rivals.Netfox); ok {
		n += 8 * 16 // its samples
	}
	return n
}

// micros prints microseconds for people: three digits and a unit.
func micros(us float64) string {
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
