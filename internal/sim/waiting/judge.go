package waiting

import (
	"math"
	"sort"
)

// Course is a world with what the judge has to know of it.
type Course struct {
	*World
	Share         float64 // what may be late
	OracleWait    float64 // the oracle's mean wait above the floor
	floor, oracle []float64
}

// Prepare lets the oracle see a world.
func Prepare(w *World, share float64) *Course {
	c := &Course{World: w, Share: share, floor: w.floor(), oracle: w.oracle(share)}
	sum, passed := 0.0, 0.0
	for i := 1; i < len(w.Items); i++ {
		if c.warm(w.Items[i]) {
			step := min(w.Items[i].Arrived-w.Items[i-1].Arrived, 2000/w.Rate+100)
			sum += step * (c.oracle[i] - c.floor[i])
			passed += step
		}
	}
	c.OracleWait = sum / passed
	return c
}

// warm reports whether so much has arrived that an item counts: the first 10 s do not, or where
// less than 10 are sent a second what is sent in so many intervals.
func (c *Course) warm(item Item) bool {
	return item.Arrived-c.Items[0].Arrived > 10_000*max(1, 10/c.Rate)
}

// Score is what an estimator did in a world.
type Score struct {
	Late       float64   // share of those that no stop held up
	Counted    float64   // and how many these are
	Wait       float64   // mean above the floor
	Ratio      float64   // and over that of the oracle
	AfterStop  []float64 // by how much the wait is longer 2 s after each stop than before
	Up, Down   []float64 // how long it took to follow each shift of the path, at most a minute
	WithoutOne float64   // share of the time in which the item after the shown one is not there
}

// course is how the wait went on.
type step struct{ at, wait float64 }

// Judge plays an estimator. Its wait is used as by a player: what is shown stands still where the
// wait becomes longer, and runs 25 % faster where it becomes shorter. If the estimator has a
// method Interval, the things after those that are shown are judged, too.
func (c *Course) Judge(e Estimator) (s Score) {
	interval, knows := e.(interface{ Interval() float64 })
	var steps []step
	wait, sum, passed, frames, without, late := 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
	newest := math.Inf(-1)
	for i, item := range c.Items {
		if i > 0 {
			gap := item.Arrived - c.Items[i-1].Arrived
			wait += max(min(e.Wait()-wait, gap), -gap/4)
			steps = append(steps, step{item.Arrived, wait})
			if c.warm(item) {
				part := min(gap, 2000/c.Rate+100)
				sum += part * (wait - c.floor[i])
				passed += part
				if !item.Stopped {
					if s.Counted++; item.delay() > wait+1e-6 {
						late++
					}
					if knows {
						frames += gap
						shown := item.Arrived - wait - interval.Interval()
						without += min(gap, max(0, shown-newest))
					}
				}
			}
		}
		newest = max(newest, item.Sent)
		e.Arrived(item.Sent, item.Arrived)
		if i == 0 {
			wait = e.Wait()
		}
	}
	s.Late, s.Wait = late/max(1, s.Counted), sum/passed
	s.Ratio = max(s.Wait, 0.01) / max(c.OracleWait, 0.01)
	s.WithoutOne = without / max(1, frames)
	at := func(time float64) float64 {
		after := sort.Search(len(steps), func(i int) bool { return steps[i].at > time })
		return steps[max(after-1, 0)].wait
	}
	if !c.tailed {
		for _, stop := range c.Stops {
			s.AfterStop = append(s.AfterStop, at(stop.End+2000)-at(stop.Begin-1))
		}
	}
	for _, up := range c.Ups {
		s.Up = append(s.Up, c.follow(steps, up, 1))
	}
	for _, down := range c.Downs {
		s.Down = append(s.Down, c.follow(steps, down, -1))
	}
	return s
}

// follow returns how long it took after a shift of the path, up (1) or down (-1), until the wait
// had come to within 15 % of the shift of what the oracle says 12 s later.
func (c *Course) follow(steps []step, shift, sign float64) float64 {
	oracle := func(time float64) float64 {
		after := sort.Search(len(c.Items), func(i int) bool { return c.Items[i].Arrived > time })
		return c.oracle[max(after-1, 0)]
	}
	goal := oracle(shift + 12_000)
	near := math.Abs(goal-oracle(shift-12_000)) * 0.15
	for _, step := range steps {
		if step.at > shift && sign*(step.wait-goal) >= -near {
			return min(step.at-shift, 60_000)
		}
	}
	return 60_000
}

// Best judges a rival with the least factor by which no more is late than asked.
func (c *Course) Best(r Rival) (s Score) {
	least, most := 0.02, 60.0
	for range 11 {
		factor := math.Sqrt(least * most)
		if c.Judge(r.New(factor, c.Rate)).Late > c.Share {
			least = factor
		} else {
			most = factor
		}
	}
	return c.Judge(r.New(most, c.Rate))
}
