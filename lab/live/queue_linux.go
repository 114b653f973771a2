// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"gonum.org/v1/plot/plotter"

	"timesync/clock"
	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
	"timesync/lab/play"
	"timesync/lab/results"
)

// linkSettled is from when on the start no longer counts.
const linkSettled = 30 * time.Second

// measureLink runs the experiments between two namespaces and writes QUEUE.md. Where the
// project's own results stand, it also writes its part of README.md.
func measureLink(o options) {
	own := filepath.Clean(o.out) == results.Folder
	if o.only != "" && own {
		check(errors.New("the project's own results need all loads, without -only"))
	}
	var done []*link
	for _, load := range linkLoads {
		if !strings.Contains(load.name, o.only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "live: %s, %v, seed %d\n", load.name, o.lasting, o.seed)
		l := runLink(load, o)
		if o.record != "" {
			l.save(o.record)
		}
		done = append(done, l)
		time.Sleep(time.Second) // the router's queue runs empty
	}
	if len(done) == 0 {
		check(fmt.Errorf("no load is named %q", o.only))
	}
	check(queuePage(done).Write(o.out))
	if own {
		parts := map[string]string{"queue": done[0].readmeTable()}
		check(results.Page{Path: "README.md", Parts: parts}.Write(o.out))
	}
}

// p99 is the 99th percentile of a column at 60 singles a second, with the kernel's times and 30 s
// after the start; beside TCP from the warm-up on.
func (l *link) p99(column string) float64 {
	from := linkSettled
	if l.load.phases != nil {
		from = linkWarmup
	}
	return testkit.OrNaN(l.streams[singles].absolute(column, linkSkew, from, l.lasting), 0.99)
}

// readmeTable has the figures beside TCP.
func (l *link) readmeTable() string {
	chronyd := min(l.p99(play.Chronyd), l.p99(play.ChronydOften))
	const head = "| beside other traffic, 99th percentile |  | command |\n|---|---|---|\n"
	const row = "| TCP that fills a real queue of 300 ms | **%s**; chronyd %s, the original %s " +
		"| [QUEUE](lab/results/QUEUE.md): `sudo lab/live/queue.sh FOLDER` |\n\n"
	mine, original := l.p99(play.Ours), l.p99(play.Original)
	return head + fmt.Sprintf(row, results.Micros(mine), results.Micros(chronyd),
		results.Micros(original))
}

// linkWins says where a program beside this package had a smaller 99th percentile than it on the
// same load.
func linkWins(done []*link) string {
	var wins []string
	compared := 0
	for _, l := range done {
		for _, name := range programNames() {
			theirs, mine := l.p99(name), l.p99(play.Ours)
			if !math.IsNaN(theirs) {
				compared++
			}
			if theirs < mine {
				wins = append(wins,
					fmt.Sprintf("%s beside %s (%.0f us; ours %.0f us)", name, l.load.what, theirs, mine))
			}
		}
	}
	return results.Text("**In %d of %d comparisons of the 99th percentile at 60 singles a second "+
		"another was better than this package.** The others run between clocks without a "+
		"difference in rate.", len(wins), compared) +
		results.Text("%s.", cmp.Or(strings.Join(wins, "; "), "None"))
}

// save saves how long the datagrams of each kind of traffic were under way, as internal/sim reads
// it.
func (l *link) save(folder string) {
	check(os.MkdirAll(folder, 0o755))
	for i, stream := range l.streams {
		name := fmt.Sprintf("%s-%s.csv.gz",
			l.load.name, strings.ReplaceAll(linkTraffics[i].name, " ", ""))
		f := must(os.Create(filepath.Join(folder, name)))
		z := gzip.NewWriter(f)
		fmt.Fprintln(z, "send_time_us,owd_us,direction")
		for side, direction := range [...]string{"down", "up"} {
			for _, x := range stream.trace[side] {
				owd := int64(-1)
				if x.under[kernel] != simnet.Lost {
					owd = x.under[kernel].Microseconds()
				}
				fmt.Fprintf(z, "%d,%d,%s\n", x.sent.Microseconds(), owd, direction)
			}
		}
		check(errors.Join(z.Close(), f.Close()))
	}
}

