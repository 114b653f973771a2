package timesync

import (
	"math"
	"time"
)

// The estimator's constants, in microseconds unless they say otherwise. doc.go
// derives the rules.
const (
	bucketRun = 4   // datagrams of a bucket, at least
	maxBucket = 1e6 // or it lasts so long

	strayRun  = 3     // stray stamps do not come thrice in a row
	levelTime = 4e6   // what holds still so long is no crest of a wave
	tellTime  = 10e6  // an original tells after so long
	pauseTime = 0.4e6 // two buckets without a datagram
	silence   = 5e6   // in which anything may have happened
	verdict   = 15e6  // both ends have seen and told, be the other an original
	rough     = 5e6   // so long a new level is refined
	calmRun   = 100   // buckets that a mean is over
	youth     = 6e6   // first datagrams may have queued
	settled   = 50    // buckets after which the round trip is what it is
	settling  = 10e6  // and changes slowly
	forgets   = 40e6  // what is held without good reason is forgotten
	vague     = 3     // moves that together are no good reason
	widen     = 20e6  // how long the bound remembers a longer round trip
	setBack   = 1e6   // no thread is so late
	setAhead  = 1e12  // nor asleep for 11 days
	mildStep  = 2e3   // so little at a time may be a slew of the peer's clock
	alienRun  = 32    // reports after which a peer is no original
	unitsOff  = 12.0  // what the parity of a report may be off
)

// TimeSynchronizer estimates the offset between the local clock and the clock of
// one peer from datagrams that carry a 3-byte stamp. The zero value is ready to
// use; it must not be copied after first use.
//
// One goroutine at a time may call OnAuthenticatedDatagramTimestamp,
// OnPeerMinDeltaTS24, MinDeltaTS24, Stats and Reset. All other methods may be called
// from any goroutine at any time; they never block for long and see one consistent
// state.
//
// Times are readings of the local clock in microseconds. Its value is free and it
// may wrap; it should be monotonic and must not be slewed or set on purpose.
type TimeSynchronizer struct {
	writer
	shown
}

// writer is the state of the goroutine that is told of datagrams and reports. Its line
// and its buckets, which say when the own floor moves, are in ts24.go; what a move means
// is here; publish, which tells readers, is in ts23.go.
type writer struct {
	// All that a datagram needs that tells nothing new: one cache line.
	at     uint64 // local time at which
	origin int64  // the own floor is so high, on the ring of deltas,
	rate   int64  // and has this slope, in 2^-32
	sum    int64  // of the residuals of the bucket
	low    int32  // least of them
	room   int32  // residuals below are no news; 0: every datagram is
	delay  int32  // minimum one-way delay
	count  uint32 // datagrams of the bucket
	span   uint32 // from at until it ends, or, while it has too few,
	wait   uint32 // until it must end
	base   uint64 // local time of x = 0

	// What the end of a bucket needs: two more, to the line's low.
	bucketAt     float64 // when the bucket began
	datagrams    uint64  // before it
	slack, crest float32 // parts of the bound, see publish
	mean         float32 // mean queueing
	dip          float32 // mean queueing of the fastest of a bucket

	seen, peered, early, isClock, young, isLate bool
	run, strays, alien, events, calm, told      uint8

	riseFor float32 // age of rise
	peer    float64 // the peer's floor is peer - own.slope*x
	eventAt float64 // when a floor last moved to another level

	hold float32 // what the offset is held off the midpoint
	trip float32 // the round trip before the last events
	wide float32 // the longest one of late
	rise float32 // by which the path became longer of late

	own      line
	ownAt    float64 // when the own floor last moved to another level
	peerAt   float64 // when the peer's did
	reportAt float64 // when the last report came

	fall      float32 // least residual of the strays
	peerNoise float32 // how far reports are off what they should say

	lateFor, lateMin       float32 // since the last bucket near the floor
	runFor, runMin, runMax float32 // since late buckets are late by the same

	held, trusted float32 // hold before the last events, and the round trip when nothing was held
	known         float32 // for how long the floors had then stood still
	drift         float32 // what the skew may be wrong by since a silence
	stale         float32 // a move of the own floor that reports do not show yet

	steps, resets, reports, lates uint32
}

