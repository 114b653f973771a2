// SPDX-License-Identifier: BSD-3-Clause

package timesync

// TS23 is a payload timestamp in three bytes: the receiver's clock in units of
// 8 us. It wraps every 67.1 s (2^26 us). Stamps mostly speak of the past, so the
// accepted interval is moved there by a quarter of the ring.
// (TimeSync: ToRemoteTime23, FromLocalTime23.)
const ts23Shift = 3 // 2^3 us a unit

// ToRemoteTime23 returns the peer's clock at the local time localUsec, for a payload. The peer
// reads it with FromLocalTime23. The result is rounded to the nearest unit of 8 us, which adds at
// most 4 us to the error of the offset. ok is false while the offset is not known. The result is as far
// off as ErrorBound here, which the peer cannot see, so send it only while Snapshot.Within is nil.
//
// For increasing local times the result never goes back except at a step, which
// increments Snapshot.Steps. It may be called from any goroutine.
func (s *TimeSynchronizer) ToRemoteTime23(localUsec uint64) (ts Counter23, ok bool) {
	remote, ok := s.RemoteTime(localUsec)
	return NewCounter23((remote + 1<<(ts23Shift-1)) >> ts23Shift), ok // 0 is 0 in units, too
}

// FromLocalTime23 returns the local time, in microseconds, that the peer meant with ts; localUsec
// is the local clock now. The result lies from 50.3 s in the past to 16.8 s in the future: from
// 6291456 units of 8 us before that of localUsec to 2097151 after it. A time outside that range is
// read wrong by a multiple of 67.1 s, and ts does not show that. The result is a multiple of 8 us,
// modulo 2^64.
//
// In package link, AcceptEvent also refuses times that cannot be true, and AppendTime23 and
// ReadTime23 put ok into the bit that ts leaves free.
func FromLocalTime23(localUsec uint64, ts Counter23) uint64 {
	return ts.Expand(localUsec>>ts23Shift-1<<21) << ts23Shift // a quarter of the ring, the original's choice
}
