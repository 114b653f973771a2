package timesync

import (
	"math"
	"math/bits"
	"time"
)

// TS24 is the stamp of a datagram: the sender's clock in units of 8 us. It wraps
// every 134.2 s (2^27 us), which leaves the 67.1 s on either side of now that the
// synchronizer needs. (TimeSync: LocalTimeToDatagramTS24.)
const (
	ts24Shift = 3  // 2^3 us a unit
	ts24Bits  = 24 // ring width

	deltaBits  = ts24Bits + ts24Shift // ring of a delta in microseconds: 134.2 s
	offsetBits = deltaBits - 1        // ring of the offset: halving a delta loses a bit, 67.1 s
)

// processStart is where NowUsec counts from.
var processStart = time.Now()

// NowUsec returns the microseconds since the process started, for callers that
// have no clock of their own. It never goes back, wall-clock changes do not move
// it, and on most systems it stands still while the machine sleeps.
func NowUsec() uint64 { return uint64(time.Since(processStart) / time.Microsecond) }

// LocalTimeToDatagramTS24 returns the stamp for a datagram that is sent at
// localUsec, a reading of the local clock in microseconds: localUsec in units of
// 8 us, rounded down, modulo 134.2 s.
func LocalTimeToDatagramTS24(localUsec uint64) Counter24 {
	return NewCounter24(localUsec >> ts24Shift)
}

// parity returns 1 if the number of ones is odd, else 0.
func parity(c Counter24) Counter24 { return Counter24(bits.OnesCount32(uint32(c)) & 1) }

// wrap returns the low bits of v as a signed number in [-half, half).
func wrap(v uint64, bits uint) int64 { return int64(v<<(64-bits)) >> (64 - bits) }

// around returns raw-near on the ring of deltas: from two thirds of it below to a
// third above. No queue is 45 s long, but a clock may be set by as much.
func around(raw uint64, near float64) float64 {
	const full = 1 << deltaBits
	d := float64(wrap(raw, deltaBits)) - near
	return d - full*math.Floor(d/full+2./3)
}

// ring returns v the shorter way round the ring of deltas.
func ring(v float64) float64 {
	const full = 1 << deltaBits
	if v >= -full/2 && v < full/2 {
		return v
	}
	return v - full*math.Floor(v/full+0.5)
}

func abs[T float32 | float64](v T) T { return max(v, -v) }

// The constants of the line below the deltas, in microseconds unless they say
// otherwise. doc.go derives the rules.
const (
	bucket    = 0.2e6 // datagrams are judged by the fastest of so long
	maxPoints = 12    // fastest datagrams that the line is fitted to
	fitPoints = 4     // the fewest that show both a slope and noise
	knowPoint = 6     // as many tell a slope that is worth keeping
	maxWidth  = 16e6  // longest time between points
	minWindow = 8e6   // shortest span of points: what the original looks at
	maxWindow = 128e6 // longest: oscillators do not keep their rate for longer
	balance   = 800.0 // balances noise/window^1.5 against wander*window, 1/s

	priorSkew  = 100e-6       // two crystals of 50 ppm
	slewSkew   = 500e-6       // NTP's fastest slew
	maxSkew    = 1000e-6      // no computer's clock is as wrong
	skewDrift  = 0.1e-6 / 1e6 // how fast a skew changes, per microsecond: temperature
	surprise   = 5.0          // standard deviations
	gapSkew    = 3e-6         // how wrong a fitted skew may be
	stampNoise = 4.0          // half a unit: what no fit removes
	minGate    = 100.0        // noise that hosts add whatever the path
	lateTime   = 12e6         // what stands as long is no queue
	unknown    = 1e6          // noise before it was measured, and the most: no jitter is a second
)

// line is the delta of a datagram that does not queue, level + slope*x, and the fast
// datagrams that tell it. Times x are microseconds of the local clock; they and the
// deltas may be of any size, and the points keep the low 32 bits of both.
type line struct {
	level, slope float64
	noise        float32 // mean distance of the points from the line
	gate         float32 // deltas this far from the line say nothing about it
	width        float32 // time between points
	sunk         float32 // how far the line was lowered since the last point
	pointAt      uint32  // when the last point ended
	low          point   // fastest datagram since
	lowOK        bool
	n            uint8

	skew0   float32 // slope known before the points
	skewVar float32 // its variance
	fitVar  float32 // variance of the slope that the points tell
	bentFor float32 // for how long they have told a surprising slope
	fitAt   float64 // when the line was fitted
	points  [maxPoints]point
}

