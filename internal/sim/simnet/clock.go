package simnet

import (
	"math"
	"math/rand/v2"
	"time"
)

// wanderStep is how often the random walk of a clock's frequency takes a step:
// far below the seconds in which estimators measure a frequency.
const wanderStep = 100 * time.Millisecond

// Clock is the clock of an end. It shows microseconds modulo 2^64.
type Clock interface {
	// Usec returns what the clock shows at the true time t.
	Usec(t time.Duration) uint64
	// Exact returns what it would show at t if it were not coarse, rounded down.
	Exact(t time.Duration) uint64
	// Received returns the time that a program notes for a datagram that arrives at t. A coarse
	// clock rounds it up, as package clock does.
	Received(t time.Duration) uint64
}

// ClockSpec says how a clock errs. The zero value is a perfect clock that reads 0
// at the start. Rates are in parts per million; positive is fast.
type ClockSpec struct {
	OffsetUsec uint64        // reading at true time 0, microseconds
	SkewPPM    float64       // constant error of the rate
	SinePPM    float64       // amplitude of a sine in the rate, as from temperature
	SinePeriod time.Duration // period of that sine; 0 is no sine
	SinePhase  float64       // its phase at true time 0, radians
	WanderPPM  float64       // random walk of the rate: standard deviation after one second
	Events     []ClockEvent  // steps, slews and suspends
	Recorded   *ClockTrace   // what a real clock showed, added to the rest; nil is nothing
	Coarse     Coarse
}

// Coarse says that a clock advances in steps. The zero value is a clock that shows each
// microsecond.
type Coarse struct {
	Step  time.Duration // how far it advances at once; whole microseconds
	Phase time.Duration // by how much earlier than at a multiple of Step
	// Jittered: within each step it advances at a random time, as in browsers. So it lags behind
	// by up to two steps.
	Jittered bool
	// RoundDown: times of receipt are what the clock shows, not rounded up as by package clock.
	RoundDown bool
}

// ClockEvent is something that happens to a clock at the true time At.
type ClockEvent struct {
	At   time.Duration
	Step time.Duration // the reading jumps by this much
	For  time.Duration // how long PPM lasts, true time
	PPM  float64       // additional rate, relative to the clock's own; -1e6 stands still
}

// DriftingClock is the clock of a ClockSpec. It may be read at any true time in any
// order, but not from several goroutines at once.
type DriftingClock struct {
	spec   ClockSpec
	skew   float64 // 1 + the constant error
	sine   float64 // microseconds of phase per unit of cosine
	omega  float64 // radians per second
	cosine float64 // cos(SinePhase)
	slews  []slew
	wander []segment // cached random walk; wander[i] starts at i*wanderStep
	walk   *rand.Rand
	jitter uint64 // chooses when a jittered clock advances
}

type segment struct {
	phase float64 // microseconds gained before the segment
	rate  float64 // microseconds per second within it
}

// slew is an event with its beginning and end on the clock's undisturbed reading.
type slew struct {
	at         time.Duration
	step, rate float64 // microseconds, 1
	from, to   float64 // microseconds
}

// NewClock returns the clock of spec. The seed chooses its random walk.
func NewClock(spec ClockSpec, seed uint64) *DriftingClock {
	c := &DriftingClock{spec: spec, skew: 1 + spec.SkewPPM*1e-6, jitter: seed}
	if spec.SinePeriod > 0 {
		c.omega = 2 * math.Pi / spec.SinePeriod.Seconds()
		c.sine = spec.SinePPM / c.omega
		c.cosine = math.Cos(spec.SinePhase)
	}
	if spec.WanderPPM != 0 {
		c.walk = rand.New(rand.NewPCG(seed, 'c'))
		c.wander = []segment{{}}
	}
	for _, e := range spec.Events {
		c.slews = append(c.slews, slew{
			at: e.At, step: usec(e.Step), rate: e.PPM * 1e-6,
			from: c.undisturbed(e.At), to: c.undisturbed(e.At + e.For),
		})
	}
	return c
}

func usec(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Exact implements Clock.
func (c *DriftingClock) Exact(t time.Duration) uint64 {
	return c.spec.OffsetUsec + uint64(int64(math.Floor(c.Reading(t))))
}

// Usec implements Clock: Exact, or less if the clock is coarse.
func (c *DriftingClock) Usec(t time.Duration) uint64 {
	step := c.spec.Coarse.Step.Microseconds()
	if step == 0 {
		return c.Exact(t)
	}
	phase := c.spec.Coarse.Phase.Microseconds()
	reading := int64(math.Floor(c.Reading(t))) + phase
	steps := int64(math.Floor(float64(reading) / float64(step)))
	if c.spec.Coarse.Jittered {
		within := rand.New(rand.NewPCG(c.jitter, uint64(steps))).Int64N(step)
		if reading-steps*step < within {
			steps--
		}
	}
	return c.spec.OffsetUsec + uint64(steps*step-phase)
}

// Received implements Clock: what the clock shows, rounded up.
func (c *DriftingClock) Received(t time.Duration) uint64 {
	lag := c.spec.Coarse.Step // by this much less the clock shows at most
	switch {
	case c.spec.Coarse.RoundDown:
		lag = 0
	case c.spec.Coarse.Jittered:
		lag *= 2
	}
	return c.Usec(t) + uint64(lag.Microseconds())
}

// Reading returns the clock's reading at the true time t relative to its
// OffsetUsec, in microseconds with their fraction. It neither rounds nor wraps.
func (c *DriftingClock) Reading(t time.Duration) float64 {
	base := c.undisturbed(t)
	sum := base
	for _, e := range c.slews {
		if t >= e.at {
			sum += e.step + e.rate*(min(base, e.to)-e.from)
		}
	}
	return sum
}

// undisturbed is Reading without the events.
func (c *DriftingClock) undisturbed(t time.Duration) float64 {
	sum := usec(t) * c.skew
	if c.sine != 0 {
		sum += c.sine * (c.cosine - math.Cos(c.omega*t.Seconds()+c.spec.SinePhase))
	}
	if c.walk != nil {
		s, within := c.segment(t)
		sum += s.phase + s.rate*within
	}
	if c.spec.Recorded != nil {
		sum += c.spec.Recorded.Phase(t)
	}
	return sum
}

// segment returns the piece of the random walk that holds t, and the seconds of
// t within it. Before true time 0 there is no walk.
func (c *DriftingClock) segment(t time.Duration) (segment, float64) {
	if t < 0 {
		return segment{}, 0
	}
	i := int(t / wanderStep)
	for len(c.wander) <= i {
		last := c.wander[len(c.wander)-1]
		c.wander = append(c.wander, segment{
			phase: last.phase + last.rate*wanderStep.Seconds(),
			rate:  last.rate + c.spec.WanderPPM*math.Sqrt(wanderStep.Seconds())*c.walk.NormFloat64(),
		})
	}
	return c.wander[i], (t - time.Duration(i)*wanderStep).Seconds()
}
