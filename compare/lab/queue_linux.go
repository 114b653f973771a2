// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot/plotter"

	"timesync/compare/graph"
	"timesync/compare/kept"
	"timesync/compare/page"
	"timesync/compare/play"
	"timesync/internal/sim"
	"timesync/internal/stat"
)

// linkSettled is from when on the start no longer counts.
const linkSettled = 30 * time.Second

// measureLink runs the experiments between two namespaces and writes QUEUE.md, and if the folder is
// that of the project's documents, the figures for README.md.
func measureLink(o options) error {
	committed := filepath.Clean(o.out) == filepath.Clean("../docs")
	if o.only != "" && committed {
		return errors.New("the project's documents need all loads, without -only")
	}
	o.lasting = cmp.Or(o.lasting, 90*time.Second)
	var done []*link
	for _, load := range linkLoads {
		if !strings.Contains(load.name, o.only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "lab: %s, %v, seed %d\n", load.name, o.lasting, o.seed)
		l, err := runLink(load, o)
		if err == nil {
			err = l.save(o.record)
		}
		if err != nil {
			return err
		}
		if s := l.streams[singles]; len(s.delays(sim.A)) == 0 || len(s.delays(sim.B)) == 0 {
			return errors.New("no datagram arrived: are the namespaces joined?")
		}
		done = append(done, l)
		time.Sleep(time.Second) // the router's queue runs empty
	}
	if len(done) == 0 {
		return fmt.Errorf("no load is named %q", o.only)
	}
	err := writeQueue(o.out, done)
	if err == nil && committed {
		err = kept.Write(filepath.Join("kept", kept.QueueFile), done[0].tails()) // that beside TCP
	}
	return err
}

// tails are the 99th percentiles of all of a run.
func (l *link) tails() (rows []kept.Queue) {
	setups := map[string]linkSetup{play.Ours: oursKernel, play.Original: originalKernel}
	for _, r := range rivalPrograms {
		setups[r.name] = r.setup()
	}
	for _, column := range slices.Sorted(maps.Keys(setups)) {
		errs := l.streams[singles].absolute(setups[column], 0, l.lasting)
		rows = append(rows, kept.Queue{Method: column, P99: math.Round(stat.OrNaN(errs, 0.99))})
	}
	return rows
}

// linkWins says where a program beside this package had a smaller 99th percentile than it, with
// the kernel's times on the same load and 30 s after the start; beside TCP from the warm-up on.
func linkWins(done []*link) string {
	var wins []string
	compared := 0
	for _, l := range done {
		from, name := linkSettled, fmt.Sprintf("cross traffic of %.0f %%", 100*l.load.share)
		if l.load.before > 0 {
			name += ", begun later"
		}
		if l.load.phases != nil {
			from, name = linkWarmup, "TCP"
		}
		s := l.streams[singles]
		mine := stat.OrNaN(s.absolute(oursKernel, from, l.lasting), 0.99)
		for _, r := range rivalPrograms {
			theirs := stat.OrNaN(s.absolute(r.setup(), from, l.lasting), 0.99)
			if !math.IsNaN(theirs) {
				compared++
			}
			if theirs < mine {
				wins = append(wins, fmt.Sprintf("%s beside %s (%.0f us; ours %.0f us)", r.name, name, theirs, mine))
			}
		}
	}
	if len(wins) == 0 {
		return fmt.Sprintf("**In none of %d comparisons of the 99th percentile was chronyd or ptp4l better than this package.**", compared)
	}
	return fmt.Sprintf("**In %d of %d comparisons of the 99th percentile at 60 singles a second another was "+
		"better than this package:** %s. The others run between clocks without a difference in "+
		"rate.", len(wins), compared, strings.Join(wins, ", "))
}

