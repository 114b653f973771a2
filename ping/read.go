// SPDX-License-Identifier: BSD-3-Clause

package ping

import (
	"math"
	"time"
)

// line is all that readers need; it never changes once it is published.
type line struct {
	before, after segment
	from          uint64 // local time from which after counts

	best         sample // bounds the error
	trip, jitter int64  // see roundTrip
	skew         int64  // remote minus local rate, 2^-32; 0 while not known
	skewKnown    bool
	steps        uint64
	lastStep     int64
}

// segment is a stretch of the remote clock: from the local time at on it goes on from
// the reading remote with the skew, and takes in the correction slew.
type segment struct {
	at, remote uint64
	skew, slew int64
}

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

func (l *line) read(local uint64) uint64 {
	if int64(local-l.from) < 0 {
		return l.before.read(local)
	}
	return l.after.read(local)
}

// remote returns the remote clock according to s.
func (s *sample) remote(local uint64, skew int64) uint64 {
	return local + s.offset + uint64(scale(int64(local-s.at), skew))
}

// bound returns how far off remote can be: what the exchange left open, and for
// every second since then (or until then) the skew that may be and the skew that is
// assumed.
func (s *sample) bound(local uint64, skew int64) uint64 {
	age := min(magnitude(int64(local-s.at)), math.MaxInt64)
	return uint64(s.half) + uint64(scale(int64(age), maxSkew+int64(magnitude(skew))))
}

// admits reports whether s and the best exchange can both be true.
func (l *line) admits(s sample) bool {
	apart := magnitude(int64(l.best.remote(s.at, l.skew) - s.at - s.offset))
	return apart <= uint64(s.half)+l.best.bound(s.at, l.skew)
}

func (l *line) errorBound(local uint64) time.Duration {
	off := magnitude(int64(l.read(local) - l.best.remote(local, l.skew)))
	return duration(int64(min(off, math.MaxInt64/2) + min(l.best.bound(local, l.skew), math.MaxInt64/2)))
}

// RemoteTime returns the server's clock at the local time localUsec, both in
// microseconds. It advances with the local clock: readings of the present never go
// back except where Snapshot.Steps changes, and run at most 1/16 (and the skew) faster
// or slower than the local clock. The recent past reads as it did, back to the last
// but one correction. ok is false before the first exchange.
func (c *Clock) RemoteTime(localUsec uint64) (remoteUsec uint64, ok bool) {
	l := c.line.Load()
	if l == nil {
		return 0, false
	}
	return l.read(localUsec), true
}

// ErrorBound returns how far RemoteTime(localUsec) can be from the server's clock,
// whichever way is the slower one: half the round trip of the exchange that says
// most, plus 600 ppm (and the assumed skew) of the time since then, plus what is
// still to be corrected, plus 2 us for rounding. It holds as long as neither clock
// is set or stopped, their rates differ by at most 600 ppm, and the four timestamps
// are taken when they are said to be: one that is only read once per frame adds the
// length of a frame.
func (c *Clock) ErrorBound(localUsec uint64) (bound time.Duration, ok bool) {
	l := c.line.Load()
	if l == nil {
		return 0, false
	}
	return l.errorBound(localUsec), true
}

// MinimumOneWayDelay returns half of Snapshot.RoundTrip. Nobody can tell how unequal
// the two ways are: either of them may take up to twice as long.
func (c *Clock) MinimumOneWayDelay() (delay time.Duration, ok bool) {
	l := c.line.Load()
	if l == nil {
		return 0, false
	}
	return duration(l.trip / 2), true
}

// Skew returns by how many parts in a million the server's clock runs faster than
// the local one. ok is false while that is not known to about 25 ppm; RemoteTime
// takes it for zero until then.
func (c *Clock) Skew() (ppm float64, ok bool) {
	l := c.line.Load()
	if l == nil || !l.skewKnown {
		return 0, false
	}
	return inPPM(l.skew), true
}

// Snapshot is everything that is known at one local time, all from the same state.
type Snapshot struct {
	RemoteUsec uint64        // the server's clock
	OffsetUsec int64         // server's minus local clock, modulo 2^64
	ErrorBound time.Duration // see Clock.ErrorBound
	RoundTrip  time.Duration // shortest of the last 8 exchanges, without the server's hold
	Jitter     time.Duration // mean round trip of the last 8 exchanges less the shortest
	Age        time.Duration // since the exchange on which ErrorBound rests
	SkewPPM    float64       // see Clock.Skew; 0 while not known
	Steps      uint64        // how often the clock was set at once, ever: differs where readings may go back
	LastStep   time.Duration // size of the last such step, positive forward; 0 if it was the first setting
}

// Snapshot returns what is known at the local time localUsec. ok is false before the
// first exchange.
func (c *Clock) Snapshot(localUsec uint64) (s Snapshot, ok bool) {
	l := c.line.Load()
	if l == nil {
		return Snapshot{}, false
	}
	remote := l.read(localUsec)
	return Snapshot{
		RemoteUsec: remote,
		OffsetUsec: int64(remote - localUsec),
		ErrorBound: l.errorBound(localUsec),
		RoundTrip:  duration(l.trip),
		Age:        duration(int64(localUsec - l.best.at)),
		Jitter:     duration(l.jitter),
		SkewPPM:    inPPM(l.skew),
		Steps:      l.steps,
		LastStep:   duration(l.lastStep),
	}, true
}

// scale returns floor(d*rate/2^32) without overflow, for any d and |rate| < 2^31.
func scale(d, rate int64) int64 { return d>>32*rate + d&(1<<32-1)*rate>>32 }

// inPPM converts a rate.
func inPPM(rate int64) float64 { return float64(rate) * 1e6 / (1 << 32) }

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
