// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"time"

	"gonum.org/v1/plot/plotter"

	"timesync/internal/sim/listening"
	"timesync/lab/results"
)

// heard is what a listener heard of an hour of sound over a kind of path.
type heard struct {
	kind string
	listening.Result
	err error
}

// listen plays an hour. Both cards are 100 ppm off, in opposite directions.
func listen(kind string) heard {
	c := listening.Config{Kind: kind, Seed: 1, Lasting: time.Hour, CapturePPM: 100, PlayPPM: -100}
	r, err := listening.Judge(c)
	return heard{kind, r, err}
}

// playoutTable has a row for each kind of path.
func (f *figures) playoutTable() string {
	rows := [][]string{{
		"path", "heard", "in time", "latency", "fixed latency for as many in time",
		"in time by a fixed one as long", "gaps", "corrected by", "above 0.5 %", "above 2 %",
	}}
	percent := func(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }
	millis := func(d time.Duration) string { return fmt.Sprintf("%.0f ms", results.Millis(d)) }
	for _, h := range f.heard {
		rows = append(rows, []string{
			h.kind,
			percent(h.Played),
			percent(h.InTime),
			millis(h.Latency),
			millis(h.FixedLatency),
			percent(h.FixedInTime),
			fmt.Sprintf("%.1f", h.Gaps),
			millis(h.Corrected),
			fmt.Sprintf("%.1f s", h.Above05),
			fmt.Sprintf("%.1f s", h.LongestAt2.Seconds()),
		})
	}
	return results.Table(rows)
}

// playoutCharts show two minutes of each kind: the delay of what arrives, and the latency.
func (f *figures) playoutCharts() (charts []*results.Chart) {
	const from, lasting = 10 * time.Minute, 2 * time.Minute
	for _, h := range f.heard {
		var delays, latencies plotter.XYs
		most := 0.0
		for _, m := range h.Course {
			if m.At < from || m.At > from+lasting || m.Delay == 0 {
				continue
			}
			at := (m.At - from).Seconds()
			delays = append(delays, plotter.XY{X: at, Y: results.Millis(m.Delay)})
			latencies = append(latencies, plotter.XY{X: at, Y: results.Millis(m.Latency)})
			most = max(most, results.Millis(m.Latency))
		}
		for i := range delays {
			delays[i].Y = min(delays[i].Y, 1.2*most) // of what a stop held up
		}
		charts = append(charts, &results.Chart{
			Title: h.kind,
			X:     results.Axis{Label: "s", Max: lasting.Seconds()},
			Y: results.Axis{
				Label: "ms",
				Max:   1.2 * most,
				Ticks: results.TicksAt(0, 50, 100, 150, 200, 250),
			},
			Curves: []results.Curve{
				{
					Name:  "delay of what arrives",
					Color: results.RGB(0x8c959f),
					Dots:  1,
					Parts: []plotter.XYs{delays},
				},
				{
					Name:  "latency",
					Color: results.RGB(0x0969da),
					Width: results.Bold,
					Parts: []plotter.XYs{latencies},
				},
			},
		})
	}
	return charts
}
