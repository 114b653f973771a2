// SPDX-License-Identifier: BSD-3-Clause

package ping

import (
	"slices"
	"time"

	"timesync"
)

// RemoteTime returns the server's clock, in microseconds, at the local time localUsec. For
// increasing local times it never goes back except at a step, which increments
// Snapshot.Steps. A reading from 20 ms before the last reply to 20 ms after it is final. ok
// is false before the first exchange.
//
// Everything else that timesync.TimeSynchronizer promises of its RemoteTime holds, too.
func (c *Clock) RemoteTime(localUsec uint64) (remoteUsec uint64, ok bool) {
	e := c.known.Load()
	if e == nil {
		return 0, false
	}
	return e.here.RemoteTime(localUsec)
}

// LocalTime returns the local time, in microseconds, at which RemoteTime reaches remoteUsec: the
// inverse, with the same promises. RemoteTime of the result is remoteUsec or 1 us more. ok is false
// before the first exchange.
func (c *Clock) LocalTime(remoteUsec uint64) (localUsec uint64, ok bool) {
	e := c.known.Load()
	if e == nil {
		return 0, false
	}
	return e.here.LocalTime(remoteUsec)
}

// ErrorBound returns how far RemoteTime may be off at localUsec, however unequal the two ways are,
// while no clock is set and their rates differ by at most 500 ppm. It is at least half the round
// trip. ok is false before the first exchange.
func (c *Clock) ErrorBound(localUsec uint64) (bound time.Duration, ok bool) {
	e := c.known.Load()
	if e == nil {
		return 0, false
	}
	return e.here.ErrorBound(localUsec)
}

// MinimumOneWayDelay returns the shortest time that a reply was recently under way, never negative;
// at first half the round trip. ok is false before the first exchange.
func (c *Clock) MinimumOneWayDelay() (delay time.Duration, ok bool) {
	e := c.known.Load()
	if e == nil {
		return 0, false
	}
	return e.here.MinimumOneWayDelay()
}

// MinimumDelayToPeer returns the shortest time that a request was recently under way, never
// negative; at first half the round trip. ok is false before the first exchange.
func (c *Clock) MinimumDelayToPeer() (delay time.Duration, ok bool) {
	e := c.known.Load()
	if e == nil {
		return 0, false
	}
	return e.here.MinimumDelayToPeer()
}

// Skew returns the rate of the server's clock minus that of the local one, in parts per
// million, at most 1000 either way. ok is false while it is not known to 25 ppm. RemoteTime
// runs at the best guess until then.
func (c *Clock) Skew() (ppm float64, ok bool) {
	e := c.known.Load()
	if e == nil {
		return 0, false
	}
	return e.here.Skew()
}

// Snapshot returns what is known at localUsec, all from the same state. Its fields mean what they
// mean in package timesync, but for two. Age counts from when the next reply was due, so Within
// returns ErrSilent 15 s after that. StepSeen also says that an exchange contradicted what was
// known before. ok is false before the first exchange.
func (c *Clock) Snapshot(localUsec uint64) (s timesync.Snapshot, ok bool) {
	e := c.known.Load()
	if e == nil {
		return s, false
	}
	return e.snapshot(localUsec, c.interval())
}

// Exchange returns the last exchange that was used, for methods of your own, as those of a
// PlainClock. ok is false before the first one. It takes a lock.
func (c *Clock) Exchange() (x Exchange, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recent) == 0 {
		return x, false
	}
	return c.recent[len(c.recent)-1], true
}

// RoundTrips returns the 20th, 50th and 80th percentiles of the round trips of the last 64
// exchanges, or of those since the start or since an exchange contradicted what was known. Each is
// the smallest round trip that so many percent do not exceed. "Good indicators of network
// performance", says Matt Slot: a path whose 80th percentile is far above its 20th has queues. ok
// is false before the first exchange. It takes a lock.
func (c *Clock) RoundTrips() (p20, p50, p80 time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recent) == 0 {
		return 0, 0, 0, false
	}
	trips := make([]time.Duration, len(c.recent))
	for i, x := range c.recent {
		trips[i] = max(x.RoundTrip(), 0)
	}
	slices.Sort(trips)
	return percentile(trips, 20), percentile(trips, 50), percentile(trips, 80), true
}

// percentile returns the smallest of sorted values that so many percent do not exceed.
func percentile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1]
}
