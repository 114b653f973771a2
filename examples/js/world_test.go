// SPDX-License-Identifier: BSD-3-Clause

package js

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim"
	"timesync/internal/stat"
)

// happening is what happens to an end at a time.
type happening struct {
	at    time.Duration
	side  int
	step  time.Duration // its clock is set by so much
	fresh bool          // or it starts anew
}

// outcome is what an end knew: errors and bounds in us, from 15 s after the start and each happening
// on, as the bound asks for.
type outcome struct {
	errs, bounds []float64
	wrong        int // bounds
	// heals is for how long it was wrong by over 2 ms after a happening.
	heals time.Duration
	// low is how far a report of quality 1 that came was below the peer's floor, us.
	low float64
}

func (o *outcome) add(p outcome) {
	o.errs, o.bounds = append(o.errs, p.errs...), append(o.bounds, p.bounds...)
	o.wrong += p.wrong
	o.heals, o.low = max(o.heals, p.heals), max(o.low, p.low)
}

func (o outcome) p99() float64 { return stat.Quantile(o.errs, .99) }

func (o outcome) String() string {
	return fmt.Sprintf("error median %.0f, p99 %.0f us; bound median %.1f, p99 %.1f ms; %d of %d bounds wrong; right after %.2f s; heard floors at most %.0f us too low",
		stat.Quantile(o.errs, .5), o.p99(), stat.Quantile(o.bounds, .5)/1e3, stat.Quantile(o.bounds, .99)/1e3, o.wrong, len(o.errs), o.heals.Seconds(), o.low)
}

const (
	settles   = 15 * time.Second
	askAt     = 50 * time.Millisecond
	pathDelay = 10 * time.Millisecond
)

// world is two ends, sides 0 and 1, on a bad path in simulated time: 10 ms and exponential 5 ms each
// way, 2 % loss; the clocks are 40 ppm apart.
type world struct {
	*sim.World
	rng     *rand.Rand
	ends    [2]end
	clocks  [2]*sim.Clock
	ways    [2]*sim.Link
	every   time.Duration // between two datagrams of an end
	happens []happening
	last    time.Duration // when something happened, or the start
	out     [2]outcome
}

// session lets two ends talk.
func session(seed uint64, rate float64, lasts time.Duration, ends [2]end, happens ...happening) [2]outcome {
	w := &world{World: sim.NewWorld(seed), rng: rand.New(rand.NewPCG(seed, 'j')), ends: ends, happens: happens}
	w.every = time.Duration(float64(time.Second) / rate)
	for _, h := range happens {
		w.At(h.at, func() {
			if w.last = h.at; h.fresh {
				ends[h.side].anew()
			}
		})
	}
	w.Every(askAt, askAt, w.ask)
	for side := range ends {
		w.begin(side)
	}
	for side := range ends {
		w.At(time.Duration(w.rng.Float64()*float64(w.every)), func() { w.send(side) })
	}
	w.Run(lasts)
	return w.out
}

// begin makes an end's clock and the way from it.
func (w *world) begin(side int) {
	spec := sim.ClockSpec{OffsetUsec: w.rng.Uint64(), SkewPPM: 20 - 40*float64(side), SinePPM: 2, SinePeriod: 15 * time.Minute,
		SinePhase: 2 * math.Pi * w.rng.Float64(), WanderPPM: 0.01}
	for _, h := range w.happens {
		if h.side == side && h.step != 0 {
			spec.Events = append(spec.Events, sim.ClockEvent{At: h.at, Step: h.step})
		}
	}
	w.clocks[side] = sim.NewClock(spec, w.rng.Uint64())
	w.ways[side] = &sim.Link{Base: sim.Fixed(pathDelay), Delay: sim.Exp(5 * time.Millisecond),
		Loss: func(r *rand.Rand, _ time.Duration) bool { return r.Float64() < 0.02 }}
	w.ends[side].anew()
}

// ask asks both ends what they know.
func (w *world) ask() {
	at := w.Now()
	for side, e := range w.ends {
		o := &w.out[side]
		remote, bound, ok := e.read(w.clocks[side].Usec(at))
		err := math.Abs(float64(int64(remote - w.clocks[1-side].Usec(at))))
		if !ok || err > 2000 {
			o.heals = max(o.heals, at-w.last)
		}
		if at < w.last+settles {
			continue
		}
		o.errs, o.bounds = append(o.errs, err), append(o.bounds, bound)
		if !ok || err > bound {
			o.wrong++
		}
	}
}

// send sends a datagram of an end, and the next ones.
func (w *world) send(side int) {
	header := w.ends[side].send(w.clocks[side].Usec(w.Now()))
	for _, at := range w.ways[side].Arrivals(w.rng, w.Now()) {
		w.At(at, func() { w.arrive(1-side, header) })
	}
	w.At(w.Now()+w.every, func() { w.send(side) })
}

