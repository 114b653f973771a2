// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"

	"timesync/compare/graph"
	"timesync/compare/play"
	"timesync/internal/rivals"
	"timesync/internal/sim"
	"timesync/internal/stat"
)

// boundName is that of the curve of the error bound.
const boundName = "error bound"

// story is how one world went: the sizes of the errors at end A over time, us, by column, and what
// happened. Both ends of this package are recorded.
type story struct {
	errs   map[string]plotter.XYs
	events []graph.Event
	files  [2]string
}

// playStory plays a world from the time from to the time to, s; to 0 is its end.
func playStory(w play.World, seed uint64, from, to float64, path string) (s story, err error) {
	s = story{errs: map[string]plotter.XYs{}, files: [2]string{path + "-a.tsr", path + "-b.tsr"}}
	var ends [2]*play.Recorded
	for side := range ends {
		if ends[side], err = play.Record(s.files[side]); err != nil {
			return s, err
		}
	}
	add := func(column string, at time.Duration, us float64) {
		if x := at.Seconds(); x >= from && (to == 0 || x <= to) {
			s.errs[column] = append(s.errs[column], plotter.XY{X: x, Y: math.Abs(us)})
		}
	}
	pairs := []sim.Pair{{Name: play.Original, A: new(rivals.Original), B: new(rivals.Original)}, {Name: play.Ours, A: ends[sim.A], B: ends[sim.B]}}
	w.Play(seed, pairs, sim.Observer{Poll: func(o *sim.Observation) {
		if column := pairs[o.Pair].Name; o.OK && o.Side == sim.A {
			add(column, o.At, o.ErrUsec)
			if column == play.Ours {
				bound, _ := ends[sim.A].ErrorBound(o.LocalUsec)
				add(boundName, o.At, 1e3*graph.Millis(bound))
			}
		}
		ends[o.Side].Tape.Flush() // nothing waits in a simulation
	}})
	for _, e := range eventsOf(w, seed) {
		if e.To >= from && (to == 0 || e.From <= to) {
			s.events = append(s.events, e)
		}
	}
	return s, errors.Join(ends[sim.A].Close(), ends[sim.B].Close())
}

// chart is the errors over time.
func (s *story) chart(title string) *graph.Chart {
	const gap = 2 // s
	curves := []graph.Curve{{Name: boundName, Color: play.ColorOf(play.NTP), Parts: graph.Split(s.errs[boundName], gap)}}
	for _, column := range []string{play.Original, play.Ours} {
		curves = append(curves, play.CurveOf(column, graph.Split(s.errs[column], gap)...))
	}
	ours := s.errs[play.Ours]
	x := graph.Axis{Label: "seconds since the start", Min: ours[0].X, Max: ours[len(ours)-1].X}
	return &graph.Chart{Title: title, X: x, Y: graph.ErrorAxis(graph.ErrorLabel, 1, 1e8), Curves: curves, Events: s.events}
}

// sizes returns the sizes of a column's errors, us.
func (s *story) sizes(column string) (all []float64) {
	for _, p := range s.errs[column] {
		all = append(all, p.Y)
	}
	return all
}

// plotWorld draws the errors in one world from the time from to the time to, s, and records it.
func plotWorld(name, traces string, seed uint64, from, to float64, out string) error {
	w, err := play.Find(name, traces)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	path, err := filepath.Abs(filepath.Join(out, fmt.Sprintf("world-%s-%d", name, seed)))
	if err != nil {
		return err
	}
	s, err := playStory(w, seed, from, to, path)
	if err != nil {
		return err
	}
	errs, others := s.sizes(play.Ours), s.sizes(play.Original)
	if len(errs) < 2 {
		return fmt.Errorf("%s: this package does not answer from %g s to %g s", name, from, to)
	}
	fmt.Printf("%s.png: error p50 %s, p99 %s, max %s (the original's p99 %s)\n", path, graph.Micros(stat.OrNaN(errs, 0.5)),
		graph.Micros(stat.OrNaN(errs, 0.99)), graph.Micros(slices.Max(errs)), graph.Micros(stat.OrNaN(others, 0.99)))
	fmt.Printf("what the estimator knew: cd ../cmd/view && go run . %s %s\n", s.files[0], s.files[1])
	return graph.Charts(path+".png", graph.Screen(), s.chart(fmt.Sprintf("%s, seed %d, end A", name, seed)))
}
