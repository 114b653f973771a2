// SPDX-License-Identifier: BSD-3-Clause

package ping

import (
	"math"
	"time"

	"timesync"
)

// published is all that readers need; it never changes once they can see it.
type published struct {
	before, after segment // each from its time on

	best      sample // bounds the error
	skew      int64  // remote minus local rate, 2^-32; 0 while not known
	skewKnown bool
	heard     uint64 // local time of the last exchange
	disturbed uint64 // local time at which a clock was last noticed to have been set, or of the first exchange

	always timesync.Snapshot // but for what depends on the time
}

// segment is a stretch of the remote clock: from the local time at on it goes on from
// the reading remote with the skew, and takes in the correction slew.
type segment struct {
	at, remote uint64
	skew, slew int64
}

// read returns the remote clock at a local time.
func (g segment) read(local uint64) uint64 {
	d := int64(local - g.at)
	whole, rate := int64(0), g.skew
	switch length := magnitude(g.slew) << slewShift; {
	case d <= 0: // not begun
	case uint64(d) >= length:
		whole = g.slew
	case g.slew > 0:
		rate += 1 << (32 - slewShift)
	default:
		rate -= 1 << (32 - slewShift)
	}
	// One rounding of the sum of both rates: two could go back by 1 us.
	return g.remote + uint64(d+whole+scale(d, rate))
}

// read returns the remote clock at a local time.
func (p *published) read(local uint64) uint64 {
	if int64(local-p.after.at) < 0 {
		return p.before.read(local)
	}
	return p.after.read(local)
}

// admits reports whether s and the best exchange can both be true.
func (p *published) admits(s sample) bool {
	apart := magnitude(int64(p.best.remote(s.at, p.skew) - s.at - s.offset))
	return apart <= uint64(s.half)+p.best.bound(s.at, p.skew)
}

// errorBound returns how far read can be off.
func (p *published) errorBound(local uint64) time.Duration {
	off := magnitude(int64(p.read(local) - p.best.remote(local, p.skew)))
	return duration(int64(min(off, math.MaxInt64/2) + min(p.best.bound(local, p.skew), math.MaxInt64/2)))
}

// ask returns what answer says of what is known. ok is false before the first exchange.
func ask[T any](c *Clock, answer func(p *published) T) (is T, ok bool) {
	if p := c.known.Load(); p != nil {
		return answer(p), true
	}
	return is, false
}

// LocalTime returns the local time, in microseconds, at which RemoteTime reaches remoteUsec: the
// inverse, with the same promises. RemoteTime of the result is remoteUsec or 1 us more. ok is
// false before the first exchange.
func (c *Clock) LocalTime(remoteUsec uint64) (localUsec uint64, ok bool) {
	return ask(c, func(p *published) uint64 { return p.inverse(remoteUsec) })
}

// inverse returns the first local time at which read reaches remoteUsec. Readings run at nearly
// the local speed, so each round leaves a tenth of what is missing at most.
func (p *published) inverse(remoteUsec uint64) (localUsec uint64) {
	const rounds = 24
	localUsec = remoteUsec - p.after.remote + p.after.at
	for range rounds {
		missing := int64(remoteUsec - p.read(localUsec))
		if localUsec += uint64(missing); missing >= -1 && missing <= 1 {
			break
		}
	}
	localUsec -= 4
	for i := 0; i < 8 && int64(p.read(localUsec)-remoteUsec) < 0; i++ {
		localUsec++
	}
	return localUsec
}

// RemoteTime returns the server's clock at the local time localUsec, both in
// microseconds. It advances with the local clock: readings of the present never go
// back except where Snapshot.Steps changes, and run at most 1/16 (and the skew) faster
// or slower than the local clock. ok is false before the first exchange.
//
// A reading from 20 ms before the last reply to 20 ms after it is final: no later reply changes
// it, steps apart. An earlier time is answered by the present pace, extrapolated back: convert the
// time of an event at once, not some replies later.
func (c *Clock) RemoteTime(localUsec uint64) (remoteUsec uint64, ok bool) {
	return ask(c, func(p *published) uint64 { return p.read(localUsec) })
}