// queuePage is QUEUE.md with what was measured. The table of what was not measured has no rows.
func queuePage(done []*link) results.Page {
	const loads = "cross traffic and datagrams"
	lasts := done[0].lasting
	tcp := head("while there is", linkSkew)
	cross := head(loads, linkSkew)
	start := head(loads, linkSkew)
	alike := head(loads, 0)
	pictures := map[string][]*results.Chart{}
	for _, l := range done {
		for _, p := range l.load.phases {
			row := l.row(p.name, singles, linkSkew, l.after(p.from), l.after(p.to))
			tcp = append(tcp, row)
		}
		if l.load.phases != nil {
			pictures["link"] = l.charts()
			continue
		}
		for i, traffic := range linkTraffics {
			name := strings.TrimPrefix(l.load.what, "cross traffic of ") + ", " + traffic.name
			cross = append(cross, l.row(name, i, linkSkew, linkSettled, lasts))
			start = append(start, l.row(name, i, linkSkew, linkWarmup, linkSettled))
			alike = append(alike, l.row(name, i, 0, linkWarmup, lasts))
		}
	}
	versions := results.Text("%.0f s for each load, seed %d. Versions: chronyd %s, ptp4l %s.",
		lasts.Seconds(), done[0].seed, version("chronyd"), version("ptp4l"))
	return results.Page{
		Path: "lab/results/QUEUE.md",
		Parts: map[string]string{
			"wins":     linkWins(done),
			"tcp":      results.Table(tcp),
			"cross":    results.Table(cross),
			"start":    results.Table(start),
			"alike":    results.Table(alike),
			"versions": versions,
		},
		Pictures: pictures,
	}
}

// cell is three quantiles of errors, us.
func cell(errs []float64) string {
	if len(errs) == 0 {
		return "-"
	}
	q := results.QuantilesOf(errs)
	return fmt.Sprintf("%.0f / %.0f / %.0f", q.P50, q.P99, q.Max)
}

// linkColumns are the methods between clocks so far apart, and the programs.
func linkColumns(skew float64) []string {
	columns := []string{play.Ours, play.Ours + afterRead, play.Original, play.Original + afterRead}
	if skew != 0 {
		columns = append(columns, play.OracleName)
	}
	return append(columns, programNames()...)
}

// head begins a table. Its last column is how long datagrams were under way, median to B / to A.
func head(first string, skew float64) [][]string {
	return [][]string{slices.Concat([]string{first}, linkColumns(skew), []string{"under way, ms"})}
}

// row is a row of a table: a span of the run, of one kind of datagrams.
func (l *link) row(name string, traffic int, skew float64, from, to time.Duration) []string {
	s, row := &l.streams[traffic], []string{name}
	for _, c := range linkColumns(skew) {
		row = append(row, cmp.Or(l.missing[c], cell(s.absolute(c, skew, from, to))))
	}
	underWay := func(side sim.Side) float64 {
		var ms []float64
		for _, p := range s.delays(side) {
			if p.X >= from.Seconds() && p.X < to.Seconds() {
				ms = append(ms, p.Y)
			}
		}
		return testkit.OrNaN(ms, 0.5)
	}
	return append(row, fmt.Sprintf("%.3g / %.3g", underWay(sim.B), underWay(sim.A)))
}

// charts show the largest error of each second at end A, and the delays.
func (l *link) charts() []*results.Chart {
	s, seconds := &l.streams[singles], l.lasting.Seconds()
	var phases []results.Event
	for _, p := range l.load.phases {
		if p.fill[sim.A] || p.fill[sim.B] {
			name := strings.TrimPrefix(strings.TrimPrefix(p.name, "TCP "), "from ")
			phases = append(phases,
				results.Event{From: p.from * seconds, To: p.to*seconds - 0.3, Name: name})
		}
	}
	top := play.Chart("Beside TCP on a real queue: largest error of each second",
		s.answers[linkSkew].OverTime(), phases,
		0, int(seconds), play.OracleName, play.Original, play.ChronydOften, play.Ours)
	bottom := top.X
	top.X.Label = ""
	return []*results.Chart{top,
		{Title: "How long datagrams were under way",
			X:      bottom,
			Y:      results.Axis{Label: "delay, ms", Max: 400},
			Events: phases,
			Curves: []results.Curve{
				{Name: "to B", Color: play.ColorOf(play.Netfox), Parts: []plotter.XYs{s.delays(sim.B)}},
				{Name: "to A", Color: play.ColorOf(play.Slot), Parts: []plotter.XYs{s.delays(sim.A)}},
			}},
	}
}

// The programs that people run: chronyd and ptp4l, as processes between the same hosts. Both
// hosts have the machine's own clock, which they leave alone: what they estimate as the
// offset is their error.

// rival is how to run a program and read its estimates: what the shell runs at either host, in a
// folder of its own. Without a server, the client asks one that another rival has started.
type rival struct {
	name, program  string
	server, client string
	// estimate is in the lines that the client prints, in units of so many us.
	estimate *regexp.Regexp
	unit     float64
}

