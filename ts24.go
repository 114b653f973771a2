// SPDX-License-Identifier: BSD-3-Clause

package timesync

import "time"

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

// processStart is where NowUsec counts from.
var processStart = time.Now()

// NowUsec returns the microseconds since the process started, for callers that copy this folder
// alone. It never goes back, and changes of the wall clock do not affect it. On most systems it
// stands still while the machine sleeps.
//
// On Windows, where it advances by up to 15.6 ms at a time, and in browsers, where it advances by up to
// 1 ms, it makes the offset wrong by half of that: use package clock there. In a bubble of
// testing/synctest it is near 2^64, so no time.Duration can hold it: use package clock there, too.
func NowUsec() uint64 { return uint64(time.Since(processStart) / time.Microsecond) }

// UsecAt returns what NowUsec returned, or will return, at t, a result of time.Now in this
// process. If t has no monotonic reading, because it was parsed or rounded, the result contains all
// steps of the wall clock since the start.
func UsecAt(t time.Time) uint64 { return uint64(t.Sub(processStart).Microseconds()) }

// TimeAt is the inverse of UsecAt: the time at which NowUsec returned, or will return, usec. Its
// monotonic reading is exact; its time of day is what the wall clock said when the process started,
// and the time since then.
func TimeAt(usec uint64) time.Time {
	return processStart.Add(time.Duration(usec) * time.Microsecond)
}

// LocalTimeToDatagramTS24 returns the stamp for a datagram that is sent at localUsec, a
// reading of the local clock in microseconds. The stamp is localUsec in units of 8 us,
// rounded down, modulo 134.2 s.
func LocalTimeToDatagramTS24(localUsec uint64) Counter24 {
	return NewCounter24(localUsec >> ts24Shift)
}

// deltaOf returns the delta of a datagram on its ring. Bits above the ring are noise.
func deltaOf(stamp Counter24, recvUsec uint64) uint64 { return recvUsec - uint64(stamp)<<ts24Shift }

// The marks of reports: their remainders modulo 3.
const (
	extrapolatedMark = iota // the floor is where the line says
	confirmedMark           // a datagram was there
	legacyMark              // an original's, as every third of its reports
	marks                   // how many there are
)

// marked returns that of c and its neighbours that has the mark. Next to the ring's end, where marks
// do not alternate, it may have another one.
func (c Counter24) marked(mark Counter24) Counter24 {
	return NewCounter24(uint64(c + 1 - (c+1+marks-mark)%marks))
}
