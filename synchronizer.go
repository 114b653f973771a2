// SPDX-License-Identifier: BSD-3-Clause

package timesync

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"
)

// This file reads from top to bottom, and each part calls only what stands below it:
//
//	the synchronizer and its inputs
//	its answers
//	the association: both ways together
//	reports: what the peer says, and what it is told
//	the clock: offset, rate, and how well that is known
//	the arbiter between path and clock
//	the interval that contains the offset: the error bound
//	the floor of one way: gates, level shifts
//	the points below which the floor lies: level and slope
//	coarse clocks
//	what readers see
//
// # The model
//
// Times called x are microseconds of the local clock since the first datagram; all else is in
// microseconds, too. "In" is the way from the peer, "out" the way to it.
//
// There is one clock, with the offset r, remote minus local, which changes by the skew s. There are two
// ways of one type. Each has a floor: the delay of a datagram that does not queue. What is measured:
//
//	delta_in  = time of receipt - stamp   = delay_in + queue - r      each datagram
//	delta_out = the same at the peer      = delay_out + queue + r     in reports
//
// A report is the least delta since the report before, a datagram that really was. So both ways are
// told the same: samples, each the fastest datagram of some time. In samples are buckets of 0.2 s.
//
//	take(way, sample):
//	    the interval: no delay is negative, so the offset is at most so far off on this side
//	    below the gate            the floor falls there: a clock, or a shorter path
//	    near                      it is a candidate for the next point
//	    far above, and for long   the floor rises: a longer path
//	    the points' slope says how fast the clock runs, as this way sees it
//
// What both ways say together decides between path and clock, since no clock is in the round trip, the
// sum of both floors, and a clock moves both floors by the same in opposite directions:
//
//	their slopes agree             that is the skew
//	they do not                    a path ramps: the skew is the middle one of both and what was known
//	the round trip is another one  the offset moves no farther than half of the difference forces it to
//	one way fell, and the other one is late by as much: a clock was set
//	a round trip below zero        a clock was set, and the other way will show it
//	the round trip lacks a little, and one way is late by that for longer than is usual: a clock is
//	                               slewed. Its floor rises by that, and the skew bends
//
// Floors are kept as delays, points as deltas. So a clock that turns moves no point, and a clock that is
// set moves no floor.
//
// What is assumed: now and then a datagram hardly queues; s changes by 0.1 ppm a second at most, but
// where a clock is set or slewed; a path stays as it is, but where it changes.
//
// An original reports minima of ten seconds, and believes what it is told as it is. Beside one, its
// reports are taken for the floor itself, and it is told our floor. docs/DESIGN.md derives each rule.

// ---- The synchronizer and its inputs ----

// TimeSynchronizer estimates the offset between the local clock and the clock of
// one peer from datagrams that carry a 3-byte stamp. The zero value is ready to
// use; it must not be copied after first use.
//
// One goroutine at a time may call OnAuthenticatedDatagramTimestamp,
// OnPeerMinDeltaTS24, Anchor and Reset. All other methods may be called from any
// goroutine at any time; they never block for long and see one consistent state.
//
// Times are readings of the local clock in microseconds. It may start anywhere and it
// may wrap; it should be monotonic and must not be slewed or set on purpose.
type TimeSynchronizer struct {
	bucket    bucket // under way
	both      association
	base      uint64 // local time, us, at which x is 0
	published published
	_         [16]byte // it ends a cache line: neighbours in a slice share none
}

const (
	second         = 1e6  // us: also the largest reordering of receive times, and more than any jitter
	longestSilence = 1e15 // us: 31 years; a local clock that is further ahead was set
)

// OnAuthenticatedDatagramTimestamp takes the stamp of a datagram that arrived at
// localRecvUsec and returns the datagram's one-way delay; ok is false while the
// offset is not known. Call it only for datagrams that are proven to come from the
// peer: whoever can forge a stamp can move the clock.
//
// Datagrams may be lost, repeated and reordered, and receive times may go back, as
// when two threads swap datagrams. Up to two datagrams in a row that are faster than the
// path seems to allow change nothing, and owd is the shortest delay known, unless more come in each of the
// spans, of a fifth of a second or until the next datagram, that the estimator judges at once.
func (s *TimeSynchronizer) OnAuthenticatedDatagramTimestamp(remoteSendTS24 Counter24, localRecvUsec uint64) (owd time.Duration, ok bool) {
	// Nearly all datagrams queue a little, within the bucket under way: they are done here.
	b := &s.bucket
	dx := localRecvUsec - b.at
	y := wrap(dx*uint64(b.rate)>>31-uint64(remoteSendTS24)<<ts24Shift-b.origin, deltaBits)
	b.count++
	if dx < uint64(b.span) && uint64(y) < maxDelta {
		b.add(int32(y))
		b.untold = min(b.untold, int32(y))
		return time.Duration(int64(b.delay)+y) * time.Microsecond, true
	}
	return s.slowPath(remoteSendTS24, localRecvUsec)
}

// slowPath takes a datagram that ends the bucket or may change more.
func (s *TimeSynchronizer) slowPath(stamp Counter24, localUsec uint64) (owd time.Duration, ok bool) {
	raw := deltaOf(stamp, localUsec)
	if !s.both.begun() || !s.both.sane() {
		s.start(raw, localUsec)
	}
	x := s.advance(localUsec)
	b := &s.bucket
	s.notice(x)
	silence := x - b.from
	if silence >= bucketTime {
		s.endBucket(x)
		s.both.heardAgain(in, x, silence)
	}
	floor := s.both.delta(in, x)
	above, believed := s.both.datagram(x, raw, b)
	if silence > 2*second {
		s.both.endSilence(x, silence, above)
	}
	b.rise(s.both.delta(in, x) - floor)
	if believed {
		b.add(int32(above))
	}
	s.show(x)
	if !s.both.peer.known {
		return 0, false
	}
	return time.Duration(int64(b.delay)+int64(above)) * time.Microsecond, true
}

// notice takes what readers and the fast path did since the slow path was last taken: whether the report was told, and
// the fastest datagram.
func (s *TimeSynchronizer) notice(x float64) {
	if s.published.report.isTold() {
		s.both.outgoing = outgoing{}
	}
	if b := &s.bucket; b.untold < math.MaxInt32 {
		s.both.outgoing.note(s.both.delta(in, x)+float64(b.untold), x, s.both.clock.skew)
		b.untold = math.MaxInt32
	}
}

// endBucket ends the bucket under way at x.
func (s *TimeSynchronizer) endBucket(x float64) {
	b := &s.bucket
	s.published.setJitter(uint32(b.jitter))
	if s.both.endBucket(x, b) {
		s.published.late.Store(s.published.late.Load() + 1)
	}
	s.published.datagrams.Store(s.published.datagrams.Load() + uint64(b.count) - 1)
	b.count = 1
	b.begin(x)
}

// show shows readers, the sender and the fast path what is known at x.
func (s *TimeSynchronizer) show(x float64) {
	s.publish(x)
	now := s.base + uint64(int64(x))
	s.published.report.set(s.both.toReport(x), now, s.both.peer.isOriginal(), s.both.outgoing.some)
	s.prepare(now, x)
}

// start begins with the first datagram, or anew where the state is one that cannot be.
func (s *TimeSynchronizer) start(raw, localUsec uint64) {
	var v view
	if s.published.load(&v) {
		v.whole = v.remote(localUsec) - localUsec
	}
	s.published.show(&view{clockMap: clockMap{whole: v.whole}, steps: v.steps})
	waited, early := float64(int64(localUsec-s.published.heard.Load())), s.both.peer.last
	s.base = localUsec
	s.both.start(float64(wrap(raw, deltaBits)))
	s.bucket.begin(0)
	if early != 0 { // it is as if it came now
		s.both.report(min(max(-waited, -second), second), early)
	}
}

// advance returns localUsec as microseconds since base, and moves base where the local clock was set.
func (s *TimeSynchronizer) advance(localUsec uint64) (x float64) {
	x = float64(int64(localUsec - s.base))
	if ahead := x - s.bucket.from; ahead < -second || ahead > longestSilence {
		// The local clock was set. Times go on from where they were; by how much the
		// offset changed, the deltas will show.
		s.base += uint64(int64(ahead))
		s.published.heard.Store(s.published.heard.Load() + uint64(int64(ahead)))
		x = s.bucket.from
		s.both.interval.clockStep(x)
		s.both.dirty = true
	}
	return x
}

// prepare readies the fast path: it says which datagrams need no more from now on.
func (s *TimeSynchronizer) prepare(localUsec uint64, x float64) {
	b := &s.bucket
	b.at, b.span = localUsec, 0
	if s.both.peer.known && s.both.outliers.row == 0 && !s.both.dirty { // else readers are to hear as soon as may be
		b.origin = uint64(int64(math.RoundToEven(s.both.delta(in, x)))) - localUsec
		b.rate = uint32((1 + s.both.clock.skew) * (1 << 31))
		b.span = uint32(max(bucketTime-(x-b.from), 0))
	}
}

// OnPeerMinDeltaTS24 takes what the peer's MinDeltaTS24 returned, which arrived at
// localRecvUsec. A report that comes before the first datagram counts from the first datagram on.
// A report of 0 says that nothing has arrived there since the one before: it counts for Snapshot.Age
// only. If your datagrams overtake each other, pass no report that was sent before one that you passed
// in the second before: it looks as if the floor had risen.
func (s *TimeSynchronizer) OnPeerMinDeltaTS24(minDelta Counter24, localRecvUsec uint64) {
	minDelta = NewCounter24(uint64(minDelta))
	if !s.both.begun() || !s.both.sane() {
		if minDelta != 0 {
			s.both.peer.last = minDelta
			s.published.heard.Store(localRecvUsec)
		}
		return
	}
	x := s.advance(localRecvUsec)
	s.published.heard.Store(localRecvUsec)
	if minDelta == 0 {
		s.both.peer.told = s.both.sentAt(x)
		return
	}
	s.notice(x)
	floor := s.both.delta(in, x)
	s.both.report(x, minDelta)
	s.published.patience.Store(uint32(s.both.ways[out].patience() / 1000))
	s.bucket.rise(s.both.delta(in, x) - floor)
	s.show(x)
}

// Anchor says that the remote clock read remoteUsec, its full 64 bits, when the peer sent the
// message that arrived at localUsec, up to 66 s later. Datagrams show the offset modulo 67.1 s
// only: from the first Anchor on RemoteTime returns full readings. That one may come before the first
// datagram. Later, call it for each report, after OnPeerMinDeltaTS24: a sleep or a set of more than 33.5 s
// changes the multiple, and after a silence Within waits for an anchor.
//
// An anchor that contradicts what is known lets Within return ErrAmbiguous. It is taken at once if it is
// ahead, since no message comes from the future. If it is behind, the message may have been held up: it
// takes three of them in a row, over 2 s. Either is a step.
func (s *TimeSynchronizer) Anchor(localUsec, remoteUsec uint64) {
	a := &s.both.anchors
	var v view
	if !s.published.load(&v) {
		a.known = true
		v.whole = remoteUsec - localUsec
		s.published.show(&v)
		return
	}
	x := float64(int64(localUsec - s.base))
	confirmed := a.confirmed
	behind := int64(v.remote(localUsec) - remoteUsec)
	turns := a.take(x, behind, s.both.delay(in), s.both.outliers.row > 0)
	if turns != 0 {
		v.whole -= uint64(turns) << offsetBits
		v.steps++
		s.both.dirty = true
	}
	if i := &s.both.interval; turns != 0 && confirmed && i.undisturbed(x) > settledTime {
		i.clockStep(x) // else this is part of the last one
	}
	if state := v.state&^(unchecked|ambiguous) | s.both.doubts(); turns != 0 || state != v.state {
		v.state = state
		s.published.show(&v)
	}
}

// Reset forgets everything, as when the peer is replaced by another. Steps goes on; if the offset
// was known, Reset counts as a step.
func (s *TimeSynchronizer) Reset() {
	var v view
	if s.published.load(&v) {
		v.steps++
	}
	s.bucket, s.both, s.base = bucket{}, association{}, 0
	s.published.show(&view{steps: v.steps})
	s.published.datagrams.Store(0)
	s.published.late.Store(0)
	s.published.setJitter(0)
	s.published.report.word.Store(0)
}

const (
	maxSlew      = 50e3 // us: larger corrections are steps
	readerMargin = 20e3 // us: so far may a reader be ahead of the last datagram, or behind it
)

// publish shows readers what is known, if it is news to them. A correction begins a readerMargin after
// now, and waits until the one before has been over for as long, unless both come at the same
// time: then what readers read within the readerMargin, before or after now, is final. A large one is a
// step, at once.
func (s *TimeSynchronizer) publish(x float64) {
	if !s.both.dirty {
		return
	}
	now := s.base + uint64(int64(x))
	var old view
	known := s.published.load(&old)
	since := int64(now - old.from)
	waits := known && since > -readerMargin && since < abs(old.slew())>>31+readerMargin // slewing takes twice what is slewed
	from := now
	if waits {
		from = old.from
	} else if known {
		from += readerMargin
	}
	var v view
	s.both.view(&v, x+float64(int64(from-now)), old.whole)
	v.from, v.steps = from, old.steps
	began := int64(from - old.from)
	whole, part := old.offset(began, old.skewAt(began))
	excess := wrap((whole-v.whole)<<32+uint64(part)-v.rest>>32, offsetBits+32) // 2^-32 us
	s.both.dirty = false
	switch {
	case !known: // nothing to correct
	case abs(excess) > maxSlew<<32 || abs(excess) > 500<<32 && s.both.interval.undisturbed(x) < settledTime: // 0.5 ms: a clock was set by so much
		s.both.view(&v, x, whole)
		v.from, v.steps = now, old.steps+1
	case waits:
		s.both.dirty = true
		v.clockMap = old.clockMap
		v.bound += float32(abs(excess-old.slewLeft(began))) / (1 << 32) // readers go on to where the old one leads
	default:
		left := excess / (1 << 24)
		fine := int64(part) - left<<24
		v.whole, v.rest = whole+uint64(fine>>32), join(uint32(fine), uint32(left))
		v.rates = join(uint32(old.skewAt(since)), uint32(v.rates))
	}
	s.bucket.delay = int32(v.delay) // as readers see it
	s.published.show(&v)
}

