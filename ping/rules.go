// SPDX-License-Identifier: BSD-3-Clause

package ping

import (
	"slices"
	"time"
)

// Sample is one exchange as a Rule sees it. All times are in whole microseconds.
type Sample struct {
	// RoundTrip is the time under way there and back, without the time the server
	// held the request; never negative.
	RoundTrip time.Duration
	// Age is how long ago the exchange was, counted from its middle.
	Age time.Duration
	// Error is what the exchange says about the clock: how far its reading now is
	// behind (positive) or ahead (negative). The skew since the exchange is
	// accounted for.
	Error time.Duration
}

// A Rule decides after each accepted reply which exchange the clock is set by. It
// is given the latest exchanges, oldest first, at least one, and returns the index
// of its choice, or -1 to leave the clock alone. It must keep nothing of the slice.
type Rule func(window []Sample) int

// Latest sets the clock by every exchange: half of the round trip is added to the
// server's time. (Josh Sutphin, "Accurately syncing Unreal's network clock", who
// asks once and never again.) Its error is half the difference between the two
// ways of that very exchange, so on a line with jitter it is the worst rule.
func Latest(window []Sample) int { return len(window) - 1 }

const (
	// filterDepth is how many exchanges are enough to judge a line by: the 8
	// stages of NTP's clock filter (RFC 5905, section 10; NSTAGE).
	filterDepth = 8
	// filterAge lets MinDelay, and a Clock without a Rule, look farther back when exchanges are
	// frequent. Longer is more accurate on a jittery line (8 % from 5 to 10 s), but a way that became
	// slower goes unnoticed for as long.
	filterAge = 5 * time.Second
	// agePPM is what an exchange loses by growing old (RFC 5905: PHI, "15e-6 s/s"):
	// the error of the skew estimate and the wander of the clocks.
	agePPM = 15
)

// MinDelay sets the clock by the exchange with the shortest round trip, among the
// last 8 and all of the last 5 s, because whatever delay is missing from it cannot
// have gone into the error. Older exchanges are carried forward by the measured
// skew, and lose 15 ppm of their age against newer ones. (RFC 5905, the clock filter
// of NTP.) Without a Rule the clock is about half as far off.
func MinDelay(window []Sample) int {
	best, bestCost := -1, time.Duration(0)
	for i, s := range window {
		if !ofLate(s.Age, len(window)-i) {
			continue
		}
		// The error is at most half the round trip, so age counts double here.
		if cost := s.RoundTrip + 2*s.Age*agePPM/1e6; best < 0 || cost < bestCost {
			best, bestCost = i, cost
		}
	}
	return best
}

// ofLate reports whether an exchange of that age counts, the nth from the end.
func ofLate(age time.Duration, n int) bool { return age <= filterAge || n <= filterDepth }

const (
	// Slot's tolerances: below them the clock is not touched, so that it does not
	// jitter. He widens them "over time"; here, while the window fills.
	slotToleranceMin = 3 * time.Millisecond
	slotToleranceMax = 7 * time.Millisecond
	slotSamples      = 64 // the larger of his two windows
)

// SlotPercentile sets the clock by the newest exchange if its round trip is at or
// under the 20th percentile of the window and the clock is off by more than a
// tolerance, which grows from 3 ms after the first exchange to 7 ms after 64.
// (Matt Slot, "Synchronizing Network Clocks", steps 6 to 9; use 32 or 64 Samples.)
//
// When a line becomes slower for good, no exchange passes until four fifths of the
// window have been replaced: 260 s with his 64 exchanges 5 s apart. Percentile is
// the same rule without that fault.
func SlotPercentile(window []Sample) int { return acceptUnder(window, percentile20(window)) }

// Percentile is SlotPercentile, except that a window of which none of the last 8
// exchanges passes is judged by these 8 alone: the line has become slower, and
// waiting does not bring the old one back. As only a fifth of the exchanges sets the
// clock, AdjustSteps should be 1: at 8 and one exchange a second, the clock takes 40 s
// for two thirds of the way.
func Percentile(window []Sample) int {
	level := percentile20(window)
	recent := window[max(0, len(window)-filterDepth):]
	if !slices.ContainsFunc(recent, func(s Sample) bool { return s.RoundTrip <= level }) {
		level = percentile20(recent)
	}
	return acceptUnder(window, level)
}

// acceptUnder returns the newest exchange if it was quick enough and the clock
// needs it.
func acceptUnder(window []Sample, level time.Duration) int {
	n := min(len(window), slotSamples)
	tolerance := slotToleranceMin + (slotToleranceMax-slotToleranceMin)*time.Duration(n-1)/(slotSamples-1)
	newest := window[len(window)-1]
	if newest.RoundTrip <= level && (newest.Error > tolerance || newest.Error < -tolerance) {
		return len(window) - 1
	}
	return -1
}

// percentile20 returns the smallest round trip that a fifth of the window does not
// exceed.
func percentile20(window []Sample) time.Duration {
	return percentile(window, 20, func(s Sample) time.Duration { return s.RoundTrip })
}

// percentile returns the smallest round trip that so many percent of the window do not exceed.
func percentile[S any](window []S, percent int, trip func(S) time.Duration) time.Duration {
	trips := make([]time.Duration, len(window)) // a copy: the window stays in order
	for i, s := range window {
		trips[i] = trip(s)
	}
	slices.Sort(trips)
	return trips[(len(trips)*percent+99)/100-1]
}
