// SPDX-License-Identifier: BSD-3-Clause

// Package link keeps time with a peer by authenticated datagrams. It puts stamps and reports in
// front of the payload, and takes them off at the other end:
//
//	datagram := append(conn.AppendHeader(nil, clock.Now()), payload...)  // encrypt and send it
//	payload, owd, ok, err := conn.ReadHeader(datagram, clock.Received()) // of what was decrypted
//	remoteUsec, ok := conn.RemoteTime(clock.Now())                       // the peer's clock
//
// conn is a Link, one for each connection. Use it inside the encryption: authenticate a datagram,
// and refuse replays, also of earlier sessions, before ReadHeader. ReadHeader returns the payload
// and how long the datagram was on its way. Snapshot has all that is known, such as OffsetUsec and
// ErrorBound; its method Within says whether that may be relied on. Wait waits for that, and
// SinceHeard says how long the peer has been silent. AppendEvent and ReadEvent carry the time of an
// event in a payload, in 3 bytes.
//
// The package opens no socket, starts no goroutine and reads no clock. Only Wait and errors
// allocate.
//
// # Inside a protocol of your own
//
// Make the header where packets are sealed, after retransmission, forward error correction and
// pacing have chosen what to send, and a new one for each transmission. Put what names the
// connection in front of it, since only the Link that it is for can read a header. A Link belongs
// to a connection, not to an address. Several goroutines may handle the packets of one connection,
// each with its own time of receipt.
//
// A recording of an earlier session under the same key is a replay, too. Send the peer's session
// id back as an echo, and call ReadHeader only for datagrams that echo your own. Of all other
// authenticated datagrams keep only the id, or neither end would begin. Call Reset when the third
// datagram in a row has the same new id and your echo, and drop the first two, since one may be
// late from before the restart. Without that the Link notices the restart by itself, a little
// later. examples/seal/seal.go does the same with a random challenge.
//
// Packets that were resent or recovered with their old header look slow, which does no harm. Refuse
// a packet if one with a higher sequence number arrived more than a minute ago: it is then over a
// minute old, and stamps repeat. A replay window that spans less than a minute does that anyway.
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
//	flag 0    there is a MinDelta: every 0.5 s for 20 s from the first one, then every second;
//	          every 50 ms while the receiver's last datagram had flag 5; and after a datagram that
//	          asks, that was not sent, or that ends a silence of 15 s
//	flag 1    there is an anchor: with each MinDelta, with flags 3 and 5, while the receiver's
//	          last datagram lacked flag 2 or had flag 5, and while the receiver is silent for 15 s
//	flag 2    the sender knows the receiver's clock and has its anchor, none contradicts it, and
//	          the receiver's last datagram did not ask; each datagram says it anew
//	flag 3    the sender has had no datagram or no MinDelta since its start or reset, and asks
//	flag 4    always set: this is version 3
//	flag 5    the sender checks what it knows, after a silence
//	flag 6-7  reserved: zero, and refused if not
//
// An end that does not know its peer's clock yet ignores a MinDelta with flag 2: that one is for
// its predecessor, whose clock the peer still had. An end that did set flag 2 while its peer asks
// would never be believed.
//
// A peer that had our clock has restarted if three datagrams in a row ask, the first of them at
// least 50 ms ago. The end then forgets it. From the first of such a row to 50 ms after the last it
// sends no MinDelta.
//
// docs/WIRE.md says the rest, for peers that are not written in Go, and testdata/wire has vectors.
//
// This is version 3 of the format, in which a MinDelta is the least delta since the one before.
// Both ends need the same version: ReadHeader returns ErrVersion for a datagram of an older one,
// and an end of version 2 refuses flag 4 as reserved.
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
	flagHasAnchor             // we know the receiver's clock, have its anchor, and it did not ask
	flagAsks                  // we have had no datagram, or no report, since the start or the reset
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
	// The offset is known to a millisecond after a few reports, so they come faster at the start.
	// Later ones follow clocks that are slewed: on recorded paths a report every 2 s makes the
	// error a fifth larger, and two a second make it no smaller.
	firstReportEvery = 500_000    // us: time between two reports at the start of a session
	reportEvery      = 1_000_000  // us: and after that
	firstReports     = 20_000_000 // us: the start of a session lasts this long

	// After a silence the peer waits for reports and anchors to check what it knows.
	checkEvery = 50_000 // us: time between two reports then

	// A peer that knew our clock and asks again has restarted, unless its datagrams were delayed
	// since its first start. Then datagrams that do not ask come between them.
	restartTakes = 50_000 // us: more than neighbouring datagrams overtake each other by

	// A datagram that asks may also carry a reading from before the peer knew our clock. It may be
	// from the peer's first start, delayed by an attacker. It counts only if nothing else arrives
	// for this long.
	heldUp = 500_000 // us: an attacker would have to hold up everything else for as long

	// After this time without a datagram the peer may have slept. It needs a report and an anchor
	// soon.
	silence = uint64(timesync.SettleTime / time.Microsecond)

	// A report is passed over if a later one overtook it within this time. It is not for longer,
	// because the stamps of a peer whose clock was set back look the same.
	reordering = 1_000_000 // us: more than datagrams overtake each other by

	// inARow is how many datagrams must agree, as in package timesync: two may be an accident.
	inARow = 3
)

