package sim

import (
	"cmp"
	"time"

	"timesync/internal/sim/simnet"
)

// Tag says what happens in a scenario.
type Tag uint

// Tags of scenarios; Calm stands alone.
const (
	Calm   Tag = 0         // jitter at most
	Lossy  Tag = 1 << iota // loss, low rates, silences
	Queued                 // queues that stand
	Routed                 // the path changes
	Jumped                 // a clock steps, stops or is slewed
)

// Scenario is a family of worlds, one for each seed.
type Scenario struct {
	Name     string
	Tag      Tag
	Duration time.Duration // of the run
	Warmup   time.Duration // accuracy counts from here on; Run observes everything

	A, B   func(seed uint64) simnet.ClockSpec
	AB, BA func(seed uint64) *simnet.Link

	RateAB, RateBA float64         // datagrams a second; 0 is 60
	SendAB, SendBA []time.Duration // when datagrams are sent, instead of at a rate
	PollRate       float64         // questions a second to each end; 0 is 10

	// ReportEvery is the time between reports at an age of the session. nil is
	// TimeSync's advice: 0.5 s in the first 20 s, then 2 s.
	ReportEvery func(age time.Duration) time.Duration
	// Off is when one of the computers sleeps: nothing is sent, received or asked.
	Off func(seed uint64) []simnet.Window
}

// pingEvery is netfox's; others take fewer.
const pingEvery = time.Second / 4

// Run plays the world of a scenario with that seed.
func Run(sc Scenario, seed uint64, pairs []Pair, obs Observer) {
	sc.Session(seed).Run(pairs, obs)
}

// Session returns the world of that seed. Four pings a second go each way.
func (c Scenario) Session(seed uint64) *Session {
	s := &Session{Duration: c.Duration, ReportEvery: c.ReportEvery}
	s.End[A] = c.end(seed, A, c.A(seed), c.AB(seed), c.RateAB, c.SendAB)
	s.End[B] = c.end(seed, B, c.B(seed), c.BA(seed), c.RateBA, c.SendBA)
	if c.Off != nil {
		off := c.Off(seed)
		s.End[A].Off, s.End[B].Off = off, off
	}
	return s
}

func (c Scenario) end(seed uint64, side Side, clock simnet.ClockSpec, out *simnet.Link,
	rate float64, times []time.Duration) End {
	name := side.name()
	e := End{
		Clock:     clock,
		ClockSeed: simnet.Rand(seed, "clock "+name).Uint64(),
		Out:       out,
		Net:       simnet.Rand(seed, "net "+name),
	}
	phase := simnet.Rand(seed, "send "+name)
	if times != nil {
		phase.Float64() // as much as a rate needs
		e.Sends = Times(times)
	} else {
		e.Sends = Paced(phase, float64(time.Second)/cmp.Or(rate, 60))
	}
	poll := time.Duration(float64(time.Second) / cmp.Or(c.PollRate, 10))
	e.Asks = Regularly(time.Duration(phase.Float64()*float64(time.Second/10)), poll)
	e.Pings = Regularly(time.Duration(phase.Float64()*float64(pingEvery)), pingEvery)
	return e
}
