// SPDX-License-Identifier: BSD-3-Clause

// Package link is one end of a path of authenticated datagrams that keeps time: it puts
// stamps and reports in front of the payload, and takes them off at the other end.
//
// Use it inside whatever seals the datagrams: append a header, then the payload, then
// encrypt and authenticate both; at the other end authenticate, refuse replays, and give
// what was inside to Open. The package knows no sockets, starts no goroutine and reads no
// clock. It allocates nothing.
//
// # Wire format
//
// A header is, in this order, with little-endian integers:
//
//	flags     1 byte
//	TS24      3 bytes: the sender's clock, in units of 8 us
//	MinDelta  3 bytes, if flag 0 is set: the sender's report, see MinDeltaTS24
//	anchor    8 bytes, if flag 1 is set: the sender's clock, all of it, in microseconds
//
//	flag 0    a MinDelta follows: every 0.5 s for 20 s, then every 2 s
//	flag 1    an anchor follows, until the peer says that it has it
//	flag 2    the sender has the receiver's anchor
//	flag 3-7  reserved: zero, and refused if not
package link

import (
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"timesync"
)

// What Open refuses. Nothing is taken from such a datagram.
var (
	ErrTruncated = errors.New("link: datagram is shorter than its header")
	ErrReserved  = errors.New("link: datagram has a flag that is reserved")
	ErrAnchor    = errors.New("link: anchor and stamp of a datagram differ")
)

const (
	flagReport = 1 << iota
	flagAnchor
	flagHasAnchor
	flagsReserved = 0xff &^ (flagHasAnchor<<1 - 1)
)

const (
	stampLen  = 3
	anchorLen = 8

	// MinHeader is the length of the shortest header in bytes.
	MinHeader = 1 + stampLen
	// MaxHeader is the length of the longest header in bytes.
	MaxHeader = 1 + 2*stampLen + anchorLen
)

const (
	// The first reports say most: the offset is known to a millisecond after a few.
	// Later ones are there for clocks that are set.
	soon     = 500_000    // us: time between two reports at first
	later    = 2_000_000  // us: and after that
	soonOver = 20_000_000 // us: so long is at first

	// anchorAge is how old an anchor may be: a quarter of the 67.1 s by which readings
	// could be confused.
	anchorAge = 16 * time.Second
)

// Link is one end of a path. The zero value is ready to use; it must not be copied after
// first use. All methods may be called from any goroutine at any time.
//
// Keep one Link for each connection, and a new one, or Reset, for the next connection.
// All times are readings of one monotonic clock in microseconds, such as timesync.NowUsec.
type Link struct {
	sync timesync.TimeSynchronizer // written under mu

	mu         sync.Mutex
	steps      uint32 // of sync, when it last had an anchor
	hasAnchor  bool   // so the peer's anchor need not come again
	heardOfUs  bool   // the peer has our anchor
	reporting  bool   // a report was sent
	reportedAt uint64 // local time, us, of the first report
	reportDue  uint64 // and of the next
}

// AppendHeader appends the header of a datagram that is sent at sendUsec, and returns the
// longer slice. Read the clock as late as possible before the datagram leaves.
func (l *Link) AppendHeader(dst []byte, sendUsec uint64) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := len(dst)
	dst = append(dst, 0)
	dst = appendCounter(dst, timesync.LocalTimeToDatagramTS24(sendUsec))
	if minDelta, ok := l.sync.MinDeltaTS24(sendUsec); ok && l.due(sendUsec) {
		dst[at] |= flagReport
		dst = appendCounter(dst, minDelta)
	}
	if !l.heardOfUs {
		dst[at] |= flagAnchor
		dst = binary.LittleEndian.AppendUint64(dst, sendUsec)
	}
	if l.hasAnchor {
		dst[at] |= flagHasAnchor
	}
	return dst
}

// due reports whether to send a report at nowUsec, and plans the next.
func (l *Link) due(nowUsec uint64) bool {
	if !l.reporting {
		l.reporting, l.reportedAt, l.reportDue = true, nowUsec, nowUsec
	}
	ahead := int64(l.reportDue - nowUsec)
	if ahead > 0 && ahead <= later {
		return false
	}
	// It is time, or the clock was set back.
	l.reportDue = nowUsec + soon
	if nowUsec-l.reportedAt >= soonOver {
		l.reportDue = nowUsec + later
	}
	return true
}

