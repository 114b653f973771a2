package timesync

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// TS23 is a payload timestamp in three bytes: the receiver's clock in units of
// 8 us. It wraps every 67.1 s (2^26 us). Stamps mostly speak of the past, so the
// accepted interval is moved there by a quarter of the ring.
// (TimeSync: ToRemoteTime23, FromLocalTime23.)
const (
	ts23Shift = 3       // 2^3 us a unit
	ts23Bits  = 23      // ring width
	ts23Bias  = 1 << 21 // a quarter of the ring, the original's choice
)

// ToRemoteTime23 returns the peer's clock at the local time localUsec, for the
// peer to read with FromLocalTime23. The result is the nearest 8 us unit: it adds
// at most 4 us to the error of the offset. ok is false while the offset is not
// known.
//
// For increasing local times the result never goes back but across a step that Stats
// counts. It may be called from any goroutine.
func (s *TimeSynchronizer) ToRemoteTime23(localUsec uint64) (ts Counter23, ok bool) {
	remote, ok := s.remote(localUsec)
	if !ok {
		return 0, false
	}
	return NewCounter23((remote + 1<<(ts23Shift-1)) >> ts23Shift), true
}

// FromLocalTime23 returns the local time, in microseconds, that the peer meant
// with ts; localUsec is the local clock now. It finds times from 50.3 s in the
// past to 16.8 s in the future; ts cannot tell whether it was outside. The result
// is a multiple of 8 us, modulo 2^64.
func FromLocalTime23(localUsec uint64, ts Counter23) uint64 {
	return ringExpand(localUsec>>ts23Shift-ts23Bias, uint32(ts), ts23Bits) << ts23Shift
}

// What readers are told, and how it changes.
const (
	minStep  = 500.0 // smaller corrections are slewed
	maxSlew  = 50e3  // larger ones are steps
	slewRate = 0.5   // corrections run at half the speed of time
)

// shown is what readers see: a view, written by show and read by view.
type shown struct {
	seq   atomic.Uint32 // bit 1: there is a view, bit 0: it is being written
	words [5]atomic.Uint64
}

// view is a consistent state for readers. Offsets are in 2^-38 us: the 64 bits are
// their ring of 67.1 s, so sums and products wrap as offsets do, at any distance.
type view struct {
	local  uint64  // local time at which it was taken
	theta  int64   // offset at that time, and 1/4 us: readings are rounded down
	skew   int64   // its rate
	excess int64   // what readers still add, to be slewed away: at most maxSlew
	delay  int32   // minimum one-way delay
	bound  float32 // of the offset's error near local, without excess
	quiet  float32 // how near: by then something new is known, or it is silent
}

const (
	fineBits = 64 - offsetBits
	fine     = 1 << fineBits // a microsecond
)

// toFine returns an offset of any size.
func toFine(v float64) int64 {
	whole := math.Floor(v)
	return int64(whole)<<fineBits + int64((v-whole)*fine)
}

// rest returns what is left of excess after x microseconds.
func rest(excess, x int64) int64 {
	if x >= maxSlew/slewRate {
		return 0
	}
	slewed := max(x, 0) * (slewRate * fine)
	if excess > 0 {
		return max(excess-slewed, 0)
	}
	return min(excess+slewed, 0)
}

// offset returns what readers add to the local time, x after the view was taken.
func (v *view) offset(x int64) int64 { return v.theta + v.skew*x + rest(v.excess, x) }

// ppm returns the skew in parts per million.
func (v *view) ppm() float64 { return float64(v.skew) / fine * 1e6 }

func (s *shown) show(v view) {
	bounds := uint64(math.Float32bits(v.bound))<<32 | uint64(math.Float32bits(v.quiet))
	words := [5]uint64{v.local, uint64(v.theta), uint64(v.excess), uint64(v.skew)<<32 | uint64(v.delay), bounds}
	seq := s.seq.Load()
	s.seq.Store(seq | 1)
	for i, w := range words {
		if s.words[i].Load() != w {
			s.words[i].Store(w)
		}
	}
	s.seq.Store((seq + 4) | 2)
}

