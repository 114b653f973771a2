package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// recipe is a scenario in short. Zero fields mean: 300 s, clocks 40 ppm apart, the
// same jitter both ways, 60 datagrams a second, nothing else happens.
type recipe struct {
	name     string
	tag      Tag
	seconds  int     // duration
	ppm      float64 // rate of one clock relative to the other
	sinePPM  float64 // temperature of each clock
	sine     time.Duration
	up, down func(r *rand.Rand) Delay // jitter; down nil is like up
	loss     func(r *rand.Rand) Loss  // both ways: the same windows
	rateUp   float64
	rateDown float64

	// What happens between 100 and 130 s after the start.
	routeUp, routeDown time.Duration // the base delay changes
	clock              ClockEvent    // of A
	asleep             bool          // A sleeps during that event

	flap time.Duration // the base delay up flaps by 15 ms with this period
	asym time.Duration // the base delay up is longer by this all the time
	wrap bool          // both clocks wrap 2^64 on the way
}

// Scenarios returns the worlds by which estimators are judged. Clocks have random
// offsets, a temperature and a random walk. The offsets, the base delay of 25 to
// 35 ms each way, the signs and the times of events depend on the seed of a run.
// Accuracy counts from 30 s on.
func Scenarios() []Scenario {
	exp500us := func(*rand.Rand) Delay { return Exp(500 * time.Microsecond) }
	exp3 := func(*rand.Rand) Delay { return Exp(3 * ms) }
	exp10 := func(*rand.Rand) Delay { return Exp(10 * ms) }
	plus := func(d Delay) Delay { return Sum(Exp(3*ms), d) }
	cellular := func(*rand.Rand) Delay { return Cellular() }
	bloat := func(*rand.Rand) Delay { return plus(Bufferbloat(50*ms, 200*ms, 5*sec, 15*sec, 40*sec)) }
	plateau := func(*rand.Rand) Delay { return plus(Plateau(50*ms, 200*ms, 5*sec, 15*sec, 40*sec)) }
	bottleneck := func(*rand.Rand) Delay { return Queue(10e6, 0.8, 200*ms) }
	standing := func(r *rand.Rand) Delay {
		return plus(StandingQueue(uniform(r, 80*sec, 120*sec), 150*sec, uniform(r, 50*ms, 120*ms)))
	}
	ramp := func(*rand.Rand) Delay { return plus(Ramp(200*sec, 30, 100*sec)) }
	burstLoss := func(*rand.Rand) Loss { return GilbertElliott(0.2, 5) }

	recipes := []recipe{
		{name: "ideal", ppm: 100, seconds: 240},
		{name: "wander", ppm: 60, sinePPM: 8, sine: 600 * sec},
		{name: "smalljitter", up: exp500us},
		{name: "mediumjitter", up: exp3},
		{name: "largejitter", up: exp10},
		{name: "largejitter-10hz", up: exp10, rateUp: 10, rateDown: 10},
		{name: "cellular", up: cellular, ppm: 100},
		{name: "gammajitter", up: func(*rand.Rand) Delay { return Gamma(2, 3*ms) }},
		{name: "wifi", up: func(*rand.Rand) Delay { return WiFi() }},
		{name: "asymjitter", up: exp10, down: exp500us},
		{name: "asympath", up: exp3, asym: 20 * ms},
		{name: "reorder", up: func(*rand.Rand) Delay { return Sum(Uniform(0, 2*ms), Reorder(0.05, 30*ms)) }},
		{name: "wrap", up: exp3, wrap: true},
		{name: "mediumjitter-1hz", up: exp3, rateUp: 1, rateDown: 1, seconds: 400},
		{name: "asymrate", up: exp10, rateUp: 10, rateDown: 60, seconds: 400},

		{name: "packetloss", tag: Lossy, up: exp3, loss: burstLoss, rateUp: 30, rateDown: 30},
		{name: "silences", tag: Lossy, up: exp3, loss: silences, ppm: 60, seconds: 400},
		{name: "longsilence", tag: Lossy, up: exp3, loss: longSilence, ppm: 60, seconds: 500},

		{name: "bufferbloat-up", tag: Queued, up: bloat, down: exp3, seconds: 400},
		{name: "bufferbloat-both", tag: Queued, up: bloat, seconds: 400},
		{name: "plateau-both", tag: Queued, up: plateau, seconds: 400},
		{name: "bottleneck", tag: Queued, up: bottleneck},
		{name: "standingqueue", tag: Queued, up: standing, down: exp3},
		{name: "delayramp", tag: Queued, up: ramp, down: exp3},

		{name: "route-longer-oneway", tag: Routed, up: exp3, routeUp: 20 * ms},
		{name: "route-longer-both", tag: Routed, up: exp3, routeUp: 20 * ms, routeDown: 20 * ms},
		{name: "route-shorter-oneway", tag: Routed, up: exp3, routeUp: -20 * ms},
		{name: "route-shorter-both", tag: Routed, up: exp3, routeUp: -20 * ms, routeDown: -20 * ms},
		{name: "routeflaps", tag: Routed, up: exp3, flap: 25 * sec},

		{name: "clockstep", tag: Jumped, up: exp3, clock: ClockEvent{Step: 5 * ms}},
		{name: "suspend", tag: Jumped, up: exp3, clock: ClockEvent{For: 37 * sec, PPM: -1e6}, asleep: true},
		{name: "slew", tag: Jumped, up: exp3, clock: ClockEvent{For: 30 * sec, PPM: 500}},
	}
	scenarios := make([]Scenario, len(recipes))
	for i, r := range recipes {
		scenarios[i] = r.scenario()
	}
	return scenarios
}

