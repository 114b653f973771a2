// Package waiting judges rules that say how long to wait for what arrives, as a jitter buffer does.
//
// It has worlds of 19 kinds in which things are sent at an even rate and arrive with delays that
// vary, recorded delays, rules that are published by others, an oracle that knows the future, and a
// judge. All times are milliseconds; the clocks of both ends show true time, but where a kind says
// otherwise. Worlds are deterministic: the same kind, rate and seed give the same arrivals.
package waiting

import (
	"math"
	"slices"
	"sort"
)

// Item is a thing that was sent and has arrived.
type Item struct {
	Sent, Arrived float64
	Stopped       bool // it was sent while something stood still, or was held up by that
}

// delay is how long it was under way.
func (i Item) delay() float64 { return i.Arrived - i.Sent }

// Stop is a time in which nothing arrives, since the path or the sender's program stands still.
type Stop struct{ Begin, End float64 }

// World is what one receiver sees.
type World struct {
	Name, Kind string
	Rate       float64 // how many things are sent in a second
	Items      []Item  // in order of arrival
	Stops      []Stop
	Ups, Downs []float64 // when the path became longer and shorter

	// tailed says that stops are only what holds up many at once, so that nothing can be said about
	// the time after one.
	tailed bool
}

// sort brings the items into the order of arrival.
func (w *World) sort() {
	sort.SliceStable(w.Items, func(i, j int) bool {
		return w.Items[i].Arrived < w.Items[j].Arrived
	})
}

// window calls visit for each item with the index of the first item that arrived less than half
// before it, and of the first that arrived later than half after it.
func (w *World) window(half float64, visit func(i, from, to int)) {
	from, to := 0, 0
	for i, item := range w.Items {
		for w.Items[from].Arrived < item.Arrived-half {
			from++
		}
		for to < len(w.Items) && w.Items[to].Arrived <= item.Arrived+half {
			to++
		}
		visit(i, from, to)
	}
}

// floor returns the shortest delay within 10 s before and after each arrival.
func (w *World) floor() []float64 {
	floor := make([]float64, len(w.Items))
	var rising []int // those that are shorter than all after them, so that the first is the shortest
	next := 0
	w.window(10_000, func(i, from, to int) {
		for ; next < to; next++ {
			for len(rising) > 0 && w.Items[rising[len(rising)-1]].delay() >= w.Items[next].delay() {
				rising = rising[:len(rising)-1]
			}
			rising = append(rising, next)
		}
		for rising[0] < from {
			rising = rising[1:]
		}
		floor[i] = w.Items[rising[0]].delay()
	})
	return floor
}

// oracle returns the wait by which no more than share would have been late of those that arrived
// within 10 s before and after each arrival, and that no stop held up. Where few arrive it looks
// further, up to a minute.
func (w *World) oracle(share float64) []float64 {
	const every = 500
	half := min(10_000*max(1, 30/w.Rate), 60_000)
	wait := make([]float64, len(w.Items))
	last, now := math.Inf(-1), 0.0
	w.window(half, func(i, from, to int) {
		if w.Items[i].Arrived-last > every {
			last = w.Items[i].Arrived
			var delays []float64
			for _, item := range w.Items[from:to] {
				if !item.Stopped {
					delays = append(delays, item.delay())
				}
			}
			if len(delays) > 0 {
				slices.Sort(delays)
				most := int(math.Ceil(float64(len(delays))*(1-share))) - 1
				now = delays[max(most, 0)]
			}
		}
		wait[i] = now
	})
	return wait
}

// findStops finds the stops of a world of which nobody knows them: gaps in the arrivals of more
// than 150 ms beyond two and a half intervals, in which things were held up.
func (w *World) findStops() {
	floor := w.floor()
	before := w.Items[0].Arrived
	for i, first := range w.Items {
		if first.Arrived-before > 150+2500/w.Rate {
			found := false
			for j := i; j < len(w.Items) && w.Items[j].Arrived < first.Arrived+500; j++ {
				held := &w.Items[j]
				due := held.Sent + floor[j]
				if due > before-20 && due < first.Arrived-50 && held.delay() > floor[j]+100 {
					held.Stopped, found = true, true
				}
			}
			if found {
				w.Stops = append(w.Stops, Stop{before, first.Arrived})
			}
		}
		before = max(before, first.Arrived)
	}
}
