// SPDX-License-Identifier: BSD-3-Clause

package ping

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// What the fields of a PlainClock mean when they are zero.
const (
	// Slot: "the last 32 or 64 pings".
	DefaultSamples = 64
	// Unity's HardResetThreshold. Netfox waits for 8 s.
	DefaultRecalibrateThreshold = 200 * time.Millisecond
)

// PlainClock is a clock as other systems have it: one exchange at a time sets it. A Rule says
// which. Take a Clock instead, unless you want the behavior of such a system: a PlainClock knows no
// rates, no error bound and no clock steps, it may go back, and it is several times as far off. See
// "Sources" in the documentation of the package for the settings of each system.
//
// Pass it the exchanges of a Clock, after each reply that was used:
//
//	if clock.HandleReply(reply, now) <= ping.ManyServers {
//		x, _ := clock.Exchange()
//		plain.OnExchange(x)
//	}
//
// The zero value is ready to use. One goroutine at a time may call its methods.
type PlainClock struct {
	// Rule chooses the exchange; nil means MinDelay.
	Rule Rule
	// Samples is how many exchanges the rule gets to see; 0 means DefaultSamples.
	Samples int
	// AdjustSteps is the fraction of the error, one in AdjustSteps, that each choice takes away; 0
	// and 1 take all. While there are fewer samples than steps, the number of samples counts, so
	// that a new clock settles quickly.
	AdjustSteps int
	// RecalibrateThreshold is the error above which all is taken away at once; 0 means
	// DefaultRecalibrateThreshold.
	RecalibrateThreshold time.Duration

	window []Exchange // oldest first
	view   []Sample   // the window as the rule sees it
	offset uint64
}

// OnExchange takes an exchange, and sets the clock by the one that the rule chooses. What cannot be
// the times of an exchange is ignored, and so is one that took more than 10 s.
func (p *PlainClock) OnExchange(x Exchange) {
	if x.verdict() != Accepted {
		return
	}
	samples := cmp.Or(max(p.Samples, 0), DefaultSamples)
	p.window = append(p.window[max(0, len(p.window)+1-samples):], x)
	if len(p.view) == 0 {
		p.offset = x.Offset()
	}
	p.view = p.view[:0]
	for _, w := range p.window {
		middle := w.T1 + (w.T4-w.T1)/2
		p.view = append(p.view, Sample{
			RoundTrip: max(w.RoundTrip(), 0),
			Age:       duration(int64(x.T4 - middle)),
			Error:     duration(int64(w.Offset() - p.offset)),
		})
	}
	rule := p.Rule
	if rule == nil {
		rule = MinDelay
	}
	if i := rule(p.view); i >= 0 && i < len(p.window) {
		p.correct(int64(p.window[i].Offset() - p.offset))
	}
}

// correct takes away an error of so many microseconds, or a part of it.
func (p *PlainClock) correct(usec int64) {
	threshold := cmp.Or(max(p.RecalibrateThreshold, 0), DefaultRecalibrateThreshold)
	if duration(usec).Abs() <= threshold {
		parts := int64(min(max(p.AdjustSteps, 1), len(p.window)))
		// Rounded away from zero, or the last few microseconds would stay for ever.
		usec = (usec + int64(cmp.Compare(usec, 0))*(parts-1)) / parts
	}
	p.offset += uint64(usec)
}

// RemoteTime returns the server's clock, in microseconds, at the local time localUsec. ok is false
// before the first exchange.
func (p *PlainClock) RemoteTime(localUsec uint64) (remoteUsec uint64, ok bool) {
	if len(p.window) == 0 {
		return 0, false
	}
	return localUsec + p.offset, true
}

// Sample is one exchange as a Rule sees it. All times are in whole microseconds.
type Sample struct {
	// RoundTrip is the time under way there and back, without the time the server held the request;
	// never negative.
	RoundTrip time.Duration
	// Age is how long ago the exchange was, counted from its middle.
	Age time.Duration
	// Error is what the exchange says about the clock: how far that is behind (positive) or ahead
	// (negative).
	Error time.Duration
}

// A Rule decides after each exchange by which one the clock is set. It is given the latest
// exchanges, oldest first, at least one, and returns the index of its choice, or -1 to leave the
// clock alone. It must keep nothing of the slice.
type Rule func(window []Sample) int

// Latest sets the clock by every exchange: half of the round trip is added to the server's time.
// (Josh Sutphin, "Accurately syncing Unreal's network clock", who asks once and never again.) Its
// error is half the difference between the two ways of that very exchange, so on a path with jitter
// it is the worst rule.
func Latest(window []Sample) int { return len(window) - 1 }

