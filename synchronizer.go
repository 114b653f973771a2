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
//	the pair of directions: the offset
//	the limits that enclose it: the error bound
//	the delay floor of one direction: gates, level shifts
//	the line through the fastest datagrams: level and slope
//	what readers see
//
// docs/DESIGN.md derives the rules. Times called x are microseconds of the local clock
// since the first datagram; levels and offsets are microseconds, too. The words, as there:
//
//	delta: time of receipt minus stamp of a datagram
//	floor: the delta of a datagram that does not queue
//	pair: both directions together: the own floor, and the peer's as it reports it
//	line, slope: the floor as a straight line over time; the slope is minus the skew
//	bucket: at least 0.2 s of datagrams, of which the fastest counts
//	gate: how far from the floor a bucket or datagram may be and still count
//	dip: how closely datagrams approach the floor: the unit of all gates
//	late: a bucket is late if its fastest datagram is above the gate
//	stray: a datagram below the gate: faster than the path seems to allow
//	level shift: a jump of the floor
//	span, point: a stretch of time, one bucket at first; its fastest datagram
//	noise, scatter: mean distance of the points from the line; the smaller of noise and dip
//	sigma: standard deviation of the slope
//	prior: what earlier points said of the slope, and its variance
//	surprise: a slope 4 standard deviations away from the prior
//	bent: a line is bent if its points show a surprising slope; after 10 s that slope is believed
//	midpoint, mid: half the difference of the floors: the offset if both ways are equal
//	round trip, S: the sum of both floors now
//	trip, T: the reference round trip: the one that is trusted
//	young: a pair is young until its T has been trusted for 6 s in all
//	hold, h: offset minus midpoint while S is T. It fades: it goes to 0 slowly
//	free, F: T when the hold was last 0
//	eps: how much two measurements of the same round trip may differ
//	doubt: how far the midpoint may be off if the round trip is longer or shorter by d
//	witness: each floor, as evidence for the offset
//	lean: to move the offset slowly to where it would be without doubt
//	closure: one floor fell, and datagrams the other way are late by as much: one clock step
//	foretold, predicted: the peer's floor is predicted after a step that the peer will soon report
//	limits: the two hard constraints between which the true offset lies
//	ageing: how fast the limits loosen: how far the clocks may drift apart in a microsecond
//	clock event: a moment at which a clock was set, or seems to have been
//	seen, slack: a report is seen if a datagram came within 100 us of it; slack is how far above the line one may be
//	mark: the value of a report modulo 3: 1 seen, 0 a guess, 2 an original's
//	alien: a peer that is, or may be, a C++ original
//	view: what readers see: one consistent state
//	grace: 20 ms between the cause of a correction and its start, for readers who are ahead

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
	bucket bucket // under way
	pair   pair
	base   uint64 // local time, us, at which x is 0
	shown  shown  // it ends a cache line: neighbours in a slice share none
}

const second = 1e6 // us: also the largest reordering of receive times, and more than any jitter

// OnAuthenticatedDatagramTimestamp takes the stamp of a datagram that arrived at
// localRecvUsec and returns the datagram's one-way delay; ok is false while the
// offset is not known. Call it only for datagrams that are proven to come from the
// peer: whoever can forge a stamp can move the clock.
//
// Datagrams may be lost, repeated and reordered, and receive times may go back, as
// when two threads swap datagrams. Up to two datagrams in a row that are faster than the
// path seems to allow change nothing, unless more come in each fifth of a second.
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
	return s.news(remoteSendTS24, y, localRecvUsec)
}

// news takes a datagram, y above the floor, that ends the bucket or may change more.
func (s *TimeSynchronizer) news(stamp Counter24, y int64, localUsec uint64) (owd time.Duration, ok bool) {
	b := &s.bucket
	raw := deltaOf(stamp, localUsec)
	if x := float64(int64(localUsec - s.base)); uint64(y) < maxDelta && b.span > 0 && s.pair.stayCalm(x, b) {
		b.span = uint32(localUsec-b.at) + bucketTime
		b.begin(x)
		b.add(int32(y))
		return time.Duration(int64(b.delay)+y) * time.Microsecond, true
	}
	if !s.pair.sane(b.from) {
		s.start(raw, localUsec)
	}
	x := s.now(localUsec)
	silence := x - b.from
	if silence >= bucketTime {
		if s.pair.endBucket(x, b) {
			s.shown.late.Store(s.shown.late.Load() + 1)
		}
		s.shown.datagrams.Store(s.shown.datagrams.Load() + uint64(b.count) - 1)
		b.count = 1
		b.begin(x)
	}
	above := s.pair.datagram(x, raw, silence > 2*second, b)
	s.publish(x)
	s.arm(localUsec, x)
	if !s.pair.peered {
		return 0, false
	}
	return time.Duration(b.delay+above) * time.Microsecond, true
}

// start begins with the first datagram, or anew where the state is one that cannot be.
func (s *TimeSynchronizer) start(raw, localUsec uint64) {
	var v view
	if s.shown.load(&v) {
		v.whole = v.remote(localUsec) - localUsec
	}
	s.shown.show(&view{reading: reading{whole: v.whole}, steps: v.steps})
	waited, last := float64(int64(localUsec-s.base)), s.pair.last
	s.base = localUsec
	s.pair.start(float64(wrap(raw, deltaBits)))
	s.bucket.begin(0)
	if last != 0 {
		s.pair.report(min(max(-waited, -second), second), last, &s.bucket)
	}
}

// now returns localUsec as microseconds since base.
func (s *TimeSynchronizer) now(localUsec uint64) (x float64) {
	x = float64(int64(localUsec - s.base))
	if ahead := x - s.bucket.from; ahead < -second || ahead > 1e12 { // a datagram is never 11 days late
		// The local clock was set. Times go on from where they were; by how much the
		// offset changed, the deltas will show.
		s.base += uint64(int64(ahead))
		s.shown.heard.Store(s.shown.heard.Load() + uint64(int64(ahead)))
		x = s.bucket.from
		s.pair.limits.clockEvent(x)
		s.pair.news()
	}
	return x
}

// arm says which datagrams are no news from now on.
func (s *TimeSynchronizer) arm(localUsec uint64, x float64) {
	b, own := &s.bucket, &s.pair.own
	b.at, b.span = localUsec, 0
	if s.pair.peered && own.strays == 0 && !s.pair.changed { // else readers are to hear as soon as may be
		b.origin, b.rate = uint64(int64(math.RoundToEven(own.at(x))))-localUsec, uint32((1-own.slope)*(1<<31))
		b.span = uint32(max(bucketTime-(x-b.from), 0))
	}
}

// OnPeerMinDeltaTS24 takes what the peer's MinDeltaTS24 returned, which arrived at
// localRecvUsec. A report that comes before the first datagram counts from the first datagram on.
// A report of 0 is ignored: an original that has heard nothing sends it, and MinDeltaTS24 never
// returns it.
func (s *TimeSynchronizer) OnPeerMinDeltaTS24(minDelta Counter24, localRecvUsec uint64) {
	if minDelta = NewCounter24(uint64(minDelta)); minDelta == 0 { // rule: an original that has heard nothing says 0
		return
	}
	if !s.pair.begun() {
		s.pair.last, s.base = minDelta, localRecvUsec
		s.shown.heard.Store(localRecvUsec)
		return
	}
	x := s.now(localRecvUsec)
	s.shown.heard.Store(localRecvUsec)
	if s.pair.report(x, minDelta, &s.bucket) {
		s.publish(x)
		s.arm(localRecvUsec, x)
	}
}

// Anchor says that the remote clock read remoteUsec, its full 64 bits, when the peer sent the
// message that arrived at localUsec, at most 16 s later. Datagrams show the offset modulo 67.1 s
// only. Call it once for each peer, before or after the first datagram: RemoteTime then returns
// full readings. If it was off by a multiple of 67.1 s until then, that is a step.
func (s *TimeSynchronizer) Anchor(localUsec, remoteUsec uint64) {
	var v view
	if !s.shown.load(&v) {
		v.whole = remoteUsec - localUsec
		s.shown.show(&v)
		return
	}
	was := v.remote(localUsec)
	if turns := nearest(was, remoteUsec) - was; turns != 0 {
		v.whole += turns
		v.steps++
		s.shown.show(&v)
	}
}

// Reset forgets everything, as when the peer is replaced by another. Steps goes on; if the offset
// was known, Reset counts as a step.
func (s *TimeSynchronizer) Reset() {
	var v view
	if s.shown.load(&v) {
		v.steps++
	}
	s.bucket, s.pair, s.base = bucket{}, pair{}, 0
	s.shown.show(&view{steps: v.steps})
	s.shown.datagrams.Store(0)
	s.shown.late.Store(0)
}

const (
	maxSlew = 50e3 // us: larger corrections are steps
	grace   = 20e3 // us: so far may a reader be ahead of the last datagram, or behind it
)

