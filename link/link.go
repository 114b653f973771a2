// SPDX-License-Identifier: BSD-3-Clause

// Package link keeps time with a peer by authenticated datagrams. It puts stamps and reports in
// front of the payload, and takes them off at the other end:
//
//	datagram := append(conn.AppendHeader(nil, clock.Now()), payload...)  // then encrypt and send it
//	payload, owd, ok, err := conn.ReadHeader(datagram, clock.Received()) // of what was decrypted
//	remoteUsec, ok := conn.RemoteTime(clock.Now())                       // the peer's clock
//
// conn is a Link, one for each connection. Use it inside the encryption: authenticate a datagram,
// and refuse replays, before ReadHeader. ReadHeader returns the payload and how long the datagram
// was on its way. Snapshot has all that is known, such as OffsetUsec and ErrorBound; its method
// Within says whether that may be relied on. Wait waits for that, and SinceHeard says how long the
// peer has been silent. AppendEvent and ReadEvent carry the time of an event in a payload, in 3
// bytes.
//
// The package opens no socket, starts no goroutine and reads no clock. Only Wait and errors allocate.
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
//	flag 0    there is a MinDelta: every 0.5 s for 20 s from the first one, then every second; every
//	          50 ms while the receiver's last datagram had flag 5; and after a datagram that asks,
//	          that was not sent, or that ends a silence of 15 s
//	flag 1    there is an anchor: with each MinDelta, with flags 3 and 5, while the receiver's last
//	          datagram lacked flag 2 or had flag 5, and while the receiver is silent for 15 s
//	flag 2    the sender knows the receiver's clock and has its anchor, none contradicts it, and the
//	          receiver's last datagram did not ask; each datagram says it anew
//	flag 3    the sender has had no datagram or no MinDelta since its start or reset, and asks
//	flag 4    always set: this is version 3
//	flag 5    the sender checks what it knows, after a silence
//	flag 6-7  reserved: zero, and refused if not
//
// An end that does not know its peer's clock yet ignores a MinDelta with flag 2: that one is for
// its predecessor, whose clock the peer still had. An end that did set flag 2 while its peer asks
// would never be believed.
//
// A peer that had our clock has started anew if three datagrams in a row ask, the first of them at
// least 50 ms ago. The end then forgets it. From the first of such a row to 50 ms after the last it
// sends no MinDelta.
//
// docs/WIRE.md says the rest, for peers that are not written in Go, and testdata/wire has vectors.
//
// This is version 3 of the format, in which a MinDelta is the least delta since the one before.
// Both ends need the same version: ReadHeader returns ErrVersion for a datagram of an older one,
// and an end of version 2 refuses flag 4 as reserved.
//
// # Inside a protocol of your own
//
// Put the header where packets are sealed, below retransmission, forward error correction and
// pacing, and make a new one for each transmission. Put what names the connection in front of it,
// since only the Link that it is for can read a header. A Link belongs to a connection, not to an
// address. Packets that were resent or recovered with their old header look slow, which does no
// harm; like all others, drop them after a minute. Several goroutines may handle the packets of
// one connection, each with its own time of receipt.
package link

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"time"

	"timesync"
)

const (
	flagReport    = 1 << iota // there is a report
	flagAnchor                // there is an anchor
	flagHasAnchor             // we know the receiver's clock and have its anchor, and its last datagram did not ask
	flagAsks                  // we had no datagram, or no report, since the start or the reset
	flagVersion               // this is version 3
	flagChecks                // we check what we know, and wait for reports and anchors
	flagsReserved = 0xff &^ (flagChecks<<1 - 1)
)

const (
	stampLen  = 3
	reportLen = 3
	anchorLen = 8

	// MinHeader is the length of the shortest header in bytes.
	MinHeader = 1 + stampLen
	// MaxHeader is the length of the longest header in bytes.
	MaxHeader = MinHeader + reportLen + anchorLen
)