// Link is one end of a connection. The zero value is ready to use; it must not be copied after
// first use. All methods may be called from any goroutine at any time.
//
// Keep one Link for each connection. For the next connection take a new one, or call Reset. If
// the peer restarts without a new connection, call Reset when your protocol tells you, as by a new
// session id; otherwise the Link notices after some datagrams, and resets itself. All times are
// readings of one monotonic clock in microseconds, such as that of package clock: clock.Received
// for the time at which a datagram arrived, clock.Now for all others.
type Link struct {
	sync timesync.TimeSynchronizer // written under mu

	mu         sync.Mutex
	recorder   Recorder // of sync, or nil
	hasAnchor  bool     // we have the peer's anchor
	heardOfUs  bool     // the peer has our anchor
	wasSilent  bool     // the peer was silent, and what we know is not checked since
	peerChecks bool     // the peer waits for our reports and anchors
	knewUs     bool     // the peer knew our clock at a time when we knew its clock
	knewUsAt   uint64   // the peer's clock, us, when we first saw that
	anew       streak   // of datagrams in which a peer that knew us asks again
	owed       bool     // the next datagram carries a report, due or not
	reporting  bool     // a report has been due, so the three that follow are set
	reportedAt uint64   // local time, us, of our first report
	reportLast uint64   // local time, us, of our last report
	reportDue  uint64   // local time, us, of our next report

	peerReport      uint64             // local time, us, of the peer's last report; 0: none yet
	peerReportStamp timesync.Counter24 // the stamp of the datagram with that report

	heard uint64        // local time, us, of the last datagram
	spoke bool          // there was a datagram, so heard is set
	news  chan struct{} // closed at the next datagram; nil while nobody waits
}

// Inputs are the methods of a timesync.TimeSynchronizer that a Recorder wants to see.
type Inputs interface {
	OnAuthenticatedDatagramTimestamp(
		remoteSendTS24 timesync.Counter24, localRecvUsec uint64,
	) (owd time.Duration, ok bool)
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
	n     int
	begun uint64 // local time, us, of the first one in the row
	last  uint64 // local time, us, of the last one that said so
	ever  bool   // there was one, so last is set
}

// add counts a datagram that arrived at nowUsec, or ends the streak if goesOn is false. It reports
// whether the streak is long: inARow datagrams over atLeast microseconds.
func (s *streak) add(goesOn bool, nowUsec, atLeast uint64) (long bool) {
	if !goesOn {
		s.n = 0
		return false
	}
	wasSetBack := int64(nowUsec-s.last) < -reordering
	if s.n == 0 || wasSetBack {
		s.n = 0
		s.begun = nowUsec
	}
	s.n++
	s.last = nowUsec
	s.ever = true
	lasted := int64(nowUsec - s.begun) // negative if times of receipt go back
	return s.n >= inARow && lasted >= int64(atLeast)
}

// over reports whether the streak has ended and its last datagram arrived at least usec
// microseconds ago. A time of receipt may be slightly later than now, since package clock rounds
// it up. If it is much later, the clock was set back.
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
		var minDelta timesync.Counter24
		minDelta, reports = l.input().MinDeltaTS24(sendUsec) // reading it ends its interval
		if reports {
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

// checks reports whether we wait for reports and anchors that check what we know since a silence.
// After a clock step there is no hurry, since Within fails anyway.
func (l *Link) checks(s timesync.Snapshot) bool {
	l.wasSilent = l.wasSilent && (s.Unchecked || s.Ambiguous)
	return l.wasSilent
}

// due reports whether to send a report at nowUsec, and plans the next one.
func (l *Link) due(nowUsec uint64) bool {
	if !l.reporting {
		l.reporting = true
		l.reportedAt = nowUsec
		l.reportDue = nowUsec
	}
	ahead := int64(l.reportDue - nowUsec)
	isPlanned := ahead > 0 && ahead <= reportEvery // it is further ahead if the clock was set back
	awaited := l.owed || l.peerChecks && nowUsec-l.reportLast >= checkEvery
	if isPlanned && !awaited {
		return false
	}
	l.owed = false
	l.reportLast = nowUsec
	l.reportDue = nowUsec + firstReportEvery
	if nowUsec-l.reportedAt >= firstReports {
		l.reportDue = nowUsec + reportEvery
	}
	return true
}

// silent reports whether at nowUsec the peer has been silent for 15 s or longer.
func (l *Link) silent(nowUsec uint64) bool {
	return l.spoke && int64(nowUsec-l.heard) >= int64(silence)
}

// SendFailed says that a datagram with a header of AppendHeader was not sent. The next datagram
// then carries a report, for what arrived since the one that may be lost.
func (l *Link) SendFailed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owed = true
}