// ---- Answers ----

// IsSynchronized reports whether the offset is known: since the first datagram and
// the first report.
func (s *TimeSynchronizer) IsSynchronized() bool { return s.published.seq.Load()&synced != 0 }

// MinDeltaTS24 returns what to report to the peer at localUsec: the least receive time minus send
// stamp of all datagrams since the last report, as of now, in units of 8 us modulo 2^24. Send it in the
// next datagram. ok is false before the first datagram. A result of 0 with ok tells the peer that nothing
// has come since.
//
// Reading a report ends its interval, so read one only to send it. Each datagram counts in one report.
// One that came in the last 0.2 s may count in the next report.
//
//   - A repeated call returns the same number until another datagram counts, or from a second later
//     on 0. The peer takes a number that comes twice within a second as one report. So several
//     goroutines may read and send reports.
//   - A report that is lost, or that is read and not sent, takes with it what was least in its own
//     interval, and nothing else. Read it each second, and the peer misses one second.
//
// Where the peer is an original, which believes the last report as it is, each call returns the
// delay floor. The remainder of a report by 3 is 0 or 1. That of an original may be 2: one such report, and the peer
// counts as an original until 64 reports, each unlike the one before, had another. A report is at most 13 us off.
func (s *TimeSynchronizer) MinDeltaTS24(localUsec uint64) (minDelta Counter24, ok bool) {
	_, r := s.published.clockMap()
	return s.published.report.tell(localUsec, r)
}

// RemoteTime returns the remote clock, in microseconds, at the local time localUsec.
// It counts from what Anchor was told. Without an Anchor the first offset is taken to be within
// 33.5 s of 0, so the result may be off by a fixed multiple of 67.1 s; a negative result wraps to
// near 2^64. ok is false while the offset is not known.
//
// For increasing local times the result never goes back except at a step, which
// increments Snapshot.Steps: corrections of up to 50 ms are slewed at half the speed of
// time, or of up to 0.5 ms after a clock was set. A clock that is set by more than 33.5 s
// is followed modulo 67.1 s.
//
// A reading from 20 ms before the last datagram to 20 ms after it is final: only a step changes
// it, or a datagram whose time of receipt goes back. An earlier time is extrapolated back at the rate
// of that time.
func (s *TimeSynchronizer) RemoteTime(localUsec uint64) (remoteUsec uint64, ok bool) {
	seq, r := s.published.clockMap()
	if seq&synced == 0 {
		return 0, false
	}
	x := int64(localUsec - r.from)
	whole, _ := r.offset(x, r.skewAt(x)) // as in remote, which is too long to be inlined
	return localUsec + whole, true
}

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

// ToRemoteTime16 returns the peer's clock at the local time localUsec, for a payload. The peer
// reads it with FromLocalTime16. The result is rounded to the nearest unit of 512 us, which adds
// at most 256 us to the error of the offset. ok is false while the offset is not known. The result is
// as far off as ErrorBound here, which the peer cannot see, so send it only while Snapshot.Within is nil.
//
// It may be called from any goroutine.
func (s *TimeSynchronizer) ToRemoteTime16(localUsec uint64) (ts Counter16, ok bool) {
	remote, ok := s.RemoteTime(localUsec)
	return NewCounter16((remote + 1<<(ts16Shift-1)) >> ts16Shift), ok // 0 is 0 in units, too
}

// LocalTime returns the local time, in microseconds, at which RemoteTime reaches remoteUsec:
// the inverse, with the same promises. RemoteTime of the result is remoteUsec or 1 us more. For a
// future time the answer may change with later datagrams. Without an Anchor, remoteUsec must be a
// reading as RemoteTime gives them, as far off as they are. ok is false while the offset is not
// known.
func (s *TimeSynchronizer) LocalTime(remoteUsec uint64) (localUsec uint64, ok bool) {
	var v view
	if !s.published.load(&v) {
		return 0, false
	}
	localUsec = remoteUsec - v.whole
	// Remote clocks run at half to one and a half times the local speed, so each round at least
	// halves what is missing, and 64 rounds make nothing of anything.
	for range 64 {
		missing := int64(remoteUsec - v.remote(localUsec))
		if localUsec += uint64(missing); missing >= -1 && missing <= 1 {
			break
		}
	}
	for i := 0; i < 4 && int64(v.remote(localUsec-1)-remoteUsec) >= 0; i++ {
		localUsec--
	}
	for i := 0; i < 4 && int64(v.remote(localUsec)-remoteUsec) < 0; i++ {
		localUsec++
	}
	return localUsec, true
}

// MinimumOneWayDelay returns the shortest time that a datagram was recently under way, never
// negative; at first half the round trip, because two ends cannot measure how unequal the ways
// are. A way that becomes longer shows after 10 s. ok is false while the offset is not known.
func (s *TimeSynchronizer) MinimumOneWayDelay() (delay time.Duration, ok bool) {
	var v view
	ok = s.published.load(&v)
	return micros(float64(v.delay)), ok
}

// MinimumDelayToPeer returns the shortest time that a datagram to the peer was recently under
// way, never negative; at first half the round trip. MinimumOneWayDelay is the way from the peer.
// Both delays together are the round trip. ok is false while the offset is not known.
func (s *TimeSynchronizer) MinimumDelayToPeer() (delay time.Duration, ok bool) {
	var v view
	ok = s.published.load(&v)
	return micros(float64(v.toPeer)), ok
}

// Skew returns the rate of the remote clock minus that of the local clock, in parts
// per million, at most 1000 either way. ok is false while it is not known to 25 ppm;
// RemoteTime runs at the best guess until then. At 60 datagrams a second each way that takes
// 3 s with 0.1 ms of jitter, 11 s with 3 ms and 21 s with 10 ms; at one a second 15, 103 and
// 156 s (medians, docs/PRODUCTION.md). Snapshot.SkewError says how well it is known.
func (s *TimeSynchronizer) Skew() (ppm float64, ok bool) {
	var v view
	if !s.published.load(&v) || v.dispersion > priorSkew/4 {
		return 0, false
	}
	return v.ppm(), true
}

// ErrorBound returns how far RemoteTime may be off at localUsec, whatever the asymmetry of the
// path, while no clock is set and their rates differ by at most 500 ppm: half the round trip, plus what
// the clocks may have drifted apart since the last useful datagram and report. Stalls, short queues and
// paths that become longer do not widen it. For up to SettleTime after a clock was set it may be wrong, or
// longer if the path became another one at the same moment; Snapshot.SinceStep says when that was last
// noticed. It is at most 33.6 s, since datagrams show the offset modulo 67.1 s. ok is false while the
// offset is not known.
func (s *TimeSynchronizer) ErrorBound(localUsec uint64) (bound time.Duration, ok bool) {
	snapshot, ok := s.Snapshot(localUsec)
	return snapshot.ErrorBound, ok
}

// Snapshot is everything that is known at one local time, RemoteUsec-OffsetUsec, all from the
// same state. It is also a mapping from the local to the remote clock that can be kept, asked for
// other times, put together with the next one by Then, and sent to another machine by
// AppendBinary. The zero value knows nothing. A Snapshot is a value: it never changes.
type Snapshot struct {
	RemoteUsec         uint64        // the remote clock, see RemoteTime
	OffsetUsec         int64         // remote minus local clock
	ErrorBound         time.Duration // of the two, see TimeSynchronizer.ErrorBound; 0 in the zero value only
	MinimumOneWayDelay time.Duration // shortest one-way delay recently, from the peer
	MinimumDelayToPeer time.Duration // shortest one-way delay recently, to the peer
	Jitter             time.Duration // interarrival jitter of RFC 3550, section 6.4.1; up to 0.2 s late
	FloorScatter       time.Duration // mean distance of the fastest datagrams from the shortest delay; 0 until it is known
	Age                time.Duration // since the last report
	SilentAfter        time.Duration // the Age from which on the peer is silent: 15 s, or 4 usual times between two reports
	SinceStep          time.Duration // since a clock step was last noticed, or since the first datagram
	Skew               float64       // remote minus local rate, parts per million, however well it is known
	SkewError          float64       // by how much Skew may be off, parts per million: 6 standard errors, and what rates change by
	Steps              uint32        // jumps of the remote time so far, of which one event may make several; the first synchronization does not count
	StepSeen           bool          // a clock step was noticed since the first datagram
	Unchecked          bool          // since a silence or a clock step not enough has arrived to check what is known
	Ambiguous          bool          // the multiple of 67.1 s is in doubt, see Anchor
	Hops               uint8         // mappings that Then put behind the first one
}

// Known reports whether the snapshot knows anything. The zero value does not.
func (s Snapshot) Known() bool { return s.ErrorBound != 0 } // else it is more than that

// Snapshot returns what is known at localUsec. ok is false while the offset is not known.
func (s *TimeSynchronizer) Snapshot(localUsec uint64) (snapshot Snapshot, ok bool) {
	var v view
	if !s.published.load(&v) {
		return Snapshot{}, false
	}
	remote := v.remote(localUsec)
	x := int64(localUsec - v.from)
	snapshot = Snapshot{
		RemoteUsec:         remote,
		OffsetUsec:         int64(remote - localUsec),
		ErrorBound:         micros(v.boundAt(x)),
		MinimumOneWayDelay: micros(float64(v.delay)),
		MinimumDelayToPeer: micros(float64(v.toPeer)),
		Jitter:             time.Duration(v.jitter>>jitterBits) * time.Microsecond,
		Age:                micros(max(float64(int64(localUsec-s.published.heard.Load())), 0)),
		SilentAfter:        time.Duration(max(s.published.patience.Load(), settledTime/1000)) * time.Millisecond,
		SinceStep:          micros(max(float64(v.undisturbed)+float64(x), 0)),
		Skew:               v.ppm(),
		SkewError:          (float64(v.dispersion) + skewDrift*abs(float64(x)+readerMargin)) * 1e6, // as fast as boundAt grows there
		Steps:              v.steps,
		StepSeen:           v.state&disturbed != 0,
		Unchecked:          v.state&unchecked != 0,
		Ambiguous:          v.state&ambiguous != 0,
	}
	if v.scatter < second {
		snapshot.FloorScatter = micros(float64(v.scatter))
	}
	return snapshot, true
}

// SettleTime is how long Within fails after a clock step was noticed: by then both ends have seen the
// step and told each other. A peer that is silent for as long may have set its clock meanwhile.
const SettleTime = 15 * time.Second

// What Within returns. Compare with errors.Is.
var (
	ErrUnsynchronized = errors.New("timesync: the remote clock is not known yet")
	ErrSilent         = errors.New("timesync: no report from the peer for 15 s or longer")
	ErrAmbiguous      = errors.New("timesync: the remote clock may be off by a multiple of 67.1 s")
	ErrStepped        = errors.New("timesync: a clock was set less than 15 s ago")
	ErrUnchecked      = errors.New("timesync: not checked yet since a silence or a clock step")
	ErrWide           = errors.New("timesync: the error bound is wider than tolerable")
)

// Within returns nil if RemoteUsec may be relied on to be at most tolerable from the truth, modulo
// 67.1 s where Anchor is not called. Else the error says why not. It is the first that applies, in the
// order in which a program can ask the fields:
//
//	ErrUnsynchronized  Known is false: nothing is known
//	ErrSilent          Age is SilentAfter or more: the peer was silent for too long
//	ErrAmbiguous       Ambiguous: an anchor contradicts what is known, or the round trip is 67.1 s or longer
//	ErrStepped         StepSeen, and SinceStep is less than SettleTime: a clock was set
//	ErrUnchecked       Unchecked: the peer was silent, and a clock may have been set meanwhile
//	ErrWide            ErrorBound is above tolerable; it is half the round trip at least
//
// A clock step is noticed after the next datagram, or the next datagram and report: with package
// link within 2.1 s, at four datagrams a second within 3 s, if none is lost. Until then Within answers
// as before. After a silence Within does not: it waits for datagrams, reports and an anchor
// that show whether a clock was set.
func (s Snapshot) Within(tolerable time.Duration) error {
	switch {
	case !s.Known():
		return ErrUnsynchronized
	case s.Age >= s.silentAfter():
		return ErrSilent
	case s.Ambiguous:
		return ErrAmbiguous
	case s.StepSeen && s.SinceStep < SettleTime:
		return ErrStepped
	case s.Unchecked:
		return ErrUnchecked
	case s.ErrorBound > tolerable:
		return ErrWide
	}
	return nil
}

// silentAfter returns SilentAfter, also of a Snapshot that nobody filled in.
func (s Snapshot) silentAfter() time.Duration { return max(s.SilentAfter, SettleTime) }

// String returns the snapshot in a line for logs.
func (s Snapshot) String() string {
	if !s.Known() {
		return "not synchronized"
	}
	scatter, since := "unknown", "the start"
	if s.FloorScatter > 0 {
		scatter = s.FloorScatter.String()
	}
	if s.StepSeen {
		since = "a clock was set"
	}
	silent, doubt := "", ""
	if s.silentAfter() > SettleTime {
		silent = fmt.Sprintf(" of at most %v", s.SilentAfter)
	}
	if s.Unchecked {
		doubt += ", unchecked"
	}
	if s.Ambiguous {
		doubt += ", ambiguous"
	}
	return fmt.Sprintf("offset %d us +-%v, skew %.3f+-%.3f ppm, delay %v in, %v out, jitter %v, scatter %s, report %v ago%s, %v since %s, %d steps, %d hops%s",
		s.OffsetUsec, s.ErrorBound, s.Skew, s.SkewError, s.MinimumOneWayDelay, s.MinimumDelayToPeer, s.Jitter, scatter, s.Age, silent, s.SinceStep, since, s.Steps, s.Hops, doubt)
}

