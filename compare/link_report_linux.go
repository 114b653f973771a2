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

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"timesync/internal/sim"
)

// linkSettled is from when on the start no longer counts.
const linkSettled = 30 * time.Second

// measureLink runs the experiments between two namespaces and writes LINK.md and a picture.
func measureLink(o options) error {
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
	return writeLink(linkDocument(done), o.out)
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

func writeLink(d *document, out string) error {
	if err := os.MkdirAll(filepath.Join(out, pictureFolder), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "LINK.md"), []byte(d.markdown()), 0o644); err != nil {
		return err
	}
	fmt.Print(d.markdown())
	for _, p := range d.pictures {
		if err := p.draw(filepath.Join(out, pictureFolder, p.name+".png")); err != nil {
			return err
		}
	}
	return nil
}

// linkDocument is LINK.md.
func linkDocument(done []*link) *document {
	d := new(document)
	d.heading(1, "A real queue")
	d.text("Two hosts and a router are network namespaces of one Linux machine. The router sends 10 Mbit/s each way and holds 300 ms (`tc ... tbf`). The hosts exchange 60 single datagrams a second each way, and 30 frames of 8 datagrams back to back, while something else fills the link for %.0f s. This was measured, not simulated: another run gives other figures.", done[0].lasting.Seconds())
	d.text("Our own ends and those of the original's algorithm read the machine's clock, which is the truth; one end reads it 1234.57 s ahead and, where a table says 60 ppm, that much fast. Both get the same datagrams, with the kernel's times of receipt (`rxtime`) or with the time after the read. chronyd and ptp4l run beside them, at the same time on the same queue. They read the machine's clock at both ends, leave it alone (`chronyd -x`; `free_running` in ptp4l), and have no skew to learn: what they say of the other end is their error. Without a queue both ways take equally long, to within some 10 us.")
	d.text("Errors are in microseconds at both ends, median / 99th percentile / maximum.")
	for _, l := range done {
		if l.load.phases == nil {
			continue
		}
		d.heading(2, "Beside TCP")
		d.text("Four TCP connections (CUBIC) fill the link one way, the other way and both ways. Clocks 60 ppm apart, single datagrams, the kernel's times, from %.0f s on. Last, how long datagrams were under way, median to B / to A:", linkWarmup.Seconds())
		d.table(l.phaseTable())
		lost, sent := l.lost()
		d.text("Of %d single datagrams %d did not arrive.", sent, lost)
		d.picture("link", "Above: this package and chronyd stay right while TCP keeps the queue at up to 300 ms for 20 s; the original after 10 s takes the queue for the path and is wrong by half of it. Below: how long datagrams were under way.", l.draw)
	}
	if crossed := slices.DeleteFunc(slices.Clone(done), func(l *link) bool { return l.load.phases != nil }); len(crossed) > 0 {
		crossText(d, crossed)
	}
	d.heading(2, "How it was measured")
	d.text("What each sends: ours 3 bytes in datagrams that the program sends anyway, 60 or 240 a second each way, and 3 more for a report every 2 s (0.5 s in the first 20 s). chronyd: exchanges of its own, 1 or 16 a second (`minpoll` and `maxpoll` 0 or -4, `xleave`, its defaults otherwise), with the kernel's times of sending and receipt; its estimate is read ten times a second with `chronyc -c tracking`. ptp4l: 16 Sync and 16 Delay_Req a second with the kernel's times (`time_stamping software`); the figure is the offset of each exchange that it prints, not of a clock that its servo would steer over minutes: it would have to steer the machine's. chronyd is made to set a computer's clock, ptp4l for networks whose switches take part, and neither for a program's own datagrams. Versions: %s.", rivalVersions())
	d.code("compare/reallink/run.sh docs    # 8 min, as root\ncompare/reallink/run.sh FOLDER -only cross90 -seed 2 -record TRACES\ngo run . -replay TRACES/cross90-60singles.csv.gz")
	d.text("Where it cannot run, it says why in a line: it needs Linux, root, and `ip` and `tc` of iproute2. chronyd and ptp4l are Debian's `chrony` and `linuxptp`; where they are not installed, the tables say so. `-record` saves each datagram's time of sending, its delays, and the reports, so that `-replay` and `internal/sim` can play a run again.")
	return d
}