// ReadHeader takes a datagram, header and payload, that arrived at recvUsec, and returns the
// payload, without a copy. Call it only for datagrams that are proven to come from the peer and
// that were not seen before: whoever can forge or replay them can move the clock. Read the clock
// as early as possible, or ask the kernel (timesync/clock/rxtime).
//
// owd is the one-way delay of the datagram, off by at most ErrorBound at recvUsec. ok is false if
// owd is unknown, because the offset was not known before the datagram. That includes the datagram
// with the first report, although Snapshot knows the time from then on. Where the path suddenly
// becomes shorter, the first two datagrams get the old MinimumOneWayDelay, so owd is too long; if
// datagrams overtake each other, so do those of up to half a second.
//
// ReadHeader first checks whether the peer has restarted, and then takes the stamp. An anchor comes
// next if ok is false. The MinDelta follows, unless one that was sent later arrived in the last
// second. An anchor comes last if ok is true.
func (l *Link) ReadHeader(
	datagram []byte, recvUsec uint64,
) (payload []byte, owd time.Duration, ok bool, err error) {
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
		l.owed = true
		l.wasSilent = true
	}
	owd, ok = l.input().OnAuthenticatedDatagramTimestamp(h.stamp, recvUsec)
	if h.anchored && !ok { // it chooses among the first offsets, which are 67.1 s apart
		l.takeAnchor(h.anchor, recvUsec)
	}
	// A report for somebody who knew our clock is not for us, unless we know the peer's.
	isForUs := ok || !h.hasAnchor
	if h.reports && isForUs && !l.overtaken(h.stamp, recvUsec) {
		l.input().OnPeerMinDeltaTS24(h.minDelta, recvUsec)
	}
	if h.anchored && ok {
		l.takeAnchor(h.anchor, recvUsec)
	}
	l.heardOfUs = h.hasAnchor
	l.peerChecks = h.checks
	if h.asks {
		l.owed = true
		l.hasAnchor = false // the peer may be another one, whose anchor we need
	}
	l.heard = recvUsec
	l.spoke = true
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
	return payload, owd, ok, nil
}

// takeAnchor takes the peer's full reading at the sending of a datagram that arrived at recvUsec.
func (l *Link) takeAnchor(anchor, recvUsec uint64) {
	l.input().Anchor(recvUsec, anchor)
	l.hasAnchor = true
}

// overtaken reports whether a later datagram with a report was taken less than a second ago. The
// older report says less than is known. It would look as if the peer's floor had risen, which is
// how a clock step looks. This happens at the start, when several datagrams in flight have
// reports.
func (l *Link) overtaken(stamp timesync.Counter24, recvUsec uint64) bool {
	ago := int64(recvUsec - l.peerReport) // negative if our clock was set back
	if l.peerReport != 0 && max(ago, -ago) < reordering && stamp.Less(l.peerReportStamp) {
		return true
	}
	l.peerReport = recvUsec
	l.peerReportStamp = stamp
	return false
}

// SinceHeard returns how long ago, at nowUsec, ReadHeader took the last datagram. It is never
// negative. ok is false if there was none since the start or the last Reset.
//
// Use it to notice soon that the peer is gone: when this exceeds several times the longest gap
// between two datagrams of the peer. Snapshot.Within judges the time, which goes on while the peer
// is silent, and fails after SettleTime. If our own clock is set forward, the peer seems silent
// until its next datagram.
func (l *Link) SinceHeard(nowUsec uint64) (ago time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.spoke {
		return 0, false
	}
	const most = math.MaxInt64 / int64(time.Microsecond)
	return time.Duration(min(max(int64(nowUsec-l.heard), 0), most)) * time.Microsecond, true
}

// Wait returns nil as soon as the peer's clock is known well enough: when
// timesync.Snapshot.Within(tolerable) is nil at the receipt of the last datagram. That may be at
// once. Otherwise Wait waits for more datagrams until ctx is done. Then errors.Is finds both
// ctx.Err() in the error and what Within returned last.
//
// Wait reads no clock, so it does not see how long the peer has been silent since that datagram.
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

