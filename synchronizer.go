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

// This file reads from top to bottom. Each part calls only parts below it:
//
//	the synchronizer and its inputs
//	its answers
//	anchors: the multiple of 67.1 s
//	the association: both ways together
//	reports: what the peer says, and what it is told
//	the clock: offset, rate, and how well they are known
//	the arbiter between path and clock
//	the interval that contains the offset: the error bound
//	the floor of one way: gates, level shifts
//	the points above the floor: its level and slope
//	coarse clocks
//	what readers see
//
// # The model
//
// A time called x is in microseconds of the local clock since the first datagram. All other
// numbers are in microseconds, too, unless their comment says otherwise. "In" is the way from the
// peer, "out" the way to it.
//
// There is one clock. Its offset r is the remote minus the local reading, and r changes by the
// skew s. There are two ways of one type. Each way has a floor: the one-way delay of a datagram
// that waits in no queue. Neither end can measure a one-way delay. What it can measure is a delta,
// the time of receipt minus the stamp:
//
//	delta_in  = delay_in  + queue - r    each datagram that arrives here
//	delta_out = delay_out + queue + r    the same at the peer, which reports it
//
// A report is the least delta since the previous report, so it stands for a datagram that really
// arrived. Both ways are therefore fed with the same thing, a sample: the fastest datagram of a
// span of time. Inwards the span is a bucket of 0.2 s, outwards it is the time between two reports.
//
// One way alone learns this from a sample:
//
//	its height         no delay is negative: this limits the offset on one side
//	below the gate     the floor falls to it: a clock step, or a shorter path
//	near the floor     it may become a point; the slope of the points is the skew, as this
//	                   way sees it
//	far above, and     the floor rises to it: a longer path
//	for long
//
// Both ways together tell a path from a clock. The sum of both floors is the round trip, which
// contains no clock. A clock step moves both floors by the same amount in opposite directions:
//
//	the slopes agree                  that is the skew
//	the slopes disagree               a path is changing slowly: the skew is the median of both
//	                                  and of what was known
//	the round trip changed            a path changed: the offset moves by at most half of the change
//	one floor fell, and the other     a clock step
//	way is late by as much
//	the round trip is negative        a clock step; the other way will show it soon
//	the round trip is a little short, a clock is being slewed: the floor of the late way rises by
//	and one way is late by that       what is missing, and the skew bends
//
// A floor is kept as a delay, a point as a delta. So a change of the skew moves no point, and a
// clock step changes no floor.
//
// After a silence a clock step may have gone unseen. Then nothing is thrown away, but the answers
// are marked unchecked until both ways have spoken, and the anchor, if there is one. The first
// datagram widens the interval by its own lateness. Points that are too old are dropped.
//
// The model assumes:
//
//	rates    differ by at most 1000 ppm, and drift by at most 0.1 ppm a second unless slewed
//	queues   now and then a datagram hardly queues; a queue ends within 10 s, or its height varies
//	paths    what lasts for 30 s is a path
//	changes  one at a time: a path, or a clock, which steps or is slewed
//
// A C++ original (catid's TimeSync) reports the minimum of the last ten seconds, and believes the
// last report as it is. So beside an original we take its reports for the floor itself, and tell it
// what another original would. docs/DESIGN.md derives each rule.

// ---- The synchronizer and its inputs ----

// TimeSynchronizer estimates the offset between the local clock and the clock of
// one peer from datagrams that carry a 3-byte stamp. The zero value is ready to
// use; it must not be copied after first use.
//
// One goroutine at a time may call OnAuthenticatedDatagramTimestamp,
// OnPeerMinDeltaTS24, Anchor and Reset. All other methods may be called from any
// goroutine at any time; they take no lock and see one consistent state.
//
// Times are readings of the local clock in microseconds. The clock may start anywhere
// and it may wrap. It should be monotonic, and nobody should slew or set it on purpose.
type TimeSynchronizer struct {
	bucket    bucket // under way
	both      association
	minimum   minimum   // what an original is told
	base      uint64    // local time, us, at which x is 0
	published published // whole cache lines end here, so that neighbours in a slice share none
}

const (
	second         = 1e6  // us: also the most by which receive times may be reordered
	longestSilence = 1e15 // us: 31 years; a local clock that is further ahead was set
)

// OnAuthenticatedDatagramTimestamp takes the stamp of a datagram that arrived at
// localRecvUsec and returns the datagram's one-way delay; ok is false while the
// offset is not known. Call it only for datagrams that are proven to come from the
// peer: whoever can forge a stamp can move the clock.
//
// Datagrams may be lost, reordered, and repeated within half a minute; stamps repeat, so refuse
// older copies. Receive times may go back, as when two threads swap datagrams. One or two
// implausibly early datagrams are ignored, and owd is then the minimum delay. Three in a row, or
// one in each of four 0.2-second buckets, move the floor.
func (s *TimeSynchronizer) OnAuthenticatedDatagramTimestamp(remoteSendTS24 Counter24, localRecvUsec uint64) (owd time.Duration, ok bool) {
	// Nearly every datagram falls into the bucket under way and is late by less than a second: it
	// ends here. What is early has a y as large as unsigned numbers are, so it goes on.
	b := &s.bucket
	dx := localRecvUsec - b.at
	y := wrap(dx*uint64(b.rate)>>31-uint64(remoteSendTS24)<<ts24Shift-b.origin, deltaBits)
	b.count++
	if dx < uint64(b.span) && uint64(y) < second {
		b.fresh.add(int32(y))
		b.vary(int32(y))
		return time.Duration(int64(b.delay)+y) * time.Microsecond, true
	}
	return s.slowPath(remoteSendTS24, localRecvUsec)
}

// slowPath takes a datagram that ends the bucket or may change the floor.
func (s *TimeSynchronizer) slowPath(stamp Counter24, localUsec uint64) (time.Duration, bool) {
	raw := deltaOf(stamp, localUsec)
	if !s.both.begun() || !s.both.sane() {
		s.start(raw, localUsec)
	}
	x := s.advance(localUsec)
	b := &s.bucket
	s.notice(x, localUsec)
	s.minimum.take(NewCounter24(raw>>ts24Shift), localUsec)
	floor := s.both.delta(in, x)
	silence := x - b.from // since the bucket began: up to 0.2 s longer than nothing came
	if silence >= bucketTime {
		s.endBucket(x)
		s.both.heardAgain(in, x, silence)
	}
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

// notice collects what happened since the last call of the slow path: whether a reader took the
// report, and which datagrams were the fastest on the fast path.
func (s *TimeSynchronizer) notice(x float64, localUsec uint64) {
	if s.published.report.isTold() || s.both.peer.isOriginal() { // an original is told the minimum
		s.both.outgoing = outgoing{}
	}
	b := &s.bucket
	if b.fresh.least < none {
		delta := s.both.delta(in, x) + float64(b.fresh.least)
		s.both.outgoing.note(delta, x, s.both.clock.skew)
		s.minimum.take(NewCounter24(uint64(int64(delta))>>ts24Shift), localUsec)
		b.two.add(b.fresh.least)
		b.two.add(b.fresh.next)
		b.fresh = noneYet
	}
}

// endBucket ends the bucket under way at x.
func (s *TimeSynchronizer) endBucket(x float64) {
	b := &s.bucket
	s.published.jitter.Store(b.jitterAfter(s.published.jitter.Load()))
	if s.both.endBucket(x, b) {
		s.published.queuedSpans.Store(s.published.queuedSpans.Load() + 1)
	}
	s.published.datagrams.Store(s.published.datagrams.Load() + uint64(b.count) - 1)
	b.count = 1
	b.begin(x)
}

// show publishes what is known at x to readers, to the sender of reports and to the fast path.
func (s *TimeSynchronizer) show(x float64) {
	s.publish(x)
	now := s.base + uint64(int64(x))
	if s.both.peer.isOriginal() {
		s.published.report.setMinimum(s.minimum.delta[0])
	} else {
		o := &s.both.outgoing
		s.published.report.set(o.at(x, s.both.clock.skew), now, o.some)
	}
	s.prepare(now, x)
}

// start begins with the first datagram, or anew if memory broke. Readers keep the offset and the
// number of steps that they saw, so neither goes back.
func (s *TimeSynchronizer) start(raw, localUsec uint64) {
	var v view
	if s.published.load(&v) {
		v.whole = v.remote(localUsec) - localUsec
	}
	kept := view{
		clockMap: clockMap{whole: v.whole},
		steps:    v.steps,
	}
	s.published.show(&kept)
	earlyReport := s.both.peer.last
	waited := float64(int64(localUsec - s.published.heard.Load()))
	s.base = localUsec
	s.both.start(float64(wrap(raw, deltaBits)))
	s.minimum.replace(0, NewCounter24(raw>>ts24Shift), localUsec)
	s.bucket.begin(0)
	if earlyReport != 0 {
		// Its age may be anything: the local clock may have been set since.
		s.both.report(min(max(-waited, -second), second), earlyReport)
	}
}

// advance returns localUsec as x. If the local clock was set it moves base, so that x goes on.
func (s *TimeSynchronizer) advance(localUsec uint64) (x float64) {
	x = float64(int64(localUsec - s.base))
	ahead := x - s.bucket.from
	if ahead < -second || ahead > longestSilence {
		// The deltas will show by how much the offset changed.
		s.base += uint64(int64(ahead))
		s.published.heard.Store(s.published.heard.Load() + uint64(int64(ahead)))
		x = s.bucket.from
		s.both.interval.clockStep(x)
		s.both.dirty = true
	}
	return x
}

// prepare tells the fast path which datagrams it may handle from now on. It may handle none while
// the offset is unknown, while an early outlier waits for the next datagram, while readers wait
// for a correction, or beside an original, which is told the minimum of all datagrams.
func (s *TimeSynchronizer) prepare(localUsec uint64, x float64) {
	b := &s.bucket
	b.at = localUsec
	b.span = 0
	isOriginal := s.both.peer.isOriginal()
	if s.both.peer.known && s.both.outliers.row == 0 && !s.both.dirty && !isOriginal {
		b.origin = uint64(int64(math.RoundToEven(s.both.delta(in, x)))) - localUsec
		b.rate = uint32((1 + s.both.clock.skew) * (1 << 31))
		b.span = uint32(max(bucketTime-(x-b.from), 0))
	}
}

// OnPeerMinDeltaTS24 takes the peer's report, the result of its MinDeltaTS24, which arrived at
// localRecvUsec in microseconds.
//
// A report that arrives before the first datagram counts when that datagram arrives. A report of 0
// says that nothing arrived at the peer since the previous one; it counts for Snapshot.Age only.
// If your datagrams can overtake each other, drop a report that was sent before one that you passed
// in the last second: it would look as if the floor had risen.
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
		s.both.peer.sentAny = s.both.sentAt(x)
		return
	}
	s.notice(x, localRecvUsec)
	floor := s.both.delta(in, x)
	s.both.report(x, minDelta)
	s.published.patience.Store(uint32(min(s.both.ways[out].patience()/1000, math.MaxInt32)))
	s.bucket.rise(s.both.delta(in, x) - floor)
	s.show(x)
}

// Anchor tells the full 64 bits of the remote clock: it read remoteUsec when the peer sent the
// message that arrived at localUsec, up to 66 s later. Datagrams show the offset modulo 67.1 s
// only, and from the first Anchor on RemoteTime returns full readings. That first one may come
// before any datagram.
//
// Later, call Anchor with each report. A sleep or a clock step of more than 33.5 s changes the
// multiple of 67.1 s, and after a silence Within waits for an anchor.
//
// While an anchor contradicts what is known, Within returns ErrAmbiguous. An anchor that is ahead
// is believed at once, since no message comes from the future. One that is behind may have been
// delayed, so it takes three in a row over 2 s. Either way RemoteTime then jumps, which counts as
// a step.
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
	wasConfirmed := a.confirmed
	behind := int64(v.remote(localUsec) - remoteUsec)
	turns := a.take(x, behind, s.both.delay(in), s.both.outliers.row > 0)
	if turns != 0 {
		v.whole -= uint64(turns) << offsetBits
		v.steps++
		s.both.dirty = true
		i := &s.both.interval
		partOfLastStep := i.undisturbed(x) <= settledTime
		if wasConfirmed && !partOfLastStep {
			i.clockStep(x)
		}
	}
	state := v.state&^(unchecked|ambiguous) | s.both.trustState()
	if turns != 0 || state != v.state {
		v.state = state
		s.published.show(&v)
	}
}

// Reset forgets everything, for instance when another peer takes the place of this one.
// Snapshot.Steps goes on counting; if the offset was known, Reset counts as a step.
func (s *TimeSynchronizer) Reset() {
	var v view
	if s.published.load(&v) {
		v.steps++
	}
	s.bucket = bucket{}
	s.both = association{}
	s.minimum = minimum{}
	s.base = 0
	s.published.show(&view{steps: v.steps})
	s.published.datagrams.Store(0)
	s.published.queuedSpans.Store(0)
	s.published.jitter.Store(0)
	s.published.patience.Store(0)
	s.published.report.word.Store(0)
}

const (
	maxSlew      = 50e3 // us: a larger correction is a step
	readerMargin = 20e3 // us: a reader may be ahead of the last datagram, or behind it, by this much
	settledStep  = 500  // us: soon after a clock step a correction above this is part of that step
)

// publish shows readers what is known at x, if it is news to them.
//
// A correction begins a readerMargin from now, so that what readers read within the readerMargin,
// before or after now, is final. It waits until the previous correction has been over for as long,
// unless both come at the same time. A large correction is a step, at once.
func (s *TimeSynchronizer) publish(x float64) {
	if !s.both.dirty {
		return
	}
	now := s.base + uint64(int64(x))
	var old view
	known := s.published.load(&old)
	since := int64(now - old.from)
	slewTime := abs(old.slew())>>31 + 1 // us, rounded up: at half the speed of time
	waits := known && since > -readerMargin && since < slewTime+readerMargin
	from := now
	if waits {
		from = old.from
	} else if known {
		from += readerMargin
	}
	var v view
	s.both.view(&v, x+float64(int64(from-now)), old.whole)
	v.from = from
	v.steps = old.steps
	began := int64(from - old.from)
	whole, part := old.offset(began, old.skewAt(began))
	excess := wrap((whole-v.whole)<<32+uint64(part)-v.rest>>32, offsetBits+32) // 2^-32 us
	isLarge := abs(excess) > maxSlew<<32
	isSettling := abs(excess) > settledStep<<32 && s.both.interval.undisturbed(x) < settledTime
	s.both.dirty = false
	switch {
	case !known:
		// There is nothing to correct.
	case isLarge || isSettling:
		s.both.view(&v, x, whole)
		v.from = now
		v.steps = old.steps + 1
	case waits:
		s.both.dirty = true
		v.clockMap = old.clockMap
		// Readers still go where the old correction leads.
		v.bound += float32(abs(excess-old.slewLeft(began))) / (1 << 32)
	default:
		left := excess / (1 << 24) // 2^-8 us
		fine := int64(part) - left<<24
		v.whole = whole + uint64(fine>>32)
		v.rest = join(uint32(fine), uint32(left))
		v.rates = join(uint32(old.skewAt(since)), uint32(v.rates))
	}
	s.bucket.delay = int32(v.delay) // the fast path and readers agree
	s.published.show(&v)
}