const (
	// The first reports say most: the offset is known to a millisecond after a few. Later ones
	// follow clocks that are steered: with one in 2 s recorded paths are a fifth further off, with
	// two a second no nearer.
	firstReportEvery = 500_000    // us: time between two reports at the start of a session
	reportEvery      = 1_000_000  // us: and after that
	firstReports     = 20_000_000 // us: the start of a session lasts this long

	// A peer that checks what it knows, after a silence, waits for reports and anchors.
	checkEvery = 50_000 // us: time between two reports then

	// A peer that knew our clock and asks again has started anew, unless its datagrams were
	// held up since its first start: then others come between them, which do not ask.
	restartTakes = 50_000 // us: more than neighbouring datagrams overtake each other by

	// What asks with a reading that the peer's clock had before the peer knew ours may be from its first
	// start, held up by somebody. It counts only if nothing else comes for so long.
	heldUp = 500_000 // us: somebody on the path would have to hold up all else for as long

	// After so long without a datagram the other end may have slept: then it needs a report and an anchor soon.
	silence = uint64(timesync.SettleTime / time.Microsecond)

	// A report that a later one overtook is passed over for so long only: the stamps of a peer whose clock was set
	// back look the same.
	reordering = 1_000_000 // us: more than datagrams overtake each other by

	// inARow is how many datagrams must agree, as in package timesync: two may be nuisances.
	inARow = 3
)

// Link is one end of a connection. The zero value is ready to use; it must not be copied after
// first use. All methods may be called from any goroutine at any time.
//
// Keep one Link for each connection. For the next connection take a new one, or call Reset. If
// the peer restarts without a new connection, the Link notices that and resets itself. All times
// are readings of one monotonic clock in microseconds, such as that of package clock:
// clock.Received for the time at which a datagram arrived, clock.Now for all others.
type Link struct {
	sync timesync.TimeSynchronizer // written under mu

	mu         sync.Mutex
	recorder   Recorder // of sync, or nil
	hasAnchor  bool     // so the peer's anchor need not come again, but with reports
	heardOfUs  bool     // the peer has our anchor
	wasSilent  bool     // the peer was, and what we know is not checked since
	peerChecks bool     // the peer waits for our reports and anchors
	knewUs     bool     // the peer knew our clock, since we know its own
	knewUsAt   uint64   // the peer's clock then, us, or a little later
	anew       streak   // of datagrams of a peer that asks again
	owed       bool     // a report goes with the next datagram, whenever that is
	reporting  bool     // a report was due
	reportedAt uint64   // local time, us, of the first one
	reportLast uint64   // of the last one
	reportDue  uint64   // and of the next

	told   uint64             // local time, us, of the peer's last report, 0 before the first
	toldAt timesync.Counter24 // the stamp of its datagram

	heard uint64        // local time, us, of the last datagram, if any
	spoke bool          // there was one
	news  chan struct{} // closed at the next datagram, or nil while nobody waits
}

// Inputs are the methods of a timesync.TimeSynchronizer that a Recorder wants to see.
type Inputs interface {
	OnAuthenticatedDatagramTimestamp(remoteSendTS24 timesync.Counter24, localRecvUsec uint64) (owd time.Duration, ok bool)
	OnPeerMinDeltaTS24(minDelta timesync.Counter24, localRecvUsec uint64)
	Anchor(localUsec, remoteUsec uint64)
	Reset()
	MinDeltaTS24(localUsec uint64) (minDelta timesync.Counter24, ok bool)
}

// Recorder is a record.Recorder: it writes down what it is given, and gives it to s.
type Recorder interface {
	Inputs
	Wrap(s *timesync.TimeSynchronizer)
}

// Record makes r record all that the link learns. Call it before the link is used. Close r
// when the link is no longer used.
func (l *Link) Record(r Recorder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Wrap(&l.sync)
	l.recorder = r
}

// input is where the link's inputs go. The caller holds mu.
func (l *Link) input() Inputs {
	if l.recorder != nil {
		return l.recorder
	}
	return &l.sync
}

