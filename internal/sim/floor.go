package sim

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

const (
	deltaBits  = 24 + stampShift // ring of a delta in microseconds, 134.2 s
	offsetBits = deltaBits - 1   // ring of the offset, 67.1 s
)

// The estimator's constants, in microseconds unless they say otherwise. doc.go
// derives the rules; where a figure was chosen by trial, the tests in internal/sim
// behave alike at half and twice its value.
const (
	maxPoints  = 12     // lowest datagrams that a line is fitted to
	fitPoints  = 4      // the fewest that show both a slope and noise
	firstWidth = 0.25e6 // time between points at first: the first slope after 1 s
	maxWidth   = 16e6   // and at most
	minWindow  = 8e6    // shortest span of points: what the original looks at
	maxWindow  = 128e6  // longest: oscillators do not keep their rate for longer
	balance    = 800.0  // balances noise/window^1.5 against wander*window, 1/s

	priorSkew  = 100e-6       // two crystals of 50 ppm
	maxSkew    = 1000e-6      // twice NTP's fastest slew
	skewDrift  = 0.1e-6 / 1e6 // how fast a skew changes, per microsecond: temperature
	surprise   = 5.0
	gapSkew    = 3e-6 // how wrong a fitted skew may be
	stampNoise = 4.0  // half a unit: what no fit removes

	minGate   = 100.0 // noise that hosts add whatever the path
	fallRun   = 3     // stray stamps do not come thrice in a row
	lateRun   = 8     // datagrams that tell a level
	levelRun  = 12    // datagrams above the mean in a row: not chance
	levelTime = 5e6   // nor the crest of a wave
	tellTime  = 0.4e6 // but the peer may be told
	lateTime  = 12e6  // what stands as long is no queue
	verdict   = 5e6   // two reports each way, and some
	staleTime = 15e6  // an original forgets its minimum in 10 s and reports in 2 s
	setBack   = 1e6   // no thread is so late
	minStep   = 500.0 // smaller corrections are slewed
	maxSlew   = 50e3  // larger ones are steps
	mildStep  = 2e3   // so little at a time may be a slew of the peer's clock
	slewRate  = 0.5   // corrections run at half the speed of time
	unknown   = 1e9   // noise before it was measured
)

// point is the lowest datagram of a span of time: v = delta at x.
type point struct{ x, v float64 }

// Floor is an estimator of the project's own that is not finished: a line below the
// deltas of each direction that follows the skew, instead of a minimum. On the same
// three bytes its errors are a twentieth of the original's (TestAccuracy), but some
// of what it must hold before it may replace the inside of TimeSynchronizer does
// not hold yet (TestFloorMusts and the tests beside it say what).
//
// One goroutine at a time may call OnDatagram, OnPeerMinDelta, MinDelta, Steps and
// Reset; the other methods may be called from any goroutine.
type Floor struct {
	state
	shown
}

// state is the writer's. All times x are microseconds of the local clock since base.
// A datagram that queues touches the first two cache lines, and none that readers
// touch.
type state struct {
	started bool // base and floor are valid
	peered  bool // peer's floor is valid
	early   bool // earlyAt and earlyRaw hold a report older than the first datagram
	pending bool // a verdict is out
	isLate  bool // since the last datagram near the floor
	half    bool // lateMin is of the second half of lateTime
	lowOK   bool
	fallN   uint8 // datagrams in a row below the gate
	base    uint64

	// The own floor is level+slope*x: the delta of a datagram without queueing.
	level, slope float64
	gate         float64 // deltas this far from the floor say nothing about it
	mean         float64 // mean of what datagrams queue
	pointEnd     float64 // when low becomes a point
	slack, odd   float32 // residuals up to slack are in the bound, odd is one beyond

	width     float64 // time between points
	delay     float64 // minimum one-way delay
	datagrams int64
	// Since the last datagram near the floor.
	lateAt  float64 // when it began
	lateMin float64 // least residual
	// Also since the last report.
	freshMin float64
	// Since the last datagram below the mean.
	levelAt        float64
	levelN, freshN int32

	levelMin, levelMax, partMin float64 // least residual, also of the last levelRun datagrams
	fallMin                     float64
	low                         point   // lowest datagram since the last point
	noise                       float64 // mean distance of neighbouring points from a line
	points                      [maxPoints]point
	n                           int
	skew0                       float64 // slope known before the points
	skewVar                     float64 // its variance
	fitVar                      float64 // variance of the slope that the points show
	fitAt                       float64
	counted                     int64

	peerLevel, peerAt float64 // the peer's floor, at that time
	peerNoise         float64 // how far reports are off what they should say
	earlyRaw, earlyAt uint64
	reportAt          float64

	hold             float64 // offset minus the midpoint of the floors
	stood, peerStood float64 // when the floors last moved to another level
	settled          float64 // round trip when the floors last stood still
	trusted          float64 // round trip at which the midpoint was trusted
	own              float64 // moves of the own floor that wait for a verdict
	peer             float64 // moves of the peer's
	since            float64 // when the first of them came
	held             float64 // hold before them
	recent           float64 // moves of the own floor since the last report
	before           float64 // and between the last two
	stale            float64 // a move of the own floor that reports do not show yet
	staleAt          float64

	steps int
}

