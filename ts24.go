// SPDX-License-Identifier: BSD-3-Clause

package timesync

import (
	"math/bits"
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
	ts24Shift = 3  // 2^3 us a unit
	ts24Bits  = 24 // ring width

	deltaBits  = ts24Bits + ts24Shift // ring of a delta in microseconds: 134.2 s
	offsetBits = deltaBits - 1        // ring of the offset: 67.1 s
)

// processStart is where NowUsec counts from.
var processStart = time.Now()

// NowUsec returns the microseconds since the process started, for callers that
// have no clock of their own. It never goes back, wall-clock changes do not move
// it, and on most systems it stands still while the machine sleeps.
func NowUsec() uint64 { return uint64(time.Since(processStart) / time.Microsecond) }

// LocalTimeToDatagramTS24 returns the stamp for a datagram that is sent at
// localUsec, a reading of the local clock in microseconds: localUsec in units of
// 8 us, rounded down, modulo 134.2 s.
func LocalTimeToDatagramTS24(localUsec uint64) Counter24 {
	return NewCounter24(localUsec >> ts24Shift)
}

// deltaOf returns the delta of a datagram on its ring. Bits above the ring are noise.
func deltaOf(stamp Counter24, recvUsec uint64) uint64 { return recvUsec - uint64(stamp)<<ts24Shift }

// parity returns 1 if the number of ones in c is odd, else 0.
func parity(c Counter24) Counter24 { return Counter24(bits.OnesCount32(uint32(c)) & 1) }
