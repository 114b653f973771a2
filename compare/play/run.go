// SPDX-License-Identifier: BSD-3-Clause

package play

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"timesync/internal/sim"
	"timesync/internal/stat"
)

// Result is what a method did in all seeds of a world, both ends. Errors are absolute, in
// microseconds, without what unequal paths make unavoidable.
type Result struct {
	Errs   []float64 // after the warm-up, sorted
	Missed int       // questions after the warm-up without an answer
	Start  [len(ages)][]float64
	First  []float64                   // of each end: when it answered first, s
	Within [len(closeEnough)][]float64 // of each end: from when on it was so good for a second, s
	Bounds []float64                   // widths of the error bound, us, sorted
	Held   int                         // answers within it
	Worse  []float64                   // of each seed: the 95th percentile at the worse end
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

// Results has one for each column that is played.
type Results map[string]*Result

// NewResults has an empty one for each.
func NewResults() Results {
	r := Results{}
	for _, column := range Columns() {
		r[column] = new(Result)
	}
	return r
}

// Measure plays all seeds of a world.
func Measure(w World, firstSeed uint64) Results {
	results := NewResults()
	for seed := range uint64(w.seeds) {
		PlaySeed(w, firstSeed+seed, results, nil)
	}
	for _, r := range results {
		slices.Sort(r.Errs)
		slices.Sort(r.Bounds)
	}
	return results
}

// PlaySeed plays one seed and adds to results; see, if not nil, gets every answer of a column.
func PlaySeed(w World, seed uint64, results Results, see func(column string, o *sim.Observation)) {
	pairs, oracle := newPairs()
	last := len(pairs) - 1
	trackers := make([][2]tracker, len(pairs))
	for i := range trackers {
		trackers[i] = [2]tracker{newTracker(), newTracker()}
	}
	poll := func(o *sim.Observation) {
		p := pairs[o.Pair]
		results[p.Name].take(o, w.warmup, p, &trackers[o.Pair][o.Side])
		if see != nil {
			see(p.Name, o)
		}
	}
	w.Play(seed, pairs, sim.Observer{
		Poll: func(o *sim.Observation) {
			if o.Pair == last {
				oracle.Asked(o)
				return
			}
			poll(o)
		},
		OWD: func(o *sim.Observation) {
			if o.Pair == last {
				oracle.Heard(o)
			}
		},
	})
	oracle.Answer(last, w.Events(seed), w.warmup, poll)
	for i, p := range pairs {
		results[p.Name].end(&trackers[i])
	}
}

// take adds an answer.
func (r *Result) take(o *sim.Observation, warmup time.Duration, p sim.Pair, t *tracker) {
	err := math.Inf(1)
	if o.OK {
		err = math.Abs(o.Excess())
		t.first = min(t.first, o.At.Seconds())
		for i, age := range ages {
			if o.At < age {
				r.Start[i] = append(r.Start[i], err)
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
		r.Missed++
		return
	}
	r.Errs, t.errs = append(r.Errs, err), append(t.errs, err)
	if b, ok := [2]sim.Estimator{p.A, p.B}[o.Side].(bounded); ok {
		bound, _ := b.ErrorBound(o.LocalUsec)
		width := float64(bound) / float64(time.Microsecond)
		r.Bounds = append(r.Bounds, width)
		if math.Abs(o.ErrUsec) <= width {
			r.Held++
		}
	}
}

// end adds what the trackers of both ends say about a run.
func (r *Result) end(ends *[2]tracker) {
	worse := math.NaN()
	for i := range ends {
		t := &ends[i]
		if q := stat.OrNaN(t.errs, 0.95); !(q <= worse) {
			worse = q
		}
		r.First = append(r.First, t.first)
		for k := range t.within {
			r.Within[k] = append(r.Within[k], t.within[k])
		}
	}
	r.Worse = append(r.Worse, worse)
}

// Least is what errors count as at least in ratios and on logarithmic axes: below a
// microsecond all are equal.
const Least = 1.0

// Geometric returns the geometric mean.
func Geometric(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += math.Log(max(x, Least))
	}
	return math.Exp(sum / float64(len(v)))
}

// Each calls do with 0 to n-1, on all processors.
func Each(n int, do func(i int)) {
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

// Seconds are the largest sizes of the errors in each second, NaN where there is none.
type Seconds []float64

// Take takes an error at a time.
func (s *Seconds) Take(at time.Duration, err float64) {
	i := int(at / time.Second)
	for len(*s) <= i {
		*s = append(*s, math.NaN())
	}
	if most := &(*s)[i]; !(*most >= math.Abs(err)) {
		*most = math.Abs(err)
	}
}
