// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"timesync/internal/sim"
)

// result is what a method did in all seeds of a world, both ends. Errors are absolute, in
// microseconds, without what unequal paths make unavoidable.
type result struct {
	errs   []float64 // after the warm-up, sorted
	missed int       // questions after the warm-up without an answer
	start  [len(ages)][]float64
	first  []float64                   // of each end: when it answered first, s
	within [len(closeEnough)][]float64 // of each end: from when on it was so good for a second, s
	bounds []float64                   // widths of the error bound, us, sorted
	held   int                         // answers within it
	worse  []float64                   // of each seed: the 95th percentile at the worse end
}

// ages are the first seconds that have columns of their own, closeEnough the errors, us.
var (
	ages        = [...]time.Duration{time.Second, 3 * time.Second, 10 * time.Second}
	closeEnough = [...]float64{1000, 100}
)

// keeps is for how long an error must stay small to count as found.
const keeps = time.Second

// tracker follows one end of one method through one run.
type tracker struct {
	first  float64
	since  [len(closeEnough)]time.Duration // small from then on, negative if it is not
	within [len(closeEnough)]float64
	errs   []float64 // after the warm-up
}

func newTracker() (t tracker) {
	t.first = math.Inf(1)
	for i := range t.since {
		t.since[i], t.within[i] = -1, math.Inf(1)
	}
	return t
}

// measure plays all seeds of a world and returns a result for each column.
func measure(w world, firstSeed uint64) []result {
	results := make([]result, len(methods)+1)
	for seed := range uint64(w.seeds) {
		playSeed(w, firstSeed+seed, results, nil)
	}
	for i := range results {
		slices.Sort(results[i].errs)
		slices.Sort(results[i].bounds)
	}
	return results
}

// playSeed plays one seed and adds to results; see, if not nil, gets every answer.
func playSeed(w world, seed uint64, results []result, see func(*sim.Observation)) {
	pairs, oracle := newPairs()
	last := len(pairs) - 1
	trackers := make([][2]tracker, len(pairs))
	for i := range trackers {
		trackers[i] = [2]tracker{newTracker(), newTracker()}
	}
	poll := func(o *sim.Observation) {
		results[o.Pair].take(o, w.warmup, pairs[o.Pair], &trackers[o.Pair][o.Side])
		if see != nil {
			see(o)
		}
	}
	w.play(seed, pairs, sim.Observer{
		Poll: func(o *sim.Observation) {
			if o.Pair == last {
				oracle.asked(o)
				return
			}
			poll(o)
		},
		OWD: func(o *sim.Observation) {
			if o.Pair == last {
				oracle.heard(o)
			}
		},
	})
	oracle.answer(last, w.events(seed), w.warmup, poll)
	for i := range results {
		results[i].end(&trackers[i])
	}
}

// take adds an answer.
func (r *result) take(o *sim.Observation, warmup time.Duration, p sim.Pair, t *tracker) {
	err := math.Inf(1)
	if o.OK {
		err = math.Abs(o.Excess())
		t.first = min(t.first, o.At.Seconds())
		for i, age := range ages {
			if o.At < age {
				r.start[i] = append(r.start[i], err)
			}
		}
	}
	for i, limit := range closeEnough {
		switch {
		case err > limit:
			t.since[i] = -1
		case t.since[i] < 0:
			t.since[i] = o.At
		case o.At >= t.since[i]+keeps:
			t.within[i] = min(t.within[i], t.since[i].Seconds())
		}
	}
	switch {
	case o.At < warmup:
		return
	case !o.OK:
		r.missed++
		return
	}
	r.errs, t.errs = append(r.errs, err), append(t.errs, err)
	if b, ok := [2]sim.Estimator{p.A, p.B}[o.Side].(bounded); ok {
		bound, _ := b.ErrorBound(o.LocalUsec)
		width := float64(bound) / float64(time.Microsecond)
		r.bounds = append(r.bounds, width)
		if math.Abs(o.ErrUsec) <= width {
			r.held++
		}
	}
}

// end adds what the trackers of both ends say about a run.
func (r *result) end(ends *[2]tracker) {
	worse := math.NaN()
	for i := range ends {
		t := &ends[i]
		if q := quantileOf(t.errs, 0.95); !(q <= worse) {
			worse = q
		}
		r.first = append(r.first, t.first)
		for k := range t.within {
			r.within[k] = append(r.within[k], t.within[k])
		}
	}
	r.worse = append(r.worse, worse)
}

// quantile returns a quantile of sorted numbers, NaN of none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

// quantileOf returns a quantile of numbers in any order.
func quantileOf(v []float64, q float64) float64 { return quantile(slices.Sorted(slices.Values(v)), q) }

// medianOf returns the median of numbers in any order.
func medianOf(v []float64) float64 { return quantileOf(v, 0.5) }

// least is what errors count as at least in ratios and on logarithmic axes: below a
// microsecond all are equal.
const least = 1.0

// geometric returns the geometric mean.
func geometric(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += math.Log(max(x, least))
	}
	return math.Exp(sum / float64(len(v)))
}

// each calls do with 0 to n-1, on all processors.
func each(n int, do func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}