// LogValue returns the snapshot for package log/slog: a group of always the same attributes. They are 0 where known
// is false.
func (s Snapshot) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Bool("known", s.Known()),
		slog.Int64("offset_us", s.OffsetUsec),
		slog.Duration("error_bound", s.ErrorBound),
		slog.Float64("skew_ppm", s.Skew),
		slog.Float64("skew_error_ppm", s.SkewError),
		slog.Duration("min_one_way_delay", s.MinimumOneWayDelay),
		slog.Duration("min_delay_to_peer", s.MinimumDelayToPeer),
		slog.Duration("jitter", s.Jitter),
		slog.Duration("floor_scatter", s.FloorScatter),
		slog.Duration("age", s.Age),
		slog.Duration("silent_after", s.SilentAfter),
		slog.Duration("since_step", s.SinceStep),
		slog.Bool("step_seen", s.StepSeen),
		slog.Bool("unchecked", s.Unchecked),
		slog.Bool("ambiguous", s.Ambiguous),
		slog.Uint64("steps", uint64(s.Steps)),
		slog.Uint64("hops", uint64(s.Hops)),
	)
}

// localUsec returns when the snapshot was taken, on the local clock.
func (s Snapshot) localUsec() uint64 { return s.RemoteUsec - uint64(s.OffsetUsec) }

// remote returns the remote clock x us later.
func (s Snapshot) remote(x int64) uint64 {
	return s.RemoteUsec + uint64(x) + uint64(int64(math.Floor(s.Skew*float64(x)/1e6)))
}

// widening returns by how much the error bound grows in the time away, both in us. The clocks of
// each pair change their rate by themselves.
func (s Snapshot) widening(away float64) float64 {
	return (s.SkewError*1e-6 + s.skewDrift()/2*away) * away
}

func (s Snapshot) skewDrift() float64 { return skewDrift * (1 + float64(s.Hops)) }

// At returns what the snapshot says of another local time, later or earlier: RemoteUsec,
// OffsetUsec, ErrorBound, Age, SinceStep and SkewError as of then. The remote time goes on at
// the rate that Skew says. ErrorBound becomes wider in both directions, by SkewError and by the
// most that rates change. Unlike a TimeSynchronizer it does not see what happens to the clocks
// after it was taken.
func (s Snapshot) At(localUsec uint64) Snapshot {
	x := int64(localUsec - s.localUsec())
	if !s.Known() || x == 0 {
		return s
	}
	away := abs(float64(x))
	s.RemoteUsec = s.remote(x)
	s.OffsetUsec = int64(s.RemoteUsec - localUsec)
	s.ErrorBound = wider(s.ErrorBound, s.widening(away)+1) // 1 us: the remote time is rounded
	s.SkewError += s.skewDrift() * away * 1e6
	s.Age, s.SinceStep = later(s.Age, x), later(s.SinceStep, x)
	return s
}

// wider returns bound and us more, rounded up, at most the longest duration.
func wider(bound time.Duration, us float64) time.Duration {
	if us = math.Ceil(us); us < float64(math.MaxInt64-bound)/1000 {
		return bound + time.Duration(us)*time.Microsecond
	}
	return math.MaxInt64
}

// later returns what age is x us later, from 0 to the longest duration.
func later(age time.Duration, x int64) time.Duration {
	return micros(max(float64(age)/1000+float64(x), 0))
}

// LocalTime returns the local time, in microseconds, at which the remote clock reads remoteUsec:
// the first one at which At says so, or 1 us more. The result may be off by what
// At(result).ErrorBound says. Of the zero value it is remoteUsec.
func (s Snapshot) LocalTime(remoteUsec uint64) (localUsec uint64) {
	rate := s.Skew * 1e-6
	d := int64(remoteUsec - s.RemoteUsec)
	x := d - int64(rate/(1+rate)*float64(d))
	for i := 0; i < 4 && int64(s.remote(x-1)-remoteUsec) >= 0; i++ { // rounding
		x--
	}
	for i := 0; i < 4 && int64(s.remote(x)-remoteUsec) < 0; i++ {
		x++
	}
	return s.localUsec() + uint64(x)
}

// Interval returns the first and the last remote time, in microseconds, that the error bound
// allows; At(localUsec).Interval() does for another local time. Of the zero value they are 0 and
// the largest number, for all times.
func (s Snapshot) Interval() (earliestUsec, latestUsec uint64) {
	if !s.Known() {
		return 0, math.MaxUint64
	}
	bound := uint64((s.ErrorBound-1)/time.Microsecond) + 1
	return s.RemoteUsec - bound, s.RemoteUsec + bound
}

// Then puts two mappings together: s leads from the local clock to a second one, next from that
// one to a third. The result leads from the local clock to the third, at the local time of s, as
// when a relay tells its receivers what it knows of a sender. next may have been taken earlier or
// later; Then asks it At the time of s. It must be about the second clock that s is about: if the
// second computer started anew, an earlier next is about another one.
//
// Offsets, rates, delays and jitters add up, and so do their errors. Age and SilentAfter are those of the one that is
// nearer to being silent, SinceStep is the shorter one, and StepSeen says whether Within is to wait for that. Steps is no
// count any more; it changes when one of both does. If one mapping is the zero value, so is the
// result.
func (s Snapshot) Then(next Snapshot) Snapshot {
	if !s.Known() || !next.Known() {
		return Snapshot{}
	}
	next = next.At(s.RemoteUsec)
	// The second clock may read something else by s.ErrorBound, and next is as wide as it is there.
	off := float64(s.ErrorBound) / 1000
	both := Snapshot{
		RemoteUsec:         next.RemoteUsec,
		OffsetUsec:         s.OffsetUsec + next.OffsetUsec,
		ErrorBound:         wider(next.ErrorBound, off+next.widening(off)+abs(next.Skew)*1e-6*off),
		MinimumOneWayDelay: s.MinimumOneWayDelay + next.MinimumOneWayDelay,
		MinimumDelayToPeer: s.MinimumDelayToPeer + next.MinimumDelayToPeer,
		Jitter:             s.Jitter + next.Jitter,
		Age:                s.Age,
		SilentAfter:        s.silentAfter(),
		SinceStep:          min(s.SinceStep, next.SinceStep),
		Skew:               s.Skew + next.Skew + s.Skew*next.Skew*1e-6,
		SkewError:          s.SkewError + next.SkewError + (s.SkewError*(abs(next.Skew)+next.SkewError)+next.SkewError*abs(s.Skew))*1e-6,
		Steps:              31*s.Steps + next.Steps, // a sum would hide that one started anew, which is a step for the other
		StepSeen:           s.StepSeen,
		Unchecked:          s.Unchecked || next.Unchecked,
		Ambiguous:          s.Ambiguous || next.Ambiguous,
		Hops:               uint8(min(int(s.Hops)+int(next.Hops)+1, math.MaxUint8)),
	}
	if next.Age-next.silentAfter() > s.Age-s.silentAfter() {
		both.Age, both.SilentAfter = next.Age, next.silentAfter()
	}
	if next.SinceStep < s.SinceStep {
		both.StepSeen = next.StepSeen // that one began later, or its clock was set later
	}
	for _, one := range [...]Snapshot{s, next} {
		both.StepSeen = both.StepSeen || one.StepSeen && one.SinceStep < SettleTime
	}
	if s.FloorScatter > 0 && next.FloorScatter > 0 {
		both.FloorScatter = s.FloorScatter + next.FloorScatter
	}
	return both
}

const snapshotLen = 63 // bytes: AppendBinary has the format

var errSnapshot = errors.New("timesync: not a snapshot, or one of a version that is not known")

// AppendBinary appends the 63 bytes of a Snapshot that travels. The error is always nil. Integers
// are little-endian:
//
//	version             1 byte: 1
//	flags               1 byte: 1 StepSeen, 2 Unchecked, 4 Ambiguous; the other bits are 0
//	Hops                1 byte
//	local clock         8 bytes, us: when it was taken
//	RemoteUsec          8 bytes
//	ErrorBound          4 bytes, us, rounded up
//	MinimumOneWayDelay  4 bytes, us, as the two that follow
//	MinimumDelayToPeer  4 bytes
//	Jitter              4 bytes
//	FloorScatter        4 bytes
//	Age                 4 bytes, ms, rounded up
//	SilentAfter         4 bytes, ms
//	SinceStep         4 bytes, ms, rounded down
//	Skew                4 bytes, 2^-32, signed
//	SkewError           4 bytes, 2^-32, rounded up
//	Steps               4 bytes
//
// Durations that do not fit become the longest ones that do. If the ErrorBound or the rates do not
// fit, which is more than 71 minutes or a rate of half the time's, nothing is known: it travels as
// the zero value, and that as a version and zeros.
func (s Snapshot) AppendBinary(b []byte) ([]byte, error) {
	down := func(d, unit time.Duration) uint32 { return uint32(min(max(d, 0)/unit, math.MaxUint32)) }
	up := func(d, unit time.Duration) uint32 {
		n := down(d, unit)
		if d > time.Duration(n)*unit && n < math.MaxUint32 {
			n++
		}
		return n
	}
	skew := s.Skew * (1 << 32) / 1e6
	rate := math.Round(skew)
	off := math.Ceil(s.SkewError*(1<<32)/1e6 + abs(skew-rate))
	if !(abs(rate) <= math.MaxInt32 && off >= 0 && off <= math.MaxUint32 && s.ErrorBound > 0 && s.ErrorBound <= math.MaxUint32*time.Microsecond) {
		s, rate, off = Snapshot{}, 0, 0
	}
	flags := byte(0)
	for i, is := range [...]bool{s.StepSeen, s.Unchecked, s.Ambiguous} {
		if is {
			flags |= 1 << i
		}
	}
	b = append(b, 1, flags, s.Hops)
	b = binary.LittleEndian.AppendUint64(b, s.localUsec())
	b = binary.LittleEndian.AppendUint64(b, s.RemoteUsec)
	for _, n := range [...]uint32{
		up(s.ErrorBound, time.Microsecond), down(s.MinimumOneWayDelay, time.Microsecond), down(s.MinimumDelayToPeer, time.Microsecond),
		down(s.Jitter, time.Microsecond), down(s.FloorScatter, time.Microsecond), up(s.Age, time.Millisecond), down(s.SilentAfter, time.Millisecond), down(s.SinceStep, time.Millisecond),
		uint32(int32(rate)), uint32(off), s.Steps,
	} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b, nil
}

// MarshalBinary returns what AppendBinary appends.
func (s Snapshot) MarshalBinary() (data []byte, err error) { return s.AppendBinary(nil) }

// UnmarshalBinary sets s to what AppendBinary appended, which must be all of data. The error is
// ErrLength, or another one if data is no Snapshot; s is what it was then. Whoever could forge data
// can move the clock, as with a stamp.
func (s *Snapshot) UnmarshalBinary(data []byte) error {
	if len(data) != snapshotLen {
		return ErrLength
	}
	flags, local, remote := data[1], binary.LittleEndian.Uint64(data[3:]), binary.LittleEndian.Uint64(data[11:])
	var n [11]uint32
	for i := range n {
		n[i] = binary.LittleEndian.Uint32(data[19+4*i:])
	}
	got := Snapshot{
		RemoteUsec:         remote,
		OffsetUsec:         int64(remote - local),
		ErrorBound:         time.Duration(n[0]) * time.Microsecond,
		MinimumOneWayDelay: time.Duration(n[1]) * time.Microsecond,
		MinimumDelayToPeer: time.Duration(n[2]) * time.Microsecond,
		Jitter:             time.Duration(n[3]) * time.Microsecond,
		FloorScatter:       time.Duration(n[4]) * time.Microsecond,
		Age:                time.Duration(n[5]) * time.Millisecond,
		SilentAfter:        time.Duration(n[6]) * time.Millisecond,
		SinceStep:          time.Duration(n[7]) * time.Millisecond,
		Skew:               float64(int32(n[8])) * 1e6 / (1 << 32),
		SkewError:          float64(n[9]) * 1e6 / (1 << 32),
		Steps:              n[10],
		StepSeen:           flags&1 != 0,
		Unchecked:          flags&2 != 0,
		Ambiguous:          flags&4 != 0,
		Hops:               data[2],
	}
	switch {
	case data[0] != 1, flags&^7 != 0, !got.Known() && got != Snapshot{}, int32(n[8]) == math.MinInt32:
		return errSnapshot
	}
	*s = got
	return nil
}

// Stats counts since the start or Reset. It is up to 5 s late, and where datagrams end, until the next one.
type Stats struct {
	Datagrams   uint64 // taken
	QueuedSpans uint32 // spans of 0.2 s or more in which all datagrams queued
}

// LogValue returns the counts for package log/slog: a group of always the same attributes.
func (s Stats) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Uint64("datagrams", s.Datagrams),
		slog.Uint64("queued_spans", uint64(s.QueuedSpans)),
	)
}

// Stats returns what was counted.
func (s *TimeSynchronizer) Stats() Stats {
	return Stats{Datagrams: s.published.datagrams.Load(), QueuedSpans: s.published.late.Load()}
}

// ---- Anchors ----

const (
	turn     = 1 << offsetBits // us: the offset is known modulo this
	heldTime = 2 * second      // us: more than any round trip, after which a newer anchor comes
)

// anchors decide by how many turns the offset is off.
type anchors struct {
	known     bool    // one has come
	confirmed bool    // one has agreed since the offset is known
	disagrees bool    // the last one contradicts what is known
	row       uint8   // so many in a row are behind, by as much
	behind    int64   // turns: by so much
	from      float64 // x of the first of those
	agreed    float64 // x of the last one that agreed
}