func (s *shown) view() (v view, ok bool) {
	for {
		seq := s.seq.Load()
		v.local, v.theta, v.excess = s.words[0].Load(), int64(s.words[1].Load()), int64(s.words[2].Load())
		rate, bounds := s.words[3].Load(), s.words[4].Load()
		if (s.seq.Load()^seq)|seq&1 == 0 {
			v.skew, v.delay = int64(rate)>>32, int32(rate)
			v.bound, v.quiet = math.Float32frombits(uint32(bounds>>32)), math.Float32frombits(uint32(bounds))
			return v, seq&2 != 0
		}
	}
}

// remote returns the remote clock modulo 67.1 s. It is view for those in haste.
func (s *shown) remote(localUsec uint64) (uint64, bool) {
	for {
		seq := s.seq.Load()
		local := s.words[0].Load()
		theta := s.words[1].Load()
		excess := s.words[2].Load()
		skew := int64(s.words[3].Load()) >> 32
		if s.seq.Load() != seq&^1 {
			continue
		}
		x := int64(localUsec - local)
		theta += uint64(skew * x)
		if x < maxSlew/slewRate {
			theta += uint64(rest(int64(excess), x))
		}
		return localUsec + theta>>fineBits, seq&2 != 0
	}
}

// publish shows the state to the readers. jump says that a clock was set.
//
// With r the remote clock minus the local clock, the own floor is the shortest delay
// of datagrams to here minus r, the peer's the one of those to there plus r. Half the
// difference is r if both are the same, and hold says by how much they are not.
func (s *TimeSynchronizer) publish(x float64, jump bool) {
	if !s.peered {
		return
	}
	r := s.roundTrip()
	s.guard(x, r)
	delay := ring(s.peer+s.own.level)/2 + float64(s.hold)
	s.delay = int32(min(max(delay, 0), 1<<offsetBits))
	v := view{local: s.base + uint64(int64(x)), theta: toFine(delay - s.own.at(x) + 0.25), skew: int64(-s.own.slope * fine), delay: s.delay}
	if old, ok := s.view(); ok && !jump {
		// Readers go on from where they are.
		v.excess = old.offset(int64(v.local-old.local)) - v.theta
		excess := abs(float32(v.excess) / fine)
		if excess > maxSlew || (s.isClock || s.drift != 0) && x-s.eventAt < verdict && excess > minStep {
			v.excess, jump = 0, true
		}
	}
	if jump && s.IsSynchronized() {
		s.steps++
	}
	s.wide = max(s.wide, r)
	s.slack = max(s.wide/6, 8*s.mean) + minGate
	v.quiet = float32(max(s.own.fitAt, s.eventAt)-x) + 2*(s.own.width+bucket)
	grow := gapSkew + 3*s.own.slopeError()
	v.bound = s.wide - r/2 + abs(s.hold) + s.slack + s.crest + grow*(abs(float32(x-s.reportAt))+max(v.quiet, 0))
	if min(r, s.trip) < -minGate {
		v.bound = 1 << offsetBits // the floors are of different clocks, or always were
	}
	if s.stale != 0 {
		v.bound += abs(s.stale) + s.crest
	}
	s.show(v)
}

// guard limits what is held to what the round trip allows: no path is shorter than
// nothing, and where the round trip is what it was, so is the midpoint.
func (s *writer) guard(x float64, r float32) {
	limit := r / 2
	if x-s.eventAt > verdict {
		was := abs(r-s.trusted) / 2
		if s.hold == 0 || was < minGate || abs(s.hold) > was+s.noise() {
			was, s.trusted = 0, s.trip
		}
		limit = min(max(limit, 0), was)
	}
	if limit >= 0 {
		s.hold = min(max(s.hold, -limit), limit)
	}
}

// IsSynchronized reports whether the offset is known: since the first datagram and
// the first report.
func (s *TimeSynchronizer) IsSynchronized() bool { return s.seq.Load()&2 != 0 }

// MinimumOneWayDelay returns the shortest time that a datagram of late was under
// way, never negative; half the round trip at first, since nobody can tell how
// unequal the two ways are. ok is false while the offset is not known.
func (s *TimeSynchronizer) MinimumOneWayDelay() (delay time.Duration, ok bool) {
	for {
		seq := s.seq.Load()
		d := int32(s.words[3].Load())
		if seq&2 == 0 {
			return 0, false
		}
		if (s.seq.Load()^seq)|seq&1 == 0 {
			return time.Duration(d) * time.Microsecond, true
		}
	}
}

