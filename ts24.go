// SPDX-License-Identifier: BSD-3-Clause

package timesync

import (
	"math"
	"time"
)

// TS24 is the stamp of a datagram: the sender's clock in units of 8 us. It wraps
// every 134.2 s (2^27 us), which leaves the 67.1 s on either side of now that the
// synchronizer needs. (TimeSync: LocalTimeToDatagramTS24.)
//
// A delta is the receive time of a datagram minus its stamp, in microseconds. It is
// known on the ring of the stamps. The offset is half the difference of two deltas:
// halving loses a bit.
const (
	ts24Shift = 3 // 2^3 us a unit

	deltaBits  = 24 + ts24Shift // ring of a delta in microseconds: 134.2 s
	offsetBits = deltaBits - 1  // ring of the offset: 67.1 s
)

// NowUsec shows clockOrigin when the process starts: 50 years, as clock.Now does, so that a
// program may mix both. Earlier times have readings, too: the bubbles of testing/synctest begin in
// 2000.
const clockOrigin = 50 * 365.25 * 24 * time.Hour

var processStart = time.Now()

// NowUsec returns a monotonic time in microseconds, for callers that copy this folder alone. It
// shows 50 years when the process starts, never goes back, and nobody can set it. On most systems
// it stands still while the machine sleeps. It may be called from any goroutine.
//
// It suffices on Linux, macOS and Android. On Windows it advances by up to 15.6 ms at a time, in
// browsers by up to 1 ms, and the offset is then wrong by half of that: use package clock there.
// Readings of package clock have the same origin, and on all systems but Windows they come from
// the same clock.
func NowUsec() uint64 { return UsecAt(time.Now()) }

// UsecAt returns what NowUsec returned, or will return, at t, a result of time.Now in this
// process. If t has no monotonic reading, because it was parsed or rounded, the result contains
// all steps of the wall clock since the process started. Times over 50 years before that are 0.
func UsecAt(t time.Time) uint64 {
	elapsed := min(t.Sub(processStart), math.MaxInt64-clockOrigin)
	return uint64(max(clockOrigin+elapsed, 0) / time.Microsecond)
}

// TimeAt is the inverse of UsecAt: the time at which NowUsec returned, or will return, usec. Its
// monotonic reading is exact to the microsecond. Its time of day is what the wall clock said when
// the process started, and the time since then. Readings of over 292 years count as 292 years.
func TimeAt(usec uint64) time.Time {
	const longest = uint64(math.MaxInt64 / time.Microsecond)
	return processStart.Add(time.Duration(min(usec, longest))*time.Microsecond - clockOrigin)
}

// LocalTimeToDatagramTS24 returns the stamp for a datagram that is sent at localUsec, a
// reading of the local clock in microseconds. The stamp is localUsec in units of 8 us,
// rounded down, modulo 134.2 s.
func LocalTimeToDatagramTS24(localUsec uint64) Counter24 {
	return NewCounter24(localUsec >> ts24Shift)
}

// deltaOf returns the delta of a datagram on its ring. Bits above the ring are noise.
func deltaOf(stamp Counter24, recvUsec uint64) uint64 { return recvUsec - uint64(stamp)<<ts24Shift }

// around returns how far above near a raw delta is, in microseconds. A raw delta is known only
// modulo 134.2 s, so the result is taken from -89.5 s up to 44.7 s. No queue is that long: what
// seems to be longer is a clock that was set, and the rest of the ring is left for that.
func around(raw uint64, near float64) float64 {
	const full = 1 << deltaBits
	d := float64(wrap(raw, deltaBits)) - near
	return d - full*math.Floor(d/full+2./3)
}

// nearest returns the number that is raw on the ring of offsets and nearest to near.
func nearest(raw, near uint64) uint64 { return ringExpand(near, raw, offsetBits) }

// Our reports never have the remainder originalMark modulo marks. One in three of an original's
// has it, which shows that the peer is an original.
const (
	originalMark = 2
	marks        = 3
)