// streak counts datagrams in a row that say the same.
type streak struct {
	n           int
	begun, last uint64 // local times, us, of the first and of the last that said so
	ever        bool   // one has
}

// add counts a datagram that arrived at nowUsec, or ends the streak. It reports whether that
// has gone on for atLeast microseconds.
func (s *streak) add(goesOn bool, nowUsec, atLeast uint64) (long bool) {
	if !goesOn {
		s.n = 0
		return false
	}
	if setBack := int64(nowUsec-s.last) < -reordering; s.n == 0 || setBack {
		s.n, s.begun = 0, nowUsec
	}
	s.n++
	s.last, s.ever = nowUsec, true
	lasted := int64(nowUsec - s.begun) // negative if times of receipt go back
	return s.n >= inARow && lasted >= int64(atLeast)
}

// over reports whether the streak has ended, and the last of it came usec microseconds ago
// or more. A time of receipt may be a little later than now, since package clock rounds it up; if it
// is later by more, the clock was set back.
func (s *streak) over(nowUsec, usec uint64) bool {
	ago := int64(nowUsec - s.last)
	return s.n == 0 && (!s.ever || max(ago, -ago) >= int64(usec))
}

// AppendHeader appends the header of a datagram that is sent at sendUsec, and returns the
// longer slice. Read the clock as late as possible before the datagram leaves.
//
// Leave MaxHeader bytes for it in every datagram, although MinHeader are usual: if the
// headers with a report do not fit, the peer never synchronizes. If the datagram could not be
// sent, call SendFailed.
func (l *Link) AppendHeader(dst []byte, sendUsec uint64) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := len(dst)
	dst = append(dst, flagVersion)
	dst, _ = timesync.LocalTimeToDatagramTS24(sendUsec).AppendBinary(dst) // which never fails
	s, known := l.sync.Snapshot(sendUsec)
	checks := l.checks(s)
	reports := false
	if l.spoke && l.anew.over(sendUsec, restartTakes) && l.due(sendUsec) {
		var minDelta timesync.Counter24 // reading it ends its interval
		if minDelta, reports = l.input().MinDeltaTS24(sendUsec); reports {
			dst[at] |= flagReport
			dst, _ = minDelta.AppendBinary(dst)
		}
	}
	if reports || !known || checks || l.peerChecks || !l.heardOfUs || l.silent(sendUsec) {
		dst[at] |= flagAnchor
		dst = binary.LittleEndian.AppendUint64(dst, sendUsec)
	}
	if l.hasAnchor && known && !s.Ambiguous {
		dst[at] |= flagHasAnchor
	}
	if checks {
		dst[at] |= flagChecks
	}
	if !known {
		dst[at] |= flagAsks
	}
	return dst
}

// checks reports whether we wait for reports and anchors to check what we know. After a clock step there is time: Within
// fails anyway.
func (l *Link) checks(s timesync.Snapshot) bool {
	l.wasSilent = l.wasSilent && (s.Unchecked || s.Ambiguous)
	return l.wasSilent
}

// due reports whether to send a report at nowUsec, and plans the next.
func (l *Link) due(nowUsec uint64) bool {
	if !l.reporting {
		l.reporting, l.reportedAt, l.reportDue = true, nowUsec, nowUsec
	}
	ahead := int64(l.reportDue - nowUsec)
	awaited := l.owed || l.peerChecks && nowUsec-l.reportLast >= checkEvery
	if ahead > 0 && ahead <= reportEvery && !awaited {
		return false
	}
	// It is time, or the clock was set back, or the peer has asked.
	l.owed = false
	l.reportLast, l.reportDue = nowUsec, nowUsec+firstReportEvery
	if nowUsec-l.reportedAt >= firstReports {
		l.reportDue = nowUsec + reportEvery
	}
	return true
}

// silent reports whether nothing has come for long at nowUsec.
func (l *Link) silent(nowUsec uint64) bool {
	return l.spoke && int64(nowUsec-l.heard) >= int64(silence)
}

