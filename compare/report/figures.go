// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"maps"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"

	"timesync/compare/graph"
	"timesync/compare/kept"
	"timesync/compare/play"
	"timesync/compare/table"
	"timesync/internal/ontime"
	"timesync/internal/sim"
	"timesync/internal/stat"
)

// figures is all that is measured, before anybody draws or writes.
type figures struct {
	worlds  []play.World
	results []play.Results
	series  map[string]series
	skews   sweep
	rates   sweep
	chronyd *kept.Chronyd
	inputs  []inputWorld
}

// series is how errors went in one world: for each column the largest of each second at one
// end, us.
type series struct {
	errs   map[string]play.Seconds // by column
	events []graph.Event
}

// sweepSeeds is how many seeds are played of each point of a sweep.
const sweepSeeds = 12

// sweep is a world with something turned up step by step.
type sweep struct {
	values []float64
	p99    map[string][]float64 // by column, and value, us
}

// collect plays everything. Recorded series are those of the folder traces, and the
// project's own.
func collect(traces string) (*figures, error) {
	c, err := kept.ReadChronyd()
	if err != nil {
		return nil, err
	}
	f := &figures{series: map[string]series{}, chronyd: c}
	if f.worlds, err = play.AllWorlds(traces); err != nil {
		return nil, err
	}
	f.results = play.Map(f.worlds, func(w play.World) play.Results { return play.Measure(w) })
	drawn := append([]string{busyWorld}, play.TaughtWorlds...)
	for i, s := range play.Map(drawn, newSeries) {
		s.errs[play.Chronyd] = c.Series[drawn[i]]
		f.series[drawn[i]] = s
	}
	f.sweeps()
	f.inputs = play.Map(ontime.Worlds(), playInput)
	return f, nil
}

// newSeries plays the first seed of a world.
func newSeries(world string) series {
	w, errs := play.SimWorld(sim.ScenarioNamed(world), play.Simulated, 1), map[string]play.Seconds{}
	for column, ends := range play.Play(w, play.FirstSeed) {
		var seconds play.Seconds
		for _, a := range ends[sim.A] {
			if !math.IsInf(a.Err, 1) {
				seconds.Take(a.At, a.Err)
			}
		}
		errs[column] = seconds
	}
	return series{errs: errs, events: eventsOf(w, play.FirstSeed)}
}

// eventsOf returns what happens in a world, for its plot.
func eventsOf(w play.World, seed uint64) (all []graph.Event) {
	told := w.Events(seed)
	mark := func(times []time.Duration, name string) {
		for i, at := range slices.Compact(slices.Sorted(slices.Values(times))) {
			if i > 0 {
				name = ""
			}
			all = append(all, graph.Event{From: at.Seconds(), To: at.Seconds(), Name: name})
		}
	}
	mark(told.Clocks, "the clock is set")
	mark(told.Paths, "the path changes")
	if len(told.Paths) > 0 {
		return all // then what is late may be the path
	}
	return append(all, queues(w, seed)...)
}

// queues returns when the fastest datagrams of 0.2 s were 20 ms longer under way than the fastest of
// all, to either end. What lies less than 3 s apart is one; what lasts less than 1 s is none.
func queues(w play.World, seed uint64) (all []graph.Event) {
	const span, high, gap = 200 * time.Millisecond, 20_000, 3 // us, s
	var fastest [2]map[time.Duration]float64                  // of each span, us
	for side := range fastest {
		fastest[side] = map[time.Duration]float64{}
	}
	o := new(play.Oracle) // it says that datagrams are under way for no time: its error is for how long they are
	w.Play(seed, []sim.Pair{{A: &o.Ends[sim.A], B: &o.Ends[sim.B]}}, sim.Observer{OWD: func(o *sim.Observation) {
		at := o.At.Truncate(span)
		if was, ok := fastest[o.Side][at]; !ok || -o.ErrUsec < was {
			fastest[o.Side][at] = -o.ErrUsec
		}
	}})
	var late []time.Duration
	for _, delays := range fastest {
		least := slices.Min(slices.Collect(maps.Values(delays)))
		for at, delay := range delays {
			if delay > least+high {
				late = append(late, at)
			}
		}
	}
	slices.Sort(late)
	for _, at := range late {
		from, to := at.Seconds(), (at + span).Seconds()
		if n := len(all); n > 0 && from < all[n-1].To+gap {
			all[n-1].To = to
		} else {
			all = append(all, graph.Event{From: from, To: to})
		}
	}
	return slices.DeleteFunc(all, func(e graph.Event) bool { return e.To-e.From < 1 })
}