// RemoteTime returns the remote clock, in microseconds, at the local time
// localUsec. The offset is known modulo 67.1 s, so the result is the reading
// nearest to nearRemoteUsec. ok is false while the offset is not known.
//
// For increasing local times the result never goes back but across a step that Stats
// counts: corrections of up to 50 ms are slewed at half the speed of time.
func (s *TimeSynchronizer) RemoteTime(localUsec, nearRemoteUsec uint64) (remoteUsec uint64, ok bool) {
	remote, ok := s.remote(localUsec)
	if !ok {
		return 0, false
	}
	return nearRemoteUsec + uint64(wrap(remote-nearRemoteUsec, offsetBits)), true
}

// Skew returns the rate of the remote clock minus that of the local clock, in parts
// per million, at most 1000 either way. ok is false while the offset is not known.
func (s *TimeSynchronizer) Skew() (ppm float64, ok bool) {
	v, ok := s.view()
	if !ok {
		return 0, false
	}
	return v.ppm(), true
}

// ErrorBound returns how far RemoteTime may be off at localUsec, whatever the
// asymmetry of the path: half the round trip, and what noise, silence and doubt add.
// After a step of a clock it is large until both ends agree. What it takes for
// granted is in the package's documentation. It is at most 33.6 s, half of what the
// offset is known modulo. ok is false while the offset is not known.
func (s *TimeSynchronizer) ErrorBound(localUsec uint64) (bound time.Duration, ok bool) {
	v, ok := s.view()
	if !ok {
		return 0, false
	}
	return v.boundAt(int64(localUsec - v.local)), true
}

// boundAt returns the bound after x: at most half the ring, where all offsets are.
func (v *view) boundAt(x int64) time.Duration {
	bound := float64(v.bound) + maxSkew*max(abs(float64(x))-float64(v.quiet), 0) + abs(float64(rest(v.excess, x)))/fine + 1
	return time.Duration(min(bound, 1<<(offsetBits-1))) * time.Microsecond
}

// Stats is what a synchronizer knew when the last datagram came, or up to 0.2 s before,
// for logs and dashboards. All but the counts are zero while Synchronized is false.
type Stats struct {
	Synchronized   bool
	Offset         time.Duration // remote clock minus local clock, modulo 67.1 s
	Skew           float64       // and its rate, parts per million
	Bound          time.Duration // of the offset
	MinOneWayDelay time.Duration // shortest one-way delay
	Noise          time.Duration // mean distance of fast datagrams from the shortest delay
	News           time.Duration // age of the last report that came and was believed
	Datagrams      uint64        // since the start or Reset, as are the next two
	Reports        uint32
	LateBuckets    uint32 // spans of 0.2 s or more in which all datagrams queued
	Steps, Resets  uint32 // discontinuities of the remote time since the start, and calls of Reset
}

// Stats returns what is known. It must not be called at the same time as the methods
// that take datagrams and reports.
func (s *TimeSynchronizer) Stats() Stats {
	st := Stats{Datagrams: s.datagrams + uint64(s.count), Reports: s.reports, LateBuckets: s.lates, Steps: s.steps, Resets: s.resets}
	v, ok := s.view()
	if !ok {
		return st
	}
	localUsec := s.at
	remote, _ := s.remote(localUsec)
	st.Synchronized, st.Offset = true, time.Duration(wrap(remote-localUsec, offsetBits))*time.Microsecond
	st.Skew = v.ppm()
	st.Bound = v.boundAt(int64(localUsec - v.local))
	st.MinOneWayDelay = time.Duration(v.delay) * time.Microsecond
	st.Noise = time.Duration(s.own.noise) * time.Microsecond
	st.News = time.Duration(s.x(localUsec)-s.reportAt) * time.Microsecond
	return st
}

// String returns st in a line for logs.
func (st Stats) String() string {
	if !st.Synchronized {
		return fmt.Sprintf("not synchronized, %d datagrams, %d reports, %d resets", st.Datagrams, st.Reports, st.Resets)
	}
	return fmt.Sprintf("offset %v +-%v, skew %.3f ppm, delay %v, noise %v, news %v ago, %d datagrams, %d reports, %d late buckets, %d steps, %d resets",
		st.Offset, st.Bound, st.Skew, st.MinOneWayDelay, st.Noise, st.News, st.Datagrams, st.Reports, st.LateBuckets, st.Steps, st.Resets)
}