// shown is what readers see, written by publish and read by view.
type shown struct {
	seq   atomic.Uint32 // a state is valid if bit 1 is set, complete if bit 0 is not
	words [5]atomic.Uint64
}

// wrap returns the low bits of v as a signed number in [-half, half).
func wrap(v uint64, bits uint) int64 { return int64(v<<(64-bits)) >> (64 - bits) }

// around returns raw-near on the ring of deltas, the shorter way.
func around(raw uint64, near float64) float64 {
	d := float64(wrap(raw, deltaBits)) - near
	if math.Abs(d) > 1<<(deltaBits-1) {
		d = ring(d)
	}
	return d
}

// ring returns v the shorter way round the ring of deltas.
func ring(v float64) float64 {
	const full = 1 << deltaBits
	return v - full*math.Floor(v/full+0.5)
}

// OnDatagram takes the stamp of a datagram that arrived at
// localRecvUsec and returns the datagram's one-way delay; ok is false while the
// offset is not known. Call it only for datagrams that are proven to come from the
// peer: whoever can forge a stamp can move the clock.
//
// Datagrams may be lost, repeated and reordered, and receive times may go back, as
// when two threads swap datagrams.
func (s *Floor) OnDatagram(ts24 uint32, localRecvUsec uint64) (owd time.Duration, ok bool) {
	raw := localRecvUsec - uint64(ts24)<<stampShift
	if !s.started {
		s.start(raw, localRecvUsec)
	}
	s.datagrams++
	x := s.x(localRecvUsec)
	if back := s.pointEnd - s.width - x; back > setBack {
		// The local clock was set back. What is known of times goes along; by how
		// much the offset changed, the delta shows.
		s.base -= uint64(int64(back))
		x = s.x(localRecvUsec)
	}
	if x >= s.pointEnd {
		s.endPoint(x)
	}
	y := around(raw, s.level+s.slope*x)
	switch {
	case y > s.gate:
		s.queued(x, y)
	case y >= -s.gate:
		y = s.near(x, y)
	default:
		y = s.fell(x, y)
	}
	if !s.peered {
		return 0, false
	}
	if d := float32(math.Abs(y)); d > s.slack {
		if d > s.odd || d < s.odd/2 {
			s.odd = d // queueing, or a clock was set
			s.publish(x, false)
		}
	} else if s.odd != 0 {
		s.odd = 0
		s.publish(x, false)
	}
	owd = time.Duration(s.delay) * time.Microsecond
	if y > 0 {
		owd = time.Duration(s.delay+y) * time.Microsecond
	}
	return owd, true
}

// x returns a local time as the microseconds since base.
func (s *Floor) x(localUsec uint64) float64 { return float64(int64(localUsec - s.base)) }

func (s *Floor) start(raw, localUsec uint64) {
	s.started = true
	s.base = localUsec
	s.level, s.slope = float64(wrap(raw, deltaBits)), 0
	s.gate, s.noise, s.peerNoise = unknown, unknown, unknown
	s.width, s.pointEnd = firstWidth, firstWidth
	s.skewVar, s.fitVar = priorSkew*priorSkew, math.Inf(1)
	if s.early {
		s.OnPeerMinDelta(uint32(s.earlyRaw>>stampShift), s.earlyAt)
	}
}