type point struct {
	x uint32
	v int32
}

func (l *line) at(x float64) float64 { return l.level + l.slope*x }

// slopeError returns the standard deviation of the slope.
func (l *line) slopeError() float32 {
	return float32(1 / math.Sqrt(float64(1/l.skewVar+1/l.fitVar)))
}

// start lays the line through the first datagram.
func (l *line) start(level float64) {
	*l = line{level: level, noise: unknown, gate: unknown, width: bucket, skewVar: priorSkew * priorSkew, fitVar: float32(math.Inf(1))}
}

// forget drops the points: they speak of another level. What they knew of the slope
// stays.
func (l *line) forget(x float64) {
	if l.n >= knowPoint {
		l.skewVar = 1 / (1/l.skewVar + 1/l.fitVar)
		l.skew0 = float32(l.slope)
	}
	if l.bentFor > 0 {
		l.slewed() // they told another
	}
	l.fitVar, l.n = float32(math.Inf(1)), 0
	l.lowOK, l.width, l.pointAt = false, bucket, uint32(int64(x))
}

// slewed says that the slope is no longer known.
func (l *line) slewed() {
	l.skewVar, l.bentFor = slewSkew*slewSkew, 0
}

// take makes a datagram m above the line at x a candidate for the next point.
func (l *line) take(x float64, m float32) {
	p := point{uint32(int64(x)), int32(int64(math.RoundToEven(l.at(x))) + int64(m))}
	if !l.lowOK {
		l.low, l.lowOK = p, true
	}
	low := l.low
	if float64(p.v-low.v) < l.slope*float64(int32(p.x-low.x)) {
		low = p // unpredictable: no branch
	}
	l.low = low
}

// end makes a point of the fastest datagram of the last span of time, and fits the
// line if there are enough. dip is how late the fastest of a bucket usually is. It
// reports whether the line changed, and by how much it rose because the oldest point
// was wrong.
func (l *line) end(x float64, dip float32) (fitted bool, rise float32) {
	l.pointAt = uint32(int64(x))
	if l.sunk > l.gate && l.n >= fitPoints {
		// The line sinks faster than the points say.
		l.forget(x)
		l.slewed()
	}
	l.sunk = 0
	if !l.lowOK {
		return false, 0
	}
	age := func(p point) float64 { return float64(uint32(int64(x)) - p.x) }
	cube := balance * float64(l.noise*l.width) * 1e12 // of the best window
	longer := func(t float64) bool { return t > minWindow && (t > maxWindow || t*t*t > cube) }
	left := false
	if l.n == maxPoints {
		if l.width < maxWidth && !longer(16*float64(l.width)) {
			l.width *= 2
			for i := range maxPoints / 2 {
				p, q := l.points[2*i], l.points[2*i+1]
				if float64(q.v-p.v) < l.slope*float64(int32(q.x-p.x)) {
					p = q
				}
				l.points[i] = p
			}
			l.n = maxPoints / 2
		} else {
			l.n = uint8(copy(l.points[:], l.points[1:]))
			left = true
		}
	}
	for l.n >= fitPoints && longer(age(l.points[0])) {
		l.n = uint8(copy(l.points[:], l.points[1:l.n]))
		left = true
	}
	l.lowOK = false
	if l.n > 0 && int32(l.low.x-l.points[l.n-1].x) <= 0 {
		return false, 0 // receive times went back
	}
	l.points[l.n] = l.low
	l.n++
	if l.n < fitPoints {
		return false, 0
	}
	if age(l.points[0]) > lateTime {
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, p := range l.points[1:l.n] {
			v := float64(p.v-l.points[0].v) - l.slope*float64(int32(p.x-l.points[0].x))
			lo, hi = min(lo, v), max(hi, v)
		}
		if lo > hi/2+minGate {
			// All since the oldest point are later than it, and much alike.
			l.n = uint8(copy(l.points[:], l.points[1:l.n]))
			rise = float32(lo)
		}
	}
	l.fit(x, dip, left)
	return true, rise
}

