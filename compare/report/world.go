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

	"timesync"
	"timesync/compare/graph"
	"timesync/compare/play"
	"timesync/internal/rivals"
	"timesync/internal/sim"
	"timesync/internal/stat"
)

// moment is what end A of one world thought, and what was true.
type moment struct {
	at       float64 // s
	err      float64 // of this package's answer, us
	original float64 // of the original's
	known    timesync.Snapshot
}

// diary is how a world went at end A.
type diary struct {
	moments  []moment
	fastest  [2]plotter.XYs // of each 0.2 s and each end: when, and how long under way, ms
	told     play.Events
	seen     []time.Duration // when the package counted a step
	from, to float64         // s
}

// keep plays a world and writes the diary.
func keep(w play.World, seed uint64) *diary {
	d := &diary{told: w.Events(seed)}
	us := [2]*play.Subject{new(play.Subject), new(play.Subject)}
	o := new(play.Oracle)
	var original float64 // error of its last answer
	w.Play(seed, []sim.Pair{
		{A: new(rivals.Original), B: new(rivals.Original)},
		{A: us[sim.A], B: us[sim.B]},
		{A: &o.Ends[sim.A], B: &o.Ends[sim.B]},
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
func (d *diary) note(s *play.Subject, o *sim.Observation, original float64) {
	known, ok := s.Sync.Snapshot(o.LocalUsec)
	if !ok || !o.OK {
		return
	}
	m := moment{at: o.At.Seconds(), err: o.ErrUsec, original: original, known: known}
	if n := len(d.moments); n > 0 && known.Steps > d.moments[n-1].known.Steps {
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
func (d *diary) line(name string, c color.Color, width vg.Length, value func(m *moment) float64) graph.Curve {
	return graph.Curve{Name: name, Color: c, Width: width, Parts: graph.OverTime(len(d.moments), 2, func(i int) (x, y float64) {
		return d.moments[i].at, value(&d.moments[i])
	})}
}

// plotWorld draws one world from the time from to the time to, s; to 0 is its end.
func plotWorld(name, traces string, seed uint64, from, to float64, out string) error {
	w, err := play.Find(name, traces)
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
	fmt.Printf("%s: error p50 %s, p99 %s, max %s (the original's p99 %s), %d steps counted\n", path, graph.Micros(stat.OrNaN(errs, 0.5)),
		graph.Micros(stat.OrNaN(errs, 0.99)), graph.Micros(stat.OrNaN(errs, 1)), graph.Micros(stat.OrNaN(others, 0.99)), len(d.seen))
	return nil
}

// panels returns what is drawn, from top to bottom.
func (d *diary) panels(title string) []graph.Panel {
	mine, other, green := play.ColorOf(play.Ours), play.ColorOf(play.Original), play.ColorOf(play.NTP)
	logs := func(f func(m *moment) float64) func(m *moment) float64 {
		return func(m *moment) float64 { return max(math.Abs(f(m)), play.Least) }
	}
	delays := []graph.Curve{
		{Name: "fastest to A", Color: graph.Fade(mine), Parts: []plotter.XYs{d.fastest[sim.A]}},
		{Name: "fastest to B", Color: graph.Fade(other), Parts: []plotter.XYs{d.fastest[sim.B]}},
		d.line("own floor", mine, 2, func(m *moment) float64 { return graph.Millis(m.known.MinimumOneWayDelay) - m.err/1e3 }),
		d.line("peer's floor", other, 2, func(m *moment) float64 { return graph.Millis(m.known.MinimumDelayToPeer) + m.err/1e3 }),
	}
	trips := []graph.Curve{d.line("both floors", mine, 2, func(m *moment) float64 { return graph.Millis(m.known.MinimumOneWayDelay + m.known.MinimumDelayToPeer) })}
	skew := func(errors float64) func(m *moment) float64 {
		return func(m *moment) float64 { return m.known.Skew + errors*m.known.SkewError }
	}
	skews := []graph.Curve{d.line("skew", mine, 2, skew(0)), d.line("+ error", graph.Fade(mine), 1, skew(1)), d.line("- error", graph.Fade(mine), 1, skew(-1))}
	return []graph.Panel{
		{Title: title + ": how wrong the answers are", Y: graph.ErrorAxis("error", 1, 1e8), Curves: []graph.Curve{
			d.line("error bound", green, 1.2, logs(func(m *moment) float64 { return 1e3 * graph.Millis(m.known.ErrorBound) })),
			d.line("original", other, 1, logs(func(m *moment) float64 { return m.original })),
			d.line("timesync", mine, 2, logs(func(m *moment) float64 { return m.err })),
		}},
		{Title: "the fastest datagrams of each 0.2 s, and the floors below them, at the true offset", Y: graph.Fitted("delay, ms", delays), Curves: delays},
		{Title: "the round trip: the sum of both floors", Y: graph.Fitted("round trip, ms", trips), Curves: trips},
		{Title: "the skew, and by how much it may be off", Y: graph.Fitted("skew, ppm", skews), Curves: skews},
	}
}

// draw draws the panels, with a line where something happens.
func (d *diary) draw(path, title string) error {
	return graph.Panels(path, graph.Axis{Min: d.from, Max: d.to,
		Label: "seconds since the start; vertical: a clock is set (orange), a path changes (grey), a step is counted (blue)"}, d.panels(title), func(f graph.Frame) {
		for _, m := range []struct {
			at []time.Duration
			c  color.Color
		}{{d.told.Paths, graph.Screen.Soft}, {d.told.Clocks, play.ColorOf(play.Original)}, {d.seen, play.ColorOf(play.Ours)}} {
			for _, t := range m.at {
				if x := t.Seconds(); x >= d.from && x <= d.to {
					f.Vertical(x, draw.LineStyle{Color: graph.Fade(m.c), Width: 1, Dashes: []vg.Length{4, 3}}) // an axis without a range has no place for it
				}
			}
		}
	})
}
