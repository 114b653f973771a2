// SPDX-License-Identifier: BSD-3-Clause

package timesync

// TS16 is a payload timestamp in two bytes: the receiver's clock in units of
// 512 us. It wraps every 33.6 s (2^25 us). Stamps mostly speak of the past, so the
// accepted interval is moved there by a quarter of the ring. (TimeSync:
// ToRemoteTime16, FromLocalTime16.)
const ts16Shift = 9 // 2^9 us a unit

// FromLocalTime16 reads what ToRemoteTime16 of a TimeSynchronizer wrote. It returns the local
// time, in microseconds, that the peer meant with ts; localUsec is the local clock now. The result
// lies from 25.2 s in the past to 8.4 s in the future: from 49152 units of 512 us before that of
// localUsec to 16383 after it. A time outside that range is read wrong by a multiple of 33.6 s,
// and ts does not show that. The result is a multiple of 512 us, modulo 2^64.
func FromLocalTime16(localUsec uint64, ts Counter16) uint64 {
	// a quarter of the ring, the original's choice
	return ts.Expand(localUsec>>ts16Shift-1<<14) << ts16Shift
}
