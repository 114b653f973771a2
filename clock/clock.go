// SPDX-License-Identifier: BSD-3-Clause

// Package clock is the clock to pass to packages timesync, link, tick and ping. It is monotonic,
// counts microseconds, and is as fine as the system allows.
//
//	datagram = connection.AppendHeader(nil, clock.Now())
//	payload, delay, ok, err := connection.ReadHeader(datagram, clock.Received())
//	remote, ok := connection.RemoteTime(clock.Now())
//
// Pass Received for the time at which a datagram arrived, and Now for everything else. All
// functions may be called from any goroutine.
//
// # Why two calls
//
// Some clocks advance in steps, so a reading can be too early by a step. A stamp that is too early
// makes a datagram look slow. That does no harm: the fastest datagrams count, which were sent just
// as the clock advanced. A time of receipt that is too early makes a datagram look faster than it
// was, and half of that becomes the error of the offset, 0.5 ms for a step of 1 ms. So Received
// rounds up by a step. The two ends may have different steps.
//
// # What it reads
//
// On Windows it reads QueryPerformanceCounter, because Go's monotonic clock advances there by up
// to 15.6 ms at a time. On all other systems it reads Go's monotonic clock, which is
// performance.now in a browser. Inside a bubble of testing/synctest it reads the bubble's time.
// docs/PRODUCTION.md has a table of these clocks, also of what they do in sleep.
//
// timesync.NowUsec has the same origin and, on all systems but Windows, the same clock. A program
// that mixes both is off by microseconds, on Windows by up to 15.6 ms.
//
// # A machine that slept
//
// SleepWatch says for how long the machine has slept since you last asked.
//
// # Testing with clocks that differ
//
// The clocks of two processes differ anyway, since each counts from its own start. To test with a
// larger difference, pass f(usec) instead of each reading usec of Now, of Received and of package
// rxtime. To let two processes of one machine share a clock, pass Time(usec).UnixMicro(), while
// nobody sets the wall clock.
package clock

import (
	"math"
	"time"
)

// origin is what the clock shows when the process starts, here and in timesync.NowUsec. At 50
// years, earlier times have readings, too: the bubbles of testing/synctest begin in the year 2000,
// before the process did. A reading fits a time.Duration (292 years) and an integer of JavaScript
// (285 years). Taken for Unix time it is in 2020, so a capture time that is sent in NTP's format
// does not wrap in 2036.
const origin = 50 * 365.25 * 24 * time.Hour

var (
	start = time.Now()
	step  = measure(elapsed)
)

// Now returns the time in microseconds since 50 years before the process started. Pass it for the
// time of sending, and for all other times but those of receipt. It is at most Step too early and
// never too late. It never goes back, across all goroutines.
func Now() uint64 { return reading(elapsed()) }

// Received returns the time for a datagram that has just arrived: the time of Now, rounded up by
// Step. It is at most Step and a microsecond too late, and never too early. It may be later than
// what Now returns after it. It never goes back.
func Received() uint64 { return received(elapsed(), step) }

// Step returns how far a reading may lag behind, as measured when the process started. It is the
// time by which the clock advances at once, or the time that a reading takes if that is longer.
// Some browsers advance the clock at a random moment within each step; there Step is two of them.
// A reading lags by half of Step on average.
func Step() time.Duration { return step }

// At converts t, a result of time.Now in this process, to a reading of Now. If t has no monotonic
// reading, because it was parsed or rounded, the result contains all steps of the wall clock since
// the process started. On Windows, t comes from a clock with steps of up to 15.6 ms. The result is
// not rounded up as that of Received is.
func At(t time.Time) (usec uint64) { return reading(age(t)) }

// Time returns the time.Time at which Now returns usec: the inverse of At, to the microsecond.
func Time(usec uint64) time.Time {
	return timeOf(
		time.Duration(min(usec, math.MaxInt64/uint64(time.Microsecond)))*time.Microsecond - origin,
	)
}

// reading returns what the clock shows when the process has run for elapsed.
func reading(elapsed time.Duration) (usec uint64) {
	elapsed = min(elapsed, math.MaxInt64-origin) // to the reading that is furthest in the future
	return uint64(max(origin+elapsed, 0)) / uint64(time.Microsecond)
}

// received returns that plus the step, rounded up.
func received(elapsed, step time.Duration) (usec uint64) {
	return reading(elapsed + step + time.Microsecond - 1)
}

// advance is one advance of a clock that is read in a loop.
type advance struct {
	by    time.Duration
	count int // readings since the advance before
}

// measure returns how far readings of the clock may lag behind. It reads until it has seen enough
// advances, or until 0.1 s have passed.
func measure(read func() time.Duration) (step time.Duration) {
	const (
		enough = 32 // advances tell whether a clock is jittered: with steps of 1 ms they take 32 ms
		most   = 100 * time.Millisecond
		stands = 1e7 // readings, a second or less: this clock does not advance
	)
	var advances []advance
	first := read()
	last := first
	count := 0
	for range int(stands) {
		long := last-first >= most && len(advances) >= 2
		if len(advances) >= enough || long {
			break
		}
		now := read()
		count++
		if now > last {
			advances = append(advances, advance{now - last, count})
			last = now
			count = 0
		}
	}
	return lag(advances)
}

// lag returns how far readings may lag behind on a clock that advanced like this.
//
// Chromium, and Firefox where its step is 1 ms, jitter their clock: it advances at a random moment
// within each step, so readings are up to a step too late as well as too early. A constant in all
// readings does no harm, so such a clock counts as one whose readings are up to two steps too
// early. Its readings are still multiples of the step. Only the number of readings between two
// advances shows the jitter.
func lag(advances []advance) (largest time.Duration) {
	const (
		fewest = 8 // pairs of advances: with fewer, chance decides
		few    = 8 // readings between two advances: with fewer, chance makes a third more or less
	)
	least := time.Duration(math.MaxInt64)
	for _, a := range advances {
		least = min(least, a.by)
	}
	// When the clock advances by more, the machine did something else meanwhile.
	usual := func(a advance) bool { return a.by < least*3/2 }
	pairs, unlike := 0, 0
	for i, b := range advances {
		if !usual(b) {
			continue
		}
		largest = max(largest, b.by)        // readings may be rounded: in browsers to 256 ns
		if i < 2 || !usual(advances[i-1]) { // reading began somewhere within the first one
			continue
		}
		pairs++
		a := advances[i-1]
		less := min(a.count, b.count)
		more := max(a.count, b.count)
		if more > few && 4*less < 3*more {
			unlike++
		}
	}
	// On a jittered clock three of five pairs are unlike.
	if pairs >= fewest && 5*unlike > 2*pairs {
		return 2 * largest
	}
	return largest
}