// OnAuthenticatedDatagramTimestamp takes the stamp of a datagram that arrived at
// localRecvUsec and returns the datagram's one-way delay; ok is false while the
// offset is not known. Call it only for datagrams that are proven to come from the
// peer: whoever can forge a stamp can move the clock.
//
// Datagrams may be lost, repeated and reordered, and receive times may go back, as
// when two threads swap datagrams. Up to two datagrams in a row that are faster than
// the path allows change nothing but the bound.
func (s *TimeSynchronizer) OnAuthenticatedDatagramTimestamp(remoteSendTS24 Counter24, localRecvUsec uint64) (owd time.Duration, ok bool) {
	// As good as all datagrams queue a little. Their residuals count in the mean, and
	// the least of them when the bucket ends.
	dx := localRecvUsec - s.at
	raw := localRecvUsec - uint64(remoteSendTS24)<<ts24Shift
	y := wrap(raw-uint64(s.origin)-uint64(int64(dx)*s.rate>>32), deltaBits)
	s.count++
	if (dx < uint64(s.span) || dx < uint64(s.wait) && s.count <= bucketRun) && uint64(y) < uint64(s.room) {
		s.sum += y
		s.low = min(s.low, int32(y))
		return time.Duration(int64(s.delay)+y) * time.Microsecond, true
	}
	return s.news(raw, localRecvUsec)
}

// news takes a datagram that may change something.
func (s *TimeSynchronizer) news(raw, localUsec uint64) (owd time.Duration, ok bool) {
	if !s.seen {
		s.start(raw, localUsec)
	}
	x := s.now(localUsec)
	if age := x - s.bucketAt; age >= maxBucket || age >= bucket && s.count > bucketRun {
		s.endBucket(x)
	}
	y := float32(around(raw, s.own.at(x)))
	switch {
	case y < -s.own.gate:
		y = s.fell(x, y)
	default:
		s.strays = 0
		if y < 0 {
			s.lower(x, y)
			y = 0
		}
		if s.own.noise == unknown && s.calm == 0 && s.count >= bucketRun {
			s.own.gate = min(8*float32(s.sum)/float32(s.count)+minGate, unknown)
		}
		s.sum += int64(y)
		s.low = min(s.low, int32(y))
	}
	switch {
	case y < 0: // a clock was set, by that and what the datagram queued
		s.crest -= 2 * y
		s.publish(x, false)
	case y > s.slack && y > s.crest: // or the other way
		s.crest = y
		s.publish(x, false)
	}
	// Which datagrams are no news from now on?
	s.at, s.room = localUsec, 0
	if !s.peered {
		return 0, false
	}
	if s.strays == 0 {
		s.origin, s.rate = int64(math.RoundToEven(s.own.at(x))), int64(s.own.slope*(1<<32))
		s.room = int32(min(max(int64(s.slack), int64(s.crest)), 1<<offsetBits))
		age := max(x-s.bucketAt, 0)
		s.span, s.wait = uint32(max(bucket-age, 0)), 0
		if s.own.noise != unknown { // the first gate wants to see them
			s.wait = uint32(max(maxBucket-age, 0))
		}
	}
	return time.Duration(min(int64(s.delay)+max(int64(y), 0), 1<<deltaBits)) * time.Microsecond, true
}

// x returns a local time as the microseconds since base.
func (s *writer) x(localUsec uint64) float64 { return float64(int64(localUsec - s.base)) }

// now is x for a datagram or a report that arrives.
func (s *TimeSynchronizer) now(localUsec uint64) float64 {
	x := s.x(localUsec)
	back := s.bucketAt - x
	if back <= setBack && back >= -setAhead {
		return x
	}
	// The local clock was set. What is known of times goes along; by how much the offset
	// changed, the delta shows.
	s.base -= uint64(int64(back))
	x = s.x(localUsec)
	s.crest += float32(abs(s.own.slope * back))
	s.isClock, s.eventAt = true, x
	s.publish(x, true)
	return x
}

func (s *TimeSynchronizer) start(raw, localUsec uint64) {
	early := uint64(int64(s.peer))
	at := s.base
	s.seen, s.base, s.peerNoise, s.eventAt = true, localUsec, unknown, -verdict
	s.ownAt, s.peerAt = -verdict, -verdict
	s.own.start(float64(wrap(raw, deltaBits)))
	s.newBucket(0)
	if s.early {
		s.OnPeerMinDeltaTS24(NewCounter24(early), at)
	}
}

// roundTrip returns the sum of both floors. It contains no clock.
func (s *writer) roundTrip() float32 { return float32(ring(s.peer + s.own.level)) }

// lack returns by how much the round trip is shorter than it was.
func (s *writer) lack() float32 { return float32(ring(float64(s.trip) - s.peer - s.own.level)) }

func (s *writer) peerGate() float32 {
	return max(s.own.gate, min(4*s.peerNoise+2*minGate, unknown))
}