// fit lays the line below the points.
func (l *line) fit(x float64, dip float32, left bool) {
	// In what follows xs count from now, and vs from the line as it was then.
	var xs, vs [maxPoints]float64
	was := math.RoundToEven(l.at(x))
	load := func() {
		for i, p := range l.points[:l.n] {
			xs[i] = -float64(uint32(int64(x)) - p.x)
			vs[i] = float64(p.v - int32(int64(was)))
		}
	}
	load()
	// The secant of the lower convex hull over the middle half of the window (Moon,
	// Skelly, Towsley 1999, smoothed).
	var hull [maxPoints]int
	m := 0
	for i := range int(l.n) {
		for m >= 2 {
			a, b := hull[m-2], hull[m-1]
			if (vs[b]-vs[a])*(xs[i]-xs[a]) < (vs[i]-vs[a])*(xs[b]-xs[a]) {
				break
			}
			m--
		}
		hull[m] = i
		m++
	}
	below := func(x float64) float64 {
		i := 1
		for i < m-1 && x > xs[hull[i]] {
			i++
		}
		p, q := hull[i-1], hull[i]
		return vs[p] + (vs[q]-vs[p])*(x-xs[p])/(xs[q]-xs[p])
	}
	first, span := xs[0], xs[l.n-1]-xs[0]
	slope := (below(first+span*3/4) - below(first+span/4)) / (span / 2)

	// The third lowest point above a line of that slope tells how well it is known, and
	// at first what the fastest of a bucket queue.
	low, mid, high := math.Inf(1), math.Inf(1), math.Inf(1)
	for i := range int(l.n) {
		v := vs[i] - slope*xs[i]
		low, mid, high = min(low, v), min(mid, max(low, v)), min(high, max(mid, v))
	}
	noise := 2*(high-low) + stampNoise
	if l.width == bucket {
		noise = max(noise, 18*float64(dip)/float64(l.n))
	}
	fitVar, skewVar, skew0 := noise*noise/(span*span), float64(l.skewVar), float64(l.skew0)
	if left {
		// The share of the point that left moves into what was known before.
		g := skewVar / (skewVar + float64(l.n)*fitVar)
		drift := skewDrift * (x - l.fitAt)
		skew0 += g * (slope - skew0)
		skewVar = (1-g)*skewVar + drift*drift
	}
	l.bentFor += float32(x - l.fitAt)
	l.fitAt = x
	surprised := false
	if d := slope - skew0; d*d < surprise*surprise*(skewVar+fitVar) {
		l.bentFor = 0
	} else {
		// A queue that grows, or a clock is slewed.
		fitVar, surprised = d*d, true
		if l.bentFor > lateTime {
			if abs(slope) < max(abs(skew0), priorSkew) {
				skewVar = d * d // what was known was a slew
			}
			l.n = uint8(copy(l.points[:], l.points[l.n/2:l.n]))
			load()
		}
	}
	slope = min(max(skew0+skewVar/(skewVar+fitVar)*(slope-skew0), -maxSkew), maxSkew)
	l.skew0, l.skewVar, l.fitVar, l.slope = float32(skew0), float32(skewVar), float32(fitVar), slope

	level, sum := math.Inf(1), 0.0
	for i := range int(l.n) {
		v := vs[i] - slope*xs[i]
		level, sum = min(level, v), sum+v
	}
	l.level = was + level - slope*x
	if spread := float32(sum/float64(l.n) - level); l.noise == unknown {
		l.noise = spread
	} else if !surprised {
		l.noise = min(spread, 1.5*l.noise+1)
	}
	l.gate = min(8*l.noise+minGate+3*l.slopeError()*l.width, unknown)
}

// lower takes a datagram a little faster than the floor.
func (s *TimeSynchronizer) lower(x float64, y float32) {
	s.own.level += float64(y)
	s.own.sunk -= y
	s.rise = max(0, s.rise+y)
	s.sum -= int64(y) * int64(s.count)
	if s.stale != 0 {
		s.unheard(y)
	} else if x-s.ownAt < rough && s.holds(x) {
		s.hold += y / 2
	}
	s.publish(x, false)
}

// unheard moves the peer's floor against the own one by a. A clock was set, and reports
// do not show it yet.
func (s *writer) unheard(a float32) {
	s.stale += a
	s.peer -= float64(a)
}

// fell takes a datagram faster than the path allows.
func (s *TimeSynchronizer) fell(x float64, y float32) float32 {
	if s.strays++; s.strays == 1 || y < s.fall {
		s.fall = y
	}
	if s.strays < strayRun {
		return y
	}
	s.strays = 0
	y -= s.fall
	s.shift(x, s.fall, s.impossible())
	s.low = int32(max(y, 0))
	return y
}