// near takes a datagram about as fast as the path allows.
func (s *Floor) near(x, y float64) float64 {
	s.fallN, s.freshN, s.levelN, s.isLate = 0, 0, 0, false
	s.mean += (max(y, 0) - s.mean) / float64(min(s.datagrams, 256))
	if s.noise == unknown && s.datagrams >= lateRun {
		s.gate = 8*s.mean + minGate + maxSkew*x
	}
	if y < 0 {
		s.level += y
		if s.stale != 0 {
			s.peerLevel -= y
			s.stale += y
			s.moved(x, y, -y)
		} else {
			s.moved(x, y, 0)
		}
		y = 0
	}
	v := s.level + s.slope*x + y
	if !s.lowOK || v-s.low.v < s.slope*(x-s.low.x) {
		s.low, s.lowOK = point{x, v}, true
	}
	return y
}

// queued takes a datagram that queued, or one over a longer path or after a step of
// a clock.
func (s *Floor) queued(x, y float64) {
	s.fallN = 0
	if !s.isLate {
		s.isLate, s.half, s.lateAt, s.lateMin = true, false, x, y
	}
	if s.freshN == 0 {
		s.freshMin = y
	}
	s.freshN++
	s.lateMin, s.freshMin = min(s.lateMin, y), min(s.freshMin, y)
	if s.pending && s.freshN >= lateRun && s.peer < 0 && s.waits(x) &&
		(s.impossible() || s.mirrors(s.own+s.freshMin, s.peer)) {
		s.shift(x, s.freshMin) // the peer saw the other side of it
		return
	}
	if x-s.lateAt > lateTime/2 && !s.half {
		s.half, s.lateMin = true, y
	}
	if x-s.lateAt > lateTime {
		s.shift(x, s.lateMin)
		return
	}
	// Datagrams above the mean, in parts of levelRun. The first part may be older
	// than what lifted the others.
	if n := s.levelN; n < levelRun {
		// As good as always, and as likely above as below: without branches.
		at, next := math.Float64bits(s.levelAt), n+1
		if n == 0 {
			at = math.Float64bits(x)
		}
		if y <= s.mean {
			next = 0
		}
		s.levelAt, s.levelN = math.Float64frombits(at), next
		s.mean += (min(y, 8*s.mean+minGate) - s.mean) / 256
		return
	}
	if y <= s.mean {
		s.levelN = 0
		s.mean += (y - s.mean) / 256
		return
	}
	if s.levelN == levelRun {
		s.levelMin, s.levelMax = y, 0
	}
	if s.levelN%levelRun == 0 {
		s.partMin = y
	}
	s.levelN++
	s.partMin = min(s.partMin, y)
	s.levelMin = min(s.levelMin, y)
	if s.levelN%levelRun == 0 {
		s.levelMax = max(s.levelMax, s.partMin)
		if s.stands(x, levelTime) {
			s.shift(x, s.levelMin)
		}
	}
}

// stands reports whether all datagrams have been late by the same for some time. A
// rise that holds still is a new path or a step. A queue moves.
func (s *Floor) stands(x, since float64) bool {
	return s.levelN >= 4*levelRun && x-s.levelAt > since &&
		s.levelMax-s.levelMin < s.levelMin/8+minGate && s.levelMin > 2*s.gate && s.levelMin < s.roundTrip()
}

// fell takes a datagram faster than the path allows.
func (s *Floor) fell(x, y float64) float64 {
	if s.fallN == 0 {
		s.fallMin = y
	}
	s.fallN++
	s.fallMin = min(s.fallMin, y)
	if s.fallN < fallRun {
		return y
	}
	y -= s.fallMin
	s.shift(x, s.fallMin)
	return y
}

// shift moves the own floor by a for good. The offset stays until the peer's floor
// tells whether the path or a clock changed.
func (s *Floor) shift(x, a float64) {
	was := s.peered && s.impossible()
	if s.peered && (a > 0 || x-s.stood > verdict) {
		s.doubt(x)
	}
	s.stood = x
	s.restart(x, a)
	// The first look at a level is rough, here and at the peer.
	s.gate = max(s.gate, s.mean)
	s.peerNoise = max(s.peerNoise, s.mean/4)
	switch {
	case !s.peered:
	case s.impossible():
		// No path is that short: a clock was set, which the peer is about to see.
		s.stale, s.staleAt = s.roundTrip()-s.settled, x
		s.peerLevel -= s.stale
		s.settle(x, a)
	case was:
		s.settle(x, a)
	default:
		s.moved(x, a, 0)
	}
}