// curves returns the lines of a series, ours on top: the oracle, the original, and chronyd
// where it was measured.
func (s series) curves() (curves []graph.Curve) {
	for _, column := range []string{play.OracleName, play.Original, play.Chronyd, play.Ours} {
		if errs := s.errs[column]; errs != nil {
			curves = append(curves, play.CurveOf(column, graph.Parts(errs)...))
		}
	}
	return curves
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
	s := sweep{values: values, p99: map[string][]float64{}}
	all := play.Map(values, func(v float64) play.Results {
		return play.Measure(play.SimWorld(with(v), play.Simulated, sweepSeeds))
	})
	for _, rs := range all {
		for k := range rs {
			s.p99[k] = append(s.p99[k], stat.OrNaN(rs[k].Errs, 0.99))
		}
	}
	return s
}

// curves returns the lines of a sweep: of the two that send with each datagram, of one that
// asks, and of the oracle.
func (s sweep) curves() (curves []graph.Curve) {
	for _, column := range []string{play.OracleName, play.Netfox, play.Original, play.Ours} {
		var xys plotter.XYs
		for i, v := range s.p99[column] {
			xys = append(xys, plotter.XY{X: s.values[i], Y: v})
		}
		curves = append(curves, play.CurveOf(column, xys))
	}
	return curves
}

// of returns the indices of the worlds of a set.
func (f *figures) of(set string) (is []int) {
	for i, w := range f.worlds {
		if w.Set == set {
			is = append(is, i)
		}
	}
	return is
}

// named returns the index of the simulated world of that name.
func (f *figures) named(name string) int {
	return slices.IndexFunc(f.worlds, func(w play.World) bool { return w.Set == play.Simulated && w.Name == name })
}

// value is the figure by which a column is judged in a world: a quantile of all errors, or
// in the author's benchmark what he looks at: the 95th percentile at the worse end, of which
// the median of the seeds. It is NaN where there is none: chronyd is played in some worlds only.
func (f *figures) value(i int, column string, q float64) float64 {
	if column == play.Chronyd {
		return f.chronyd.P99(f.worlds[i].Set, f.worlds[i].Name)
	}
	r := f.results[i][column]
	if set := f.worlds[i].Set; set == play.Published || set == play.Skewed {
		return stat.OrNaN(r.Worse, 0.5)
	}
	return stat.OrNaN(r.Errs, q)
}

// over returns the geometric mean of a column over worlds, of those in which it has a value.
func (f *figures) over(column string, worlds []int, q float64) float64 {
	var v []float64
	for _, i := range worlds {
		if x := f.value(i, column, q); !math.IsNaN(x) {
			v = append(v, x)
		}
	}
	return play.Geometric(v)
}

// mean returns that over the worlds of a set.
func (f *figures) mean(set, column string, q float64) float64 { return f.over(column, f.of(set), q) }

// means returns those of this package, the original and the oracle.
func (f *figures) means(set string, q float64) (mine, orig, limit float64) {
	return f.mean(set, play.Ours, q), f.mean(set, play.Original, q), f.mean(set, play.OracleName, q)
}

// highest returns the power of ten above all errors of a series, us.
func (s series) highest() float64 {
	top := 1.0
	for _, c := range s.curves() {
		for _, part := range c.Parts {
			for _, p := range part {
				top = max(top, p.Y)
			}
		}
	}
	return math.Pow(10, math.Ceil(math.Log10(top)))
}

// csvRow is one of report.csv. What is NaN was not measured, or never came.
type csvRow struct {
	Set            string `csv:"set"`
	World          string `csv:"world"`
	Method         string `csv:"method"`
	kept.Quantiles `csv:",inline"`
	Unanswered     float64 `csv:"unanswered"`
	FirstAnswer    float64 `csv:"first_answer_s"`
	To1ms          float64 `csv:"to_1ms_s"`
	BoundHeld      float64 `csv:"bound_held"`
	BoundMedian    float64 `csv:"bound_median_us"`
	Judged         float64 `csv:"judged_us"` // that of the tables, which in the author's benchmark is his
}

// writeCSV writes all figures of all worlds.
func (f *figures) writeCSV(path string) error {
	var rows []csvRow
	none := math.NaN()
	for i, world := range f.worlds {
		for _, column := range play.Columns() {
			r := f.results[i][column]
			rows = append(rows, csvRow{world.Set, world.Name, column, kept.QuantilesOf(r.Errs), float64(r.Missed),
				stat.OrNaN(r.First, 0.5), stat.OrNaN(r.To1ms, 0.5),
				float64(r.Held) / float64(len(r.Bounds)), stat.OrNaN(r.Bounds, 0.5), f.value(i, column, 0.99)})
		}
		if c := f.chronyd.Find(world.Set, world.Name); c != nil {
			rows = append(rows, csvRow{world.Set, world.Name, play.Chronyd, c.Best, none, none, none, none, none, c.Best.P99})
		}
	}
	return table.Write(path, rows)
}
