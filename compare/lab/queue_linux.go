// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot/plotter"

	"timesync/clock"
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
	var done []*link
	for _, load := range linkLoads {
		if !strings.Contains(load.name, o.only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "lab: %s, %v, seed %d\n", load.name, o.lasting, o.seed)
		l, err := runLink(load, o)
		if err == nil && o.record != "" {
			err = l.save(o.record)
		}
		if err != nil {
			return err
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
	for _, method := range slices.Sorted(slices.Values(append(programNames(), play.Ours, play.Original))) {
		errs := l.streams[singles].absolute(method, linkSkew, 0, l.lasting)
		rows = append(rows, kept.Queue{Method: method, P99: math.Round(stat.OrNaN(errs, 0.99))})
	}
	return rows
}

// linkWins says where a program beside this package had a smaller 99th percentile than it, with
// the kernel's times on the same load and 30 s after the start; beside TCP from the warm-up on.
func linkWins(done []*link) string {
	var wins []string
	compared := 0
	for _, l := range done {
		from := linkSettled
		if l.load.phases != nil {
			from = linkWarmup
		}
		p99 := func(column string) float64 {
			return stat.OrNaN(l.streams[singles].absolute(column, linkSkew, from, l.lasting), 0.99)
		}
		for _, name := range programNames() {
			theirs, mine := p99(name), p99(play.Ours)
			if !math.IsNaN(theirs) {
				compared++
			}
			if theirs < mine {
				wins = append(wins, fmt.Sprintf("%s beside %s (%.0f us; ours %.0f us)", name, l.load.what, theirs, mine))
			}
		}
	}
	return page.Text("**In %d of %d comparisons of the 99th percentile at 60 singles a second another was "+
		"better than this package.** The others run between clocks without a difference in rate.",
		len(wins), compared) + page.List(wins)
}

// save saves how long the datagrams of each kind of traffic were under way, as internal/sim reads it.
func (l *link) save(folder string) error {
	err := os.MkdirAll(folder, 0o755)
	for i, stream := range l.streams {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		fmt.Fprintln(z, "send_time_us,owd_us,direction")
		for side, direction := range [...]string{"down", "up"} {
			for _, x := range stream.trace[kernel][side] {
				owd := int64(-1)
				if x.Delay != sim.Lost {
					owd = x.Delay.Microseconds()
				}
				fmt.Fprintf(z, "%d,%d,%s\n", x.At.Microseconds(), owd, direction)
			}
		}
		name := fmt.Sprintf("%s-%s.csv.gz", l.load.name, strings.ReplaceAll(linkTraffics[i].name, " ", ""))
		err = errors.Join(err, z.Close(), os.WriteFile(filepath.Join(folder, name), b.Bytes(), 0o644))
	}
	return err
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
	pictures := map[string][]*graph.Chart{}
	var phases []linkSpan
	lost, sent := 0, 0
	for _, l := range done {
		if l.load.phases == nil {
			continue
		}
		pictures["link"] = l.charts()
		for _, p := range l.load.phases {
			phases = append(phases, linkSpan{l, singles, p.name, l.after(p.from), l.after(p.to)})
		}
		for side, rows := range l.streams[singles].trace[kernel] {
			sent, lost = sent+len(rows), lost+len(rows)-len(l.streams[singles].delays(sim.Side(side)))
		}
	}
	cross := func(skew float64, from, to time.Duration) string {
		var spans []linkSpan
		for _, l := range done {
			for i, traffic := range linkTraffics {
				if l.load.phases == nil {
					name := strings.TrimPrefix(l.load.what, "cross traffic of ") + ", " + traffic.name
					spans = append(spans, linkSpan{l, i, name, from, to})
				}
			}
		}
		return linkTable("cross traffic and datagrams", skew, spans)
	}
	lasts := done[0].lasting
	return errors.Join(page.Draw(folder, pictures), page.Write("../docs/QUEUE.md", folder, map[string]string{
		"wins":     linkWins(done),
		"tcp":      linkTable("while there is", linkSkew, phases) + page.Text("Of %d single datagrams %d did not arrive.", sent, lost),
		"cross":    cross(linkSkew, linkSettled, lasts),
		"start":    cross(linkSkew, linkWarmup, linkSettled),
		"alike":    cross(0, linkWarmup, lasts),
		"versions": page.Text("%.0f s for each load, seed %d. Versions: chronyd %s, ptp4l %s.", lasts.Seconds(), done[0].seed, version("chronyd"), version("ptp4l")),
	}))
}

// cell is three quantiles of errors, us.
func cell(errs []float64) string {
	if len(errs) == 0 {
		return "-"
	}
	q := kept.QuantilesOf(errs)
	return fmt.Sprintf("%.0f / %.0f / %.0f", q.P50, q.P99, q.Max)
}

// linkTable has a column for each method between clocks so far apart, for each program, and one for how
// long datagrams were under way, median to B / to A.
func linkTable(first string, skew float64, spans []linkSpan) string {
	columns := []string{play.Ours, play.Ours + afterRead, play.Original, play.Original + afterRead}
	if skew != 0 {
		columns = append(columns, play.OracleName)
	}
	columns = append(columns, programNames()...)
	rows := [][]string{slices.Concat([]string{first}, columns, []string{"under way, ms"})}
	for _, s := range spans {
		stream, row := &s.l.streams[s.stream], []string{s.name}
		for _, c := range columns {
			row = append(row, cmp.Or(s.l.missing[c], cell(stream.absolute(c, skew, s.from, s.to))))
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
	s, seconds := &l.streams[singles], l.lasting.Seconds()
	var curves []graph.Curve
	for _, column := range []string{play.OracleName, play.Original, play.ChronydOften, play.Ours} {
		if ends := s.answers[linkSkew][column]; len(ends[sim.A]) > 0 {
			curves = append(curves, play.CurveOf(column, graph.Parts(play.Worst(ends[sim.A]))...))
		}
	}
	var phases []graph.Event
	for _, p := range l.load.phases {
		if p.fill[sim.A] || p.fill[sim.B] {
			name := strings.TrimPrefix(strings.TrimPrefix(p.name, "TCP "), "from ")
			phases = append(phases, graph.Event{From: p.from * seconds, To: p.to*seconds - 0.3, Name: name})
		}
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

// The programs that people run: chronyd and ptp4l, as processes between the same hosts. Both
// hosts have the machine's own clock, which they leave alone: what they estimate as the
// offset is their error.

// rival is how to run a program and read its estimates.
type rival struct {
	name, program string
	// server and client are configuration files; SOCK is a folder for sockets. Without a
	// server, the client asks one that another rival has started.
	server, client string
	// arguments come before the configuration file.
	arguments []string
	// estimate is in the lines that the client prints, or chronyc for it, in units of so many us.
	estimate *regexp.Regexp
	unit     float64
}

// chronySockets is what every chronyd here needs: its files are in its own folder.
const chronySockets = "cmdport 0\nbindcmdaddress SOCK/sock\npidfile SOCK/pid\n"

// ptpCommon lets ptp4l exchange 16 times a second each way through a router. With
// free_running it leaves the clock alone and prints the offset of each exchange.
const ptpCommon = "[global]\ntime_stamping software\nnetwork_transport UDPv4\nudp_ttl 8\nfree_running 1\n" +
	"logSyncInterval -4\nlogMinDelayReqInterval -4\nlogAnnounceInterval -2\nuds_address SOCK/uds\n"

// rivalPrograms are tried in every experiment. All take the kernel's times. The first chronyd serves the
// machine's clock to both.
var rivalPrograms = []rival{
	chrony(play.Chronyd, "local stratum 1\nallow\n"+chronySockets, 0), chrony(play.ChronydOften, "", -4),
	{name: "ptp4l 16/s", program: "ptp4l", arguments: []string{"-m", "-f"},
		estimate: regexp.MustCompile(`master offset +(-?\d+) `), unit: 1e-3,
		server: ptpCommon + "unicast_listen 1\ninhibit_multicast_service 1\nmasterOnly 1\n[eth0]\n",
		client: ptpCommon + "slaveOnly 1\nsummary_interval -6\n[unicast_master_table]\ntable_id 1\nlogQueryInterval 0\nUDPv4 " + linkHosts[1].String() + "\n[eth0]\nunicast_master_table 1\n"},
}

func programNames() (names []string) {
	for _, p := range rivalPrograms {
		names = append(names, p.name)
	}
	return names
}

// correction is what chronyc prints: reference, address, stratum, time, the correction in seconds. Stratum 0 is no estimate.
var correction = regexp.MustCompile(`^[^,]*,[^,]*,[1-9]\d*,[^,]*,([^,]+),`)

// chrony is chronyd with a poll every 2^poll seconds.
func chrony(name, server string, poll int) rival {
	return rival{name: name, program: "chronyd", arguments: []string{"-x", "-d", "-u", "root", "-F", "0", "-f"},
		server: server, estimate: correction, unit: 1e6,
		client: fmt.Sprintf("server %s minpoll %d maxpoll %d xleave\nport 0\n", linkHosts[1], poll, poll) + chronySockets}
}

// runRival runs a program until ctx is over. Its client is at end A.
func (l *link) runRival(ctx context.Context, p rival) {
	folder, err := os.MkdirTemp("", "reallink")
	defer os.RemoveAll(folder)
	if err == nil {
		err = p.run(ctx, l.spaces, folder, func(usec float64) {
			l.mu.Lock()
			defer l.mu.Unlock()
			ends := l.programs[p.name]
			ends[sim.A] = append(ends[sim.A], play.Answer{At: l.since(clock.Now()), Err: math.Abs(usec)})
		})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(err, exec.ErrNotFound) {
		l.missing[p.name] = "not installed"
	} else if ctx.Err() == nil {
		l.missing[p.name] = err.Error()
	}
}

// run runs the server in the second namespace, and the client in the first.
func (p rival) run(ctx context.Context, spaces [2]string, folder string, found func(float64)) error {
	if p.server != "" {
		server, out, err := p.start(ctx, spaces[1], filepath.Join(folder, "server"), p.server)
		if err != nil {
			return err
		}
		defer server.Wait() // ctx ends it
		go io.Copy(io.Discard, out)
	}
	home := filepath.Join(folder, "client")
	client, out, err := p.start(ctx, spaces[0], home, p.client)
	if err != nil {
		return err
	}
	defer client.Wait()
	take := func(line string) {
		if m := p.estimate.FindStringSubmatch(line); m != nil {
			v, _ := strconv.ParseFloat(m[1], 64)
			found(v * p.unit)
		}
	}
	if p.program == "chronyd" { // it does not print its estimate
		go every(ctx, linkAsk, func() {
			answer, _ := exec.CommandContext(ctx, "chronyc", "-c", "-n", "-h", filepath.Join(home, "sock"), "tracking").Output()
			take(string(answer))
		})
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		take(lines.Text())
	}
	return errors.New("it ended")
}

// start starts the program in a namespace, with its files in a folder of its own.
func (p rival) start(ctx context.Context, space, home, conf string) (*exec.Cmd, io.Reader, error) {
	path := filepath.Join(home, "conf")
	err := os.MkdirAll(home, 0o700)
	err = errors.Join(err, os.WriteFile(path, []byte(strings.ReplaceAll(conf, "SOCK", home)), 0o600))
	c := exec.CommandContext(ctx, p.program, slices.Concat(p.arguments, []string{path})...)
	out, bad := c.StdoutPipe()
	if err = errors.Join(err, bad); err == nil {
		_, err = within(space, func() (any, error) { return nil, c.Start() })
	}
	return c, out, err
}

// version returns the version of a program.
func version(program string) string {
	out, err := exec.Command(program, "-v").Output()
	if err != nil {
		return "not installed"
	}
	return regexp.MustCompile(`\d+\.[\d.]+`).FindString(string(out))
}
