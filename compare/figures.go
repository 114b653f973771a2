// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"

	"timesync/internal/sim"
)

const (
	simSeeds    = 6  // seeds of each simulated world
	coreSeeds   = 9  // of each of the author's CORE scenarios with skew
	authorSeeds = 3  // of each of his scenarios as published
	sweepSeeds  = 12 // of each point of a sweep
	firstSeed   = 1
)

// figures is all that is measured, before anybody draws or writes.
type figures struct {
	worlds  []world
	results [][]result
	series  map[string]series
	skews   sweep
	rates   sweep
	chronyd *chronyd
	equal   []equalCell
}

// series is how errors went in one world: for each column the largest of each second at one
// end, us.
type series struct {
	seconds float64
	errs    []seconds // by column
	chronyd []float64 // by second; nil if it was not measured
	events  []event
}

// sweep is a world with something turned up step by step.
type sweep struct {
	values []float64
	p99    [][]float64 // by column and value, us
}

// lesson is a world that is drawn over time, and what to see in it.
type lesson struct{ world, title, see string }

// taught are the worlds that teach most.
var taught = []lesson{
	{"bufferbloat-both", "Bufferbloat: others fill the queues of both ways",
		"Grey: a queue of more than 20 ms. The original believes the minimum of the last 10 s, so its error grows towards half of the queue. This package ignores queues that are shorter than 10 s, or unsteady."},
	{"route-longer-oneway", "A path becomes longer by 20 ms, one way",
		"This package's offset stays where it was. The error that no method can avoid, up to half of the change, is subtracted for all."},
	{"clockstep", "A clock is set by 5 ms",
		"This package follows as soon as both ends have told each other. The original has to wait until its old minimum is 10 s old."},
}

// collect plays everything. Recorded series are those of the folder traces, and the
// project's own.
func collect(traces string) (*figures, error) {
	c, err := readChronyd("chronyd")
	if err != nil {
		return nil, err
	}
	f := &figures{series: map[string]series{}, chronyd: c}
	if f.worlds, err = allWorlds(traces); err != nil {
		return nil, err
	}
	f.results = make([][]result, len(f.worlds))
	each(len(f.worlds), func(i int) { f.results[i] = measure(f.worlds[i], firstSeed) })

	all := make([]series, len(taught))
	each(len(taught), func(i int) { all[i] = newSeries(sim.ScenarioNamed(taught[i].world)) })
	for i, s := range all {
		s.chronyd = c.series[taught[i].world]
		f.series[taught[i].world] = s
	}
	f.sweeps()
	f.equal, err = playEqual(c)
	return f, err
}

// seconds are the largest sizes of the errors in each second, NaN where there is none.
type seconds []float64

func noSeconds(lasting time.Duration) seconds {
	return slices.Repeat([]float64{math.NaN()}, int(lasting/time.Second))
}

// take takes an error at a time.
func (s seconds) take(at time.Duration, err float64) {
	if i := int(at / time.Second); i < len(s) && !(s[i] >= math.Abs(err)) {
		s[i] = math.Abs(err)
	}
}

// newSeries plays the first seed of a world.
func newSeries(sc sim.Scenario) series {
	s := series{seconds: math.Floor(sc.Duration.Seconds()), errs: make([]seconds, len(methods)+1)}
	for i := range s.errs {
		s.errs[i] = noSeconds(sc.Duration)
	}
	w := simWorld(sc, simulated, 1)
	playSeed(w, firstSeed, make([]result, len(methods)+1), func(o *sim.Observation) {
		if o.OK && o.Side == sim.A {
			s.errs[o.Pair].take(o.At, o.Excess())
		}
	})
	s.events = eventsOf(w)
	return s
}

// eventsOf returns what happens in the first seed of a world, for its plot.
func eventsOf(w world) (all []event) {
	d := keep(w, firstSeed)
	mark := func(times []time.Duration, name string) {
		for i, at := range slices.Compact(slices.Sorted(slices.Values(times))) {
			if i > 0 {
				name = ""
			}
			all = append(all, event{from: at.Seconds(), to: at.Seconds(), name: name})
		}
	}
	mark(d.told.clocks, "the clock is set")
	mark(d.told.paths, "the path changes")
	return append(all, d.queues()...)
}

