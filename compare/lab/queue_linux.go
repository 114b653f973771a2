// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
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
		if err != nil {
			return err
		}
		if err := l.save(o.record); err != nil {
			return err
		}
		if len(l.streams[singles].delays(sim.A)) == 0 || len(l.streams[singles].delays(sim.B)) == 0 {
			return errors.New("no datagram arrived: are the namespaces joined?")
		}
		done = append(done, l)
		time.Sleep(time.Second) // the router's queue runs empty
	}
	if len(done) == 0 {
		return fmt.Errorf("no load is named %q", o.only)
	}
	for _, l := range done {
		if committed && l.load.phases != nil {
			if err := kept.WriteQueue("kept", l.tails()); err != nil {
				return err
			}
		}
	}
	return writeQueue(o.out, done)
}

// tails are the 99th percentiles of all of a run.
func (l *link) tails() map[string]float64 {
	tails := map[string]float64{}
	of := func(column string, errs []linkError, setup linkSetup) {
		tails[column] = math.Round(stat.OrNaN(absolute(errs, setup, 0, l.lasting), 0.99))
	}
	of(play.Ours, l.streams[singles].errs, oursKernel)
	of(play.Original, l.streams[singles].errs, originalKernel)
	for _, r := range l.rivals {
		of(r.name, r.errs, r.setup())
	}
	return tails
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
		mine := stat.OrNaN(absolute(l.streams[singles].errs, oursKernel, from, l.lasting), 0.99)
		for _, r := range l.rivals {
			errs := absolute(r.errs, r.setup(), from, l.lasting)
			if len(errs) == 0 {
				continue
			}
			compared++
			if theirs := stat.OrNaN(errs, 0.99); theirs < mine {
				wins = append(wins, fmt.Sprintf("%s beside %s (%.0f us; ours %.0f us)", r.name, name, theirs, mine))
			}
		}
	}
	if len(wins) == 0 {
		return fmt.Sprintf("**In none of %d comparisons of the 99th percentile was chronyd or ptp4l better than this package.**", compared)
	}
	return fmt.Sprintf("**In %d of %d comparisons of the 99th percentile at 60 singles a second another was better than this package:** %s. The others run between clocks without a difference in rate.", len(wins), compared, strings.Join(wins, ", "))
}

