// SPDX-License-Identifier: BSD-3-Clause

package timesync

// TS23 is a payload timestamp in three bytes: the receiver's clock in units of
// 8 us. It wraps every 67.1 s (2^26 us). Stamps mostly speak of the past, so the
// accepted interval is moved there by a quarter of the ring.
// (TimeSync: ToRemoteTime23, FromLocalTime23.)
const ts23Shift = 3 // 2^3 us a unit

// FromLocalTime23 reads what ToRemoteTime23 of a TimeSynchronizer wrote. It returns the local
// time, in microseconds, that the peer meant with ts; localUsec is the local clock now. The result
// lies from 50.3 s in the past to 16.8 s in the future: from 6291456 units of 8 us before that of
// localUsec to 2097151 after it. A time outside that range is read wrong by a multiple of 67.1 s,
// and ts does not show that. The result is a multiple of 8 us, modulo 2^64.
//
// In package link, AcceptEvent also refuses times that cannot be true, and AppendTime23 and
// ReadTime23 put ok into the bit that ts leaves free.
func FromLocalTime23(localUsec uint64, ts Counter23) uint64 {
	return ts.Expand(localUsec>>ts23Shift-1<<21) << ts23Shift // a quarter of the ring, the original's choice
}