// take takes an anchor at x, which is behind of the remote clock by so many us, and returns by how many turns that is
// to be set back. A datagram on the floor is under way for delay; that of this anchor was too early for it, or not.
func (a *anchors) take(x float64, behind int64, delay float64, early bool) (turns int64) {
	a.known = true
	turns = (behind + second) >> offsetBits
	a.disagrees = turns != 0
	late := float64(behind-turns<<offsetBits) - delay
	switch {
	case turns == 0:
	case early: // a clock was set: datagrams and reports are to tell that first
		a.row = 0
		return 0
	case !a.confirmed: // nothing was known of the turns
	case late < -second || late > turn/2: // a clock was set, as above
		a.row = 0
		return 0
	case (turns > 0 || late > second) && !a.inARow(x, turns): // it may have been held up, or a clock was set, as above
		return 0
	}
	a.confirmed, a.disagrees, a.row, a.agreed = true, false, 0, x
	return turns
}

// inARow counts an anchor that is behind, and reports whether it is to be believed.
func (a *anchors) inARow(x float64, turns int64) bool {
	if a.row == 0 || a.behind != turns {
		a.row, a.behind, a.from = 0, turns, x
	}
	a.row = min(a.row+1, longRun)
	return a.row >= outliersInARow && x-a.from >= heldTime
}

// ---- The association: both ways together ----

const (
	in, out = 0, 1 // the ways: from the peer, to the peer

	rounding = 13.0 // us: of a report or a stamp, at most
	sigmas   = 6.0  // standard errors of a rate: a few points far from normal gave them
)

var infinite = math.Inf(1)

// sign is that of the offset in the deltas of way d.
func sign(d int) float64 { return float64(2*d - 1) }

// association puts both ways together. Only it knows the parts, which know nothing of each other.
type association struct {
	ways     [2]way
	clock    clock
	arbiter  arbiter
	interval interval
	anchors  anchors
	peer     peer
	outgoing outgoing
	outliers outliers
	steps    resolution
	awaited  uint8   // 1 + the way that is where the round trip of before a clock step puts it, until it is heard of; 0: none
	before   float64 // us: that round trip
	fellFrom float64 // us: the round trip until a floor fell in warm-up; 0: none
	fellAt   float64 // x when it did
	fellWay  uint8   // the way whose floor it was
	awake    float64 // x when the last silence ended
	drifted  float64 // us: how far the clocks may have run apart in it
	dirty    bool    // readers are to be told something
}

// start begins with the level of the first datagram.
func (a *association) start(level float64) {
	*a = association{dirty: true, anchors: anchors{known: a.anchors.known}}
	a.interval.event = -settledTime
	a.clock.doubt(priorSkew)
	a.ways[in].start(level, 0)
}

// begun reports whether a datagram has arrived.
func (a *association) begun() bool { return a.ways[in].spacing > 0 }

// sane reports whether the state is one that can be. Only memory that breaks makes it otherwise.
func (a *association) sane() bool {
	i, o, c, r := &a.ways[in], &a.ways[out], &a.clock, &a.arbiter
	sum := i.sum() + o.sum() + c.offset + c.at + c.skew + c.sigma + c.prior.mean + c.prior.variance +
		r.reference + r.asymmetry + r.symmetric + r.age + r.candidate + r.candidateAge + r.expiry +
		a.interval.slack[in] + a.interval.slack[out] + a.interval.event + a.peer.sent
	delays := max(abs(i.level), abs(o.level), abs(r.reference), abs(r.symmetric), abs(r.asymmetry))
	spreads := min(i.spread, o.spread, i.meanResidual, o.meanResidual)
	counts := i.n <= maxPoints && o.n <= maxPoints && a.awaited <= out+1
	return sum-sum == 0 && counts && spreads > -1 && abs(c.skew) <= maxSkew && delays < 1<<50
}

// advance carries the clock on to x. What is not known of its rate widens the interval.
func (a *association) advance(x float64) {
	dt := x - a.clock.at
	if dt == 0 {
		return
	}
	a.interval.widen(a.dispersion() * dt)
	a.clock.offset += a.clock.skew * dt
	a.clock.at = x
}

// delta returns that of a datagram on the floor of way d at x.
func (a *association) delta(d int, x float64) float64 {
	return a.ways[d].level + sign(d)*a.clock.offsetAt(x)
}

// delay returns that of a datagram on the floor of way d.
func (a *association) delay(d int) float64 { return ring(a.ways[d].level, offsetBits) }

// roundTrip returns that of a datagram that does not queue. No clock is in it.
func (a *association) roundTrip() float64 {
	return ring(a.ways[in].level+a.ways[out].level, deltaBits)
}

// lack returns by how much the round trip is shorter than the reference one.
func (a *association) lack() float64 { return a.arbiter.reference - a.roundTrip() }

// deadBand is by how much two looks at the same round trip differ at most.
func (a *association) deadBand() float64 {
	noise := a.ways[in].scatter() + a.ways[out].scatter()
	return 2*hostJitter + a.steps.joint() + gateSpreads/2*noise + a.stale(0)
}

// stale returns by how much the floor of the way to the peer may be above what an original reports: that is a
// minimum of ten seconds. The rate may be another one by unknown.
func (a *association) stale(unknown float64) float64 {
	if !a.peer.isOriginal() {
		return 0
	}
	return (min(a.clock.at, congestedTime) + second) * max(unknown+a.clock.skew, 0)
}

// look returns what both ways say now.
func (a *association) look() look {
	return look{
		roundTrip:  a.roundTrip(),
		correction: ring((a.ways[in].level-a.ways[out].level)/2, offsetBits),
		deadBand:   a.deadBand(),
		original:   a.peer.isOriginal(),
	}
}

// follow moves the offset to where the round trip allows it to be.
func (a *association) follow() {
	if !a.peer.known {
		return
	}
	if a.awaited > 0 {
		a.ways[a.awaited-1].level += a.before - a.roundTrip()
	}
	l := a.look()
	if a.arbiter.reference < -l.deadBand-priorSkew*min(a.clock.at, longestWindow) { // the first reports were from before
		a.arbiter.restart(l.roundTrip)
	}
	d := a.arbiter.correct(l) - l.correction
	a.arbiter.jumped = a.arbiter.jumped || abs(d) > l.deadBand && !a.arbiter.warmingUp()
	a.adjust(d)
}

// adjust moves the offset by d. The interval stays where it is, and so do the deltas of both floors.
func (a *association) adjust(d float64) {
	if d == 0 {
		return
	}
	a.clock.offset += d
	for w := range a.ways {
		a.ways[w].level -= sign(w) * d
		a.interval.slack[w] -= sign(w) * d
	}
	a.dirty = true
}

// datagram takes a delta that arrived at x and returns how far it is above the floor, us.
func (a *association) datagram(x float64, raw uint64, b *bucket) (y float64, believed bool) {
	a.advance(x)
	w := &a.ways[in]
	w.hurry(b)
	y = around(raw, a.delta(in, x))
	if gate := w.lowerGate(x, a.clock.sigma, a.steps.joint()); y < -gate {
		by, isFall := a.outliers.add(x, y, gate)
		if !isFall {
			return 0, false
		}
		a.fall(in, x, by)
		y -= by
	}
	a.outliers.row = 0
	if y < 0 {
		w.lower(x, -y)
		a.dirty = true
		y = 0
	}
	if a.dirty {
		a.follow()
	}
	a.outgoing.note(a.delta(in, x)+y, x, a.clock.skew)
	return y, true
}

// endSilence takes that a datagram that is so far above the floor ended a silence, in which a clock may have been set: then
// the truth is as far off as it is late.
func (a *association) endSilence(x, silence, above float64) {
	if !a.peer.known {
		return
	}
	a.awake, a.drifted = x, a.dispersion()*silence
	a.interval.slack[in] = max(a.interval.slack[in], a.delay(in)+above)
	a.dirty = true
}

// heardAgain takes that something came on way d at x, the first in a time. If that was a silence, a clock may have
// been set in it: what is known is to be checked.
func (a *association) heardAgain(d int, x, silence float64) {
	if !a.ways[d].isSilence(silence) || !a.peer.known || a.interval.since > x-silence {
		return
	}
	a.interval.doubt(x)
	a.outgoing = outgoing{} // it is from before
	a.dirty = true
}

// doubts returns whether what is known is unchecked, or ambiguous. It is checked if both ways have told something since the
// last silence or clock step, and the anchor has, if there is one. A round trip below 0 is one of 67.1 s or longer, or a
// clock was set.
func (a *association) doubts() (state uint32) {
	if !a.interval.checked() || a.anchors.known && a.anchors.agreed < a.interval.since {
		state |= unchecked
	}
	if a.anchors.disagrees || a.roundTrip() < -second {
		state |= ambiguous
	}
	return state
}

// learnResolution takes by how much the two fastest datagrams of a bucket differ.
func (a *association) learnResolution(d float64) {
	was := a.steps.joint()
	a.steps.learn(int64(d))
	now := a.steps.joint()
	if now <= was {
		return
	}
	a.clock.doubt(priorSkew) // datagrams with the same delta told no slope
	a.interval.widen(now)    // how far the clocks ran apart within it was not seen
	if a.peer.known && abs(a.lack()) < 2*now {
		a.arbiter.restart(a.roundTrip())
	}
	a.dirty = true
}

// endBucket ends the bucket of the way to here at x, and reports whether all of it was congested.
func (a *association) endBucket(x float64, b *bucket) (congested bool) {
	a.advance(x)
	a.outliers.endBucket()
	if b.fastest == math.MaxInt32 {
		return false // nothing but early outliers
	}
	s := sample{from: b.from, to: x, at: b.from + bucketTime/2, least: float64(b.fastest), next: infinite}
	if !b.single() {
		s.next = float64(b.runnerUp)
	}
	congested = a.take(in, s)
	if !congested && b.many() {
		a.learnResolution(s.next - s.least)
	}
	return congested
}

// take takes the fastest datagram of some time on way d, and reports whether it queued.
func (a *association) take(d int, s sample) (congested bool) {
	w := &a.ways[d]
	if int(a.awaited) == d+1 {
		a.awaited = 0
	}
	a.limit(d, s)
	a.arbiter.jumped = a.arbiter.jumped || s.to-s.from > congestedTime // nobody watched
	if lack := a.fellFrom - a.roundTrip(); d != int(a.fellWay) && s.from >= a.fellAt && s.least < lateShare*lack {
		a.fellFrom = 0 // a clock would have made it late
	}
	by, congested := w.take(s, w.upperGate(s.to, a.clock.sigma, a.steps.joint()))
	if !congested {
		w.points.add(point{s.at, a.delta(d, s.at) + s.least}, sign(d)*a.clock.skew)
	}
	if w.least > second { // rule: what makes all datagrams so late is a clock
		a.interval.slack[d] = max(a.interval.slack[d], a.delay(d)+w.least)
		a.dirty = true
	}
	if by > 0 {
		a.rise(d, s.to, by)
	} else if a.peer.known && !a.peer.isOriginal() {
		a.slewed(d, s)
	}
	a.fit(d, s)
	if a.peer.known {
		a.matchStep(s.to)
		a.follow()
	}
	return congested
}

// fall takes that the floor of way d fell to another level.
func (a *association) fall(d int, x, by float64) {
	before, dead := a.roundTrip(), a.deadBand()
	if !a.peer.known || before+by > -dead || a.arbiter.reference < -dead {
		if by < -dead && a.arbiter.warmingUp() { // rule: what passes for a shorter path may be a clock
			a.fellFrom, a.fellAt, a.fellWay = before, x, uint8(d)
		}
		a.shift(d, x, by)
		return
	}
	if a.interval.stepped() && a.interval.undisturbed(x) < settledTime { // rule: what is set again and again is slewed
		a.clock.doubt(slewSkew)
	}
	a.stepClock(d, x, by) // rule: a round trip shorter than nothing is a clock's
	a.awaited, a.before = uint8(2-d), before
}

// rise takes that the floor of way d rose to another level.
func (a *association) rise(d int, x, by float64) { a.shift(d, x, by) }

// shift moves the floor of way d by so much.
func (a *association) shift(d int, x, by float64) {
	a.forget(d)
	a.ways[d].shift(x, by)
	if d == in {
		a.outgoing = outgoing{} // it was of before
	}
	a.dirty = true
}

// stepClock takes that a clock was set, by which the floor of way d moves by so much. Delays stay as they are.
func (a *association) stepClock(d int, x, by float64) {
	a.clock.offset += sign(d) * by
	for k := range a.ways {
		a.shift(k, x, 0)
	}
	if x-a.awake > warmUp || abs(by) > a.drifted { // rule: what clocks drift apart in a silence is no step
		a.interval.clockStep(x)
	}
}

// forget moves what the points of a way that are gone said of the rate to what was known before.
func (a *association) forget(d int) {
	w := &a.ways[d]
	if !a.clock.doubts {
		a.clock.prior = a.clock.prior.and(w.rate)
	}
	w.rate = gaussian{}
}

// limit takes that the offset is at most so far off on the side of way d.
func (a *association) limit(d int, s sample) {
	if !a.peer.known {
		return
	}
	slack, from := a.ways[d].level+s.least+a.dispersion()*(a.clock.at-s.from), s.from
	if d == out {
		slack += rounding + a.stale(sigmas/2*a.clock.sigma)
		from = a.since()
	}
	if a.interval.take(d, from, a.clock.at, ring(slack, offsetBits)) {
		a.dirty = true
	}
}

// since returns x from which on the last report tells datagrams.
func (a *association) since() float64 {
	if a.peer.isOriginal() {
		return a.peer.sent - congestedTime - second
	}
	return a.peer.before
}

