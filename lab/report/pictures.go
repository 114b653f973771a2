// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"timesync"
	"timesync/internal/sim"
	"timesync/internal/sim/inputs"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
	"timesync/lab/play"
	"timesync/lab/results"
	"timesync/record"
)

// simulated is a world of package sim.
func simulated(name string) play.World {
	return play.SimWorld(sim.ScenarioNamed(name), play.Simulated, 1)
}

// moment is an event without a length.
func moment(at time.Duration, name string) results.Event {
	return results.Event{From: at.Seconds(), To: at.Seconds(), Name: name}
}

// eventsOf returns what happens in a world, for its plot.
func eventsOf(w play.World, seed uint64) (all []results.Event) {
	told := w.Events(seed)
	mark := func(times []time.Duration, name string) {
		for _, at := range slices.Compact(slices.Sorted(slices.Values(times))) {
			all = append(all, moment(at, name))
			name = "" // only the first is named
		}
	}
	mark(told.Clocks, "the clock is set")
	mark(told.Paths, "the path changes")
	if len(told.Paths) > 0 {
		return all // then what is late may be the path
	}
	return append(all, queues(w, seed)...)
}

// queues returns when the fastest datagrams of 0.2 s were 20 ms longer under way than the fastest
// of all, to either end. What lies less than 3 s apart is one; what lasts less than 1 s is none.
func queues(w play.World, seed uint64) (all []results.Event) {
	const span, high, gap = 200 * time.Millisecond, 20 * time.Millisecond, 3 // s
	var o play.Oracle
	o.Play(w, seed)
	var late []time.Duration
	for _, e := range o.Ends {
		fastest := map[time.Duration]time.Duration{}
		least := time.Hour
		for _, x := range e.Points {
			delay := x.At - x.Sent
			at := x.At.Truncate(span)
			if was, ok := fastest[at]; !ok || delay < was {
				fastest[at] = delay
			}
			least = min(least, delay)
		}
		for at, delay := range fastest {
			if delay > least+high {
				late = append(late, at)
			}
		}
	}
	slices.Sort(late)
	for _, at := range late {
		if n := len(all); n > 0 && at.Seconds() < all[n-1].To+gap {
			all[n-1].To = (at + span).Seconds()
		} else {
			all = append(all, results.Event{From: at.Seconds(), To: (at + span).Seconds()})
		}
	}
	return slices.DeleteFunc(all, func(e results.Event) bool { return e.To-e.From < 1 })
}

// taughtChart shows the errors over time in a world: those of the oracle, the original, chronyd
// where it was measured, and ours on top.
func (f *figures) taughtChart(world, title string) *results.Chart {
	w := simulated(world)
	errs := play.Play(w, play.FirstSeed).OverTime()
	for _, s := range f.seconds {
		if s.World == world {
			errs[play.Chronyd] = append(errs[play.Chronyd], plotter.XY{X: float64(s.Second), Y: s.Worst})
		}
	}
	return play.Chart(title, errs, eventsOf(w, play.FirstSeed), 0, len(errs[play.Ours]),
		play.OracleName, play.Original, play.Chronyd, play.Ours)
}

// sweep turns up something step by step in the world of 3 ms of jitter. It shows the two that
// send with each datagram, one that asks, and the oracle.
func sweep(
	title string, x results.Axis, values []float64,
	with func(sc sim.Scenario, v float64) sim.Scenario,
) *results.Chart {
	const seeds = 12
	all := play.Map(values, func(v float64) play.Results {
		sc := sim.ScenarioNamed("mediumjitter")
		sc.Duration = 200 * time.Second
		return play.Measure(play.SimWorld(with(sc, v), play.Simulated, seeds))
	})
	c := &results.Chart{Title: title, X: x, Y: results.ErrorAxis(1e5)}
	for _, column := range []string{play.OracleName, play.Netfox, play.Original, play.Ours} {
		var xys plotter.XYs
		for i, measured := range all {
			xys = append(xys, plotter.XY{X: values[i], Y: testkit.OrNaN(measured[column].Errs, 0.99)})
		}
		c.Curves = append(c.Curves, play.CurveOf(column, xys))
	}
	return c
}