// save saves how long the datagrams of each kind of traffic were under way, as internal/sim reads it.
func (l *link) save(folder string) error {
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for i, stream := range l.streams {
		name := fmt.Sprintf("%s-%s.csv.gz", l.load.name, strings.ReplaceAll(linkTraffics[i].name, " ", ""))
		f, err := os.Create(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		z := gzip.NewWriter(f)
		fmt.Fprintln(z, "send_time_us,owd_us,direction")
		for side, direction := range [...]string{"down", "up"} {
			for _, r := range stream.trace[side] {
				fmt.Fprintf(z, "%d,%d,%s\n", r.sent, r.owd, direction)
			}
		}
		if err := errors.Join(z.Close(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// linkSpan is a row of a table: a span of a run, of one kind of datagrams.
type linkSpan struct {
	l        *link
	stream   int
	name     string
	from, to time.Duration
}

// writeQueue writes QUEUE.md with what was measured. A part of which nothing was has a table without rows.
func writeQueue(folder string, done []*link) error {
	lasts := done[0].lasting
	spans, pictures := map[string][]linkSpan{}, map[string][]*graph.Chart{}
	lost, sent := 0, 0
	for _, l := range done {
		if l.load.phases != nil {
			for _, p := range append(l.load.phases, linkPhase{name: "all of it", to: 1}) {
				spans["tcp"] = append(spans["tcp"], linkSpan{l, singles, p.name, l.after(p.from), l.after(p.to)})
			}
			pictures["link"] = l.charts()
			for _, r := range slices.Concat(l.streams[singles].trace[:]...) {
				if sent++; r.owd < 0 {
					lost++
				}
			}
			continue
		}
		for i, traffic := range linkTraffics {
			name := fmt.Sprintf("%.0f %%, %s", 100*l.load.share, traffic.name)
			if l.load.before > 0 {
				name += fmt.Sprintf(", begun %.0f s later", l.load.before.Seconds())
			}
			spans["cross"] = append(spans["cross"], linkSpan{l, i, name, linkSettled, lasts})
			spans["start"] = append(spans["start"], linkSpan{l, i, name, linkWarmup, linkSettled})
			spans["alike"] = append(spans["alike"], linkSpan{l, i, name, linkWarmup, lasts})
		}
	}
	const loads = "cross traffic and datagrams"
	parts := map[string]string{
		"wins":     page.Text("%s", linkWins(done)),
		"tcp":      linkTable("while there is", linkSkew, spans["tcp"]) + page.Text("Of %d single datagrams %d did not arrive.", sent, lost),
		"cross":    linkTable(loads, linkSkew, spans["cross"]),
		"start":    linkTable(loads, linkSkew, spans["start"]),
		"alike":    linkTable(loads, 0, spans["alike"]),
		"versions": page.Text("%.0f s for each load, seed %d. Versions: chronyd %s, ptp4l %s.", lasts.Seconds(), done[0].seed, version("chronyd"), version("ptp4l")),
	}
	for _, name := range []string{"wins", "tcp", "cross", "start", "alike", "versions"} {
		fmt.Print(parts[name])
	}
	return errors.Join(page.Draw(folder, pictures), page.Write("../docs/QUEUE.md", folder, parts))
}

// cell is three quantiles of errors, us.
func cell(errs []float64) string {
	if len(errs) == 0 {
		return "-"
	}
	q := kept.QuantilesOf(errs)
	return fmt.Sprintf("%.0f / %.0f / %.0f", q.P50, q.P99, q.Max)
}

// linkTable has a column for each setup with clocks so far apart, for the oracle, for each program, and
// one for how long datagrams were under way, median to B / to A.
func linkTable(first string, skew float64, spans []linkSpan) string {
	columns := slices.DeleteFunc(append(slices.Clone(linkSetups), oracleSees), func(s linkSetup) bool { return s.skew != skew })
	for _, r := range rivalPrograms {
		columns = append(columns, r.setup())
	}
	rows := [][]string{{first}}
	for _, c := range columns {
		rows[0] = append(rows[0], c.name)
	}
	rows[0] = append(rows[0], "under way, ms")
	for _, s := range spans {
		stream, row := s.l.streams[s.stream], []string{s.name}
		for _, c := range columns {
			row = append(row, cmp.Or(s.l.missing[c.name], cell(stream.absolute(c, s.from, s.to))))
		}
		underWay := func(side sim.Side) float64 {
			var ms []float64
			for _, p := range stream.delays(side) {
				if p.X >= s.from.Seconds() && p.X < s.to.Seconds() {
					ms = append(ms, p.Y)
				}
			}
			return stat.OrNaN(ms, 0.5)
		}
		rows = append(rows, append(row, fmt.Sprintf("%.3g / %.3g", underWay(sim.B), underWay(sim.A))))
	}
	return page.Table(rows)
}

// charts show the largest error of each second at end A, and the delays.
func (l *link) charts() []*graph.Chart {
	s, seconds := l.streams[singles], l.lasting.Seconds()
	var curves []graph.Curve
	curve := func(column string, setup linkSetup) {
		var worst play.Seconds
		for _, e := range s.errs[setup] {
			if e.side == sim.A {
				worst.Take(e.at, e.err)
			}
		}
		if len(worst) > 0 {
			curves = append(curves, play.CurveOf(column, graph.Parts(worst)...))
		}
	}
	curve(play.OracleName, oracleSees)
	curve(play.Original, originalKernel)
	curve(play.ChronydOften, linkSetup{name: play.ChronydOften, kernel: true})
	curve(play.Ours, oursKernel)
	var phases []graph.Event
	for _, p := range l.load.phases[1 : len(l.load.phases)-1] { // there is TCP
		name := strings.TrimPrefix(strings.TrimPrefix(p.name, "TCP "), "from ")
		phases = append(phases, graph.Event{From: p.from * seconds, To: p.to*seconds - 0.3, Name: name})
	}
	top, bottom := graph.Axis{Max: seconds}, graph.Axis{Max: seconds, Label: "seconds since the start"}
	return []*graph.Chart{
		{Title: "Beside TCP on a real queue: largest error of each second", X: top, Y: graph.ErrorAxis(1e6), Curves: curves, Events: phases},
		{Title: "How long datagrams were under way", X: bottom, Y: graph.Axis{Label: "delay, ms", Max: 400}, Events: phases, Curves: []graph.Curve{
			{Name: "to B", Color: play.ColorOf(play.Netfox), Parts: []plotter.XYs{s.delays(sim.B)}},
			{Name: "to A", Color: play.ColorOf(play.Slot), Parts: []plotter.XYs{s.delays(sim.A)}},
		}},
	}
}