// Open takes a datagram that arrived at recvUsec, as the peer appended to its header, and
// returns what follows the header, without a copy. Call it only for datagrams that are
// proven to come from the peer and that were not seen before: whoever can forge or replay
// them can move the clock. Read the clock as early as possible, or ask the kernel
// (timesync/rxtime).
//
// owd is the one-way delay of the datagram, 0 while the offset is not known.
func (l *Link) Open(datagram []byte, recvUsec uint64) (payload []byte, owd time.Duration, err error) {
	h, payload, err := parse(datagram)
	if err != nil {
		return nil, 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	owd, ok := l.sync.OnAuthenticatedDatagramTimestamp(h.stamp, recvUsec)
	l.heardOfUs = h.hasAnchor
	if h.anchored && !l.hasAnchor && owd < anchorAge {
		l.sync.Anchor(recvUsec, h.anchor)
		l.hasAnchor, l.steps = ok, l.stepsAt(recvUsec)
	}
	if h.reports {
		l.sync.OnPeerMinDeltaTS24(h.minDelta, recvUsec)
		if l.stepsAt(recvUsec) != l.steps {
			l.hasAnchor = false // a clock was set, by more than 67.1 s perhaps
		}
	}
	return payload, owd, nil
}

// stepsAt returns the steps of the remote time so far.
func (l *Link) stepsAt(localUsec uint64) uint32 {
	s, _ := l.sync.Snapshot(localUsec)
	return s.Steps
}

// header is what precedes the payload.
type header struct {
	stamp, minDelta              timesync.Counter24
	anchor                       uint64
	reports, anchored, hasAnchor bool
}

// parse takes a header off a datagram.
func parse(b []byte) (h header, payload []byte, err error) {
	if len(b) < MinHeader {
		return header{}, nil, ErrTruncated
	}
	flags := b[0]
	if flags&flagsReserved != 0 {
		return header{}, nil, ErrReserved
	}
	h.reports, h.anchored, h.hasAnchor = flags&flagReport != 0, flags&flagAnchor != 0, flags&flagHasAnchor != 0
	h.stamp, b = timesync.ReadCounter24(b[1:]), b[MinHeader:]
	if h.reports {
		if len(b) < stampLen {
			return header{}, nil, ErrTruncated
		}
		h.minDelta, b = timesync.ReadCounter24(b), b[stampLen:]
	}
	if h.anchored {
		if len(b) < anchorLen {
			return header{}, nil, ErrTruncated
		}
		h.anchor, b = binary.LittleEndian.Uint64(b), b[anchorLen:]
		if timesync.LocalTimeToDatagramTS24(h.anchor) != h.stamp {
			return header{}, nil, ErrAnchor
		}
	}
	return h, b, nil
}

// appendCounter appends a counter.
func appendCounter(dst []byte, c timesync.Counter24) []byte {
	dst, _ = c.AppendBinary(dst) // which never fails
	return dst
}

// Reset forgets the peer, as for a new connection. Only the count of steps goes on; if the
// offset was known, this is one.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sync.Reset()
	l.hasAnchor, l.heardOfUs, l.reporting = false, false, false
}

// IsSynchronized is that of timesync.TimeSynchronizer.
func (l *Link) IsSynchronized() bool { return l.sync.IsSynchronized() }

// RemoteTime returns the peer's clock at localUsec, both in microseconds. The peer's
// anchor came with its first datagrams, so the reading is the whole one. See
// timesync.TimeSynchronizer.
func (l *Link) RemoteTime(localUsec uint64) (remoteUsec uint64, ok bool) {
	return l.sync.RemoteTime(localUsec)
}

// ToRemoteTime23 is that of timesync.TimeSynchronizer: the peer's clock at localUsec, for
// a payload.
func (l *Link) ToRemoteTime23(localUsec uint64) (timesync.Counter23, bool) {
	return l.sync.ToRemoteTime23(localUsec)
}

// ToRemoteTime16 is that of timesync.TimeSynchronizer: the peer's clock at localUsec, for
// a payload.
func (l *Link) ToRemoteTime16(localUsec uint64) (timesync.Counter16, bool) {
	return l.sync.ToRemoteTime16(localUsec)
}

// MinimumOneWayDelay is that of timesync.TimeSynchronizer.
func (l *Link) MinimumOneWayDelay() (delay time.Duration, ok bool) {
	return l.sync.MinimumOneWayDelay()
}

// ErrorBound is that of timesync.TimeSynchronizer.
func (l *Link) ErrorBound(localUsec uint64) (bound time.Duration, ok bool) {
	return l.sync.ErrorBound(localUsec)
}

// Skew is that of timesync.TimeSynchronizer.
func (l *Link) Skew() (ppm float64, ok bool) { return l.sync.Skew() }

// Snapshot is that of timesync.TimeSynchronizer.
func (l *Link) Snapshot(localUsec uint64) (s timesync.Snapshot, ok bool) {
	return l.sync.Snapshot(localUsec)
}

// Stats is that of timesync.TimeSynchronizer.
func (l *Link) Stats() timesync.Stats { return l.sync.Stats() }