// publish shows readers what is known, if it is news to them. A correction begins a grace after
// now, and waits until the one before has been over for as long, unless both come at the same
// time: then what readers read within the grace, before or after now, is final. A large one is a
// step, at once.
func (s *TimeSynchronizer) publish(x float64) {
	if !s.pair.changed {
		return
	}
	now := s.base + uint64(int64(x))
	var old view
	known := s.shown.load(&old)
	since := int64(now - old.from)
	waits := known && since > -grace && since < abs(old.excess())>>31+grace // slewing takes twice what is slewed
	from := now
	if waits {
		from = old.from
	} else if known {
		from += grace
	}
	v := s.pair.view(x+float64(int64(from-now)), old.whole)
	v.from, v.steps = from, old.steps
	began := int64(from - old.from)
	whole, part := old.offset(began, old.skewAt(began))
	excess := wrap((whole-v.whole)<<32+uint64(part)-v.rest>>32, offsetBits+32) // 2^-32 us
	s.pair.changed = false
	switch {
	case !known: // nothing to correct
	case abs(excess) > maxSlew<<32 || abs(excess) > 500<<32 && s.pair.limits.undisturbed(x) < told: // 0.5 ms: a clock was set by so much
		v = s.pair.view(x, whole)
		v.from, v.steps = now, old.steps+1
	case waits:
		s.pair.changed = true
		v.reading = old.reading
		v.bound += float32(abs(excess)) / (1 << 32)
	default:
		left := excess / (1 << 24)
		fine := int64(part) - left<<24
		v.whole, v.rest = whole+uint64(fine>>32), join(uint32(fine), uint32(left))
		v.rates = join(uint32(old.skewAt(since)), uint32(v.rates))
	}
	s.bucket.delay = int32(v.delay) // as readers see it
	s.shown.show(&v)
}

// ---- Answers ----

// IsSynchronized reports whether the offset is known: since the first datagram and
// the first report.
func (s *TimeSynchronizer) IsSynchronized() bool { return s.shown.seq.Load()&synced != 0 }

