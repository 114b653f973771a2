// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"gonum.org/v1/plot/plotter"

	"timesync"
	"timesync/compare/graph"
	"timesync/compare/kept"
	"timesync/compare/play"
	"timesync/internal/sim"
	"timesync/record"
)

// plotWorld draws the errors at end A in one world from the time from to the time to, s; to 0 is its
// end. It records both ends for the viewer.
func plotWorld(name, traces string, seed uint64, from, to float64, out string) error {
	w, err := play.Find(name, traces)
	if err != nil {
		return err
	}
	path, err := filepath.Abs(filepath.Join(out, fmt.Sprintf("world-%s-%d", name, seed)))
	if err = errors.Join(err, os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	answers := play.Play(w, seed)
	points := func(column string, value func(a play.Answer) float64) (all plotter.XYs) {
		for _, a := range answers[column][sim.A] {
			if x := a.At.Seconds(); !math.IsInf(a.Err, 1) && x >= from && (to == 0 || x <= to) {
				all = append(all, plotter.XY{X: x, Y: value(a)})
			}
		}
		return all
	}
	x := graph.Axis{Label: "seconds since the start"}
	const gap = 2 // s
	curves := []graph.Curve{{Name: "error bound", Color: play.ColorOf(play.NTP),
		Parts: graph.Split(points(play.Ours, func(a play.Answer) float64 { return a.Bound }), gap)}}
	for _, column := range []string{play.OracleName, play.Original, play.Ours} {
		xys := points(column, func(a play.Answer) float64 { return a.Err })
		if len(xys) < 2 {
			return fmt.Errorf("%s: %s does not answer from %g s to %g s", name, column, from, to)
		}
		var errs []float64
		for _, p := range xys {
			errs = append(errs, p.Y)
		}
		q := kept.QuantilesOf(errs)
		fmt.Printf("%-9s p50 %s, p99 %s, max %s\n", column, graph.Micros(q.P50), graph.Micros(q.P99), graph.Micros(q.Max))
		curves = append(curves, play.CurveOf(column, graph.Split(xys, gap)...))
		x.Min, x.Max = xys[0].X, xys[len(xys)-1].X // at last those of ours
	}
	chart := &graph.Chart{Title: fmt.Sprintf("%s, seed %d, end A", name, seed), X: x, Y: graph.ErrorAxis(1e8), Curves: curves}
	for _, e := range eventsOf(w, seed) {
		if e.To >= x.Min && e.From <= x.Max {
			chart.Events = append(chart.Events, e)
		}
	}
	if err := recordWorld(w, seed, path); err != nil {
		return err
	}
	fmt.Printf("%s.png\nwhat the estimator knew: cd ../cmd/view && go run . %s-a.tsr %s-b.tsr\n", path, path, path)
	return graph.Charts(path+".png", graph.Screen(), chart)
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
func recordWorld(w play.World, seed uint64, path string) error {
	var ends [2]recorded
	var files [2]bytes.Buffer
	for side := range ends {
		ends[side].tape = record.New(&files[side])
		ends[side].tape.Wrap(&ends[side].Sync)
	}
	w.Play(seed, []sim.Pair{{A: &ends[sim.A], B: &ends[sim.B]}}, sim.Observer{Poll: func(o *sim.Observation) {
		ends[o.Side].tape.Flush() // nothing waits in a simulation
	}})
	err := errors.Join(ends[sim.A].tape.Close(), ends[sim.B].tape.Close())
	return errors.Join(err, os.WriteFile(path+"-a.tsr", files[sim.A].Bytes(), 0o644), os.WriteFile(path+"-b.tsr", files[sim.B].Bytes(), 0o644))
}