const (
	// filterDepth is how many exchanges are enough to judge a path by: the 8 stages of NTP's clock
	// filter (RFC 5905, section 10; NSTAGE).
	filterDepth = 8
	// filterAge lets MinDelay look farther back when exchanges are frequent. Longer is more
	// accurate on a path with jitter (8 % from 5 to 10 s), but a way that became slower
	// goes unnoticed for as long.
	filterAge = 5 * time.Second
	// agePPM is what an exchange loses by growing old (RFC 5905: PHI, "15e-6 s/s"):
	// the wander of the clocks.
	agePPM = 15
)

// MinDelay sets the clock by the exchange with the shortest round trip, among the last 8 and all
// of the last 5 s. The shorter the round trip, the less the error can be. An exchange counts as
// longer by 15 ppm of its age. (RFC 5905, the clock filter of NTP.)
func MinDelay(window []Sample) int {
	best := -1
	bestCost := time.Duration(0)
	for i, s := range window {
		if s.Age > filterAge && i < len(window)-filterDepth {
			continue
		}
		// The error is at most half the round trip, so age counts double here.
		cost := s.RoundTrip + 2*s.Age*agePPM/1e6
		if best < 0 || cost < bestCost {
			best = i
			bestCost = cost
		}
	}
	return best
}

const (
	// Slot's tolerances: below them the clock is not touched, so that it does not jitter. He widens
	// them "over time"; here, while the window fills.
	slotToleranceMin = 3 * time.Millisecond
	slotToleranceMax = 7 * time.Millisecond
	slotSamples      = 64 // the larger of his two windows
)

// SlotPercentile sets the clock by the newest exchange if its round trip is at or under the 20th
// percentile of the window and the clock is off by more than a tolerance, which grows from 3 ms
// after the first exchange to 7 ms after 64. (Matt Slot, "Synchronizing Network Clocks", steps 6 to
// 9; use 32 or 64 Samples.)
//
// When a path becomes slower for good, no exchange passes until four fifths of the window have been
// replaced: 260 s with his 64 exchanges 5 s apart. Percentile is the same rule without that fault.
func SlotPercentile(window []Sample) int { return acceptUnder(window, percentile20(window)) }

// Percentile is SlotPercentile, except that a window of which none of the last 8 exchanges passes
// is judged by these 8 alone: the path has become slower, and waiting does not bring the old one
// back. As only a fifth of the exchanges sets the clock, AdjustSteps should be 1.
func Percentile(window []Sample) int {
	level := percentile20(window)
	recent := window[max(0, len(window)-filterDepth):]
	if !slices.ContainsFunc(recent, func(s Sample) bool { return s.RoundTrip <= level }) {
		level = percentile20(recent)
	}
	return acceptUnder(window, level)
}

// Netfox sets the clock by the exchange that is nearest to netfox's weighted mean of the window.
// The weight is the logarithm of 1 plus the round trip in seconds, so the slowest exchanges count
// most. (netfox, NetworkTimeSynchronizer, which takes the mean itself; use 8 Samples, 8 AdjustSteps
// and a RecalibrateThreshold of 8 s.)
func Netfox(window []Sample) int {
	sum := 0.0
	weights := 0.0
	for _, s := range window {
		weight := math.Log1p(max(s.RoundTrip, time.Microsecond).Seconds()) // 0 for all has no mean
		sum += weight * s.Error.Seconds()
		weights += weight
	}
	mean := sum / weights
	best := 0
	for i, s := range window {
		if math.Abs(s.Error.Seconds()-mean) < math.Abs(window[best].Error.Seconds()-mean) {
			best = i
		}
	}
	return best
}

// acceptUnder returns the newest exchange if it was quick enough and the clock needs it.
func acceptUnder(window []Sample, level time.Duration) int {
	n := min(len(window), slotSamples)
	tolerance := slotToleranceMin
	tolerance += (slotToleranceMax - slotToleranceMin) * time.Duration(n-1) / (slotSamples - 1)
	newest := window[len(window)-1]
	if newest.RoundTrip <= level && newest.Error.Abs() > tolerance {
		return len(window) - 1
	}
	return -1
}

// percentile20 returns the smallest round trip that a fifth of the window does not exceed.
func percentile20(window []Sample) time.Duration {
	trips := make([]time.Duration, len(window)) // a copy: the window stays in order
	for i, s := range window {
		trips[i] = s.RoundTrip
	}
	slices.Sort(trips)
	return percentile(trips, 20)
}
