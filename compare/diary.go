// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"timesync/internal/rivals"
	"timesync/internal/sim"
)

// moment is what end A of one world thought, and what was true.
type moment struct {
	at       float64 // s
	err      float64 // of this package's answer, us
	original float64 // of the original's
	bound    float64 // us
	truth    float64 // the offset modulo 2^26, us
	in       inside
}

// diary is how a world went at end A.
type diary struct {
	moments  []moment
	fastest  [2]plotter.XYs // of each 0.2 s and each end: when, and how long under way, ms
	told     events
	seen     []time.Duration // when the package counted a step
	from, to float64         // s
}

// keep plays a world and writes the diary.
func keep(w world, seed uint64) *diary {
	d := &diary{told: w.events(seed)}
	us := [2]*subject{new(subject), new(subject)}
	o := new(oracle)
	var original float64 // error of its last answer
	w.play(seed, []sim.Pair{
		{A: new(rivals.Original), B: new(rivals.Original)},
		{A: us[sim.A], B: us[sim.B]},
		{A: &o.ends[sim.A], B: &o.ends[sim.B]},
	}, sim.Observer{
		Poll: func(o *sim.Observation) {
			switch {
			case o.Side != sim.A:
			case o.Pair == 0:
				original = answer(o)
			case o.Pair == 1:
				d.note(us[sim.A], o, original)
			}
		},
		OWD: func(obs *sim.Observation) {
			if obs.Pair == 2 {
				d.arrive(obs)
			}
		},
	})
	return d
}

// answer returns the error of an answer, NaN if there was none.
func answer(o *sim.Observation) float64 {
	if !o.OK {
		return math.NaN()
	}
	return o.ErrUsec
}

// note writes down what the package thinks.
func (d *diary) note(s *subject, o *sim.Observation, original float64) {
	in, ok := s.inside(o.LocalUsec)
	if !ok || !o.OK {
		return
	}
	guess, _ := s.RemoteTime(o.LocalUsec, o.LocalUsec)
	bound, _ := s.ErrorBound(o.LocalUsec)
	m := moment{at: o.At.Seconds(), err: o.ErrUsec, original: original, bound: float64(bound) / 1e3, in: in}
	m.truth = float64(int64(guess-o.LocalUsec)) - o.ErrUsec
	if n := len(d.moments); n > 0 && in.steps > d.moments[n-1].in.steps {
		d.seen = append(d.seen, o.At)
	}
	d.moments = append(d.moments, m)
	d.to = m.at
}

// arrive writes down how long a datagram was under way: the oracle says none at all, and its
// error is that.
func (d *diary) arrive(o *sim.Observation) {
	const span = 0.2 // s
	x := plotter.XY{X: o.At.Seconds(), Y: -o.ErrUsec / 1e3}
	f := &d.fastest[o.Side]
	if n := len(*f); n > 0 && math.Floor((*f)[n-1].X/span) == math.Floor(x.X/span) {
		if x.Y < (*f)[n-1].Y {
			(*f)[n-1] = x
		}
		return
	}
	*f = append(*f, x)
}

// cut keeps what happened from the time from to the time to, s; to 0 is the end of the world.
func (d *diary) cut(from, to float64) {
	if d.from = from; to > from {
		d.to = min(d.to, to)
	}
	outside := func(at float64) bool { return at < d.from || at > d.to }
	d.moments = slices.DeleteFunc(d.moments, func(m moment) bool { return outside(m.at) })
	for i := range d.fastest {
		d.fastest[i] = slices.DeleteFunc(d.fastest[i], func(p plotter.XY) bool { return outside(p.X) })
	}
}

// line returns the curve of something over time.
func (d *diary) line(name string, c color.Color, width vg.Length, value func(m *moment) float64) curve {
	return curve{name: name, color: c, width: width, parts: overTime(len(d.moments), 2, func(i int) (x, y float64) {
		return d.moments[i].at, value(&d.moments[i])
	})}
}

// circle returns v the shorter way round a ring of 2^bits us: offsets have 26, round trips 27.
func circle(v float64, bits uint) float64 { return math.Remainder(v, float64(uint64(1)<<bits)) }