// startedAnew reports whether the peer has restarted: it knew our clock, and now asks for it in
// several datagrams in a row. Reports wait meanwhile. They would be about the old peer, whose last
// datagrams may still arrive, too.
func (l *Link) startedAnew(h header, recvUsec uint64) bool {
	remote, known := l.sync.RemoteTime(recvUsec)
	if known && !h.asks && !l.knewUs {
		l.knewUs = true
		l.knewUsAt = remote
	}
	takes := uint64(restartTakes)
	mayBeOld := !h.anchored || int64(h.anchor-l.knewUsAt) <= 0
	if mayBeOld {
		takes = heldUp
	}
	return l.anew.add(h.asks && l.knewUs, recvUsec, takes)
}

// header is what precedes the payload.
type header struct {
	stamp     timesync.Counter24
	minDelta  timesync.Counter24 // if reports
	anchor    uint64             // us, if anchored
	reports   bool               // flag 0
	anchored  bool               // flag 1
	hasAnchor bool               // flag 2
	asks      bool               // flag 3
	checks    bool               // flag 5
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
	h = header{
		stamp:     timesync.ReadCounter24(b[1:]),
		reports:   flags&flagReport != 0,
		anchored:  flags&flagAnchor != 0,
		hasAnchor: flags&flagHasAnchor != 0,
		asks:      flags&flagAsks != 0,
		checks:    flags&flagChecks != 0,
	}
	b = b[MinHeader:]
	if h.reports {
		if len(b) < reportLen {
			return header{}, nil, ErrTruncated
		}
		h.minDelta = timesync.ReadCounter24(b)
		b = b[reportLen:]
	}
	if h.anchored {
		if len(b) < anchorLen {
			return header{}, nil, ErrTruncated
		}
		h.anchor = binary.LittleEndian.Uint64(b)
		b = b[anchorLen:]
		if timesync.LocalTimeToDatagramTS24(h.anchor) != h.stamp {
			return header{}, nil, ErrAnchor
		}
	}
	return h, b, nil
}

// Reset forgets the peer, as for a new connection. Snapshot.Steps goes on counting; if the offset
// was known, Reset counts as a step.
//
// Call it also after this machine slept while its clock stood still, once what waited in the socket
// is dropped; see clock.SleepWatch. Until then the time is wrong by the sleep, although Within is
// nil. Without Reset the first datagrams mend the time, but Within fails for timesync.SettleTime.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reset()
}

// reset is Reset for a caller that holds mu.
func (l *Link) reset() {
	l.input().Reset()
	l.hasAnchor = false
	l.heardOfUs = false
	l.wasSilent = false
	l.peerChecks = false
	l.knewUs = false
	l.anew = streak{}
	l.owed = false
	l.reporting = false
	l.peerReport = 0
	l.spoke = false
}

// RemoteTime returns the peer's clock at localUsec, both in microseconds. It is the full reading,
// because the peer's anchor came with its first datagrams. ok is false while it is not known. See
// timesync.TimeSynchronizer.RemoteTime.
func (l *Link) RemoteTime(localUsec uint64) (remoteUsec uint64, ok bool) {
	return l.sync.RemoteTime(localUsec)
}

// ToRemoteTime23 returns the peer's clock at localUsec, for a payload, as
// timesync.TimeSynchronizer.ToRemoteTime23 does.
func (l *Link) ToRemoteTime23(localUsec uint64) (timesync.Counter23, bool) {
	return l.sync.ToRemoteTime23(localUsec)
}

// MinimumOneWayDelay returns the shortest recent one-way delay from the peer, as
// timesync.TimeSynchronizer.MinimumOneWayDelay does.
func (l *Link) MinimumOneWayDelay() (delay time.Duration, ok bool) {
	return l.sync.MinimumOneWayDelay()
}

// MinimumDelayToPeer returns the shortest recent one-way delay to the peer, as
// timesync.TimeSynchronizer.MinimumDelayToPeer does.
func (l *Link) MinimumDelayToPeer() (delay time.Duration, ok bool) {
	return l.sync.MinimumDelayToPeer()
}

// ErrorBound returns how far RemoteTime may be off at localUsec, as
// timesync.TimeSynchronizer.ErrorBound does.
func (l *Link) ErrorBound(localUsec uint64) (bound time.Duration, ok bool) {
	return l.sync.ErrorBound(localUsec)
}

// Skew returns the rate of the peer's clock minus ours, in parts per million, as
// timesync.TimeSynchronizer.Skew does.
func (l *Link) Skew() (ppm float64, ok bool) { return l.sync.Skew() }

// Snapshot returns everything that is known at localUsec, as timesync.TimeSynchronizer.Snapshot
// does.
func (l *Link) Snapshot(localUsec uint64) (s timesync.Snapshot, ok bool) {
	return l.sync.Snapshot(localUsec)
}

// Stats returns the counts so far, as timesync.TimeSynchronizer.Stats does.
func (l *Link) Stats() timesync.Stats { return l.sync.Stats() }