// restart moves the own floor by a.
func (s *Floor) restart(x, a float64) {
	s.level += a
	s.fallN, s.freshN, s.levelN, s.isLate = 0, 0, 0, false
	// The points speak of the old level, but what they knew of the slope stays.
	s.skew0, s.n = s.slope, 0
	s.skewVar = 1 / (1/s.skewVar + 1/s.fitVar)
	s.fitVar = math.Inf(1)
	s.lowOK, s.width, s.pointEnd = false, firstWidth, x+firstWidth
}

// moved says that the own floor moved by a and the peer's by b. While a verdict is
// out the offset coasts; else it follows the midpoint.
func (s *Floor) moved(x, a, b float64) {
	s.recent += a
	if s.waits(x) {
		s.hold += (a - b) / 2
		s.own += a
		s.peer += b
		if s.mirrors(s.own, s.peer) {
			s.settle(x, s.own)
			return
		}
	}
	s.publish(x, false)
}

// doubt holds the offset until both floors tell what moved.
func (s *Floor) doubt(x float64) {
	if !s.waits(x) {
		s.pending, s.since, s.held = true, x, s.hold
		s.own, s.peer = s.recent+s.before, 0
	}
}

// waits reports whether a verdict is out.
func (s *Floor) waits(x float64) bool {
	if s.pending && math.Abs(x-s.since) > verdict {
		s.pending = false
	}
	return s.pending
}

// settle says that a clock was set: the paths are what they were.
func (s *Floor) settle(x, a float64) {
	s.hold, s.pending = s.held, false
	if math.Abs(a) < mildStep {
		s.skewVar = priorSkew * priorSkew
	}
	s.publish(x, math.Abs(a) > minStep)
}

// mirrors reports whether the floors moved by a and b as if a clock were set: by the
// same amount in opposite directions.
func (s *Floor) mirrors(a, b float64) bool {
	d := math.Abs(ring(a + b))
	return d <= min(math.Abs(a), math.Abs(b))/2 && d <= s.gate+s.peerGate()+s.mean/2
}

// impossible reports whether the round trip takes less than no time.
func (s *Floor) impossible() bool { return s.roundTrip() < -s.gate-s.peerGate() }

func (s *Floor) peerGate() float64 { return max(s.gate, 4*s.peerNoise+2*minGate) }

// peerFloor returns the peer's floor, which has the opposite slope.
func (s *Floor) peerFloor(x float64) float64 { return s.peerLevel - s.slope*(x-s.peerAt) }

// roundTrip returns the sum of both floors. It contains no clock.
func (s *Floor) roundTrip() float64 {
	return ring(s.peerFloor(0) + s.level)
}

// endPoint makes a point of the lowest datagram of the last span of time.
func (s *Floor) endPoint(x float64) {
	gap := x - s.pointEnd
	s.gate += (gapSkew + 3*s.slopeError()) * gap
	if gap > tellTime {
		s.freshN, s.levelN, s.isLate = 0, 0, false // silence is not lateness
	}
	s.pointEnd = x + s.width
	if !s.lowOK {
		s.gate += (gapSkew + 3*s.slopeError()) * s.width
		return
	}
	window := math.Cbrt(balance*s.noise*s.width/1e6) * 1e6
	window = min(max(window, minWindow), maxWindow)
	left := false
	if s.n == maxPoints {
		if s.width < maxWidth && 16*s.width <= window {
			s.width *= 2
			for i := range maxPoints / 2 {
				p, q := s.points[2*i], s.points[2*i+1]
				if q.v-p.v < s.slope*(q.x-p.x) {
					p = q
				}
				s.points[i] = p
			}
			s.n = maxPoints / 2
		} else {
			copy(s.points[:], s.points[1:])
			s.n--
			left = true
		}
	}
	for s.n >= fitPoints && x-s.points[0].x > window {
		copy(s.points[:], s.points[1:s.n])
		s.n--
		left = true
	}
	s.lowOK = false
	if s.n > 0 && s.low.x <= s.points[s.n-1].x {
		return // receive times went back
	}
	s.points[s.n] = s.low
	s.n++
	if s.n >= fitPoints {
		s.fit(x, left)
		s.publish(x, false)
	}
}

