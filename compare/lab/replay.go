// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"timesync/compare/play"
	"timesync/internal/sim"
	"timesync/internal/stat"
)

// linkAsk is how often every method is asked.
const linkAsk = time.Second / 10

// linkError is an answer.
type linkError struct {
	at    time.Duration
	side  sim.Side
	setup linkSetup
	err   float64
}

// linkSetup is a method with the times that it is given.
type linkSetup struct {
	Method string  // a column, or a program beside
	kernel bool    // receive times are the kernel's; else those after the read
	skew   float64 // of B's clock
}

// The setups that tables and pictures speak of.
var (
	oursKernel     = linkSetup{play.Ours, true, linkSkew}
	oursRead       = linkSetup{play.Ours, false, linkSkew}
	originalKernel = linkSetup{play.Original, true, linkSkew}
	oracleSees     = linkSetup{play.OracleName, true, linkSkew} // what oursKernel sees
)

const linkSkew = 60e-6

// linkSetups are all compared on the same datagrams.
var linkSetups = []linkSetup{
	oursKernel, oursRead, originalKernel, {play.Original, false, linkSkew},
	{play.Ours, true, 0}, {play.Ours, false, 0}, {play.Original, true, 0}, {play.Original, false, 0},
}

// linkClock returns what the clock of an end reads at usec after the start.
func linkClock(side sim.Side, usec uint64, skew float64) uint64 {
	if side == sim.A {
		return usec
	}
	const ahead = 1_234_567_890 // us
	return usec + ahead + uint64(float64(usec)*skew)
}

// answer asks an estimator at usec after the start and returns its error.
func (s linkSetup) answer(est sim.Estimator, side sim.Side, usec uint64) (err float64, ok bool) {
	local, truth := linkClock(side, usec, s.skew), linkClock(1-side, usec, s.skew)
	got, ok := est.RemoteTime(local, truth)
	return play.Circle(float64(int64(got-truth)), 26), ok
}

// linkEvent is what happens in a replay, us after the start.
type linkEvent struct {
	at uint64
	do func()
}

// replay gives two new estimators what those of the live run were given: the same stamps,
// the same receive times, and the reports in the same datagrams, in the same order.
func (s linkSetup) replay(trace [2][]linkRow, ask func(at time.Duration, side sim.Side, est sim.Estimator)) {
	ends := [2]sim.Estimator{play.MethodNamed(s.Method).Make(), play.MethodNamed(s.Method).Make()}
	var events []linkEvent
	last := uint64(0)
	for to, rows := range trace {
		for _, r := range rows {
			events = append(events, s.datagram(&ends, sim.Side(to), r)...)
			last = max(last, r.sent)
		}
	}
	for at := uint64(0); at < last; at += uint64(linkAsk / time.Microsecond) {
		events = append(events, linkEvent{at, func() {
			for side, est := range ends {
				ask(time.Duration(at)*time.Microsecond, sim.Side(side), est)
			}
		}})
	}
	slices.SortStableFunc(events, func(a, b linkEvent) int { return cmp.Compare(a.at, b.at) })
	for _, e := range events {
		e.do()
	}
}

// datagram returns what happens with a datagram that was sent to an end: the other end is
// asked for the report in it, and it is read.
func (s linkSetup) datagram(ends *[2]sim.Estimator, to sim.Side, r linkRow) (events []linkEvent) {
	from := 1 - to
	var report uint32
	var reported bool
	if r.reported {
		events = append(events, linkEvent{r.asked, func() {
			report, reported = ends[from].MinDelta(linkClock(from, r.asked, s.skew))
		}})
	}
	if r.owd < 0 {
		return events
	}
	read := r.sent + uint64(r.read)
	return append(events, linkEvent{read, func() {
		at := read
		if s.kernel {
			at = r.sent + uint64(r.owd)
		}
		local := linkClock(to, at, s.skew)
		ends[to].OnDatagram(sim.Stamp(linkClock(from, r.sent, s.skew)), local)
		if reported {
			ends[to].OnPeerMinDelta(report, local)
		}
	}})
}

// replayed returns the errors of a replay.
func (s linkSetup) replayed(trace [2][]linkRow) (errs []linkError) {
	s.replay(trace, func(at time.Duration, side sim.Side, est sim.Estimator) {
		if err, ok := s.answer(est, side, uint64(at/time.Microsecond)); ok {
			errs = append(errs, linkError{at, side, s, err})
		}
	})
	return errs
}

// sizes returns the sizes of errors, in order.
func sizes(errs []linkError) (abs []float64) {
	for _, e := range errs {
		abs = append(abs, math.Abs(e.err))
	}
	slices.Sort(abs)
	return abs
}

// clocks says how far apart the clocks are.
func (s linkSetup) clocks() string {
	if s.skew == 0 {
		return ", one clock"
	}
	return fmt.Sprintf(", %.0f ppm", s.skew*1e6)
}

// name says what the figures of a setup are of.
func (s linkSetup) name() string {
	times := ", after the read"
	if s.kernel {
		times = ", kernel"
	}
	return s.Method + times + s.clocks()
}

// replayLink prints the errors of a replay of every setup, and the worst of each second.
func replayLink(path string) error {
	trace, err := readTrace(path)
	if err != nil {
		return err
	}
	for _, s := range linkSetups {
		errs := s.replayed(trace)
		after := func(from time.Duration) []float64 {
			return sizes(slices.DeleteFunc(slices.Clone(errs), func(e linkError) bool { return e.at < from }))
		}
		fmt.Printf("%-40s", s.name())
		for _, from := range []time.Duration{5 * time.Second, 30 * time.Second} {
			abs := after(from)
			fmt.Printf("  from %v: %.0f / %.0f / %.0f us", from, stat.OrNaN(abs, 0.5), stat.OrNaN(abs, 0.99), stat.OrNaN(abs, 1))
		}
		fmt.Println()
	}
	return nil
}