// MinDeltaTS24 returns what to report to the peer at localUsec: the receive time
// minus the send stamp of a datagram that does not queue, in units of 8 us. ok is
// false before the first datagram.
//
// The report modulo 3 is a quality mark, which costs at most 8 us: 1 if a datagram confirms the
// floor to 100 us, 0 if it is a guess. The peer's error bound uses only confirmed ones. 2 shows an
// original, which reports old minima. A report of 0 would say that nothing was heard; 2^24-1 stands
// for it.
func (s *TimeSynchronizer) MinDeltaTS24(localUsec uint64) (minDelta Counter24, ok bool) {
	var v view
	if s.shown.load(&v); v.state&reported == 0 {
		return 0, false
	}
	x := int64(localUsec - v.from)
	mark := Counter24(markGuess)
	if v.state&confirmed != 0 && float32(x)*v.ageing <= minGate {
		mark = markSeen
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
// it. An earlier time is extrapolated back at the rate of that time.
func (s *TimeSynchronizer) RemoteTime(localUsec uint64) (remoteUsec uint64, ok bool) {
	seq, r := s.shown.reading()
	if seq&synced == 0 {
		return 0, false
	}
	x := int64(localUsec - r.from)
	whole, _ := r.offset(x, r.skewAt(x)) // as in remote, which is too long to be inlined
	return localUsec + whole, true
}

// LocalTime returns the local time, in microseconds, at which RemoteTime reaches remoteUsec:
// the inverse, with the same promises. RemoteTime of the result is remoteUsec or 1 us more. For a
// future time the answer may change with later datagrams. Without an Anchor, remoteUsec must be a
// reading as RemoteTime gives them, as far off as they are. ok is false while the offset is not
// known.
func (s *TimeSynchronizer) LocalTime(remoteUsec uint64) (localUsec uint64, ok bool) {
	var v view
	if !s.shown.load(&v) {
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
// are. ok is false while the offset is not known.
func (s *TimeSynchronizer) MinimumOneWayDelay() (delay time.Duration, ok bool) {
	var v view
	ok = s.shown.load(&v)
	return micros(float64(v.delay)), ok
}

// MinimumDelayToPeer returns the shortest time that a datagram to the peer was recently under
// way, never negative; at first half the round trip. MinimumOneWayDelay is the way from the peer.
// Both delays together are the round trip. ok is false while the offset is not known.
func (s *TimeSynchronizer) MinimumDelayToPeer() (delay time.Duration, ok bool) {
	var v view
	ok = s.shown.load(&v)
	return micros(float64(v.toPeer)), ok
}

// Skew returns the rate of the remote clock minus that of the local clock, in parts
// per million, at most 1000 either way. ok is false while it is not known to 25 ppm;
// RemoteTime runs at the best guess until then. At 60 datagrams a second each way that takes
// 3 s with 0.1 ms of jitter, 11 s with 3 ms and 21 s with 10 ms; at one a second 15, 103 and
// 156 s (medians, docs/PRODUCTION.md). Snapshot.SkewError says how well it is known.
func (s *TimeSynchronizer) Skew() (ppm float64, ok bool) {
	var v view
	if !s.shown.load(&v) || v.ageing > priorSkew/4 {
		return 0, false
	}
	return v.ppm(), true
}

// ErrorBound returns how far RemoteTime may be off at localUsec, whatever the asymmetry of the
// path, while no clock is set: half the round trip, plus what the clocks may have drifted apart
// since the last useful datagram and report. Stalls, short queues and paths that become longer do
// not widen it. For up to Settled after a clock was set it may be wrong; Snapshot.Undisturbed says
// when that was last noticed. It is at most 33.6 s, since datagrams show the offset modulo 67.1 s.
// ok is false while the offset is not known.
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
	SkewError          float64       // by how much Skew may be off at most, parts per million
	Steps              uint32        // jumps of the remote time so far; the first synchronization does not count
	Disturbed          bool          // a clock step was noticed since the first datagram
	JitterKnown        bool          // there were enough datagrams to tell the jitter

	more uint8 // mappings that Then put behind the first one
}

// Snapshot returns what is known at localUsec. ok is false while the offset is not known.
func (s *TimeSynchronizer) Snapshot(localUsec uint64) (snapshot Snapshot, ok bool) {
	var v view
	if !s.shown.load(&v) {
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
		Age:                micros(max(float64(int64(localUsec-s.shown.heard.Load())), 0)),
		Undisturbed:        micros(max(float64(v.undisturbed)+float64(x), 0)),
		Skew:               v.ppm(),
		SkewError:          (float64(v.ageing) + skewDrift*abs(float64(x)+grace)) * 1e6, // as fast as boundAt grows there
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

// Within returns nil if RemoteUsec may be relied on to be at most tolerable from the truth.
// Else the error says why not. It is the first that applies, in the order in which a program can
// ask the fields:
//
//	ErrUnsynchronized  the offset is not known; the snapshot is the zero value
//	ErrSilent          Age is Settled or more: the peer was silent for too long
//	ErrDisturbed       Disturbed, and Undisturbed is less than Settled: a clock was set
//	ErrWide            ErrorBound is above tolerable; it is half the round trip at least
//
// A clock step is noticed after the next datagram, or the next datagram and report: with package
// link within 2.1 s. Until then Within answers as before.
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

const (
	snapshotVersion = 1
	snapshotSize    = 55 // bytes

	flagSnapshotDisturbed, flagSnapshotJitter = 1, 2 // the other bits are 0
)

var errSnapshot = errors.New("timesync: not a snapshot, or one of a version that is not known")

// AppendBinary appends the 55 bytes of a Snapshot that travels. The error is always nil. Integers
// are little-endian:
//
//	version             1 byte: 1
//	flags               1 byte: 1 Disturbed, 2 JitterKnown
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
		flags |= flagSnapshotDisturbed
	}
	if s.JitterKnown {
		flags |= flagSnapshotJitter
	}
	b = append(b, snapshotVersion, flags, s.more)
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
	if len(data) != snapshotSize {
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
		Disturbed:          flags&flagSnapshotDisturbed != 0,
		JitterKnown:        flags&flagSnapshotJitter != 0,
		more:               data[2],
	}
	switch {
	case data[0] != snapshotVersion, flags&^(flagSnapshotDisturbed|flagSnapshotJitter) != 0,
		got.ErrorBound == 0 && got != Snapshot{}, got.Jitter != 0 && !got.JitterKnown, int32(n[6]) == math.MinInt32:
		return errSnapshot
	}
	*s = got
	return nil
}

// Stats counts since the start or Reset. It is up to 5 s late.
type Stats struct {
	Datagrams   uint64 // taken
	LateBuckets uint32 // spans of 0.2 s or more in which all datagrams queued
}

// Stats returns what was counted.
func (s *TimeSynchronizer) Stats() Stats {
	return Stats{Datagrams: s.shown.datagrams.Load(), LateBuckets: s.shown.late.Load()}
}

// ---- The pair of directions ----

const (
	youth    = 6e6  // us: the first datagrams may all have queued
	doubted  = 8    // other reports: of 25 originals one sends so many without remainder 2
	told     = 15e6 // us: by then both ends have seen and told, be the other an original
	rounding = 13.0 // us: of a floor, a marked report, or a stamp, at most
)

// pair is what both directions say together.
//
// The round trip is the sum of both floors and contains no clock; the midpoint is half
// their difference. Each of two round trips at which the offset was known is a witness:
// if the round trip is now d longer, and one path is to blame, the midpoint is off by d/2.
// The offset lies between what both say. It moves only where it must: that is how a
// longer path leaves it alone, and a clock that is set moves it.
type pair struct {
	own    floor
	limits limits
	reference

	peer   float64 // us: the peer's floor at x is peer - own.slope*x; meet, report and turn set it
	offset float64 // us: the remote minus the local clock at x is offset - own.slope*x; meet, move and turn
	calm   float32 // us: for so long buckets without news need no endBucket, which sets it; stayCalm counts down, news ends it
	spent  float32 // us: for how long buckets have needed none; stayCalm counts up, endBucket sets it to 0

	last     Counter24 // report, never 0 once there is one
	seen     Counter24 // an earlier one that was seen, 0 at first: learnSkew compares later ones with it, and sets it
	seenAt   uint32    // ms: x when the peer sent that, modulo 49 days
	alien    uint8     // other reports until the peer no longer counts as an original; tellApart counts down
	peered   bool      // a report has come; only Reset forgets it
	changed  bool      // there is news for readers; publish tells them
	foretold bool      // the peer will report a step, too; until then the round trip is what it was. datagram sets it, a report or 6 s end it
}

// reference is the round trip at which the offset was known, and what is held while it lasts. anew
// sets all of it but drop anew.
type reference struct {
	trip  float32 // us: the reference round trip, of late; trust learns it
	hold  float32 // us: asymmetry correction: offset minus midpoint while the round trip is trip; trust sets it, fade lets go
	free  float32 // us: the reference round trip when hold was last 0; fade moves it
	left  float32 // us: until hold fades; trust sets it, fade counts down
	known float32 // us: for how long the round trip has been trip, all in all; trust counts
	other float32 // us: another round trip that stands; trust sets it
	stood float32 // us: for how long it has; 0 when the round trip is another one
	drop  float32 // us: the greatest fall of the own floor in the first seconds, negative of the peer's; drops sets it, a rise ends it
}

// start begins with the level of the first datagram.
func (p *pair) start(level float64) {
	*p = pair{limits: limits{event: -told}, changed: true, alien: doubted}
	p.own = floor{line: line{level: level, noise: second, width: bucketTime, best: noPoint}, dip: second, low: second}
	p.own.doubtSlope(priorSkew)
}

// begun reports whether a datagram has arrived.
func (p *pair) begun() bool { return p.own.width > 0 }

// sane reports whether the state is one that can be in a bucket from there on. No call leads to
// another one, but memory may break. All other states heal by themselves.
func (p *pair) sane(from float64) bool {
	const full, far = 1 << deltaBits, 1 << 62
	f := &p.own
	return f.noise >= 0 && f.noise <= second && f.width >= bucketTime && f.width <= memory && f.n <= maxPoints &&
		abs(f.slope) <= maxSkew && abs(f.prior) <= 2*maxSkew && f.priorVar > 0 && f.priorVar < 1 && f.sigma >= 0 && f.sigma < 1 &&
		f.sunk >= 0 && f.bentFor >= 0 && f.dip >= 0 && f.lateFor >= 0 && abs(f.level) < far && f.end <= from+second &&
		abs(p.peer) < far && abs(p.offset) < far && p.limits.noise >= 0 && p.known >= 0 && p.stood >= 0 && p.left < far &&
		abs(p.trip) < full && abs(p.free) < full && abs(p.limits.below) < full && abs(p.limits.above) < full && abs(p.limits.at) < far && abs(p.limits.event) < far
}

// roundTrip returns the round trip of a datagram that does not queue.
func (p *pair) roundTrip() float32 { return float32(ring(p.peer+p.own.level, deltaBits)) }

// midpoint returns the offset if both ways take equally long.
func (p *pair) midpoint() float64 { return ring(p.peer-p.own.level, deltaBits) / 2 }

// correction returns the offset minus the midpoint.
func (p *pair) correction() float32 { return float32(ring(p.offset-p.midpoint(), offsetBits)) }

// delay returns the minimum one-way delay to here.
func (p *pair) delay() float64 { return ring(p.own.level+p.offset, offsetBits) }

// tolerance is by how much two looks at the same round trip differ at most. It is hard: a
// soft one costs half of it after every change of a path.
func (p *pair) tolerance() float32 {
	return 2*minGate + gateDips/2*(p.own.scatter()+p.limits.noise) + float32(p.stale(0))
}

// original reports whether the peer is an original, or may be one.
func (p *pair) original() bool { return p.alien > doubted-4 }

// stale returns by how much the peer's floor may be above what an original reports: it tells
// a minimum of ten seconds. The rate of the clocks may be another one by unknown.
func (p *pair) stale(unknown float64) float64 {
	if !p.original() {
		return 0
	}
	return (min(p.limits.at, lateTime) + second) * max(unknown-p.own.slope, 0)
}

// impossible reports whether the round trip is shorter than nothing: a clock was set.
func (p *pair) impossible() bool { return p.roundTrip() < -p.tolerance() }

// doubt returns how far the midpoint may be off where the round trip is d longer than it
// was. At first, and beside an original, which tells rises late, a shorter one is right.
func (p *pair) doubt(d float32) float32 {
	if abs(d) < p.tolerance() || d < 0 && (p.known < youth || p.original()) {
		return 0
	}
	return abs(d) / 2
}

// follow moves the offset to where both witnesses allow it.
func (p *pair) follow() {
	if !p.peered {
		return
	}
	if p.foretold {
		p.peer += float64(p.trip - p.roundTrip())
	}
	s, was := p.roundTrip(), p.correction()
	if p.trip < -p.tolerance()-float32(priorSkew*min(p.limits.at, memory)) { // more than the skew: the first reports were from before
		p.anew()
	}
	d := p.doubt(s - p.trip)
	c := min(max(was, p.hold-d), p.hold+d)
	d = p.doubt(s - p.free)
	c = min(max(c, -d), d)
	p.move(float64(c - was))
}

// move corrects the offset. The limits stay where they are.
func (p *pair) move(d float64) {
	if d == 0 {
		return
	}
	p.news()
	p.offset += d
	p.limits.set(p.limits.below+float32(d), p.limits.above-float32(d))
}

// datagram takes a delta that arrived at x and returns how far it is above the floor, us. In a
// silence a clock may have been set.
func (p *pair) datagram(x float64, raw uint64, silent bool, b *bucket) (y int32) {
	level := p.own.level
	y, fell := p.own.datagram(x, raw, b)
	if silent && p.peered { // the datagram may be as late or early as that
		p.limits.loosen(float32(p.delay()+float64(y)), float32(max(-y, 0)))
		p.news()
	}
	if p.own.level == level {
		return max(y, 0)
	}
	p.news()
	if fell {
		p.drops(x, p.own.fall, 1)
		p.fell(x, p.own.fall, p.delay(), p.limits.below, &p.limits.above)
		if p.peered && p.impossible() && p.trip > -p.tolerance() { // rule: the peer's floor is predicted
			p.foretold = true
			p.limits.clockEvent(x)
		}
	}
	p.follow()
	return max(y, 0)
}

// fell says that a floor fell by -d, so that the offset is at most limit from here on that
// side; was is what the limits knew. If that is news to them, a clock was set. In the
// first seconds it may have been a queue: then the other limit may be wrong by as much.
func (p *pair) fell(x float64, d float32, limit float64, was float32, other *float32) {
	news := was - float32(limit)
	switch {
	case d > -1.5*p.tolerance() || news < max(p.tolerance(), -d/2):
	case p.known > youth || d < -second || p.impossible(): // no queue explains it
		p.limits.clockEvent(x)
	case x < 2*youth:
		*other = min(*other-d, maxOffset)
	}
}

// drops takes by how much a floor moved, d: the greatest fall of the first seconds is kept until
// that floor rises. The sign is 1 for the own floor and -1 for the peer's.
func (p *pair) drops(x float64, d, sign float32) {
	switch {
	case p.drop*sign > 0 && d > p.tolerance():
		p.drop = 0
	case x < 2*youth && -d > abs(p.drop) && d < -p.tolerance():
		p.drop = -d * sign
	}
}

// news says that readers are to be told. The calm is over where the next end of a bucket may have
// more to say: what waits for time to pass, as the limits after a clock event.
func (p *pair) news() {
	if p.changed = true; p.limits.fresh > 0 || !p.unchanged() {
		p.calm = 0
	}
}

// unchanged reports whether the round trip is the reference one but for the rounding of both floors.
func (p *pair) unchanged() bool { return abs(p.roundTrip()-p.trip) < 2*rounding }

// stayCalm ends a bucket that came near the floor and has no news, and reports whether it did.
// For nearly all this is enough: both directions are looked at together in endBucket. A calm of more
// than 4 s cannot be, but memory may break.
func (p *pair) stayCalm(x float64, b *bucket) bool {
	f, low, lasted := &p.own, float32(b.first), x-b.from
	slack := min(f.slack+certain*f.sigma*float32(lasted), low)
	if p.changed || f.early > 0 || lasted < bucketTime || lasted > 2*second || // in a silence a clock may have been set
		!(float32(lasted) < p.calm && p.calm <= 4*second) || low > minGate+gateDips*f.dip || (slack < minGate) != f.seen() {
		return false
	}
	if float32(b.delay)+low < p.limits.below {
		if p.limits.datagram(x, p.ageing(), p.delay()+float64(low), b.from); p.limits.fresh > 0 {
			p.news() // they contradict each other
		}
	}
	p.calm, p.spent = p.calm-float32(lasted), p.spent+float32(lasted)
	f.learnDip(b, f.low-low)
	f.lowest, f.low, f.slack = min(low, f.low), low, slack
	f.near(b)
	return true
}

// endBucket ends the bucket and reports whether all of it was late.
func (p *pair) endBucket(x float64, b *bucket) (late bool) {
	dt := min(float32(x-b.from), second) + p.spent // long ones say little about what they span
	p.calm, p.spent = 0, 0
	var steady float32 // share of the time
	if p.peered {
		if b.first < math.MaxInt32 {
			p.limits.datagram(x, p.ageing(), p.delay()+float64(b.first), b.from)
		}
		if abs(p.roundTrip()-p.trip) < p.tolerance() {
			steady = 1
		}
		if p.own.rise() > second { // what makes all datagrams so late is a clock
			p.limits.loosen(float32(p.delay())+p.own.rise(), 0)
			p.news()
		}
	}
	slope, level, rise, seen, was := p.own.slope, p.own.level, p.own.rise(), p.own.seen(), p.own.at(x)
	late = p.own.endBucket(x, b, steady)
	p.drops(x, float32(p.own.at(x)-was), 1)
	p.changed = p.changed || p.own.level != level || p.own.rise() != rise || p.own.seen() != seen || p.limits.fresh > 0
	p.turn(x, slope)
	if !p.peered {
		return late
	}
	p.foretold = p.foretold && p.limits.undisturbed(x) <= youth // later, reports of before have all arrived
	p.lean(dt)
	p.close(x, b)
	if late {
		p.shorten()
	} else {
		p.trust(x, dt)
	}
	p.follow()
	if !late && p.own.dips > fewDips && p.limits.fresh == 0 && p.unchanged() {
		p.calm = min(4*second, float32(p.own.end-x)+p.own.width)
	}
	return late
}

// turn turns the peer's floor and the offset about x, as the own line was turned.
func (p *pair) turn(x, slope float64) {
	d := (p.own.slope - slope) * x
	p.peer, p.offset = p.peer+d, p.offset+d
}

// lean moves the offset towards the midpoint by half of what the slope may have carried it
// away: where only one way queues, to lean is wrong.
func (p *pair) lean(dt float32) {
	d := p.own.sigma * dt / 2
	c := p.correction() - p.hold
	p.move(-float64(min(max(c, -d), d))) // rule: the offset leans
}

// close raises the own floor if all datagrams are late by what the round trip became
// shorter, or by enough to make an impossible one possible: then a clock was set and the peer
// has told it. What the peer guessed proves nothing.
func (p *pair) close(x float64, b *bucket) {
	late := p.own.lateness()
	opens := p.impossible() && p.last%marks != markGuess && p.roundTrip()+late > -p.tolerance()
	if opens && p.known > youth { // the rest is a queue, or will be told
		late = min(late, max(p.trip, 0)-p.roundTrip())
	}
	if opens || p.closes(late) { // rule: closure
		slewed := p.own.lateFor == 0 || !p.own.sudden
		slope := p.own.slope
		p.own.climb(x, late, b)
		p.turn(x, slope)
		doubt := float32(priorSkew / 2) // who sets a clock may correct its rate, too
		if slewed {                     // rule: then a clock may be slewed
			doubt = slewSkew
		}
		p.own.doubtSlope(max(p.own.sigma, doubt))
		p.limits.clockEvent(x)
	}
}

// closes reports whether the round trip is the reference one if a floor is a higher. To a young
// pair it may seem so where one queue ends as another comes. It must last: for a second if datagrams
// became late by and by, as when a clock runs away, and for 5 s if suddenly.
func (p *pair) closes(a float32) bool {
	lack, most := p.trip-p.roundTrip(), a/2
	if p.known < youth {
		if most = a / 4; p.own.lateFor < second || p.own.sudden && p.own.lateFor < 5*second {
			return false
		}
	}
	miss := abs(lack - a)
	return lack > p.tolerance() && miss < p.tolerance()+gateDips*p.own.dip && miss < most
}

// wasSet reports whether a clock was set in the first seconds, when what a floor falls by passes
// for the end of a queue: the other floor has risen by as much, so that the round trip is a
// longer again.
func (p *pair) wasSet(a float32) bool {
	miss := abs(a - abs(p.drop))
	return p.known < 2*told && miss < p.tolerance()+gateDips*p.own.dip && miss < a/4
}

// anew takes the round trip for the reference. No correction is held.
func (p *pair) anew() {
	s := p.roundTrip()
	p.trip, p.free, p.hold, p.known, p.stood = s, s, 0, 0, 0
}

// trust learns the reference round trip. What the peer guessed teaches none: a peer that is cut off
// cannot take it back, and one that does not know its skew yet guesses wrongly for long. A young pair
// grows old four times more slowly meanwhile.
func (p *pair) trust(x float64, dt float32) {
	s, tolerance := p.roundTrip(), p.tolerance()
	d := s - p.trip
	sure, learns := dt, true
	if p.last%marks == markGuess { // rule: a guess teaches no round trip
		learns = false
		if p.known < youth {
			sure /= 4 // not 0: at a datagram a second most reports are guesses
		}
	}
	// While one end does not know how far apart the clocks are, the round trip seems too short.
	fast := abs(p.own.slope) > 2*priorSkew+certain*float64(p.own.sigma)
	switch {
	case s < -tolerance: // a clock was set, and not everybody has told
	case p.known < youth && (d < 0 || fast): // rule: the young take a shorter round trip at once
		if abs(d) < tolerance { // within it, it is the one that is known
			p.known, p.stood = p.known+sure, 0
		}
		p.trip = s
	case abs(d) < tolerance:
		p.trip += d * min(dt/lateTime, 1)
		p.known, p.stood = p.known+sure, 0
	case abs(s-p.other) < tolerance: // rule: another round trip is learnt
		p.stood += dt
		if p.stood > 2*second && p.wasSet(d) { // rule: sets of the first seconds
			p.drop = 0
			p.anew()
			p.limits.clockEvent(x)
		} else if p.stood > told && learns {
			if p.hold == 0 {
				p.left = max(p.known, min(2*p.known, memory))
			}
			p.hold, p.trip, p.stood = p.correction(), s, 0 // the offset is taken to be right
		}
	default:
		p.other, p.stood = s, 0
	}
	p.fade(dt)
}

// shorten takes the round trip of late datagrams for the reference one of a young pair if it is
// shorter. Whether they are late for as long as closes asks for counts anew.
func (p *pair) shorten() {
	s := p.roundTrip() + p.own.low
	if p.known < youth && s < p.trip-p.tolerance() { // rule: the young take a late shorter round trip, too
		p.trip, p.free, p.own.lateFor = s, s, bucketTime
	}
}

// fade lets go of a correction that is old, or for which no one path can be to blame.
func (p *pair) fade(dt float32) {
	if p.hold != 0 {
		rest := abs(p.hold) - abs(p.trip-p.free)/2
		if p.left -= dt; p.trip < p.free-p.tolerance() || abs(rest) > p.tolerance() { // rule: what no path explains fades sooner
			p.left = min(p.left, memory/4)
		}
		// Without a hold that the limits confirm, the offset would be outside of them.
		inside := max(p.hold-p.limits.below, -p.hold-p.limits.above) < p.tolerance()
		if p.left < 0 && (inside || p.known > 2*memory) { // rule: holds fade
			p.free += (p.trip - p.free) * min(4*dt/lateTime, 1)
		}
	}
	h := p.doubt(p.trip - p.free)
	if p.hold = min(max(p.hold, -h), h); p.hold == 0 {
		p.free = p.trip
	}
}

// report takes the peer's reading of its floor, which was right when it was sent. It reports
// whether readers are to know at once; else the end of the bucket will do.
func (p *pair) report(x float64, minDelta Counter24, b *bucket) (news bool) {
	p.tellApart(minDelta)
	raw := uint64(minDelta) << ts24Shift
	if !p.peered {
		p.last = minDelta
		p.meet(x, float64(wrap(raw, deltaBits)))
		return true
	}
	sent := x - min(max(p.delay(), 0), second) // the delay is wrong while a clock is set
	d := float32(around(raw, p.peer-p.own.slope*sent))
	repeats := minDelta == p.last && p.alien > 0 && !p.foretold && -p.own.slope > float64(p.own.sigma) // the floor rises
	p.last = minDelta
	p.drops(x, d, -1)
	above := ring(p.peer+float64(d)-p.offset, offsetBits)
	if repeats {
		if d < -minGate {
			p.alien = min(p.alien+doubted, longRun)
		}
		d = 0
	}
	if d > minGate && d < 4*maxSkew*second && p.closes(d) { // rule: a clock may be slewed, says the peer
		p.own.doubtSlope(slewSkew)
	}
	p.believe(d)
	p.learnSkew(x, sent, minDelta)
	p.fell(x, d, above, p.limits.above, &p.limits.below)
	was := p.limits.above
	p.limit(x, above, float64(abs(d)), minDelta%marks)
	p.foretold = false
	if news = abs(d) >= rounding; news || p.limits.above < was-rounding || p.limits.fresh > 0 { // else the next endBucket will do
		p.news()
	}
	if news {
		p.close(x, b)
		p.follow()
	}
	return news
}

// learnSkew takes a report that the peer sent at sent. While all datagrams from there queue, they say
// nothing about the slope, but reports do: the peer's floor falls as the own one rises. Two reports
// of floors that were seen tell the slope to within 0.1 ms and their noise, over the time between them.
func (p *pair) learnSkew(x, sent float64, minDelta Counter24) {
	if minDelta%marks != markSeen || p.original() {
		return
	}
	now := uint32(int64(sent / 1e3))
	lasted := float64(max(now-p.seenAt, 1)) * 1e3
	moved := float64(minDelta.Distance(p.seen)) * (1 << ts24Shift)
	turn := -moved/lasted - p.own.slope
	sigma := (minGate + p.limits.noise) / float32(lasted)
	switch {
	case p.seen == 0 || lasted > memory || abs(turn)*lasted > 4*float64(p.own.sigma)*lasted+float64(p.tolerance()):
		p.seen, p.seenAt = minDelta, now // the earlier one is old, or no slope explains the later one
	case p.own.lateFor > second && 2*sigma < p.own.sigma: // rule: reports tell the skew
		slope := p.own.slope
		p.own.tilt(turn, sigma)
		p.turn(x, slope)
		p.news()
	}
}

// tellApart counts down the doubt about who the peer is, or begins it.
func (p *pair) tellApart(minDelta Counter24) {
	if minDelta%marks == markOriginal { // rule: originals are told apart
		p.alien = longRun
	} else if p.alien > 0 && minDelta != p.last { // an original repeats a minimum for long
		p.alien--
	}
}

// believe moves the peer's floor by d, as a report says, and learns how far reports are off.
func (p *pair) believe(d float32) {
	p.peer += float64(d)
	if !p.original() { // rule: what rounding may be is believed slowly
		p.peer -= float64(min(max(d, -rounding), rounding)) * 7 / 8
	}
	if abs(d) < p.tolerance() { // what sets a tolerance must not learn from what it refuses, nor run away
		p.limits.noise += (min(abs(d), 5*minGate) - p.limits.noise) / 8
	}
}

// meet takes the first report.
func (p *pair) meet(x, level float64) {
	p.peered, p.changed, p.peer = true, true, level+p.own.slope*x
	p.trip = p.roundTrip()
	p.free, p.offset = p.trip, p.midpoint()
	p.limits.open(x, 0)
	p.limits.set(float32(p.delay()), maxOffset)
	p.limit(x, p.delay(), 0, markSeen)
}

// limit takes a report by which the offset is at most above higher, and which differs from the
// peer's floor by news. A floor that was guessed limits nothing, but for what comes after a
// clock event; an original's is a minimum of ten seconds.
func (p *pair) limit(x, above, news float64, mark Counter24) {
	ageing := p.ageing()
	if p.original() {
		mark = markOriginal // whatever its last bits are
	}
	switch {
	case mark == markOriginal:
		above += p.stale(float64(certain / 2 * p.own.sigma)) // more would be the bound of each young pair
	case mark == markSeen:
		above += minGate + 2*float64(p.limits.noise)
	case p.limits.undisturbed(x) < told:
		above += 2*gateDips*float64(p.limits.noise) + 2*second*ageing + 2*news
	default: // rule: a guess limits nothing
		return
	}
	p.limits.report(x, ageing, above, mark)
}

// tell returns what to report: the own floor at x, or higher if it may have risen with a
// clock that was set. The peer waits to hear of that. A rise that is small, or hardly above the
// gate, may be two datagrams that happened to queue alike; to an original any would do harm if it
// were a queue, which no rise of a second is.
func (p *pair) tell(x float64) float64 {
	level := p.own.at(x)
	rise := p.own.rise()
	large := rise > max(2*p.tolerance(), 1.4*gateDips*(p.own.dip-minGate)) && !p.original() || rise > second
	if p.peered && large && (p.known > youth || p.limits.undisturbed(x) < told) { // rule: rises are told early
		level += float64(rise)
	}
	return level
}

// ageing returns by how much the limits open in a microsecond, us: what is not known of the
// skew, and of its changes.
func (p *pair) ageing() float64 {
	t := max(p.limits.undisturbed(p.limits.at), second)
	unknown := certain*p.own.sigma + (2*p.own.scatter()+minGate)/t
	most := slewSkew + abs(float32(p.own.slope)) // steps may have taught a slope that no clock has
	return 2*told*skewDrift + float64(min(unknown, most))
}

// bound returns the error bound at x, us, and by how much it grows in a microsecond.
func (p *pair) bound(x float64) (bound, ageing float32) {
	ageing = float32(p.ageing())
	return max(p.limits.below, p.limits.above, 0) + 3*rounding + ageing*float32(max(x-p.limits.at, 0)), ageing
}

// view returns what readers are to see at x. The offset is the one nearest to near.
func (p *pair) view(x float64, near uint64) (v view) {
	v.state, v.whole = reported, near
	v.undisturbed, v.jitter = p.limits.undisturbed(x), p.own.noise
	skew := uint32(int32(-p.own.slope * (1 << 32)))
	v.rates = join(skew, skew)
	if p.own.seen() {
		v.state |= confirmed
	}
	if p.limits.event > -told {
		v.state |= disturbed
	} else {
		v.undisturbed -= told // where it began, for the estimator
	}
	const half = (1<<ts24Shift - 1) / 2. // us: of a unit, for levels are whole microseconds
	v.report = uint32(int64((ring(p.tell(x), deltaBits) + half) * (1 << (32 - deltaBits))))
	if p.peered {
		v.state |= synced
		offset := ring(p.offset-p.own.slope*x, offsetBits) + 1./4 // or rounding down could take a whole one
		fine := int64(math.Floor(offset * (1 << 32)))
		v.whole, v.rest = nearest(uint64(fine>>32), near), uint64(fine)<<32
		v.delay, v.toPeer = float32(max(p.delay(), 0)), float32(max(ring(p.peer-p.offset, offsetBits), 0))
		v.bound, v.ageing = p.bound(x - grace)
	}
	return v
}

// ---- The limits of the offset ----

const (
	maxOffset = 1 << (offsetBits - 1) // us: half the ring, where all offsets are
	certain   = 6.0                   // standard errors of a slope: a few points far from normal gave them
)

// limits enclose the offset while no clock is set: no delay is negative, so each datagram
// is a lower limit of the offset, and each report an upper one. They only age.
type limits struct {
	below, above float32 // us: the truth is from below under the offset to above over it; set keeps both within half the ring
	noise        float32 // us: mean difference of reports from what they were expected to say; pair.believe learns it
	guess        bool    // above is what the peer guessed, or unknown; report sets it
	fresh        uint8   // buckets that are still to be believed as they are: 3 after a clock event, the first of which began before it
	at           float64 // x when all that was so; open moves it
	event        float64 // x of the last clock event; at the start -told
}

// clockEvent says that a clock was set, or seems to have been.
func (l *limits) clockEvent(x float64) {
	if abs(l.undisturbed(x)) > second {
		l.event = x
	}
	l.fresh = 3 // the one under way, and two
}

// undisturbed returns the time at x since the last clock event, us.
func (l *limits) undisturbed(x float64) float32 { return float32(x - l.event) }

// open lets the limits age.
func (l *limits) open(x, ageing float64) {
	d := float32(ageing * max(x-l.at, 0))
	l.set(l.below+d, l.above+d)
	l.at = x
}

// loosen says that the truth may be by below under the offset, and by above higher than known.
func (l *limits) loosen(below, above float32) {
	l.set(max(l.below, below), l.above+above)
}

// set sets the limits. No offset is farther from another than half the ring.
func (l *limits) set(below, above float32) {
	l.below, l.above = min(max(below, -maxOffset), maxOffset), min(max(above, -maxOffset), maxOffset)
}

// datagram takes the fastest datagram of a bucket, which arrived after from: it was under
// way for delay if the offset is right.
func (l *limits) datagram(x, ageing, delay, from float64) {
	l.open(x, ageing)
	below := float32(delay + ageing*(x-from))
	if below < l.below && l.fresh == 0 || l.fresh == 1 || l.fresh == 2 {
		l.set(below, l.above)
	}
	l.fresh -= min(l.fresh, 1)
	if l.reconcile(x) {
		l.above, l.guess = maxOffset, true
	}
}

// report takes a report by which the offset is at most above higher. After a clock event the
// last one counts.
func (l *limits) report(x, ageing, above float64, mark Counter24) {
	l.open(x, ageing)
	if float32(above) < l.above || l.undisturbed(x) < told {
		l.set(l.below, float32(above))
		l.guess = mark != markSeen
	}
	if l.reconcile(x) {
		l.below, l.fresh = maxOffset, 2
	}
}

// reconcile notes that a clock was set if the limits exclude each other, and reports whether that
// is so. If the peer guessed the upper one, then it guessed wrongly.
func (l *limits) reconcile(x float64) (set bool) {
	if -l.below <= l.above {
		return false
	}
	if l.guess {
		l.above = maxOffset
		return false
	}
	l.clockEvent(x)
	return true
}

// ---- The delay floor of one direction ----

const (
	bucketTime = 0.2e6 // us: datagrams are judged by the fastest of so long
	lateTime   = 10e6  // us: what lasts so long is no queue
	minGate    = 100.0 // us: hosts add so much, whatever the path
	gateDips   = 8     // dips: exponential jitter exceeds 8 times its mean in e^-8 of the cases
	fewDips    = 12    // so few say little about their mean where datagrams share their delay
	longRun    = 64    // buckets that the dip is a mean over; reports in a row without its mark that no original sends
)

// bucket is the span of 0.2 s or more that is under way. Nearly all datagrams touch this
// cache line only.
type bucket struct {
	at     uint64  // local time, us: a datagram that arrives dx later is rate*dx - stamp - origin above the floor
	origin uint64  // us: the floor then, on the ring of deltas, minus that time
	from   float64 // x when the bucket began
	rate   uint32  // 2^-31: 1 minus the slope of the floor
	first  int32   // us: the fastest datagram is so far above the floor
	second int32   // us: the second fastest
	span   uint32  // us: from at until the bucket ends; 0: every datagram is news
	delay  int32   // us: minimum one-way delay
	count  uint32  // datagrams
}

// begin begins a bucket at x.
func (b *bucket) begin(x float64) {
	b.from, b.first, b.second = x, math.MaxInt32, math.MaxInt32
}

// add adds a datagram that is y above the floor.
func (b *bucket) add(y int32) {
	first := b.first
	b.first, b.second = min(first, y), min(b.second, max(first, y))
}

// single reports whether less than two datagrams came.
func (b *bucket) single() bool { return b.second == math.MaxInt32 }

// few returns how many dips say little about their mean: more where datagrams may share their
// delay.
func (b *bucket) few() uint8 {
	if b.single() {
		return fitPoints
	}
	return fewDips
}

// lower says that the floor sank by d.
func (b *bucket) lower(d int32) {
	b.first += min(d, math.MaxInt32-b.first)
	b.second += min(d, math.MaxInt32-b.second)
}

// floor is the delta of a datagram that does not queue.
//
// The yardstick for all gates is the dip: the mean difference of the two fastest datagrams
// of a bucket. Queues and clocks are slow against it, and heavy tails do not touch it. It
// learns only from buckets that are not late: what sets a gate must not learn from what
// the gate refuses. Only the first few count anyway, and may be long: if they were small by
// chance, all that follow would be late.
type floor struct {
	line
	nearAt  float64 // x of the last bucket that came near the floor, or of a level shift
	dip     float32 // us; learnDip learns it, at the start 1 s
	low     float32 // us: the last bucket was so far above the floor
	lowest  float32 // us: the last two buckets were at least so far above; a level shift makes it 0
	lateFor float32 // us: for how long buckets have been late; 0 when one comes near
	halfLow float32 // us: the least late of the later half of that time was so late
	fall    float32 // us: least residual of the strays in a row
	slack   float32 // us: a datagram, wherever it may be now, is at most so far above the floor; it ages with sigma
	early   uint8   // twice the buckets in a row in which strays came; odd if one came in the bucket under way; a level shift makes it 0
	strays  uint8   // datagrams in a row that are faster than the path seems to allow; one that is not, and a level shift, make it 0
	dips    uint8   // buckets that the dip is a mean over, at most longRun; a longer path makes it fitPoints
	again   uint8   // late buckets near halfLow, at most longRun: a path comes back there, a queue hardly
}

// scatter returns how far the fastest datagrams lie apart.
func (f *floor) scatter() float32 { return min(f.noise, f.dip) }

// gate returns how far above the floor the fastest datagram of a bucket that ends at x may
// be.
func (f *floor) gate(x float64) float32 {
	doubted := max(float32(x-f.nearAt)-f.lateFor, 0) // rule: what is late opens no gate
	return minGate + gateDips*f.dip + certain/2*f.sigma*doubted
}

// gateBelow returns how far below the floor a datagram may be at x: half as far again as above it, as
// the first dips may be small by chance.
func (f *floor) gateBelow(x float64) float32 {
	return minGate + 1.5*gateDips*f.scatter() + certain/2*f.sigma*max(f.width, float32(x-f.nearAt))
}

// lateness returns how late all datagrams are: those of the last late bucket, or of the
// last two where they came near.
func (f *floor) lateness() float32 {
	if f.lateFor > 0 {
		return f.low
	}
	if f.sigma > priorSkew && f.n < fitPoints { // rule: a new line is about to learn
		return 0
	}
	return f.lowest // rule: what is near may be late
}

// rise returns by how much the floor may have risen: by as much as both of the last two buckets
// were late.
func (f *floor) rise() float32 {
	if f.alike {
		return f.lowest
	}
	return 0
}

// datagram takes a delta that arrived at x and returns how far it is above the floor, us,
// and whether the floor fell to another level. Strays must come three in a row, or in each bucket of
// a second: a clock that was set makes all datagrams early, a path that was not seen before some.
func (f *floor) datagram(x float64, raw uint64, b *bucket) (y int32, fell bool) {
	d := around(raw, f.at(x))
	if f.dips == 0 && b.count >= fitPoints { // rule: the first bucket need not be over
		f.dip = min(float32(b.second-b.first), second/2)
	}
	if d < -float64(f.gateBelow(x)) {
		if f.strays++; f.strays == 1 || float32(d) < f.fall {
			f.fall = float32(d)
		}
		f.early |= 1
		faster := f.early/2 >= 4     // rule: a faster path comes back in each bucket
		if f.strays < 3 && !faster { // rule: strays do not come three times
			return int32(d), false
		}
		f.shift(x, f.fall, b)
		d, fell = d-float64(f.fall), true
	}
	f.strays = 0
	if d < 0 {
		f.lower(float32(-d))
		f.slack, f.low = 0, f.low-float32(d)
		b.lower(int32(-d))
		d = 0
	}
	y = int32(min(d, math.MaxInt32))
	b.add(y)
	return y, fell
}

// seen reports whether a datagram was so near to the floor that nothing was faster.
func (f *floor) seen() bool { return f.slack < minGate }

// shift moves the floor by a to another level, on which the bucket begins anew. The slope
// stays.
func (f *floor) shift(x float64, a float32, b *bucket) {
	f.level += float64(a)
	f.low -= a
	b.begin(x)
	f.line.restart(x)
	f.lateFor, f.lowest, f.alike, f.slack, f.nearAt, f.bentFor, f.rose = 0, 0, false, 0, x, 0, a > 0
	f.strays, f.early = 0, 0
}

// endBucket looks at the fastest datagrams of a bucket and reports whether even they were
// late. steady is the share of its time in which the round trip was the reference one.
func (f *floor) endBucket(x float64, b *bucket, steady float32) (late bool) {
	if f.early++; f.early%2 == 1 {
		f.early = 0 // no stray came in this bucket
	}
	if b.first == math.MaxInt32 {
		return false // nothing but strays
	}
	low, was, level := float32(b.first), f.low, f.at(x)
	apart := min(abs(low-was), abs(low-f.lowest)) // from one of the last two
	f.lowest, f.low = min(low, was), low
	since := float32(max(x-b.from-bucketTime, 0)) // its datagrams: a silence may have ended it
	f.slack = min(f.slack+certain*f.sigma*float32(x-b.from), low+certain*f.sigma*since)
	gate := f.gate(x)
	if f.lateFor > 0 { // rule: what is late comes near only well inside of the gate
		gate = min(gate, max(gate, was)/2)
	}
	late = low > gate
	if !late || f.dips < b.few() { // rule: the first dips count anyway
		f.learnDip(b, was-low)
	}
	if late {
		f.late(x, apart, low-was, b)
	} else {
		f.near(b)
	}
	span := memory
	if f.n >= fitPoints {
		span = min(max(b.from-f.end-float64(f.points[0].x), lateTime), memory)
	}
	if silence := x - b.from; silence > span {
		// What the points tell is old.
		f.line.restart(x)
		f.doubtSlope(max(f.sigma, min(skewDrift*float32(silence), priorSkew)))
	} else if x-f.end >= float64(f.width) {
		f.endSpan(x, f.dip, steady)
		f.slack = max(f.slack+float32(level-f.at(x)), 0)
	}
	return late
}

// near takes a bucket that came near the floor: its fastest datagram may become a point.
func (f *floor) near(b *bucket) {
	f.lateFor, f.alike, f.nearAt = 0, false, b.from
	f.take(b.from+bucketTime/2, f.low)
}

// learnDip learns the dip from a bucket whose fastest datagram was faster than that of the
// bucket before by fall. It is half of what the two fastest lie apart, and that, if it is faster:
// what is slower may meet a queue that begins. The two fastest may share their delay, as those
// of a frame do. Of a single datagram the difference is all there is. If the bucket before was
// late, it may have queued: then the jitter is no more than what the height above the floor says.
// A bucket counts for little more than the mean so far, or a few that queued would make it large.
func (f *floor) learnDip(b *bucket, fall float32) {
	if f.lateFor > 0 { // rule: what was late tells little
		fall = min(fall, 2*f.low)
	}
	dip, most := float32(b.second-b.first)/2+max(fall, 0), 1.5*f.dip
	if b.single() {
		dip, most = abs(fall), 2.5*f.dip
	}
	if dip > second/2 {
		return // there was none before, or a clock was set between the two
	}
	f.dips = min(f.dips+1, longRun)
	excess := float32(minGate / 2)
	if f.dips <= b.few() { // rule: the first dips may differ
		excess = 5 * minGate
	}
	f.dip += (min(dip, most+excess) - f.dip) / float32(f.dips)
}

// late takes a bucket in which all datagrams were late: by apart more or less than in one of
// the two before, and by jump more than in the last one. If they have been late for 10 s, and came
// back to the least of the later half of it, the path is longer; a queue may last for 30 s.
func (f *floor) late(x float64, apart, jump float32, b *bucket) {
	if f.lateFor == 0 {
		f.sudden = jump-maxSkew*float32(x-b.from) > f.low/2
	}
	f.alike = f.lateFor > 0 && apart < minGate+gateDips*f.dip
	if f.lateFor += min(float32(x-b.from), second); f.lateFor < lateTime/2 {
		f.halfLow, f.again = f.low, 0
	}
	if abs(f.low-f.halfLow) < minGate+gateDips*f.dip {
		f.again = min(f.again+1, longRun)
	} else if f.low < f.halfLow {
		f.again = 1
	}
	f.halfLow = min(f.halfLow, f.low)
	back := uint8(3)
	if b.single() { // rule: few datagrams must come back more often
		back = 10 // at one a second that takes 15 s
	}
	if f.lateFor > lateTime && f.again >= back || f.lateFor > 3*lateTime { // rule: what lasts is no queue
		f.climb(x, f.halfLow, b)
		f.dips = min(f.dips, fitPoints) // a longer path may have more jitter
	}
}

// tilt turns the floor about where a datagram last came near: then its slope is known to sigma.
func (f *floor) tilt(turn float64, sigma float32) {
	turn = min(max(turn, -maxSkew-f.slope), maxSkew-f.slope)
	up := turn * (f.end - f.nearAt)
	f.raise(up, turn)
	f.best.y -= float32(up + turn*float64(f.best.x))
	f.prior = float32(f.slope)
	f.doubtSlope(sigma)
}

// climb moves the floor up by a. If it was moved up before, and hardly anything came near its
// line since, then the slope was wrong.
func (f *floor) climb(x float64, a float32, b *bucket) {
	if f.rose && f.n < fitPoints { // rule: no line holds
		if 2*f.sigma < priorSkew {
			f.doubtSlope(2 * f.sigma)
		} else {
			f.forgetSlope(x)
		}
	}
	f.shift(x, a, b)
	f.slack = f.low // the last bucket was late by so much more
}

// ---- The line through the fastest datagrams ----

const (
	maxPoints = 12    // fastest datagrams of doubling spans that the line is fitted to
	fitPoints = 4     // the fewest that show both a slope and noise
	memory    = 130e6 // us: oscillators keep no rate for longer; a correction is held through a queue of two minutes

	priorSkew = 100e-6       // two crystals of 50 ppm
	slewSkew  = 500e-6       // NTP's fastest slew
	maxSkew   = 1000e-6      // no computer's clock is as wrong
	skewDrift = 0.1e-6 / 1e6 // a skew changes so fast, per microsecond: temperature
)

// line is the floor as a straight line, and the points that tell it: the fastest datagrams
// of spans of time, as they are seen from the end of the last one.
type line struct {
	level    float64 // us: the floor at x is level + slope*x; fit, lower and level shifts set it
	slope    float64 // minus the skew; fit sets it
	end      float64 // x of the end of the last span
	noise    float32 // us: mean distance of the points from the line; fit learns it, at the start 1 s
	width    float32 // us: time between points; it doubles when there are too many, restart makes it a bucket
	sunk     float32 // us: by which the line was lowered since end
	prior    float32 // slope known before the points; fit and restart set it
	priorVar float32 // variance of that
	sigma    float32 // standard deviation of the slope; fit learns it, doubtSlope raises it
	bentFor  float32 // us: for how long points have told a surprising slope; 0 when they do not, and at a level shift
	best     point   // fastest datagram since end, or noPoint
	alike    bool    // the last bucket was late by the same as one of the two before; floor.late sets it, near buckets and level shifts end it
	rose     bool    // the last level shift was up
	sudden   bool    // buckets became late from one to the next, as after a step, not by and by; floor.late sets it
	n        uint8   // points; restart makes it 0
	points   [maxPoints]point
}

// point is a datagram that queued least.
type point struct {
	x float32 // us after end
	y float32 // us above the line
}

// noPoint is slower than any datagram.
var noPoint = point{y: float32(math.Inf(1))}

// at returns the level at x.
func (l *line) at(x float64) float64 { return l.level + l.slope*x }

// restart drops the points: they speak of another level. What they knew of the slope
// stays.
func (l *line) restart(x float64) {
	l.priorVar, l.prior = l.sigma*l.sigma, float32(l.slope)
	l.n, l.best, l.width, l.end = 0, noPoint, bucketTime, x
}

// doubtSlope says that what was known of the slope may be wrong by sigma.
func (l *line) doubtSlope(sigma float32) { l.sigma, l.priorVar = sigma, sigma*sigma }

// forgetSlope turns the line about x so that the clocks have the same rate.
func (l *line) forgetSlope(x float64) {
	l.level += l.slope * x
	l.slope, l.prior, l.n = 0, 0, 0
	l.doubtSlope(priorSkew)
}

// lower sinks the line by d.
func (l *line) lower(d float32) {
	l.level -= float64(d)
	l.sunk, l.best.y = l.sunk+d, l.best.y+d
}

// take makes a datagram that is y above the line at x a candidate for the next point.
func (l *line) take(x float64, y float32) {
	if y < l.best.y {
		l.best = point{float32(x - l.end), y}
	}
}

// endSpan makes a point of the fastest datagram since the last one, and fits the line if
// there are enough.
func (l *line) endSpan(x float64, dip, steady float32) {
	dt := float32(x - l.end)
	if l.sunk > minGate+gateDips*min(l.noise, dip) {
		l.restart(x) // rule: a line that sinks starts anew
	}
	for i := range l.points[:l.n] {
		l.points[i].x -= dt
		l.points[i].y += l.sunk
	}
	l.end, l.sunk = x, 0
	if l.best.y == noPoint.y {
		return
	}
	gone, best := l.makeRoom(), l.best
	l.best = noPoint
	best.x -= dt
	if l.n > 0 && best.x <= l.points[l.n-1].x {
		return // receive times went back
	}
	l.points[l.n] = best
	l.n++
	points := l.points[:l.n]
	if l.n >= fitPoints {
		l.fit(points, dip, steady, gone)
	} else if points[0].x < -lateTime { // rule: few points are recent ones
		for len(points) > 1 && points[0].x < -lateTime {
			points = points[1:] // so few say nothing about the slope, and old ones nothing
		}
		l.lay(points, 0)
	}
}

// makeRoom drops points that are too old, or every second one, and returns how many were
// too old.
func (l *line) makeRoom() (gone int) {
	// At the best window, which is cubed here, noise/window^1.5 weighs as much as wander*window.
	best := 800 * float64(l.noise*l.width) * second * second
	longer := func(t float64) bool { return t > lateTime && (t > memory || t*t*t > best) }
	if l.n == maxPoints && !longer((maxPoints+fitPoints)*float64(l.width)) { // rule: spans double
		l.width, l.n = 2*l.width, maxPoints/2
		for i := range l.n {
			l.points[i] = l.points[2*i]
			if q := l.points[2*i+1]; q.y < l.points[i].y {
				l.points[i] = q
			}
		}
	}
	for l.n == maxPoints || l.n >= fitPoints && longer(-float64(l.points[0].x)) {
		l.n = uint8(copy(l.points[:], l.points[1:l.n]))
		gone++
	}
	return gone
}

// fit finds the slope of the line, and lays it below the points.
func (l *line) fit(points []point, dip, steady float32, gone int) {
	turn, span := secant(points)
	low, third, mean := spread(points, turn)
	const halfUnit = 1 << (ts24Shift - 1) // of a stamp: no fit removes it
	noise := max(2*(third-low), mean*4/5) + halfUnit
	if l.width == bucketTime { // rule: the dip is noise at first
		noise = max(noise, 1.25*maxPoints*float64(dip)/float64(l.n))
	}
	slope, fitVar, priorVar, prior := l.slope+turn, noise*noise/(span*span), float64(l.priorVar), float64(l.prior)
	if gone > 0 {
		// The share of what left moves into what was known before.
		g := priorVar / (priorVar + float64(l.n)*fitVar)
		drift := 4 * skewDrift * float64(points[l.n-1].x-points[l.n-2].x) // rule: skews drift
		prior = min(max(prior+g*(slope-prior), -maxSkew), maxSkew)
		priorVar = (1-g)*priorVar + drift*drift
	}
	d := slope - prior
	// At first only what most crystals do is known, and a clock may be further off, but none so far.
	known := priorVar < priorSkew*priorSkew/2 || abs(slope) > 1.1*maxSkew // rule: surprises need knowledge
	surprised := known && d*d > 4*4*(priorVar+fitVar)                     // rule: surprises
	// No queue grows while the round trip is what it was: a clock is slewed.
	if surprised {
		fitVar, l.bentFor = d*d, l.bentFor+steady*l.width
	} else {
		l.bentFor = 0
	}
	if l.bentFor > lateTime { // rule: what bends for long is believed
		priorVar = min(d*d, 4*maxSkew*maxSkew)
		l.n = uint8(copy(points, points[l.n/2:]))
		points = points[:l.n]
	}
	distance := l.lay(points, min(max(prior+priorVar/(priorVar+fitVar)*d, -maxSkew), maxSkew)-l.slope)
	if l.noise == second {
		l.noise = min(distance, second/2)
	} else if !surprised {
		l.noise = min(distance, 1.5*l.noise+1, second/2) // rule: noise grows by halves
	}
	l.prior, l.priorVar, l.sigma = float32(prior), float32(priorVar), float32(math.Sqrt(1/(1/priorVar+1/fitVar)))
}

// lay turns the line by so much and lays it as high as it can be below the points. It
// returns their mean distance from it.
func (l *line) lay(points []point, turn float64) (distance float32) {
	low, sum := math.Inf(1), float64(0) // as spread, but for the third lowest, which is most of its work
	for _, p := range points {
		y := float64(p.y) - turn*float64(p.x)
		low, sum = min(low, y), sum+y
	}
	mean := sum/float64(len(points)) - low
	l.raise(low, turn)
	return float32(mean)
}

// raise moves the line up at end and turns it about that, under its points.
func (l *line) raise(up, turn float64) {
	l.level += up - turn*l.end
	l.slope = min(max(l.slope+turn, -maxSkew), maxSkew) // the sum may be rounded beyond
	for i := range l.points[:l.n] {
		p := &l.points[i]
		p.y -= float32(up + turn*float64(p.x))
	}
}

// spread returns how far the lowest and the third lowest point are above the line if it is
// turned by so much about end, and the mean distance of all points from the lowest.
func spread(points []point, turn float64) (low, third, mean float64) {
	low, mid, third, sum := math.Inf(1), math.Inf(1), math.Inf(1), float64(0)
	for _, p := range points {
		y := float64(p.y) - turn*float64(p.x)
		low, mid, third, sum = min(low, y), min(mid, max(low, y)), min(third, max(mid, y)), sum+y
	}
	return low, third, sum/float64(len(points)) - low
}

// secant returns the slope of the lower convex hull of the points over the middle half of
// their span (Moon, Skelly, Towsley 1999, smoothed), and the span.
func secant(points []point) (slope, span float64) {
	first, last := float64(points[0].x), float64(points[len(points)-1].x)
	span = last - first
	from, to := first+span/4, last-span/4
	var low [2]float64 // the hull at from and to
	for p := 0; p < len(points)-1; {
		x, y, next := float64(points[p].x), float64(points[p].y), p+1 // the least slope from p; products are faster than quotients
		run, fall := float64(points[next].x)-x, float64(points[next].y)-y
		for i := p + 2; i < len(points); i++ {
			if dx, dy := float64(points[i].x)-x, float64(points[i].y)-y; dy*run <= fall*dx {
				next, run, fall = i, dx, dy
			}
		}
		least := fall / run
		for i, at := range [2]float64{from, to} {
			if x <= at {
				low[i] = y + least*(at-x)
			}
		}
		p = next
	}
	return (low[1] - low[0]) / (span / 2), span
}

// ---- What readers see ----

// reading is how readers get from a local time to the remote one: four words, which the
// compiler keeps in registers.
type reading struct {
	from  uint64 // local time, us: all that follows is as of then
	whole uint64 // us: what readers add to it, rounded down; while no offset is known, what Anchor said
	rates uint64 // 2^-32: rate of the offset, in the high half before from, in the low half later
	rest  uint64 // high half: what is missing from whole, 2^-32 us; low half: excess, 2^-8 us, which they add at from, too, to be slewed away
}

// view is a consistent state for readers: pair.view makes it, and publish says from when on it holds.
type view struct {
	reading
	report      uint32  // 2^-5 us, so that the ring of deltas is 32 bits: the level to report, and nearly half a unit
	steps       uint32  // jumps of the remote time so far
	delay       float32 // us: minimum one-way delay from the peer
	toPeer      float32 // us: minimum one-way delay to the peer
	bound       float32 // us: of the offset's error a grace before from, without excess
	ageing      float32 // by which bound grows in a microsecond, us
	undisturbed float32 // us: since the last clock event, or the start
	jitter      float32 // us: mean distance of fast datagrams from the floor
	state       uint32  // what is known: the bits reported, confirmed, synced and disturbed
}

// excess returns what readers still add at from, 2^-32 us.
func (r reading) excess() int64 { return int64(r.rest<<32) >> 8 }

// skewAt returns the rate of the offset x us after from, 2^-32.
func (r reading) skewAt(x int64) int64 {
	if x < 0 {
		return int64(r.rates) >> 32
	}
	return int64(int32(r.rates))
}

// left returns what is left of the excess x us after from, 2^-32 us.
func (r reading) left(x int64) int64 {
	slewed := min(max(x, 0), 2*maxSlew) << 31 // at half the speed of time
	return r.excess() - max(min(r.excess(), slewed), -slewed)
}

// offset returns what readers add x us after from, where the rate is skew, and the part of a
// microsecond. Products wrap as offsets do, at any x.
func (r reading) offset(x, skew int64) (whole uint64, part uint32) {
	fine := int64(r.rest>>32) + skew*(x&math.MaxUint32)
	if x < 2*maxSlew { // later nothing is left
		fine += r.left(x)
	}
	return r.whole + uint64(skew*(x>>32)+fine>>32), uint32(fine)
}

// remote returns the remote clock.
func (r reading) remote(localUsec uint64) uint64 {
	x := int64(localUsec - r.from)
	whole, _ := r.offset(x, r.skewAt(x))
	return localUsec + whole
}

// ppm returns the skew in parts per million.
func (r reading) ppm() float64 { return float64(int32(r.rates)) / (1 << 32) * 1e6 }

// boundAt returns the error bound x us after from: at most half the ring, where all offsets are.
// The skew itself changes, too.
func (v *view) boundAt(x int64) float64 {
	age, rest := abs(float64(x)+grace), float64(abs(v.left(x)))
	return min(float64(v.bound)+(float64(v.ageing)+skewDrift/2*age)*age+rest/(1<<32)+1, maxOffset)
}

// shown is what readers see: a view, written by show and read by load, and counts.
type shown struct {
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
func (s *shown) show(v *view) {
	seq := s.seq.Load()
	s.seq.Store(seq + 1)
	for i, w := range [...]uint64{
		v.from, v.whole, v.rates, v.rest, join(v.report, v.steps),
		joinFloats(v.delay, v.toPeer), joinFloats(v.bound, v.ageing), joinFloats(v.undisturbed, v.jitter),
	} {
		s.words[i].Store(w)
	}
	s.seq.Store((seq+2)<<4>>4 | v.state)
}

// load takes what is shown; ok is false while the offset is not known.
func (s *shown) load(v *view) (ok bool) {
	for {
		seq, r := s.reading()
		v.reading, v.state = r, seq>>28<<28
		v.report, v.steps = split(s.words[4].Load())
		v.delay, v.toPeer = splitFloats(s.words[5].Load())
		v.bound, v.ageing = splitFloats(s.words[6].Load())
		v.undisturbed, v.jitter = splitFloats(s.words[7].Load())
		if s.seq.Load() == seq {
			return seq&synced != 0
		}
	}
}

// reading returns the half of a view that readings need, and seq.
func (s *shown) reading() (seq uint32, r reading) {
	for {
		seq = s.seq.Load()
		r = reading{s.words[0].Load(), s.words[1].Load(), s.words[2].Load(), s.words[3].Load()}
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