// fit lays the floor below the points.
func (s *Floor) fit(x float64, left bool) {
	points := s.points[:s.n]
	var hull [maxPoints]point
	m := 0
	for _, p := range points {
		for m >= 2 && (hull[m-1].v-hull[m-2].v)*(p.x-hull[m-2].x) >= (p.v-hull[m-2].v)*(hull[m-1].x-hull[m-2].x) {
			m--
		}
		hull[m] = p
		m++
	}
	at := func(x float64) float64 {
		i := 1
		for i < m-1 && x > hull[i].x {
			i++
		}
		p, q := hull[i-1], hull[i]
		return p.v + (q.v-p.v)*(x-p.x)/(q.x-p.x)
	}
	span := points[s.n-1].x - points[0].x
	x1, x2 := points[0].x+span/4, points[0].x+span*3/4
	slope := (at(x2) - at(x1)) / (x2 - x1)
	// The third lowest point above a line of that slope tells how well it is known.
	var above [maxPoints]float64
	for i, p := range points {
		above[i] = p.v - slope*p.x
	}
	slices.Sort(above[:s.n])
	noise := 1.5*(above[2]-above[0]) + stampNoise
	if k := s.datagrams - s.counted; s.n < 8 && s.width == firstWidth {
		noise = max(noise, s.mean/float64(k))
	}
	s.counted = s.datagrams
	dv := noise / span
	s.fitVar = dv * dv
	if left {
		// The share of the point that left moves into what was known before.
		g := s.skewVar / (s.skewVar + float64(s.n)*s.fitVar)
		drift := skewDrift * (x - s.fitAt)
		s.skew0 += g * (slope - s.skew0)
		s.skewVar = (1-g)*s.skewVar + drift*drift
	}
	s.fitAt = x
	if d := slope - s.skew0; d*d > surprise*surprise*(s.skewVar+s.fitVar) {
		bend := 0.0
		for i := 2; i < s.n; i++ {
			p, q, r := points[i-2], points[i-1], points[i]
			bend += math.Abs(q.v - p.v - (r.v-p.v)*(q.x-p.x)/(r.x-p.x))
		}
		bend /= float64(s.n-2) * span
		if s.n >= 8 && d*d > 36*(s.skewVar+bend*bend) {
			s.skewVar = min(d*d, 9*priorSkew*priorSkew) // a clock is slewed, or was set
		} else {
			s.fitVar = d * d // a queue
		}
	}
	gain := s.skewVar / (s.skewVar + s.fitVar)
	s.peerLevel, s.peerAt = s.peerFloor(x), x
	s.slope = min(max(s.skew0+gain*(slope-s.skew0), -maxSkew), maxSkew)

	level := math.Inf(1)
	for _, p := range points {
		level = min(level, p.v-s.slope*p.x)
	}
	s.level = level
	spread := 0.0
	for _, p := range points {
		spread += p.v - s.slope*p.x - level
	}
	spread /= float64(s.n)
	if s.noise < unknown {
		spread = min(spread, 1.5*s.noise+1)
	}
	s.noise = spread
	s.gate = 6*s.noise + minGate + 3*s.slopeError()*s.width
}

// slopeError returns the standard deviation of slope.
func (s *Floor) slopeError() float64 { return 1 / math.Sqrt(1/s.skewVar+1/s.fitVar) }

// MinDelta returns what to report to the peer now, in units of 8 us: the delta
// that a datagram without queueing would have. ok is false before the first
// datagram.
func (s *Floor) MinDelta(localUsec uint64) (minDelta uint32, ok bool) {
	if !s.started {
		return 0, false
	}
	x := s.x(localUsec)
	v := s.level + s.slope*x
	if s.peered && s.stands(x, tellTime) {
		v += s.levelMin // if a clock was set, the peer waits to hear it
	}
	return uint32(uint64(int64(math.Floor(v+1<<(stampShift-1))))>>stampShift) & ringMask, true
}

