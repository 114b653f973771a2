// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
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
	a, b, _ := strings.Cut(o.link, ",")
	var done []*link
	for _, load := range linkLoads {
		if !strings.Contains(load.name, o.only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "compare: %s, %v, seed %d\n", load.name, o.lasting, o.seed)
		l, err := runLink([2]string{a, b}, load, o.lasting, o.seed, o.keep)
		if err != nil {
			return err
		}
		if err := l.record(o.record); err != nil {
			return err
		}
		if len(l.streams[0].delays(sim.A)) == 0 || len(l.streams[0].delays(sim.B)) == 0 {
			return errors.New("no datagram arrived: are the namespaces joined?")
		}
		done = append(done, l)
		time.Sleep(time.Second) // the router's queue runs empty
	}
	if len(done) == 0 {
		return fmt.Errorf("no load is named %q", o.only)
	}
	d := linkDocument(done)
	fmt.Print(d.Markdown())
	if committed {
		if err := kept.WriteQueue("kept", done[0].tails()); err != nil {
			return err
		}
	}
	return d.Write(o.out, "QUEUE.md")
}

// tails are the 99th percentiles of all of a run.
func (l *link) tails() map[string]float64 {
	tails := map[string]float64{}
	of := func(column string, errs []linkError, setup linkSetup) {
		tails[column] = math.Round(stat.OrNaN(absolute(errs, setup, 0, l.lasting), 0.99))
	}
	of(play.Ours, l.streams[0].errs, oursKernel)
	of(play.Original, l.streams[0].errs, originalKernel)
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
		mine := stat.OrNaN(absolute(l.streams[0].errs, oursKernel, from, l.lasting), 0.99)
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

// record saves what each kind of traffic saw.
func (l *link) record(folder string) error {
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for i := range l.streams {
		name := fmt.Sprintf("%s-%s.csv.gz", l.load.name, strings.ReplaceAll(linkTraffics[i].name, " ", ""))
		if err := writeTrace(filepath.Join(folder, name), l.streams[i].trace); err != nil {
			return err
		}
	}
	return nil
}

// linkDocument is QUEUE.md.
func linkDocument(done []*link) *page.Document {
	d := new(page.Document)
	d.Heading(1, "Beside other traffic on a real queue")
	d.Text("This is measured, not simulated, and another run gives other figures: beside TCP this package had a 99th percentile of 8 to 26 us in six runs, chronyd 9 to 109. Two hosts and a router are network namespaces of one Linux machine. The router sends 10 Mbit/s each way and holds 300 ms (`tc ... tbf`). The hosts exchange 60 single datagrams a second each way, and 30 frames of 8 datagrams back to back, while other traffic fills the link for %.0f s.", done[0].lasting.Seconds())
	d.Text("Both ends read the machine's clock, so the true offset is known: one end reads it 1234.57 s ahead and 60 ppm fast. This package and the original's algorithm get the same datagrams, with the kernel's times of receipt (`rxtime`) or with the time after the read. chronyd and ptp4l run beside them on the same queue. They read the machine's clock at both ends without a difference in rate, and leave it alone (`chronyd -x`; `free_running` in ptp4l), so what they say of the other end is their error.")
	d.Text("Errors are in microseconds at both ends, median / 99th percentile / maximum. %s", linkWins(done))
	for _, l := range done {
		if l.load.phases == nil {
			continue
		}
		d.Heading(2, "Beside TCP")
		d.Text("Four TCP connections (CUBIC) fill the link one way, the other way and both ways. Single datagrams, the kernel's times, from %.0f s on. The last column is how long datagrams were under way, median to B / to A:", linkWarmup.Seconds())
		d.Table(l.phaseTable())
		lost, sent := l.lost()
		d.Text("Of %d single datagrams %d did not arrive.", sent, lost)
		d.Picture("link", "The error of the oracle, the original, chronyd and this package over time, and below how long datagrams were under way", "This package and chronyd stay right while TCP keeps the queue at up to 300 ms for 20 s. After 10 s the original takes the queue for the path; its error is then more than a third of the queue.", l.draw)
	}
	crossed := slices.DeleteFunc(slices.Clone(done), func(l *link) bool { return l.load.phases != nil })
	if len(crossed) > 0 {
		d.Heading(2, "Beside random cross traffic")
		d.Text("UDP in bursts of 1 to 20 packets of 1,200 bytes, at random (a Poisson process), fills 60, 80 or 90 %% of the link each way; our own datagrams take 5 %% more. At 90 %% the queue may not be empty for 10 to 25 s. In the last rows the queue stands already when the first datagram is sent; else both begin at once. Clocks 60 ppm apart, from %.0f s on:", linkSettled.Seconds())
		d.Table(crossTable(crossed, linkSkew, linkSettled, crossed[0].lasting))
	}
	d.Heading(2, "How it was measured")
	d.Text("This package sends 3 bytes in datagrams that the program sends anyway, 60 or 240 a second each way, and 3 more for a report every 2 s (0.5 s in the first 20 s). chronyd makes 1 or 16 exchanges a second of its own (`minpoll` and `maxpoll` 0 or -4, `xleave`, its defaults otherwise), with the kernel's times of sending and receipt; its estimate is read ten times a second with `chronyc -c tracking`. ptp4l sends 16 Sync and 16 Delay_Req a second with the kernel's times (`time_stamping software`); its figure is the offset that it prints for each exchange, before its servo averages for minutes. chronyd is made to set a computer's clock, ptp4l for networks whose switches take part, and neither for a program's own datagrams. Versions: %s.", rivalVersions())
	d.Code("compare/lab/queue.sh FOLDER    # 8 min; Linux, root, iproute2; docs is for this page\ncompare/lab/queue.sh FOLDER -only cross90 -record TRACES\ncd compare && go run ./lab -replay TRACES/cross90-60singles.csv.gz")
	if len(crossed) > 0 {
		crossText(d, crossed)
	}
	return d
}

// crossText is what else was measured beside random cross traffic.
func crossText(d *page.Document, crossed []*link) {
	d.Heading(2, "The start, and one clock for both ends")
	d.Text("Seed of the bursts: %d. The first seconds, clocks 60 ppm apart, from 5 to 30 s: the difference in rate is not known yet, and a queue may stand from the first datagram on.", crossed[0].seed)
	d.Table(crossTable(crossed, linkSkew, linkWarmup, linkSettled))
	d.Text("One clock for both ends, as chronyd and ptp4l have it, from 5 s on:")
	d.Table(crossTable(crossed, 0, linkWarmup, crossed[0].lasting))
}

// cell is three quantiles of errors, us.
func cell(errs []float64) string {
	if len(errs) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f / %.0f / %.0f", stat.OrNaN(errs, 0.5), stat.OrNaN(errs, 0.99), stat.OrNaN(errs, 1))
}

// rivalCells are those of the programs.
func (l *link) rivalCells(from, to time.Duration) (cells []string) {
	for _, r := range l.rivals {
		if c := cell(absolute(r.errs, r.setup(), from, to)); r.why == "" {
			cells = append(cells, c)
		} else {
			cells = append(cells, r.why)
		}
	}
	return cells
}

func rivalNames() (names []string) {
	for _, r := range rivalPrograms {
		names = append(names, r.name)
	}
	return names
}

// crossTable has a row for each load and each kind of datagrams.
func crossTable(done []*link, skew float64, from, to time.Duration) [][]string {
	head := []string{"cross traffic and datagrams"}
	var columns []linkSetup
	for _, s := range linkSetups {
		if s.skew == skew {
			columns = append(columns, s)
			head = append(head, strings.TrimSuffix(s.name(), s.clocks()))
		}
	}
	if skew != 0 {
		columns = append(columns, oracleSees)
		head = append(head, play.OracleName)
	}
	rows := [][]string{append(head, rivalNames()...)}
	for _, l := range done {
		for i := range l.streams {
			name := fmt.Sprintf("%.0f %%, %s", 100*l.load.share, linkTraffics[i].name)
			if l.load.before > 0 {
				name += fmt.Sprintf(", begun %.0f s later", l.load.before.Seconds())
			}
			row := []string{name}
			for _, c := range columns {
				row = append(row, cell(absolute(l.streams[i].errs, c, from, to)))
			}
			rows = append(rows, append(row, l.rivalCells(from, to)...))
		}
	}
	return rows
}

// phaseColumns are the setups of the table about TCP, and their names.
var phaseColumns = []struct {
	setup linkSetup
	name  string
}{{oursKernel, play.Ours}, {originalKernel, play.Original}, {oursRead, "timesync, after the read"}, {oracleSees, play.OracleName}}

// phaseTable has a row for each phase and one for all.
func (l *link) phaseTable() [][]string {
	head := []string{"while there is"}
	for _, c := range phaseColumns {
		head = append(head, c.name)
	}
	rows := [][]string{append(append(head, rivalNames()...), "under way")}
	s := &l.streams[0]
	row := func(name string, from, to time.Duration) {
		cells := []string{name}
		for _, c := range phaseColumns {
			cells = append(cells, cell(absolute(s.errs, c.setup, from, to)))
		}
		var middle [2]float64
		for side := range middle {
			var ms []float64
			for _, p := range s.delays(sim.Side(side)) {
				if p.X >= from.Seconds() && p.X < to.Seconds() {
					ms = append(ms, p.Y)
				}
			}
			middle[side] = stat.OrNaN(ms, 0.5)
		}
		cells = append(cells, l.rivalCells(from, to)...)
		rows = append(rows, append(cells, fmt.Sprintf("%.3g / %.3g ms", middle[1], middle[0])))
	}
	for _, p := range l.load.phases {
		row(p.name, l.after(p.from), l.after(p.to))
	}
	row("all of it", 0, l.lasting+time.Second)
	return rows
}

// lost returns how many of the single datagrams did not arrive.
func (l *link) lost() (lost, sent int) {
	for _, rows := range l.streams[0].trace {
		for _, r := range rows {
			if sent++; r.owd < 0 {
				lost++
			}
		}
	}
	return lost, sent
}

// worst returns the largest error of each second at end A.
func (l *link) worst(errs []linkError, setup linkSetup) []float64 {
	worst := play.NoSeconds(l.lasting + time.Second)
	for _, e := range errs {
		if e.setup == setup && e.side == sim.A {
			worst.Take(e.at, e.err)
		}
	}
	return worst
}

// draw draws the errors at end A, and the delays.
func (l *link) draw(path string, t graph.Theme) error {
	s, seconds := &l.streams[0], l.lasting.Seconds()
	curves := []graph.Curve{
		play.CurveOf(play.OracleName, graph.Parts(l.worst(s.errs, oracleSees))...),
		play.CurveOf(play.Original, graph.Parts(l.worst(s.errs, originalKernel))...),
	}
	for _, r := range l.rivals {
		if r.name == play.ChronydOften && len(r.errs) > 0 {
			curves = append(curves, graph.Curve{Name: r.name, Color: play.ColorOf(play.Chronyd), Parts: graph.Parts(l.worst(r.errs, r.setup()))})
		}
	}
	curves = append(curves, play.CurveOf(play.Ours, graph.Parts(l.worst(s.errs, oursKernel))...))
	var phases []graph.Event
	for _, p := range l.load.phases[1 : len(l.load.phases)-1] { // there is TCP
		phases = append(phases, graph.Event{From: p.from * seconds, To: p.to*seconds - 0.3, Name: strings.TrimPrefix(strings.TrimPrefix(p.name, "TCP "), "from ")})
	}
	x := graph.Axis{Min: 0, Max: seconds, Ticks: graph.Even(0, seconds)}
	top := &graph.Chart{Title: "Beside TCP on a real queue: largest error of each second", X: x, Y: graph.ErrorAxis(graph.ErrorLabel, 1, 1e6), Curves: curves, Events: phases}
	x.Label = "seconds since the start"
	bottom := &graph.Chart{Title: "How long datagrams were under way", X: x, Y: graph.Axis{Label: "delay, ms", Min: 0, Max: 400, Ticks: graph.Multiples("%.0f", 100, 400)}, Curves: []graph.Curve{
		{Name: "to B", Color: play.ColorOf(play.Netfox), Parts: []plotter.XYs{s.delays(sim.B)}},
		{Name: "to A", Color: play.ColorOf(play.Slot), Parts: []plotter.XYs{s.delays(sim.A)}},
	}, Events: phases}
	return graph.Charts(path, t, top, bottom)
}
