// SPDX-License-Identifier: BSD-3-Clause

package play

import (
	"math"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/plot/plotter"

	"timesync/internal/sim"
	"timesync/internal/testkit"
)

// Result is what a method did in all seeds of a world, both ends. Errors are absolute, in
// microseconds, without what unequal paths make unavoidable.
type Result struct {
	Errs   []float64 // after the warm-up, sorted
	Missed int       // questions after the warm-up without an answer
	First  []float64 // of each end: when it answered first, s
	To1ms  []float64 // of each end: from when on it was right to 1 ms for a second, s
	Bounds []float64 // widths of the error bound, us, sorted
	Held   int       // answers within it
	Worse  []float64 // of each seed: the 95th percentile at the worse end
}

// Answer is what a method said when it was asked.
type Answer struct {
	At    time.Duration
	Err   float64 // us, without what is unavoidable; Inf if there was no answer
	Bound float64 // us: half the width of the error bound; NaN if there is none
	Held  bool    // the whole error is within it
}

// Answers are those of both ends by column.
type Answers map[string]*[2][]Answer

// Results has one for each column that is played.
type Results map[string]*Result

// Measure plays all seeds of a world.
func Measure(w World) Results {
	results := Results{}
	for _, column := range Columns() {
		results[column] = new(Result)
	}
	for seed := range uint64(w.Seeds) {
		for column, ends := range Play(w, FirstSeed+seed) {
			results[column].add(ends, w.Warmup)
		}
	}
	for _, r := range results {
		slices.Sort(r.Errs)
		slices.Sort(r.Bounds)
	}
	return results
}

// Play plays one seed of a world.
func Play(w World, seed uint64) Answers {
	answers := Answers{}
	for _, column := range Columns() {
		answers[column] = new([2][]Answer)
	}
	take := func(column string, end sim.Estimator, o *sim.Observation) {
		a := Answer{At: o.At, Err: math.Inf(1), Bound: math.NaN()}
		if o.OK {
			a.Err = math.Abs(o.Excess())
		}
		if core, ok := end.(*sim.Core); ok { // it says how wrong it may be
			bound, _ := core.Sync.ErrorBound(o.LocalUsec)
			a.Bound = float64(bound) / float64(us)
			a.Held = math.Abs(o.ErrUsec) <= a.Bound
		}
		answers[column][o.Side] = append(answers[column][o.Side], a)
	}
	var pairs []sim.Pair
	for _, m := range Methods {
		pairs = append(pairs, sim.Pair{A: m.Make(), B: m.Make()})
	}
	w.Play(seed, pairs, sim.Observer{Poll: func(o *sim.Observation) {
		p := pairs[o.Pair]
		take(Methods[o.Pair].Name, [2]sim.Estimator{p.A, p.B}[o.Side], o)
	}})
	oracle := new(Oracle)
	oracle.Play(w, seed)
	oracle.answer(w.Events(seed), w.Warmup, func(o *sim.Observation) { take(OracleName, nil, o) })
	return answers
}

// add adds what both ends answered in a run.
func (r *Result) add(ends *[2][]Answer, warmup time.Duration) {
	worse := math.NaN()
	for _, answers := range ends {
		var errs []float64
		for _, a := range answers {
			switch {
			case a.At < warmup:
				continue
			case math.IsInf(a.Err, 1):
				r.Missed++
				continue
			}
			errs = append(errs, a.Err)
			if !math.IsNaN(a.Bound) {
				r.Bounds = append(r.Bounds, a.Bound)
			}
			if a.Held {
				r.Held++
			}
		}
		r.Errs = append(r.Errs, errs...)
		if q := testkit.OrNaN(errs, 0.95); !(q <= worse) {
			worse = q
		}
		r.First = append(r.First, since(answers, math.MaxFloat64, 0))
		r.To1ms = append(r.To1ms, since(answers, 1000, time.Second))
	}
	r.Worse = append(r.Worse, worse)
}

// since returns from when on errors were at most limit, for so long at least, s.
func since(answers []Answer, limit float64, lasting time.Duration) float64 {
	const never = time.Duration(math.MaxInt64)
	from := never
	for _, a := range answers {
		if a.Err > limit {
			from = never
		} else if from = min(from, a.At); a.At-from >= lasting {
			return from.Seconds()
		}
	}
	return math.Inf(1)
}

// Map returns what f makes of each, on all processors.
func Map[A, B any](all []A, f func(a A) B) []B {
	made := make([]B, len(all))
	var tasks errgroup.Group
	tasks.SetLimit(runtime.GOMAXPROCS(0))
	for i, a := range all {
		tasks.Go(func() error {
			made[i] = f(a)
			return nil
		})
	}
	tasks.Wait()
	return made
}

// OverTime returns for each column the largest error of each second at end A, us, and so for the
// error bound of this package.
func (a Answers) OverTime() map[string]plotter.XYs {
	errs := map[string]plotter.XYs{}
	for column, ends := range a {
		errs[column] = Worst(ends[sim.A])
	}
	bounds := slices.Clone(a[Ours][sim.A])
	for i := range bounds {
		bounds[i].Err = bounds[i].Bound
	}
	errs[ErrorBound] = Worst(bounds)
	return errs
}

// Worst returns the largest error of each second, NaN where there is none.
func Worst(answers []Answer) (seconds plotter.XYs) {
	for _, a := range answers {
		for len(seconds) <= int(a.At/time.Second) {
			seconds = append(seconds, plotter.XY{X: float64(len(seconds)), Y: math.NaN()})
		}
		if now := &seconds[len(seconds)-1]; !math.IsInf(a.Err, 1) && !(now.Y >= a.Err) {
			now.Y = a.Err
		}
	}
	return seconds
}
