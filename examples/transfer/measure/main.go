// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

// Measure runs examples/transfer on real queues in network namespaces, alone and beside the
// kernel's TCP, while a game's datagrams measure the delay. See measure.sh.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"timesync/examples/internal/lab"
	"timesync/internal/stat"
)

const (
	hostB   = "10.78.2.2"
	delay   = 10 * time.Millisecond // each way
	longer  = 20 * time.Millisecond // what one way becomes longer by
	udpWire = 1197.0 / 1120         // bytes on the link for each byte of a file
	tcpWire = 1500.0 / 1448         // and of TCP

	settle = 5 * time.Second  // flows start in it, and it counts for nothing
	length = 40 * time.Second // of a run
	after  = 20 * time.Second // a latecomer starts, or a way becomes longer

	tries = 4 // of a row, while the machine is busy
	quiet = 5 // ms: a machine that is later than that measures itself
)

// row is one of the table: what runs.
type row struct {
	name      string
	transfers int
	cc        string // of the transfers
	tcp       string // congestion control of a flow of TCP, if any
	// The last transfer comes late; half a minute is measured, a minute after that.
	late   bool
	longer bool // one way becomes longer
}

var rows = []row{
	{name: "nothing"},
	{name: "TCP, CUBIC", tcp: "cubic"},
	{name: "TCP, BBR", tcp: "bbr"},
	{name: "one transfer", transfers: 1, cc: "ledbat"},
	{name: "one without control", transfers: 1, cc: "none"},
	{name: "one transfer and CUBIC", transfers: 1, cc: "ledbat", tcp: "cubic"},
	{name: "one transfer and BBR", transfers: 1, cc: "ledbat", tcp: "bbr"},
	{name: "2 transfers, one late", transfers: 2, cc: "ledbat", late: true},
	{name: "4 transfers, one late", transfers: 4, cc: "ledbat", late: true},
	{name: "one transfer, one way longer by 20 ms", transfers: 1, cc: "ledbat", longer: true},
}

// bench is what is measured on a bottleneck.
type bench struct {
	mbit   int // a second, of the bottleneck
	buffer time.Duration
	wire   *lab.Wire // to the receiver
	start  time.Time
	procs  []*exec.Cmd

	mu sync.Mutex
	// Of each flow, bytes on the link that arrived since its start; and the two below.
	series map[string][]point
}

const (
	game = "game" // delays, ms
	late = "late" // by how much this process wakes up late, ms
)

// point is a measurement at a time since the start.
type point struct {
	at    time.Duration
	value float64
}

func main() {
	role := flag.String("role", "", "internal: what this process is in a namespace")
	quick := flag.Bool("quick", false, "a few seconds: is it alive?")
	only := flag.String("only", "", "rows whose name contains this")
	flag.Parse()
	if run := roles[*role]; run != nil {
		run(flag.Args())
	}
	wire := build()
	benches, most := []*bench{{mbit: 10, buffer: 300 * time.Millisecond}, {mbit: 50, buffer: 40 * time.Millisecond}}, length
	if *quick {
		benches, rows, most = benches[:1], rows[3:4], 4*time.Second
	}
	for _, b := range benches {
		b.wire = wire
		b.table(*only, most)
	}
}

// build joins the hosts a, which sends, and b by a router, and returns the wire to b.
func build() *lab.Wire {
	lab.Spaces("a", "b", "router")
	lab.Cable(lab.At("a", "eth0", "10.78.1.2/24"), lab.At("router", "near", "10.78.1.1/24"))
	wire := lab.Join(lab.At("router", "far", "10.78.2.1/24"), lab.At("b", "eth0", hostB+"/24"), delay)
	// The queue drops packets of 1500 bytes, as a modem does, not bundles of forty.
	lab.Run("ip", "-n", "a", "link", "set", "eth0", "gso_max_segs", "1")
	lab.Forward("router")
	lab.Route("a", "10.78.1.1")
	lab.Route("b", "10.78.2.1")
	return wire
}

// table makes both ways out of the router the bottleneck, and measures the rows whose name contains only.
func (b *bench) table(only string, length time.Duration) {
	rate := fmt.Sprintf("%dmbit", b.mbit)
	for _, dev := range []string{"near", "far"} {
		lab.Run("tc", "-n", "router", "qdisc", "replace", "dev", dev, "root", "tbf", "rate", rate, "burst", "4kb", "latency", b.buffer.String())
	}
	fmt.Printf("\n%d Mbit/s, buffer of %v, round trip %v:\n\n", b.mbit, b.buffer, 2*delay)
	fmt.Print("| what runs | transfers | TCP | game p50, ms | p99, ms | machine late, ms |\n|---|---|---|---|---|---|\n")
	known, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	for _, r := range rows {
		switch {
		case !strings.Contains(r.name, only):
		case r.tcp != "" && !slices.Contains(strings.Fields(string(known)), r.tcp):
			fmt.Printf("NOT TESTED: %s: this kernel has no %s\n", r.name, r.tcp)
		default:
			b.measure(r, length)
		}
	}
}

