package inputs

import (
	"math/rand/v2"
	"time"

	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
)

const ms = time.Millisecond

// changing are the worlds in which something happens, or jitter is large: 30 ms each way and
// jitter of 1 ms where nothing else is said.
func changing() []World {
	const at = 20 * second
	quartz := func(ppm float64) func(uint64) simnet.ClockSpec {
		return func(seed uint64) simnet.ClockSpec {
			return simnet.ClockSpec{OffsetUsec: seed * 0x9e3779b97f4a7c15 >> 20, SkewPPM: ppm}
		}
	}
	client, server := quartz(20), quartz(-20)
	over := func(name string, up, down func(uint64) *simnet.Link) sim.Scenario {
		return sim.Scenario{Name: name, Duration: 120 * second, A: client, B: server, AB: up, BA: down}
	}
	one := func(before, later, jitter time.Duration) func(uint64) *simnet.Link {
		return func(uint64) *simnet.Link {
			return &simnet.Link{
				Base:  simnet.Route(before, simnet.RouteStep{At: at, Change: later}),
				Delay: simnet.Exp(jitter),
			}
		}
	}
	path := func(jitter time.Duration) func(uint64) *simnet.Link { return one(30*ms, 0, jitter) }
	lossy := func(uint64) *simnet.Link {
		return &simnet.Link{
			Base:  simnet.Fixed(30 * ms),
			Delay: simnet.Exp(ms),
			Loss:  simnet.Bernoulli(0.05),
		}
	}
	bursts := func(uint64) *simnet.Link {
		return &simnet.Link{
			Base:  simnet.Fixed(30 * ms),
			Delay: simnet.Sum(simnet.Exp(ms), stops(10*second, 300*ms)),
		}
	}
	return []World{
		{Scenario: over("up +50 ms", one(30*ms, 50*ms, ms), path(ms)), Change: at, RoundTrip: 112 * ms},
		{
			Scenario:  over("down +100 ms", path(ms), one(30*ms, 100*ms, ms)),
			Change:    at,
			RoundTrip: 162 * ms,
		},
		{
			Scenario:  over("both +50 ms", one(30*ms, 50*ms, ms), one(30*ms, 50*ms, ms)),
			Change:    at,
			RoundTrip: 162 * ms,
		},
		{Scenario: over("up -50 ms", one(80*ms, -50*ms, ms), path(ms)), Change: at, RoundTrip: 62 * ms},
		{Scenario: over("jitter 5 ms", path(5*ms), path(5*ms)), Steady: true},
		{Scenario: over("jitter 10 ms", path(10*ms), path(10*ms)), Steady: true},
		{Scenario: over("jitter 20 ms", path(20*ms), path(20*ms)), Steady: true},
		{Scenario: over("bursts of 300 ms", bursts, bursts)},
		{Scenario: over("loss of 5 %", lossy, lossy), Steady: true},
		{
			Scenario:  over("server at 90 %", path(ms), path(ms)),
			Slow:      true,
			Change:    at + 20*second,
			RoundTrip: 62 * ms,
		},
	}
}

// stops lets a path stop for a while at the end of each period: what is sent meanwhile arrives
// at the end.
func stops(period, lasting time.Duration) simnet.Delay {
	return func(_ *rand.Rand, t time.Duration) time.Duration {
		if left := period - t%period; left <= lasting {
			return left
		}
		return 0
	}
}

// Worlds returns all worlds: those in which something happens to inputs, and those of package sim,
// with a datagram each tick.
func Worlds() []World {
	worlds := changing()
	for _, s := range sim.Scenarios() {
		// The delays of the others are those of another rate.
		if s.RateAB == 0 && s.RateBA == 0 && s.SendAB == nil || s.Name == "pairs" {
			worlds = append(worlds, World{Scenario: s, Steady: s.Tag == sim.Calm})
		}
	}
	return worlds
}
