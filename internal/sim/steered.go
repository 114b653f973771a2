package sim

import (
	"fmt"
	"math"
	"time"

	"timesync/internal/sim/simnet"
)

// SteeredKind is a kind of worlds in which the clock of B is steered and that of A is a crystal.
type SteeredKind struct {
	Name     string
	Steering simnet.Steering
}

// SteeredKinds are those that are drawn. Calm ones are there to compare with.
var SteeredKinds = []SteeredKind{
	{"drawn", simnet.Steered},
	{"often", simnet.SteeredOften},
	{"start", simnet.SteeredAtStart},
	{"calm", simnet.Steering{}},
}

// PathKind is a kind of path that is the same both ways and has no queue that stands.
type PathKind struct {
	Name  string
	Base  time.Duration
	Delay func() simnet.Delay
}

// PathKinds are a LAN, where now and then a datagram waits, the Internet, and a mobile network.
var PathKinds = []PathKind{
	{"LAN", 150 * us, func() simnet.Delay {
		return simnet.Sum(simnet.Exp(30*us), simnet.Sometimes(0.01, simnet.Exp(500*us)))
	}},
	{"WAN", 20 * ms, func() simnet.Delay { return simnet.Exp(ms) }},
	{"cellular", 20 * ms, func() simnet.Delay { return simnet.Uniform(4*ms, 10*ms) }},
}

// Scenario returns the worlds of the kind on such a path, with that many datagrams a second.
func (k SteeredKind) Scenario(path PathKind, rate float64, lasting time.Duration) Scenario {
	c := clockWorlds(k.Name, path, rate, lasting)
	crystal := c.B
	c.B = func(seed uint64) simnet.ClockSpec {
		spec := crystal(seed)
		spec.Events = k.Steering.Events(simnet.Rand(seed, "steering "+c.Name), lasting)
		return spec
	}
	return c
}

// RecordedScenario returns the worlds of two recorded clocks on such a path. They last as long as
// the recordings at most.
func RecordedScenario(pair simnet.ClockPair, path PathKind, rate float64,
	lasting time.Duration) Scenario {
	for _, trace := range []*simnet.ClockTrace{pair.A, pair.B} {
		if trace != nil {
			lasting = min(lasting, fromRecording(trace).Duration())
		}
	}
	return clockWorlds(pair.Name, path, rate, lasting).With(RecordedClock(pair))
}

// clockWorlds are worlds of two crystals that differ by up to 60 ppm.
func clockWorlds(kind string, path PathKind, rate float64, lasting time.Duration) Scenario {
	name := fmt.Sprintf("%s, %s, %g/s", kind, path.Name, rate)
	crystal := func(side Side) func(seed uint64) simnet.ClockSpec {
		return func(seed uint64) simnet.ClockSpec {
			d := simnet.Dice{R: simnet.Rand(seed, name+" "+side.name())}
			return simnet.ClockSpec{
				OffsetUsec: d.R.Uint64(),
				SkewPPM:    d.Between(-30, 30),
				SinePPM:    1,
				SinePeriod: 900 * sec,
				SinePhase:  2 * math.Pi * d.R.Float64(),
				WanderPPM:  0.003,
			}
		}
	}
	link := func(uint64) *simnet.Link {
		return &simnet.Link{Base: simnet.Fixed(path.Base), Delay: path.Delay()}
	}
	return Scenario{
		Name:     name,
		Duration: lasting,
		Warmup:   10 * sec,
		PollRate: 4,
		A:        crystal(A),
		B:        crystal(B),
		AB:       link,
		BA:       link,
		RateAB:   rate,
		RateBA:   rate,
	}
}