// save saves how long the datagrams of each kind of traffic were under way, as internal/sim reads it.
func (l *link) save(folder string) error {
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for i := range l.streams {
		name := fmt.Sprintf("%s-%s.csv.gz", l.load.name, strings.ReplaceAll(linkTraffics[i].name, " ", ""))
		f, err := os.Create(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		z := gzip.NewWriter(f)
		fmt.Fprintln(z, "send_time_us,owd_us,direction")
		for side, direction := range [...]string{"down", "up"} {
			for _, r := range l.streams[i].trace[side] {
				fmt.Fprintf(z, "%d,%d,%s\n", r.sent, r.owd, direction)
			}
		}
		if err := errors.Join(z.Close(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// writeQueue writes QUEUE.md with what was measured. A part of which nothing was has a table without rows.
func writeQueue(folder string, done []*link) error {
	lasts := done[0].lasting
	var tcp, crossed, started, alike []linkSpan
	parts, pictures := map[string]string{}, map[string][]*graph.Chart{}
	lost, sent := 0, 0
	for _, l := range done {
		if l.load.phases != nil {
			for _, p := range append(l.load.phases, linkPhase{name: "all of it", to: 1}) {
				tcp = append(tcp, linkSpan{l, singles, p.name, l.after(p.from), l.after(p.to)})
			}
			lost, sent = l.lost()
			pictures["link"] = l.charts()
			continue
		}
		for i := range l.streams {
			name := fmt.Sprintf("%.0f %%, %s", 100*l.load.share, linkTraffics[i].name)
			if l.load.before > 0 {
				name += fmt.Sprintf(", begun %.0f s later", l.load.before.Seconds())
			}
			crossed = append(crossed, linkSpan{l, i, name, linkSettled, lasts})
			started = append(started, linkSpan{l, i, name, linkWarmup, linkSettled})
			alike = append(alike, linkSpan{l, i, name, linkWarmup, lasts})
		}
	}
	parts["wins"] = page.Text("%s", linkWins(done))
	parts["tcp"] = linkTable("while there is", linkSkew, tcp) + page.Text("Of %d single datagrams %d did not arrive.", sent, lost)
	parts["cross"] = linkTable("cross traffic and datagrams", linkSkew, crossed)
	parts["start"] = linkTable("cross traffic and datagrams", linkSkew, started)
	parts["alike"] = linkTable("cross traffic and datagrams", 0, alike)
	parts["versions"] = page.Text("%.0f s for each load, seed %d. Versions: chronyd %s, ptp4l %s.", lasts.Seconds(), done[0].seed, version("chronyd"), version("ptp4l"))
	fmt.Print(parts["wins"], parts["tcp"], parts["cross"], parts["start"], parts["alike"], parts["versions"])
	return errors.Join(page.Draw(folder, pictures), page.Write("../docs/QUEUE.md", folder, parts))
}

// cell is three quantiles of errors, us.
func cell(errs []float64) string {
	if len(errs) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f / %.0f / %.0f", stat.OrNaN(errs, 0.5), stat.OrNaN(errs, 0.99), stat.OrNaN(errs, 1))
}

// linkSpan is a row of a table: a span of a run, of one kind of datagrams.
type linkSpan struct {
	l        *link
	stream   int
	name     string
	from, to time.Duration
}

// linkTable has a column for each setup with clocks so far apart, for the oracle, for each program, and
// one for how long datagrams were under way, median to B / to A.
func linkTable(first string, skew float64, spans []linkSpan) string {
	columns := slices.DeleteFunc(append(slices.Clone(linkSetups), oracleSees), func(s linkSetup) bool { return s.skew != skew })
	head := []string{first}
	for _, c := range columns {
		head = append(head, c.name())
	}
	for _, r := range rivalPrograms {
		head = append(head, r.name)
	}
	rows := [][]string{append(head, "under way, ms")}
	for _, s := range spans {
		stream, row := &s.l.streams[s.stream], []string{s.name}
		for _, c := range columns {
			row = append(row, cell(absolute(stream.errs, c, s.from, s.to)))
		}
		for _, r := range s.l.rivals {
			row = append(row, cmp.Or(r.why, cell(absolute(r.errs, r.setup(), s.from, s.to))))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.3g / %.3g", stream.underWay(sim.B, s), stream.underWay(sim.A, s))))
	}
	return page.Table(rows)
}

// underWay returns for how long datagrams to an end were under way, ms: the median.
func (s *linkStream) underWay(side sim.Side, span linkSpan) float64 {
	var ms []float64
	for _, p := range s.delays(side) {
		if p.X >= span.from.Seconds() && p.X < span.to.Seconds() {
			ms = append(ms, p.Y)
		}
	}
	return stat.OrNaN(ms, 0.5)
}

// lost returns how many of the single datagrams did not arrive.
func (l *link) lost() (lost, sent int) {
	for _, rows := range l.streams[singles].trace {
		for _, r := range rows {
			if sent++; r.owd < 0 {
				lost++
			}
		}
	}
	return lost, sent
}

// worst returns the largest error of each second at end A.
func worst(errs []linkError, setup linkSetup) []plotter.XYs {
	var worst play.Seconds
	for _, e := range errs {
		if e.setup == setup && e.side == sim.A {
			worst.Take(e.at, e.err)
		}
	}
	return graph.Parts(worst)
}

// charts show the errors at end A, and the delays.
func (l *link) charts() []*graph.Chart {
	s, seconds := &l.streams[singles], l.lasting.Seconds()
	curves := []graph.Curve{
		play.CurveOf(play.OracleName, worst(s.errs, oracleSees)...),
		play.CurveOf(play.Original, worst(s.errs, originalKernel)...),
	}
	for _, r := range l.rivals {
		if r.name == play.ChronydOften && len(r.errs) > 0 {
			curves = append(curves, graph.Curve{Name: r.name, Color: play.ColorOf(play.Chronyd), Parts: worst(r.errs, r.setup())})
		}
	}
	curves = append(curves, play.CurveOf(play.Ours, worst(s.errs, oursKernel)...))
	var phases []graph.Event
	for _, p := range l.load.phases[1 : len(l.load.phases)-1] { // there is TCP
		phases = append(phases, graph.Event{From: p.from * seconds, To: p.to*seconds - 0.3, Name: strings.TrimPrefix(strings.TrimPrefix(p.name, "TCP "), "from ")})
	}
	x := graph.Axis{Min: 0, Max: seconds}
	top := &graph.Chart{Title: "Beside TCP on a real queue: largest error of each second", X: x, Y: graph.ErrorAxis(graph.ErrorLabel, 1e6), Curves: curves, Events: phases}
	x.Label = "seconds since the start"
	bottom := &graph.Chart{Title: "How long datagrams were under way", X: x, Y: graph.Axis{Label: "delay, ms", Min: 0, Max: 400}, Curves: []graph.Curve{
		{Name: "to B", Color: play.ColorOf(play.Netfox), Parts: []plotter.XYs{s.delays(sim.B)}},
		{Name: "to A", Color: play.ColorOf(play.Slot), Parts: []plotter.XYs{s.delays(sim.A)}},
	}, Events: phases}
	return []*graph.Chart{top, bottom}
}