// newBucket begins one with the datagram at x.
func (s *writer) newBucket(x float64) {
	s.bucketAt, s.low, s.sum = x, math.MaxInt32, 0
	s.datagrams, s.count = s.datagrams+uint64(s.count)-1, 1
}

// endBucket looks at the fastest datagram of the bucket.
func (s *TimeSynchronizer) endBucket(x float64) {
	m, n, sum := float32(s.low), s.count-1, s.sum
	dt := x - s.bucketAt
	s.settle(x, dt)
	if m <= s.bucketGate() && !(s.isLate && s.lateFor+float32(dt) > maxBucket) {
		s.dip += (m - s.dip) / float32(min(s.calm+1, calmRun))
	}
	switch {
	case n == 0 || m == math.MaxInt32:
	case m <= s.own.gate:
		s.run, s.isLate = 0, false
		s.calm = min(s.calm+1, 200)
		avg := float32(sum) / float32(n)
		if s.calm >= calmRun {
			avg = min(avg, 2*s.mean+minGate)
		}
		s.mean += (avg - s.mean) / float32(min(s.calm-s.calm/4, calmRun)) // the first knew no slope
		s.own.take(s.bucketAt+bucket/2, m)
	default:
		s.queued(x, float32(dt), m)
	}
	s.newBucket(x)
	s.riseFor += float32(dt)
	if gap := dt - bucket; gap > pauseTime {
		s.run, s.isLate = 0, false // silence is not lateness
		if gap > silence {
			if x-s.eventAt > verdict {
				s.held, s.isClock, s.young = s.hold, false, false
			}
			s.eventAt, s.events, s.drift = x, 2*vague, 2*priorSkew*float32(gap)
			s.own.lowOK, s.own.pointAt = false, uint32(int64(x))
			if gap > 10*maxWindow {
				s.drift = 0 // more likely the clock was set
				s.own.forget(x)
			}
		}
	}
	if x-s.eventAt > verdict && !s.isLate && s.crest > 1 {
		s.crest *= 0.97 // halves in 5 s
	}
	if float32(int32(uint32(int64(x))-s.own.pointAt)) < s.own.width {
		return
	}
	slope := s.own.slope
	fitted, rise := s.own.end(x, s.dip)
	if !fitted {
		return
	}
	s.peer += (s.own.slope - slope) * x // it has the opposite slope
	if rise > 0 && s.peered {
		s.event(x, rise, false)
	} else {
		s.publish(x, false)
	}
}

// bucketGate is what the fastest datagrams of buckets queue at most.
func (s *writer) bucketGate() float32 { return s.own.gate + min(6*s.dip, 2*s.mean) }

// queued takes a bucket in which all datagrams queued, or one over a longer path or
// after a step of a clock.
func (s *TimeSynchronizer) queued(x float64, dt, m float32) {
	s.lates++
	if !s.isLate {
		s.isLate, s.lateFor, s.lateMin = true, 0, m
	}
	s.lateFor += dt
	s.lateMin = min(s.lateMin, m)
	if m > s.bucketGate() {
		lo, hi := min(s.runMin, m), max(s.runMax, m)
		if s.run == 0 || !s.alike(lo, hi) {
			s.run, s.runFor, lo, hi = 0, 0, m, m // another height
		}
		s.run, s.runFor = min(s.run+1, 200), s.runFor+dt
		s.runMin, s.runMax = lo, hi
		switch {
		case s.matches(x):
			return
		case s.runFor > levelTime && s.stands():
			s.rise, s.riseFor = s.runMin, s.runFor
			s.shift(x, s.runMin, false)
			return
		}
	} else {
		s.run = 0
	}
	if s.lateFor > lateTime {
		s.shift(x, s.lateMin, false)
	}
}

// alike reports whether late buckets, the least late by lo and the most by hi, are late
// by the same. The fastest of a bucket queues a little.
func (s *writer) alike(lo, hi float32) bool {
	return hi-lo <= lo/8+min(max(minGate, 2*s.dip), 2*minGate)
}

// stands reports whether late buckets are all late by the same. A rise that holds
// still is a new path or a step. A queue moves.
func (s *writer) stands() bool {
	return s.run > 0 && s.runMin > 2*s.own.gate && (s.events > vague || s.runMin < 2*s.roundTrip())
}