// crossText is the part about random cross traffic.
func crossText(d *document, crossed []*link) {
	d.heading(2, "Beside random cross traffic")
	d.text("UDP in bursts of 1 to 20 packets of 1,200 bytes, at random (a Poisson process), fills 60, 80 or 90 %% of the link each way; our own datagrams take 5 %% more. At 90 %% a queue may not once be empty for 10 to 25 s. In the last rows it stands already when the first datagram is sent; else both begin at once. Seed of the bursts: %d.", crossed[0].seed)
	for _, t := range []struct {
		skew     float64
		from, to time.Duration
		text     string
	}{
		{linkSetups[0].skew, linkSettled, crossed[0].lasting, "Clocks 60 ppm apart, from 30 s on:"},
		{linkSetups[0].skew, linkWarmup, linkSettled, "The start: clocks 60 ppm apart, from 5 to 30 s. The skew is not known yet, and a queue may stand from the first datagram on:"},
		{0, linkWarmup, crossed[0].lasting, "One clock for both ends, as chronyd and ptp4l have it, from 5 s on:"},
	} {
		d.text("%s", t.text)
		d.table(crossTable(crossed, t.skew, t.from, t.to))
	}
}

// cell is three quantiles of errors, us.
func cell(errs []float64) string {
	if len(errs) == 0 {
		return "-"
	}
	slices.Sort(errs)
	return fmt.Sprintf("%.0f / %.0f / %.0f", quantile(errs, 0.5), quantile(errs, 0.99), quantile(errs, 1))
}

// rivalCells are those of the programs.
func (l *link) rivalCells(from, to time.Duration) (cells []string) {
	for _, r := range l.rivals {
		if c := cell(r.absolute(from, to)); r.why == "" {
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
	var columns []int
	for i, s := range linkSetups {
		if s.skew == skew {
			columns = append(columns, i)
			head = append(head, strings.TrimSuffix(s.name(), s.clocks()))
		}
	}
	if skew != 0 { // the oracle sees what the first setup sees
		columns = append(columns, len(linkSetups))
		head = append(head, oracleName)
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
				row = append(row, cell(l.streams[i].absolute(c, from, to)))
			}
			rows = append(rows, append(row, l.rivalCells(from, to)...))
		}
	}
	return rows
}

// phaseColumns are the setups of the table about TCP, and their names.
var phaseColumns = []struct {
	setup int
	name  string
}{{0, "timesync"}, {2, "original"}, {1, "timesync, after the read"}, {len(linkSetups), oracleName}}

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
			cells = append(cells, cell(s.absolute(c.setup, from, to)))
		}
		var middle [2]float64
		for side := range middle {
			var ms []float64
			for _, p := range s.delays(sim.Side(side)) {
				if p.X >= from.Seconds() && p.X < to.Seconds() {
					ms = append(ms, p.Y)
				}
			}
			middle[side] = medianOf(ms)
		}
		cells = append(cells, l.rivalCells(from, to)...)
		rows = append(rows, append(cells, fmt.Sprintf("%.3g / %.3g ms", middle[1], middle[0])))
	}
	begin := time.Duration(0)
	for _, p := range l.load.phases {
		end := begin + time.Duration(p.share*float64(l.lasting))
		row(p.name, begin, end)
		begin = end
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

// worst returns the largest error of each second at end A, NaN where there is none.
func (l *link) worst(errs []linkError, setup int) []float64 {
	worst := slices.Repeat([]float64{math.NaN()}, int(l.lasting/time.Second)+1)
	for _, e := range errs {
		i := int(e.at / time.Second)
		if e.setup == setup && e.side == sim.A && i < len(worst) && !(worst[i] >= math.Abs(e.err)) {
			worst[i] = math.Abs(e.err)
		}
	}
	return worst
}

// draw draws the errors at end A, and the delays.
func (l *link) draw(path string) error {
	s, seconds := &l.streams[0], l.lasting.Seconds()
	curves := []curve{
		curveOf(ours, parts(l.worst(s.errs, 0))...),
		curveOf(original, parts(l.worst(s.errs, 2))...),
		curveOf(len(methods), parts(l.worst(s.errs, len(linkSetups)))...),
	}
	const shown = 1 // chronyd 16/s
	if r := l.rivals[shown]; len(r.errs) > 0 {
		c := curve{name: r.name, color: methods[ntp].color}
		c.parts = parts(l.worst(r.asErrors(), 0))
		curves = append(curves, c)
	}
	x := axis{min: 0, max: seconds, ticks: even(0, seconds)}
	top := newPlot("A real queue of 10 Mbit/s and 300 ms, filled by TCP: largest error of each second at A", x, errorAxis("error", 1, 1e6))
	upper, err := add(top, oursLast(curves))
	if err != nil {
		return err
	}
	x.label = "seconds since the start"
	bottom := newPlot("how long datagrams were under way", x, axis{label: "delay, ms", min: 0, max: 450, ticks: multiples("%.0f", 100, 400)})
	lower, err := add(bottom, []curve{
		{name: "to B", color: methods[original].color, parts: []plotter.XYs{s.delays(sim.B)}},
		{name: "to A", color: methods[ours].color, parts: []plotter.XYs{s.delays(sim.A)}},
	})
	if err != nil {
		return err
	}
	return save(path, 1.5*plotHeight, []*plot.Plot{top, bottom}, []plot.Legend{upper, lower})
}
