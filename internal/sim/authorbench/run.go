// SPDX-License-Identifier: BSD-3-Clause

package authorbench

import (
	"math"
	"math/rand/v2"
	"time"

	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
)

// World is a scenario played with one seed. Times within are true time in microseconds.
type World struct {
	sim.Ends
	sc     *Scenario
	clocks [2]*clock
	noise  [2]*rand.Rand
	paths  [2]*path
	events *simnet.World
}

// New prepares a world.
func New(sc *Scenario, seed uint64, mode Mode) *World {
	w := &World{sc: sc, events: simnet.NewWorld(seed)}
	world := w.stream("world")
	skew := 0.0
	if mode.Skewed {
		lo, hi := 25.0, 100.0
		if world.Float64() < 0.25 {
			lo, hi = 100, 400
		}
		skew = lo * math.Pow(hi/lo, world.Float64()) * float64(1-2*world.IntN(2))
	}
	w.clocks = [2]*clock{
		newClock(&sc.Clocks[0], w.stream("clock A"), sc, mode, skew),
		newClock(&sc.Clocks[1], w.stream("clock B"), sc, mode, -skew),
	}
	if s := sc.RandomStep; s != nil {
		at := (s.At[0] + (s.At[1]-s.At[0])*world.Float64()) * 1e6
		by := (s.Delta[0] + (s.Delta[1]-s.Delta[0])*world.Float64()) * 1e6
		side := sim.B
		if s.Side != "B" && world.IntN(2) == 0 {
			side = sim.A
		}
		w.clocks[side].set = step{math.Floor(at), math.Floor(by)}
	}
	w.noise = [2]*rand.Rand{w.stream("noise A"), w.stream("noise B")}
	w.paths = w.newPaths("")
	return w
}

// stream returns a random generator of its own for a name.
func (w *World) stream(name string) *rand.Rand { return w.events.Rand(w.sc.Name + "/" + name) }

// Warmup is what the benchmark does not look at: the first 2 s, or a tenth of a short run.
func (s *Scenario) Warmup() time.Duration {
	if d := time.Duration(s.Duration * float64(time.Second)); d < 4*time.Second {
		return d / 10
	}
	return 2 * time.Second
}

// received returns what an end's clock reads when something arrives.
func (w *World) received(side sim.Side, at int64, r *rand.Rand) uint64 {
	c := w.clocks[side]
	return c.usec(at, c.Noise.draw(r))
}

// newPaths returns both directions with random numbers of their own.
func (w *World) newPaths(name string) [2]*path {
	return [2]*path{
		{pathSpec: &w.sc.Paths[0], r: w.stream(name + "A to B")},
		{pathSpec: &w.sc.Paths[1], r: w.stream(name + "B to A")},
	}
}

func usec(t int64) time.Duration { return time.Duration(t) * time.Microsecond }

// Run plays the world: every pair sees the same stamps and times of receipt. Errors are
// modulo 67.1 s, and nothing is taken off for unequal paths. The packets do not depend on the
// methods. A world is run once.
func (w *World) Run(pairs []sim.Pair, obs sim.Observer) {
	w.Pairs, w.Observer = pairs, obs
	repeated := []struct {
		every int64 // us
		do    func(side sim.Side, t int64)
	}{
		{int64(math.Round(1e6 / w.sc.DataRate)), w.sendData},
		{int64(math.Round(w.sc.ReportEvery * 1e6)), w.sendReport},
		{int64(math.Round(1e6 / w.sc.PollRate)), w.poll},
		{1e6 / 4, w.pinging()},
	}
	end := int64(w.sc.Duration * 1e6)
	for t := int64(0); t <= end; {
		w.events.Run(usec(t) - 1)
		next := end + 1
		for side := range sim.Side(2) {
			for _, r := range repeated {
				if t%r.every == 0 {
					r.do(side, t)
				}
				next = min(next, t+r.every-t%r.every)
			}
		}
		t = next
	}
	w.events.Run(usec(end))
}

func (w *World) poll(side sim.Side, t int64) {
	o, truth := observed(side, t, w.clocks[side].usec(t, 0)), w.clocks[1-side].usec(t, 0)
	w.events.At(o.At, func() { w.Ask(o, truth) })
}

func (w *World) sendData(side sim.Side, t int64) {
	p, ts := w.paths[side], w.clocks[side].usec(t, 0)
	if q := p.Corrupt.Probability; q != 0 && p.r.Float64() < q {
		ts += uint64(int64(p.Corrupt.Added))
	}
	w.arrives(side, t, func(o sim.Observation) { w.Datagram(o, sim.Stamp(ts), o.At-usec(t)) })
}

func (w *World) sendReport(side sim.Side, t int64) {
	var reports map[int]uint32
	local := w.clocks[side].usec(t, 0)
	w.events.At(usec(t), func() { reports = w.Reports(side, local) })
	w.arrives(side, t, func(o sim.Observation) { w.Told(o.Side, o.LocalUsec, reports) })
}

// arrives plans what happens where a message arrives that is sent from side at t.
func (w *World) arrives(side sim.Side, t int64, happens func(o sim.Observation)) {
	other := 1 - side
	for _, at := range w.paths[side].send(t) {
		o := observed(other, at, w.received(other, at, w.noise[other]))
		w.events.At(o.At, func() { happens(o) })
	}
}

func observed(side sim.Side, t int64, local uint64) sim.Observation {
	return sim.Observation{Side: side, At: usec(t), LocalUsec: local}
}

// pinging returns what sends requests. They and the responses go besides, on paths with random
// numbers of their own: the other packets are the same without them.
func (w *World) pinging() func(side sim.Side, t int64) {
	requests, responses := w.newPaths("request "), w.newPaths("response ")
	noise := w.stream("noise of pings")
	return func(side sim.Side, t int64) {
		other := 1 - side
		for _, there := range requests[side].send(t) {
			t1, t2 := w.clocks[side].usec(t, 0), w.received(other, there, noise)
			for _, back := range responses[other].send(there) {
				t4 := w.received(side, back, noise)
				answered := func() { w.Exchange(side, t1, t2, t2, t4) }
				// Planned again at that time, it comes after what else happens then.
				w.events.At(usec(back), func() { w.events.At(usec(back), answered) })
			}
		}
	}
}

// ClockEvents returns when clocks are set, or change their rate at once.
func (w *World) ClockEvents() (all []time.Duration) {
	add := func(is float64, seconds ...float64) {
		for _, s := range seconds {
			if is != 0 {
				all = append(all, time.Duration(s*float64(time.Second)))
			}
		}
	}
	for _, c := range w.clocks {
		add(c.set.Delta, c.set.At/1e6)
		add(c.SkewStep.Delta, c.SkewStep.At)
		add(c.Ramp.Rate, c.Ramp.Start)
		add(c.Freeze.To, c.Freeze.From, c.Freeze.To)
	}
	return all
}
