// SPDX-License-Identifier: BSD-3-Clause

package authorbench

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
)

// World is a scenario played with one seed. Times within are true time in microseconds.
type World struct {
	sim.Ends
	sc     *Scenario
	clocks [2]*clock
	ways   [2]way
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
	w.clocks[sim.A].noise, w.clocks[sim.B].noise = w.stream("noise A"), w.stream("noise B")
	w.ways = w.newWays("")
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

// way is one direction with random numbers of its own.
type way struct {
	link *simnet.Link
	path *path
	r    *rand.Rand
}

// send returns when the copies of a message sent at t arrive.
func (w *way) send(t time.Duration) []time.Duration { return slices.Clone(w.link.Arrivals(w.r, t)) }

// newWays returns both directions.
func (w *World) newWays(name string) (ways [2]way) {
	for i, direction := range []string{"A to B", "B to A"} {
		p := &path{pathSpec: &w.sc.Paths[i]}
		ways[i] = way{link: p.link(), path: p, r: w.stream(name + direction)}
	}
	return ways
}

func usec(t int64) time.Duration { return time.Duration(t) * time.Microsecond }

// Run plays the world: every pair sees the same stamps and times of receipt. Errors are
// modulo 67.1 s, and nothing is taken off for unequal paths. The packets do not depend on the
// methods. A world is run once.
func (w *World) Run(pairs []sim.Pair, obs sim.Observer) {
	w.Pairs, w.Observer = pairs, obs
	repeated := []struct {
		every int64 // us
		do    func(side sim.Side, t time.Duration)
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
					r.do(side, usec(t))
				}
				next = min(next, t+r.every-t%r.every)
			}
		}
		t = next
	}
	w.events.Run(usec(end))
}

func (w *World) poll(side sim.Side, t time.Duration) {
	o, truth := observed(side, t, w.clocks[side].Usec(t)), w.clocks[1-side].Usec(t)
	w.events.At(t, func() { w.Ask(o, truth) })
}

func (w *World) sendData(side sim.Side, t time.Duration) {
	way, ts := &w.ways[side], w.clocks[side].Usec(t)
	if q := way.path.Corrupt.Probability; q != 0 && way.r.Float64() < q {
		ts += uint64(int64(way.path.Corrupt.Added))
	}
	w.arrives(side, t, func(o sim.Observation) { w.Datagram(o, sim.Stamp(ts), o.At-t) })
}

func (w *World) sendReport(side sim.Side, t time.Duration) {
	var reports map[int]uint32
	local := w.clocks[side].Usec(t)
	w.events.At(t, func() { reports = w.Reports(side, local) })
	w.arrives(side, t, func(o sim.Observation) { w.Told(o.Side, o.LocalUsec, reports) })
}

// arrives plans what happens where a message arrives that is sent from side at t.
func (w *World) arrives(side sim.Side, t time.Duration, happens func(o sim.Observation)) {
	other := 1 - side
	for _, at := range w.ways[side].send(t) {
		o := observed(other, at, w.clocks[other].Received(at))
		w.events.At(at, func() { happens(o) })
	}
}

func observed(side sim.Side, t time.Duration, local uint64) sim.Observation {
	return sim.Observation{Side: side, At: t, LocalUsec: local}
}

// pinging returns what sends requests. They and the responses go besides, on paths with random
// numbers of their own: the other packets are the same without them.
func (w *World) pinging() func(side sim.Side, t time.Duration) {
	requests, responses := w.newWays("request "), w.newWays("response ")
	noise := w.stream("noise of pings")
	// received reads a clock with noise of its own.
	received := func(side sim.Side, t time.Duration) uint64 {
		c := *w.clocks[side]
		c.noise = noise
		return c.Received(t)
	}
	return func(side sim.Side, t time.Duration) {
		other := 1 - side
		for _, there := range requests[side].send(t) {
			t1, t2 := w.clocks[side].Usec(t), received(other, there)
			for _, back := range responses[other].send(there) {
				t4 := received(side, back)
				answered := func() { w.Exchange(side, t1, t2, t2, t4) }
				// Planned again at that time, it comes after what else happens then.
				w.events.At(back, func() { w.events.At(back, answered) })
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