// ---- Answers ----

// IsSynchronized reports whether the offset is known, which it is from the first datagram and the
// first report on.
func (s *TimeSynchronizer) IsSynchronized() bool { return s.published.seq.Load()&synced != 0 }

// MinDeltaTS24 returns the report to send to the peer at localUsec: the least delta, time of
// receipt minus stamp, of all datagrams since the last report, in units of 8 us modulo 2^24. Send
// it in the next datagram. ok is false before the first datagram. A result of 0 with ok tells the
// peer that nothing has arrived since the last report.
//
// Reading a report ends its interval, so read one only to send it. Each datagram counts in one
// report. One that arrived in the last 0.2 s may count in the next report.
//
//   - A repeated call returns the same number until another datagram counts. After a second it
//     returns 0. The peer takes a number that arrives twice within a second as one report, so
//     several goroutines may read and send reports.
//   - A report that is lost, or that is read and not sent, loses the least delta of its own
//     interval and nothing else: with one report a second, that second.
//   - After the local clock was set back, or ahead by hours, the result is 0 until the next
//     datagram, since nobody knows how old the last one is.
//
// A C++ original believes the last report as it is. Beside one each call returns what an original
// would: the least delta of the last ten seconds, as it was measured.
// The remainder of our reports by 3 is 0 or 1; that of an original's may be 2. After one report of
// remainder 2 the peer counts as an original until 64 reports, each unlike the one before, had
// another remainder. A report is rounded by at most 13 us.
func (s *TimeSynchronizer) MinDeltaTS24(localUsec uint64) (minDelta Counter24, ok bool) {
	_, r := s.published.clockMap()
	return s.published.report.tell(localUsec, r)
}

// RemoteTime returns the remote clock, in microseconds, at the local time localUsec.
// ok is false while the offset is not known. It may be called from any goroutine.
//
// RemoteTime counts from what Anchor was told. Without an Anchor the first offset is taken to be
// within 33.5 s of 0, so the result may be off by a fixed multiple of 67.1 s; a negative result
// wraps to near 2^64. A clock step of more than 33.5 s is followed modulo 67.1 s.
//
// For increasing local times the result never goes back except at a step, which
// increments Snapshot.Steps. Corrections of up to 50 ms are no steps: they are slewed at half the
// speed of time. In the 15 s after a clock step only corrections of up to 0.5 ms are slewed.
//
// A reading from 20 ms before the last datagram to 20 ms after it is final: only a step changes
// it, or a datagram whose time of receipt goes back. For an earlier time the result is extrapolated
// back at the rate that held then.
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
// reads it with FromLocalTime23. ok is false while the offset is not known.
//
// The result is rounded to the nearest unit of 8 us, which adds at most 4 us to the error of the
// offset. It is as far off as ErrorBound here, which the peer cannot see. So send it only while
// Snapshot.Within is nil.
//
// For increasing local times the result never goes back except at a step, which
// increments Snapshot.Steps. It may be called from any goroutine.
func (s *TimeSynchronizer) ToRemoteTime23(localUsec uint64) (ts Counter23, ok bool) {
	remote, ok := s.RemoteTime(localUsec)
	return NewCounter23((remote + 1<<(ts23Shift-1)) >> ts23Shift), ok // 0 is 0 in units, too
}

// ToRemoteTime16 returns the peer's clock at the local time localUsec, for a payload. The peer
// reads it with FromLocalTime16. ok is false while the offset is not known.
//
// The result is rounded to the nearest unit of 512 us, which adds at most 256 us to the error of
// the offset. It is as far off as ErrorBound here, which the peer cannot see. So send it only while
// Snapshot.Within is nil. It may be called from any goroutine.
func (s *TimeSynchronizer) ToRemoteTime16(localUsec uint64) (ts Counter16, ok bool) {
	remote, ok := s.RemoteTime(localUsec)
	return NewCounter16((remote + 1<<(ts16Shift-1)) >> ts16Shift), ok // 0 is 0 in units, too
}