// queues returns when the fastest datagrams of a second were 20 ms longer under way than the
// fastest of all, to either end. What lies less than 3 s apart is one.
func (d *diary) queues() (all []event) {
	const high, gap = 20, 3 // ms, s
	for _, fastest := range d.fastest {
		if len(d.told.paths) > 0 {
			return nil // then it may be the path
		}
		least := math.Inf(1)
		for _, p := range fastest {
			least = min(least, p.Y)
		}
		for _, p := range fastest {
			if p.Y > least+high {
				all = append(all, event{from: p.X, to: p.X + 0.2})
			}
		}
	}
	slices.SortFunc(all, func(a, b event) int { return cmp.Compare(a.from, b.from) })
	var joined []event
	for _, e := range all {
		if n := len(joined); n > 0 && e.from < joined[n-1].to+gap {
			joined[n-1].to = max(joined[n-1].to, e.to)
		} else {
			joined = append(joined, e)
		}
	}
	return slices.DeleteFunc(joined, func(e event) bool { return e.to-e.from < 1 })
}

// curves returns the lines of a series, ours on top: the oracle, the original, and chronyd
// where it was measured.
func (s series) curves() (curves []curve) {
	for _, column := range []int{len(methods), original} {
		curves = append(curves, curveOf(column, parts(s.errs[column])...))
	}
	if s.chronyd != nil {
		curves = append(curves, curve{name: chronyName, color: chronyColor, parts: parts(s.chronyd)})
	}
	return append(curves, curveOf(ours, parts(s.errs[ours])...))
}

// parts returns the lines through values at 0, 1, 2 and so on, with gaps where there is none.
func parts(values []float64) []plotter.XYs {
	return overTime(len(values), 1, func(i int) (x, y float64) { return float64(i), values[i] })
}

// sweeps turns up the skew and the rate of datagrams in the world of 3 ms of jitter.
func (f *figures) sweeps() {
	base := sim.ScenarioNamed("mediumjitter")
	base.Duration = 200 * time.Second
	f.skews = newSweep([]float64{0, 25, 50, 100, 200, 300, 500, 700, 1000}, base.Apart)
	f.rates = newSweep([]float64{1, 2, 3, 5, 10, 20, 30, 60, 120}, func(rate float64) sim.Scenario {
		sc := base
		sc.RateAB, sc.RateBA = rate, rate
		return sc
	})
}

func newSweep(values []float64, with func(v float64) sim.Scenario) sweep {
	s := sweep{values: values, p99: make([][]float64, len(methods)+1)}
	all := make([][]result, len(values))
	each(len(values), func(i int) { all[i] = measure(simWorld(with(values[i]), simulated, sweepSeeds), firstSeed) })
	for _, rs := range all {
		for k := range rs {
			s.p99[k] = append(s.p99[k], quantile(rs[k].errs, 0.99))
		}
	}
	return s
}

// curves returns the lines of a sweep: of the two that send with each datagram, of one that
// asks, and of the oracle.
func (s sweep) curves() (curves []curve) {
	for _, column := range []int{len(methods), ntp + 1, original, ours} {
		var xys plotter.XYs
		for i, v := range s.p99[column] {
			xys = append(xys, plotter.XY{X: s.values[i], Y: v})
		}
		curves = append(curves, curveOf(column, xys))
	}
	return curves
}

// of returns the indices of the worlds of a set.
func (f *figures) of(set string) (is []int) {
	for i, w := range f.worlds {
		if w.set == set {
			is = append(is, i)
		}
	}
	return is
}

// value is the figure by which a method is judged in a world: a quantile of all errors, or
// in the author's benchmark what he looks at: the 95th percentile at the worse end, of which
// the median of the seeds.
func (f *figures) value(i, column int, q float64) float64 {
	r := &f.results[i][column]
	if set := f.worlds[i].set; set == published || set == skewed {
		return medianOf(r.worse)
	}
	return quantile(r.errs, q)
}

// mean returns the geometric mean of a figure over the worlds of a set.
func (f *figures) mean(set string, method int, q float64) float64 {
	return f.over(column{method: method}, f.of(set), q)
}

// means returns those of this package, the original and the oracle.
func (f *figures) means(set string, q float64) (mine, orig, limit float64) {
	return f.mean(set, ours, q), f.mean(set, original, q), f.mean(set, len(methods), q)
}

// highest returns the power of ten above all errors of a series, us.
func (s series) highest() float64 {
	top := 1.0
	for _, c := range s.curves() {
		for _, part := range c.parts {
			for _, p := range part {
				top = max(top, p.Y)
			}
		}
	}
	return math.Pow(10, math.Ceil(math.Log10(top)))
}