// slewed raises the floor of way d by what the round trip lacks, if for some time all its datagrams have been late by as
// much: nothing but the clocks moved.
func (a *association) slewed(d int, s sample) {
	w, lack := &a.ways[d], a.lack()
	w.late.add(s, w.residual, lack, w.spread)
	by, t := min(w.late.by, lack), max(w.late.lasted(), 2*second)
	switch {
	case lack < leastSlew+2*a.steps.joint(), a.arbiter.warmingUp(), !w.isLate(lack, slewDepths):
		return
	case by > slewSkew*w.late.lasted(): // no clock is slewed so fast
		return
	}
	w.raise(by)
	a.clock.bend(sign(d)*by, t)
	for k := range a.ways {
		a.ways[k].rate = gaussian{}
		a.ways[k].forgetPoints()
		a.ways[k].touched = s.to
		a.interval.slack[k] += by
	}
	a.dirty = true
}

// fit makes a point of the fastest datagram of way d of late, if it is time, and turns the clock to what both ways say of
// its rate.
func (a *association) fit(d int, s sample) {
	w, c, x := &a.ways[d], &a.clock, s.to
	if silence := x - s.from; silence > longestWindow || silence > congestedTime && w.n >= fitPoints && silence > w.span(s.from) {
		a.forget(d) // the points are old
		w.restart(x)
		if silence > longestWindow { // so are those of the other way, even if it is not heard of yet
			a.forget(1 - d)
			a.ways[1-d].restart(x)
		}
		c.doubt(max(c.sigma, min(skewDrift*silence, priorSkew)))
		return
	}
	if x-w.end < w.spacing {
		return
	}
	if w.loweredBy > w.lowerGate(w.lastNear, c.sigma, a.steps.joint()) { // rule: a line that sinks starts anew
		a.forget(d)
		w.restart(x)
		if a.peer.known && !a.peer.isOriginal() && a.lack() > 2*rounding { // it may be the clock
			a.forget(1 - d)
			a.ways[1-d].forgetPoints()
		}
	}
	added, evicted, wait := w.endSpan(x, sign(d)*c.skew, a.steps.joint())
	if !added {
		return
	}
	a.dirty = true
	if w.n < fitPoints {
		return
	}
	w.rate = w.slope(d, c, a.steps.joint())
	if evicted {
		if !c.doubts {
			c.prior = c.prior.and(gaussian{w.rate.mean, float64(w.n) * w.rate.variance})
		}
		drift := 4 * skewDrift * wait
		c.prior.variance += drift * drift
	}
	turn := c.learn(a.ways[in].rate, a.ways[out].rate)
	for k := range a.ways {
		if k == out && a.peer.isOriginal() {
			continue
		}
		a.ways[k].turn(k, c, turn)
	}
	w.learnUsual(d, c)
}

// matchStep raises a floor if all its datagrams are late by what the round trip became shorter: then a clock was set.
func (a *association) matchStep(x float64) {
	for d := range a.ways {
		w := &a.ways[d]
		by, l := w.lateness(), a.look()
		opens := l.roundTrip < -l.deadBand && l.roundTrip+by > -l.deadBand
		if opens && !a.arbiter.warmingUp() {
			by = min(by, max(a.arbiter.reference, 0)-l.roundTrip)
		}
		set := opens || a.arbiter.matches(by, a.arbiter.reference, l, w) // rule: a clock that is set moves both floors
		fell := a.fellFrom > 0 && x-a.fellAt < settledTime && a.arbiter.matches(by, a.fellFrom, l, w)
		if by == 0 || !set && !fell {
			continue
		}
		a.ways[1-d].level += by // it fell when that was seen
		a.interval.slack[1-d] += by
		a.stepClock(d, x, by)
		a.clock.doubt(slewSkew) // it may be slewed
		if fell {
			a.arbiter.restart(a.roundTrip())
		}
		a.fellFrom = 0
	}
}

// report takes the least delta of the way to the peer since the report before.
func (a *association) report(x float64, minDelta Counter24) {
	a.advance(x)
	wasOriginal := a.peer.isOriginal()
	repeated := a.peer.note(minDelta)
	if a.peer.isOriginal() && !wasOriginal { // its minima were taken for datagrams
		a.ways[out].restart(x)
		a.ways[out].rate = gaussian{}
		a.clock.doubt(priorSkew)
	}
	raw := uint64(minDelta) << ts24Shift
	from, sent, told := a.peer.sent, a.sentAt(x), a.peer.told
	a.peer.told = sent
	if a.peer.known && repeated && abs(sent-from) < second && !a.peer.isOriginal() {
		return // it was read twice, and tells nothing new
	}
	a.heardAgain(out, sent, sent-from)
	a.peer.sent, a.peer.before = sent, told
	if !a.peer.known {
		a.firstReport(x, raw)
		return
	}
	w := &a.ways[out]
	y := around(raw, a.delta(out, sent))
	if a.peer.isOriginal() {
		a.minimum(x, y)
		return
	}
	if a.awaited == out+1 && y < 0 && from < a.interval.event && a.interval.undisturbed(x) < 3*second {
		return // it is from before the clock step
	}
	if gate := w.lowerGate(sent, a.clock.sigma, a.steps.joint()); y < -gate {
		a.fall(out, sent, y)
		y = 0
	} else if y < 0 {
		w.lower(sent, -y)
		a.dirty = true
		y = 0
	}
	at := max(from, sent-second)/2 + sent/2
	a.take(out, sample{from: from, to: sent, at: at, least: y, next: infinite})
	a.review(x)
}

// sentAt returns x when a report was sent that arrives at x.
func (a *association) sentAt(x float64) float64 { return x - min(max(a.delay(in), 0), second) }

// minimum takes what an original reports, y above its floor so far: a minimum of ten seconds.
func (a *association) minimum(x, y float64) {
	w := &a.ways[out]
	if a.awaited == out+1 {
		a.awaited = 0
	}
	w.level += y
	w.near(a.peer.sent)
	a.dirty = true
	a.limit(out, sample{from: a.peer.sent, to: a.peer.sent})
	a.matchStep(x)
	a.follow()
	a.review(x)
}

// firstReport takes the first report. The offset is the midpoint: nothing else is known.
func (a *association) firstReport(x float64, raw uint64) {
	i, o := &a.ways[in], &a.ways[out]
	there, back := float64(wrap(raw, deltaBits)), a.delta(in, x)
	half := ring(there+back, deltaBits) / 2
	a.peer.known, a.dirty = true, true
	a.clock.offset = half - back
	i.level = half
	o.start(half, a.peer.sent)
	o.spread, o.meanResidual = i.spread, i.meanResidual // until more is known
	a.arbiter.restart(a.roundTrip())
	a.arbiter.reviewed = x
	a.interval.slack = [2]float64{half, maxOffset}
	a.interval.fresh = [2]bool{true, true}                           // nothing was known before
	a.limit(out, sample{from: min(a.peer.sent, 0), to: a.peer.sent}) // the datagram that it tells may be as old as the session
}

// review lets the arbiter learn the round trip. It is asked once a report.
func (a *association) review(x float64) {
	l := a.look()
	dt := a.arbiter.since(x)
	i, o := &a.ways[in], &a.ways[out]
	if i.congestedFor > 0 || o.congestedFor > 0 {
		l.roundTrip += i.queue() + o.queue()
		if !a.arbiter.warmingUp() || l.roundTrip >= a.arbiter.reference-l.deadBand { // rule: a queue teaches no round trip
			return
		}
	}
	lack := a.arbiter.reference - l.roundTrip
	mayBeClock := i.isLate(lack, mayBeDepths) || o.isLate(lack, mayBeDepths)
	mayBeRate := lack < congestedTime*a.clock.sigma && !a.arbiter.warmingUp()
	if lack > 1 && (mayBeClock || mayBeRate) { // rule: what lacks may be a clock's
		a.arbiter.age += dt
		return
	}
	a.arbiter.learn(dt, l)
	a.follow()
}

// dispersion returns by how much the interval widens in a microsecond, us: what is not known of the rate, and of its
// changes.
func (a *association) dispersion() float64 {
	t := max(a.interval.undisturbed(a.clock.at), second)
	scatter := a.ways[in].scatter()
	if a.peer.known {
		scatter = min(scatter, a.ways[out].scatter())
	}
	unknown := sigmas*a.clock.sigma + (2*scatter+hostJitter)/t
	return 2*settledTime*skewDrift + min(unknown, slewSkew+abs(a.clock.skew))
}

// toReport returns the delta that the next report tells, as of x.
func (a *association) toReport(x float64) float64 {
	if a.peer.isOriginal() { // it believes the last report as it is
		w := &a.ways[in]
		if w.unseen(x) > congestedTime && w.least > second { // rule: an original forgets in a silence what was before
			return a.delta(in, x) + w.least // a clock stood still in it, and the peer is told so at once
		}
		return a.delta(in, x)
	}
	return a.outgoing.at(x, a.clock.skew)
}

// view sets v to what readers are to see at x. The offset is the one nearest to near.
func (a *association) view(v *view, x float64, near uint64) {
	*v = view{clockMap: clockMap{whole: near}}
	v.undisturbed, v.scatter = float32(a.interval.undisturbed(x)), float32(a.ways[in].meanResidual)
	skew := uint32(int32(a.clock.skew * (1 << 32)))
	v.rates = join(skew, skew)
	if a.interval.stepped() {
		v.state |= disturbed
	} else {
		v.undisturbed -= settledTime // where it began, for the estimator
	}
	if !a.peer.known {
		return
	}
	v.state |= synced | a.doubts()
	offset := ring(a.clock.offsetAt(x), offsetBits) + 1./4 // or rounding down could take a whole one
	fine := int64(math.Floor(offset * (1 << 32)))
	v.whole, v.rest = nearest(uint64(fine>>32), near), uint64(fine)<<32
	v.delay, v.toPeer = float32(max(a.delay(in), 0)), float32(max(a.delay(out), 0))
	dispersion := a.dispersion()
	wrong := max(-a.roundTrip(), min(a.lack(), slewed), 0) // what lacks may be a slew, of which 2 s are not known yet
	v.bound = float32(a.interval.bound() + wrong + dispersion*max(x-readerMargin-a.clock.at, 0))
	v.dispersion = float32(dispersion)
}

// ---- Reports: what the peer says, and what it is told ----

const (
	unproven = 4  // reports of other remainder: of five originals one sends so many without remainder 2
	longRun  = 64 // reports in a row without that remainder that no original sends; buckets that the spread is a mean over
)

// peer is what is known of the reports of the other end.
type peer struct {
	sent   float64   // x when it sent the last one, but for those of 0
	told   float64   // x when it sent the last one of all
	before float64   // x when it sent the one before the last one that was not 0
	last   Counter24 // report, 0 at first; it may come before the first datagram
	minima uint8     // reports until it counts as one of ours: it starts as an original
	known  bool      // a report has come, so the offset is known
}

// isOriginal reports whether the peer is an original, or may be one.
func (p *peer) isOriginal() bool { return p.minima > 0 }

// note takes a report and reports whether it is the same as the one before.
func (p *peer) note(minDelta Counter24) (repeated bool) {
	repeated = minDelta == p.last
	p.last = minDelta
	if minDelta%marks == originalMark { // rule: originals are told apart
		p.minima = longRun
	} else if p.minima > 0 && !repeated { // an original repeats a minimum for long
		p.minima--
	}
	return repeated
}

// outgoing is the least delta since the last report.
type outgoing struct {
	delta, x float64 // it was that at x
	some     bool    // there is one
}

// note takes the delta of a datagram, as of x.
func (o *outgoing) note(delta, x, skew float64) {
	if !o.some || delta < o.at(x, skew) {
		*o = outgoing{delta, x, true}
	}
}

// at returns the least delta as of x: the clocks ran apart since.
func (o *outgoing) at(x, skew float64) float64 { return o.delta - skew*(x-o.x) }

// ---- The clock ----

const (
	priorSkew = 100e-6         // two crystals of 50 ppm
	slewSkew  = 500e-6         // NTP's fastest slew
	slewed    = 2e6 * slewSkew // us: so far from where it was is a clock until the next report, at most
	maxSkew   = 1000e-6        // no computer's clock is as wrong
	skewDrift = 0.1e-6 / 1e6   // a skew changes so fast, per microsecond: temperature
)

// gaussian is what is known of a rate. A variance of 0: nothing.
type gaussian struct{ mean, variance float64 }

// and returns what is known if both are.
func (g gaussian) and(h gaussian) gaussian {
	switch {
	case h.variance == 0:
		return g
	case g.variance == 0:
		return h
	}
	w := g.variance / (g.variance + h.variance)
	return gaussian{g.mean + w*(h.mean-g.mean), w * h.variance}
}

// differs reports whether two rates are hardly the same one: they are 4 standard deviations apart.
func (g gaussian) differs(h gaussian) bool {
	d := g.mean - h.mean
	return d*d > 4*4*(g.variance+h.variance)
}

// clock is the remote clock as the local one sees it. Both ways see the same one.
type clock struct {
	at     float64  // x at which the offset is that
	offset float64  // us: remote minus local clock
	skew   float64  // by which it changes
	sigma  float64  // standard deviation of that
	prior  gaussian // what was known of the skew before the points of both ways
	agreed gaussian // what both ways last agreed on
	doubts bool     // the points were not believed
}

func (c *clock) offsetAt(x float64) float64 { return c.offset + c.skew*(x-c.at) }

// doubt says that what was known of the skew may be wrong by sigma.
func (c *clock) doubt(sigma float64) {
	c.sigma, c.prior, c.agreed = sigma, gaussian{c.skew, sigma * sigma}, gaussian{}
}

// bend takes that the offset has run away by so much in the time t: the rate has changed by some of that.
func (c *clock) bend(by, t float64) {
	change := by / t
	c.skew = min(max(c.skew+change/2, -maxSkew), maxSkew)
	c.doubt(math.Sqrt(change*change + c.sigma*c.sigma))
}