// measure measures a row, and prints it. If the machine was too busy, once more:
// of all tries the one in which it was least late counts, and the row says how late.
func (b *bench) measure(r row, length time.Duration) {
	best, least := "", math.Inf(1)
	for try := 0; try < tries && least > quiet; try++ {
		cells := b.run(r, length)
		for _, c := range b.procs { // they are ours, by their ids
			_ = c.Process.Kill()
			_ = c.Wait()
		}
		time.Sleep(500 * time.Millisecond) // the queues run empty
		if l := b.quantile(late, 0, 0.999); l < least {
			best, least = cells, l
		}
	}
	fmt.Printf("| %s | %s | %.1f |\n", r.name, best, least)
}

// run lets a row run, beside the game, and returns its cells.
func (b *bench) run(r row, length time.Duration) (cells string) {
	b.start, b.series, b.procs = time.Now(), map[string][]point{}, nil
	b.wire.Delay[0].Store(int64(delay))
	b.pair(game, 1, "measure", "-role pong", "-role ping")
	if r.tcp != "" {
		b.pair("tcp", tcpWire, "measure", "-role sink", "-role source "+r.tcp)
	}
	for i := range r.transfers {
		if r.late && i == r.transfers-1 {
			time.Sleep(after)
		}
		listen := fmt.Sprintf("-listen :%d -key %s -json", 7200+i, lab.Key)
		dial := fmt.Sprintf("-dial %s:%d -key %s -cc %s -mb 100000 -json", hostB, 7200+i, lab.Key, r.cc)
		b.pair(fmt.Sprint(i), udpWire, "transfer", listen, dial)
	}
	from := min(settle, length/2)
	if r.late {
		from = time.Since(b.start) + time.Minute
		length = 90 * time.Second
	}
	if r.longer {
		time.Sleep(after)
		from = time.Since(b.start)
		b.wire.Delay[0].Add(int64(longer))
	}
	b.watch(length)
	return b.cells(r, from)
}

// watch sleeps, and sees how late the machine is: what this process is, so are the ends and the queue.
func (b *bench) watch(length time.Duration) {
	const nap = time.Millisecond
	for begun := time.Now(); time.Since(begun) < length; {
		start := time.Now()
		time.Sleep(nap)
		b.note(late, float64(time.Since(start)-nap)/1e6)
	}
}

// cells returns what a row was like from a time on.
func (b *bench) cells(r row, from time.Duration) string {
	median, p99 := b.quantile(game, from, 0.5), b.quantile(game, from, 0.99)
	more := ""
	if r.longer {
		more = fmt.Sprintf("; back after %.0f s", b.back(from).Seconds())
		from += after
	}
	var shares []float64
	var texts []string
	for i := range r.transfers {
		shares = append(shares, b.share(fmt.Sprint(i), from))
		texts = append(texts, percent(shares[i]))
		if !(shares[i] > 0) || math.IsNaN(median) {
			lab.Exit(errors.New("no transfer, or no game, went through"))
		}
	}
	if r.late {
		more = fmt.Sprintf(": factor %.2f", slices.Max(shares)/slices.Min(shares))
	}
	transfers, tcp := cmp.Or(strings.Join(texts, ", "), "-"), percent(b.share("tcp", from))
	return fmt.Sprintf("%s%s | %s | %.2f | %.2f", transfers, more, tcp, median, p99)
}

func percent(share float64) string {
	return strings.ReplaceAll(fmt.Sprintf("%.1f %%", 100*share), "NaN %", "-")
}

// pair starts what receives, notes what its lines say, and then starts what sends.
func (b *bench) pair(series string, wire float64, program, receiver, sender string) {
	receive, send := command("b", program, receiver), command("a", program, sender)
	b.procs = append(b.procs, receive, send)
	out, err := receive.StdoutPipe()
	lab.Exit(errors.Join(err, receive.Start()))
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			var l line
			if json.Unmarshal(s.Bytes(), &l) == nil {
				b.note(series, l.Ms+l.Bytes*wire)
			}
		}
	}()
	time.Sleep(200 * time.Millisecond)
	lab.Exit(send.Start())
}

// command returns a process to be started at a host.
func command(host, program, args string) *exec.Cmd {
	c := lab.Command(host, program, strings.Fields(args)...)
	c.Stderr = os.Stderr
	return c
}

// note adds a point to a series.
func (b *bench) note(series string, value float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.series[series] = append(b.series[series], point{time.Since(b.start), value})
}

// since returns the points of a series from a time on.
func (b *bench) since(series string, from time.Duration) []point {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.series[series]), func(p point) bool { return p.at < from })
}

// quantile returns one of the points of a series from a time on.
func (b *bench) quantile(series string, from time.Duration, q float64) float64 {
	var values []float64
	for _, p := range b.since(series, from) {
		values = append(values, p.value)
	}
	return stat.OrNaN(values, q)
}

// share returns the part of the link that a flow had from a time on.
func (b *bench) share(flow string, from time.Duration) float64 {
	points := b.since(flow, from)
	if len(points) < 2 {
		return math.NaN()
	}
	return b.rate(points[0], points[len(points)-1])
}

// rate returns the part of the link that a flow had between two points.
func (b *bench) rate(from, to point) float64 {
	return (to.value - from.value) * 8 / 1e6 / (to.at - from.at).Seconds() / float64(b.mbit)
}

// back returns how long after a change a transfer lacked 85 % of the link for the last time.
func (b *bench) back(change time.Duration) (back time.Duration) {
	run, points := 0, b.since("0", change)
	for i, p := range points {
		if run++; i == 0 || b.rate(points[i-1], p) >= 0.85 {
			run = 0
		}
		if run > 2 {
			back = p.at - change
		}
	}
	return back
}
