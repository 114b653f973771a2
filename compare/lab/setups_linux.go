// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"time"

	"timesync/compare/play"
	"timesync/internal/sim"
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

// linkSkews are by how much B's clock may be fast.
var linkSkews = [...]float64{linkSkew, 0}

// linkSetups are all compared on the same datagrams.
var linkSetups = []linkSetup{
	oursKernel, oursRead, originalKernel, {play.Original, false, linkSkew},
	{play.Ours, true, 0}, {play.Ours, false, 0}, {play.Original, true, 0}, {play.Original, false, 0},
}

// name says what the figures of a setup are of.
func (s linkSetup) name() string {
	switch {
	case s == oracleSees:
		return s.Method
	case s.kernel:
		return s.Method + ", kernel"
	}
	return s.Method + ", after the read"
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
	return float64(int64(got - truth)), ok
}
