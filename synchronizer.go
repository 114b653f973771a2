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
//	the reports of the other way
//	the arbiter between path and clock
//	the interval that contains the offset: the error bound
//	the delay floor of one way: gates, level shifts
//	the line below the fastest datagrams: level and slope
//	what readers see
//
// # The model
//
// Times called x are microseconds of the local clock since the first datagram; all else is in
// microseconds, too. "In" is the way from the peer, "out" the way to it.
//
// The state:
//
//	r      offset: remote minus local clock
//	s      skew: how fast r changes
//	A, B   delay of the fastest datagrams in, and out
//
// What is measured:
//
//	delta_in(x)  = time of receipt - stamp       = A + queue - r(x)   each datagram
//	delta_out(x) = the same at the peer           = B + queue + r(x)   its floor, in the peer's reports
//
// What is assumed:
//
//	queue >= 0, and now and then hardly more than 0
//	r(x) = r + s*x; s changes by 0.1 ppm a second at most, but where a clock is set or slewed
//	A and B stay as they are, but where the path changes
//
// A clock may advance by more than a microsecond at once: by its resolution. Stamps are then too old and
// times of receipt, rounded up, too late: as if datagrams queued longer. Where both clocks do, deltas are a
// multiple of the resolution apart. The least ones are stairs above the floor, and touch it where they go
// down a stair, or up                                                      floor.jointResolution
// Where the time between datagrams is nearly a multiple of one clock's resolution, the floor tilts. An
// end sees the resolution of its own clock only                            line.ownResolution, line.tilt
//
// What follows. Deltas that do not queue lie on a straight line below all others, the delay floor:
//
//	floor_in(x) = A - r(x)        its slope is -s                          types line, floor
//	floor_out(x) = B + r(x)       its slope is s                           association.toPeer
//
// The sum of both floors contains no clock, their difference contains both:
//
//	round trip = floor_in + floor_out          = A + B
//	midpoint   = (floor_out - floor_in) / 2    = r + (B - A)/2
//
// So one end alone cannot tell a longer way from a clock that was set, both together can: a clock
// changes the midpoint and never the round trip; where one way becomes longer by d, the round trip
// does so, too, and the midpoint is off by d/2. The offset is what was right at the reference
// round trip, and moves no farther than this allows:
//
//	|r - midpoint - asymmetry| <= |round trip - reference| / 2             type arbiter
//	asymmetry = r - midpoint while the round trip is the reference one, 0 at the start
//
// Where an asymmetry is known, the round trip at which it was 0 limits the offset in the same way. Round
// trips that differ by less than the dead band are the same one.
//
// No delay is negative: A >= 0 and B >= 0. So the truth is in
//
//	r - (floor_in + r) <= truth <= r + (floor_out - r)                     type interval
//
// while no clock is set, and a little farther away each second, since s is not known exactly. If
// no truth is left, a clock was set. docs/DESIGN.md derives each mechanism.

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
	base      uint64    // local time, us, at which x is 0
	published published // it ends a cache line: neighbours in a slice share none
}

const second = 1e6 // us: also the largest reordering of receive times, and more than any jitter

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
		return time.Duration(int64(b.delay)+y) * time.Microsecond, true
	}
	return s.slowPath(remoteSendTS24, y, localRecvUsec)
}

// slowPath takes a datagram that ends the bucket or may change more. It is y above the floor as the
// fast path knows it.
func (s *TimeSynchronizer) slowPath(stamp Counter24, y int64, localUsec uint64) (owd time.Duration, ok bool) {
	b := &s.bucket
	raw, x := deltaOf(stamp, localUsec), float64(int64(localUsec-s.base))
	silence := x - b.from
	soon := s.both.isCalm() && silence >= 0 && silence < 2*second && s.both.own.n <= maxPoints
	if !soon {
		if !s.both.sane(b.from) {
			s.start(raw, localUsec)
		}
		x = s.advance(localUsec)
		silence = x - b.from
	}
	if silence >= bucketTime {
		knows, alike, fastest := b.span > 0 && uint64(y) < maxDelta, b.many() && b.runnerUp-b.fastest <= 1<<ts24Shift, b.fastest
		if s.both.endBucket(x, b) {
			s.published.late.Store(s.published.late.Load() + 1)
		}
		s.published.datagrams.Store(s.published.datagrams.Load() + uint64(b.count) - 1)
		b.count = 1
		b.begin(x)
		if knows && alike { // those two tell no resolution, this one may
			s.both.learnResolution(y - int64(fastest))
		}
		if soon && knows && s.both.isCalm() && !s.both.dirty { // the fast path still knows the floor
			b.span = uint32(localUsec-b.at) + bucketTime
			b.add(int32(y))
			return time.Duration(int64(b.delay)+y) * time.Microsecond, true
		}
	}
	above := s.both.datagram(x, raw, silence, b)
	s.publish(x)
	s.prepare(localUsec, x)
	if !s.both.peer.known {
		return 0, false
	}
	return time.Duration(b.delay+above) * time.Microsecond, true
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
		s.both.report(min(max(-waited, -second), second), early, &s.bucket)
	}
}

// advance returns localUsec as microseconds since base, and moves base where the local clock was set.
func (s *TimeSynchronizer) advance(localUsec uint64) (x float64) {
	x = float64(int64(localUsec - s.base))
	if ahead := x - s.bucket.from; ahead < -second || ahead > 1e12 { // a datagram is never 11 days late
		// The local clock was set. Times go on from where they were; by how much the
		// offset changed, the deltas will show.
		s.base += uint64(int64(ahead))
		s.published.heard.Store(s.published.heard.Load() + uint64(int64(ahead)))
		x = s.bucket.from
		s.both.interval.clockStep(x)
		s.both.markDirty()
	}
	return x
}

// prepare readies the fast path: it says which datagrams need no more from now on.
func (s *TimeSynchronizer) prepare(localUsec uint64, x float64) {
	b, own := &s.bucket, &s.both.own
	b.at, b.span = localUsec, 0
	if s.both.peer.known && own.outliers == 0 && !s.both.dirty { // else readers are to hear as soon as may be
		b.origin, b.rate = uint64(int64(math.RoundToEven(own.levelAt(x))))-localUsec, uint32((1-own.slope)*(1<<31))
		b.span = uint32(max(bucketTime-(x-b.from), 0))
	}
}

// OnPeerMinDeltaTS24 takes what the peer's MinDeltaTS24 returned, which arrived at
// localRecvUsec. A report that comes before the first datagram counts from the first datagram on.
// A report of 0 is ignored: an original that has heard nothing sends it, and MinDeltaTS24 never
// returns it. If your datagrams overtake each other, pass no report that was sent before one that you
// passed in the second before: it looks as if the floor had risen.
func (s *TimeSynchronizer) OnPeerMinDeltaTS24(minDelta Counter24, localRecvUsec uint64) {
	if minDelta = NewCounter24(uint64(minDelta)); minDelta == 0 {
		return
	}
	if !s.both.begun() {
		s.both.peer.last = minDelta
		s.published.heard.Store(localRecvUsec)
		return
	}
	x := s.advance(localRecvUsec)
	s.published.heard.Store(localRecvUsec)
	if s.both.report(x, minDelta, &s.bucket) {
		s.publish(x)
		s.prepare(localRecvUsec, x)
	}
}

// Anchor says that the remote clock read remoteUsec, its full 64 bits, when the peer sent the
// message that arrived at localUsec, at most 16 s later. Datagrams show the offset modulo 67.1 s
// only: from the first Anchor on RemoteTime returns full readings, which may come before the first
// datagram. Call it with each report, too, since a sleep or a set of more than 33.5 s changes the multiple.
// If RemoteTime was off by a multiple of 67.1 s until then, that is a step.
func (s *TimeSynchronizer) Anchor(localUsec, remoteUsec uint64) {
	var v view
	if !s.published.load(&v) {
		v.whole = remoteUsec - localUsec
		s.published.show(&v)
		return
	}
	was := v.remote(localUsec)
	if turns := nearest(was, remoteUsec) - was; turns != 0 {
		v.whole += turns
		v.steps++
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
		v.bound += float32(abs(excess)) / (1 << 32)
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

// MinDeltaTS24 returns what to report to the peer at localUsec: the receive time minus the send
// stamp of a datagram that does not queue, now, in units of 8 us modulo 2^24. ok is false before
// the first datagram.
//
// The remainder of the report by 3 is its quality, for which it is moved by at most one unit:
//
//	1  confirmed: so recent a datagram was so near to the floor that the floor is at most 100 us
//	   too low, with what is not known of the clocks' rates since: 6 standard errors of the slope.
//	   The peer's error bound rests on these alone, but for the first three of a session, which it
//	   trusts the less the older the session is, and for Settled after a clock was set
//	0  extrapolated: the floor is where the line says
//	2  never returned: an original says it, which reports minima of 10 s. One such report and the
//	   peer counts as an original until 64 reports, each unlike the one before, had another
//	   quality. The error bound then allows for a minimum 11 s old: 0.4 ms at 40 ppm
//
// 0 would say that nothing was heard: 2^24-1 is returned for it, which reads as extrapolated. The
// report is at most 13 us off the floor, 21 us where 0 was avoided.
func (s *TimeSynchronizer) MinDeltaTS24(localUsec uint64) (minDelta Counter24, ok bool) {
	var v view
	if s.published.load(&v); v.state&reported == 0 {
		return 0, false
	}
	x := int64(localUsec - v.from)
	mark := Counter24(extrapolatedMark)
	if v.state&confirmed != 0 && float32(x)*v.dispersion <= hostJitter {
		mark = confirmedMark
	}
	level := v.report - uint32(int64(int32(v.rates))*x>>deltaBits)
	if minDelta = NewCounter24(uint64(level >> 8)).marked(mark); minDelta == 0 { // 24 of 32 bits
		minDelta = minDelta.Dec() // an original that has heard nothing says 0
	}
	return minDelta, true
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
// paths that become longer do not widen it. For up to Settled after a clock was set it may be wrong, or
// longer if the path became another one at the same moment; Snapshot.Undisturbed says when that was last
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
	Jitter             time.Duration // mean distance of fast datagrams from the shortest delay, if JitterKnown
	Age                time.Duration // since the last report
	Undisturbed        time.Duration // since a clock step was last noticed, or since the first datagram
	Skew               float64       // remote minus local rate, parts per million, however well it is known
	SkewError          float64       // by how much Skew may be off, parts per million: 6 standard errors, and what rates change by
	Steps              uint32        // jumps of the remote time so far, of which one event may make several; the first synchronization does not count
	Disturbed          bool          // a clock step was noticed since the first datagram
	JitterKnown        bool          // there were enough datagrams to tell the jitter

	more uint8 // mappings that Then put behind the first one
}

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
		JitterKnown:        v.jitter < second,
		Age:                micros(max(float64(int64(localUsec-s.published.heard.Load())), 0)),
		Undisturbed:        micros(max(float64(v.undisturbed)+float64(x), 0)),
		Skew:               v.ppm(),
		SkewError:          (float64(v.dispersion) + skewDrift*abs(float64(x)+readerMargin)) * 1e6, // as fast as boundAt grows there
		Steps:              v.steps,
		Disturbed:          v.state&disturbed != 0,
	}
	if snapshot.JitterKnown {
		snapshot.Jitter = micros(float64(v.jitter))
	}
	return snapshot, true
}

// Settled is how long a time is not to be relied on after a clock was noticed to have been set: by
// then both ends have seen that and told each other. A peer that was silent for as long may have
// set its own clock meanwhile.
const Settled = 15 * time.Second

