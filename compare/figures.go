// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot/plotter"

	"timesync/internal/sim"
	"timesync/internal/upstream"
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
}

// series is how errors went in one world: for each column the largest of each second at one
// end, us.
type series struct {
	seconds float64
	errs    [][]float64 // by column and second; NaN is no answer
}

// sweep is a world with something turned up step by step.
type sweep struct {
	values []float64
	p99    [][]float64 // by column and value, us
}

// lesson is a world that is drawn over time, and what to see in it.
type lesson struct{ world, title, see string }

// taught are the six worlds that teach most.
var taught = []lesson{
	{"ideal", "Drift: clocks 100 ppm apart, no jitter",
		"A minimum over 10 s is as old as the clocks drifted meanwhile, 0.5 ms here; one that is known as a straight line is not."},
	{"cellular", "A mobile network: 4 to 10 ms of jitter, clocks 100 ppm apart",
		"Whoever asks now and then gets the jitter of the few answers; among 60 datagrams a second some hardly waited."},
	{"bufferbloat-both", "Bufferbloat: others fill the queues both ways now and then",
		"Queues throw off those who believe the last 10 s or the last 8 answers; a floor is not lifted by what queues for less than 10 s, nor by what queues unsteadily."},
	{"route-longer-oneway", "A path becomes longer by 20 ms, one way",
		"The offset stays where it was; the error that nobody could know to avoid, up to half of the change, is taken off for all methods."},
	{"clockstep", "A clock is set by 5 ms",
		"The step is followed as soon as both ends have told each other; a minimum has to grow old first, and the other methods wait for their next good answer."},
	{"suspend", "A computer sleeps for 37 s, and its clock with it",
		"After waking up the offset is 37 s wrong for everybody; how soon it is right again differs by a minute."},
}

// group says what happens in a simulated world.
func group(sc sim.Scenario) string {
	switch sc.Tag {
	case sim.Calm:
		return "jitter at most"
	case sim.Lossy:
		return "loss, silences"
	case sim.Queued:
		return "queues that stand"
	case sim.Routed:
		return "paths that change"
	case sim.Jumped:
		return "clocks that are set"
	}
	return "faults of all kinds"
}

// collect plays everything. Recorded series are those of the folder traces, and the
// project's own.
func collect(traces string) (*figures, error) {
	f := &figures{series: map[string]series{}}
	scenarios := sim.Scenarios()
	for _, sc := range scenarios {
		f.worlds = append(f.worlds, simWorld(sc, simulated, simSeeds))
	}
	authors, err := upstream.Scenarios()
	if err != nil {
		return nil, err
	}
	for _, sc := range authors {
		if sc.Classification == "CORE" {
			f.worlds = append(f.worlds, authorWorld(sc, skewed, upstream.Mode{Integrated: true, Skewed: true}, coreSeeds))
		}
	}
	for _, sc := range authors {
		f.worlds = append(f.worlds, authorWorld(sc, published, upstream.Mode{}, authorSeeds))
	}
	replays, err := replays(traces)
	if err != nil {
		return nil, err
	}
	f.worlds = append(f.worlds, replays...)
	f.results = make([][]result, len(f.worlds))
	each(len(f.worlds), func(i int) { f.results[i] = measure(f.worlds[i], firstSeed) })

	all := make([]series, len(taught))
	each(len(taught), func(i int) {
		all[i] = newSeries(scenarios[slices.IndexFunc(scenarios, func(sc sim.Scenario) bool { return sc.Name == taught[i].world })])
	})
	for i, s := range all {
		f.series[taught[i].world] = s
	}
	f.sweeps(scenarios)
	return f, nil
}

// ownTrace is the project's own recording of a real TCP queue.
const ownTrace = "../internal/sim/testdata/kernel-tcp-10m-60pps.csv.gz"

// replays returns the recorded worlds. In a series with symmetric delays no method errs, and
// a modelled direction is not recorded.
func replays(folder string) (ws []world, err error) {
	paths := []string{ownTrace}
	if folder != "" {
		more, err := filepath.Glob(filepath.Join(folder, "*.csv.gz"))
		if err != nil {
			return nil, err
		}
		if len(more) == 0 {
			return nil, fmt.Errorf("-traces %s: no *.csv.gz there", folder)
		}
		paths = append(paths, slices.DeleteFunc(more, func(p string) bool {
			return strings.Contains(p, "symsplit") || strings.Contains(p, "modelled") || filepath.Base(p) == filepath.Base(ownTrace)
		})...)
	}
	for _, p := range paths {
		sc, err := sim.Replay(strings.TrimSuffix(filepath.Base(p), ".csv.gz"), p)
		if err != nil {
			return nil, err
		}
		ws = append(ws, simWorld(sc, recorded, simSeeds))
	}
	return ws, nil
}