// ErrorBound returns how far RemoteTime(localUsec) can be from the server's clock: half
// the round trip of the exchange that says most, plus 600 ppm (and the assumed skew) of
// the time since then, plus what is still to be corrected, plus 2 us for rounding. ok
// is false before the first exchange.
//
// While no clock is set, the truth lies within ErrorBound of RemoteTime, however unequal
// the two ways are. After a clock was set it may lie outside until a request that was
// sent after that is answered and the answer contradicts what was known: the first one
// does, unless the step is smaller than the bounds. At the latest the truth is inside
// again when as many such requests have been answered as there are Samples: 64, which
// takes 16 s at the default interval. Replies that waited for the next one on the stream do not count.
//
// This holds as long as the rates of the clocks differ by at most 600 ppm and the four
// timestamps are taken when they are said to be: one that is only read once per frame
// adds the length of a frame.
func (c *Clock) ErrorBound(localUsec uint64) (bound time.Duration, ok bool) {
	return ask(c, func(p *published) time.Duration { return p.errorBound(localUsec) })
}

// MinimumOneWayDelay returns half of the shortest round trip of the last 8 exchanges,
// without the time that the server held them. Nobody can tell how unequal the two ways
// are: either of them may take up to twice as long. ok is false before the first
// exchange.
func (c *Clock) MinimumOneWayDelay() (delay time.Duration, ok bool) {
	return ask(c, func(p *published) time.Duration { return p.always.MinimumOneWayDelay })
}

// RoundTrips returns the 20th, 50th and 80th percentiles of the round trips in the window: those of
// the last exchanges that were used, up to Samples of them, since the start or since a clock was
// set; without the time that the server held them. Each is the smallest round trip that so many
// percent do not exceed. "Good indicators of network performance", says Matt Slot: a line whose
// 80th percentile is far above its 20th has queues. ok is false before the first exchange. It
// takes a lock.
func (c *Clock) RoundTrips() (p20, p50, p80 time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.window) == 0 {
		return 0, 0, 0, false
	}
	at := func(percent int) time.Duration {
		return percentile(c.window, percent, func(s sample) time.Duration { return duration(s.trip) })
	}
	return at(20), at(50), at(80), true
}

// MinimumDelayToPeer returns how long the fastest requests take, as far as anybody can tell: the
// same as MinimumOneWayDelay, half of the round trip.
func (c *Clock) MinimumDelayToPeer() (delay time.Duration, ok bool) { return c.MinimumOneWayDelay() }

// Skew returns the rate of the server's clock minus that of the local one, in parts per
// million, at most 600 either way. ok means that the fastest exchanges fit within about 25 ppm; until then
// RemoteTime takes it for zero. Where round trips vary by 20 ms, half of the first such answers are
// off by over 40 ppm.
func (c *Clock) Skew() (ppm float64, ok bool) {
	p := c.known.Load()
	if p == nil || !p.skewKnown {
		return 0, false
	}
	return p.always.Skew, true
}

// Snapshot returns what is known at the local time localUsec, all from the same state. The
// fields are those of the core, with these differences: MinimumOneWayDelay and MinimumDelayToPeer
// are half of the shortest round trip each, and Jitter by how much half of the mean one
// exceeds that, both of the last 8 exchanges; Undisturbed counts from the first exchange
// unless a clock was set; Age is the time since the last exchange that was believed; Skew is 0
// while it is not known; and SkewError is 600 ppm more than that, since jitter may be taken for
// skew. Steps counts Reset, too. ok is false before the first exchange.
func (c *Clock) Snapshot(localUsec uint64) (s timesync.Snapshot, ok bool) {
	return ask(c, func(p *published) timesync.Snapshot { return p.snapshot(localUsec) })
}

func (p *published) snapshot(localUsec uint64) timesync.Snapshot {
	s := p.always
	s.RemoteUsec = p.read(localUsec)
	s.OffsetUsec = int64(s.RemoteUsec - localUsec)
	s.ErrorBound = p.errorBound(localUsec)
	s.Age = max(duration(int64(localUsec-p.heard)), 0)
	s.Undisturbed = max(duration(int64(localUsec-p.disturbed)), 0)
	return s
}

// scale returns floor(d*rate/2^32) without overflow, for any d and |rate| < 2^31.
func scale(d, rate int64) int64 { return d>>32*rate + d&(1<<32-1)*rate>>32 }

// inPPM converts a rate.
func inPPM(rate int64) float64 { return float64(rate) * 1e6 / (1 << 32) }

// magnitude returns |v|, also of the least integer.
func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

// duration converts microseconds; what does not fit becomes the largest duration.
func duration(usec int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Microsecond)
	return time.Duration(min(max(usec, -most), most)) * time.Microsecond
}