// SendFailed says that a datagram with a header of AppendHeader was not sent. The next datagram
// contains a report, for what arrived since the one that may be lost.
func (l *Link) SendFailed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owed = true
}

// ReadHeader takes a datagram, header and payload, that arrived at recvUsec. It returns the payload,
// without a copy. Call it only for datagrams that are proven to come from the peer and that were
// not seen before: whoever can forge or replay them can move the clock. Read the clock as early
// as possible, or ask the kernel (timesync/clock/rxtime).
//
// owd is the one-way delay of the datagram, off by at most ErrorBound at recvUsec. ok is false if it
// is not known, because the offset was not known before: also for the datagram that brings the first
// report, although Snapshot knows the time from then on. Where the path becomes shorter at once, the first two
// datagrams, or those of up to half a second if some overtake others, get MinimumOneWayDelay as it was:
// owd is then too long.
//
// ReadHeader first sees whether the peer has started anew, then takes the stamp, an anchor if ok is false,
// the MinDelta unless one that was sent later came in the second before, and last an anchor if ok is
// true.
func (l *Link) ReadHeader(datagram []byte, recvUsec uint64) (payload []byte, owd time.Duration, ok bool, err error) {
	h, payload, err := parse(datagram)
	if err != nil {
		return nil, 0, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.startedAnew(h, recvUsec) {
		l.reset()
	}
	if l.silent(recvUsec) {
		l.owed, l.wasSilent = true, true
	}
	owd, ok = l.input().OnAuthenticatedDatagramTimestamp(h.stamp, recvUsec)
	if h.anchored && !ok { // before the report, so that the first offset is the right one of those 67.1 s apart
		l.takeAnchor(h.anchor, recvUsec)
	}
	if h.reports && (ok || !h.hasAnchor) && !l.overtaken(h.stamp, recvUsec) {
		l.input().OnPeerMinDeltaTS24(h.minDelta, recvUsec)
	}
	if h.anchored && ok {
		l.takeAnchor(h.anchor, recvUsec)
	}
	l.heardOfUs, l.peerChecks = h.hasAnchor, h.checks
	if h.asks {
		l.owed, l.hasAnchor = true, false // it may be another one, whose anchor we need
	}
	l.heard, l.spoke = recvUsec, true
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
	return payload, owd, ok, nil
}

// takeAnchor takes the peer's whole clock, as it was when a datagram left that arrived at recvUsec.
func (l *Link) takeAnchor(anchor, recvUsec uint64) {
	l.input().Anchor(recvUsec, anchor)
	l.hasAnchor = true
}

// overtaken reports whether a datagram with a report was sent before the one whose report was taken last, less than a
// second ago. Its report says less than is known, and would look as if the peer's floor had risen: like a clock
// that was set. That happens at the start, where each datagram has a report.
func (l *Link) overtaken(stamp timesync.Counter24, recvUsec uint64) bool {
	ago := int64(recvUsec - l.told) // below 0 if our clock was set back
	if l.told != 0 && max(ago, -ago) < reordering && stamp.Less(l.toldAt) {
		return true
	}
	l.told, l.toldAt = recvUsec, stamp
	return false
}

// SinceHeard returns how long ago, at nowUsec, the last datagram was received that ReadHeader took, and never a
// negative time. ok is false if there was none since the start or the last Reset.
//
// This is how to know soon that the peer is gone: it is, if it is silent for several times the
// longest gap that it leaves between two datagrams. Snapshot.Within is for the time, which goes on
// while the peer is silent, and fails after SettleTime. If our own clock is set forward, the peer seems
// silent until its next datagram.
func (l *Link) SinceHeard(nowUsec uint64) (ago time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.spoke {
		return 0, false
	}
	const most = math.MaxInt64 / int64(time.Microsecond)
	return time.Duration(min(max(int64(nowUsec-l.heard), 0), most)) * time.Microsecond, true
}

// Wait returns nil as soon as the peer's clock is known well enough: when, at the receipt of the
// last datagram, timesync.Snapshot.Within(tolerable) is nil. That may be at once. Else it waits for
// more datagrams until ctx is done. errors.Is then finds both ctx.Err() in the error and what
// Within returned last.
//
// Wait reads no clock, so it does not see that the peer has been silent since that datagram.
func (l *Link) Wait(ctx context.Context, tolerable time.Duration) error {
	for {
		l.mu.Lock()
		s, _ := l.Snapshot(l.heard)
		err := s.Within(tolerable)
		if err == nil {
			l.mu.Unlock()
			return nil
		}
		if l.news == nil {
			l.news = make(chan struct{})
		}
		news := l.news
		l.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("link: %w: %w", ctx.Err(), err)
		}
	}
}