// OnPeerMinDelta takes what the peer's MinDelta returned, which arrived at
// localRecvUsec. A report that comes before the first datagram counts from the
// first datagram on.
func (s *Floor) OnPeerMinDelta(minDelta uint32, localRecvUsec uint64) {
	raw := uint64(minDelta) << stampShift
	if !s.started {
		s.early, s.earlyRaw, s.earlyAt = true, raw, localRecvUsec
		return
	}
	x := s.x(localRecvUsec)
	if !s.peered {
		s.peered = true
		s.peerLevel, s.peerAt, s.peerStood = float64(wrap(raw, deltaBits)), x, x
		s.settled = s.roundTrip()
		s.publish(x, true)
		return
	}
	b := around(raw, s.peerFloor(x-s.delay))
	if s.stale != 0 && x-s.staleAt < staleTime && math.Abs(ring(b-s.stale)) < math.Abs(s.stale)/2 {
		return
	}
	s.peerLevel, s.peerAt = s.peerFloor(x)+b, x
	if s.stale != 0 {
		s.stale, s.peerStood = 0, x
	} else if math.Abs(b) > s.peerGate() {
		if b > 0 || x-s.peerStood > verdict || s.impossible() {
			s.doubt(x)
		}
		s.peerStood, s.freshN = x, 0 // look afresh whether our floor moved as well
	} else {
		if s.peerNoise == unknown {
			s.peerNoise = 0
		}
		if s.freshN >= lateRun && b < -minGate {
			// Our floor rises as the peer's falls: the rate of a clock changed.
			a := min(-b, s.freshMin)
			rate := a / max(x-s.reportAt, 0.2e6) // reports may come at once
			s.restart(x, a)
			s.skewVar += rate * rate
			s.moved(x, a, 0)
		}
	}
	s.moved(x, 0, b)
	s.recent, s.before = 0, s.recent
	s.reportAt = x
}

// publish shows the state to the readers. jump says that a clock was set.
func (s *Floor) publish(x float64, jump bool) {
	if !s.peered {
		return
	}
	r := s.roundTrip()
	s.guard(x, r)
	delay := r/2 + s.hold
	s.delay = max(delay, 0)
	theta := delay - (s.level + s.slope*x)
	var excess float64
	if v, ok := s.view(); ok && !jump {
		excess = v.at(s.base+uint64(int64(x))) - theta
		excess -= (1 << offsetBits) * math.Floor(excess/(1<<offsetBits)+0.5)
		exact := excess
		excess = float64(float32(excess)) // as view has it
		theta += exact - excess
		if math.Abs(excess) > maxSlew {
			excess, jump = 0, true
		}
	}
	if jump {
		s.steps++
	}
	slack := max(r/4, 4*s.mean) + minGate
	s.slack = float32(slack)
	bound := r/2 + math.Abs(s.hold) + slack + float64(s.odd)
	if r < 0 {
		bound += max(s.settled, 0) - 2*r // the floors are of different clocks
	}
	if s.waits(x) {
		bound += math.Abs(s.own) + math.Abs(s.peer)
	}
	if s.stale != 0 {
		bound += slack
	}
	s.show(view{
		bound:  bound,
		grow:   gapSkew + 3*s.slopeError(),
		local:  s.base + uint64(int64(x)),
		theta:  theta,
		skew:   -s.slope,
		excess: excess,
		delay:  s.delay,
	})
}

// guard limits what is held to what the round trip allows: no path is shorter than
// nothing, and where the round trip is what it was, so is the midpoint.
func (s *Floor) guard(x, r float64) {
	limit := r / 2
	if !s.waits(x) {
		still := s.levelN < levelRun && x-max(s.stood, s.peerStood) > verdict
		if still {
			s.settled = r
		}
		limit = math.Abs(r-s.trusted) / 2
		if s.hold == 0 || limit < minGate {
			limit = 0
			if still {
				s.trusted = r
			}
		}
	}
	if limit >= 0 {
		s.hold = min(max(s.hold, -limit), limit)
	}
}