// learn takes what both ways say of the skew, and returns by how much it turned.
func (c *clock) learn(i, o gaussian) (turn float64) {
	both := i.variance > 0 && o.variance > 0
	was := c.skew
	if both && i.differs(o) { // rule: no clock makes a round trip longer: a path ramps
		if c.agreed.variance > 0 {
			c.prior = c.agreed
		}
		c.agreed, c.doubts = gaussian{}, true
		c.skew, c.sigma = median(c.prior.mean, i.mean, o.mean), math.Sqrt(c.prior.variance)
	} else {
		points := i.and(o)
		c.doubts = false
		// At first only what most crystals do is known, and a clock may be further off, but none so far.
		known := c.prior.variance < priorSkew*priorSkew/2 || abs(points.mean) > 1.1*maxSkew
		if known && points.differs(c.prior) {
			d := points.mean - c.prior.mean
			if both && abs(median(0, i.mean-c.prior.mean, o.mean-c.prior.mean)) > abs(d)/2 { // rule: what both ways say is the clock
				c.prior.variance = d * d
			} else {
				points.variance, c.doubts = d*d, true
			}
		}
		g := c.prior.and(points)
		c.skew, c.sigma = g.mean, math.Sqrt(g.variance)
		if both {
			c.agreed = g
		}
	}
	c.prior.mean = min(max(c.prior.mean, -maxSkew), maxSkew)
	c.skew = min(max(c.skew, -maxSkew), maxSkew)
	return c.skew - was
}

// ---- The arbiter between path and clock ----

const (
	warmUp       = 6e6   // us: the first datagrams may all have queued
	settledTime  = 15e6  // us: by then both ends have seen and told, be the other an original; SettleTime
	longestQueue = 220e6 // us: an asymmetry that was right is kept through a queue of three minutes and a half
)

// arbiter decides whether the path or a clock has changed. It sees no datagram: only the round trip,
// in which no clock is, and how far the offset is from the midpoint.
type arbiter struct {
	reference    float64 // us: the round trip that is trusted, of late
	asymmetry    float64 // us: offset minus midpoint while the round trip is the reference one
	symmetric    float64 // us: the reference round trip when the asymmetry was last 0
	expiry       float64 // us: until the asymmetry decays
	age          float64 // us: for how long the round trip has been the reference one
	candidate    float64 // us: another round trip that lasts
	candidateAge float64 // us: for how long it has
	reviewed     float64 // x when that was last asked
	jumped       bool    // the offset did: what is taken for an asymmetry may be a clock that was set
}

// look is what both ways say at one time.
type look struct {
	roundTrip  float64 // us
	correction float64 // us: offset minus midpoint
	deadBand   float64 // us: two looks at the same round trip differ by less
	original   bool    // the peer tells late that its floor rose
}

// restart takes the round trip for the reference. It is taken to be symmetric.
func (r *arbiter) restart(roundTrip float64) {
	*r = arbiter{reference: roundTrip, symmetric: roundTrip, expiry: r.expiry, reviewed: r.reviewed}
}

// since returns the time since it was last asked. It says little about what a long one spans.
func (r *arbiter) since(x float64) (dt float64) {
	dt = min(x-r.reviewed, 2*second)
	r.reviewed = x
	r.expiry -= dt
	if r.jumped {
		r.expiry = min(r.expiry, longestWindow)
	}
	return dt
}

// warmingUp reports whether the reference round trip is hardly known yet.
func (r *arbiter) warmingUp() bool { return r.age < warmUp }

// isEarly reports whether the round trip is not known well yet.
func (r *arbiter) isEarly() bool { return r.age < 2*settledTime }

// asymmetryBound returns how far the midpoint may be off where the round trip is d longer than it was. At first, and
// beside an original, which tells rises late, a shorter one is right.
func (r *arbiter) asymmetryBound(d float64, l look) float64 {
	switch {
	case d < 0 && (r.warmingUp() || l.original):
		return 0
	case d > 0 && !r.isEarly(): // rule: a round trip that is well known is not a little longer
	case abs(d) < l.deadBand:
		return 0
	}
	return abs(d) / 2
}

// correct returns how far the offset is to be from the midpoint: as it is, or as near to that as
// both round trips that are known allow.
func (r *arbiter) correct(l look) float64 {
	d := r.asymmetryBound(l.roundTrip-r.reference, l)
	c := min(max(l.correction, r.asymmetry-d), r.asymmetry+d)
	d = r.asymmetryBound(l.roundTrip-r.symmetric, l)
	return min(max(c, -d), d)
}

// learn learns the reference round trip from one that lasted dt.
func (r *arbiter) learn(dt float64, l look) {
	d := l.roundTrip - r.reference
	switch {
	case l.roundTrip < -l.deadBand: // a clock was set, and not everybody has told
	case r.warmingUp() && d < 0: // rule: a shorter round trip is taken at once in warm-up
		if abs(d) < l.deadBand {
			r.age, r.candidateAge = r.age+dt, 0
		}
		r.reference = l.roundTrip
	case abs(d) < l.deadBand:
		r.reference += d * min(dt/congestedTime, 1)
		r.age, r.candidateAge = r.age+dt, 0
	case abs(l.roundTrip-r.candidate) >= l.deadBand:
		r.candidate, r.candidateAge = l.roundTrip, 0
	default:
		if r.candidateAge += dt; r.candidateAge > settledTime { // rule: another round trip that lasts is learnt
			if r.asymmetry == 0 {
				r.expiry = longestQueue
			}
			r.asymmetry, r.reference, r.candidateAge = l.correction, l.roundTrip, 0
		}
	}
	if r.expiry < 0 { // rule: asymmetries decay
		r.symmetric += (r.reference - r.symmetric) * min(4*dt/congestedTime, 1)
	}
	d = r.asymmetryBound(r.reference-r.symmetric, l)
	r.asymmetry = min(max(r.asymmetry, -d), d)
	if abs(r.asymmetry) < 1 { // it decays for ever
		r.asymmetry, r.symmetric = 0, r.reference
	}
}

// matches reports whether the round trip is that of before if the floor w is higher by rise. In warm-up one queue may
// have ended as another came.
func (r *arbiter) matches(rise, before float64, l look, w *way) bool {
	lack, most := before-l.roundTrip, rise/2
	if r.warmingUp() {
		most = rise / 4
		queued := w.spreads == 0 // all the time, perhaps
		again := w.hits >= 2     // a queue is as late as this by chance
		if queued || w.congestedFor < 5*second || !again {
			return false
		}
	}
	miss := abs(lack - rise)
	return lack > l.deadBand && miss < l.deadBand+gateSpreads*w.spread && miss < most
}

// ---- The interval that contains the offset ----

const maxOffset = 1 << (offsetBits - 1) // us: half the ring, where all offsets are

// interval contains the true offset while no clock is set: no delay is negative, so each datagram limits the offset
// on one side, and each report on the other.
type interval struct {
	slack [2]float64 // us: the truth is at most so far below the offset, as the way in says, and above, as the way out says
	fresh [2]bool    // so since then:
	since float64    // x of the last clock step, or of the end of a silence: what came before counts no more
	event float64    // x of the last clock step; at the start -settledTime
}

// doubt says that a clock may have been set before x.
func (i *interval) doubt(x float64) { i.since, i.fresh = x, [2]bool{} }

// checked reports whether both ways have told something since.
func (i *interval) checked() bool { return i.fresh[in] && i.fresh[out] }

// clockStep says that a clock was set at x, or seems to have been.
func (i *interval) clockStep(x float64) {
	i.event = x
	i.doubt(x)
}

// stepped reports whether a clock was ever set.
func (i *interval) stepped() bool { return i.event > -settledTime }

// undisturbed returns the time at x since the last clock step, us.
func (i *interval) undisturbed(x float64) float64 { return x - i.event }

// bound returns how far the offset may be off, us.
func (i *interval) bound() float64 { return max(i.slack[in], i.slack[out], 0) + 3*rounding }

// widen says that the truth may be farther off, on both sides.
func (i *interval) widen(d float64) {
	for w := range i.slack {
		i.slack[w] = min(max(i.slack[w]+d, -maxOffset), maxOffset)
	}
}

// take takes what way d has said since from: at x the truth is at most so far off. It reports whether a clock was set, or
// more is known after one was.
func (i *interval) take(d int, from, x, slack float64) (news bool) {
	if !i.fresh[d] && from >= i.since { // after a clock step another one counts, even if wider
		i.slack[d], i.fresh[d], news = slack, true, true
	}
	i.slack[d] = min(i.slack[d], slack)
	switch gap := -i.slack[in] - i.slack[out]; {
	case gap <= 0:
		return news
	case gap < slewed: // nothing is left, but one slewed clock may be so far from where it was
		i.slack[1-d] += slewed
	default: // a clock was set
		i.clockStep(x)
		i.slack[1-d] = maxOffset
	}
	return true
}

// ---- The floor of one way ----

const (
	bucketTime    = 0.2e6 // us: datagrams are judged by the fastest of so long
	congestedTime = 10e6  // us: what lasts so long is no queue
	hostJitter    = 100.0 // us: hosts add so much, whatever the path
	gateSpreads   = 8     // spreads: exponential jitter exceeds 8 times its mean in e^-8 of the cases

	leastSlew   = 20.0 // us: less may be rounding
	lateShare   = 0.7  // of what lacks: two ways that come back from a shorter path are late by half of it
	slewDepths  = 5    // depths: late by more is late for sure
	mayBeDepths = 0.6  // depths: and by so much perhaps
)

// bucket is the span of 0.2 s or more that is under way. Nearly all datagrams touch this
// cache line only.
type bucket struct {
	at       uint64  // local time, us: a datagram that arrives dx later is rate*dx - stamp - origin above the floor
	origin   uint64  // us: the floor then, on the ring of deltas, minus that time
	from     float64 // x when the bucket began
	rate     uint32  // 2^-31: 1 minus the slope of the floor
	fastest  int32   // us: the fastest datagram is so far above the floor
	runnerUp int32   // us: the second fastest
	untold   int32   // us: the fastest since the slow path was last taken, which readers of the report do not know
	span     uint32  // us: from at until the bucket ends; 0: every datagram takes the slow path
	delay    int32   // us: minimum one-way delay
	count    uint32  // datagrams
	last     int32   // us: the last datagram was so far above the floor
	jitter   int32   // 2^-jitterBits us: mean difference of two datagrams in a row
}

const jitterBits = 4 // RFC 3550: the jitter moves by a sixteenth of each difference

// begin begins a bucket at x.
func (b *bucket) begin(x float64) {
	b.from, b.fastest, b.runnerUp, b.untold = x, math.MaxInt32, math.MaxInt32, math.MaxInt32
}

// add adds a datagram that is y above the floor.
func (b *bucket) add(y int32) {
	first := b.fastest
	b.fastest, b.runnerUp = min(first, y), min(b.runnerUp, max(first, y))
	b.jitter += min(abs(y-b.last), second) - (b.jitter+1<<(jitterBits-1))>>jitterBits
	b.last = y
}

// single reports whether less than two datagrams came.
func (b *bucket) single() bool { return b.runnerUp == math.MaxInt32 }

// many reports whether so many datagrams came that the two fastest differ little even where a path flaps.
func (b *bucket) many() bool { return b.count > fitPoints+1 }

// rise says that the floor rose by d.
func (b *bucket) rise(d float64) {
	b.last = int32(min(max(float64(b.last)-d, math.MinInt32/2), math.MaxInt32/2))
	for _, y := range []*int32{&b.fastest, &b.runnerUp, &b.untold} {
		if *y < math.MaxInt32 {
			*y = int32(min(max(float64(*y)-d, 0), math.MaxInt32-1))
		}
	}
}

// sample is the fastest datagram of some time.
type sample struct {
	from, to float64 // x
	at       float64 // x: about when it came
	least    float64 // us: so far is it above the floor
	next     float64 // us: the second fastest; infinite if it is not known
}

const outliersInARow = 3 // so many are believed: two may be nuisances

// outliers are datagrams below the lower gate, faster than the path seems to allow. A clock that was set makes all
// datagrams early, a path that was not taken before some, and swapped times of receipt one or two.
type outliers struct {
	x, y    float64 // when the last one came that counts, and how far above the floor, us
	least   float64 // us: of those in a row, below 0
	row     uint8   // so many in a row
	buckets uint8   // buckets in a row in which some came
	now     bool    // one came in the bucket under way
}

// apart is how far apart, us, datagrams arrive at least that count as several: more than a program takes for one
// that waited in its socket.
const apart = 5e3

// add takes one that arrives at x, y above the floor, and returns by how much the floor fell if it is believed. gate is
// by how much their delays differ.
func (o *outliers) add(x, y, gate float64) (by float64, believed bool) {
	wait := x - o.x
	switch {
	case y < o.y-wait-gate: // rule: what was held up and arrives at once proves nothing
		o.row = 0
	case y > o.y+second: // more than jitter: those before were of something else
		o.row = 0
	case o.row > 0 && wait < apart:
		return 0, false
	}
	if o.row++; o.row == 1 || y < o.least {
		o.least = y
	}
	o.x, o.y = x, y
	o.now = true
	if o.row < outliersInARow && o.buckets < 4 { // rule: outliers come neither three times, nor in each bucket
		return 0, false
	}
	by = o.least
	*o = outliers{}
	return by, true
}

func (o *outliers) endBucket() {
	if !o.now {
		o.buckets = 0
		return
	}
	o.buckets, o.now = o.buckets+1, false
}

// late is a run of samples of a way that all were above the floor.
type late struct {
	by       float64 // us: at least so far
	from, to float64 // x
	queued   float64 // us: for so long they were later than a slew makes them
}

// add takes a sample that is so far above the floor. A run ends with one that is not late by most of what lacks.
func (l *late) add(s sample, residual, lack, spread float64) {
	if l.to == l.from || l.by < lateShare*lack {
		*l = late{by: residual, from: s.from}
	}
	l.by, l.to = min(l.by, residual), s.to
	if residual > 2*lack+4*spread { // rule: a slew is late by what lacks, a queue by more
		l.queued += s.to - s.from
	}
}

func (l *late) lasted() float64 { return l.to - l.from }