// noise is by how much moves of both floors may differ if they are the same.
func (s *writer) noise() float32 { return s.own.gate + s.peerGate() + s.mean/2 }

// impossible reports whether the round trip takes less than no time.
func (s *writer) impossible() bool {
	return s.peered && s.roundTrip() < -s.own.gate-s.peerGate()
}

// holds reports whether floors moved of late and the offset does not follow.
func (s *writer) holds(x float64) bool {
	return !s.isClock && !s.young && x-s.eventAt < verdict
}

// matches moves the own floor if all datagrams are late and the peer has told the
// other side of it.
func (s *TimeSynchronizer) matches(x float64) bool {
	if s.run == 0 || !s.peered {
		return false
	}
	lack, late := s.lack(), s.runMin
	if s.impossible() {
		s.shift(x, late, true)
		return true
	}
	if d := abs(late - lack); lack > minGate && d <= min(late, lack)/2 && d <= s.noise() {
		s.shift(x, min(late, lack), true)
		return true
	}
	return false
}

// shift moves the own floor by a to another level.
func (s *TimeSynchronizer) shift(x float64, a float32, isClock bool) {
	s.own.level += float64(a)
	s.own.forget(x)
	rest := float32(s.low) - a
	if s.calm < fitPoints && (isClock || s.lateFor > lateTime) && 1.5*rest > s.own.gate && rest < maxSkew*s.lateFor {
		// Too little came near the level before, nor will to this for long: the slope is
		// wrong. The gate leaves 6 s to learn it.
		s.own.slewed()
		s.own.gate = min(1.5*rest, unknown)
	}
	s.run, s.isLate = 0, false
	s.newBucket(x)
	// The first look at a level is rough, here and at the peer.
	s.own.gate = max(s.own.gate, min(s.mean, unknown))
	s.peerNoise = max(s.peerNoise, s.mean/4)
	s.rise = max(0, s.rise+min(a, 0))
	switch {
	case !s.peered:
	case a < 0 && s.impossible():
		// No path is that short: a clock was set, which the peer is about to see.
		over := -s.lack()
		s.unheard(over)
		s.clock(x, a)
	case a < 0 && s.stale != 0: // the datagrams that told the step had queued
		s.unheard(a)
		s.publish(x, false)
	case isClock:
		s.clock(x, a)
	default:
		s.event(x, a, a < 0)
	}
	s.calm, s.ownAt = 0, x
}

// event says that a floor moved to another level, by d more at this end than at the
// other. The offset stays, unless the round trip is what it was: then a clock was set.
func (s *TimeSynchronizer) event(x float64, d float32, fell bool) {
	if x-s.eventAt > verdict {
		s.held, s.isClock, s.drift = s.hold, false, 0
		s.young = x < youth || s.calm < 5 || s.told < 1
		if s.hold == 0 {
			s.events, s.known = 0, float32(s.calm)*bucket
		}
	}
	s.events = min(s.events+1, 2*vague)
	s.eventAt = x
	lack, hold := s.lack(), s.hold+d/2
	noise := s.noise()
	low := lack > min(noise, abs(d)/4)
	s.young = s.young || s.alien != 0 && fell && low // an original tells rises late
	switch {
	case s.isClock, abs(d) < s.drift:
	case s.young && low, s.trip < -noise:
		s.trip = s.roundTrip() // the first datagrams queued, or came from another
	case abs(lack) < min(noise, abs(d)/2) && abs(hold-s.held) > min(noise/2, abs(d)/4, 4*s.mean+mildStep):
		s.clock(x, d)
		return
	default:
		s.hold = hold
	}
	s.publish(x, false)
}

// clock says that a clock was set by a: the paths are what they were.
func (s *TimeSynchronizer) clock(x float64, a float32) {
	if x-s.eventAt < verdict && !s.isClock {
		s.hold = s.held
	}
	if s.isClock || abs(a) < mildStep {
		s.own.slewed() // so little, or again
	}
	s.isClock, s.eventAt = true, x
	s.publish(x, abs(a) > minStep)
}

// doubtful reports whether what is held had better be forgotten. If one path changed and
// nothing else, it is half of that.
func (s *writer) doubtful() bool {
	rest := abs(s.hold) - abs(s.roundTrip()-s.trusted)/2
	return s.events >= vague && abs(rest) > s.noise() || abs(s.hold) < minStep || s.known < verdict
}

