// SPDX-License-Identifier: BSD-3-Clause

// Two ends on a simulated path, for the tests of quiet ends.
package link_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"timesync/internal/sim"
	"timesync/link"
)

// wire is two ends with clocks of quartz, 40 ppm apart, and 20 ms of path with exponential
// jitter. Each end sends at a rate of its own. Times are true.
type wire struct {
	links  [2]link.Link
	clocks [2]*sim.Clock
	rates  [2]float64 // datagrams a second
	out    [2]*sim.Link
	rng    *rand.Rand
	now    time.Duration
	events []wireEvent
	asked  func(side int)
	sent   func(side int, local uint64, header []byte) []byte                          // what leaves instead of a header
	came   func(side int, local uint64, header []byte)                                 // hears what arrives
	opened func(side int, local uint64, payload []byte, owd time.Duration, known bool) // and what came of it
	read   func(side int, local uint64) uint64                                         // what an end takes its clock for
}

type wireEvent struct {
	at       time.Duration
	side     int // whose event it is
	datagram []byte
	ask      bool
}

// add keeps the events in the order of time.
func (w *wire) add(e wireEvent) {
	i, _ := slices.BinarySearchFunc(w.events, e.at, func(e wireEvent, at time.Duration) int { return cmp.Compare(e.at, at) })
	w.events = slices.Insert(w.events, i, e)
}

const askEvery = 50 * time.Millisecond

// newWire steps the clock of one end by step, at time at.
func newWire(seed uint64, rates [2]float64, jitter time.Duration, stepped int, at, step time.Duration) *wire {
	w := &wire{
		rates: rates, rng: rand.New(rand.NewPCG(seed, 'q')),
		asked:  func(int) {},
		sent:   func(_ int, _ uint64, header []byte) []byte { return header },
		came:   func(int, uint64, []byte) {},
		opened: func(int, uint64, []byte, time.Duration, bool) {},
		read:   func(_ int, local uint64) uint64 { return local },
	}
	for side := range w.clocks {
		spec := sim.ClockSpec{OffsetUsec: w.rng.Uint64(), SkewPPM: 20 - 40*float64(side), SinePPM: 2, SinePeriod: 15 * time.Minute,
			SinePhase: 2 * math.Pi * w.rng.Float64(), WanderPPM: 0.01}
		if step != 0 && side == stepped {
			spec.Events = []sim.ClockEvent{{At: at, Step: step}}
		}
		w.clocks[side] = sim.NewClock(spec, w.rng.Uint64())
		w.out[side] = &sim.Link{Base: sim.Fixed(20 * time.Millisecond), Delay: sim.Exp(jitter)}
		first := time.Duration(w.rng.Float64() / rates[side] * float64(time.Second))
		w.add(wireEvent{at: first, side: side})
		w.add(wireEvent{at: askEvery, side: side, ask: true})
	}
	return w
}

func (w *wire) run(until time.Duration) {
	for w.events[0].at < until {
		e := w.events[0]
		w.events = w.events[1:]
		w.now = e.at
		local := w.read(e.side, w.clocks[e.side].Usec(e.at))
		switch {
		case e.ask:
			w.asked(e.side)
			e.at += askEvery
			w.add(e)
		case e.datagram != nil:
			w.came(e.side, local, e.datagram)
			payload, owd, known, _ := w.links[e.side].Open(e.datagram, local)
			w.opened(e.side, local, payload, owd, known)
		default:
			header := w.sent(e.side, local, w.links[e.side].AppendHeader(nil, local))
			for _, at := range w.out[e.side].Arrivals(w.rng, e.at) {
				w.add(wireEvent{at: at, side: 1 - e.side, datagram: header})
			}
			e.at += time.Duration(float64(time.Second) / w.rates[e.side])
			w.add(e)
		}
	}
}

// err is how far an end's idea of the other's clock is off, in microseconds.
func (w *wire) err(side int) (usec float64, ok bool) {
	remote, ok := w.links[side].RemoteTime(w.clocks[side].Usec(w.now))
	return math.Abs(float64(int64(remote - w.clocks[1-side].Usec(w.now)))), ok
}