// way is the floor of one way: the delay of a datagram that does not queue, as the clock stands, and the points that
// tell how it moves against the clock.
//
// The yardstick of all gates is the spread: how far apart the fastest datagrams come. Queues and clocks are slow
// against it, and heavy tails do not touch it. It learns only from what comes near: what sets a gate must not learn
// from what the gate refuses.
type way struct {
	level        float64 // us
	lastNear     float64 // x of the last sample that came near, or of a level shift
	touched      float64 // x of the datagram on which it lies
	spread       float64 // us: how far apart the fastest datagrams come; at the start 1 s
	residual     float64 // us: the last sample was so far above the floor
	least        float64 // us: the last two were
	congestedFor float64 // us: for how long samples have been congested, of each a second at most
	plateau      float64 // us: the least residual after the first 5 s of that
	late         late
	typical      typical
	spreads      uint8   // samples that the spread is a mean over
	hits         uint8   // congested samples near the plateau, at most longRun
	usual        float32 // us: mean time between datagrams or reports, each counted for as long as it is
	gap          float32 // us: the last one
	points
}

// typical is how far above the floor the fastest datagrams usually come.
type typical struct {
	height  float64 // us: mean distance of the points from the floor
	spacing float64 // us: time between them
	depth   float64 // us*us: both multiplied: over so long a time the fastest comes so much nearer
}

// start begins with a datagram at x.
func (w *way) start(level, x float64) {
	*w = way{level: level, lastNear: x, touched: x, spread: second, residual: second}
	w.meanResidual = second
	w.typical.depth = second * second // nothing is late before it is known what is usual
	w.points.restart(x)
}

// sum returns a number that is finite if all are.
func (w *way) sum() float64 {
	return w.level + float64(w.usual) + float64(w.gap) + w.lastNear + w.touched + w.spread + w.residual + w.least + w.congestedFor + w.plateau + w.late.by +
		w.late.from + w.late.to + w.late.queued + w.typical.height + w.typical.spacing + w.typical.depth + w.meanResidual + w.end + w.spacing +
		w.loweredBy + w.rate.mean + w.rate.variance
}

// scatter returns how far the fastest datagrams lie apart.
func (w *way) scatter() float64 { return min(w.meanResidual, w.spread) }

// upperGate returns how far above the floor the fastest datagram of a sample that ends at x may be.
func (w *way) upperGate(x, sigma, resolution float64) float64 {
	return hostJitter + 2*resolution + gateSpreads*w.spread + sigmas/2*sigma*w.unseen(x)
}

// unseen returns for how long nothing near the floor came at x, and nothing congested either.
func (w *way) unseen(x float64) float64 {
	return max(x-w.lastNear-w.congestedFor, 0) // rule: what is congested opens no gate
}

// lowerGate returns how far below the floor a datagram may be at x: 12 scatters, not 8 spreads as above it,
// since the first ones may be small by chance.
func (w *way) lowerGate(x, sigma, resolution float64) float64 {
	unseen := max(w.spacing, x-w.lastNear)
	return hostJitter + resolution + 1.5*gateSpreads*w.scatter() + sigmas/2*sigma*unseen
}

// lateness returns how late all datagrams are: those of the last congested sample, or of the last two where they came near.
func (w *way) lateness() float64 {
	switch {
	case w.congestedFor > 0:
		return w.residual
	case w.least >= 2*w.spread: // rule: what is near may be late
		return w.least // less may be chance
	}
	return 0
}

// queue returns how long all datagrams queue.
func (w *way) queue() float64 {
	if w.congestedFor == 0 {
		return 0
	}
	return w.residual
}

// isLate reports whether all datagrams of late came above the floor by most of what the round trip lacks, and by more than
// is usual over such a time, so many times.
func (w *way) isLate(lack, depths float64) bool {
	by, t := min(w.late.by, lack), w.late.lasted()
	if by <= lateShare*lack || w.late.queued > t/2 {
		return false
	}
	return by*t > depths*w.typical.depth && by > w.typical.height*min(w.typical.spacing/t, 1)
}

// shift moves the floor by d to another level at x.
func (w *way) shift(x, d float64) {
	w.lay(d)
	w.restart(x)
	w.near(x)
	w.late, w.touched = late{}, x
}

const minute = 60 * second

// isSilence takes the time since the last datagram or report, and reports whether that is a silence: longer than 15 s and
// than four usual ones. One that is as long as the one before it is usual.
func (w *way) isSilence(gap float64) bool {
	usual := max(w.usual, min(w.gap, float32(gap)))
	limit := max(settledTime, 4*usual)
	w.gap = float32(gap)
	counts := min(w.gap, limit)
	w.usual += (counts - w.usual) * counts / (counts + minute)
	return float32(gap) > limit
}

// patience returns after what time without one more it is silent, us.
func (w *way) patience() float32 { return max(settledTime, 4*w.usual) }

// near takes that datagrams come near the floor.
func (w *way) near(x float64) {
	w.congestedFor, w.least, w.lastNear = 0, 0, x
}

// raise moves the floor up by d where it was not seen that the clock was slewed.
func (w *way) raise(d float64) {
	w.lay(d)
	w.congestedFor, w.least = 0, 0
}

// lower moves the floor down by d, to a datagram at x.
func (w *way) lower(x, d float64) {
	w.lay(-d)
	w.touched = x
	w.loweredBy += d
}

// lay moves the floor up by d.
func (w *way) lay(d float64) {
	w.level += d
	w.residual -= d
	w.late.by -= d
}

// hurry makes a spread of the first bucket before it is over.
func (w *way) hurry(b *bucket) {
	if w.spreads == 0 && b.count >= fitPoints { // rule: the first bucket need not be over
		w.spread = min(float64(b.runnerUp-b.fastest), second/2)
	}
}

// take takes a sample, and returns by how much the floor rises and whether all of the sample was congested.
func (w *way) take(s sample, gate float64) (by float64, congested bool) {
	before := w.residual
	w.residual = s.least
	w.least = min(s.least, before)
	if s.least > gate {
		return w.congest(s)
	}
	w.learnSpread(s, before-s.least)
	w.congestedFor, w.lastNear = 0, s.from
	return 0, false
}

// congest takes a sample of which all datagrams were late. A path that is longer comes back to the same height, a queue
// hardly; and it may last for 30 s.
func (w *way) congest(s sample) (by float64, congested bool) {
	w.congestedFor += min(s.to-s.from, second)
	if w.congestedFor < congestedTime/2 {
		w.plateau, w.hits = s.least, 0
	}
	if abs(s.least-w.plateau) < hostJitter+gateSpreads*w.spread {
		w.hits = min(w.hits+1, longRun)
	} else if s.least < w.plateau {
		w.hits = 1
	}
	w.plateau = min(w.plateau, s.least)
	if w.congestedFor > congestedTime && w.hits >= 3 || w.congestedFor > 3*congestedTime { // rule: what lasts is no queue
		w.spreads = min(w.spreads, fitPoints) // a longer path may have more jitter
		return w.plateau, true
	}
	return 0, true
}

// learnSpread learns the spread from a sample that was faster than the one before by fall: half of what its two fastest
// lie apart, plus fall, since these two may share their delay, as those of a frame do. If fall is negative, a queue may
// have begun. Then it does not count, except where a single datagram is known: there is no more to learn from.
// A sample counts for little more than the mean so far, or a few that queued would make it large.
func (w *way) learnSpread(s sample, fall float64) {
	spread, most := (s.next-s.least)/2+max(fall, 0), 1.5*w.spread
	if s.next == infinite {
		spread, most = abs(fall), 2.5*w.spread
	}
	if spread > second/2 {
		return // there was none before, or a clock was set between the two
	}
	w.spreads = min(w.spreads+1, longRun)
	w.spread += (min(spread, most+hostJitter/2) - w.spread) / float64(w.spreads)
}

// ---- The points below which the floor lies ----

const (
	maxPoints     = 12    // fastest datagrams of doubling spans that the floor lies below
	fitPoints     = 4     // the fewest that show both a slope and noise
	longestWindow = 130e6 // us: oscillators keep no rate for longer
)

// points are the fastest datagrams of spans of time.
type points struct {
	end          float64 // x of the end of the last span
	spacing      float64 // us: time between points; it doubles when there are too many
	loweredBy    float64 // us: by which the floor was lowered since end
	meanResidual float64 // us: mean distance of the points from the floor, at the start 1 s
	rate         gaussian
	best         keptPoint // the fastest since end
	some         bool      // there is a best
	n            uint8
	list         [maxPoints]keptPoint
}

// point is a datagram that queued least.
type point struct {
	x     float64 // about when it came
	delta float64 // us
}

const (
	keptTime  = 256 // us: unit of its time. A rate moves a delta by a quarter of a microsecond in it, at most
	keptDelta = 32  // a microsecond has so many units of its delta
)

// keptPoint is a point as it is kept, on rings: times in 12.7 days, longer than any window, deltas in the ring of all
// deltas.
type keptPoint struct{ time, delta uint32 }

func ringTime(x float64) uint32 { return uint32(int64(x / keptTime)) }

func ringDelta(delta float64) uint32 { return uint32(int64(delta * keptDelta)) }

func (p point) kept() keptPoint { return keptPoint{ringTime(p.x), ringDelta(p.delta)} }

// age returns how long before x the point came, us.
func (p keptPoint) age(x float64) float64 { return float64(int32(ringTime(x)-p.time)) * keptTime }

// after returns how long after q the point came, us.
func (p keptPoint) after(q keptPoint) float64 { return float64(int32(p.time-q.time)) * keptTime }

// above returns how far the point is above a delta, us.
func (p keptPoint) above(delta float64) float64 {
	return float64(int32(p.delta-ringDelta(delta))) / keptDelta
}

// below reports whether the point is below the line of that slope through q.
func (p keptPoint) below(q keptPoint, slope float64) bool {
	return float64(int32(p.delta-q.delta))/keptDelta < slope*p.after(q)
}

// restart drops the points at x: they speak of another level.
func (p *points) restart(x float64) {
	p.forgetPoints()
	p.end, p.loweredBy = x, 0
}

// forgetPoints drops the points: they speak of another slope.
func (p *points) forgetPoints() { p.n, p.some, p.spacing = 0, false, bucketTime }

// add makes a datagram a candidate for the next point. The floor is steep by slope.
func (p *points) add(q point, slope float64) {
	if k := q.kept(); !p.some || k.below(p.best, slope) {
		p.best, p.some = k, true
	}
}

// span returns for how long, us, the points tell the slope at x.
func (p *points) span(x float64) float64 {
	if p.n == 0 {
		return x - p.end
	}
	return p.list[0].age(x)
}

// endSpan makes a point of the fastest datagram since the last one, and returns how long after that one it came.
func (p *points) endSpan(x, slope, resolution float64) (added, evicted bool, wait float64) {
	p.end, p.loweredBy = x, 0
	if !p.some {
		return false, false, 0
	}
	p.some = false
	if p.n > 0 && p.best.after(p.list[p.n-1]) <= 0 { // receive times went back
		if p.list[p.n-1].age(x) < 0 {
			p.forgetPoints()
		}
		return false, false, 0
	}
	evicted = p.makeRoom(slope, resolution)
	p.list[p.n] = p.best
	p.n++
	if p.n > 1 {
		wait = p.best.after(p.list[p.n-2])
	}
	return true, evicted, wait
}

// makeRoom drops points that are too old, or every second one, and reports whether any was too
// old.
func (p *points) makeRoom(slope, resolution float64) (evicted bool) {
	// Noise makes the slope wrong by about noise/window/points, which is noise*spacing/window^2, and a skew that
	// drifts by 0.00125 ppm a second by that times the window. At the best window, cubed here, both are equal.
	spacing := max(p.spacing, p.list[0].age(p.end)/float64(max(p.n, 1))) // reports come more seldom
	best := 800 * max(p.meanResidual, resolution/2) * spacing * second * second
	longer := func(t float64) bool { return t > congestedTime && (t > longestWindow || t*t*t > best) }
	if p.n == maxPoints && !longer((maxPoints+fitPoints)*p.spacing) { // rule: spans double
		p.spacing, p.n = 2*p.spacing, maxPoints/2
		for i := range p.n {
			a, b := p.list[2*i], p.list[2*i+1]
			if b.below(a, slope) {
				a = b
			}
			p.list[i] = a
		}
	}
	for p.n == maxPoints || p.n >= fitPoints && longer(p.list[0].age(p.end)) {
		p.n = uint8(copy(p.list[:], p.list[1:p.n]))
		evicted = true
	}
	return evicted
}

// height returns how long a point was under way, as the clock stands.
func (w *way) height(d int, c *clock, p keptPoint) float64 {
	floor := w.level + sign(d)*(c.offset-c.skew*p.age(c.at))
	return w.level + p.above(floor)
}

// heights are the points as the clock stands: x from the last one on, and how long each was under way.
func (w *way) heights(d int, c *clock, room *[maxPoints]point) []point {
	heights := room[:w.n]
	for i, p := range w.list[:w.n] {
		heights[i] = point{p.after(w.list[w.n-1]), w.height(d, c, p)}
	}
	return heights
}

// slope returns what the points say of the rate of the clock.
func (w *way) slope(d int, c *clock, resolution float64) gaussian {
	var room [maxPoints]point
	heights := w.heights(d, c, &room)
	slope, span := secant(heights)
	low, third, mean := residuals(heights, slope)
	noise := max(max(2*(third-low), mean*4/5)+1<<(ts24Shift-1), resolution/2) // no fit removes half a unit of a stamp
	if w.spacing == bucketTime {                                              // rule: the spread is noise at first
		noise = max(noise, 1.25*maxPoints*w.spread/float64(w.n))
	}
	return gaussian{c.skew + sign(d)*slope, noise * noise / (span * span)}
}