// silences are spans of 5 to 60 s in which nothing is sent either way, and 10 to
// 40 s between them.
func silences(r *rand.Rand) Loss {
	var windows []Window
	for t := 30 * sec; t < 600*sec; {
		from := t + uniform(r, 10*sec, 40*sec)
		t = from + uniform(r, 5*sec, 60*sec)
		windows = append(windows, Window{from, t})
	}
	return Silence(windows...)
}

func longSilence(r *rand.Rand) Loss {
	from := uniform(r, 100*sec, 200*sec)
	return Silence(Window{from, from + 200*sec})
}

// scenario writes the recipe out. All that depends on the seed is drawn from streams
// with names, so that the two clocks and links of a run agree.
func (c recipe) scenario() Scenario {
	or := func(x, otherwise float64) float64 {
		if x == 0 {
			return otherwise
		}
		return x
	}
	duration := time.Duration(or(float64(c.seconds), 300)) * sec
	happens := func(seed uint64) time.Duration { return uniform(stream(seed, "event"), 100*sec, 130*sec) }
	spec := func(seed uint64, side string, share float64, events ...ClockEvent) ClockSpec {
		r := stream(seed, "spec "+side)
		s := ClockSpec{
			OffsetUsec: r.Uint64(),
			SkewPPM:    share * or(c.ppm, 40),
			SinePPM:    or(c.sinePPM, 2),
			SinePeriod: time.Duration(or(float64(c.sine), float64(900*sec))),
			SinePhase:  2 * math.Pi * r.Float64(),
			WanderPPM:  0.01, // a frequency that moves by 0.2 ppm in 300 s: quartz at rest
			Events:     events,
		}
		if stream(seed, "sign").Uint64()&1 != 0 {
			s.SkewPPM = -s.SkewPPM
		}
		if c.wrap {
			s.OffsetUsec = -uint64(uniform(r, 50*sec, 200*sec) / time.Microsecond)
		}
		return s
	}
	link := func(jitter func(*rand.Rand) Delay, asym, route, flap time.Duration) func(uint64) *Link {
		return func(seed uint64) *Link {
			base := uniform(stream(seed, "base"), 25*ms, 35*ms) + asym
			l := &Link{Base: Fixed(base)}
			switch {
			case route != 0:
				l.Base = Route(base, RouteStep{happens(seed), route})
			case flap != 0:
				l.Base = Flaps(base, flap, 15*ms)
			}
			if jitter != nil {
				l.Delay = jitter(stream(seed, "jitter"))
			}
			if c.loss != nil {
				l.Loss = c.loss(stream(seed, "loss"))
			}
			return l
		}
	}
	down := c.down
	if down == nil {
		down = c.up
	}
	s := Scenario{
		Name: c.name, Tag: c.tag, Duration: duration, Warmup: 30 * sec,
		A: func(seed uint64) ClockSpec {
			e := c.clock
			e.At = happens(seed)
			return spec(seed, "A", 0.5, e)
		},
		B:      func(seed uint64) ClockSpec { return spec(seed, "B", -0.5) },
		AB:     link(c.up, c.asym, c.routeUp, c.flap),
		BA:     link(down, 0, c.routeDown, 0),
		RateAB: c.rateUp, RateBA: c.rateDown,
	}
	if c.asleep {
		s.Off = func(seed uint64) []Window {
			from := happens(seed)
			return []Window{{from, from + c.clock.For}}
		}
	}
	return s
}
