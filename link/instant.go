// SPDX-License-Identifier: BSD-3-Clause

package link

import (
	"errors"
	"time"

	"timesync"
)

// What ProposeInstant and AcceptInstant refuse.
var (
	ErrAhead  = errors.New("link: an instant must be 0 to 16 s ahead")
	ErrUnsure = errors.New("link: the peer's clock is not known well enough now")
	ErrPassed = errors.New("link: the instant has passed")
)

const (
	// MaxAhead is how far ahead an instant may be. A timestamp of 3 bytes reaches 16.8 s
	// ahead; one that is further would be read as past.
	MaxAhead = 16 * time.Second

	// settled is how long ago a clock was last noticed to have been set, at least. By then
	// both ends have seen it.
	settled = 15 * time.Second
)

// ProposeInstant returns the local time atUsec as the peer's clock has it, for a payload, so
// that both ends act at the same instant; the peer passes it to AcceptInstant. nowUsec is
// the local time now, in microseconds as atUsec.
//
// The error is ErrAhead if atUsec is before nowUsec or more than MaxAhead after it; ErrUnsure
// if the peer's clock is not known, or only with an error bound above within, or if a clock
// was set in the last 15 s.
//
// An instant that is seconds ahead may be proposed anew in each datagram: losses do no harm
// then, and later ones are more exact.
func (l *Link) ProposeInstant(nowUsec, atUsec uint64, within time.Duration) (timesync.Counter23, error) {
	if atUsec-nowUsec > uint64(MaxAhead/time.Microsecond) {
		return 0, ErrAhead
	}
	s, ok := l.Snapshot(nowUsec)
	if !ok || s.ErrorBound > within || s.Undisturbed < settled {
		return 0, ErrUnsure
	}
	instant, ok := l.ToRemoteTime23(atUsec)
	if !ok {
		return 0, ErrUnsure
	}
	return instant, nil
}

// AcceptInstant returns the local time at which to act, in microseconds, for what the peer's
// ProposeInstant returned and what arrived at nowUsec. The error is ErrPassed if that time
// is over; atUsec says since when.
func AcceptInstant(nowUsec uint64, instant timesync.Counter23) (atUsec uint64, err error) {
	atUsec = timesync.FromLocalTime23(nowUsec, instant)
	if int64(atUsec-nowUsec) < 0 {
		return atUsec, ErrPassed
	}
	return atUsec, nil
}