func skewChart() *results.Chart {
	x := results.Axis{
		Label: "how far the rates of the clocks are apart, ppm",
		Max:   1000,
		Ticks: results.TicksAt(0, 100, 200, 300, 500, 700, 1000),
	}
	skews := []float64{0, 25, 50, 100, 200, 300, 500, 700, 1000}
	c := sweep("Error against skew, 99th percentile", x, skews, sim.Scenario.Apart)
	c.Events = []results.Event{{From: 0, To: 100, Name: "two crystals"}}
	return c
}

func rateChart() *results.Chart {
	rates := []float64{1, 2, 3, 5, 10, 20, 30, 60, 120}
	x := results.Axis{
		Label: "datagrams a second each way",
		Log:   true,
		Min:   1,
		Max:   120,
		Ticks: results.TicksAt(rates...),
	}
	with := func(sc sim.Scenario, rate float64) sim.Scenario {
		sc.RateAB, sc.RateBA = rate, rate
		return sc
	}
	return sweep("Error against the rate of datagrams, 99th percentile", x, rates, with)
}

// methodsChart has a row for each method, the best on top: a dot for the p99 in each simulated
// world, and a bar at their mean.
func (f *figures) methodsChart() *results.Chart {
	worlds := f.of(play.Simulated)
	columns := shown()
	slices.SortStableFunc(columns, func(a, b string) int {
		return cmp.Compare(mean(worlds, a), mean(worlds, b))
	})
	c := &results.Chart{
		Title:  "99th percentile of the error in all simulated worlds",
		About:  "a dot for each world, a bar at their geometric mean",
		X:      results.ErrorAxis(1e6),
		Y:      results.Axis{Min: -float64(len(columns)) + 0.5, Max: 0.8},
		Height: 300,
	}
	c.X.Label = "error, less is better (floor: 1 us)"
	for i, column := range columns {
		y := -float64(i)
		at := mean(worlds, column)
		tone := play.ColorOf(column)
		c.Y.Ticks = append(c.Y.Ticks, plot.Tick{Value: y, Label: column})
		var dots plotter.XYs
		for _, w := range worlds {
			if v := w.value(column); !math.IsNaN(v) {
				dots = append(dots, plotter.XY{X: v, Y: y})
			}
		}
		bar := plotter.XYs{{X: at, Y: y - 0.26}, {X: at, Y: y + 0.26}}
		c.Curves = append(c.Curves,
			results.Curve{Color: results.Fade(tone), Dots: 2, Parts: []plotter.XYs{dots}},
			results.Curve{
				Name:  results.Micros(at),
				Color: tone,
				Width: 2.5,
				Parts: []plotter.XYs{bar},
				At:    &plotter.XY{X: at, Y: y + 0.28},
				Above: true,
			})
	}
	return c
}

// busyWorld is that of README's picture: one way has a queue for 150 s.
const busyWorld = "standingqueue"

// busyChart is README's picture: the error of three methods before others fill a queue, meanwhile,
// and after. Its axis is linear, in milliseconds.
func busyChart() *results.Chart {
	const before, after = 40, 30 // s
	w := simulated(busyWorld)
	errs := play.Play(w, play.FirstSeed).OverTime()
	queue := eventsOf(w, play.FirstSeed)[0]
	from, lasts := int(queue.From), int(queue.To)-int(queue.From)
	// ms are the errors of each second, from the left end of the picture on.
	ms := func(column string) (v plotter.XYs) {
		for i, p := range errs[column][from-before : from+lasts+after] {
			v = append(v, plotter.XY{X: float64(i), Y: p.Y / 1e3})
		}
		return v
	}
	highest := func(v plotter.XYs) float64 {
		_, _, _, most := plotter.XYRange(v)
		return most
	}
	top := max(highest(ms(play.Original)), highest(ms(play.NTP)))
	curve := func(column, name string, y float64) results.Curve {
		v := ms(column)
		c := play.CurveOf(column, v)
		c.Name = fmt.Sprintf("%s: %.2g ms off", name, highest(v[before:before+lasts]))
		c.Width = results.Bold
		c.At = &plotter.XY{X: before + 32, Y: y * top}
		return c
	}
	c := &results.Chart{
		Title: "While others fill the queue, timesync still knows the other clock",
		About: "How far off each one has the other computer's clock, on the same path",
		X:     results.Axis{Label: "seconds", Max: float64(before + lasts + after)},
		Y:     results.Axis{Max: 1.35 * top},
		Curves: []results.Curve{
			curve(play.Original, "the C++ original", 0.84),
			curve(play.NTP, "NTP's filter", 1.1),
			curve(play.Ours, "timesync", 0.1),
		},
		Events: []results.Event{
			{From: before, To: float64(before + lasts), Name: "others fill the queue"},
		},
	}
	c.Curves[1].Color = results.RGB(0x2b6b40) // darker: its name stands on grey
	c.Y.Ticks = []plot.Tick{{Value: 0, Label: "0"}}
	for at := 10.0; at < 1.2*top; at += 10 {
		c.Y.Ticks = append(c.Y.Ticks, plot.Tick{Value: at, Label: fmt.Sprintf("%.0f ms", at)})
	}
	return c
}