// LocalTime returns the local time, in microseconds, at which RemoteTime reaches remoteUsec: it is
// the inverse, with the same promises. RemoteTime of the result is remoteUsec or 1 us more.
// ok is false while the offset is not known.
//
// For a future time the answer may change with later datagrams. Without an Anchor, remoteUsec must
// be a reading as RemoteTime gives it, off by the same multiple of 67.1 s.
func (s *TimeSynchronizer) LocalTime(remoteUsec uint64) (localUsec uint64, ok bool) {
	var v view
	if !s.published.load(&v) {
		return 0, false
	}
	localUsec = remoteUsec - v.whole
	// Remote clocks run at half to one and a half times the local speed. So each round at least
	// halves what is missing, and 64 rounds end any 64-bit number.
	for range 64 {
		missing := int64(remoteUsec - v.remote(localUsec))
		localUsec += uint64(missing)
		if missing >= -1 && missing <= 1 {
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

// MinimumOneWayDelay returns how long the fastest datagrams from the peer took recently, never
// negative. It begins as half the round trip, because two ends cannot measure how unequal the ways
// are. A way that becomes longer shows after 10 s. ok is false while the offset is not known.
func (s *TimeSynchronizer) MinimumOneWayDelay() (delay time.Duration, ok bool) {
	var v view
	ok = s.published.load(&v)
	return micros(float64(v.delay)), ok
}

// MinimumDelayToPeer returns how long the fastest datagrams to the peer took recently, never
// negative. It begins as half the round trip. Its sum with MinimumOneWayDelay, the way from the
// peer, is the round trip. ok is false while the offset is not known.
func (s *TimeSynchronizer) MinimumDelayToPeer() (delay time.Duration, ok bool) {
	var v view
	ok = s.published.load(&v)
	return micros(float64(v.toPeer)), ok
}

// Skew returns the rate of the remote clock minus that of the local clock, in parts per million,
// from -1000 to 1000. ok is false while it is not known to 25 ppm; RemoteTime runs at the best
// guess until then. That takes seconds to minutes: docs/PRODUCTION.md has figures.
// Snapshot.SkewError says how well it is known.
func (s *TimeSynchronizer) Skew() (ppm float64, ok bool) {
	var v view
	if !s.published.load(&v) || v.dispersion > priorSkew/4 {
		return 0, false
	}
	return v.ppm(), true
}

// ErrorBound returns how far RemoteTime may be off at localUsec, however unequal the two ways are:
// half the round trip, plus what the clocks may have drifted apart since the last useful datagram
// and report. It holds while there is no clock step and the rates differ by at most 500 ppm.
// Stalls, short queues and paths that become longer do not widen it. ok is false while the offset
// is not known.
//
// For up to SettleTime after a clock step the bound may be wrong, and for longer if the path
// changed at the same moment. Snapshot.SinceStep says when a step was last detected. The bound is
// at most 33.6 s, since datagrams show the offset modulo 67.1 s.
func (s *TimeSynchronizer) ErrorBound(localUsec uint64) (bound time.Duration, ok bool) {
	snapshot, ok := s.Snapshot(localUsec)
	return snapshot.ErrorBound, ok
}

// Snapshot is everything that is known at one local time, RemoteUsec-OffsetUsec, all from the
// same state. It is also a mapping from the local to the remote clock: keep it, ask it for other
// times with At, chain it with another one with Then, or send it to another machine with
// AppendBinary. The zero value knows nothing. A Snapshot is a value: it never changes.
type Snapshot struct {
	// RemoteUsec is the remote clock, see TimeSynchronizer.RemoteTime.
	RemoteUsec uint64
	// OffsetUsec is the remote minus the local clock.
	OffsetUsec int64
	// ErrorBound is how far both may be off, see TimeSynchronizer.ErrorBound. Only the zero value
	// has 0.
	ErrorBound time.Duration
	// MinimumOneWayDelay is the shortest recent one-way delay from the peer.
	MinimumOneWayDelay time.Duration
	// MinimumDelayToPeer is the shortest recent one-way delay to the peer.
	MinimumDelayToPeer time.Duration
	// Jitter is the interarrival jitter of RFC 3550, section 6.4.1, but all datagrams of 0.2 s count
	// alike. It lags by up to 0.2 s.
	Jitter time.Duration
	// FloorScatter is the mean distance of the fastest datagrams from the shortest delay, and 0
	// until that is known.
	FloorScatter time.Duration
	// Age is the time since the last report.
	Age time.Duration
	// SilentAfter is the Age from which on the peer counts as silent: 15 s, or 4 times the usual
	// time between two reports if that is longer.
	SilentAfter time.Duration
	// SinceStep is the time since a clock step was last detected, or since the first datagram.
	SinceStep time.Duration
	// Skew is the remote minus the local rate, in parts per million, however well it is known.
	Skew float64
	// SkewError is how far Skew may be off, in parts per million: 6 standard errors, plus the
	// drift that rates may have.
	SkewError float64
	// Steps counts the jumps of the remote time. One event may cause several. The first
	// synchronization does not count.
	Steps uint32
	// StepSeen says that a clock step was detected since the first datagram.
	StepSeen bool
	// Unchecked says that too little has arrived since a silence or a clock step to confirm what
	// is known.
	Unchecked bool
	// Ambiguous says that the multiple of 67.1 s is in doubt, see TimeSynchronizer.Anchor.
	Ambiguous bool
	// Hops counts the mappings that Then put behind the first one.
	Hops uint8
}

// Known reports whether the snapshot knows anything. The zero value does not.
func (s Snapshot) Known() bool { return s.ErrorBound != 0 } // a known bound is at least 39 us

// Snapshot returns everything that is known at localUsec. ok is false while the offset is not
// known. It may be called from any goroutine.
func (s *TimeSynchronizer) Snapshot(localUsec uint64) (snapshot Snapshot, ok bool) {
	var v view
	if !s.published.load(&v) {
		return Snapshot{}, false
	}
	remote := v.remote(localUsec)
	x := int64(localUsec - v.from)
	age := float64(int64(localUsec - s.published.heard.Load()))
	silentAfter := max(s.published.patience.Load(), settledTime/1000) // ms
	drift := skewDrift * abs(float64(x)+readerMargin)                 // as boundAt has it
	snapshot = Snapshot{
		RemoteUsec:         remote,
		OffsetUsec:         int64(remote - localUsec),
		ErrorBound:         micros(v.boundAt(x)),
		MinimumOneWayDelay: micros(float64(v.delay)),
		MinimumDelayToPeer: micros(float64(v.toPeer)),
		Jitter:             time.Duration(s.published.jitter.Load()>>jitterBits) * time.Microsecond,
		Age:                micros(max(age, 0)),
		SilentAfter:        time.Duration(silentAfter) * time.Millisecond,
		SinceStep:          micros(max(float64(v.undisturbed)+float64(x), 0)),
		Skew:               v.ppm(),
		SkewError:          (float64(v.dispersion) + drift) * 1e6,
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

// SettleTime is how long Within fails after a clock step was detected. By then both ends have seen
// the step and told each other. A peer that is silent for as long may have stepped its clock
// meanwhile.
const SettleTime = 15 * time.Second

// Within returns one of these. Compare with errors.Is.
var (
	ErrUnsynchronized = errors.New("timesync: the remote clock is not known yet")
	ErrSilent         = errors.New("timesync: no report from the peer for 15 s or longer")
	ErrAmbiguous      = errors.New("timesync: the remote clock may be off by a multiple of 67.1 s")
	ErrStepped        = errors.New("timesync: a clock was set less than 15 s ago")
	ErrUnchecked      = errors.New("timesync: not confirmed since a silence or a clock step")
	ErrWide           = errors.New("timesync: the error bound exceeds the tolerance")
)

// Within returns nil if ErrorBound is at most tolerable and nothing is known that speaks against
// it: RemoteUsec is then right to that, modulo 67.1 s where Anchor is not called. Otherwise the
// error says why nobody should rely on it. It is the first of these that applies:
//
//	ErrUnsynchronized  Known is false: nothing is known
//	ErrSilent          Age is SilentAfter or more: the peer was silent for too long
//	ErrAmbiguous       Ambiguous: an anchor disagrees, or the round trip is above 66 s
//	ErrStepped         StepSeen, and SinceStep is less than SettleTime: a clock step
//	ErrUnchecked       Unchecked: the peer was silent, and a clock step may have gone unseen
//	ErrWide            ErrorBound is above tolerable; it is half the round trip at least
//
// A clock step is detected from the next datagrams and reports: with package link, and four or
// more datagrams a second, within about 3 s. Until then Within answers as before. A clock step of
// less than 2 ms may pass for a slew: the bound widens, and Within goes on. After a silence Within
// fails until datagrams, reports and an anchor have shown whether there was a clock step.
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

// silentAfter returns SilentAfter, or 15 s for a Snapshot that a program built without it.
func (s Snapshot) silentAfter() time.Duration { return max(s.SilentAfter, SettleTime) }

// String returns the snapshot in one line for logs.
func (s Snapshot) String() string {
	if !s.Known() {
		return "not synchronized"
	}
	scatter := "unknown"
	if s.FloorScatter > 0 {
		scatter = s.FloorScatter.String()
	}
	since := "the start"
	if s.StepSeen {
		since = "a clock was set"
	}
	silent := ""
	if s.silentAfter() > SettleTime {
		silent = fmt.Sprintf(" of at most %v", s.SilentAfter)
	}
	doubt := ""
	if s.Unchecked {
		doubt += ", unchecked"
	}
	if s.Ambiguous {
		doubt += ", ambiguous"
	}
	clock := fmt.Sprintf("offset %d us +-%v, skew %.3f+-%.3f ppm",
		s.OffsetUsec, s.ErrorBound, s.Skew, s.SkewError)
	path := fmt.Sprintf("delay %v in, %v out, jitter %v, scatter %s",
		s.MinimumOneWayDelay, s.MinimumDelayToPeer, s.Jitter, scatter)
	trust := fmt.Sprintf("report %v ago%s, %v since %s, %d steps, %d hops%s",
		s.Age, silent, s.SinceStep, since, s.Steps, s.Hops, doubt)
	return clock + ", " + path + ", " + trust
}

// LogValue returns the snapshot for package log/slog: a group that always has the same attributes.
// They are 0 where known is false.
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

// widening returns how much the error bound grows in the time away, both in us.
func (s Snapshot) widening(away float64) float64 {
	return (s.SkewError*1e-6 + s.skewDrift()/2*away) * away
}

// skewDrift returns how fast Skew may drift, per microsecond. Each pair of clocks drifts by itself.
func (s Snapshot) skewDrift() float64 { return skewDrift * (1 + float64(s.Hops)) }

// At returns what the snapshot says of another local time, later or earlier: RemoteUsec,
// OffsetUsec, ErrorBound, Age, SinceStep and SkewError as of then. The remote time runs at the rate
// Skew. ErrorBound grows in both directions, by SkewError and by the fastest drift of a rate.
// Unlike a TimeSynchronizer, a Snapshot does not see what happens to the clocks after it was taken.
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
	s.Age = later(s.Age, x)
	s.SinceStep = later(s.SinceStep, x)
	return s
}

// wider returns bound plus us, rounded up, at most the longest duration.
func wider(bound time.Duration, us float64) time.Duration {
	us = math.Ceil(us)
	if us < float64(math.MaxInt64-bound)/1000 {
		return bound + time.Duration(us)*time.Microsecond
	}
	return math.MaxInt64
}

// later returns what age becomes x us later, from 0 to the longest duration.
func later(age time.Duration, x int64) time.Duration {
	return micros(max(float64(age)/1000+float64(x), 0))
}

// LocalTime returns the local time, in microseconds, at which the remote clock reads remoteUsec:
// the first one at which At says so, or 1 us more. The result is off by at most
// At(result).ErrorBound. The zero value returns remoteUsec.
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
// allows. For another local time use At(localUsec).Interval(). The zero value returns 0 and the
// largest number: any time is possible.
func (s Snapshot) Interval() (earliestUsec, latestUsec uint64) {
	if !s.Known() {
		return 0, math.MaxUint64
	}
	bound := uint64((s.ErrorBound-1)/time.Microsecond) + 1
	return s.RemoteUsec - bound, s.RemoteUsec + bound
}

// Then chains two mappings: s leads from the local clock to a second one, next from the second one
// to a third. The result leads from the local clock to the third, at the local time of s. A relay
// uses it to tell its receivers what it knows of a sender.
//
// next may have been taken earlier or later; Then asks it At the time of s. It must be about the
// second clock that s is about: if the second computer restarted, an earlier next is about another
// clock.
//
// Offsets, rates, delays and jitters add up, and so do their errors. Age and SilentAfter are those
// of the mapping that is closer to being silent. SinceStep is the shorter one, and StepSeen says
// whether Within waits for a step. Steps is no longer a count, but it changes when either one does.
// If either mapping is the zero value, so is the result.
func (s Snapshot) Then(next Snapshot) Snapshot {
	if !s.Known() || !next.Known() {
		return Snapshot{}
	}
	next = next.At(s.RemoteUsec)
	// The true reading of the second clock may be off from where next was asked by s.ErrorBound.
	off := float64(s.ErrorBound) / 1000
	skewProduct := s.Skew * next.Skew * 1e-6
	skewErrorProduct := s.SkewError*(abs(next.Skew)+next.SkewError) + next.SkewError*abs(s.Skew)
	skewErrorProduct *= 1e-6
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
		Skew:               s.Skew + next.Skew + skewProduct,
		SkewError:          s.SkewError + next.SkewError + skewErrorProduct,
		Steps:              31*s.Steps + next.Steps, // in a sum a restart could hide a step
		StepSeen:           s.StepSeen,
		Unchecked:          s.Unchecked || next.Unchecked,
		Ambiguous:          s.Ambiguous || next.Ambiguous,
		Hops:               uint8(min(int(s.Hops)+int(next.Hops)+1, math.MaxUint8)),
	}
	if next.Age-next.silentAfter() > s.Age-s.silentAfter() {
		both.Age = next.Age
		both.SilentAfter = next.silentAfter()
	}
	if next.SinceStep < s.SinceStep {
		both.StepSeen = next.StepSeen
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

var errSnapshot = errors.New("timesync: not a snapshot, or one of an unknown version")

// AppendBinary appends the 63 bytes in which a Snapshot travels. The error is always nil. Integers
// are little-endian:
//
//	version             1 byte: 1
//	flags               1 byte: 1 StepSeen, 2 Unchecked, 4 Ambiguous; the other bits are 0
//	Hops                1 byte
//	local clock         8 bytes, us: when it was taken
//	RemoteUsec          8 bytes
//	ErrorBound          4 bytes, us, rounded up
//	MinimumOneWayDelay  4 bytes, us
//	MinimumDelayToPeer  4 bytes, us
//	Jitter              4 bytes, us
//	FloorScatter        4 bytes, us
//	Age                 4 bytes, ms, rounded up
//	SilentAfter         4 bytes, ms
//	SinceStep           4 bytes, ms, rounded down
//	Skew                4 bytes, 2^-32, signed
//	SkewError           4 bytes, 2^-32, rounded up
//	Steps               4 bytes
//
// A duration that does not fit becomes the longest one that does. An ErrorBound above 71 minutes or
// a rate above one half does not fit either; such a snapshot travels as the zero value. The zero
// value is the version and zeros.
func (s Snapshot) AppendBinary(b []byte) ([]byte, error) {
	down := func(d, unit time.Duration) uint32 {
		return uint32(min(max(d, 0)/unit, math.MaxUint32))
	}
	up := func(d, unit time.Duration) uint32 {
		n := down(d, unit)
		if d > time.Duration(n)*unit && n < math.MaxUint32 {
			n++
		}
		return n
	}
	skew := s.Skew * (1 << 32) / 1e6
	rate := math.Round(skew)
	rateError := math.Ceil(s.SkewError*(1<<32)/1e6 + abs(skew-rate))
	ratesFit := abs(rate) <= math.MaxInt32 && rateError >= 0 && rateError <= math.MaxUint32
	boundFits := s.ErrorBound > 0 && s.ErrorBound <= math.MaxUint32*time.Microsecond
	if !ratesFit || !boundFits {
		s = Snapshot{}
		rate = 0
		rateError = 0
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
		up(s.ErrorBound, time.Microsecond),
		down(s.MinimumOneWayDelay, time.Microsecond),
		down(s.MinimumDelayToPeer, time.Microsecond),
		down(s.Jitter, time.Microsecond),
		down(s.FloorScatter, time.Microsecond),
		up(s.Age, time.Millisecond),
		down(s.SilentAfter, time.Millisecond),
		down(s.SinceStep, time.Millisecond),
		uint32(int32(rate)),
		uint32(rateError),
		s.Steps,
	} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b, nil
}

// MarshalBinary returns what AppendBinary appends.
func (s Snapshot) MarshalBinary() (data []byte, err error) { return s.AppendBinary(nil) }

// UnmarshalBinary sets s to the Snapshot in data, which must be exactly what AppendBinary
// appended. It returns ErrLength if data is not 63 bytes long, and another error if data is no
// Snapshot of a known version; then s keeps its value. Whoever can forge data can move the clock,
// as with a stamp.
func (s *Snapshot) UnmarshalBinary(data []byte) error {
	if len(data) != snapshotLen {
		return ErrLength
	}
	flags := data[1]
	local := binary.LittleEndian.Uint64(data[3:])
	remote := binary.LittleEndian.Uint64(data[11:])
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

// Stats counts since the start or Reset. The counts lag by 0.2 s, or until the next datagram.
type Stats struct {
	// Datagrams counts all datagrams that were passed in.
	Datagrams uint64
	// QueuedSpans counts the spans of 0.2 s or more in which every datagram queued.
	QueuedSpans uint32
}

// LogValue returns the counts for package log/slog: a group that always has the same attributes.
func (s Stats) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Uint64("datagrams", s.Datagrams),
		slog.Uint64("queued_spans", uint64(s.QueuedSpans)),
	)
}

// Stats returns the counts so far. It may be called from any goroutine.
func (s *TimeSynchronizer) Stats() Stats {
	return Stats{Datagrams: s.published.datagrams.Load(), QueuedSpans: s.published.queuedSpans.Load()}
}

// ---- Anchors ----

const (
	turn     = 1 << offsetBits // us: the offset is known modulo this
	heldTime = 2 * second      // us: more than any round trip, after which a newer anchor comes

	// A longer round trip may pass half a turn of its ring, 67.1 s, with its next datagram, since
	// datagrams are reordered by up to a second. Then it looks negative.
	longestTrip = turn - second // us
)

// anchors decide by how many turns of the offset's ring RemoteTime is off.
type anchors struct {
	known       bool    // an anchor has arrived
	confirmed   bool    // one has agreed since the offset is known
	disagrees   bool    // the last one contradicts what is known
	row         uint8   // anchors in a row that were behind by the same number of turns
	behindTurns int64   // turns: that number
	rowFrom     float64 // x of the first one in that row
	agreedAt    float64 // x of the last one that agreed
}

// take takes an anchor that arrived at x, with a remote time that is behind by that many us of what
// RemoteTime says, and returns by how many turns RemoteTime must be set back. delay is that of a
// datagram on the floor. early says that an early outlier is waiting to be believed.
func (a *anchors) take(x float64, behind int64, delay float64, early bool) (turns int64) {
	a.known = true
	turns = (behind + second) >> offsetBits
	a.disagrees = turns != 0
	late := float64(behind-turns<<offsetBits) - delay
	// Where the rest is no plausible delay a clock step is the cause. Datagrams and reports must
	// show it first.
	mayBeStep := late < -second || late > turn/2
	// An old message looks as a step backwards does.
	mayBeDelayed := turns > 0 || late > second
	switch {
	case turns == 0:
		// It agrees.
	case early:
		a.row = 0
		return 0
	case !a.confirmed:
		// Nothing was known of the turns, so there is nothing to contradict.
	case mayBeStep:
		a.row = 0
		return 0
	case mayBeDelayed && !a.inARow(x, turns):
		return 0
	}
	a.confirmed = true
	a.disagrees = false
	a.row = 0
	a.agreedAt = x
	return turns
}

// inARow counts an anchor that is behind, and reports whether enough of them said the same.
func (a *anchors) inARow(x float64, turns int64) bool {
	if a.row == 0 || a.behindTurns != turns {
		a.row = 0
		a.behindTurns = turns
		a.rowFrom = x
	}
	a.row = min(a.row+1, longRun)
	return a.row >= outliersInARow && x-a.rowFrom >= heldTime
}

// ---- The association: both ways together ----

const (
	in, out = 0, 1 // the ways: from the peer, to the peer

	rounding = 13.0 // us: a report or a stamp is rounded by at most this
	sigmas   = 6.0  // standard errors that a limit of a rate takes: the noise is not normal
)

var infinite = math.Inf(1)

// sign is the sign with which the offset enters the deltas of way d: -1 in, +1 out.
func sign(d int) float64 { return float64(2*d - 1) }

// association puts both ways together. Only the association changes its parts. No part keeps
// another; where one must look at another, that is a parameter.
type association struct {
	ways       [2]way
	clock      clock
	arbiter    arbiter
	interval   interval
	anchors    anchors
	peer       peer
	outliers   outliers
	outgoing   outgoing
	resolution resolution

	dirty            bool    // there is news for readers
	silenceMayBeStep bool    // in the last silence a clock may have been set
	awaited          uint8   // 1 + the way that has not shown the last clock step yet; 0: none
	awaitedFrom      float64 // x of that step
	awaitedTrip      float64 // us: the round trip before that step, which holds until the way shows it
	silenceEnd       float64 // x at which the last silence ended
	silenceDrift     float64 // us: how far the clocks may have drifted apart in it
	longSilence      longSilence
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

// sane reports whether the numbers that all others derive from are finite. Only broken memory makes
// them anything else.
func (a *association) sane() bool {
	r := &a.arbiter
	sum := a.clock.offset + a.clock.skew + a.clock.sigma + r.asymmetry + r.reference + r.symmetric +
		a.ways[in].level + a.ways[out].level + a.interval.slack[in] + a.interval.slack[out]
	return sum-sum == 0
}

// advance carries the clock on to x. The interval widens by how far the rate may be off.
func (a *association) advance(x float64) {
	dt := x - a.clock.at
	if dt == 0 {
		return
	}
	// If times went back, the clocks may have drifted apart all the same.
	a.interval.follow(a.clock.skew, abs(dt))
	a.interval.widen(a.dispersion() * abs(dt))
	a.clock.offset += a.clock.skew * dt
	a.clock.at = x
}

// delta returns the delta, in us, of a datagram on the floor of way d at x.
func (a *association) delta(d int, x float64) float64 {
	return a.ways[d].level + sign(d)*a.clock.offsetAt(x)
}

// delay returns the one-way delay, in us, of a datagram on the floor of way d.
func (a *association) delay(d int) float64 { return ring(a.ways[d].level, offsetBits) }

// roundTrip returns the sum of both floors, us. It contains no clock.
func (a *association) roundTrip() float64 {
	return ring(a.ways[in].level+a.ways[out].level, deltaBits)
}

// lack returns by how many us the round trip is shorter than the reference one.
func (a *association) lack() float64 { return a.arbiter.reference - a.roundTrip() }

// deadBand returns by how many us two looks at the same round trip may differ.
func (a *association) deadBand() float64 { return a.band(stepScatters) }

// band returns by how many us two looks at the same round trip differ where each floor is off by
// that many scatters.
func (a *association) band(scatters float64) float64 {
	noise := a.ways[in].scatter() + a.ways[out].scatter()
	eachWay := hostJitter + a.resolution.joint() // either floor may be on the next stair
	return 2*eachWay + scatters*noise + a.stale(0)
}

// stale returns by how many us a report of an original may be below its floor now. It is a minimum
// of ten seconds, in which the floor may have risen at the skew, or at unknown more.
func (a *association) stale(unknown float64) float64 {
	if !a.peer.isOriginal() {
		return 0
	}
	return (min(a.clock.at, originalWindow) + second) * max(unknown+a.clock.skew, 0)
}

// look returns what both ways say together now.
func (a *association) look() look {
	return look{
		roundTrip:  a.roundTrip(),
		correction: ring((a.ways[in].level-a.ways[out].level)/2, offsetBits),
		deadBand:   a.deadBand(),
		pathBand:   a.band(pathScatters),
	}
}

// follow moves the offset to where the round trip allows it to be.
func (a *association) follow() {
	if !a.peer.known {
		return
	}
	if a.awaited > 0 {
		a.ways[a.awaited-1].level += a.awaitedTrip - a.roundTrip()
	}
	l := a.look()
	drifted := priorSkew * min(a.clock.at, longestWindow)
	if a.arbiter.reference < -l.deadBand-drifted {
		// No round trip is negative: the first reports were older than a clock step.
		a.arbiter.restart(l.roundTrip)
	}
	d := a.arbiter.correct(l) - l.correction
	jumps := abs(d) > l.deadBand && !a.arbiter.warmingUp()
	a.arbiter.jumped = a.arbiter.jumped || jumps
	a.adjust(d)
}

// adjust moves the offset by d us. What was measured stays: the interval keeps its place, and the
// delta of each floor its value, since one delay grows by what the other one loses.
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

// datagram takes a delta that arrived at x and returns how many us it is above the floor. An early
// outlier is not believed until more of them agree.
func (a *association) datagram(x float64, raw uint64, b *bucket) (y float64, believed bool) {
	a.advance(x)
	w := &a.ways[in]
	w.learnFirstSpread(b)
	y = around(raw, a.delta(in, x))
	gate := w.lowerGate(x, a.clock.sigma, a.resolution.joint())
	if y < -gate {
		by, isFall := a.outliers.add(x, y, x < warmUp)
		a.dirty = a.dirty || a.outliers.mayBeStep()
		if !isFall {
			return 0, false
		}
		a.fall(in, x, by)
		y -= by
	}
	a.dirty = a.dirty || a.outliers.mayBeStep() // it was none
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

// endSilence takes that a silence ended with a datagram that was above the floor by that many us. A
// clock step in the silence may be what made it late. Then the offset is off by as much, so the
// interval allows for it.
func (a *association) endSilence(x, silence, above float64) {
	if !a.peer.known {
		return
	}
	a.silenceEnd = x
	a.silenceDrift = a.dispersion() * silence
	a.silenceMayBeStep = above > second || silence > longestWindow
	a.interval.slack[in] = max(a.interval.slack[in], a.delay(in)+above)
	a.dirty = true
}

// heardAgain takes that way d was heard at x, and had not been for that long. If it was a silence,
// a clock step may have gone unseen, and what is known must be checked.
func (a *association) heardAgain(d int, x, silence float64) {
	isSilence := a.ways[d].isSilence(silence)
	if !isSilence || !a.peer.known || a.interval.since > x-silence {
		return
	}
	a.interval.doubt(x)
	a.outgoing = outgoing{} // it was measured before the silence
	a.dirty = true
}

// trustState returns the bits unchecked and ambiguous. What is known is checked once both ways have
// told something since the last silence or clock step, and the anchor, too, if there is one. While
// an outlier waits that only a clock step explains, nothing is. What is known is
// ambiguous if the anchor disagrees or the round trip is not from -1 to 66 s. Round trips are known
// modulo 134.2 s: a negative one is one of 67.1 s or longer, or there was a clock step.
func (a *association) trustState() (state uint32) {
	anchorIsOld := a.anchors.known && a.anchors.agreedAt < a.interval.since
	if !a.interval.checked() || anchorIsOld || a.outliers.mayBeStep() {
		state |= unchecked
	}
	roundTrip := a.roundTrip()
	if a.anchors.disagrees || roundTrip < -second || roundTrip > longestTrip {
		state |= ambiguous
	}
	return state
}

// learnResolution takes by how many us two datagrams of one bucket differ.
func (a *association) learnResolution(d float64) {
	before := a.resolution.joint()
	a.resolution.learn(int64(d))
	now := a.resolution.joint()
	if now <= before {
		return
	}
	// Datagrams with the same delta showed no slope, and hid how far the clocks drifted apart.
	a.clock.doubt(priorSkew)
	a.interval.widen(now)
	if a.peer.known && abs(a.lack()) < 2*now {
		a.arbiter.restart(a.roundTrip())
	}
	a.dirty = true
}

// endBucket ends the bucket of the way in at x, and reports whether all its datagrams queued.
func (a *association) endBucket(x float64, b *bucket) (congested bool) {
	a.advance(x)
	a.outliers.endBucket()
	if b.two.least == none {
		return false // there were only early outliers
	}
	s := &sample{
		from:  b.from,
		to:    x,
		since: b.from,
		at:    b.from + bucketTime/2,
		least: float64(b.two.least),
		next:  infinite,
	}
	if !b.single() {
		s.next = float64(b.two.next)
	}
	congested = a.take(in, s)
	if !congested && b.many() {
		// Of a coarse clock the two fastest mostly share a stair. The last one is any datagram.
		a.learnResolution(float64(b.last) - s.least)
	}
	return congested
}

// take takes a sample of way d, and reports whether even its fastest datagram queued.
func (a *association) take(d int, s *sample) (congested bool) {
	w := &a.ways[d]
	if int(a.awaited) == d+1 {
		a.awaited = 0
	}
	a.limit(d, s)
	unwatched := s.to-s.from > congestedTime
	a.arbiter.jumped = a.arbiter.jumped || unwatched
	by, congested := w.take(s, w.upperGate(s.to, a.clock.sigma, a.resolution.joint()))
	if !congested {
		w.points.add(point{s.at, a.delta(d, s.at) + s.least}, sign(d)*a.clock.skew)
	}
	a.dirty = a.dirty || a.clockLateness(d) > 0 // readers' bound contains it at once
	if by > 0 {
		a.shift(d, s.to, by)
	} else if a.peer.known && !a.peer.isOriginal() {
		a.followSlew(d, s)
	}
	a.fit(d, s)
	if a.peer.known {
		a.matchStep(s.to)
		if a.dirty { // else the floors are where they were: the next report is soon enough
			a.follow()
		}
	}
	return congested
}

// fall takes that the floor of way d moved down at x; by is below 0. Either the path became shorter
// or there was a clock step. It was the clock if the round trip would become negative, which no
// path can do.
func (a *association) fall(d int, x, by float64) {
	roundTrip := a.roundTrip()
	dead := a.deadBand()
	isPossible := roundTrip+by > -dead
	// Where the round trip is negative already, one way has not shown an earlier clock step.
	wasNegative := min(a.arbiter.reference, roundTrip) < -dead
	if !a.peer.known || isPossible || wasNegative {
		// No path makes one way shorter than it ever was while the other one becomes longer: the
		// rate is wrong. Where no points show it, both floors would part for ever.
		showsRate := a.ways[in].n >= fitPoints || a.ways[out].n >= fitPoints
		isShortest := a.arbiter.isShortest(roundTrip+by, dead)
		isOtherLate := a.ways[1-d].congestedFor > 0
		// rule: two floors that part are a rate
		if !showsRate && isShortest && isOtherLate && !a.arbiter.warmingUp() {
			a.clock.doubt(slewSkew)
		}
		a.shift(d, x, by)
		if isShortest {
			// It may be a clock step, too. Then the limit of the other way is off by as much, until
			// that way says that it is not late.
			a.interval.slack[1-d] -= by
		}
		return
	}
	// No datagram arrives before it was sent.
	a.stepClock(d, x, by) // rule: a round trip shorter than nothing is a clock's
	a.awaited = uint8(2 - d)
	a.awaitedFrom = x
	a.awaitedTrip = roundTrip
}

// shift moves the floor of way d by that many us, to another level.
func (a *association) shift(d int, x, by float64) {
	a.forget(d)
	a.ways[d].shift(x, by)
	if d == in {
		a.outgoing = outgoing{} // it was measured above the old level
	}
	a.dirty = true
}

// stepClock takes that a clock step moved the deltas of way d by that many us. Delays stay as they
// are.
func (a *association) stepClock(d int, x, by float64) {
	a.clock.offset += sign(d) * by
	for k := range a.ways {
		a.shift(k, x, 0)
	}
	a.interval.widen(abs(by)) // until both ways have shown the step it may have been less
	a.clock.doubt(slewSkew)   // it may go on as a slew
	// A slew goes on until a report shows it, and clocks drift apart while nobody is heard.
	// rule: what clocks may drift apart unseen is no step
	if abs(by) > a.unseenDrift(x) {
		a.interval.clockStep(x)
	}
}

// unseenDrift returns how far, in us, the clocks may have drifted apart before it shows at x.
func (a *association) unseenDrift(x float64) float64 {
	if x-a.silenceEnd > warmUp {
		return unseenSlew
	}
	return max(unseenSlew, a.silenceDrift)
}

// forget drops the rate that the points of way d showed, and keeps it as what was known before, if
// it was believed.
func (a *association) forget(d int) {
	w := &a.ways[d]
	if !a.clock.rejected {
		a.clock.prior = a.clock.prior.and(w.rate)
	}
	w.rate = gaussian{}
}

// limit limits the offset on the side of way d. The delay of the sample was not negative, so the
// offset is wrong by at most that delay as it looks from here.
func (a *association) limit(d int, s *sample) {
	if !a.peer.known {
		return
	}
	slack := ring(a.ways[d].level+s.least, offsetBits) + a.dispersion()*(a.clock.at-s.from)
	if d == out {
		slack += rounding + a.stale(sigmas/2*a.clock.sigma)
	}
	if a.interval.take(d, s.since, a.clock.at, slack, a.clock.skew) {
		a.dirty = true
	}
}

// followSlew raises the floor of way d by what the round trip lacks, if all its datagrams have
// been late by as much for some time. A slew moves both floors in opposite directions. The falling
// one is seen at once and shortens the round trip; the rising one just looks late.
func (a *association) followSlew(d int, s *sample) {
	w := &a.ways[d]
	lack := a.lack()
	w.late.add(s, w.residual, lack, w.spread)
	by := min(float64(w.late.by), lack)
	lasted := float64(w.late.lasted)
	slewTime := max(lasted, 2*second)
	isTooSmall := lack < leastSlew+2*a.resolution.joint()
	isTooFast := by > slewSkew*lasted // then it is a clock step
	switch {
	case isTooSmall, isTooFast, a.arbiter.warmingUp(), !w.isLate(lack, slewDepths):
		return
	}
	w.raise(by)
	a.clock.bend(sign(d)*by, slewTime)
	for k := range a.ways {
		a.ways[k].rate = gaussian{}
		a.ways[k].forgetPoints()
		a.ways[k].touched = s.to
		a.interval.slack[k] += by
	}
	a.dirty = true
}

// fit ends the span of way d if it is time: its fastest datagram becomes a point, and the clock
// turns to the rate that the points of both ways show.
func (a *association) fit(d int, s *sample) {
	w := &a.ways[d]
	c := &a.clock
	x := s.to
	silence := x - s.from
	outlastsPoints := silence > congestedTime && w.n >= fitPoints && silence > w.span(s.from)
	if silence > longestWindow || outlastsPoints {
		a.forget(d)
		w.restart(x)
		if silence > longestWindow { // the points of the other way are as old
			a.forget(1 - d)
			a.ways[1-d].restart(x)
			if d == in && a.peer.known {
				a.longSilence = longSilence{from: s.from, to: x, offset: c.offset - c.skew*silence}
			}
		}
		c.doubt(max(c.sigma, min(skewDrift*silence, priorSkew)))
		return
	}
	if x-w.end < w.spacing {
		return
	}
	// A floor that had to be lowered by more than noise has another slope than its points. Fewer
	// than fitPoints have no slope that could be wrong, but in warm-up all may have queued.
	hasLine := w.n >= fitPoints || a.arbiter.warmingUp()
	// rule: a line that sinks starts anew
	if hasLine && w.loweredBy > w.lowerGate(w.lastNear, c.sigma, a.resolution.joint()) {
		a.forget(d)
		w.restart(x)
		mayBeSlew := a.peer.known && !a.peer.isOriginal() && a.lack() > 2*rounding
		if mayBeSlew {
			a.forget(1 - d)
			a.ways[1-d].forgetPoints()
		}
	}
	added, evicted, wait := w.endSpan(x, sign(d)*c.skew, a.resolution.joint())
	if !added {
		return
	}
	a.dirty = true
	if w.n < fitPoints {
		// In 10 s clocks of unknown rates drift apart by more than most queues are high. So what
		// is late after such a gap is no queue.
		// rule: until its slope is known a floor is where it was seen
		if silence > congestedTime && w.congestedFor == 0 {
			w.raise(w.residual)
			w.touched = s.at
		}
		return
	}
	w.rate = w.slope(d, c, a.resolution.joint())
	if evicted {
		// What the evicted point said stays in prior, with the weight of one of n points.
		if !c.rejected {
			c.prior = c.prior.and(gaussian{w.rate.mean, float64(w.n) * w.rate.variance})
		}
		drift := 4 * skewDrift * wait
		c.prior.variance += drift * drift
	}
	// A burst between two silences is short, and its points show hardly any rate. The long silence
	// shows it better than all that prior rests on.
	// rule: a long silence measures the rate
	if a.longSilence.teaches(x) && a.interval.event < a.longSilence.from && a.interval.checked() {
		// Each floor is off by one scatter, and the offset is not better known than its bound says.
		noise := max(a.band(1), a.interval.bound()/sigmas)
		c.prior = a.longSilence.rate(x, c.offsetAt(x), noise)
	}
	change := c.learn(a.ways[in].rate, a.ways[out].rate, w.span(x) > congestedTime)
	for k := range a.ways {
		if k == out && a.peer.isOriginal() {
			continue
		}
		a.ways[k].tilt(k, c, change)
	}
	w.learnTypical(d, c)
}

// matchStep looks for a way whose datagrams are all late by what the round trip became shorter.
// That is a clock step: one floor fell, which was seen at once and taken for a shorter path, and
// the other one rises by the same amount.
func (a *association) matchStep(x float64) {
	for d := range a.ways {
		w := &a.ways[d]
		by := w.lateness()
		if by == 0 {
			continue
		}
		l := a.look()
		wasNegative := l.roundTrip < -l.deadBand
		// A negative round trip waits for the way that has not shown the clock step yet.
		opens := wasNegative && l.roundTrip+by > -l.deadBand
		if opens && !a.arbiter.warmingUp() {
			by = min(by, max(a.arbiter.reference, 0)-l.roundTrip)
		}
		// A path changes one way only, or both in the same direction.
		// rule: a clock that is set moves both floors
		isStep := opens || a.arbiter.matches(by, l, w)
		if !isStep {
			continue
		}
		isWarmUpStep := !opens && a.arbiter.warmingUp()
		a.ways[1-d].level += by // what fell was no path
		a.interval.slack[1-d] += by
		a.stepClock(d, x, by)
		if isWarmUpStep {
			a.arbiter.restart(a.roundTrip())
		}
	}
}

// report takes a report that arrived at x: the least delta of the way out since the report before.
func (a *association) report(x float64, minDelta Counter24) {
	a.advance(x)
	wasOriginal := a.peer.isOriginal()
	repeated := a.peer.note(minDelta)
	a.arbiter.original = a.peer.isOriginal()
	if a.peer.isOriginal() && !wasOriginal {
		// Its minima of ten seconds were taken for single datagrams.
		a.ways[out].restart(x)
		a.ways[out].rate = gaussian{}
		a.clock.doubt(priorSkew)
	}
	raw := uint64(minDelta) << ts24Shift
	sent := a.sentAt(x)
	previous := a.peer.sent
	since := a.peer.sentAny
	a.peer.sentAny = sent
	if a.peer.known && repeated && abs(sent-previous) < second && !a.peer.isOriginal() {
		return // it was read twice and tells nothing new
	}
	a.heardAgain(out, sent, sent-previous)
	a.peer.sent = sent
	if !a.peer.known {
		a.firstReport(x, raw)
		return
	}
	w := &a.ways[out]
	y := around(raw, a.delta(out, sent))
	if a.peer.isOriginal() {
		a.reportOfOriginal(x, y, sent-previous)
		return
	}
	predatesStep := previous < a.awaitedFrom && x-a.awaitedFrom < 3*second
	if a.awaited == out+1 && y < 0 && predatesStep {
		return // its least delta is from before the clock step
	}
	gate := w.lowerGate(sent, a.clock.sigma, a.resolution.joint())
	// A local clock that is set ahead looks like a silence. A report of datagrams from before that
	// does not show the new offset, and the gate is too wide, since no clock drifted for as long as
	// it seems. So no floor follows such a report.
	sentSince := previous - min(max(a.delay(out), 0), second)
	if a.silenceMayBeStep && sentSince < a.silenceEnd && y < 0 && y >= -gate {
		return
	}
	if y < -gate {
		a.fall(out, sent, y)
		y = 0
	} else if y < 0 {
		w.lower(sent, -y)
		a.dirty = true
		y = 0
	}
	s := &sample{
		from:  min(previous, sent),
		to:    sent,
		since: since,
		at:    max(previous, sent-second)/2 + sent/2,
		least: y,
		next:  infinite,
	}
	a.take(out, s)
	a.review(sent - previous)
}

// sentAt returns the x at which a report was sent that arrives at x.
func (a *association) sentAt(x float64) float64 { return x - min(max(a.delay(in), 0), second) }

// reportOfOriginal takes a report of an original: a minimum of ten seconds, y us above the floor
// known here. It was sent dt us after the one before.
func (a *association) reportOfOriginal(x, y, dt float64) {
	w := &a.ways[out]
	if a.awaited == out+1 {
		a.awaited = 0
	}
	w.level += y
	w.near(a.peer.sent)
	w.touched = a.peer.sent
	a.dirty = true
	a.limit(out, &sample{
		from:  a.peer.sent,
		to:    a.peer.sent,
		since: a.peer.sent - originalWindow - second,
	})
	a.matchStep(x)
	a.follow()
	a.review(dt)
}

// firstReport takes the first report. The offset becomes the midpoint, since nothing else is known.
func (a *association) firstReport(x float64, raw uint64) {
	i := &a.ways[in]
	o := &a.ways[out]
	deltaOut := float64(wrap(raw, deltaBits))
	deltaIn := a.delta(in, x)
	half := ring(deltaOut+deltaIn, deltaBits) / 2
	a.peer.known = true
	a.dirty = true
	a.clock.offset = half - deltaIn
	i.level = half
	sent := a.sentAt(x) // only now the delay is known
	a.peer.sent = sent
	a.peer.sentAny = sent
	o.start(half, x)
	o.spread = i.spread
	o.meanResidual = i.meanResidual
	a.arbiter.restart(a.roundTrip())
	a.interval.slack = [2]float64{half, maxOffset}
	a.interval.fresh = [2]bool{true, true} // there is nothing older to compare with
	// The datagram that it tells may be as old as the session.
	a.limit(out, &sample{from: min(sent, 0), to: sent})
}

// review lets the arbiter learn the round trip. It is called once a report, which was sent dt us
// after the one before. It tells little of a longer time than 2 s. Times may go back.
func (a *association) review(dt float64) {
	l := a.look()
	dt = min(max(dt, 0), 2*second)
	a.arbiter.pass(dt)
	i := &a.ways[in]
	o := &a.ways[out]
	if i.congestedFor > 0 || o.congestedFor > 0 {
		l.roundTrip += i.queue() + o.queue()
		isShorter := l.roundTrip < a.arbiter.reference-l.deadBand
		// A round trip with a queue in it is longer than the path.
		// rule: a queue teaches no round trip
		if !a.arbiter.warmingUp() || !isShorter {
			return
		}
	}
	a.arbiter.decay(dt)
	lack := a.arbiter.reference - l.roundTrip
	mayBeSlew := i.isLate(lack, suspectDepths) || o.isLate(lack, suspectDepths)
	mayBeRate := lack < congestedTime*a.clock.sigma && !a.arbiter.warmingUp()
	// A slew shortens the round trip until the late way has been followed, and so does a wrong
	// rate.
	// rule: what lacks may be a clock's
	if lack > 1 && (mayBeSlew || mayBeRate) {
		a.arbiter.age += float32(dt)
		return
	}
	a.arbiter.learn(a.clock.at, dt, l)
	a.follow()
}

// dispersion returns how fast the interval widens, us per us: by what is not known of the rate, and
// by its drift.
func (a *association) dispersion() float64 {
	t := max(a.interval.undisturbed(a.clock.at), second)
	scatter := a.ways[in].scatter()
	if a.peer.known {
		scatter = min(scatter, a.ways[out].scatter())
	}
	unknown := sigmas*a.clock.sigma + (2*scatter+hostJitter)/t
	return 2*settledTime*skewDrift + min(unknown, slewSkew+abs(a.clock.skew))
}

// clockLateness returns by how many us a clock may have been set or slewed: even the fastest
// datagram of the last sample of way d is late by as much.
func (a *association) clockLateness(d int) float64 {
	w := &a.ways[d]
	by := w.residual
	isNoise := by < stepScatters*w.spread
	if !w.sampled || isNoise { // until there is a sample, the residual is above another level
		return 0
	}
	isMoreThanSlew := by > unseenSlew
	isLessThanSleep := w.leastOfTwo <= second
	// A slew moves a clock by little before a report shows it. A suspended clock makes every
	// datagram late by seconds, which a queue rarely does. What is between the two is a queue,
	// unless the other way became shorter: a clock step makes one way early and the other one late.
	// rule: what is late may be a clock that no report has shown yet
	if isMoreThanSlew && isLessThanSleep && !a.arbiter.isShortest(a.roundTrip(), a.deadBand()) {
		return 0
	}
	return by
}

// view sets v to what readers see at x. Of all offsets modulo 67.1 s it takes the one nearest to
// near.
func (a *association) view(v *view, x float64, near uint64) {
	*v = view{clockMap: clockMap{whole: near}}
	v.undisturbed = float32(a.interval.undisturbed(x))
	v.scatter = float32(a.ways[in].meanResidual)
	skew := uint32(int32(a.clock.skew * (1 << 32)))
	v.rates = join(skew, skew)
	if a.interval.stepped() {
		v.state |= disturbed
	} else {
		v.undisturbed -= settledTime // the interval begins as if a step were settled
	}
	if !a.peer.known {
		return
	}
	v.state |= synced | a.trustState()
	offset := ring(a.clock.offsetAt(x), offsetBits) + 1./4 // or rounding down might lose a whole us
	fine := int64(math.Floor(offset * (1 << 32)))
	v.whole = nearest(uint64(fine>>32), near)
	v.rest = uint64(fine) << 32
	v.delay = float32(max(a.delay(in), 0))
	v.toPeer = float32(max(a.delay(out), 0))
	dispersion := a.dispersion()
	late := max(a.clockLateness(in), a.clockLateness(out))
	// What the round trip lacks may be a slew that the late way has not shown yet.
	wrong := max(-a.roundTrip(), min(a.lack(), unseenSlew), late, 0)
	ahead := dispersion * max(x-readerMargin-a.clock.at, 0)
	v.bound = float32(a.interval.bound() + wrong + ahead)
	v.dispersion = float32(dispersion)
}

// ---- Reports: what the peer says, and what it is told ----

const (
	originalWindow = 10 * second // us: an original reports the minimum of this time

	// longRun is how many reports in a row an original never sends without its remainder. It is
	// also the number of samples that the spread is a mean over, and the most that counters count.
	longRun = 64
)

// peer is what is known of the reports of the other end.
type peer struct {
	sent    float64   // x at which it sent the last report that was not 0
	sentAny float64   // x at which it sent the last report, 0 or not
	last    Counter24 // the last report; 0: none yet; it may come before the first datagram
	minima  uint8     // reports until an original counts as one of ours; 0: it does
	known   bool      // a report has arrived, so the offset is known
}

// isOriginal reports whether the peer is a C++ original, or may be one.
func (p *peer) isOriginal() bool { return p.minima > 0 }

// note takes a report and returns whether it equals the one before.
func (p *peer) note(minDelta Counter24) (repeated bool) {
	repeated = minDelta == p.last
	p.last = minDelta
	// Ours never have this remainder, and one in three of an original's has it.
	// rule: originals are told apart
	if minDelta%marks == originalMark {
		p.minima = longRun
	} else if p.minima > 0 && !repeated { // an original repeats one minimum for up to ten seconds
		p.minima--
	}
	return repeated
}

// outgoing is the least delta since the last report was read.
type outgoing struct {
	least keptPoint
	some  bool // there is one
}

// note takes the delta of a datagram, as of x.
func (o *outgoing) note(delta, x, skew float64) {
	p := point{x, delta}.kept()
	if !o.some || p.above(o.least, -skew) < 0 {
		*o = outgoing{p, true}
	}
}

// at returns the least delta as of x, as keptPoint has it. The clocks have run apart since it was
// measured.
func (o *outgoing) at(x, skew float64) uint32 {
	return o.least.delta - ringDelta(skew*o.least.age(x))
}

// minimum is what an original reports: the least delta of ten seconds. It is found as an original
// finds it (Kathleen Nichols' minimum of a window), so that an original learns from us just what
// another original would tell it, whatever we think of the path and the clocks. Each of the three
// candidates is the least delta since the one before.
type minimum struct {
	delta [3]Counter24 // 8 us
	at    [3]uint32    // local time, keptTime; it wraps after 12.7 days
}

// replace replaces the candidates from one on.
func (m *minimum) replace(from int, delta Counter24, localUsec uint64) {
	for i := from; i < len(m.delta); i++ {
		m.delta[i] = delta
		m.at[i] = uint32(localUsec / keptTime)
	}
}

// take takes the delta of a datagram.
func (m *minimum) take(delta Counter24, localUsec uint64) {
	age := func(i int) int64 {
		age := int64(int32(uint32(localUsec/keptTime)-m.at[i])) * keptTime
		if age < -second { // the local clock was set back
			return math.MaxInt64
		}
		return age
	}
	switch {
	case !m.delta[0].Less(delta) || age(2) > originalWindow:
		m.replace(0, delta, localUsec)
	case !m.delta[1].Less(delta):
		m.replace(1, delta, localUsec)
	case !m.delta[2].Less(delta):
		m.replace(2, delta, localUsec)
	}
	switch {
	case age(1) > originalWindow:
		m.delta[0] = m.delta[2]
		m.at[0] = m.at[2]
		m.replace(1, delta, localUsec)
	case age(0) > originalWindow:
		copy(m.delta[:], m.delta[1:])
		copy(m.at[:], m.at[1:])
		m.replace(2, delta, localUsec)
	case m.delta[1] == m.delta[0] && age(1) > originalWindow/4:
		m.replace(1, delta, localUsec)
	case m.delta[2] == m.delta[1] && age(2) > originalWindow/2:
		m.replace(2, delta, localUsec)
	}
}

// ---- The clock ----

const (
	priorSkew  = 100e-6         // two crystals, each up to 50 ppm off
	slewSkew   = 500e-6         // ntpd slews no faster; what is faster counts as a clock step
	unseenSlew = 2e6 * slewSkew // us: a slew goes this far in the 2 s until a report shows it
	maxSkew    = 1000e-6        // no computer's clock is as far off
	skewDrift  = 0.1e-6 / 1e6   // per us: temperature changes a skew this fast
)

// longSilence is the last silence that was longer than a rate is kept. If there was no clock step
// in it, the offset changed by what the clocks drifted apart.
type longSilence struct {
	from   float64 // x at which it began
	to     float64 // x at which it ended
	offset float64 // us: at its beginning
}

// teaches reports whether the silence measures the rate at x: both ways have spoken for a while,
// and not yet for as long as they were silent.
func (l *longSilence) teaches(x float64) bool {
	silence := l.to - l.from
	mayWrap := maxSkew*silence > maxOffset
	return x-l.to > warmUp && x-l.to < silence && !mayWrap
}

// rate returns the rate that the silence shows, where the offset at x is known to noise. It is a
// mean, from which the rate of now may have walked away at random.
func (l *longSilence) rate(x, offset, noise float64) gaussian {
	t := x - l.from
	walked := skewDrift * math.Sqrt(second*t)
	return gaussian{(offset - l.offset) / t, noise*noise/(t*t) + walked*walked}
}

// gaussian is what is known of a rate. A variance of 0 means that nothing is known.
type gaussian struct{ mean, variance float64 }

// and puts two independent measurements of one rate together.
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

// differs reports whether two measurements can hardly be of one rate: they are 4 standard
// deviations apart.
func (g gaussian) differs(h gaussian) bool {
	d := g.mean - h.mean
	return d*d > 4*4*(g.variance+h.variance)
}

// clock is the remote clock as the local one sees it. Both ways see the same one.
type clock struct {
	at       float64  // x at which offset holds
	offset   float64  // us: remote minus local clock
	skew     float64  // the rate at which offset changes, us per us
	sigma    float64  // standard deviation of skew
	prior    gaussian // what was known of skew before the points that both ways hold now
	agreed   gaussian // the skew on which both ways last agreed
	rejected bool     // the points were not believed
}

func (c *clock) offsetAt(x float64) float64 { return c.offset + c.skew*(x-c.at) }

// doubt says that the skew may be wrong by sigma.
func (c *clock) doubt(sigma float64) {
	c.sigma = sigma
	c.prior = gaussian{c.skew, sigma * sigma}
	c.agreed = gaussian{}
}

// bend takes that the offset ran away by that many us in the time t: a slew began or ended in it.
// How much of the change of rate goes on is not known, so the skew takes half of it and sigma all.
func (c *clock) bend(by, t float64) {
	change := by / t
	c.skew = min(max(c.skew+change/2, -maxSkew), maxSkew)
	c.doubt(math.Sqrt(change*change + c.sigma*c.sigma))
}

// learn takes what the points of both ways say of the skew, and returns by how much the skew
// changed. lasts says that the way with the newest point tells it for longer than a queue lasts.
func (c *clock) learn(i, o gaussian, lasts bool) (change float64) {
	both := i.variance > 0 && o.variance > 0
	before := c.skew
	// Both ways see the same clock, so where they differ a path is changing slowly.
	// rule: no clock makes a round trip longer: a path ramps
	if both && i.differs(o) {
		if c.agreed.variance > 0 {
			c.prior = c.agreed
		}
		c.agreed = gaussian{}
		c.rejected = true
		c.skew = median(c.prior.mean, i.mean, o.mean)
		c.sigma = math.Sqrt(c.prior.variance)
	} else {
		points := i.and(o)
		c.rejected = false
		// At the start prior is only what most crystals do, and a clock may be worse than that. None is
		// worse than maxSkew, so what is steeper is a queue, or the stairs of a coarse clock.
		isPossible := abs(points.mean) <= 1.1*maxSkew
		isKnown := c.prior.variance < priorSkew*priorSkew/2
		if !isPossible || isKnown && points.differs(c.prior) {
			d := points.mean - c.prior.mean
			// A path changes one way, a clock both. Where only one way shows a rate, a queue lifts
			// its floor, and only a clock lets it sink for long.
			common := median(0, i.mean-c.prior.mean, o.mean-c.prior.mean)
			isCommon := both && abs(common) > abs(d)/2
			sinks := i.variance > 0 && d > 0 || o.variance > 0 && d < 0
			// rule: what no queue explains is the clock
			if isPossible && (isCommon || !both && sinks && lasts) {
				c.prior.variance = d * d
			} else { // a queue: the points are off by d
				points.variance = d * d
				c.rejected = true
			}
		}
		g := c.prior.and(points)
		c.skew = g.mean
		c.sigma = math.Sqrt(g.variance)
		if both {
			c.agreed = g
		}
	}
	c.prior.mean = min(max(c.prior.mean, -maxSkew), maxSkew)
	c.skew = min(max(c.skew, -maxSkew), maxSkew)
	return c.skew - before
}

// ---- The arbiter between path and clock ----

const (
	warmUp       = 6e6   // us: until then all datagrams may have queued
	settledTime  = 15e6  // us: SettleTime; by then both ends have seen a step and told each other
	longestQueue = 220e6 // us: an asymmetry that was right is kept through a queue of 3.5 minutes

	// How many scatters a floor may be off. To take noise for another path keeps the offset, which
	// harms little. To take noise for a clock step moves the offset and ends all trust.
	pathScatters = 2
	stepScatters = 4
)

// arbiter decides whether the path or a clock has changed. It sees no datagrams, only the round
// trip, which contains no clock, and how far the offset is from the midpoint. To tell a clock step
// it also asks how late a way is.
type arbiter struct {
	reference    float64 // us: the round trip that is trusted now
	asymmetry    float64 // us: offset minus midpoint while the round trip is the reference one
	symmetric    float64 // us: the reference round trip when the asymmetry was last 0
	expiry       float64 // us: time left until the asymmetry decays
	candidate    float64 // us: another round trip, which may become the reference
	fellAt       float64 // x at which the reference last fell far in warm-up
	fellFrom     float32 // us: the reference before that
	age          float32 // us: for how long the round trip has been the reference one
	candidateAge float32 // us: for how long the round trip has been the candidate
	original     bool    // the peer is an original, which shows late that its floor rose
	jumped       bool    // the offset jumped, so what looks like an asymmetry may be a clock step
}

// look is what both ways say together at one time: four numbers, which the compiler keeps in
// registers. With a fifth field a datagram costs 2 ns more.
type look struct {
	roundTrip  float64 // us
	correction float64 // us: offset minus midpoint
	deadBand   float64 // us: two looks at the same round trip differ by less
	pathBand   float64 // us: and most of them by less than this
}

// restart takes the round trip for the reference, with equal ways.
func (r *arbiter) restart(roundTrip float64) {
	*r = arbiter{
		reference: roundTrip,
		symmetric: roundTrip,
		expiry:    r.expiry,
		original:  r.original,
	}
}

// pass takes that dt us passed.
func (r *arbiter) pass(dt float64) {
	r.expiry -= dt
	if r.jumped {
		r.expiry = min(r.expiry, longestWindow)
	}
}

// warmingUp reports whether the reference round trip is hardly known yet.
func (r *arbiter) warmingUp() bool { return r.age < warmUp }

// isShortest reports whether the round trip is shorter than both that are remembered: the one that
// is trusted now, and the last one with equal ways.
func (r *arbiter) isShortest(roundTrip, deadBand float64) bool {
	return roundTrip < min(r.reference, r.symmetric)-deadBand
}

// isLonger reports whether a round trip that is d longer is another one, however small d is: a long
// time has shown the shortest. Beside an original that may be too short, since it tells late that
// its floor rose.
func (r *arbiter) isLonger(d float64) bool {
	// Queues and noise make a round trip longer, so the shorter one is that of the path.
	// rule: longer than a well known round trip is another one
	return d > 0 && r.age > 2*settledTime && !r.original
}

// asymmetryBound returns by how much the asymmetry may have changed when the round trip became d
// longer: by half of d, if one way took all of it.
func (r *arbiter) asymmetryBound(d float64, l look) float64 {
	switch {
	case d < 0 && (r.warmingUp() || r.original):
		// The shorter round trip is the right one: there were queues, or an original told late.
		return 0
	case r.isLonger(d):
	case -l.deadBand < d && d < l.pathBand:
		return 0
	}
	return abs(d) / 2
}

// correct returns how far the offset should be from the midpoint: as far as it is, or as close to
// that as both round trips that are known allow.
func (r *arbiter) correct(l look) float64 {
	d := r.asymmetryBound(l.roundTrip-r.reference, l)
	c := min(max(l.correction, r.asymmetry-d), r.asymmetry+d)
	d = r.asymmetryBound(l.roundTrip-r.symmetric, l)
	return min(max(c, -d), d)
}

// decay lets an asymmetry go that was kept for long enough, in the dt us since the last report.
func (r *arbiter) decay(dt float64) {
	// Nothing shows an asymmetry, so equal ways become the better guess the longer a path lasts.
	// rule: asymmetries decay
	if r.expiry < 0 {
		r.symmetric += (r.reference - r.symmetric) * min(4*dt/congestedTime, 1)
	}
}

// learn learns the reference round trip at x, from one that lasted for dt.
func (r *arbiter) learn(x, dt float64, l look) {
	d := l.roundTrip - r.reference
	switch {
	case l.roundTrip < -l.deadBand:
		// There was a clock step, and one way has not shown it yet.
	case r.warmingUp() && d < 0: // rule: a shorter round trip is taken at once in warm-up
		// Queues end, and what they leave is the path.
		if abs(d) < l.pathBand {
			r.age += float32(dt)
			r.candidateAge = 0
		}
		if d <= -l.deadBand { // a clock may have been set; matches finds out
			r.fellFrom = float32(r.reference)
			r.fellAt = x
		}
		r.reference = l.roundTrip
	case -l.deadBand < d && d < l.pathBand: // what is shorter may be a clock's
		if r.isLonger(d) {
			d /= 10
		}
		r.reference += d * min(dt/congestedTime, 1)
		r.age += float32(dt)
		r.candidateAge = 0
	case abs(l.roundTrip-r.candidate) >= l.deadBand:
		r.candidate = l.roundTrip
		r.candidateAge = 0
	default:
		r.candidateAge += float32(dt)
		// No queue keeps its height for so long.
		// rule: another round trip that lasts is learnt
		if r.candidateAge > settledTime {
			if r.asymmetry == 0 {
				r.expiry = longestQueue
			}
			r.asymmetry = l.correction
			r.reference = l.roundTrip
			r.candidateAge = 0
		}
	}
	d = r.asymmetryBound(r.reference-r.symmetric, l)
	r.asymmetry = min(max(r.asymmetry, -d), d)
	if abs(r.asymmetry) < 1 { // an exponential decay has no end
		r.asymmetry = 0
		r.symmetric = r.reference
	}
}

// matches reports whether the round trip would be as before if the floor of w were higher by rise,
// which is how a clock step looks. In warm-up a queue may have ended as another one came, so it
// asks for more. The round trip before may then be one that has been taken for a queue's, unless w
// has been near its floor since.
func (r *arbiter) matches(rise float64, l look, w *way) bool {
	most := rise / 2
	before := r.reference
	if r.warmingUp() {
		most = rise / 4
		maybeAlwaysQueued := w.spreads == 0
		isRepeated := w.hits >= 4 // a path that wanders reaches the same height thrice, by chance
		if maybeAlwaysQueued || w.congestedFor < 5*second || !isRepeated {
			return false
		}
		if w.lastNear <= r.fellAt {
			before = max(before, float64(r.fellFrom))
		}
	}
	lack := before - l.roundTrip
	miss := abs(lack - rise)
	return lack > l.deadBand && miss < l.deadBand+gateSpreads*w.spread && miss < most
}

// ---- The interval that contains the offset ----

const maxOffset = 1 << (offsetBits - 1) // us: half the ring, where all offsets are

// interval contains the true offset while there is no clock step. No delay is negative, so each
// datagram limits the offset on one side, and each report on the other.
type interval struct {
	slack [2]float64 // us: the truth is at most this far below the offset (in) and above it (out)
	rate  [2]float64 // the skew when a sample of that way last limited its side
	fresh [2]bool    // that way has limited its side after the time since
	since float64    // x of the last clock step or end of a silence: older limits may be wrong
	event float64    // x of the last clock step; at the start -settledTime
}

// doubt says that there may have been a clock step before x.
func (i *interval) doubt(x float64) {
	i.since = x
	i.fresh = [2]bool{}
}

// checked reports whether both ways have told something since.
func (i *interval) checked() bool { return i.fresh[in] && i.fresh[out] }

// clockStep says that a clock step was detected at x.
func (i *interval) clockStep(x float64) {
	i.event = x
	i.doubt(x)
}

// stepped reports whether a clock step was ever detected.
func (i *interval) stepped() bool { return i.event > -settledTime }

// undisturbed returns the time at x since the last clock step, us.
func (i *interval) undisturbed(x float64) float64 { return x - i.event }

// bound returns how far the offset may be off, us.
func (i *interval) bound() float64 { return max(i.slack[in], i.slack[out], 0) + 3*rounding }

// widen says that the truth may be d us farther off, on both sides.
func (i *interval) widen(d float64) {
	for w := range i.slack {
		i.slack[w] = min(i.slack[w]+d, maxOffset)
	}
}

// follow takes that the offset moved at that skew for dt us. Where one way becomes longer by just
// what the other one becomes shorter, that looks like another skew, but the truth stays.
func (i *interval) follow(skew, dt float64) {
	i.slack[in] += max(skew-i.rate[in], 0) * dt // rule: a new rate may be two ways that change places
	i.slack[out] += max(i.rate[out]-skew, 0) * dt
}

// take takes a limit of way d: at x the truth is at most slack us off on its side. The datagrams
// behind it arrived after from. It reports whether that is news for readers: a clock step, or the
// first limit after one.
func (i *interval) take(d int, from, x, slack, skew float64) (news bool) {
	if slack <= i.slack[d] {
		i.rate[d] = skew
	}
	if !i.fresh[d] && from >= i.since { // it replaces the old limit even if it is wider
		i.slack[d] = slack
		i.rate[d] = skew
		i.fresh[d] = true
		news = true
	}
	i.slack[d] = min(i.slack[d], slack)
	gap := -i.slack[in] - i.slack[out]
	switch {
	case gap <= 0:
		return news
	case gap < unseenSlew: // the interval is empty: a slew moved the truth out of it
		i.slack[1-d] += unseenSlew
	default: // no slew moves it that far
		i.clockStep(x)
		i.slack[1-d] = maxOffset
	}
	return true
}

// ---- The floor of one way ----

const (
	bucketTime    = 0.2e6 // us: datagrams are judged by the fastest of this span
	congestedTime = 10e6  // us: most queues end sooner, and others change their height
	hostJitter    = 100.0 // us: what hosts add, whatever the path
	gateSpreads   = 8     // spreads: exponential jitter exceeds 8 times its mean once in 3,000 times

	leastSlew     = 20.0 // us: less may be rounding
	lateShare     = 0.7  // of what lacks: two ways that return from a shorter path are late by half
	slewDepths    = 8    // depths (see typical): where a path wanders, chance makes a way 5 late
	suspectDepths = 0.6  // depths: a way that is this late may follow a slew, so the reference waits
)

// bucket is the span of 0.2 s or more that is under way. Nearly all datagrams touch only this
// cache line.
type bucket struct {
	at     uint64  // local time, us: dx later a datagram is rate*dx - stamp - origin above the floor
	origin uint64  // us: the floor at that time, on the ring of deltas, minus that time
	from   float64 // x at which the bucket began
	rate   uint32  // 2^-31: 1 minus the slope of the floor
	fresh  fastest // of the datagrams since the slow path looked last
	two    fastest // of all before them
	span   uint32  // us: time from at to the end of the bucket; 0: the fast path is closed
	delay  int32   // us: minimum one-way delay
	count  uint32  // datagrams
	last   int32   // us: height of the last datagram
	varied uint32  // us: sum of the differences of two successive datagrams
}

// fastest are the heights, in us, of the two fastest datagrams above the floor; none where there is
// no such datagram.
type fastest struct{ least, next int32 }

const none = math.MaxInt32

var noneYet = fastest{none, none}

// add adds a datagram that is y us above the floor.
func (f *fastest) add(y int32) {
	least := f.least
	f.least = min(least, y)
	f.next = min(f.next, max(least, y))
}

// begin begins a bucket at x.
func (b *bucket) begin(x float64) {
	b.from = x
	b.fresh = noneYet
	b.two = noneYet
	b.varied = 0
}

// add adds a datagram that the slow path took, y us above the floor. What is later than a second
// was held up or stamped by a clock that was set, and is no jitter.
func (b *bucket) add(y int32) {
	b.two.add(y)
	b.vary(min(y, second))
}

// vary takes the height of the next datagram above the floor, at most a second.
func (b *bucket) vary(y int32) {
	b.varied += uint32(abs(y - b.last))
	b.last = y
}

const jitterBits = 4 // RFC 3550: the jitter moves by a sixteenth of each difference

// jitterAfter returns the jitter after this bucket, where before is the jitter after the last one,
// both in 2^-jitterBits us. All differences of a bucket count alike, so a datagram need only add
// its own. Sixteen of them leave nothing of the jitter before.
func (b *bucket) jitterAfter(before uint32) uint32 {
	n := uint64(max(b.count-1, 1)) // the last datagram falls into the next bucket
	jitter := uint64(before)
	if n < 1<<jitterBits {
		return uint32(min(jitter+uint64(b.varied)-jitter*n>>jitterBits, math.MaxUint32))
	}
	return uint32(uint64(b.varied) << jitterBits / n)
}

// single reports whether fewer than two datagrams arrived.
func (b *bucket) single() bool { return b.two.next == none }

// many reports whether enough datagrams arrived that the fastest hardly queued.
func (b *bucket) many() bool { return b.count > fitPoints+1 }

// rise says that the floor rose by d us.
func (b *bucket) rise(d float64) {
	b.last = int32(min(max(float64(b.last)-d, math.MinInt32/2), math.MaxInt32/2))
	for _, y := range []*int32{&b.two.least, &b.two.next} {
		if *y < none {
			*y = int32(min(max(float64(*y)-d, 0), none-1))
		}
	}
}

// sample is the fastest datagram of a span of time. It is passed by pointer: copying it from part
// to part would make a datagram cost 2 to 3 ns more.
type sample struct {
	from  float64 // x at which the span begins
	to    float64 // x at which it ends
	since float64 // x from which on its datagrams arrived; later than from if a report of 0 came
	at    float64 // x: about when the datagram arrived
	least float64 // us: its height above the floor
	next  float64 // us: the height of the second fastest; infinite if that is not known
}

const outliersInARow = 3 // this many are believed: two may be a pair of swapped receive times

// outliers are datagrams below the lower gate, implausibly early for the path. A clock step makes
// all datagrams early, a new path some, and swapped receive times one or two.
type outliers struct {
	x            float64 // at which the last one that counts arrived
	y            float64 // us: its height above the floor
	least        float64 // us: the lowest height of those in a row, below 0
	row          uint8   // how many count in a row
	buckets      uint8   // buckets in a row that had some
	inThisBucket bool    // the bucket under way has some
}

// apart is the time, in us, between two datagrams that count as two: more than a program takes for
// one that waited in its socket.
const apart = 5e3

// add takes an early outlier that arrived at x, y us above the floor, and returns by how much the
// floor fell if it is believed. first says that the session is so young that nobody relies on it;
// then datagrams of one moment count each.
func (o *outliers) add(x, y float64, first bool) (by float64, believed bool) {
	switch {
	case y > o.y+second: // no jitter is that large: the ones before had another cause
		o.row = 0
	case o.row > 0 && x-o.x < apart && !first:
		return 0, false
	}
	o.row++
	if o.row == 1 || y < o.least {
		o.least = y
	}
	o.x = x
	o.y = y
	o.inThisBucket = true
	// An accident makes one or two datagrams early, a clock step or a path keeps making them early.
	// rule: outliers come neither three times, nor in each bucket
	if o.row < outliersInARow && o.buckets < 4 {
		return 0, false
	}
	by = o.least
	*o = outliers{}
	return by, true
}

// mayBeStep reports whether an outlier waits that only a clock step explains: receive times that
// are swapped make no datagram early by more than a second.
func (o *outliers) mayBeStep() bool { return o.row > 0 && o.y < -second }

// endBucket counts buckets in a row that had outliers.
func (o *outliers) endBucket() {
	if !o.inThisBucket {
		o.buckets = 0
		return
	}
	o.buckets++
	o.inThisBucket = false
}

// late is a run of samples of one way that were all above the floor.
type late struct {
	by     float32 // us: by at least this much
	lasted float32 // us: for how long
	queued float32 // us: for how long of it the samples were later than a slew makes them
}

// add takes a sample that is residual us above the floor. A sample that is not late by most of what
// the round trip lacks ends the run.
func (l *late) add(s *sample, residual, lack, spread float64) {
	if l.lasted == 0 || float64(l.by) < lateShare*lack {
		*l = late{by: float32(residual)}
	}
	span := float32(s.to - s.from)
	l.by = min(l.by, float32(residual))
	l.lasted += span
	// A queue has nothing to do with what the round trip lacks.
	// rule: a slew is late by what lacks, a queue by more
	if residual > 2*lack+4*spread {
		l.queued += span
	}
}

// way is the floor of one way: the delay of a datagram that does not queue, as the clock stands,
// and the points that tell how that moves against the clock.
//
// The yardstick of all gates is the spread: how far apart the fastest datagrams are. Queues and
// clocks are slow compared with it, and heavy tails do not touch it. It learns only from samples
// near the floor: whatever sets a gate must not learn from what the gate refuses.
type way struct {
	level        float64 // us: the floor, as a delay
	lastNear     float64 // x of the last sample near the floor, or of a level shift
	touched      float64 // x of the datagram on which the floor lies
	spread       float64 // us: how far apart the fastest datagrams are; 1 s at the start
	residual     float64 // us: height of the last sample above the floor
	leastOfTwo   float64 // us: the lower height of the last two samples
	congestedFor float64 // us: for how long samples have been congested; each counts for 1 s at most
	plateau      float64 // us: the lowest height after the first 5 s of that
	late         late
	typical      typical
	sampled      bool    // a sample came since the floor moved to another level
	spreads      uint8   // samples that the spread is a mean over
	hits         uint8   // congested samples near the plateau, at most longRun
	usualGap     float32 // us: mean time between datagrams or reports, weighted by that time
	lastGap      float32 // us: the last such time
	points
}

// typical is how far above the floor the fastest datagrams usually are.
type typical struct {
	height  float32 // us: mean height of the points above the floor
	spacing float32 // us: time between the points
	depth   float32 // us*us: height times spacing. In twice the time the fastest is half as high
}

// start begins with a datagram at x.
func (w *way) start(level, x float64) {
	*w = way{
		level:    level,
		lastNear: x,
		touched:  x,
		spread:   second,
		residual: second,
	}
	w.meanResidual = second
	w.typical.depth = second * second // nothing is late until the usual height is known
	w.points.restart(x)
}

// scatter returns how far apart, in us, the fastest datagrams are: by the points or by the spread,
// whichever is less.
func (w *way) scatter() float64 { return min(w.meanResidual, w.spread) }

// mayDrift returns how far, in us, the floor may have drifted in the time t: at most a second,
// since clocks that are further apart than they were have been set.
func mayDrift(sigma, t float64) float64 { return min(sigmas/2*sigma*t, second) }

// upperGate returns how many us above the floor a sample that ends at x still counts as near.
func (w *way) upperGate(x, sigma, resolution float64) float64 {
	return hostJitter + 2*resolution + gateSpreads*w.spread + mayDrift(sigma, w.unseen(x))
}

// unseen returns for how long, in us, the floor may have drifted unseen at x: since the last sample
// near the floor, without the time for which all datagrams queued.
func (w *way) unseen(x float64) float64 {
	// The gate opens as clocks drift apart. If a queue opened it, too, the queue would pass it.
	return max(x-w.lastNear-w.congestedFor, 0) // rule: what is congested opens no gate
}

// lowerGate returns how many us below the floor a datagram at x still counts as near: 12 scatters,
// not the 8 spreads of the upper gate, since the first scatters may be small by chance.
func (w *way) lowerGate(x, sigma, resolution float64) float64 {
	unseen := max(w.spacing, x-w.lastNear)
	return hostJitter + resolution + 1.5*gateSpreads*w.scatter() + mayDrift(sigma, unseen)
}

// lateness returns by how many us even the fastest datagrams are late: those of the last congested
// sample, or of the last two samples near the floor.
func (w *way) lateness() float64 {
	switch {
	case w.congestedFor > 0:
		return w.residual
	// A small clock step stays within the gate. Twice the spread, twice, is hardly chance.
	case w.leastOfTwo >= 2*w.spread: // rule: what is near may be late
		return w.leastOfTwo
	}
	return 0
}

// queue returns for how long, in us, even the fastest datagrams queue.
func (w *way) queue() float64 {
	if w.congestedFor == 0 {
		return 0
	}
	return w.residual
}

// isLate reports whether the run of late samples is late by most of what the round trip lacks, and
// by depths times more than is usual over such a time. A run that mostly queued says nothing.
func (w *way) isLate(lack, depths float64) bool {
	by := min(float64(w.late.by), lack)
	if by <= lateShare*lack || w.late.queued > w.late.lasted/2 {
		return false
	}
	t := float64(w.late.lasted)
	usualHeight := float64(w.typical.height) * min(float64(w.typical.spacing)/t, 1)
	return by*t > depths*float64(w.typical.depth) && by > usualHeight
}

// shift moves the floor by d us to another level at x.
func (w *way) shift(x, d float64) {
	w.lay(d)
	w.restart(x)
	w.near(x)
	w.sampled = false
	w.late = late{}
	w.touched = x
}

const minute = 60 * second

// isSilence takes the time since the last datagram or report, in us, and reports whether that was a
// silence: longer than 15 s and than four usual gaps. A gap like the one before it is usual.
func (w *way) isSilence(gap float64) bool {
	last := w.lastGap
	w.lastGap = float32(max(gap, 0)) // the local clock may have been set back
	usual := max(w.usualGap, min(last, w.lastGap))
	limit := max(settledTime, 4*usual)
	counts := min(w.lastGap, limit)
	w.usualGap += (counts - w.usualGap) * counts / (counts + minute)
	return w.lastGap > limit
}

// patience returns for how many us this way may send nothing before it counts as silent.
func (w *way) patience() float32 { return max(settledTime, 4*w.usualGap) }

// near takes that the floor was seen at x.
func (w *way) near(x float64) {
	w.congestedFor = 0
	w.leastOfTwo = 0
	w.lastNear = x
}

// raise moves the floor up by d us: a clock that ran at another rate did so unseen.
func (w *way) raise(d float64) {
	w.lay(d)
	w.congestedFor = 0
	w.leastOfTwo = 0
}

// lower moves the floor down by d us, to a datagram at x.
func (w *way) lower(x, d float64) {
	w.lay(-d)
	w.touched = x
	w.loweredBy += d
}

// lay moves the floor up by d us, and all that is measured from it.
func (w *way) lay(d float64) {
	w.level += d
	w.residual -= d
	w.late.by -= float32(d)
}

// learnFirstSpread takes a first spread from the bucket under way.
func (w *way) learnFirstSpread(b *bucket) {
	// Until there is a spread the gates are too wide to see a clock step.
	// rule: the first bucket need not be over
	if w.spreads == 0 && b.count >= fitPoints && !b.single() {
		w.spread = min(float64(b.two.next-b.two.least), second/2)
	}
}

// take takes a sample, and returns by how many us the floor rises and whether even the fastest
// datagram queued.
func (w *way) take(s *sample, gate float64) (by float64, congested bool) {
	before := w.residual
	w.sampled = true
	w.residual = s.least
	w.leastOfTwo = min(s.least, before)
	if s.least > gate {
		return w.congest(s)
	}
	w.learnSpread(s, before-s.least)
	w.congestedFor = 0
	w.lastNear = s.from
	return 0, false
}

// congest takes a sample whose datagrams were all late. A path that became longer comes back to the
// same height again and again. A queue hardly does, and it may last for up to 30 s.
func (w *way) congest(s *sample) (by float64, congested bool) {
	w.congestedFor += min(s.to-s.from, second)
	if w.congestedFor < congestedTime/2 {
		w.plateau = s.least
		w.hits = 0
	}
	if abs(s.least-w.plateau) < hostJitter+gateSpreads*w.spread {
		w.hits = min(w.hits+1, longRun)
	} else if s.least < w.plateau {
		w.hits = 1
	}
	w.plateau = min(w.plateau, s.least)
	isPlateau := w.congestedFor > congestedTime && w.hits >= 3
	isEndless := w.congestedFor > 3*congestedTime
	// Congestion control empties a queue; a longer path stays.
	// rule: what lasts is no queue
	if isPlateau || isEndless {
		w.spreads = min(w.spreads, fitPoints) // learn faster: a longer path may have more jitter
		return w.plateau, true
	}
	return 0, true
}

// learnSpread learns the spread from a sample that was faster than the one before by fall.
//
// The sample says half of what its two fastest are apart, plus fall, since these two may share
// their delay, as two datagrams of one frame do. If fall is negative a queue may have begun, so
// fall does not count then; except where only one datagram is known, as there is nothing else to
// learn from. A sample counts for little more than the mean so far, or a few that queued would
// spoil it.
func (w *way) learnSpread(s *sample, fall float64) {
	spread := (s.next-s.least)/2 + max(fall, 0)
	most := 1.5 * w.spread
	if s.next == infinite {
		spread = abs(fall)
		most = 2.5 * w.spread
	}
	if spread > second/2 {
		return // there was no sample before, or a clock step between the two
	}
	w.spreads = min(w.spreads+1, longRun)
	w.spread += (min(spread, most+hostJitter/2) - w.spread) / float64(w.spreads)
}

// ---- The points above the floor ----

const (
	maxPoints     = 12    // the span doubles when there are more
	fitPoints     = 4     // fewer do not show both a slope and noise
	longestWindow = 130e6 // us: oscillators keep no rate for longer
)

// points are the fastest datagrams of successive spans of time. The floor lies below them.
type points struct {
	end          float64 // x at which the last span ended
	spacing      float64 // us: length of a span; it doubles when there are too many points
	loweredBy    float64 // us: by how much the floor was lowered since end
	meanResidual float64 // us: mean height of the points above the floor; 1 s at the start
	rate         gaussian
	best         keptPoint // the fastest datagram since end
	hasBest      bool      // there is one
	n            uint8     // points in list
	list         [maxPoints]keptPoint
}

// point is the fastest datagram of a span.
type point struct {
	x     float64 // about when it arrived
	delta float64 // us
}

const (
	keptTime  = 256 // us: unit of its time, in which a rate moves a delta by 1/4 us at most
	keptDelta = 32  // units of its delta in a microsecond
)

// keptPoint is a point as it is kept: the time on a ring of 12.7 days, longer than any window, and
// the delta on the ring of all deltas.
type keptPoint struct{ time, delta uint32 }

func ringTime(x float64) uint32 { return uint32(int64(x / keptTime)) }

func ringDelta(delta float64) uint32 { return uint32(int64(delta * keptDelta)) }

func (p point) kept() keptPoint { return keptPoint{ringTime(p.x), ringDelta(p.delta)} }

// age returns how many us before x the point arrived.
func (p keptPoint) age(x float64) float64 { return float64(int32(ringTime(x)-p.time)) * keptTime }

// after returns how many us after q the point arrived.
func (p keptPoint) after(q keptPoint) float64 { return float64(int32(p.time-q.time)) * keptTime }

// above returns how many us the point is above the line with that slope through q.
func (p keptPoint) above(q keptPoint, slope float64) float64 {
	return float64(int32(p.delta-q.delta))/keptDelta - slope*p.after(q)
}

// restart drops the points at x: the floor is at another level.
func (p *points) restart(x float64) {
	p.forgetPoints()
	p.end = x
	p.loweredBy = 0
}

// forgetPoints drops the points: the floor has another slope.
func (p *points) forgetPoints() {
	p.n = 0
	p.hasBest = false
	p.spacing = bucketTime
}

// add takes a datagram that becomes the next point if no lower one follows. The floor has that
// slope.
func (p *points) add(q point, slope float64) {
	k := q.kept()
	if !p.hasBest || k.above(p.best, slope) < 0 {
		p.best = k
		p.hasBest = true
	}
}

// span returns for how many us the points tell the slope at x.
func (p *points) span(x float64) float64 {
	if p.n == 0 {
		return x - p.end
	}
	return p.list[0].age(x)
}

// endSpan makes a point of the fastest datagram of the span that ends at x. wait is how many us it
// arrived after the point before; evicted says that older points went.
func (p *points) endSpan(x, slope, resolution float64) (added, evicted bool, wait float64) {
	p.end = x
	p.loweredBy = 0
	if !p.hasBest {
		return false, false, 0
	}
	p.hasBest = false
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

// makeRoom drops points that are too old, or every second one. It reports whether any was too old.
func (p *points) makeRoom(slope, resolution float64) (evicted bool) {
	// A long window averages noise, a short one follows drift. Noise makes the slope wrong by
	// about noise/window/points, which is noise*spacing/window^2. Rates mostly drift by 0.00125
	// ppm a second, skewDrift at the worst; that makes it wrong by as much times the window. At
	// the best window, cubed here, both are equal.
	spacing := max(p.spacing, p.list[0].age(p.end)/float64(max(p.n, 1))) // reports may be rarer
	best := 800 * max(p.meanResidual, resolution/2) * spacing * second * second
	longer := func(t float64) bool { return t > congestedTime && (t > longestWindow || t*t*t > best) }
	// Noise shrinks as the window grows, and the longer a span the closer its fastest datagram is.
	// rule: spans double
	if p.n == maxPoints && !longer((maxPoints+fitPoints)*p.spacing) {
		p.spacing *= 2
		p.n = maxPoints / 2
		for i := range p.n {
			lower := p.list[2*i]
			other := p.list[2*i+1]
			if other.above(lower, slope) < 0 {
				lower = other
			}
			p.list[i] = lower
		}
	}
	for p.n == maxPoints || p.n >= fitPoints && longer(p.list[0].age(p.end)) {
		p.n = uint8(copy(p.list[:], p.list[1:p.n]))
		evicted = true
	}
	return evicted
}

// line returns the floor as a line among the points: through q, with that slope.
func (w *way) line(d int, c *clock) (q keptPoint, slope float64) {
	return point{c.at, w.level + sign(d)*c.offset}.kept(), sign(d) * c.skew
}

// heights returns the points as the clock stands: x relative to the last one, and the height above
// the floor in place of the delta.
func (w *way) heights(d int, c *clock, room *[maxPoints]point) []point {
	floor, slope := w.line(d, c)
	last := w.list[w.n-1]
	heights := room[:w.n]
	for i, p := range w.list[:w.n] {
		heights[i] = point{p.after(last), p.above(floor, slope)}
	}
	return heights
}

// slope returns what the points say of the rate of the clock.
func (w *way) slope(d int, c *clock, resolution float64) gaussian {
	// Gates pass what lies near the floor. So once a few points lie on a wrong line by chance, more
	// of them on that line prove nothing, until points of longer spans lie there, too.
	buckets := w.spacing / bucketTime
	atFirst := float64(w.n) / 2 * w.spread / (buckets * buckets)
	var room [maxPoints]point
	slope, variance := likelySlope(w.heights(d, c, &room), max(atFirst, resolution))
	// Queues that fill and empty have no exponential heights, and mislead by half as much again.
	const misled = 1.5
	return gaussian{c.skew + sign(d)*slope, misled * misled * variance}
}

// tilt lays the floor after the skew changed: below its points. If there are few, they may all be
// late, and it goes through the datagram that last touched it.
func (w *way) tilt(d int, c *clock, change float64) {
	if w.n < fitPoints {
		w.lay(sign(d) * change * (c.at - w.touched))
		return
	}
	floor, slope := w.line(d, c)
	low := infinite
	lowest := w.best
	if w.hasBest {
		low = w.best.above(floor, slope)
	}
	for _, p := range w.list[:w.n] {
		height := p.above(floor, slope)
		if height < low {
			low = height
			lowest = p
		}
	}
	w.touched = c.at + lowest.after(floor)
	w.lay(low)
}

// learnTypical learns how far above the floor the points usually are. Samples that are late teach
// nothing. The curve that a clock draws when it changes its rate does not count either, only the
// wobble of the points about it.
func (w *way) learnTypical(d int, c *clock) {
	var room [maxPoints]point
	heights := w.heights(d, c, &room)
	w.meanResidual = meanHeight(heights, 0)
	if float64(w.late.by) >= 2*w.meanResidual {
		return
	}
	t := &w.typical
	t.height = float32(min(w.meanResidual, 2*wobble(heights)))
	t.spacing = float32(-heights[0].x / float64(w.n-1))
	if w.n >= maxPoints*2/3 && (t.spacing < 2.5*second || float32(w.spacing) < t.spacing/2) {
		t.depth = t.height * t.spacing
	}
}

// meanHeight returns the mean height of the points above a floor that has that slope and touches
// the lowest of them.
func meanHeight(points []point, slope float64) float64 {
	low := infinite
	sum := 0.0
	for _, p := range points {
		y := p.delta - slope*p.x
		low = min(low, y)
		sum += y
	}
	return sum/float64(len(points)) - low
}

// wobble returns the mean distance of the points from the chords between their neighbours. A clock
// that changes its rate bends few of them.
func wobble(points []point) float64 {
	sum := 0.0
	for i := 1; i+1 < len(points); i++ {
		p := points[i-1]
		q := points[i]
		r := points[i+1]
		sum += abs(q.delta - p.delta - (r.delta-p.delta)*(q.x-p.x)/(r.x-p.x))
	}
	return sum / float64(len(points)-2)
}

// median returns the middle one of three.
func median(a, b, c float64) float64 { return max(min(a, b), min(max(a, b), c)) }

// edge is one of the lower convex hull of the points (Moon, Skelly and Towsley 1999): a floor that
// turns below them leaves one point there and touches the next.
type edge struct {
	slope float64
	total float64 // us: the sum of the heights of all points above a floor with that slope
}

// likelySlope returns the mean and the variance of the slope of the floor below the points, over
// all slopes, each with its likelihood.
//
// Most datagrams wait for little and few for long: heights are exponential. So the likelihood of a
// slope is exp(-total/usual), where usual is the mean height, which is leastUsual or more. Between
// two edges the floor touches one point, and the total changes in proportion to the slope.
func likelySlope(points []point, leastUsual float64) (mean, variance float64) {
	n := float64(len(points))
	sumX := 0.0
	sumY := 0.0
	for _, p := range points {
		sumX += p.x
		sumY += p.delta
	}
	least := infinite
	var room [maxPoints + 1]edge
	edges := room[:1]
	for p := 0; p < len(points)-1; {
		next := nextCorner(points, p)
		x := points[p].x
		y := points[p].delta
		slope := (points[next].delta - y) / (points[next].x - x)
		total := sumY - n*y - slope*(sumX-n*x)
		least = min(least, total)
		edges = append(edges, edge{slope, total})
		p = next
	}
	const halfUnit = 1 << (ts24Shift - 1)          // of a stamp, which no fit removes
	usual := max(least/(n-2)+halfUnit, leastUsual) // the floor was fitted to two of the points
	// Beyond its last edge the floor turns about an end until nothing is likely.
	const nothing = 28 // e^-28
	first := edges[1]
	first.total += nothing * usual
	first.slope -= nothing * usual / (sumX - n*points[0].x)
	last := edges[len(edges)-1]
	last.total += nothing * usual
	last.slope += nothing * usual / (n*points[len(points)-1].x - sumX)
	edges[0] = first
	edges = append(edges, last)

	likelihood := func(e edge) float64 {
		z := (e.total - least) / usual
		if z > nothing {
			return 0
		}
		return 1 + math.Expm1(-z) // which is the same on all systems; Exp is not
	}
	var weights, sum, squares float64
	before := likelihood(edges[0])
	for i := 1; i < len(edges); i++ {
		likelier := edges[i-1]
		other := edges[i]
		most := before
		rest := likelihood(other)
		before = rest
		if likelier.total > other.total {
			likelier, other = other, likelier
			most, rest = rest, most
		}
		if most < 1e-12 {
			continue // rest would have no digits
		}
		weight, way, spread := exponential((other.total-likelier.total)/usual, rest/most)
		width := other.slope - likelier.slope
		weight *= abs(width) * most
		slope := likelier.slope + way*width
		weights += weight
		sum += weight * slope
		squares += weight * (slope*slope + spread*width*width)
	}
	mean = sum / weights
	return mean, squares/weights - mean*mean
}

// exponential returns the integral of exp(-z t) for t from 0 to 1, and the mean and the variance of
// t with that density. rest is the density at 1.
func exponential(z, rest float64) (integral, mean, variance float64) {
	if z < 1e-3 { // it is constant, and the differences below would have no digits left
		return 1, 1. / 2, 1. / 12
	}
	lost := 1 - rest
	return lost / z, 1/z - rest/lost, 1/(z*z) - rest/(lost*lost)
}

// nextCorner returns the corner of the lower convex hull that follows the one at p: the point with
// the least slope from it. Products compare slopes faster than quotients do.
func nextCorner(points []point, p int) (next int) {
	next = p + 1
	run := points[next].x - points[p].x
	rise := points[next].delta - points[p].delta
	for i := p + 2; i < len(points); i++ {
		dx := points[i].x - points[p].x
		dy := points[i].delta - points[p].delta
		if dy*run <= rise*dx {
			next = i
			run = dx
			rise = dy
		}
	}
	return next
}

// ---- Coarse clocks ----

const (
	// Chance, too, makes differences multiples of one number. With fine clocks eight in a row are
	// multiples of 300 us or more once in months, and of 150 us every few days.
	surelyCoarse  = 8    // differences in a row
	minResolution = 300  // us: what is finer is noise
	maxResolution = 16e3 // us: no system's clock is coarser
)

// resolution learns the unit of which deltas are multiples where both clocks are coarse.
type resolution struct {
	guess uint16 // us: the unit may be this
	hits  uint8  // differences that were multiples of it, at most longRun
}

// learn takes the difference, in us, of two datagrams of about the same moment. Apart from the
// unit of stamps it is 0 or a multiple of the resolution. Where a queue grows the difference is
// often the same, too; the caller must not pass those. A path that flaps by one amount, with less
// than 10 us of jitter, passes for a coarse clock.
func (r *resolution) learn(d int64) {
	const alike = 2<<ts24Shift + 2
	d = abs(d)
	if d <= alike || d > maxResolution {
		return
	}
	guess := int64(r.guess)
	rest := d % max(guess, 1)
	switch {
	case guess >= minResolution && min(rest, guess-rest) <= alike:
		r.hits = min(r.hits+1, longRun)
	case r.hits >= surelyCoarse: // a clock was slewed or stepped just between the two
		r.hits /= 2
	default:
		*r = resolution{uint16(d), 1}
	}
}

// joint returns the resolution of both clocks together, in us: 0 unless both are coarse.
func (r *resolution) joint() float64 {
	if r.hits < surelyCoarse {
		return 0
	}
	// Beside a fine clock a coarse one has deltas of all sizes, and the fastest show the floor.
	// Where both are coarse deltas are stairs, and each may be off by a tick.
	return float64(r.guess) // rule: both clocks may be coarse
}

// ---- What readers see ----

// clockMap is how readers get from a local time to the remote one: four words, which the
// compiler keeps in registers.
type clockMap struct {
	// from is a local time in us. All that follows is as of then.
	from uint64
	// whole is what readers add to the local time, in us, rounded down. While no offset is known it
	// is what Anchor said.
	whole uint64
	// rates are two rates of the offset in units of 2^-32: the high half holds before from, the low
	// half from then on.
	rates uint64
	// rest has two parts. The high half is the fraction of whole, in 2^-32 us. The low half is a
	// slew, in 2^-8 us: readers add it at from, too, and slew it away.
	rest uint64
}

// view is one consistent state for readers. association.view makes it, and publish says from when
// on it holds.
type view struct {
	clockMap
	steps       uint32  // jumps of the remote time so far
	delay       float32 // us: minimum one-way delay from the peer
	toPeer      float32 // us: minimum one-way delay to the peer
	bound       float32 // us: error bound of the offset a readerMargin before from, without slew
	dispersion  float32 // us per us: how fast bound grows
	undisturbed float32 // us: time since the last clock step, or since the start
	scatter     float32 // us: mean height of fast datagrams above the floor
	state       uint32  // the bits unchecked, ambiguous, synced and disturbed
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

// offset returns what readers add x us after from, where the rate is skew, and the fraction of a
// microsecond in 2^-32. Products wrap as offsets do, at any x.
func (r clockMap) offset(x, skew int64) (whole uint64, part uint32) {
	fine := int64(r.rest>>32) + skew*(x&math.MaxUint32)
	if x < 2*maxSlew { // later nothing is left
		fine += r.slewLeft(x)
	}
	return r.whole + uint64(skew*(x>>32)+fine>>32), uint32(fine)
}

// remote returns the remote clock at a local time.
func (r clockMap) remote(localUsec uint64) uint64 {
	x := int64(localUsec - r.from)
	whole, _ := r.offset(x, r.skewAt(x))
	return localUsec + whole
}

// ppm returns the skew in parts per million.
func (r clockMap) ppm() float64 { return float64(int32(r.rates)) / (1 << 32) * 1e6 }

// boundAt returns the error bound, in us, x us after from. It is at most half the ring of offsets,
// and also contains what is left of the slew and the drift of the skew.
func (v *view) boundAt(x int64) float64 {
	age := abs(float64(x) + readerMargin)
	rest := float64(abs(v.slewLeft(x)))
	widened := float64(v.bound) + (float64(v.dispersion)+skewDrift/2*age)*age
	return min(widened+rest/(1<<32)+1, maxOffset)
}

// published is what readers see: a view, which show writes and load reads, and counts.
type published struct {
	// seq counts views by 2 and is odd while one is being written. Its top bits are view.state.
	seq         atomic.Uint32
	queuedSpans atomic.Uint32    // buckets in which every datagram queued
	patience    atomic.Uint32    // ms: the age of the last report from which on the peer is silent
	jitter      atomic.Uint32    // 2^-jitterBits us: as of the last bucket
	datagrams   atomic.Uint64    // without the bucket under way: only the end of a bucket writes here
	words       [8]atomic.Uint64 // the view without its state
	heard       atomic.Uint64    // local time, us, of the last report
	report      ownReport
}

// The bits of view.state.
const (
	unchecked = 1 << (28 + iota) // not confirmed since a silence or a clock step
	ambiguous                    // the multiple of 67.1 s is in doubt
	synced                       // the offset is known
	disturbed                    // a clock step was detected
)

// show shows readers a view.
func (s *published) show(v *view) {
	seq := s.seq.Load()
	s.seq.Store(seq + 1)
	s.words[0].Store(v.from)
	s.words[1].Store(v.whole)
	s.words[2].Store(v.rates)
	s.words[3].Store(v.rest)
	s.words[4].Store(uint64(v.steps))
	s.words[5].Store(joinFloats(v.delay, v.toPeer))
	s.words[6].Store(joinFloats(v.bound, v.dispersion))
	s.words[7].Store(joinFloats(v.undisturbed, v.scatter))
	s.seq.Store((seq+2)<<4>>4 | v.state)
}

// load reads the view that was shown last. ok is false while the offset is not known.
func (s *published) load(v *view) (ok bool) {
	for {
		seq, r := s.clockMap()
		v.clockMap = r
		v.state = seq >> 28 << 28
		v.steps = uint32(s.words[4].Load())
		v.delay, v.toPeer = splitFloats(s.words[5].Load())
		v.bound, v.dispersion = splitFloats(s.words[6].Load())
		v.undisturbed, v.scatter = splitFloats(s.words[7].Load())
		if s.seq.Load() == seq {
			return seq&synced != 0
		}
	}
}

// clockMap returns the half of a view that readings need, and the seq under which it was shown.
func (s *published) clockMap() (seq uint32, r clockMap) {
	for {
		seq = s.seq.Load()
		r = clockMap{s.words[0].Load(), s.words[1].Load(), s.words[2].Load(), s.words[3].Load()}
		if s.seq.Load() == seq&^1 {
			return seq, r
		}
	}
}

// ownReport is the report that MinDeltaTS24 returns. It is one word, so that any goroutine can read
// it and mark it as read in one step:
//
//	high 32 bits  the delta, 2^-5 us, on its ring; once it was read, as it was returned
//	29 bits       local time as of which it holds, 2^12 us
//	3 bits        its kind; 0: there is none
type ownReport struct{ word atomic.Uint64 }

const (
	reportUnit  = 12          // bits: the unit of its time is 2^12 us
	reportLives = 60 * minute // us: rates are not known well enough to carry it on for longer

	// The kinds.
	reportOnce  = 1 // whoever reads it makes it reportTold
	reportTold  = 2 // it was read, and no datagram arrived since
	reportAgain = 3 // an original gets it again and again, as it is
	reportNone  = 4 // whatever arrived was measured before a level shift
)

// set sets the delta, as keptPoint has it, as of localUsec. isNew says that a datagram arrived
// since the last one was read.
func (r *ownReport) set(delta uint32, localUsec uint64, isNew bool) {
	kind := uint64(reportOnce)
	if !isNew {
		if r.isTold() {
			return
		}
		kind = reportNone
	}
	r.word.Store(uint64(delta)<<32 | uint64(uint32(localUsec>>reportUnit)<<3) | kind)
}

// setMinimum sets what an original is told.
func (r *ownReport) setMinimum(minDelta Counter24) {
	r.word.Store(uint64(minDelta)<<40 | reportAgain)
}

// isTold reports whether a reader took what was set last.
func (r *ownReport) isTold() bool { return r.word.Load()&7 == reportTold }

// tell returns the report as of localUsec, and marks it as read.
func (r *ownReport) tell(localUsec uint64, clock clockMap) (minDelta Counter24, ok bool) {
	for {
		word := r.word.Load()
		level := uint32(word >> 32)
		kind := word & 7
		age := int64(int32((uint32(localUsec>>reportUnit)<<3)-uint32(word)&^7)) >> 3 << reportUnit
		isStale := age < -second || age > reportLives // the local clock was set, perhaps
		switch {
		case kind == 0:
			return 0, false
		case kind == reportAgain:
			return rounded(level), true
		case kind == reportNone:
			return 0, true
		case kind == reportTold && abs(age) > second:
			return 0, true
		case kind == reportOnce && isStale:
			return 0, true
		case kind == reportTold:
			return NewCounter24(uint64(level >> 8)), true
		}
		drift := uint32(int64(int32(clock.rates)) * age >> (32 - 5)) // from 2^-32 to 2^-5 us
		minDelta = rounded(level - drift)
		told := uint64(minDelta)<<40 | word&math.MaxUint32&^7 | reportTold
		if r.word.CompareAndSwap(word, told) {
			return minDelta, true
		}
	}
}

// rounded returns a delta in 2^-5 us as a report. A report of ours is never 0, which means none,
// and never has the remainder of an original's; the nearer neighbour takes its place.
func rounded(level uint32) Counter24 {
	minDelta := NewCounter24(uint64(level+1<<7) >> 8)
	if minDelta%marks == originalMark {
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