// What Within returns. Compare with errors.Is.
var (
	ErrUnsynchronized = errors.New("timesync: the remote clock is not known yet")
	ErrSilent         = errors.New("timesync: no report from the peer for 15 s")
	ErrDisturbed      = errors.New("timesync: a clock was set less than 15 s ago")
	ErrWide           = errors.New("timesync: the error bound is wider than tolerable")
)

// Within returns nil if RemoteUsec may be relied on to be at most tolerable from the truth, modulo
// 67.1 s until Anchor was called, and again after a sleep or a set of more than 33.5 s. Else the error
// says why not. It is the first that applies, in the order in which a program can ask the fields:
//
//	ErrUnsynchronized  the offset is not known; the snapshot is the zero value
//	ErrSilent          Age is Settled or more: the peer was silent for too long
//	ErrDisturbed       Disturbed, and Undisturbed is less than Settled: a clock was set
//	ErrWide            ErrorBound is above tolerable; it is half the round trip at least
//
// A clock step is noticed after the next datagram, or the next datagram and report: with package
// link within 2.1 s, at four datagrams a second within 3 s, if none is lost. Until then Within answers
// as before.
func (s Snapshot) Within(tolerable time.Duration) error {
	switch {
	case s.ErrorBound == 0: // else it is more than that
		return ErrUnsynchronized
	case s.Age >= Settled:
		return ErrSilent
	case s.Disturbed && s.Undisturbed < Settled:
		return ErrDisturbed
	case s.ErrorBound > tolerable:
		return ErrWide
	}
	return nil
}

// String returns the snapshot in a line for logs.
func (s Snapshot) String() string {
	if s.ErrorBound == 0 {
		return "not synchronized"
	}
	jitter, since := "unknown", "the start"
	if s.JitterKnown {
		jitter = s.Jitter.String()
	}
	if s.Disturbed {
		since = "a clock was set"
	}
	return fmt.Sprintf("offset %d us +-%v, skew %.3f+-%.3f ppm, delay %v in, %v out, jitter %s, report %v ago, %v since %s, %d steps",
		s.OffsetUsec, s.ErrorBound, s.Skew, s.SkewError, s.MinimumOneWayDelay, s.MinimumDelayToPeer, jitter, s.Age, s.Undisturbed, since, s.Steps)
}