// view is a consistent state for readers.
type view struct {
	local  uint64  // local time at which it was taken
	theta  float64 // offset at that time, modulo 67.1 s
	skew   float64 // its rate
	excess float64 // what readers still add, to be slewed away
	delay  float64 // minimum one-way delay
	bound  float64 // of the offset's error at local, without excess
	grow   float64 // and how it grows
}

// at returns the offset at a local time.
func (v *view) at(localUsec uint64) float64 {
	x := float64(int64(localUsec - v.local))
	return v.theta + v.skew*x + rest(v.excess, x)
}

// rest returns what is left of excess after x.
func rest(excess, x float64) float64 {
	slewed := max(x, 0) * slewRate
	if excess > 0 {
		return max(excess-slewed, 0)
	}
	return min(excess+slewed, 0)
}

func pack(a, b float64) uint64 {
	return uint64(math.Float32bits(float32(a)))<<32 | uint64(math.Float32bits(float32(b)))
}

func unpack(w uint64) (a, b float64) {
	return float64(math.Float32frombits(uint32(w >> 32))), float64(math.Float32frombits(uint32(w)))
}

func (s *shown) show(v view) {
	words := [5]uint64{v.local, math.Float64bits(v.theta), pack(v.skew, v.excess), pack(v.delay, 0), pack(v.bound, v.grow)}
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
		v.local = s.words[0].Load()
		v.theta = math.Float64frombits(s.words[1].Load())
		v.skew, v.excess = unpack(s.words[2].Load())
		v.delay, _ = unpack(s.words[3].Load())
		v.bound, v.grow = unpack(s.words[4].Load())
		if seq&1 == 0 && s.seq.Load() == seq {
			return v, seq&2 != 0
		}
	}
}

// IsSynchronized reports whether the offset is known: since the first datagram and
// the first report.
func (s *Floor) IsSynchronized() bool { return s.seq.Load()&2 != 0 }

// MinOWD returns the shortest time that a datagram of late was under
// way, never negative.
func (s *Floor) MinOWD() (delay time.Duration, ok bool) {
	for {
		seq := s.seq.Load()
		d := math.Float32frombits(uint32(s.words[3].Load() >> 32))
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
func (s *Floor) RemoteTime(localUsec, nearRemoteUsec uint64) (remoteUsec uint64, ok bool) {
	remote, ok := s.remote(localUsec)
	if !ok {
		return 0, false
	}
	return nearRemoteUsec + uint64(wrap(remote-nearRemoteUsec, offsetBits)), true
}

// remote returns the remote clock modulo 67.1 s. It is view and at for those in haste.
func (s *shown) remote(localUsec uint64) (uint64, bool) {
	for {
		seq := s.seq.Load()
		x := float64(int64(localUsec - s.words[0].Load()))
		theta := math.Float64frombits(s.words[1].Load())
		rates := s.words[2].Load()
		if (s.seq.Load()^seq)|seq&1 != 0 {
			continue
		}
		if seq&2 == 0 {
			return 0, false
		}
		skew, excess := unpack(rates)
		theta += skew * x
		if math.Abs(excess) > slewRate*x {
			theta += rest(excess, x)
		}
		const up = 1 << 40 // above zero, a conversion rounds down
		return localUsec + uint64(int64(theta+(up+0.5))) - up, true
	}
}

// Skew returns the rate of the remote clock minus that of the local clock, in parts
// per million. ok is false while the offset is not known.
func (s *Floor) Skew() (ppm float64, ok bool) {
	v, ok := s.view()
	return v.skew * 1e6, ok
}

// ErrorBound returns how far the remote clock that RemoteTime returns for localUsec
// may be from the truth.
func (s *Floor) ErrorBound(localUsec uint64) (bound time.Duration, ok bool) {
	v, ok := s.view()
	if !ok {
		return 0, false
	}
	x := float64(int64(localUsec - v.local))
	return time.Duration(v.bound+v.grow*math.Abs(x)+math.Abs(rest(v.excess, x))+1) * time.Microsecond, true
}

// Steps returns how often the remote time jumped.
func (s *Floor) Steps() int { return s.steps }

// Reset forgets everything, as when the peer is replaced by another.
func (s *Floor) Reset() {
	s.state = state{}
	s.seq.Store((s.seq.Load() + 4) &^ 3)
}