// settle lets go of what was known before the last events.
func (s *TimeSynchronizer) settle(x, dt float64) {
	over := x-s.eventAt > verdict
	if over && s.hold != 0 && s.doubtful() {
		s.hold *= max(0, 1-float32(dt)/max(min(s.known/4, forgets), bucket))
		s.publish(x, false)
	}
	if !over || !s.peered || s.isLate {
		return
	}
	d, r := -s.lack(), s.roundTrip()
	if s.calm >= settled && s.told >= strayRun {
		d *= min(float32(dt)/settling, 1)
	}
	s.trip += d
	s.wide += (r - s.wide) * min(float32(dt)/widen, 1)
}

// MinDeltaTS24 returns what to report to the peer at localUsec: the receive time
// minus the send stamp of a datagram that does not queue, in units of 8 us. ok is
// false before the first datagram.
//
// From 6 s on the 24 bits have an even number of ones, at the price of up to a unit:
// that tells the peer that this is no original, which reports old minima.
func (s *TimeSynchronizer) MinDeltaTS24(localUsec uint64) (minDelta Counter24, ok bool) {
	if !s.seen {
		return 0, false
	}
	x := s.x(localUsec)
	v := s.own.at(x)
	if (s.alien == 0 || s.events > vague) && s.peered && x > youth && s.stands() {
		// If a clock was set, the peer waits to hear it. The bucket under way may agree;
		// while it has few datagrams, or is later than the ones before, it denies nothing.
		low := float32(s.low)
		lo, hi := min(s.runMin, low), max(s.runMax, low)
		if s.count > bucketRun/2 && s.alike(lo, hi) || s.run > 1 && (s.count <= bucketRun || low > s.runMin) {
			v += float64(lo)
		}
	} else if s.alien != 0 && s.riseFor < tellTime {
		v -= float64(s.rise) // an original has not forgotten either
	}
	minDelta = NewCounter24(uint64(int64(math.Floor(v+3.5))) >> ts24Shift)
	if x > youth {
		minDelta ^= parity(minDelta)
	}
	return minDelta, true
}

// OnPeerMinDeltaTS24 takes what the peer's MinDeltaTS24 returned, which arrived at
// localRecvUsec. A report that comes before the first datagram counts from the
// first datagram on.
func (s *TimeSynchronizer) OnPeerMinDeltaTS24(minDelta Counter24, localRecvUsec uint64) {
	minDelta = NewCounter24(uint64(minDelta))
	if !s.seen {
		s.early, s.peer, s.base = true, float64(minDelta), localRecvUsec
		return
	}
	x, raw := s.now(localRecvUsec), uint64(minDelta)<<ts24Shift
	s.reports++
	if parity(minDelta) != 0 && x > 2*youth {
		s.alien = alienRun
	} else if s.alien > 0 {
		s.alien--
	}
	if !s.peered {
		s.peered, s.reportAt = true, x
		s.peer = float64(wrap(raw, deltaBits)) + s.own.slope*x
		s.trip, s.trusted, s.room = s.roundTrip(), s.roundTrip(), 0
		s.publish(x, true)
		return
	}
	b := float32(around(raw, s.peer-s.own.slope*(x-float64(s.delay))))
	if s.stale != 0 && x-s.eventAt < rough && abs(b) > s.peerGate() {
		return // it is older than the step
	}
	s.reportAt = x
	if s.stale != 0 {
		s.stale, s.room = 0, 0
		s.peer += float64(b)
		s.publish(x, false)
		return
	}
	if abs(b) < unitsOff {
		b /= 2
	}
	s.peer += float64(b)
	back := s.holds(x) && abs(b) > minGate && abs(b) < mildStep && abs(s.lack()) < abs(b)/4
	if abs(b) > s.peerGate() || back {
		s.event(x, -b, false)
		s.told, s.peerAt = 0, x
	} else {
		s.told = min(s.told+1, 200)
		if s.peerNoise == unknown {
			s.peerNoise = 0
		}
		s.peerNoise += (abs(b) - s.peerNoise) / 8
		if x-s.peerAt < rough && s.holds(x) {
			s.hold -= b / 2
		}
		if abs(b) >= unitsOff {
			s.publish(x, false)
		}
	}
	if s.matches(x) || abs(b) >= unitsOff {
		s.room = 0
	}
}

// Reset forgets everything, as when the peer is replaced by another. Only the counts
// of steps and of resets go on.
func (s *TimeSynchronizer) Reset() {
	s.writer = writer{resets: s.resets + 1, steps: s.steps}
	s.seq.Store((s.seq.Load() + 4) &^ 3)
}