// LogValue returns the snapshot for package log/slog, with durations in seconds.
func (s Snapshot) LogValue() slog.Value {
	if s.ErrorBound == 0 {
		return slog.StringValue(s.String())
	}
	attrs := []slog.Attr{
		slog.Int64("offset_us", s.OffsetUsec),
		slog.Float64("error_bound_s", s.ErrorBound.Seconds()),
		slog.Float64("skew_ppm", s.Skew),
		slog.Float64("skew_error_ppm", s.SkewError),
		slog.Float64("min_one_way_delay_s", s.MinimumOneWayDelay.Seconds()),
		slog.Float64("min_delay_to_peer_s", s.MinimumDelayToPeer.Seconds()),
		slog.Float64("age_s", s.Age.Seconds()),
		slog.Float64("undisturbed_s", s.Undisturbed.Seconds()),
		slog.Bool("disturbed", s.Disturbed),
		slog.Uint64("steps", uint64(s.Steps)),
	}
	if s.JitterKnown {
		attrs = append(attrs, slog.Float64("jitter_s", s.Jitter.Seconds()))
	}
	return slog.GroupValue(attrs...)
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

func (s Snapshot) skewDrift() float64 { return skewDrift * (1 + float64(s.more)) }

// At returns what the snapshot says of another local time, later or earlier: RemoteUsec,
// OffsetUsec, ErrorBound, Age, Undisturbed and SkewError as of then. The remote time goes on at
// the rate that Skew says. ErrorBound becomes wider in both directions, by SkewError and by the
// most that rates change. Unlike a TimeSynchronizer it does not see what happens to the clocks
// after it was taken.
func (s Snapshot) At(localUsec uint64) Snapshot {
	x := int64(localUsec - s.localUsec())
	if s.ErrorBound == 0 || x == 0 {
		return s
	}
	away := abs(float64(x))
	s.RemoteUsec = s.remote(x)
	s.OffsetUsec = int64(s.RemoteUsec - localUsec)
	s.ErrorBound = wider(s.ErrorBound, s.widening(away)+1) // 1 us: the remote time is rounded
	s.SkewError += s.skewDrift() * away * 1e6
	s.Age, s.Undisturbed = later(s.Age, x), later(s.Undisturbed, x)
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
	if s.ErrorBound == 0 {
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
// Offsets, rates, delays and jitters add up, and so do their errors. Age is the longer one,
// Undisturbed the shorter one, and Disturbed says whether Within is to wait for that. Steps is no
// count any more; it changes when one of both does. If one mapping is the zero value, so is the
// result.
func (s Snapshot) Then(next Snapshot) Snapshot {
	if s.ErrorBound == 0 || next.ErrorBound == 0 {
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
		Age:                max(s.Age, next.Age),
		Undisturbed:        min(s.Undisturbed, next.Undisturbed),
		Skew:               s.Skew + next.Skew + s.Skew*next.Skew*1e-6,
		SkewError:          s.SkewError + next.SkewError + (s.SkewError*(abs(next.Skew)+next.SkewError)+next.SkewError*abs(s.Skew))*1e-6,
		Steps:              31*s.Steps + next.Steps, // a sum would hide that one started anew, which is a step for the other
		Disturbed:          s.Disturbed,
		JitterKnown:        s.JitterKnown && next.JitterKnown,
		more:               uint8(min(int(s.more)+int(next.more)+1, math.MaxUint8)),
	}
	if next.Undisturbed < s.Undisturbed {
		both.Disturbed = next.Disturbed // that one began later, or its clock was set later
	}
	for _, one := range [...]Snapshot{s, next} {
		both.Disturbed = both.Disturbed || one.Disturbed && one.Undisturbed < Settled
	}
	if both.JitterKnown {
		both.Jitter = s.Jitter + next.Jitter
	}
	return both
}

var errSnapshot = errors.New("timesync: not a snapshot, or one of a version that is not known")

// AppendBinary appends the 55 bytes of a Snapshot that travels. The error is always nil. Integers
// are little-endian:
//
//	version             1 byte: 1
//	flags               1 byte: 1 Disturbed, 2 JitterKnown; the other bits are 0
//	mappings            1 byte: how many Then put behind the first one
//	local clock         8 bytes, us: when it was taken
//	RemoteUsec          8 bytes
//	ErrorBound          4 bytes, us, rounded up
//	MinimumOneWayDelay  4 bytes, us, as the two that follow
//	MinimumDelayToPeer  4 bytes
//	Jitter              4 bytes
//	Age                 4 bytes, ms, rounded up
//	Undisturbed         4 bytes, ms, rounded down
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
	if !s.JitterKnown {
		s.Jitter = 0
	}
	flags := byte(0)
	if s.Disturbed {
		flags |= 1
	}
	if s.JitterKnown {
		flags |= 2
	}
	b = append(b, 1, flags, s.more)
	b = binary.LittleEndian.AppendUint64(b, s.localUsec())
	b = binary.LittleEndian.AppendUint64(b, s.RemoteUsec)
	for _, n := range [...]uint32{
		up(s.ErrorBound, time.Microsecond), down(s.MinimumOneWayDelay, time.Microsecond), down(s.MinimumDelayToPeer, time.Microsecond),
		down(s.Jitter, time.Microsecond), up(s.Age, time.Millisecond), down(s.Undisturbed, time.Millisecond),
		uint32(int32(rate)), uint32(off), s.Steps,
	} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b, nil
}

// UnmarshalBinary sets s to what AppendBinary appended, which must be all of data. The error is
// ErrLength, or another one if data is no Snapshot; s is what it was then. Whoever could forge data
// can move the clock, as with a stamp.
func (s *Snapshot) UnmarshalBinary(data []byte) error {
	if len(data) != 55 { // AppendBinary has the format
		return ErrLength
	}
	flags, local, remote := data[1], binary.LittleEndian.Uint64(data[3:]), binary.LittleEndian.Uint64(data[11:])
	var n [9]uint32
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
		Age:                time.Duration(n[4]) * time.Millisecond,
		Undisturbed:        time.Duration(n[5]) * time.Millisecond,
		Skew:               float64(int32(n[6])) * 1e6 / (1 << 32),
		SkewError:          float64(n[7]) * 1e6 / (1 << 32),
		Steps:              n[8],
		Disturbed:          flags&1 != 0,
		JitterKnown:        flags&2 != 0,
		more:               data[2],
	}
	switch {
	case data[0] != 1, flags&^(1|2) != 0,
		got.ErrorBound == 0 && got != Snapshot{}, got.Jitter != 0 && !got.JitterKnown, int32(n[6]) == math.MinInt32:
		return errSnapshot
	}
	*s = got
	return nil
}

// Stats counts since the start or Reset. It is up to 5 s late, and where datagrams end, until the next one.
type Stats struct {
	Datagrams   uint64 // taken
	LateBuckets uint32 // spans of 0.2 s or more in which all datagrams queued
}

// Stats returns what was counted.
func (s *TimeSynchronizer) Stats() Stats {
	return Stats{Datagrams: s.published.datagrams.Load(), LateBuckets: s.published.late.Load()}
}

// ---- The association: both ways together ----

const rounding = 13.0 // us: of a floor, a report with its quality, or a stamp, at most

// association puts both ways together: the delay floor of the way to here, what the peer reports
// of the other way, and the offset. Only it knows the parts: it hands the news of one to the others.
type association struct {
	own     floor   // the way from the peer
	arbiter arbiter // decides between path and clock
	peer    peer    // what the reports of the other way are like

	unreviewed uint16   // ms: since the last review
	calm       bool     // buckets that keep the floor need no review for a while
	dirty      bool     // readers are to be told something
	interval   interval // contains the true offset

	at     float64 // x of the two that follow: advance carries them on
	offset float64 // us: the remote minus the local clock
	toPeer float64 // us: the floor of the way to the peer, as it reports it
}

// start begins with the level of the first datagram.
func (a *association) start(level float64) {
	*a = association{dirty: true}
	a.interval.event, a.interval.unsure = -settledTime, infinite
	a.peer.legacy, a.peer.unconfirmed = legacyReports, math.MaxUint8
	a.own.start(level)
}

// begun reports whether a datagram has arrived.
func (a *association) begun() bool { return a.own.spacing > 0 }

// sane reports whether the state is one that can be in a bucket from there on. But for 8 s without a report no call
// leads to another one; memory may break. All other states heal by themselves.
func (a *association) sane(from float64) bool {
	const far = 1 << 62
	f, r, i := &a.own, &a.arbiter, &a.interval
	finite := f.level + a.toPeer + a.offset + i.event + f.lastNear + f.end + a.at
	delays := float64(r.reference + r.symmetric + r.asymmetry + r.candidate + r.correctionBeforeFall + i.below + i.above)
	return abs(finite) < far && abs(delays) < 32*maxOffset && // and so no part of a sum is a NaN or infinite
		f.meanResidual >= 0 && f.meanResidual <= second && f.spread >= 0 && f.congestedFor >= 0 && f.loweredBy >= 0 &&
		f.spacing >= bucketTime && f.spacing <= longestWindow && f.n <= maxPoints && abs(f.end-from) < far && f.end <= from+second &&
		abs(f.slope) <= maxSkew && abs(f.prior) <= 2*maxSkew && f.priorVar > 0 && f.priorVar < 1 && f.sigma >= 0 && f.sigma < 1 &&
		a.peer.noise >= 0 && a.peer.noise <= second && r.age >= 0 && r.candidateAge >= 0 && r.expiry <= longestQueue && i.unsure >= 0 && abs(r.roundTripBeforeFall) < 32*maxOffset &&
		a.unreviewed <= 8000 // longer without a report: what was learnt alone may be a queue's
}

// advance carries the offset and the peer's floor on to x: both change as the clocks run apart, and
// what is not known of that widens the interval.
func (a *association) advance(x float64) {
	if x == a.at {
		return
	}
	dt := x - a.at
	d := a.own.slope * dt
	a.offset, a.toPeer, a.at = a.offset-d, a.toPeer-d, x
	drift := float32(a.dispersion() * dt)
	a.interval.widen(drift, drift)
}

// roundTrip returns the round trip of a datagram that does not queue. No clock is in it.
func (a *association) roundTrip() float32 {
	return float32(ring(a.toPeer+a.own.levelAt(a.at), deltaBits))
}

// midpoint returns the offset if both ways take equally long.
func (a *association) midpoint() float64 {
	return ring(a.toPeer-a.own.levelAt(a.at), deltaBits) / 2
}

// delay returns the minimum one-way delay to here.
func (a *association) delay() float64 { return ring(a.own.levelAt(a.at)+a.offset, offsetBits) }

// delayToPeer returns the minimum one-way delay to the peer.
func (a *association) delayToPeer() float64 { return ring(a.toPeer-a.offset, offsetBits) }

// deadBand is by how much two looks at the same round trip differ at most. It is hard: a
// soft one costs half of it after every change of a path.
func (a *association) deadBand() float32 {
	return 2*hostJitter + a.own.jointResolution() + gateSpreads/2*(a.own.scatter()+a.peer.noise) + float32(a.stale(0))
}

// unseen returns by how much a floor may have moved in a silence that ended less than 6 s ago, us: no clock was set
// for that.
func (a *association) unseen() float32 {
	if a.interval.sinceSilence < warmUp/1e5 {
		return float32(a.interval.drifted) * 100
	}
	return 0
}

// stale returns by how much the peer's floor may be above what a legacy peer reports: that tells
// a minimum of ten seconds. The rate of the clocks may be another one by unknown.
func (a *association) stale(unknown float64) float64 {
	if !a.peer.isLegacy() {
		return 0
	}
	return (min(a.at, congestedTime) + second) * max(unknown-a.own.slope, 0)
}

// look returns what both ways say now.
func (a *association) look() look {
	return look{
		roundTrip:  a.roundTrip(),
		correction: float32(ring(a.offset-a.midpoint(), offsetBits)),
		deadBand:   a.deadBand(),
		conditions: conditions{spread: a.own.spread, legacy: a.peer.isLegacy()},
	}
}

// lookBefore returns what both ways said before the own floor moved by so much.
func (a *association) lookBefore(by float32) look {
	l := a.look()
	l.roundTrip -= by
	l.correction -= by / 2
	return l
}

// updateOffset moves the offset to where both round trips that are known allow it.
func (a *association) updateOffset() {
	if !a.peer.known {
		return
	}
	if a.peer.stepPending { // rule: the peer's step is predicted
		a.toPeer += float64(a.arbiter.reference - a.roundTrip())
	}
	l := a.look()
	if a.arbiter.reference < -l.deadBand-float32(priorSkew*min(a.at, longestWindow)) { // more than the skew: the first reports were from before
		a.arbiter.restart(l.roundTrip)
	}
	d := a.arbiter.correct(l) - l.correction
	if abs(d) > l.deadBand && !a.arbiter.warmingUp() {
		a.arbiter.adjusted = true
	}
	a.adjust(float64(d))
}

// adjust corrects the offset. The interval stays where it is.
func (a *association) adjust(d float64) {
	if d == 0 {
		return
	}
	a.offset += d
	a.interval.set(a.interval.below+float32(d), a.interval.above-float32(d))
	a.markDirty()
}

// markDirty says that readers are to be told. The calm is over where the next review may have more to
// say: what waits for time to pass, as the interval after a clock step.
func (a *association) markDirty() {
	if a.dirty = true; a.interval.renewing > 0 || !a.unchanged() {
		a.calm = false
	}
}

// isCalm reports whether buckets that keep the floor need no review yet: what both ways say then changes little in 5 s.
func (a *association) isCalm() bool {
	return a.calm && a.unreviewed < congestedTime/2/1000
}

// unchanged reports whether the round trip is the reference one but for the rounding of both floors.
func (a *association) unchanged() bool {
	return abs(a.roundTrip()-a.arbiter.reference) < 2*rounding
}

// datagram takes a delta that arrived at x and returns how far it is above the floor, us. It ends
// a silence, in which a clock may have been set.
func (a *association) datagram(x float64, raw uint64, silence float64, b *bucket) (y int32) {
	a.advance(x)
	d, e := a.own.datagram(x, raw, b)
	y = int32(d)
	if silence > 2*second && a.peer.known { // the datagram may be as late or early as that
		if !a.arbiter.isEarly() {
			a.interval.endSilence(max(a.unseen(), float32(a.dispersion()*silence)))
		}
		a.interval.set(max(a.interval.below, float32(a.delay())+float32(y)), a.interval.above+float32(max(-y, 0)))
		a.arbiter.adjusted = a.arbiter.adjusted || silence > congestedTime
		a.markDirty()
	}
	switch e.kind {
	case outlier:
		return 0
	case lowered:
		b.lower(int32(-e.by))
		a.markDirty()
	case shifted:
		b.begin(x)
		a.markDirty()
		a.arbiter.levelMoved(x, e.by, true, a.lookBefore(e.by))
		a.limitAfterFall(x, e.by, a.interval.below-float32(a.delay()), &a.interval.above)
		if a.peer.known && a.impossible(a.look()) && a.arbiter.reference > -a.deadBand() {
			a.peer.stepPending = true
			a.interval.clockStep(x)
		}
	}
	b.add(y)
	if e.kind != kept {
		a.updateOffset()
	}
	return y
}

// impossible reports whether the round trip is shorter than nothing: a clock was set.
func (a *association) impossible(l look) bool { return l.roundTrip < -l.deadBand-a.unseen() }

// limitAfterFall takes that a floor fell by -d, and how much nearer than was known the limit of the offset on its side
// is then. If that is news to the interval, a clock was set. A fall counts with what makes the round trip shorter than
// the reference one, since queues drain by and by. In the first seconds it may have been a queue: then the limit on
// the other side may be wrong by as much.
func (a *association) limitAfterFall(x float64, d, surprise float32, other *float32) {
	fall := max(-d, a.arbiter.reference-a.roundTrip())
	switch {
	case d > -1.5*a.deadBand()-a.unseen() || d > -maxOffset && surprise < max(a.deadBand(), fall/2): // half the ring or more says nothing
	case !a.arbiter.warmingUp() || d < -second || a.impossible(a.look()): // no queue explains it
		a.interval.clockStep(x)
	case x < 2*warmUp:
		*other = min(*other-d, maxOffset)
	}
}

// endBucket ends the bucket and reports whether all of it was congested. Most buckets keep the
// floor, and both ways are then looked at together only now and then.
func (a *association) endBucket(x float64, b *bucket) (isCongested bool) {
	var trip tripState // while it is calm, only a point asks for it
	if !a.isCalm() || a.own.isDue(x) {
		a.advance(x)
		trip = a.tripState()
	} else if float32(b.fastest) < a.own.best.y {
		trip.now = a.pointRoundTrip()
	}
	a.unreviewed = min(a.unreviewed+uint16(min(uint64(x-b.from), second)/1000), math.MaxUint16/2) // long ones say little about what they span
	if a.peer.known && b.fastest < math.MaxInt32 && (float32(b.delay)+float32(b.fastest) < a.interval.below || a.interval.renewing > 0) {
		a.advance(x)
		a.interval.datagram(x, a.delay()+float64(b.fastest)+a.dispersion()*(x-b.from))
	}
	if rise := a.own.persistentRise(); a.peer.known && rise > second { // what makes all datagrams so late is a clock
		a.interval.set(max(a.interval.below, float32(a.delay())+rise), a.interval.above)
		a.markDirty()
	}
	e := a.own.endBucket(x, trip, b)
	if e.resolutionKnown {
		a.allowForResolution()
	}
	if e.kind == shifted {
		b.begin(x)
		a.arbiter.levelMoved(x, e.by, true, a.lookBefore(e.by))
	}
	a.dirty = a.dirty || e.visible || a.interval.renewing > 0
	if a.peer.known && (e.kind != kept || a.dirty || !a.isCalm()) {
		a.review(x, e, b)
	}
	return e.kind == congested
}

// learnResolution takes how much higher above the floor a bucket's first datagram is than the fastest one of the
// bucket before.
func (a *association) learnResolution(d int64) {
	if a.own.congestedFor == 0 && a.own.learnResolution(d) {
		a.allowForResolution()
	}
}

// allowForResolution takes the resolution of both clocks when it becomes known. How far they ran apart within it
// was not seen until then, and round trips that differ by it, or twice, are the same one.
func (a *association) allowForResolution() {
	resolution := a.own.jointResolution()
	a.interval.widen(resolution, resolution)
	if s := a.roundTrip(); a.peer.known && abs(s-a.arbiter.reference) < 2*resolution {
		a.arbiter.restart(s)
	}
	a.markDirty()
}

// pointRoundTrip returns the round trip that points are told: a NaN before the first report, and beside a
// legacy peer, which tells its floor late.
func (a *association) pointRoundTrip() float32 {
	if !a.peer.known || a.peer.isLegacy() {
		return float32(math.NaN())
	}
	return a.roundTrip()
}

// tripState returns what the own floor is told of the round trip.
func (a *association) tripState() tripState {
	t := tripState{now: a.pointRoundTrip(), room: infinite}
	if !a.peer.known {
		return t
	}
	s, deadBand := a.roundTrip(), a.deadBand()
	t.stable = abs(s-a.arbiter.reference) < deadBand
	if !a.arbiter.adjusted && !a.arbiter.warmingUp() { // both clocks are taken to run on as they did
		t.room = a.arbiter.reference - s + deadBand
	}
	return t
}

// review looks at both ways together.
func (a *association) review(x float64, e event, b *bucket) {
	a.advance(x)
	dt := float32(a.unreviewed) * 1000
	a.interval.sinceSilence = uint8(min(float32(a.interval.sinceSilence)+dt/1e5, math.MaxUint8))
	a.unreviewed, a.calm = 0, false
	a.peer.stepPending = a.peer.stepPending && a.interval.undisturbed(x) <= warmUp // later, reports of before have all arrived
	a.leak(dt)
	l := a.matchStep(x, b)
	if e.kind != congested {
		a.learn(x, dt, l)
	} else if l.roundTrip += a.own.residual; a.arbiter.warmingUp() && l.roundTrip < a.arbiter.reference-l.deadBand {
		a.learn(x, dt, l)
		a.own.congestedFor = bucketTime // a matched step has to wait anew
	}
	a.updateOffset()
	// Of 12 buckets or less the mean spread says little where datagrams share their delay.
	a.calm = e.kind != congested && a.own.spreads > 12 && a.interval.renewing == 0 && a.unchanged()
}

// leak moves the offset towards where the midpoint and the asymmetry put it, by half of what the slope may
// have carried it away. While only one way queues, that is a mistake.
func (a *association) leak(dt float32) {
	d := a.own.sigma * dt / 2
	c := float32(ring(a.offset-a.midpoint(), offsetBits)) - a.arbiter.asymmetry
	a.adjust(-float64(min(max(c, -d), d))) // rule: the offset leaks to the midpoint
}

// learn lets the arbiter learn the reference round trip.
func (a *association) learn(x float64, dt float32, l look) {
	// While one end does not know how far apart the clocks are, the round trip seems too short.
	fast := abs(a.own.slope) > 2*priorSkew+sigmas*float64(a.own.sigma)
	if a.arbiter.learn(dt, l, a.peer.last%marks == extrapolatedMark, fast, a.interval.stepped()) {
		a.interval.clockStep(x)
	}
	a.arbiter.decay(dt, l)
}

// matchStep raises the own floor if all datagrams are late by what the round trip became
// shorter, or by enough to make an impossible one possible: then a clock was set and the peer
// has told it. An impossible round trip is believed only if the peer did not extrapolate. It returns
// what both ways say from then on.
func (a *association) matchStep(x float64, b *bucket) look {
	by, l := a.own.lateness(), a.look()
	opens := a.impossible(l) && a.peer.last%marks != extrapolatedMark && l.roundTrip+by > -l.deadBand
	if opens && !a.arbiter.warmingUp() { // the rest is a queue, or will be told
		by = min(by, max(a.arbiter.reference, 0)-l.roundTrip)
	}
	if !opens && !a.arbiter.matches(by, l, a.own.congestedFor, a.own.abrupt) { // rule: a matched clock step
		return l
	}
	unknown := float32(priorSkew / 2)             // who sets a clock may correct its rate, too
	if a.own.congestedFor == 0 || !a.own.abrupt { // rule: a step that came by and by may be a slew
		unknown = slewSkew
	}
	a.own.climb(x, by, infinite)
	b.begin(x)
	a.own.widenSlope(max(a.own.sigma, unknown))
	if by > a.unseen() {
		a.interval.clockStep(x)
	}
	a.markDirty()
	return a.look()
}

// firstReport takes the first report. The offset is the midpoint: nothing else is known.
func (a *association) firstReport(x float64, r report) {
	a.peer.known = true
	a.toPeer = float64(wrap(r.raw, deltaBits))
	a.offset = a.midpoint()
	a.arbiter.restart(a.roundTrip())
	a.interval.set(float32(a.delay()), maxOffset)
	a.limit(x, r, a.delay(), 0)
	a.markDirty()
}

// report takes the peer's reading of its floor, which was right when it was sent. It reports
// whether readers are to know at once; else the end of the bucket will do.
func (a *association) report(x float64, minDelta Counter24, b *bucket) (urgent bool) {
	a.advance(x)
	r := a.peer.decode(minDelta)
	if !a.peer.known {
		a.firstReport(x, r)
		return true
	}
	sent := x - min(max(a.delay(), 0), second) // the delay is wrong while a clock is set
	d := float32(around(r.raw, a.toPeer+a.own.slope*(x-sent)))
	l := a.look()
	a.arbiter.levelMoved(x, d, false, l)
	above := ring(a.delayToPeer()+float64(d), offsetBits)
	if r.repeated && !a.peer.stepPending && -a.own.slope > float64(a.own.sigma) { // the floor rises, and an old minimum is below it
		d = 0
	}
	if d > hostJitter && d < 4*maxSkew*second && a.arbiter.matches(d, l, a.own.congestedFor, a.own.abrupt) { // rule: a clock may be slewed, says the peer
		a.own.widenSlope(slewSkew)
	}
	a.toPeer += float64(a.peer.update(d, l.deadBand))
	a.learnSkew(sent, r)
	surprise := a.interval.above - float32(above)
	if !a.arbiter.warmingUp() { // a peer may take back a rise that it told early, and confirm its floor seldom
		surprise -= a.interval.unsure
	}
	a.limitAfterFall(x, d, surprise, &a.interval.below)
	was := a.interval.above
	a.limit(x, r, above, float64(abs(d)))
	a.peer.stepPending = false
	urgent = abs(d) >= rounding
	if urgent || a.interval.above < was-rounding || a.interval.renewing > 0 { // else the next review will do
		a.markDirty()
	}
	if urgent {
		a.matchStep(x, b)
		a.updateOffset()
	}
	return urgent
}

// learnSkew takes a report that the peer sent at sent. While all datagrams from there queue, they say
// nothing about the slope, and little at first, but reports do: the peer's floor falls as the own one rises. Each
// report of a confirmed floor may be off by 0.1 ms, or if nearly all are confirmed by less, since then datagrams come
// much nearer to the floor than that; by its noise, and the rounding of both; and by the resolution of the own clock.
// Two of them tell the slope to twice that, over the time between them, and to half of what it may have drifted by since
// the mean of that time.
func (a *association) learnSkew(sent float64, r report) {
	if r.quality != confirmedMark || a.own.n > maxPoints { // memory broke: the next datagram starts anew
		return
	}
	moved, lasted := a.peer.moved(sent)
	turn := -moved/lasted - a.own.slope
	off := 2*rounding + min(float32(a.peer.unconfirmed)/128, 1)*hostJitter + a.peer.noise
	sigma := 2*(off+float32(a.own.ownResolution))/float32(lasted) + skewDrift/4*float32(lasted)
	counts := a.own.congestedFor > second || onlyCrystals(float64(a.own.priorVar)) && 1.5*sigma < a.own.sigma
	switch {
	case lasted > longestWindow || abs(turn) > 4*float64(a.own.sigma)+2*float64(sigma):
		a.peer.confirm(sent) // the earlier one is old, or no slope explains the later one
	case counts && sigma < a.own.sigma: // rule: reports tell the skew
		a.own.setSlope(turn, sigma)
		a.markDirty()
	}
}

// limit takes a report by which the offset is at most above higher, and which differs from the
// peer's floor by surprise. A floor that was extrapolated limits nothing, except within 15 s of a clock
// step. That of a legacy peer is a minimum of ten seconds.
func (a *association) limit(x float64, r report, above, surprise float64) {
	dispersion := a.dispersion()
	if r.quality != confirmedMark {
		above += float64(a.arbiter.unreportedRise(a.roundTrip()))
	}
	switch {
	case r.quality == legacyMark:
		above += a.stale(float64(sigmas/2*a.own.sigma + a.own.tilt(x))) // more would be the bound of each that warms up
		if r.maybeOld {
			// The peer may hear little, however much we hear. Then what it extrapolates may be as old as the
			// session, while the clocks' rates are not known.
			above += slewSkew * max(x-congestedTime, 0)
		}
	case r.quality == confirmedMark:
		above += hostJitter + 2*float64(a.peer.noise)
	case a.interval.undisturbed(x) < settledTime:
		tilted := a.interval.undisturbed(x) * (a.own.tilt(x) + a.excessSlope()) // the peer may extrapolate since then
		above += 2*gateSpreads*float64(a.peer.noise) + 2*second*dispersion + 2*surprise + float64(tilted)
	default: // rule: what is extrapolated limits nothing
		return
	}
	a.interval.report(x, above, r.quality == confirmedMark)
}

// levelToReport returns what to report: the own floor at x, or higher if it may have risen with a
// clock that was set. The peer waits to hear of that. If no clock is found in 5 s, it is a queue, unless
// it is longer than a second, and the peer is to see the same round trip again as this end. A rise that is small, or hardly above the
// gate, may be two datagrams that happened to queue alike; to a legacy peer any would do harm if it
// were a queue, which no rise of a second is.
func (a *association) levelToReport(x float64) float64 {
	level, rise := a.own.levelAt(x), a.own.persistentRise()
	mayBeClock := a.own.congestedFor < congestedTime/2
	tell := rise > max(2*a.deadBand(), 1.4*gateSpreads*(a.own.spread-hostJitter)) && mayBeClock && !a.peer.isLegacy() || rise > second
	if a.peer.known && tell && (!a.arbiter.warmingUp() || a.interval.undisturbed(x) < settledTime) { // rule: rises are told early
		level += float64(rise)
	}
	return level
}

// dispersion returns by how much the interval widens in a microsecond, us: what is not known of the
// skew, and of its changes.
func (a *association) dispersion() float64 {
	t := max(a.interval.undisturbed(a.at), second)
	unknown := a.own.slopeError(a.at) + (2*a.own.scatter()+hostJitter)/t
	unknown += a.excessSlope()
	most := slewSkew + abs(float32(a.own.slope)) // steps may have taught a slope that no clock has
	return 2*settledTime*skewDrift + float64(min(unknown, most))
}

// excessSlope returns by how much the slope exceeds 200 ppm, as crystals hardly ever do, or 0 once it is trusted:
// when it is known well, and has moved the floor by more than the resolution of either clock could.
func (a *association) excessSlope() float32 {
	steep := abs(float32(a.own.slope))
	mayTilt := a.own.spread > hostJitter && steep*a.own.span(a.at) < maxResolution
	if a.own.sigma > rampSkew || mayTilt {
		return max(steep-2*priorSkew, 0)
	}
	return 0
}

// view sets v, in place since a copy would have to wait for what was just written, to what readers are to see at x.
// The offset is the one nearest to near.
func (a *association) view(v *view, x float64, near uint64) {
	*v = view{state: reported, clockMap: clockMap{whole: near}}
	v.undisturbed, v.jitter = a.interval.undisturbed(x), a.own.meanResidual
	skew := uint32(int32(-a.own.slope * (1 << 32)))
	v.rates = join(skew, skew)
	if a.own.confirmed() {
		v.state |= confirmed
	}
	if a.interval.stepped() {
		v.state |= disturbed
	} else {
		v.undisturbed -= settledTime // where it began, for the estimator
	}
	level := ring(a.levelToReport(x), deltaBits) + (1<<ts24Shift-1)/2. // half a unit, for levels are whole microseconds
	v.report = uint32(int64(level * (1 << (32 - deltaBits))))
	if a.peer.known {
		v.state |= synced
		offset := ring(a.offset-a.own.slope*(x-a.at), offsetBits) + 1./4 // or rounding down could take a whole one
		fine := int64(math.Floor(offset * (1 << 32)))
		v.whole, v.rest = nearest(uint64(fine>>32), near), uint64(fine)<<32
		v.delay, v.toPeer = float32(max(a.delay(), 0)), float32(max(a.delayToPeer(), 0))
		dispersion := a.dispersion()
		wrong := max(-a.roundTrip(), 0) // by so much the floors are wrong at least: no round trip is shorter than nothing
		v.bound, v.dispersion = a.interval.bound()+wrong+float32(dispersion*max(x-readerMargin-a.at, 0)), float32(dispersion)
	}
}

// ---- The way to the peer, from its reports ----

const (
	legacyReports = 4  // reports of other quality: of five originals one sends so many without remainder 2
	longRun       = 64 // reports in a row without that remainder that no original sends; buckets that the spread is a mean over
)

// report is what the peer says of the way to it.
type report struct {
	raw      uint64    // us: the floor there when it was sent, on the ring of deltas
	quality  Counter24 // confirmedMark, extrapolatedMark, or legacyMark: that of a legacy peer, whatever its last bits are
	repeated bool      // a legacy peer said the same before: a minimum that may be old
	maybeOld bool      // it is not known yet whether an original says so; if not, the floor is extrapolated, maybe for long
}

// peer is what is known of the reports of the other end. It knows neither the ways nor the offset.
type peer struct {
	noise       float32   // us: mean difference of reports from what they were expected to say
	last        Counter24 // report, 0 at first; it may come before the first datagram
	confirmed   Counter24 // an earlier one that was confirmed, 0 at first
	confirmedAt uint32    // ms: x when the peer sent that, modulo 49 days
	legacy      uint8     // other reports until the peer counts as one of ours: it starts as an original
	unconfirmed uint8     // 1/255: share of reports that were not confirmed, of late; at the start all
	known       bool      // a report has come, so the offset is known
	stepPending bool      // a report of a clock step is to come, too; until then the round trip is what it was
}

// isLegacy reports whether the peer is an original, or may be one.
func (p *peer) isLegacy() bool { return p.legacy > 0 }

// decode returns what a report says.
func (p *peer) decode(minDelta Counter24) report {
	r := report{raw: uint64(minDelta) << ts24Shift, quality: minDelta % marks}
	if r.quality == legacyMark { // rule: originals are told apart
		p.legacy = longRun
	} else if p.legacy > 0 && minDelta != p.last { // an original repeats a minimum for long
		p.legacy--
	}
	if p.isLegacy() {
		r.maybeOld = r.quality == extrapolatedMark && p.legacy <= legacyReports
		r.repeated, r.quality = minDelta == p.last, legacyMark
	}
	p.last = minDelta
	if p.unconfirmed -= uint8((uint16(p.unconfirmed) + 15) / 16); r.quality != confirmedMark {
		p.unconfirmed += 16
	}
	return r
}

// update returns by how much the floor moves if a report says that it moved by d, and learns how far
// reports are off.
func (p *peer) update(d, deadBand float32) float32 {
	if abs(d) < deadBand { // what sets a dead band must not learn from what it refuses, nor run away
		p.noise += (min(abs(d), 5*hostJitter) - p.noise) / 8
	}
	if p.isLegacy() {
		return d
	}
	return d - min(max(d, -rounding), rounding)*7/8 // rule: what rounding may be is believed slowly
}

// moved returns by how much the floor has moved since the confirmed report, and in how long, us.
func (p *peer) moved(sent float64) (moved, lasted float64) {
	if p.confirmed == 0 {
		return 0, math.Inf(1)
	}
	lasted = float64(max(uint32(int64(sent/1e3))-p.confirmedAt, 1)) * 1e3
	return float64(p.last.Distance(p.confirmed)) * (1 << ts24Shift), lasted
}

// confirm remembers a confirmed report.
func (p *peer) confirm(sent float64) {
	p.confirmed, p.confirmedAt = p.last, uint32(int64(sent/1e3))
}

// ---- The arbiter between path and clock ----

const (
	warmUp       = 6e6   // us: the first datagrams may all have queued
	settledTime  = 15e6  // us: by then both ends have seen and told, be the other a legacy peer; Settled
	longestQueue = 220e6 // us: an asymmetry that was right is kept through a queue of three minutes and a half
)

// arbiter decides whether the path or a clock has changed. It sees no datagram: only the round trip,
// in which no clock is, and how far the offset is from the midpoint.
//
// Each of two round trips at which the offset was known says where the offset can be: if the round
// trip is now d longer, and one way is to blame, the midpoint is off by d/2. The offset lies between
// what both say, and moves only where it must: that is how a longer path leaves it alone, and a
// clock that is set moves it.
type arbiter struct {
	reference            float32 // us: the round trip that is trusted, of late
	asymmetry            float32 // us: offset minus midpoint while the round trip is the reference one
	symmetric            float32 // us: the reference round trip when the asymmetry was last 0
	expiry               float32 // us: until the asymmetry decays
	age                  float32 // us: for how long the round trip has been the reference one, in all; each look counts for a second at most
	candidate            float32 // us: another round trip that lasts
	candidateAge         float32 // us: for how long it has; 0 when the round trip is another one
	roundTripBeforeFall  float32 // us: the round trip before a floor fell most in the first seconds, or from a longer one that lasted; 0 if none fell, or that floor rose since
	correctionBeforeFall float32 // us: offset minus midpoint then
	sinceFall            uint8   // 0.1 s, at most 25.5 s
	ownFell              bool    // it was the own floor
	fellLate             bool    // it was not in the first seconds
	adjusted             bool    // the offset jumped once, or was not watched for long: a clock may have been set
}

// look is what both ways say at one time.
type look struct {
	roundTrip  float32 // us
	correction float32 // us: offset minus midpoint
	deadBand   float32 // us: two looks at the same round trip differ by less
	conditions
}

// conditions are apart from a look, since the compiler keeps structs of up to four fields in registers. In memory
// their copies have to wait for what was just written.
type conditions struct {
	spread float32 // us: how closely datagrams approach the own floor
	legacy bool    // the peer tells late that its floor rose
}

// restart takes the round trip for the reference. It is taken to be symmetric.
func (r *arbiter) restart(roundTrip float32) {
	r.reference, r.symmetric, r.asymmetry, r.age, r.candidateAge = roundTrip, roundTrip, 0, 0, 0
}

// warmingUp reports whether the reference round trip is hardly known yet.
func (r *arbiter) warmingUp() bool { return r.age < warmUp }

// isEarly reports whether the round trip is not known well yet.
func (r *arbiter) isEarly() bool { return r.age < 2*settledTime }

// asymmetryBound returns how far the midpoint may be off where the round trip is d longer than it
// was. At first, and beside a legacy peer, which tells rises late, a shorter one is right. A round
// trip that is well known is not a little longer without a cause.
func (r *arbiter) asymmetryBound(d float32, l look) float32 {
	switch {
	case d < 0 && (r.warmingUp() || l.legacy):
		return 0
	case d > 0 && !r.isEarly(): // rule: a round trip that is well known is not a little longer
	case abs(d) < l.deadBand:
		return 0
	}
	return abs(d) / 2
}

// correct returns how far the offset is to be from the midpoint: as it is, or as near to that as
// both round trips allow.
func (r *arbiter) correct(l look) float32 {
	d := r.asymmetryBound(l.roundTrip-r.reference, l)
	c := min(max(l.correction, r.asymmetry-d), r.asymmetry+d)
	d = r.asymmetryBound(l.roundTrip-r.symmetric, l)
	return min(max(c, -d), d)
}

// learn learns the reference round trip from one that lasted dt, and reports whether a clock was
// set in the first seconds. What the peer extrapolated teaches none: a peer that is cut off cannot
// take it back, and one that does not know its skew yet is wrong for long. fast says that the
// clocks seem too far apart, stepped that one was set once.
func (r *arbiter) learn(dt float32, l look, extrapolated, fast, stepped bool) (set bool) {
	d, sure := l.roundTrip-r.reference, dt
	r.sinceFall = uint8(min(float32(r.sinceFall)+dt/1e5, math.MaxUint8))
	if r.fellLate && r.sinceFall > settledTime/1e5 {
		r.roundTripBeforeFall = 0
	}
	if extrapolated && r.warmingUp() {
		sure /= 4 // not 0: at a datagram a second most reports are extrapolated
	}
	switch {
	case l.roundTrip < -l.deadBand: // a clock was set, and not everybody has told
	case r.warmingUp() && (d < 0 || fast): // rule: a shorter round trip is taken at once in warm-up
		if abs(d) < l.deadBand { // within it, it is the one that is known
			r.age, r.candidateAge = r.age+sure, 0
		}
		r.reference = l.roundTrip
	case abs(d) < l.deadBand:
		r.reference += d * min(dt/congestedTime, 1)
		r.age, r.candidateAge = r.age+sure, 0
	case abs(l.roundTrip-r.candidate) >= l.deadBand:
		r.candidate, r.candidateAge = l.roundTrip, 0
	default:
		r.candidateAge += dt
		if r.candidateAge > 2*second && r.wasSet(d, l) { // rule: a clock was set if one floor falls and the other one rises
			r.roundTripBeforeFall = 0
			if l.correction = r.correctionBeforeFall; r.fellLate {
				r.adopt(l, stepped)
			} else {
				r.restart(l.roundTrip)
			}
			return true
		}
		if r.candidateAge > settledTime && !extrapolated { // rule: another round trip that lasts is learnt
			r.adopt(l, stepped)
		}
	}
	return false
}

// adopt takes the round trip for the reference, and the offset for right there.
func (r *arbiter) adopt(l look, stepped bool) {
	if r.asymmetry == 0 {
		r.expiry = longestQueue
		if stepped && r.isEarly() { // rule: a clock that is set early leaves a wrong asymmetry
			r.expiry = 2 * r.age
		}
	}
	r.asymmetry, r.reference, r.candidateAge = l.correction, l.roundTrip, 0
}

// decay lets go of an asymmetry that is old, or for which no one way can be to blame.
func (r *arbiter) decay(dt float32, l look) {
	if r.asymmetry != 0 {
		if r.expiry -= dt; r.adjusted {
			r.expiry = min(r.expiry, longestWindow)
		}
		if r.expiry < 0 { // rule: asymmetries decay
			r.symmetric += (r.reference - r.symmetric) * min(4*dt/congestedTime, 1)
		}
	}
	d := r.asymmetryBound(r.reference-r.symmetric, l)
	if r.asymmetry = min(max(r.asymmetry, -d), d); r.asymmetry == 0 {
		r.symmetric = r.reference
	}
}

// matches reports whether the round trip is the reference one if a floor is higher by rise: then a
// clock was set, and both ways saw it. In warm-up it may seem so where one queue ends as another
// comes. So there it must last: for a second if datagrams became late by and by, as when a clock runs
// away, and for 5 s if suddenly.
func (r *arbiter) matches(rise float32, l look, congestedFor float32, abrupt bool) bool {
	lack, most := r.reference-l.roundTrip, rise/2
	if r.warmingUp() {
		if most = rise / 4; congestedFor < second || abrupt && congestedFor < 5*second {
			return false
		}
	}
	miss := abs(lack - rise)
	return lack > l.deadBand && miss < l.deadBand+gateSpreads*l.spread && miss < most
}

// levelMoved takes by how much a floor moved at x, d, the own one or the peer's, and what both ways said until
// then. That is kept until that floor rises: of the greatest fall of the first seconds, and of one from a longer round
// trip that lasted.
func (r *arbiter) levelMoved(x float64, d float32, here bool, before look) {
	late, longer := x > 2*warmUp, before.roundTrip-r.reference
	least := r.roundTripBeforeFall - before.roundTrip // the greatest so far
	if late {
		least = longer / 2
	}
	lasted := longer > before.deadBand && r.candidateAge > warmUp && abs(before.roundTrip-r.candidate) < before.deadBand
	switch {
	case r.roundTripBeforeFall > 0 && r.ownFell == here && d > before.deadBand:
		r.roundTripBeforeFall = 0
	case -d > max(least, before.deadBand) && (lasted || !late):
		r.roundTripBeforeFall, r.correctionBeforeFall, r.sinceFall = before.roundTrip, before.correction, 0
		r.ownFell, r.fellLate = here, late
	}
}

// unreportedRise returns by how much the peer's floor may be higher than it tells: where the own floor fell in the
// first seconds because a clock was set, that one rose by as much.
func (r *arbiter) unreportedRise(roundTrip float32) float32 {
	if !r.ownFell || r.fellLate {
		return 0
	}
	return max(r.roundTripBeforeFall-roundTrip, 0)
}

// wasSet reports whether a clock was set where what a floor falls by passes for the end of a queue, in the first
// seconds or after a way became longer: the other floor has risen by as much, so that the round trip is longer
// again by rise.
func (r *arbiter) wasSet(rise float32, l look) bool {
	miss := abs(l.roundTrip - r.roundTripBeforeFall)
	return r.roundTripBeforeFall > 0 && (r.fellLate || r.isEarly()) && miss < l.deadBand+gateSpreads*l.spread && miss < rise/4
}

// ---- The interval that contains the offset ----

const (
	maxOffset = 1 << (offsetBits - 1) // us: half the ring, where all offsets are
	sigmas    = 6.0                   // standard errors of a slope: a few points far from normal gave them
)

// infinite is more than any delay or distance: an upper slack that no datagram confirmed is unsure by that.
var infinite = float32(math.Inf(1))

// interval contains the true offset while no clock is set: no delay is negative, so each datagram
// limits the offset from below, and each report from above. It only ages.
type interval struct {
	below        float32 // us: the truth is at most so far below the offset
	above        float32 // us: and so far above it; these are the slacks, and set keeps both within half the ring
	unsure       float32 // us: so far the upper slack was widened since a confirmed report; infinite if it is from no such report
	drifted      uint16  // 0.1 ms: the clocks may have run apart by so much in the last silence
	sinceSilence uint8   // 0.1 s: since it ended, at most 25.5 s
	renewing     uint8   // 3 after a clock step: of three buckets the first began before it, the other two replace the lower slack, even by a wider one
	event        float64 // x of the last clock step; at the start -settledTime
}

// clockStep says that a clock was set, or seems to have been.
func (i *interval) clockStep(x float64) {
	if abs(i.undisturbed(x)) > second {
		i.event = x
	}
	i.renewing = 3 // the one under way, and two
}

// stepped reports whether a clock was ever set.
func (i *interval) stepped() bool { return i.event > -settledTime }

// undisturbed returns the time at x since the last clock step, us.
func (i *interval) undisturbed(x float64) float32 { return float32(x - i.event) }

// bound returns how far the offset may be off, us.
func (i *interval) bound() float32 { return max(i.below, i.above, 0) + 3*rounding }

// widen says that the truth may be farther below the offset, and above it, than known.
func (i *interval) widen(below, above float32) {
	i.unsure = max(i.unsure+above, 0)
	i.set(i.below+below, i.above+above)
}

// endSilence says that a silence ended, in which the clocks may have run apart by drifted.
func (i *interval) endSilence(drifted float32) {
	i.drifted, i.sinceSilence = uint16(min(drifted/100+1, math.MaxUint16)), 0
}

// set sets the slacks. No offset is farther from another than half the ring.
func (i *interval) set(below, above float32) {
	i.below, i.above = min(max(below, -maxOffset), maxOffset), min(max(above, -maxOffset), maxOffset)
}

// datagram takes the fastest datagram of a bucket: the truth is at most so far below the offset.
func (i *interval) datagram(x, below float64) {
	if float32(below) < i.below && i.renewing == 0 || i.renewing == 1 || i.renewing == 2 {
		i.set(float32(below), i.above)
	}
	i.renewing -= min(i.renewing, 1)
	if i.noteIfEmpty(x) {
		i.above, i.unsure = maxOffset, infinite
	}
}

// report takes a report by which the offset is at most above higher. After a clock step the
// last one counts.
func (i *interval) report(x, above float64, confirmed bool) {
	if float32(above) < i.above || i.undisturbed(x) < settledTime {
		i.set(i.below, float32(above))
		if i.unsure = 0; !confirmed {
			i.unsure = infinite
		}
	}
	if i.noteIfEmpty(x) {
		i.below, i.renewing = maxOffset, 2
	}
}

// noteIfEmpty notes that a clock was set if no offset is left, and reports whether that is so. If
// the peer extrapolated the upper slack, then wrongly.
func (i *interval) noteIfEmpty(x float64) (set bool) {
	if -i.below <= i.above {
		return false
	}
	if i.unsure == infinite {
		i.above = maxOffset
		return false
	}
	i.clockStep(x)
	return true
}

// ---- The delay floor of one way ----

const (
	bucketTime    = 0.2e6 // us: datagrams are judged by the fastest of so long
	congestedTime = 10e6  // us: what lasts so long is no queue
	hostJitter    = 100.0 // us: hosts add so much, whatever the path
	gateSpreads   = 8     // spreads: exponential jitter exceeds 8 times its mean in e^-8 of the cases
	maxResolution = 16e3  // us: no system's clock is coarser
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
	span     uint32  // us: from at until the bucket ends; 0: every datagram takes the slow path
	delay    int32   // us: minimum one-way delay
	count    uint32  // datagrams
}

// begin begins a bucket at x.
func (b *bucket) begin(x float64) {
	b.from, b.fastest, b.runnerUp = x, math.MaxInt32, math.MaxInt32
}

// add adds a datagram that is y above the floor.
func (b *bucket) add(y int32) {
	first := b.fastest
	b.fastest, b.runnerUp = min(first, y), min(b.runnerUp, max(first, y))
}

// single reports whether less than two datagrams came.
func (b *bucket) single() bool { return b.runnerUp == math.MaxInt32 }

// many reports whether so many datagrams came, without the last one, that the two fastest differ little
// even where a path flaps.
func (b *bucket) many() bool { return b.count > fitPoints+1 }

// lower says that the floor sank by d.
func (b *bucket) lower(d int32) {
	b.fastest += min(d, math.MaxInt32-b.fastest)
	b.runnerUp += min(d, math.MaxInt32-b.runnerUp)
}

// event is what happened to a floor.
type event struct {
	kind    eventKind
	by      float32 // us: how far it moved
	visible bool    // what readers or the peer are told has changed

	resolutionKnown bool // that of both clocks is known from now on
}

type eventKind uint8

const (
	kept      eventKind = iota
	lowered             // a datagram was a little faster than the floor
	shifted             // it fell or rose to another level
	congested           // all datagrams of the bucket queued, or may have
	outlier             // a datagram was much too early
)

// floor is the delta of a datagram that does not queue, on the way to here. It knows no peer: what
// happened is returned.
//
// The yardstick of all gates is the spread: how far apart the fastest datagrams come. Queues and
// clocks are slow against it, and heavy tails do not touch it. It learns only from buckets that are
// not congested: what sets a gate must not learn from what the gate refuses.
type floor struct {
	line
	lastNear     float64 // x of the last bucket that came near the floor, or of a level shift
	spread       float32 // us: half of what the two fastest datagrams of a bucket lie apart, in the mean; at the start 1 s
	residual     float32 // us: the last bucket was so far above the floor
	least        float32 // us: the last two buckets were at least so far above; a level shift makes it 0
	congestedFor float32 // us: for how long buckets have been congested, of each a second at most; 0 when one comes near
	plateau      float32 // us: the least residual after the first 5 s of that, until then the last one
	earliest     float32 // us: least residual of the early outliers in a row
	tooLow       float32 // us: the floor is at most so far too low: a datagram came as near, and the slope may be wrong since
	spreads      uint8   // buckets that the spread is a mean over, at most longRun; a longer path makes it fitPoints
	outliers     uint8   // datagrams in a row that are faster than the path seems to allow
	plateauHits  uint8   // congested buckets near the plateau, at most longRun: a path comes back there, a queue hardly
	earlyBuckets uint8   // buckets in a row in which early outliers came
	earlyNow     bool    // one came in the bucket under way
	persists     bool    // the last bucket was congested by the same as the one before, or as the lower of the two before
	abrupt       bool    // buckets became congested from one to the next, as after a step, not by and by
	shiftedUp    bool    // the last level shift was up
	candidate    uint16  // us: it may be the resolution of both clocks: deltas differ by multiples of it
	hits         uint8   // differences that were multiples of it, at most longRun; one that is none begins anew
}

// start begins with the level of the first datagram.
func (f *floor) start(level float64) {
	*f = floor{line: line{level: level, meanResidual: second, spacing: bucketTime, best: noPoint}, spread: second, residual: second}
	f.widenSlope(priorSkew)
}

// scatter returns how far the fastest datagrams lie apart.
func (f *floor) scatter() float32 { return min(f.meanResidual, f.spread) }

// upperGate returns how far above the floor the fastest datagram of a bucket that ends at x may be. A
// queue opens no gate for itself.
func (f *floor) upperGate(x float64) float32 {
	unseen := max(float32(x-f.lastNear)-f.congestedFor, 0) // rule: what is congested opens no gate
	return hostJitter + 2*f.jointResolution() + gateSpreads*f.spread + sigmas/2*f.sigma*unseen
}

// lowerGate returns how far below the floor a datagram may be at x: 12 scatters, not 8 spreads as above it,
// since the first ones may be small by chance.
func (f *floor) lowerGate(x float64) float32 {
	return hostJitter + f.jointResolution() + 1.5*gateSpreads*f.scatter() + sigmas/2*f.sigma*max(f.spacing, float32(x-f.lastNear))
}

// lateness returns how late all datagrams are: those of the last congested bucket, or of the
// last two where they came near. While a line has few points, it is to learn from those.
func (f *floor) lateness() float32 {
	switch {
	case f.congestedFor > 0:
		return f.residual
	case f.n >= fitPoints && f.least >= 2*f.spread: // rule: what is near may be late
		return f.least // less may be chance
	}
	return 0
}

// persistentRise returns by how much the floor may have risen: by as much as both of the last two buckets
// were congested, if they were so by the same.
func (f *floor) persistentRise() float32 {
	if f.persists {
		return f.least
	}
	return 0
}

// slopeError returns by how much the slope may be off at x: by 6 standard errors, or by the tilt if that is more.
func (f *floor) slopeError(x float64) float32 {
	if f.ownResolution == 0 { // as nearly always: this is asked in each bucket, and inlined
		return sigmas * f.sigma
	}
	return f.coarseSlopeError(x)
}

// coarseSlopeError is slopeError where the own clock is coarse. If both clocks are, sigma allows for half of their
// resolution at least, and no point is off by more than all of it.
func (f *floor) coarseSlopeError(x float64) float32 {
	if f.jointResolution() > 0 {
		return max(2*f.sigma, f.tilt(x))
	}
	return max(sigmas*f.sigma, f.tilt(x))
}

// confirmed reports whether a datagram shows that the floor is at most hostJitter too low.
func (f *floor) confirmed() bool { return f.tooLow < hostJitter }

// datagram takes a delta that arrived at x and returns how far it is above the floor, us, and what
// it did. The bucket is the one under way. Early outliers must come three in a row, or in each bucket
// of a second: a clock that was set makes all datagrams early, a path that was not taken before some.
func (f *floor) datagram(x float64, raw uint64, b *bucket) (y float64, e event) {
	y = around(raw, f.levelAt(x))
	if f.spreads == 0 && b.count >= fitPoints { // rule: the first bucket need not be over
		f.spread = min(float32(b.runnerUp-b.fastest), second/2)
	}
	if y < -float64(f.lowerGate(x)) {
		if f.outliers++; f.outliers == 1 || float32(y) < f.earliest {
			f.earliest = float32(y)
		}
		f.earlyNow = true
		if f.outliers < 3 && f.earlyBuckets < 4 { // rule: outliers come neither three times, nor in each bucket
			return y, event{kind: outlier}
		}
		e = event{kind: shifted, by: f.earliest}
		f.shift(x, f.earliest)
		y -= float64(e.by)
	}
	f.outliers = 0
	if y < 0 {
		f.lower(float32(-y))
		f.tooLow, f.residual = 0, f.residual-float32(y)
		if e.kind == kept {
			e = event{kind: lowered, by: float32(y)}
		}
		y = 0
	}
	return y, e
}

// shift moves the floor by d to another level. The slope stays.
func (f *floor) shift(x float64, d float32) {
	f.restart(x)
	f.level += float64(d)
	f.residual -= d
	f.congestedFor, f.least, f.persists, f.tooLow, f.lastNear, f.surprisedFor, f.shiftedUp = 0, 0, false, 0, x, 0, d > 0
	f.outliers, f.earlyBuckets, f.earlyNow = 0, 0, false
}

// tripState is what the association says of the round trip at the end of a bucket.
type tripState struct {
	now    float32 // us: round trip of a datagram on the floor; NaN while it is not known well
	stable bool    // it is the reference one: no queue grows, so another slope is a clock that is slewed
	room   float32 // us: by so much the floor may rise before the round trip is no longer the reference one
}

// endBucket looks at the fastest datagrams of a bucket and says what happened: the floor was kept,
// rose, or the bucket was congested.
func (f *floor) endBucket(x float64, trip tripState, b *bucket) (e event) {
	if f.earlyNow {
		f.earlyBuckets, f.earlyNow = f.earlyBuckets+1, false
	} else {
		f.earlyBuckets = 0
	}
	if b.fastest == math.MaxInt32 {
		return event{} // nothing but early outliers
	}
	wasConfirmed, wasRise := f.confirmed(), f.persistentRise()
	before, leastBefore := f.residual, f.least
	f.residual = float32(b.fastest)
	f.least = min(f.residual, before)
	since := float32(x - b.from - bucketTime) // its datagrams: a silence may have ended it
	slopeError := f.slopeError(x)
	f.tooLow = min(f.tooLow+slopeError*float32(x-b.from), f.residual+slopeError*since)
	gate := f.upperGate(x)
	if f.congestedFor > 0 { // rule: what is congested comes near only well inside of the gate
		gate = min(gate, max(gate, before)/2)
	}
	if f.residual <= gate {
		f.learnSpread(b, before-f.residual)
		e.resolutionKnown = b.many() && f.learnResolution(int64(b.runnerUp-b.fastest))
		f.congestedFor, f.persists, f.lastNear = 0, false, b.from
		f.addCandidate(b.from+bucketTime/2, f.residual, trip.now+f.residual)
	} else if e = f.congest(x, before, leastBefore, trip.room, b); e.kind == shifted {
		return e
	}
	visible := false
	if x-b.from > congestedTime || f.isDue(x) { // else refit does nothing, and a call costs more than this
		visible = f.refit(x, trip.stable, b)
	}
	e.visible = visible || f.persistentRise() != wasRise || f.confirmed() != wasConfirmed
	return e
}

// refit ends the line's span if it is due, and reports whether that changed what readers or the peer are told.
func (f *floor) refit(x float64, stable bool, b *bucket) (visible bool) {
	switch silence := x - b.from; {
	case silence > longestWindow, silence > congestedTime && f.n >= fitPoints && silence > float64(f.span(b.from)): // the points are old
		f.restart(x)
		f.widenSlope(max(f.sigma, min(skewDrift*float32(silence), priorSkew)))
		return true
	case !f.isDue(x):
		return false
	}
	level, slope := f.levelAt(x), f.slope
	f.endSpan(x, f.spread, f.jointResolution(), stable)
	d := level - f.levelAt(x)
	f.tooLow = max(f.tooLow+float32(d), 0)
	return d != 0 || f.slope != slope
}

// learnSpread learns the spread from a bucket whose fastest datagram was faster than that of the
// bucket before by fall. The spread is half of what the two fastest lie apart, plus fall: these two may
// share their delay, as those of a frame do. If fall is negative, a queue may have begun. Then it does
// not count, except where a single datagram came: there is no more to learn from.
// A bucket counts for little more than the mean so far, or a few that queued would make it large.
func (f *floor) learnSpread(b *bucket, fall float32) {
	spread, most := float32(b.runnerUp-b.fastest)/2+max(fall, 0), 1.5*f.spread
	if b.single() {
		spread, most = abs(fall), 2.5*f.spread
	}
	if spread > second/2 {
		return // there was none before, or a clock was set between the two
	}
	f.spreads = min(f.spreads+1, longRun)
	f.spread += (min(spread, most+hostJitter/2) - f.spread) / float32(f.spreads)
}

// learnResolution learns of what deltas are multiples, from two datagrams of about one bucket, of which one is d
// higher above the floor. Where both clocks are coarse, d is 0 or a multiple of their resolution, but for the unit
// of stamps and the slope of the floor. Where a queue grows or a path flaps, d is often the same, too:
// late buckets and those of few datagrams are not to be told here. It reports whether the resolution
// is known from now on.
func (f *floor) learnResolution(d int64) (resolutionKnown bool) {
	d = abs(d)
	was, alike := f.jointResolution(), 1<<ts24Shift+2+abs(f.slope)*bucketTime
	if float64(d) <= alike || d > maxResolution {
		return false
	}
	candidate, hits := int64(f.candidate), min(int64(f.hits)+1, longRun)
	rest, short := int64(uint32(d)%max(uint32(f.candidate), 1)), candidate <= int64(6*alike)
	if min(rest, candidate-rest) > int64(alike) { // without && or else, no branch: nobody can predict which it is
		candidate, hits = d, 0
	}
	if short {
		candidate, hits = d, 0
	}
	f.candidate, f.hits = uint16(candidate), uint8(hits)
	if f.jointResolution() <= was {
		return false
	}
	f.widenSlope(priorSkew) // datagrams with the same delta told no slope
	return true
}

// jointResolution returns the resolution of both clocks together, us: 0 where one of them is not coarse, or
// where it is not known yet or small beside the jitter. Eight differences in a row are hardly multiples of one
// number by chance.
func (f *floor) jointResolution() float32 {
	if f.hits < 8 || f.candidate <= hostJitter || float32(f.candidate) < 2*f.spread {
		return 0
	}
	return float32(f.candidate) // rule: both clocks may be coarse
}

// congest takes a bucket in which all datagrams were late. before is the residual of the bucket before it,
// leastBefore the lower one of the two before it. If all have been late for 10 s, and came back to the
// plateau, the path is longer; a queue may last for 30 s.
func (f *floor) congest(x float64, before, leastBefore, room float32, b *bucket) event {
	near := hostJitter + 2*f.jointResolution() + gateSpreads*f.spread
	if f.congestedFor == 0 {
		f.abrupt = f.residual-before-maxSkew*float32(x-b.from) > f.residual/2
	}
	f.persists = f.congestedFor > 0 && min(abs(f.residual-before), abs(f.residual-leastBefore)) < near
	if f.congestedFor += min(float32(x-b.from), second); f.congestedFor < congestedTime/2 {
		f.plateau, f.plateauHits = f.residual, 0
	}
	if abs(f.residual-f.plateau) < near {
		f.plateauHits = min(f.plateauHits+1, longRun)
	} else if f.residual < f.plateau {
		f.plateauHits = 1
	}
	f.plateau = min(f.plateau, f.residual)
	if f.congestedFor > congestedTime && f.plateauHits >= 3 || f.congestedFor > 3*congestedTime { // rule: what lasts is no queue
		by := f.plateau
		f.climb(x, by, room)
		f.spreads = min(f.spreads, fitPoints) // a longer path may have more jitter
		return event{kind: shifted, by: by, visible: true}
	}
	return event{kind: congested}
}

// climb moves the floor up by d. If it was moved up before, and hardly anything came near its
// line since, then the slope was wrong, unless the rise makes the round trip longer, which no
// clock does.
func (f *floor) climb(x float64, d, room float32) {
	if f.shiftedUp && f.n < fitPoints && d <= room { // rule: no line holds
		if 2*f.sigma < priorSkew {
			f.widenSlope(2 * f.sigma)
		} else {
			f.forgetSlope(x)
		}
	}
	f.shift(x, d)
	f.tooLow = f.residual // the last bucket was late by so much more
}

// setSlope turns the line about where a datagram last came near: then its slope is known to sigma.
func (f *floor) setSlope(turn float64, sigma float32) {
	turn = min(max(turn, -maxSkew-f.slope), maxSkew-f.slope)
	up := turn * (f.end - f.lastNear)
	f.rotate(up, turn)
	f.best.y -= float32(up + turn*float64(f.best.x))
	f.prior = float32(f.slope)
	f.widenSlope(sigma)
}

// ---- The line below the fastest datagrams ----

const (
	maxPoints     = 12    // fastest datagrams of doubling spans that the line is fitted to
	fitPoints     = 4     // the fewest that show both a slope and noise
	longestWindow = 130e6 // us: oscillators keep no rate for longer

	priorSkew = 100e-6       // two crystals of 50 ppm
	slewSkew  = 500e-6       // NTP's fastest slew
	maxSkew   = 1000e-6      // no computer's clock is as wrong
	skewDrift = 0.1e-6 / 1e6 // a skew changes so fast, per microsecond: temperature
	rampSkew  = 10e-6        // a slope known so well is not another one because a path changes
)

// line is the floor as a straight line below the points that tell it: the fastest datagrams
// of spans of time, as they are seen from the end of the last one. It knows of no queue: what is
// no point is not told to it.
type line struct {
	end           float64 // x of the end of the last span
	level         float64 // us: the line there
	slope         float64 // minus the skew
	meanResidual  float32 // us: mean distance of the points from the line, at the start 1 s
	spacing       float32 // us: time between points; it doubles when there are too many
	loweredBy     float32 // us: by which the line was lowered since end
	prior         float32 // slope known before the points
	priorVar      float32 // variance of that
	sigma         float32 // standard deviation of the slope
	best          point   // fastest datagram since end, or noPoint
	n             uint8   // points
	surprisedFor  uint8   // buckets for which points have told another slope, at most 255; 0 when they do not
	ownResolution uint16  // us: times of receipt are multiples of it, it seems: that of the own clock, or 0
	points        [maxPoints]point
}

// point is a datagram that queued least.
type point struct {
	x         float32 // us after end, so negative: when its bucket began, and 0.1 s
	y         float32 // us above the line
	roundTrip float32 // us, with this datagram; NaN while it is not known
}

// noPoint is slower than any datagram.
var noPoint = point{y: infinite}

// levelAt returns the level at x.
func (l *line) levelAt(x float64) float64 { return l.level + l.slope*(x-l.end) }

// tilt returns by how much the slope may be off at x though the points lie on a straight line. Where the time
// between datagrams is nearly a multiple of the own clock's resolution, each has to wait a little longer for the
// clock to advance than the one before: the floor tilts as if the clocks ran apart, but by one resolution at most.
// Crystals hardly differ by more than 200 ppm, so the tilt is no more than the slope and that.
func (l *line) tilt(x float64) float32 {
	return min(float32(l.ownResolution)/max(l.span(x), second), abs(float32(l.slope))+2*priorSkew)
}

// span returns for how long, us, the points tell the slope at x.
func (l *line) span(x float64) float32 {
	span := float32(x - l.end)
	if l.n > 0 {
		span -= l.points[0].x
	}
	return span
}

// restart drops the points: they speak of another level. What they knew of the slope
// stays.
func (l *line) restart(x float64) {
	l.priorVar, l.prior = l.sigma*l.sigma, float32(l.slope)
	l.level, l.end = l.levelAt(x), x
	l.n, l.best, l.spacing = 0, noPoint, bucketTime
}

// widenSlope says that what was known of the slope may be wrong by sigma.
func (l *line) widenSlope(sigma float32) { l.sigma, l.priorVar = sigma, sigma*sigma }

// forgetSlope makes the clocks run at the same rate from x on. Few points tell of another one.
func (l *line) forgetSlope(x float64) {
	l.level = l.levelAt(x)
	l.slope, l.prior, l.n = 0, 0, 0
	l.widenSlope(priorSkew)
}

// lower moves the line down by d.
func (l *line) lower(d float32) {
	l.level -= float64(d)
	l.loweredBy, l.best.y = l.loweredBy+d, l.best.y+d
}

// addCandidate makes a datagram that is y above the line at x a candidate for the next point.
func (l *line) addCandidate(x float64, y, roundTrip float32) {
	if y < l.best.y {
		l.best = point{float32(x - l.end), y, roundTrip}
	}
}

// isDue reports whether the span under way is over.
func (l *line) isDue(x float64) bool { return x-l.end >= float64(l.spacing) }

// endSpan makes a point of the fastest datagram since the last one, and fits the line if
// there are enough.
func (l *line) endSpan(x float64, spread, resolution float32, stable bool) {
	dt := float32(x - l.end)
	if l.loweredBy > hostJitter+resolution+gateSpreads*min(l.meanResidual, spread) { // rule: a line that sinks starts anew
		l.restart(x)
	}
	for i := range l.points[:l.n] {
		l.points[i].x -= dt
		l.points[i].y += l.loweredBy
	}
	l.level, l.end, l.loweredBy = l.levelAt(x), x, 0
	if l.best.y == noPoint.y {
		return
	}
	evicted, best := l.makeRoom(resolution), l.best
	l.best = noPoint
	best.x -= dt
	if l.n > 0 && best.x <= l.points[l.n-1].x {
		return // receive times went back
	}
	l.points[l.n] = best
	l.n++
	if points := l.points[:l.n]; l.n >= fitPoints {
		l.fit(points, spread, resolution, stable, evicted)
		l.ownResolution = resolutionOf(l.points[:l.n], spread, l.ownResolution)
	} else if points[0].x < -congestedTime { // rule: few points are recent ones
		l.rotate(float64(best.y), 0) // so few say nothing about the slope, and old ones nothing
	}
}

// makeRoom drops points that are too old, or every second one, and reports whether any was too
// old.
func (l *line) makeRoom(resolution float32) (evicted bool) {
	// Noise makes the slope wrong by about noise/window/points, which is noise*spacing/window^2, and a skew that
	// drifts by 0.00125 ppm a second by that times the window. At the best window, cubed here, both are equal.
	best := 800 * float64(max(l.meanResidual, resolution/2)*l.spacing) * second * second
	longer := func(t float64) bool { return t > congestedTime && (t > longestWindow || t*t*t > best) }
	if l.n == maxPoints && !longer((maxPoints+fitPoints)*float64(l.spacing)) { // rule: spans double
		l.spacing, l.n = 2*l.spacing, maxPoints/2
		for i := range l.n {
			l.points[i] = l.points[2*i]
			if q := l.points[2*i+1]; q.y < l.points[i].y {
				l.points[i] = q
			}
		}
	}
	for l.n == maxPoints || l.n >= fitPoints && longer(-float64(l.points[0].x)) {
		l.n = uint8(copy(l.points[:], l.points[1:l.n]))
		evicted = true
	}
	return evicted
}

// fit finds the slope of the line, and lays it below the points. Slopes are known as Gaussians: what
// is kept is the mean of prior and points, weighted by their variances.
func (l *line) fit(points []point, spread, resolution float32, stable, evicted bool) {
	turn, span := secant(points)
	low, third, mean := residuals(points, turn)
	// No fit removes half a unit of a stamp. Points on one stair lie on a line, but not on this one.
	noise := max(max(2*(third-low), mean*4/5)+1<<(ts24Shift-1), float64(resolution)/2)
	if l.spacing == bucketTime { // rule: the spread is noise at first
		noise = max(noise, 1.25*maxPoints*float64(spread)/float64(l.n))
	}
	slope, fitVar := l.slope+turn, noise*noise/(span*span)
	prior, priorVar := l.priorAfterEviction(slope, fitVar, evicted)
	ramp := roundTripSlope(points)
	clock, leastVar := l.clockSlope(slope, ramp, priorVar)
	ramps := clock != slope && abs(ramp)*span > 2*(mean+noise)
	if ramps { // rule: the slope of a path is none of a clock
		slope, fitVar = clock, max(fitVar, leastVar)
	}
	d := slope - prior
	// At first only what most crystals do is known, and a clock may be further off, but none so far.
	known := priorVar < priorSkew*priorSkew/2 || abs(slope) > 1.1*maxSkew
	surprising := known && d*d > 4*4*(priorVar+fitVar) && !ramps // rule: a surprising slope is not believed until it lasts
	if surprising && stable {
		l.surprisedFor = uint8(min(float32(l.surprisedFor)+l.spacing/bucketTime, math.MaxUint8))
	}
	switch {
	case !surprising:
		l.surprisedFor = 0
	case l.surprisedFor > congestedTime/bucketTime:
		priorVar = min(d*d, 4*maxSkew*maxSkew)
	default:
		fitVar = d * d
	}
	turn = min(max(prior+priorVar/(priorVar+fitVar)*d, -maxSkew), maxSkew) - l.slope
	low, _, mean = residuals(points, turn)
	l.rotate(low, turn)
	if l.meanResidual == second || !surprising {
		l.meanResidual = min(float32(mean), max(1.5*l.meanResidual+1, resolution/2), second/2) // rule: noise grows by halves
	}
	l.prior, l.priorVar, l.sigma = float32(prior), float32(priorVar), float32(math.Sqrt(1/(1/priorVar+1/fitVar)))
}

// onlyCrystals reports whether a slope that is known with that variance is what two crystals do: no slew is allowed for.
func onlyCrystals(variance float64) bool { return variance < 2*priorSkew*priorSkew }

// clockSlope returns what is a clock's of a slope during which the round trip changed by ramp, and how uncertain that
// is at least. No clock makes a round trip longer or shorter: either this way changed, or the other one did and the
// slope is right. The clock's is nearest to what it was, or while nothing but what crystals do is known, to that.
func (l *line) clockSlope(slope, ramp, priorVar float64) (clock, leastVar float64) {
	switch {
	case priorVar < rampSkew*rampSkew:
		return median(l.slope, slope, slope-ramp), 100 * priorVar
	case onlyCrystals(priorVar) && abs(slope) > 2*priorSkew:
		return median(0, slope, slope-ramp), priorVar
	}
	return slope, 0
}

// priorAfterEviction returns what is known of the slope before the points. If one was evicted, its share moves
// into that.
func (l *line) priorAfterEviction(slope, fitVar float64, evicted bool) (prior, priorVar float64) {
	prior, priorVar = float64(l.prior), float64(l.priorVar)
	if !evicted {
		return prior, priorVar
	}
	g := priorVar / (priorVar + float64(l.n)*fitVar)
	drift := 4 * skewDrift * float64(l.points[l.n-1].x-l.points[l.n-2].x) // rule: skews drift
	return min(max(prior+g*(slope-prior), -maxSkew), maxSkew), (1-g)*priorVar + drift*drift
}

// rotate moves the line up at end and turns it about that, under its points.
func (l *line) rotate(up, turn float64) {
	l.level += up
	l.slope = min(max(l.slope+turn, -maxSkew), maxSkew) // the sum may be rounded beyond
	for i := range l.points[:l.n] {
		p := &l.points[i]
		p.y -= float32(up + turn*float64(p.x))
	}
}

// residuals returns how far the lowest and the third lowest point are above the line if it is
// turned by so much about end, and the mean distance of all points from the lowest.
func residuals(points []point, turn float64) (low, third, mean float64) {
	low, mid, third, sum := math.Inf(1), math.Inf(1), math.Inf(1), float64(0)
	for _, p := range points {
		y := float64(p.y) - turn*float64(p.x)
		low, mid, third, sum = min(low, y), min(mid, max(low, y)), min(third, max(mid, y)), sum+y
	}
	return low, third, sum/float64(len(points)) - low
}

// roundTripSlope returns how fast the round trip changes: the mean of the later half of the points over that of
// the earlier half. It is a NaN where a round trip is not known.
func roundTripSlope(points []point) float64 {
	var x, y [2]float32
	half := len(points) / 2
	for i := range half {
		p, q := &points[i], &points[len(points)-1-i]
		x[0], y[0], x[1], y[1] = x[0]+p.x, y[0]+p.roundTrip, x[1]+q.x, y[1]+q.roundTrip
	}
	return float64(y[1]-y[0]) / float64(x[1]-x[0])
}

// resolutionOf returns the resolution of the own clock, us: 0 if it is small, and what it was if the points do not
// tell. The times between points, which are times of receipt, are multiples of it. This is Euclid's algorithm,
// with some tolerance. Where all datagrams come at several times the resolution, only that multiple shows; if
// their delays differ by spread, a finer clock would have shown it, and it is taken for the coarsest one.
// A resolution that is no whole number of microseconds shows if it is long.
func resolutionOf(points []point, spread float32, was uint16) uint16 {
	const same = 16 // us: points from long ago are rounded
	divisor, hits := int32(0), 0
	for i := 2; i < len(points) && (divisor == 0 || divisor > hostJitter/2); i++ { // a short one hardly grows again
		d := int32(abs(points[i].x - 2*points[i-1].x + points[i-2].x))
		if d > same {
			hits++
		}
		for d > same {
			rest := divisor % d
			divisor, d = d, min(rest, d-rest)
		}
	}
	switch {
	case divisor > 0 && divisor < hostJitter || divisor > maxResolution && spread < hostJitter:
		return 0
	case hits >= fitPoints:
		return uint16(min(divisor, maxResolution))
	}
	return was
}

// median returns the middle one of three.
func median(a, b, c float64) float64 { return max(min(a, b), min(max(a, b), c)) }

// secant returns the slope of the lower convex hull of the points over the middle half of
// their span (Moon, Skelly, Towsley 1999, smoothed), and the span.
func secant(points []point) (slope, span float64) {
	first, last := float64(points[0].x), float64(points[len(points)-1].x)
	span = last - first
	from, to := first+span/4, last-span/4
	var lowFrom, lowTo float64 // the hull there
	for p := 0; p < len(points)-1 && float64(points[p].x) <= to; {
		x, y, next := float64(points[p].x), float64(points[p].y), p+1 // the least slope from p; products are faster than quotients
		run, fall := float64(points[next].x)-x, float64(points[next].y)-y
		for i := p + 2; i < len(points); i++ {
			if dx, dy := float64(points[i].x)-x, float64(points[i].y)-y; dy*run <= fall*dx {
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
	report      uint32  // 2^-5 us, so that the ring of deltas is 32 bits: the level to report, and nearly half a unit
	steps       uint32  // jumps of the remote time so far
	delay       float32 // us: minimum one-way delay from the peer
	toPeer      float32 // us: minimum one-way delay to the peer
	bound       float32 // us: of the offset's error readerMargin before from, without slew
	dispersion  float32 // by which bound grows in a microsecond, us
	undisturbed float32 // us: since the last clock event, or the start
	jitter      float32 // us: mean distance of fast datagrams from the floor
	state       uint32  // what is known: the bits reported, confirmed, synced and disturbed
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
	datagrams atomic.Uint64    // before the bucket under way; here, where a bucket's end writes anyway
	words     [8]atomic.Uint64 // the view without its state
	heard     atomic.Uint64    // local time, us, of the last report
}

// The state of a view, the top bits of shown.seq: there is a level to report, a datagram confirms
// it, the offset is known, there was a clock event.
const reported, confirmed, synced, disturbed = 1 << 28, 1 << 29, 1 << 30, 1 << 31

// show shows readers a view.
func (s *published) show(v *view) {
	seq := s.seq.Load()
	s.seq.Store(seq + 1)
	s.words[0].Store(v.from)
	s.words[1].Store(v.whole)
	s.words[2].Store(v.rates)
	s.words[3].Store(v.rest)
	s.words[4].Store(join(v.report, v.steps))
	s.words[5].Store(joinFloats(v.delay, v.toPeer))
	s.words[6].Store(joinFloats(v.bound, v.dispersion))
	s.words[7].Store(joinFloats(v.undisturbed, v.jitter))
	s.seq.Store((seq+2)<<4>>4 | v.state)
}

// load takes what is shown; ok is false while the offset is not known.
func (s *published) load(v *view) (ok bool) {
	for {
		seq, r := s.clockMap()
		v.clockMap, v.state = r, seq>>28<<28
		v.report, v.steps = split(s.words[4].Load())
		v.delay, v.toPeer = splitFloats(s.words[5].Load())
		v.bound, v.dispersion = splitFloats(s.words[6].Load())
		v.undisturbed, v.jitter = splitFloats(s.words[7].Load())
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

func abs[T float32 | float64 | int64](v T) T { return max(v, -v) }