// newSeries plays the first seed of a world.
func newSeries(sc sim.Scenario) series {
	n := int(sc.Duration / time.Second)
	s := series{seconds: float64(n), errs: make([][]float64, len(methods)+1)}
	for i := range s.errs {
		s.errs[i] = slices.Repeat([]float64{math.NaN()}, n)
	}
	w := simWorld(sc, simulated, 1)
	playSeed(w, firstSeed, make([]result, len(methods)+1), func(o *sim.Observation, _ []sim.Pair) {
		if i := int(o.At / time.Second); o.OK && o.Side == sim.A && i < n {
			if v := &s.errs[o.Pair][i]; !(*v >= math.Abs(o.Excess())) {
				*v = math.Abs(o.Excess())
			}
		}
	})
	return s
}

// curves returns the lines of a series, ours on top.
func (s series) curves() (curves []curve) {
	for column, errs := range s.errs {
		curves = append(curves, curveOf(column, parts(errs)...))
	}
	return oursLast(curves)
}

// parts returns the lines through values at 0, 1, 2 and so on, with gaps where there is none.
func parts(values []float64) (all []plotter.XYs) {
	open := false
	for i, v := range values {
		if math.IsNaN(v) {
			open = false
			continue
		}
		if !open {
			all, open = append(all, nil), true
		}
		last := &all[len(all)-1]
		*last = append(*last, plotter.XY{X: float64(i), Y: v})
	}
	return all
}

// oursLast moves our curve to the end, where it is drawn over the others.
func oursLast(curves []curve) []curve {
	return append(slices.Delete(slices.Clone(curves), ours, ours+1), curves[ours])
}

// sweeps turns up the skew and the rate of datagrams in the world of 3 ms of jitter.
func (f *figures) sweeps(scenarios []sim.Scenario) {
	base := scenarios[slices.IndexFunc(scenarios, func(sc sim.Scenario) bool { return sc.Name == "mediumjitter" })]
	base.Duration = 200 * time.Second
	f.skews = newSweep([]float64{0, 25, 50, 100, 150, 200, 300, 400}, func(ppm float64) sim.Scenario {
		sc := base
		with := func(spec func(uint64) sim.ClockSpec, ppm float64) func(uint64) sim.ClockSpec {
			return func(seed uint64) sim.ClockSpec {
				s := spec(seed)
				s.SkewPPM = ppm
				return s
			}
		}
		sc.A, sc.B = with(base.A, ppm/2), with(base.B, -ppm/2)
		return sc
	})
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

// curves returns the lines of a sweep.
func (s sweep) curves() (curves []curve) {
	for column, p99 := range s.p99 {
		var xys plotter.XYs
		for i, v := range p99 {
			xys = append(xys, plotter.XY{X: s.values[i], Y: v})
		}
		curves = append(curves, curveOf(column, xys))
	}
	return oursLast(curves)
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
func (f *figures) mean(set string, column int, q float64) float64 {
	var v []float64
	for _, i := range f.of(set) {
		if x := f.value(i, column, q); !math.IsNaN(x) {
			v = append(v, x)
		}
	}
	return geometric(v)
}

// strips are the p99 of all worlds of a set by method, the best method first.
func (f *figures) strips(set string, q float64) (all []strip) {
	for column, name := range columns() {
		s := strip{name: name, color: colorOf(column), mean: f.mean(set, column, q)}
		for _, i := range f.of(set) {
			s.dots = append(s.dots, f.value(i, column, q))
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b strip) int { return cmp.Compare(a.mean, b.mean) })
	return all
}

// cumulative returns for each column the share of answers, in percent, with an error of at
// most x, all worlds of the set alike.
func (f *figures) cumulative(set string, xs []float64) (curves []curve) {
	is := f.of(set)
	for column := range columns() {
		var xys plotter.XYs
		for _, x := range xs {
			share := 0.0
			for _, i := range is {
				r := &f.results[i][column]
				n, _ := slices.BinarySearch(r.errs, x+1e-9)
				share += float64(n) / float64(len(r.errs)+r.missed) / float64(len(is))
			}
			xys = append(xys, plotter.XY{X: x, Y: 100 * share})
		}
		curves = append(curves, curveOf(column, xys))
	}
	return oursLast(curves)
}

// reached returns the error that a share of a method's answers does not exceed, all worlds
// of the set alike.
func (f *figures) reached(set string, column int, share float64) float64 {
	xs := logSpace(1, 1e8, 800)
	for _, c := range f.cumulative(set, xs) {
		if c.name != columns()[column] {
			continue
		}
		for _, p := range c.parts[0] {
			if p.Y >= 100*share {
				return p.X
			}
		}
	}
	return math.NaN()
}

// highest returns the power of ten above all errors of a series, us.
func (s series) highest() float64 {
	top := 1.0
	for _, errs := range s.errs {
		for _, v := range errs {
			if v > top {
				top = v
			}
		}
	}
	return math.Pow(10, math.Ceil(math.Log10(top)))
}
