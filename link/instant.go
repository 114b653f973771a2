// SPDX-License-Identifier: BSD-3-Clause

package link

import (
	"time"

	"timesync"
)

// MaxAhead is how far ahead an instant may be. A timestamp of 3 bytes reaches 16.8 s
// ahead; one that is further would be read as past.
const MaxAhead = 16 * time.Second

// ProposeInstant returns the local time atUsec by the peer's clock, for a payload, so that both
// ends can act at the same instant. The peer passes it to AcceptInstant. nowUsec is the local
// time now, in microseconds like atUsec.
//
// The error is ErrAhead if atUsec is before nowUsec or more than MaxAhead after it. It is
// ErrUnsure if timesync.Snapshot.Within(within) is an error now; errors.Is finds both in it.
//
// Repeat the proposal in each datagram until the instant: then a lost datagram does no harm, and
// later proposals are more exact.
func (l *Link) ProposeInstant(
	nowUsec, atUsec uint64, within time.Duration,
) (timesync.Counter23, error) {
	if atUsec-nowUsec > uint64(MaxAhead/time.Microsecond) {
		return 0, ErrAhead
	}
	s, _ := l.Snapshot(nowUsec)
	if err := s.Within(within); err != nil {
		return 0, unsure(err)
	}
	instant, ok := l.ToRemoteTime23(atUsec)
	if !ok { // the link was reset meanwhile
		return 0, unsure(timesync.ErrUnsynchronized)
	}
	return instant, nil
}

// AcceptInstant takes what the peer's ProposeInstant returned, when it arrives at nowUsec. It
// returns the local time at which to act, in microseconds. The error is ErrPassed if that time
// has passed; atUsec is that time all the same.
func AcceptInstant(nowUsec uint64, instant timesync.Counter23) (atUsec uint64, err error) {
	atUsec = timesync.FromLocalTime23(nowUsec, instant)
	if int64(atUsec-nowUsec) < 0 {
		return atUsec, ErrPassed
	}
	return atUsec, nil
}

// time23Len and time23Flag are of a TS23 as it travels: three bytes, whose top bit is free.
const (
	time23Len  = 3
	time23Flag = 1 << 7 // of the last byte
)

// AppendTime23 appends the 3 bytes of ts, with flag in the top bit, which is the application's.
// The usual flag is whether there is a time, so both results of ToRemoteTime23 may be passed
// on as they are: three zeros say that the peer's clock is not known yet.
//
//	ts, ok := l.ToRemoteTime23(happenedUsec)
//	payload = link.AppendTime23(payload, ts, ok)
func AppendTime23(dst []byte, ts timesync.Counter23, flag bool) []byte {
	dst, _ = ts.AppendBinary(dst) // which never fails
	if flag {
		dst[len(dst)-1] |= time23Flag
	}
	return dst
}

// ReadTime23 reads the first 3 bytes of b as AppendTime23 appends them. It panics if there are
// fewer.
func ReadTime23(b []byte) (ts timesync.Counter23, flag bool) {
	ts = timesync.ReadCounter23(b)
	return ts, b[time23Len-1]&time23Flag != 0
}

// AppendEvent appends the 3 bytes that tell a peer's ReadEvent when something happened, such as
// when a piece of sound was captured: happenedUsec of our own clock. The bytes mean the same to
// every peer, and no peer's clock has to be known. The top bit of the last byte is 0.
// TimeSynchronizer.AppendEvent has another format, the receiver's clock.
func AppendEvent(dst []byte, happenedUsec uint64) []byte {
	const half = 1 << 2 // of the unit, 8 us
	return AppendTime23(dst, timesync.NewCounter23((happenedUsec+half)>>3), false)
}

// ReadEvent reads the first 3 bytes of b as the peer's AppendEvent appended them, in a datagram
// that was received at nowUsec. It returns the local time, in microseconds, at which that event
// happened, off by at most ErrorBound at nowUsec. For an event of many seconds ago ask
// Snapshot.At(atUsec) for the bound. For 2 or 3 s after a clock step neither bound holds, as for
// all times.
//
// The errors are ErrUnsure, ErrFuture, ErrBefore and ErrOld, as AcceptEvent says, or ErrTruncated
// if b is shorter. With ErrTruncated and ErrUnsure there is no time. After ErrUnsure the bytes can
// be read again, once the peer's clock is known.
func (l *Link) ReadEvent(
	nowUsec uint64, b []byte, oldest time.Duration,
) (atUsec uint64, err error) {
	if len(b) < time23Len {
		return 0, ErrTruncated
	}
	s, ok := l.Snapshot(nowUsec)
	if ok {
		atUsec = s.LocalTime(timesync.FromLocalTime23(s.RemoteUsec, timesync.ReadCounter23(b)))
	}
	return atUsec, credible(s, ok, nowUsec, atUsec, oldest)
}

// AcceptEvent takes what the peer's ToRemoteTime23 returned, when it arrives at nowUsec. It
// returns the local time, in microseconds, at which that event happened. A stamp shows a time
// modulo 67.1 s, and a clock step since then changes its meaning. So AcceptEvent returns
//
//	ErrUnsure  if the peer's clock is not known: then the peer hardly knows ours. errors.Is finds
//	           timesync.ErrUnsynchronized in it, too
//	ErrFuture  if the event lies after nowUsec by more than the error bound
//	ErrBefore  if it lies before the peer started or a clock was set, or one was set less than
//	           timesync.SettleTime ago
//	ErrOld     if it lies more than oldest before nowUsec; beyond 50 s an event looks like another
//
// atUsec is what the stamp says, also with an error. With ErrBefore a program that plays sound
// should use atUsec all the same: otherwise it is silent for timesync.SettleTime after each clock
// step. With any other error it should not. A peer had better not send events that are older than
// its clock or than this connection.
//
// The peer's estimate made the stamp, so atUsec is off by at most the peer's ErrorBound of that
// time. Ours is about as wide: both are half of the same round trip (lab/results/ACCURACY.md). With
// AppendEvent and ReadEvent our own bound holds.
func (l *Link) AcceptEvent(
	nowUsec uint64, event timesync.Counter23, oldest time.Duration,
) (atUsec uint64, err error) {
	atUsec = timesync.FromLocalTime23(nowUsec, event)
	s, ok := l.Snapshot(nowUsec)
	return atUsec, credible(s, ok, nowUsec, atUsec, oldest)
}

// credible says what is wrong with an event at atUsec that is told at nowUsec.
func credible(s timesync.Snapshot, known bool, nowUsec, atUsec uint64, oldest time.Duration) error {
	age := time.Duration(int64(nowUsec-atUsec)) * time.Microsecond
	switch {
	case !known:
		return unsure(timesync.ErrUnsynchronized)
	case -age > s.ErrorBound:
		return ErrFuture
	case s.StepSeen && s.SinceStep < timesync.SettleTime, age > s.SinceStep+s.ErrorBound:
		return ErrBefore
	case age > oldest:
		return ErrOld
	}
	return nil
}