// inputLooks are how the methods of package inputs are drawn, and how they are turned up.
var inputLooks = []struct {
	label string
	color color.NRGBA
	knobs []float64
}{
	{play.Ours, play.ColorOf(play.Ours), []float64{-2.3, -1, 0, 1, 2, 3, 4.3}},
	{"Unity's Netcode", results.RGB(0xd9480f), []float64{0, 1, 2, 3, 4}},
	{"lightyear", results.RGB(0x2b8a3e), []float64{0, 0.5, 1, 1.5, 2}},
}

// inputChart shows the share of late inputs over the mean lead: each method turned up in the
// world of jitter of 10 ms.
func inputChart() *results.Chart {
	c := &results.Chart{
		Title: "Late inputs against lead",
		X:     results.Axis{Label: "mean lead beyond the delay, ms", Max: 110},
		Y: results.Axis{
			Label: "late inputs, % (floor: 0.01)",
			Log:   true,
			Min:   0.01,
			Max:   20,
			Ticks: results.TicksAt(0.01, 0.1, 1, 10),
		},
	}
	worlds := inputs.Worlds()
	named := func(w inputs.World) bool { return w.Name == "jitter 10 ms" }
	world := worlds[slices.IndexFunc(worlds, named)]
	world.Duration = 60 * time.Second
	for i, looks := range inputLooks {
		var line plotter.XYs
		for _, knob := range looks.knobs {
			r := inputs.Methods[i].At(world, 2*inputSeeds, knob)
			late := max(100*r.Share(), c.Y.Min)
			line = append(line, plotter.XY{X: results.Millis(r.Lead), Y: late})
		}
		c.Curves = append(c.Curves, results.Curve{
			Name:  looks.label,
			Color: looks.color,
			Width: results.Bold,
			Parts: []plotter.XYs{line},
		})
	}
	return c
}

// floorsCharts are the charts of DESIGN.md: what A knows of B while a path and a clock change, on
// a path without noise.
func floorsCharts() []*results.Chart {
	const (
		delay   = 30 * time.Millisecond
		longer  = 20 * time.Millisecond // the path from B to A
		ahead   = 10 * time.Millisecond // B's clock
		changed = 35 * time.Second
		set     = 70 * time.Second
		back    = 95 * time.Second // the path is as before
		lasts   = 120 * time.Second
	)
	toA := simnet.Route(delay,
		simnet.RouteStep{At: changed, Change: longer},
		simnet.RouteStep{At: back, Change: -longer})
	stepped := simnet.ClockSpec{Events: []simnet.ClockEvent{{At: set, Step: ahead}}}
	world := sim.Scenario{
		Duration: lasts,
		RateAB:   20,
		RateBA:   20,
		A:        func(uint64) simnet.ClockSpec { return simnet.ClockSpec{} },
		B:        func(uint64) simnet.ClockSpec { return stepped },
		AB:       func(uint64) *simnet.Link { return &simnet.Link{Base: simnet.Fixed(delay)} },
		BA:       func(uint64) *simnet.Link { return &simnet.Link{Base: toA} },
	}
	var fastest, own, peer, trip, middle, truth, offset plotter.XYs
	a := new(sim.Core)
	poll := func(o *sim.Observation) {
		s, ok := a.Sync.Snapshot(o.LocalUsec)
		if o.Side == sim.B || !ok {
			return
		}
		add := func(line *plotter.XYs, ms float64) {
			*line = append(*line, plotter.XY{X: o.At.Seconds(), Y: ms})
		}
		said := float64(s.OffsetUsec) / 1e3
		is := said - o.ErrUsec/1e3
		in := results.Millis(s.MinimumOneWayDelay) - said
		out := results.Millis(s.MinimumDelayToPeer) + said
		add(&fastest, results.Millis(toA(o.At))-is)
		add(&own, in)
		add(&peer, out)
		add(&trip, out+in)
		add(&middle, (out-in)/2)
		add(&truth, is)
		add(&offset, said)
	}
	sim.Run(world, play.FirstSeed, []sim.Pair{{A: a, B: new(sim.Core)}}, sim.Observer{Poll: poll})

	events := []results.Event{
		moment(changed, "path B to A longer"),
		moment(set, "B's clock set"),
		moment(back, "path as before"),
	}
	panel := func(title, label string, from float64, curves ...results.Curve) *results.Chart {
		return &results.Chart{
			Title:  title,
			X:      results.Axis{Label: label, Max: lasts.Seconds()},
			Y:      results.Axis{Label: "ms", Min: from, Max: from + 50},
			Events: events,
			Curves: curves,
		}
	}
	// The looks of lines: what is true, what A says, what the peer says, and what follows from
	// both.
	line := func(name, column string, width vg.Length, xys plotter.XYs) results.Curve {
		return results.Curve{
			Name:  name,
			Color: play.ColorOf(column),
			Width: width,
			Dash:  column == play.Original,
			Parts: []plotter.XYs{xys},
		}
	}
	return []*results.Chart{
		panel("Deltas, and the floors below them", "", 10,
			line("fastest datagram", play.OracleName, 0, fastest),
			line("own floor, delta_in", play.Ours, results.Bold, own),
			line("peer's floor, delta_out", play.Original, 0, peer)),
		panel("The round trip", "", 40,
			line("S = delta_in + delta_out", play.Ours, results.Bold, trip)),
		panel("B's clock minus A's", "seconds since the start", -20,
			line("truth", play.OracleName, 0, truth),
			line("midpoint", play.Original, 0, middle),
			line("offset r", play.NTP, results.Bold, offset)),
	}
}