func (w *world) arrive(side int, datagram []byte) {
	now, o := w.clocks[side].Usec(w.Now()), &w.out[side]
	if w.last == 0 || w.Now() > w.last+settles {
		floor := uint64(pathDelay.Microseconds()) + w.clocks[1-side].Usec(w.Now()) - now
		o.low = max(o.low, lacking(datagram, floor))
	}
	w.ends[side].open(datagram, now)
}

// lacking returns how far a report of quality 1 is below the floor, both in us, or 0 if there is none.
func lacking(datagram []byte, floor uint64) float64 {
	if datagram[0]&1 == 0 {
		return 0
	}
	report := uint64(timesync.ReadCounter24(datagram[4:]))
	if report%3 != 1 {
		return 0
	}
	return float64(int64((floor-8*report)<<37) >> 37) // modulo 2^27
}

// courses are what happens in a session.
var courses = []struct {
	name    string
	happens []happening
}{
	{"calm", nil},
	{"js restarts", []happening{{at: 30 * time.Second, side: 0, fresh: true}}},
	{"go restarts", []happening{{at: 30 * time.Second, side: 1, fresh: true}}},
	{"js is set ahead", []happening{{at: 30 * time.Second, side: 0, step: 2 * time.Second}}},
	{"go is set back", []happening{{at: 30 * time.Second, side: 1, step: -2 * time.Second}}},
	{"js is set back by 15 ms", []happening{{at: 30 * time.Second, side: 0, step: -15 * time.Millisecond}}},
	{"js is set back by 1000 s", []happening{{at: 30 * time.Second, side: 0, step: -1000 * time.Second}}},
	{"go is set ahead by 15 ms", []happening{{at: 30 * time.Second, side: 1, step: 15 * time.Millisecond}}},
}

// TestBesideGo: beside a JavaScript end, a Go end knows the time as beside a Go end, and the
// JavaScript end hardly less well, also where either starts anew or its clock is set.
func TestBesideGo(t *testing.T) {
	javascript := newJSEnd(t)
	if testing.Short() {
		*seeds = 1
	}
	for i, rate := range []float64{60, 4} {
		limit := [2]float64{250, 400}[i] // us; a Go end beside Go has about 30 and 300
		var js, besideJS, besideGo outcome
		for _, c := range courses {
			var here [3]outcome
			for seed := *first; seed < *first+*seeds; seed++ {
				mixed := session(seed, rate, 100*time.Second, [2]end{javascript, &goEnd{}}, c.happens...)
				alike := session(seed, rate, 100*time.Second, [2]end{&goEnd{}, &goEnd{}}, c.happens...)
				here[0].add(mixed[0])
				here[1].add(mixed[1])
				here[2].add(alike[1])
			}
			t.Logf("%g/s, %s, seeds from %d:\n  js %v\n  go %v\n  go beside go %v", rate, c.name, *first, here[0], here[1], here[2])
			js.add(here[0])
			besideJS.add(here[1])
			besideGo.add(here[2])
		}
		t.Logf("%g/s, all:\n  js %v\n  go %v\n  go beside go %v", rate, js, besideJS, besideGo)
		for _, bad := range judge(js, besideJS, besideGo, limit) {
			t.Errorf("%g/s: %s", rate, bad)
		}
	}
}

// judge says what is wrong with what a JavaScript end and a Go end knew beside each other, where a Go
// end beside a Go end knew besideGo. limit is for the JavaScript end's p99, us.
func judge(js, besideJS, besideGo outcome, limit float64) (bad []string) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Sprintf(format, args...))
		}
	}
	most := 1.3*besideGo.p99() + 50
	check(besideJS.p99() <= most, "the Go end's p99 is above %.0f us", most)
	check(js.p99() <= max(limit, most), "the JavaScript end's p99 is above %.0f us", max(limit, most))
	wide, beside := stat.Quantile(besideGo.bounds, .99)/1e3, stat.Quantile(besideJS.bounds, .99)/1e3
	check(wide <= 1.3*beside, "beside Go, the bound of a Go end is %.1f ms; beside JavaScript %.1f ms", wide, beside)
	low := max(js.low, besideJS.low)
	check(low <= 100+20, "a report of quality 1 was %.0f us too low", low) // 20: its rounding, and its way
	check(js.wrong == 0 && besideJS.wrong <= besideGo.wrong, "a bound is wrong")
	longest := max(5*time.Second, besideGo.heals+time.Second)
	check(max(js.heals, besideJS.heals) <= longest, "it takes over %v after something happened", longest)
	return bad
}