// chronyd keeps its files in its own folder. Behind it come directives.
const chronyd = `chronyd -x -d -u root -F 0 ` +
	`"cmdport 0" "bindcmdaddress $PWD/sock" "pidfile $PWD/pid" `

// ptpCommon lets ptp4l exchange 16 times a second each way through a router. With
// free_running it leaves the clock alone and prints the offset of each exchange.
const ptpCommon = "printf '[global]\n" +
	"time_stamping software\n" +
	"network_transport UDPv4\n" +
	"udp_ttl 8\n" +
	"free_running 1\n" +
	"logSyncInterval -4\n" +
	"logMinDelayReqInterval -4\n" +
	"logAnnounceInterval -2\n" +
	"uds_address '$PWD/uds'\n"

// rivalPrograms are tried in every experiment. All take the kernel's times. The first chronyd
// serves the machine's clock to both.
var rivalPrograms = []rival{
	chrony(play.Chronyd, chronyd+`"local stratum 1" allow`, 0),
	chrony(play.ChronydOften, "", -4),
	{
		name:     "ptp4l 16/s",
		program:  "ptp4l",
		estimate: regexp.MustCompile(`master offset +(-?\d+) `),
		unit:     1e-3,
		server: ptpCommon +
			"unicast_listen 1\n" +
			"inhibit_multicast_service 1\n" +
			"masterOnly 1\n" +
			"[eth0]' >conf && ptp4l -m -f conf",
		client: ptpCommon +
			"slaveOnly 1\n" +
			"summary_interval -6\n" +
			"[unicast_master_table]\n" +
			"table_id 1\n" +
			"logQueryInterval 0\n" +
			"UDPv4 " + linkHosts[1].String() + "\n" +
			"[eth0]\n" +
			"unicast_master_table 1' >conf && ptp4l -m -f conf",
	},
}

// programNames are the columns of those.
func programNames() (names []string) {
	for _, p := range rivalPrograms {
		names = append(names, p.name)
	}
	return names
}

// correction is what chronyc prints: reference, address, stratum, time, the correction in
// seconds. Stratum 0 is no estimate.
var correction = regexp.MustCompile(`^[^,]*,[^,]*,[1-9]\d*,[^,]*,([^,]+),`)

// chrony is chronyd with a poll every 2^poll seconds. It does not print its estimate: chronyc
// asks it ten times a second.
func chrony(name, server string, poll int) rival {
	return rival{name: name, program: "chronyd", server: server, estimate: correction, unit: 1e6,
		client: "chronyd -v || exit; " + chronyd +
			fmt.Sprintf(`"server %s minpoll %d maxpoll %d xleave" "port 0" &
			while sleep 0.1; do chronyc -c -n -h $PWD/sock tracking; done`, linkHosts[1], poll, poll)}
}

// runRival runs a program at both hosts until ctx is over, and adds to what it said.
func (l *link) runRival(ctx context.Context, p rival, said *[]play.Answer) {
	both, stopped := errgroup.WithContext(ctx)
	if p.server != "" {
		both.Go(func() error { return l.run(stopped, sim.B, p.server, func(string) {}) })
	}
	both.Go(func() error {
		return l.run(stopped, sim.A, p.client, func(line string) {
			if m := p.estimate.FindStringSubmatch(line); m != nil {
				v, _ := strconv.ParseFloat(m[1], 64)
				*said = append(*said, play.Answer{At: l.since(clock.Now()), Err: math.Abs(v * p.unit)})
			}
		})
	})
	if err := both.Wait(); ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "live: %s (%s): %v\n", p.name, version(p.program), err)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.missing[p.name] = "not measured"
	}
}

// run lets the shell run something at a host, in a folder of its own, until ctx is over, which
// ends all that it has started. take gets the lines that it prints.
func (l *link) run(
	ctx context.Context, side sim.Side, script string, take func(line string),
) error {
	home := must(os.MkdirTemp("", "reallink"))
	defer os.RemoveAll(home)
	c := exec.CommandContext(ctx, "sh", "-c", script)
	c.Dir, c.SysProcAttr = home, &unix.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGKILL) }
	out := must(c.StdoutPipe())
	// Where the program at the other host is not installed, ctx may be over by now.
	failed := within(l.spaces[side], func() (error, error) { return c.Start(), nil })
	if failed != nil {
		return fmt.Errorf("it did not start: %w", failed)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		take(lines.Text())
	}
	return fmt.Errorf("it ended: %w", c.Wait())
}

// version returns the version of a program.
func version(program string) string {
	out, err := exec.Command(program, "-v").Output()
	if err != nil {
		return "not installed"
	}
	return regexp.MustCompile(`\d+\.[\d.]+`).FindString(string(out))
}