// turn lays the floor after the clock turned: below its points, or where these are few, which may all be late, through
// the datagram that last touched it.
func (w *way) turn(d int, c *clock, turn float64) {
	if w.n < fitPoints {
		w.lay(sign(d) * turn * (c.at - w.touched))
		return
	}
	var room [maxPoints]point
	low, lowest := infinite, w.best
	for i, p := range w.heights(d, c, &room) {
		if p.delta < low {
			low, lowest = p.delta, w.list[i]
		}
	}
	if best := w.height(d, c, w.best); w.some && best < low {
		low, lowest = best, w.best
	}
	w.touched = c.at - lowest.age(c.at)
	w.lay(low - w.level)
}

// learnUsual learns how far above the floor datagrams usually come. What is late teaches nothing, nor does the curve of
// a clock that changes its rate: the wobble of the points about it does.
func (w *way) learnUsual(d int, c *clock) {
	var room [maxPoints]point
	heights := w.heights(d, c, &room)
	_, _, w.meanResidual = residuals(heights, 0)
	if w.late.by >= 2*w.meanResidual {
		return
	}
	w.typical.height = min(w.meanResidual, 2*wobble(heights))
	w.typical.spacing = -heights[0].x / float64(w.n-1)
	if w.n >= maxPoints*2/3 && (w.typical.spacing < 2.5*second || w.spacing < w.typical.spacing/2) {
		w.typical.depth = w.typical.height * w.typical.spacing
	}
}

// residuals returns how far the lowest and the third lowest point are above the line of that slope through 0, and the
// mean distance of all points from the lowest.
func residuals(points []point, slope float64) (low, third, mean float64) {
	low, mid, third, sum := infinite, infinite, infinite, 0.0
	for _, p := range points {
		y := p.delta - slope*p.x
		low, mid, third, sum = min(low, y), min(mid, max(low, y)), min(third, max(mid, y)), sum+y
	}
	return low, third, sum/float64(len(points)) - low
}

// wobble returns the mean distance of the points from the chords of their neighbours: a clock that changes its rate bends
// few.
func wobble(points []point) float64 {
	sum := 0.0
	for i := 1; i+1 < len(points); i++ {
		p, q, r := points[i-1], points[i], points[i+1]
		sum += abs(q.delta - p.delta - (r.delta-p.delta)*(q.x-p.x)/(r.x-p.x))
	}
	return sum / float64(len(points)-2)
}

// median returns the middle one of three.
func median(a, b, c float64) float64 { return max(min(a, b), min(max(a, b), c)) }

// secant returns the slope of the lower convex hull of the points over the middle half of
// their span (Moon, Skelly, Towsley 1999, smoothed), and the span.
func secant(points []point) (slope, span float64) {
	first, last := points[0].x, points[len(points)-1].x
	span = last - first
	from, to := first+span/4, last-span/4
	var lowFrom, lowTo float64 // the hull there
	for p := 0; p < len(points)-1 && points[p].x <= to; {
		x, y, next := points[p].x, points[p].delta, p+1 // the least slope from p; products are faster than quotients
		run, fall := points[next].x-x, points[next].delta-y
		for i := p + 2; i < len(points); i++ {
			if dx, dy := points[i].x-x, points[i].delta-y; dy*run <= fall*dx {
				next, run, fall = i, dx, dy
			}
		}
		least := fall / run
		if x <= from {
			lowFrom = y + least*(from-x)
		}
		lowTo, p = y+least*(to-x), next
	}
	return (lowTo - lowFrom) / (span / 2), span
}

// ---- Coarse clocks ----

const (
	maxResolution = 16e3 // us: no system's clock is coarser
	surelyCoarse  = 8    // so many differences in a row are hardly multiples of one number by chance
)

// resolution learns of what deltas are multiples where both clocks are coarse.
type resolution struct {
	candidate uint16 // us: it may be that
	hits      uint8  // differences that were multiples of it, at most longRun; one that is none halves them
}

// learn takes by how much two datagrams of about the same moment differ: by 0 or a multiple of the resolution, but for the
// unit of stamps. Where a queue grows or a path flaps that is often the same, too: those are not to be told here.
func (r *resolution) learn(d int64) {
	const alike = 2<<ts24Shift + 2
	if d = abs(d); d <= alike || d > maxResolution {
		return
	}
	candidate := int64(r.candidate)
	rest := d % max(candidate, 1)
	switch {
	case candidate > 6*alike && min(rest, candidate-rest) <= alike:
		r.hits = min(r.hits+1, longRun)
	case r.hits >= surelyCoarse: // a clock that is steered or set as the two came
		r.hits /= 2
	default:
		*r = resolution{uint16(d), 1}
	}
}

// joint returns the resolution of both clocks together, us: 0 where one of them is not coarse.
func (r *resolution) joint() float64 {
	if r.hits < surelyCoarse || r.candidate <= hostJitter {
		return 0
	}
	return float64(r.candidate) // rule: both clocks may be coarse
}

// ---- What readers see ----

// clockMap is how readers get from a local time to the remote one: four words, which the
// compiler keeps in registers.
type clockMap struct {
	from  uint64 // local time, us: all that follows is as of then
	whole uint64 // us: what readers add to it, rounded down; while no offset is known, what Anchor said
	rates uint64 // 2^-32: rate of the offset, in the high half before from, in the low half later
	rest  uint64 // high half: what is missing from whole, 2^-32 us; low half: slew, 2^-8 us, which they add at from, too, to be slewed away
}

// view is a consistent state for readers: association.view makes it, and publish says from when on it holds.
type view struct {
	clockMap
	steps       uint32  // jumps of the remote time so far
	delay       float32 // us: minimum one-way delay from the peer
	toPeer      float32 // us: minimum one-way delay to the peer
	bound       float32 // us: of the offset's error readerMargin before from, without slew
	dispersion  float32 // by which bound grows in a microsecond, us
	undisturbed float32 // us: since the last clock event, or the start
	scatter     float32 // us: mean distance of fast datagrams from the floor
	jitter      uint32  // 2^-jitterBits us: as the fast path counts it, whenever that was
	state       uint32  // what is known: the bits unchecked, ambiguous, synced and disturbed
}

// slew returns what readers still add at from, 2^-32 us.
func (r clockMap) slew() int64 { return int64(r.rest<<32) >> 8 }

// skewAt returns the rate of the offset x us after from, 2^-32.
func (r clockMap) skewAt(x int64) int64 {
	if x < 0 {
		return int64(r.rates) >> 32
	}
	return int64(int32(r.rates))
}

// slewLeft returns what is left of the slew x us after from, 2^-32 us.
func (r clockMap) slewLeft(x int64) int64 {
	slewed := min(max(x, 0), 2*maxSlew) << 31 // at half the speed of time
	return r.slew() - max(min(r.slew(), slewed), -slewed)
}

// offset returns what readers add x us after from, where the rate is skew, and the part of a
// microsecond. Products wrap as offsets do, at any x.
func (r clockMap) offset(x, skew int64) (whole uint64, part uint32) {
	fine := int64(r.rest>>32) + skew*(x&math.MaxUint32)
	if x < 2*maxSlew { // later nothing is left
		fine += r.slewLeft(x)
	}
	return r.whole + uint64(skew*(x>>32)+fine>>32), uint32(fine)
}

// remote returns the remote clock.
func (r clockMap) remote(localUsec uint64) uint64 {
	x := int64(localUsec - r.from)
	whole, _ := r.offset(x, r.skewAt(x))
	return localUsec + whole
}

// ppm returns the skew in parts per million.
func (r clockMap) ppm() float64 { return float64(int32(r.rates)) / (1 << 32) * 1e6 }

// boundAt returns the error bound x us after from: at most half the ring, where all offsets are.
// The skew itself changes, too.
func (v *view) boundAt(x int64) float64 {
	age, rest := abs(float64(x)+readerMargin), float64(abs(v.slewLeft(x)))
	return min(float64(v.bound)+(float64(v.dispersion)+skewDrift/2*age)*age+rest/(1<<32)+1, maxOffset)
}

// published is what readers see: a view, written by show and read by load, and counts.
type published struct {
	seq       atomic.Uint32    // counts views, by 2; odd while one is being written; the top bits are its state
	late      atomic.Uint32    // buckets in which all datagrams queued
	patience  atomic.Uint32    // ms: the age of the last report at which the peer is silent
	datagrams atomic.Uint64    // before the bucket under way; here, where a bucket's end writes anyway
	words     [8]atomic.Uint64 // the view without its state
	heard     atomic.Uint64    // local time, us, of the last report
	report    ownReport
}

// The state of a view, the top bits of shown.seq: what is known was not checked since a silence or a clock step, the
// multiple of 67.1 s is in doubt, the offset is known, there was a clock event.
const unchecked, ambiguous, synced, disturbed = 1 << 28, 1 << 29, 1 << 30, 1 << 31

// show shows readers a view.
func (s *published) show(v *view) {
	seq := s.seq.Load()
	s.seq.Store(seq + 1)
	s.words[0].Store(v.from)
	s.words[1].Store(v.whole)
	s.words[2].Store(v.rates)
	s.words[3].Store(v.rest)
	jitter, _ := split(s.words[4].Load())
	s.words[4].Store(join(jitter, v.steps))
	s.words[5].Store(joinFloats(v.delay, v.toPeer))
	s.words[6].Store(joinFloats(v.bound, v.dispersion))
	s.words[7].Store(joinFloats(v.undisturbed, v.scatter))
	s.seq.Store((seq+2)<<4>>4 | v.state)
}

// setJitter shows the jitter, which no view counts.
func (s *published) setJitter(jitter uint32) {
	_, steps := split(s.words[4].Load())
	s.words[4].Store(join(jitter, steps))
}

// load takes what is shown; ok is false while the offset is not known.
func (s *published) load(v *view) (ok bool) {
	for {
		seq, r := s.clockMap()
		v.clockMap, v.state = r, seq>>28<<28
		v.jitter, v.steps = split(s.words[4].Load())
		v.delay, v.toPeer = splitFloats(s.words[5].Load())
		v.bound, v.dispersion = splitFloats(s.words[6].Load())
		v.undisturbed, v.scatter = splitFloats(s.words[7].Load())
		if s.seq.Load() == seq {
			return seq&synced != 0
		}
	}
}

// clockMap returns the half of a view that readings need, and seq.
func (s *published) clockMap() (seq uint32, r clockMap) {
	for {
		seq = s.seq.Load()
		r = clockMap{s.words[0].Load(), s.words[1].Load(), s.words[2].Load(), s.words[3].Load()}
		if s.seq.Load() == seq&^1 {
			return seq, r
		}
	}
}

// ownReport is what MinDeltaTS24 tells: one word, so that any goroutine can take it, and say that it did.
//
//	high 32 bits  the delta, 2^-5 us, on its ring; once it is told, as it was told
//	29 bits       local time as of which it is that, 2^12 us
//	3 bits        its kind; 0: there is none
type ownReport struct{ word atomic.Uint64 }

const (
	reportUnit = 12 // bits: of its time

	// The kinds.
	reportOnce  = 1 // it becomes told
	reportTold  = 2 // it was told, and no datagram came since
	reportAgain = 3 // an original is told it again and again, as of now
	reportNone  = 4 // what came is of before a level shift
)

// set sets the delta at localUsec. isNew says that a datagram came since the last one was told.
func (r *ownReport) set(delta float64, localUsec uint64, again, isNew bool) {
	kind := uint64(reportOnce)
	switch {
	case again:
		kind = reportAgain
	case !isNew && r.isTold():
		return
	case !isNew:
		kind = reportNone
	}
	fine := uint32(int64(ring(delta, deltaBits) * (1 << (32 - deltaBits))))
	r.word.Store(uint64(fine)<<32 | uint64(uint32(localUsec>>reportUnit)<<3) | kind)
}

// isTold reports whether what was set last was told.
func (r *ownReport) isTold() bool { return r.word.Load()&7 == reportTold }

// tell returns the report at localUsec.
func (r *ownReport) tell(localUsec uint64, clock clockMap) (minDelta Counter24, ok bool) {
	for {
		word := r.word.Load()
		level, kind := uint32(word>>32), word&7
		age := int64(int32((uint32(localUsec>>reportUnit)<<3)-uint32(word)&^7)) >> 3 << reportUnit
		switch {
		case kind == 0:
			return 0, false
		case kind == reportNone, kind == reportTold && abs(age) > second:
			return 0, true
		case kind == reportTold:
			return NewCounter24(uint64(level >> 8)), true
		}
		minDelta = rounded(level - uint32(int64(int32(clock.rates))*age>>deltaBits))
		told := uint64(minDelta)<<40 | word&math.MaxUint32&^7 | reportTold
		if kind == reportAgain || r.word.CompareAndSwap(word, told) {
			return minDelta, true
		}
	}
}

// rounded returns a delta of 2^-5 us as a report. One of ours is neither 0, which is none, nor of an original's remainder.
func rounded(level uint32) Counter24 {
	minDelta := NewCounter24(uint64(level+1<<7) >> 8) // 24 of 32 bits
	if minDelta%marks == originalMark {               // the neighbour that is nearer
		above := int32(level - uint32(minDelta)<<8)
		minDelta = minDelta.Dec()
		if above > 0 {
			minDelta = minDelta.Inc().Inc()
		}
	}
	if minDelta == 0 {
		minDelta = 1
	}
	return minDelta
}

func join(high, low uint32) uint64 { return uint64(high)<<32 | uint64(low) }

func split(word uint64) (high, low uint32) { return uint32(word >> 32), uint32(word) }

func joinFloats(a, b float32) uint64 { return join(math.Float32bits(a), math.Float32bits(b)) }

func splitFloats(word uint64) (a, b float32) {
	return math.Float32frombits(uint32(word >> 32)), math.Float32frombits(uint32(word))
}

// micros returns us microseconds, at most the longest duration.
func micros(us float64) time.Duration {
	if us >= math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}

func abs[T float32 | float64 | int32 | int64](v T) T { return max(v, -v) }
