// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"

	"gonum.org/v1/plot/plotter"

	"timesync/internal/sim/waiting"
	"timesync/lab/play"
	"timesync/lab/results"
)

// The worlds of JITTER.md: states of a game, and frames of sound or ticks.
var (
	waitRates   = []float64{20, 60}
	waitSeed    = uint64(1)
	waitMayLate = 0.01
)

// waitCourses returns the worlds of JITTER.md.
func waitCourses() []*waiting.Course {
	type which struct {
		kind string
		rate float64
	}
	var all []which
	for _, kind := range waiting.Kinds() {
		for _, rate := range waitRates {
			all = append(all, which{kind, rate})
		}
	}
	return play.Map(all, func(w which) *waiting.Course {
		return waiting.Prepare(waiting.New(w.kind, w.rate, waitSeed), waitMayLate)
	})
}

// waitTable has a row for each kind of world: what is late with package jitter, and how long it
// waits, beside the rules of others with the factor that suits each world best.
func waitTable() string {
	rows := [][]string{{"world", "timesync, late", "wait"}}
	for _, r := range waiting.Rivals {
		rows[0] = append(rows[0], r.Name)
	}
	courses := waitCourses()
	ours := waiting.Judged(courses, func(c *waiting.Course) waiting.Score {
		return c.Judge(waiting.NewOurs(c.Share))
	})
	others := play.Map(waiting.Rivals, func(r waiting.Rival) []*waiting.Row {
		return waiting.Judged(courses, func(c *waiting.Course) waiting.Score { return c.Best(r) })
	})
	for i := range len(ours) + 1 {
		row, last := waiting.All(ours), i == len(ours)
		if !last {
			row = ours[i]
		}
		cells := []string{row.Group, fmt.Sprintf("%.2f %%", 100*row.Late), fmt.Sprintf("%.2f", row.Ratio)}
		for _, other := range others {
			ratio := waiting.All(other).Ratio
			if !last {
				ratio = other[i].Ratio
			}
			cells = append(cells, fmt.Sprintf("%.2f", ratio))
		}
		rows = append(rows, cells)
	}
	return results.Table(rows)
}

// waitLooks are the rules in the picture, each as it was published.
var waitLooks = []struct {
	rival string
	color uint32
}{
	{"NetEq", 0xd9480f},
	{"RFC 3550", 0x862e9c},
	{"lightyear", 0x2b8a3e},
}

// waitChart shows what each rule waits around a stop of the path: a stop is not a longer path.
func waitChart() *results.Chart {
	const before, after = 5_000, 25_000 // ms
	w := waiting.New("stop of the path", 60, 2)
	stop := w.Stops[0]
	begin := stop.Begin - before
	end := stop.Begin + after
	second := func(ms float64) float64 { return (ms - begin) / 1000 }
	c := &results.Chart{
		Title: "What to wait after a stop of the path",
		X: results.Axis{
			Label: "time, s",
			Max:   second(end),
			Ticks: results.TicksAt(0, 5, 10, 15, 20, 25, 30),
		},
		Y: results.Axis{
			Label: "wait, ms",
			Max:   500,
			Ticks: results.TicksAt(0, 100, 200, 300, 400, 500),
		},
		Events: []results.Event{{
			From: second(stop.Begin),
			To:   second(stop.End),
			Name: "nothing arrives",
		}},
	}
	draw := func(e waiting.Estimator) (line plotter.XYs) {
		for _, item := range w.Items {
			e.Arrived(item.Sent, item.Arrived)
			if begin <= item.Arrived && item.Arrived <= end {
				line = append(line, plotter.XY{X: second(item.Arrived), Y: min(e.Wait(), c.Y.Max)})
			}
		}
		return line
	}
	for _, looks := range waitLooks {
		for _, r := range waiting.Rivals {
			if r.Name == looks.rival {
				c.Curves = append(c.Curves, results.Curve{
					Name:  r.Name,
					Color: results.RGB(looks.color),
					Parts: []plotter.XYs{draw(r.New(1, w.Rate))},
				})
			}
		}
	}
	c.Curves = append(c.Curves, results.Curve{
		Name:  play.Ours,
		Color: play.ColorOf(play.Ours),
		Width: results.Bold,
		Parts: []plotter.XYs{draw(waiting.NewOurs(waitMayLate))},
	})
	return c
}