// plotWorld draws the largest error of each second at end A in one world, from one second to
// another; to 0 is its end. It records both ends for the viewer.
func plotWorld(name, traces string, seed uint64, from, to int, out string) error {
	w, err := play.Find(name, traces)
	if err != nil {
		return err
	}
	path := filepath.Join(out, fmt.Sprintf("world-%s-%d", name, seed))
	err = errors.Join(os.MkdirAll(out, 0o755), recordWorld(w, seed, path))
	if err != nil {
		return err
	}
	errs := play.Play(w, seed).OverTime()
	last := len(errs[play.Ours])
	if to = min(cmp.Or(to, last), last); from >= to {
		return fmt.Errorf("%s: nothing is asked after %d s", name, from)
	}
	title := fmt.Sprintf("%s, seed %d, end A", name, seed)
	c := play.Chart(title, errs, eventsOf(w, seed), from, to,
		play.ErrorBound, play.OracleName, play.Original, play.Ours)
	fmt.Printf("%s.png\n", path)
	fmt.Printf("what the estimator knew: go run ./view %s-a.tsr %s-b.tsr\n", path, path)
	return results.Draw(path+".png", results.Screen(), c)
}

// recorded is an end of this package that is recorded.
type recorded struct {
	sim.Core
	tape *record.Recorder
}

func (r *recorded) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	return r.tape.OnAuthenticatedDatagramTimestamp(timesync.Counter24(ts24), recvUsec)
}

func (r *recorded) OnPeerMinDelta(delta uint32, recvUsec uint64) {
	r.tape.OnPeerMinDeltaTS24(timesync.Counter24(delta), recvUsec)
}

// recordWorld records both ends of this package in a world, into two files.
func recordWorld(w play.World, seed uint64, path string) (err error) {
	var ends [2]recorded
	var tapes [2]bytes.Buffer
	for side := range ends {
		ends[side].tape = record.New(&tapes[side])
		ends[side].tape.Wrap(&ends[side].Sync)
	}
	flush := func(o *sim.Observation) {
		ends[o.Side].tape.Flush() // nothing waits in a simulation
	}
	w.Play(seed, []sim.Pair{{A: &ends[sim.A], B: &ends[sim.B]}}, sim.Observer{Poll: flush})
	for side, end := range []string{"-a.tsr", "-b.tsr"} {
		err = errors.Join(err, ends[side].tape.Close())
		err = errors.Join(err, os.WriteFile(path+end, tapes[side].Bytes(), 0o644))
	}
	return err
}
