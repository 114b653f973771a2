// SPDX-License-Identifier: BSD-3-Clause

package timesync

import "time"

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
// AppendEvent and ReadEvent put into the bit that ts leaves free whether the time may be relied on.
// In package link, AppendTime23 and ReadTime23 put ok there, and AcceptEvent refuses times that
// cannot be true.
func FromLocalTime23(localUsec uint64, ts Counter23) uint64 {
	// a quarter of the ring, the original's choice
	return ts.Expand(localUsec>>ts23Shift-1<<21) << ts23Shift
}

const (
	eventLen  = 3      // bytes of an event: a TS23, whose top bit says that there is a time
	eventFlag = 1 << 7 // the top bit of the last byte

	// The range of a TS23. A time beyond it would be read wrong by 67.1 s.
	eventBehind = 3 << 24   // us, 50.3 s before now
	eventAhead  = 1<<24 - 8 // us, 16.8 s after now
	// eventMargin is left at both ends of that range: the peer reads the event only after the
	// datagram's delay, and by a clock that is not known exactly.
	eventMargin = second / 2 // us
)

// AppendEvent appends 3 bytes that tell the peer's ReadEvent when something happened: the peer's
// clock at the local time happenedUsec. Both times are microseconds of the local clock; nowUsec is
// now. The bytes hold a time only if it may be relied on now: if Snapshot.Within(tolerable) is nil,
// no clock was set between the event and now, and the event is from 50 s ago to 16 s ahead. Else
// they are zeros. The top bit of the last byte says whether there is a time. It may be called from
// any goroutine. Package link's AppendEvent has another format, the sender's clock.
func (s *TimeSynchronizer) AppendEvent(
	dst []byte, nowUsec, happenedUsec uint64, tolerable time.Duration,
) []byte {
	snapshot, _ := s.Snapshot(nowUsec)
	age := int64(nowUsec - happenedUsec)
	fits := -(eventAhead-eventMargin) <= age && age <= eventBehind-eventMargin
	predatesStep := snapshot.StepSeen && age > snapshot.SinceStep.Microseconds()
	if snapshot.Within(tolerable) != nil || !fits || predatesStep {
		return append(dst, make([]byte, eventLen)...)
	}
	event, _ := s.ToRemoteTime23(happenedUsec)
	dst, _ = event.AppendBinary(dst) // which never fails
	dst[len(dst)-1] |= eventFlag
	return dst
}

// ReadEvent reads the first 3 bytes of b as the peer's AppendEvent appended them, in a datagram
// that was received at nowUsec. It returns the local time, in microseconds, at which that event
// happened. That is off by at most the tolerance that the peer gave AppendEvent, plus 4 us. ok is
// false if the peer was not sure of the time, if the event lies more than oldest before nowUsec or
// more than ahead after it, or if b is shorter. If the event is more than 50 s old when the
// datagram arrives, it is read wrong by 67.1 s, and oldest cannot tell.
func ReadEvent(b []byte, nowUsec uint64, oldest, ahead time.Duration) (atUsec uint64, ok bool) {
	if len(b) < eventLen || b[eventLen-1]&eventFlag == 0 {
		return 0, false
	}
	atUsec = FromLocalTime23(nowUsec, ReadCounter23(b))
	age := time.Duration(int64(nowUsec-atUsec)) * time.Microsecond
	return atUsec, -ahead <= age && age <= oldest
}