// startedAnew reports whether the peer is not who it was: it knew our clock, and asks for it
// in several datagrams in a row. Reports wait meanwhile, since they are about the old one,
// whose last datagrams may still arrive, too.
func (l *Link) startedAnew(h header, recvUsec uint64) bool {
	if remote, known := l.sync.RemoteTime(recvUsec); known && !h.asks && !l.knewUs {
		l.knewUs, l.knewUsAt = true, remote
	}
	takes := uint64(restartTakes)
	if !h.anchored || int64(h.anchor-l.knewUsAt) <= 0 {
		takes = heldUp
	}
	return l.anew.add(h.asks && l.knewUs, recvUsec, takes)
}

// header is what precedes the payload.
type header struct {
	stamp, minDelta                    timesync.Counter24
	anchor                             uint64
	reports, anchored, hasAnchor, asks bool
	checks                             bool
}

// parse takes a header off a datagram.
func parse(b []byte) (h header, payload []byte, err error) {
	if len(b) < MinHeader {
		return header{}, nil, ErrTruncated
	}
	flags := b[0]
	switch {
	case flags&flagsReserved != 0:
		return header{}, nil, ErrReserved
	case flags&flagVersion == 0:
		return header{}, nil, ErrVersion
	}
	h.reports, h.anchored = flags&flagReport != 0, flags&flagAnchor != 0
	h.hasAnchor, h.asks, h.checks = flags&flagHasAnchor != 0, flags&flagAsks != 0, flags&flagChecks != 0
	h.stamp, b = timesync.ReadCounter24(b[1:]), b[MinHeader:]
	if h.reports {
		if len(b) < reportLen {
			return header{}, nil, ErrTruncated
		}
		h.minDelta, b = timesync.ReadCounter24(b), b[reportLen:]
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

// Reset forgets the peer, as for a new connection. Only the count of steps goes on; if the
// offset was known, this is one.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reset()
}

func (l *Link) reset() {
	l.input().Reset()
	l.hasAnchor, l.heardOfUs, l.owed, l.reporting, l.spoke = false, false, false, false, false
	l.wasSilent, l.peerChecks = false, false
	l.knewUs, l.anew, l.told = false, streak{}, 0
}

// RemoteTime returns the peer's clock at localUsec, both in microseconds. It is the full
// reading, because the peer's anchor came with its first datagrams. See
// timesync.TimeSynchronizer.
func (l *Link) RemoteTime(localUsec uint64) (remoteUsec uint64, ok bool) {
	return l.sync.RemoteTime(localUsec)
}

// ToRemoteTime23 is that of timesync.TimeSynchronizer: the peer's clock at localUsec, for
// a payload.
func (l *Link) ToRemoteTime23(localUsec uint64) (timesync.Counter23, bool) {
	return l.sync.ToRemoteTime23(localUsec)
}

// MinimumOneWayDelay is that of timesync.TimeSynchronizer.
func (l *Link) MinimumOneWayDelay() (delay time.Duration, ok bool) {
	return l.sync.MinimumOneWayDelay()
}

// MinimumDelayToPeer is that of timesync.TimeSynchronizer.
func (l *Link) MinimumDelayToPeer() (delay time.Duration, ok bool) {
	return l.sync.MinimumDelayToPeer()
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
