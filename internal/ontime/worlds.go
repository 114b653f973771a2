package ontime

import (
	"math/rand/v2"
	"slices"
	"time"

	"timesync/internal/sim"
)

const ms = time.Millisecond

// changing are the worlds in which something happens, or jitter is large: 30 ms each way and
// jitter of 1 ms where nothing else is said.
func changing() []World {
	const at = 20 * second
	one := func(before, later, jitter time.Duration) func(uint64) *sim.Link {
		return func(uint64) *sim.Link {
			return &sim.Link{Base: sim.Route(before, sim.RouteStep{At: at, Change: later}), Delay: sim.Exp(jitter)}
		}
	}
	path := func(jitter time.Duration) func(uint64) *sim.Link { return one(30*ms, 0, jitter) }
	lossy := func(uint64) *sim.Link {
		return &sim.Link{Base: sim.Fixed(30 * ms), Delay: sim.Exp(ms), Loss: sim.Bernoulli(0.05)}
	}
	bursts := func(uint64) *sim.Link {
		return &sim.Link{Base: sim.Fixed(30 * ms), Delay: sim.Sum(sim.Exp(ms), stops(10*second, 300*ms))}
	}
	return []World{
		{Name: "up +50 ms", Change: at, RoundTrip: 112 * ms, Up: one(30*ms, 50*ms, ms), Down: path(ms)},
		{Name: "down +100 ms", Change: at, RoundTrip: 162 * ms, Up: path(ms), Down: one(30*ms, 100*ms, ms)},
		{Name: "both +50 ms", Change: at, RoundTrip: 162 * ms, Up: one(30*ms, 50*ms, ms), Down: one(30*ms, 50*ms, ms)},
		{Name: "up -50 ms", Change: at, RoundTrip: 62 * ms, Up: one(80*ms, -50*ms, ms), Down: path(ms)},
		{Name: "jitter 5 ms", Steady: true, Up: path(5 * ms), Down: path(5 * ms)},
		{Name: "jitter 10 ms", Steady: true, Up: path(10 * ms), Down: path(10 * ms)},
		{Name: "jitter 20 ms", Steady: true, Up: path(20 * ms), Down: path(20 * ms)},
		{Name: "bursts of 300 ms", Up: bursts, Down: bursts},
		{Name: "loss of 5 %", Steady: true, Up: lossy, Down: lossy},
		{Name: "server at 90 %", Slow: true, Change: at + 20*second, RoundTrip: 62 * ms, Up: path(ms), Down: path(ms)},
	}
}

// stops lets a path stop for a while at the end of each period: what is sent meanwhile arrives
// at the end.
func stops(period, lasting time.Duration) sim.Delay {
	return func(_ *rand.Rand, t time.Duration) time.Duration {
		if left := period - t%period; left <= lasting {
			return left
		}
		return 0
	}
}

// steady are the worlds of package sim whose delays and clocks stay as they are.
var steady = []string{
	"ideal", "wander", "smalljitter", "mediumjitter", "largejitter", "cellular", "gammajitter", "wifi",
	"asymjitter", "asympath", "reorder", "wrap", "packetloss",
	"pairs", "bundles-4ms", "bundles-20ms", "lasting-30ms", "lasting-50ms", "lasting-100ms",
}

// Worlds returns all worlds: those in which something happens to inputs, and those of package sim,
// with a datagram each tick.
func Worlds() (worlds []World) {
	quartz := func(ppm float64) func(uint64) sim.ClockSpec {
		return func(seed uint64) sim.ClockSpec {
			return sim.ClockSpec{OffsetUsec: seed * 0x9e3779b97f4a7c15 >> 20, SkewPPM: ppm}
		}
	}
	for _, w := range changing() {
		w.Length, w.Client, w.Server = 120*second, quartz(20), quartz(-20)
		worlds = append(worlds, w)
	}
	for _, s := range sim.Scenarios() {
		if (s.RateAB != 0 || s.RateBA != 0 || s.SendAB != nil) && s.Name != "pairs" {
			continue // the delays are those of another
		}
		worlds = append(worlds, World{Name: s.Name, Length: s.Duration, Client: s.A, Server: s.B, Up: s.AB, Down: s.BA,
			Asleep: s.Off, Steady: slices.Contains(steady, s.Name)})
	}
	return worlds
}
