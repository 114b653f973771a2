// SPDX-License-Identifier: BSD-3-Clause

// Package clock is the clock to pass to packages timesync, link, tick and ping: a monotonic clock
// in microseconds, on every system as fine as that system has one.
//
//	datagram = connection.AppendHeader(nil, clock.Now())
//	payload, delay, ok, err := connection.ReadHeader(datagram, clock.Received())
//	remote, ok := connection.RemoteTime(clock.Now())
//
// Pass Received for the time at which a datagram arrived, and Now for everything else.
//
// # Why two calls
//
// A reading of a clock that advances in steps is too early, by up to a step. A stamp that is too
// early makes a datagram look slow, and slow datagrams do no harm: the fastest ones count, which
// were sent just as the clock advanced. A time of receipt that is too early makes a datagram look
// faster than it was, and half of that would be the error of the offset: 0.5 ms for a step of 1 ms.
// Received is therefore rounded up: it is too late by up to a step, and the fastest datagrams
// are again right. The step may be any; both ends need not have the same.
//
// # What it reads
//
// Windows: QueryPerformanceCounter, since Go's monotonic clock advances there by up to 15.6 ms at
// a time. All other systems: Go's monotonic clock, which in a browser is performance.now. Inside a
// bubble of testing/synctest it is the time of the bubble. docs/PRODUCTION.md has a table of
// what these clocks do, also in sleep.
//
// All functions may be called from any goroutine.
//
// timesync.NowUsec has the same origin and, on all systems but Windows, the same clock. A program
// that mixes both is off by microseconds, on Windows by up to 15.6 ms.
//
// # A machine that slept
//
// SleepWatch says for how long the machine slept since it was last asked.
//
// # Clocks that are apart
//
// The clocks of two processes differ anyway, since each counts from its own start. To test with more,
// pass f(usec) instead of each reading: of Now, of Received, and of the times of receipt of package rxtime
// (Example_apart in example_test.go). The truth that two processes of one machine can compare is
// Time(usec).UnixMicro() of a reading before f, while nobody sets the wall clock.
package clock

import (
	"math"
	"time"
)

// origin is what the clock shows when the process starts: 50 years, as timesync.NowUsec does.
// Earlier times have readings, too: the bubbles of testing/synctest begin in the year 2000, before
// the process did. A reading fits a time.Duration (292 years) and an integer of JavaScript (285
// years). Taken for Unix time it is a time in 2020, so capture times that are sent as NTP's do not
// wrap, as NTP's own do in 2036.
const origin = 50 * 365.25 * 24 * time.Hour

var (
	start = time.Now()
	step  = measure(elapsed)
)

// Now returns the time in microseconds since 50 years before the process started. Pass it for the
// time of sending and for all other times but those of receipt. The reading is at most Step too
// early and never too late. Of two calls the later one never returns less, from whatever goroutines.
func Now() uint64 { return reading(elapsed()) }

// Received returns the time for a datagram that has just been received, on the clock of Now: now,
// rounded up by Step. So it is at most Step too late, plus a microsecond, and never too early. It
// may be later than what Now returns after it. Of two calls the later one never returns less.
func Received() uint64 { return received(elapsed(), step) }

// Step returns by how much a reading may lag behind, as measured when the process started: the time
// by which the clock advances at once, or how long it takes to read, if that is longer. Some
// browsers let it advance at a random time within each such time, so that nobody can see when it
// does; there it is two of them. On average a reading lags behind by half of Step.
func Step() time.Duration { return step }

// At returns what Now returned, or will return, at t, a result of time.Now in this process. If t
// has no monotonic reading, because it was parsed or rounded, the result contains all steps of the
// wall clock since the process started. On Windows t is of a clock with steps of up to 15.6 ms, and
// so is the result. As a time of receipt it is not rounded up, as Received is: call that yourself.
func At(t time.Time) (usec uint64) { return reading(age(t)) }

// Time returns the time.Time at which Now returns usec: the inverse of At, to the microsecond.
func Time(usec uint64) time.Time {
	return timeOf(time.Duration(min(usec, math.MaxInt64/uint64(time.Microsecond)))*time.Microsecond - origin)
}

// reading returns what the clock shows when the process is that old.
func reading(elapsed time.Duration) (usec uint64) {
	elapsed = min(elapsed, math.MaxInt64-origin) // to the reading that is furthest in the future
	return uint64(max(origin+elapsed, 0)) / uint64(time.Microsecond)
}

// received returns that plus the step, rounded up.
func received(elapsed, step time.Duration) (usec uint64) {
	return reading(elapsed + step + time.Microsecond - 1)
}

// advance is one of a clock.
type advance struct {
	by    time.Duration
	count int // of readings since the one before
}

// measure returns by how much readings of that clock may lag behind. It reads the clock until it has
// seen enough advances, or until 0.1 s have passed.
func measure(read func() time.Duration) (step time.Duration) {
	const (
		enough = 32 // advances tell whether a clock is jittered: with steps of 1 ms they take 32 ms
		most   = 100 * time.Millisecond
		stands = 1e7 // readings, a second or less: this clock does not advance
	)
	var advances []advance
	first := read()
	last, count := first, 0
	for all := 0; all < stands && len(advances) < enough && (len(advances) < 2 || last-first < most); all++ {
		now := read()
		if count++; now > last {
			advances = append(advances, advance{now - last, count})
			last, count = now, 0
		}
	}
	return lag(advances)
}

// lag returns by how much readings may lag behind of a clock that advanced so.
//
// Chromium, and Firefox where its step is 1 ms, jitter their clock: within each step it advances
// at a random time, so readings are up to a step too late as well as too early. A constant in all
// readings does no harm, so that is a clock whose readings are up to two steps too early. As they
// are multiples of the step all the same, only the number of readings between two advances tells.
func lag(advances []advance) (largest time.Duration) {
	const (
		fewest = 8 // pairs of advances
		few    = 8 // readings between two advances, where chance makes a third more or less
	)
	least := time.Duration(math.MaxInt64)
	for _, a := range advances {
		least = min(least, a.by)
	}
	// If the clock advances by more, the machine did something else meanwhile.
	usual := func(a advance) bool { return a.by < least*3/2 }
	pairs, unlike := 0, 0
	for i, b := range advances {
		if !usual(b) {
			continue
		}
		largest = max(largest, b.by)        // what is shown may be rounded: in browsers to 256 ns
		if i < 2 || !usual(advances[i-1]) { // reading began anywhere within the first one
			continue
		}
		pairs++
		a := advances[i-1]
		if less, more := min(a.count, b.count), max(a.count, b.count); more > few && 4*less < 3*more {
			unlike++
		}
	}
	// Of a jittered clock three of five are unlike.
	if pairs >= fewest && 5*unlike > 2*pairs {
		return 2 * largest
	}
	return largest
}