// plotWorld draws one world from the time from to the time to, s; to 0 is its end.
func plotWorld(name, traces string, seed uint64, from, to float64, out string) error {
	w, err := find(name, traces)
	if err != nil {
		return err
	}
	d := keep(w, seed)
	if len(d.moments) == 0 {
		return fmt.Errorf("%s: this package never answered", name)
	}
	if d.cut(from, to); len(d.moments) == 0 {
		return fmt.Errorf("%s: nothing is asked from %g s to %g s", name, from, to)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	path := filepath.Join(out, fmt.Sprintf("world-%s-%d.png", name, seed))
	if err := d.draw(path, fmt.Sprintf("%s, seed %d, end A", name, seed)); err != nil {
		return err
	}
	var errs, others []float64
	for _, m := range d.moments {
		errs, others = append(errs, math.Abs(m.err)), append(others, math.Abs(m.original))
	}
	fmt.Printf("%s: error p50 %s, p99 %s, max %s (the original's p99 %s), %d steps counted\n", path, micros(quantileOf(errs, 0.5)),
		micros(quantileOf(errs, 0.99)), micros(quantileOf(errs, 1)), micros(quantileOf(others, 0.99)), len(d.seen))
	return nil
}

// stateCurves returns what both kinds of pictures show of the estimator's state, by line.
func stateCurves(line func(name string, c color.Color, width vg.Length, value func(in *inside) float64) curve) (trips, skews []curve) {
	mine, other := methods[ours].color, methods[original].color
	skew := func(sigmas float64) func(in *inside) float64 {
		return func(in *inside) float64 { return in.skew + sigmas*in.skewError }
	}
	return []curve{
			line("both floors", mine, 2, func(in *inside) float64 { return circle(in.own+in.peer, 27) / 1e3 }),
			line("trusted", other, 1.5, func(in *inside) float64 { return in.trip / 1e3 }),
		}, []curve{
			line("skew", mine, 2, skew(0)), line("+ sigma", fade(mine), 1, skew(1)), line("- sigma", fade(mine), 1, skew(-1)),
		}
}

// panels returns what is drawn, from top to bottom.
func (d *diary) panels(title string) []panel {
	mine, other, green, purple := methods[ours].color, methods[original].color, methods[ntp].color, methods[ntp+1].color
	logs := func(f func(m *moment) float64) func(m *moment) float64 {
		return func(m *moment) float64 { return max(math.Abs(f(m)), least) }
	}
	delays := []curve{
		{name: "fastest to A", color: fade(mine), parts: []plotter.XYs{d.fastest[sim.A]}},
		{name: "fastest to B", color: fade(other), parts: []plotter.XYs{d.fastest[sim.B]}},
		d.line("own floor", mine, 2, func(m *moment) float64 { return circle(m.in.own+m.truth, 26) / 1e3 }),
		d.line("peer's floor", other, 2, func(m *moment) float64 { return circle(m.in.peer-m.truth, 26) / 1e3 }),
	}
	trips, skews := stateCurves(func(name string, c color.Color, width vg.Length, value func(in *inside) float64) curve {
		return d.line(name, c, width, func(m *moment) float64 { return value(&m.in) })
	})
	trips = append(trips, d.line("correction", purple, 1.5, func(m *moment) float64 { return m.in.hold / 1e3 }))
	return []panel{
		{title + ": how wrong the answers are", errorAxis("error", 1, 1e8), []curve{
			d.line("error bound", green, 1.2, logs(func(m *moment) float64 { return m.bound })),
			d.line("original", other, 1, logs(func(m *moment) float64 { return m.original })),
			d.line("timesync", mine, 2, logs(func(m *moment) float64 { return m.err })),
		}},
		{"the fastest datagrams of each 0.2 s, and the floors below them, at the true offset", fitted("delay, ms", delays), delays},
		{"what is above the gate is late; what has been late for 10 s lifts the floor", errorAxis("above the floor", 1, 1e7), []curve{
			d.line("last 0.2 s", mine, 1, logs(func(m *moment) float64 { return m.in.low })),
			d.line("gate", other, 1.5, logs(func(m *moment) float64 { return m.in.gate })),
			d.line("late for", purple, 1.5, func(m *moment) float64 { return orNothing(m.in.late) }),
			d.line("noise", green, 1.2, logs(func(m *moment) float64 { return m.in.noise })),
		}},
		{"the sum of both floors, the round trip at which the offset is known, and the correction for a path that changed", fitted("round trip, ms", trips), trips},
		{"the skew that the line knows", fitted("skew, ppm", skews), skews},
	}
}

// orNothing returns v, or NaN for 0, which a logarithmic axis has no place for.
func orNothing(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

// draw draws the panels, with a line where something happens.
func (d *diary) draw(path, title string) error {
	return drawPanels(path, axis{min: d.from, max: d.to,
		label: "seconds since the start; vertical: a clock is set (orange), a path changes (grey), a step is counted (blue)"}, d.panels(title), func(f frame) {
		for _, m := range []struct {
			at []time.Duration
			c  color.Color
		}{{d.told.paths, screen.soft}, {d.told.clocks, methods[original].color}, {d.seen, methods[ours].color}} {
			for _, t := range m.at {
				if x := t.Seconds(); x >= d.from && x <= d.to {
					f.vertical(x, draw.LineStyle{Color: fade(m.c), Width: 1, Dashes: []vg.Length{4, 3}}) // an axis without a range has no place for it
				}
			}
		}
	})
}
