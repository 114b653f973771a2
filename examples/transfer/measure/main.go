// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

// Measure runs examples/transfer on real queues in network namespaces, alone and beside the
// kernel's TCP, while a game's datagrams measure the delay. See measure.sh.
package main

import (
	"cmp"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"timesync/internal/netns"
	"timesync/internal/testkit"
)

const (
	hostB   = "10.78.2.2"
	gateway = "10.78.1.1"           // of host a
	delay   = 10 * time.Millisecond // each way
	longer  = 20 * time.Millisecond // what one way becomes longer by
	wander  = 20 * time.Millisecond // what one way wanders by
	learned = 30 * time.Second      // a transfer knows by how much its path wanders

	settle = 5 * time.Second  // flows start in it, and it counts for nothing
	length = 40 * time.Second // of a run
	after  = 20 * time.Second // a latecomer starts, or a way becomes longer

	tries = 4 // of a row, while the machine is busy
	quiet = 5 // ms: a machine that is later than that measures itself

	gameEvery = time.Second / 60
	gameBytes = 100
	// Bytes of what fills a link, at least: what else has those ports are headers and small
	// datagrams.
	bulkBytes = 1000
)

// What a series of points is of: a port at host b, or this machine.
const (
	late     = 0    // by how much this process wakes up late, ms
	game     = 7001 // delays, ms
	tcp      = 7100 // bytes on the link
	transfer = 7200 // of the first transfer, bytes on the link
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
	// The way to the receivers is longer by up to so much, drawn anew every 0.1 s.
	wanders time.Duration
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
	{name: "wanders by 20 ms: nothing", wanders: wander},
	{name: "wanders by 20 ms: CUBIC", tcp: "cubic", wanders: wander},
	{name: "wanders by 20 ms: BBR", tcp: "bbr", wanders: wander},
	{name: "wanders by 20 ms: one transfer", transfers: 1, cc: "ledbat", wanders: wander},
	{name: "wanders by 20 ms: and CUBIC", transfers: 1, cc: "ledbat", tcp: "cubic", wanders: wander},
	{name: "wanders by 20 ms: and BBR", transfers: 1, cc: "ledbat", tcp: "bbr", wanders: wander},
}

// bench is what is measured on a bottleneck. This process is host a, which sends.
type bench struct {
	mbit   int // a second, of the bottleneck
	buffer time.Duration
	wire   *netns.Wire // to host b

	mu     sync.Mutex
	start  time.Time
	series map[uint16][]point
}

// point is a measurement at a time since the start.
type point struct {
	at    time.Duration
	value float64
}

func main() {
	sinks := flag.Bool("sink", false, "internal: receive what TCP sends")
	quick := flag.Bool("quick", false, "a few seconds: is it alive?")
	only := flag.String("only", "", "rows whose name contains this")
	flag.Parse()
	if *sinks {
		sink()
	}
	b := bench{mbit: 10, buffer: 300 * time.Millisecond, series: map[uint16][]point{}}
	most := length
	b.build()
	netns.Exit(netns.Command("b", "measure", "-sink").Start())
	go play()
	if *quick {
		rows, most = rows[3:4], 4*time.Second
	}
	b.table(*only, most)
	if !*quick {
		b.mbit = 50
		b.buffer = 40 * time.Millisecond
		b.table(*only, most)
	}
}

// build joins the hosts a and b by a router.
func (b *bench) build() {
	netns.Name("a")
	netns.Spaces("b", "router")
	netns.Cable(
		netns.At("a", "eth0", "10.78.1.2/24"),
		netns.At("router", "near", gateway+"/24"))
	b.wire = netns.Join(
		netns.At("router", "far", "10.78.2.1/24"),
		netns.At("b", "eth0", hostB+"/24"),
		delay)
	seen := b.arrived
	b.wire.Seen.Store(&seen)
	// The queue drops packets of 1500 bytes, as a modem does, not bundles of forty.
	netns.Run("ip", "-n", "a", "link", "set", "eth0", "gso_max_segs", "1")
	netns.Route("a", gateway)
	netns.Route("b", "10.78.2.1")
}

// sink receives what TCP sends.
func sink() {
	listener, err := net.Listen("tcp4", fmt.Sprint(":", tcp))
	netns.Exit(err)
	for {
		conn, err := listener.Accept()
		netns.Exit(err)
		go io.Copy(io.Discard, conn)
	}
}

// play sends the game's datagrams. Nobody reads them: they are seen as they arrive.
func play() {
	conn, err := net.ListenPacket("udp4", "")
	netns.Exit(err)
	to := &net.UDPAddr{IP: net.ParseIP(hostB), Port: game}
	for b := make([]byte, gameBytes); ; time.Sleep(gameEvery) {
		binary.LittleEndian.PutUint64(b, uint64(time.Now().UnixNano()))
		conn.WriteTo(b, to) // the network may be full
	}
}

// table makes both ways out of the router the bottleneck, and measures the rows whose name contains
// only.
func (b *bench) table(only string, length time.Duration) {
	rate := fmt.Sprintf("%dmbit", b.mbit)
	for _, dev := range []string{"near", "far"} {
		netns.Run("tc", "-n", "router", "qdisc", "replace", "dev", dev, "root",
			"tbf", "rate", rate, "burst", "4kb", "latency", b.buffer.String())
	}
	fmt.Printf("\n%d Mbit/s, buffer of %v, round trip %v:\n\n", b.mbit, b.buffer, 2*delay)
	fmt.Print("| what runs | transfers | TCP | game p50, ms | p99, ms | machine late, ms |\n")
	fmt.Print("|---|---|---|---|---|---|\n")
	for _, r := range rows {
		if !strings.Contains(r.name, only) {
			continue
		}
		control := exec.Command("ip", "route", "change", "default", "via", gateway, "congctl", r.tcp)
		if r.tcp != "" && control.Run() != nil {
			fmt.Printf("NOT TESTED: %s: this kernel has no %s\n", r.name, r.tcp)
		} else {
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
		time.Sleep(500 * time.Millisecond) // the queues run empty
		if l := b.quantile(late, 0, 0.999); l < least {
			best, least = cells, l
		}
	}
	fmt.Printf("| %s | %s | %.1f |\n", r.name, best, least)
}

// run lets a row run, beside the game, and returns its cells.
func (b *bench) run(r row, length time.Duration) (cells string) {
	b.mu.Lock()
	b.start = time.Now()
	b.series = map[uint16][]point{}
	b.mu.Unlock()
	b.wire.Delay[0].Store(int64(delay))
	defer b.wanders(r.wanders)()
	if r.tcp != "" {
		defer fill().Close()
	}
	for i := range r.transfers {
		if r.late && i == r.transfers-1 {
			time.Sleep(after)
		}
		defer start("b", "-listen :%d -key %s", transfer+i, netns.Key)()
		time.Sleep(200 * time.Millisecond) // it listens
		defer start("a", "-dial %s:%d -key %s -cc %s -mb 100000", hostB, transfer+i, netns.Key, r.cc)()
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
	if r.wanders > 0 {
		time.Sleep(learned)
		from = time.Since(b.start)
	}
	b.watch(length)
	return b.cells(r, from)
}

// wanders makes the way to host b longer by up to most, drawn anew every 0.1 s, until end.
func (b *bench) wanders(most time.Duration) (end func()) {
	if most == 0 {
		return func() {}
	}
	ended := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			b.wire.Delay[0].Store(int64(delay) + rand.Int64N(int64(most)))
			select {
			case <-ended:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() {
		close(ended)
		<-stopped
	}
}

// fill sends as much as TCP can.
func fill() net.Conn {
	conn, err := net.Dial("tcp4", fmt.Sprint(hostB, ":", tcp))
	netns.Exit(err)
	conn.(*net.TCPConn).SetLinger(0) // what waits is not sent after its end
	go func() {
		for b := make([]byte, 1<<16); err == nil; {
			_, err = conn.Write(b)
		}
	}()
	return conn
}

// start starts a transfer at a host, and returns what ends it.
func start(host, format string, args ...any) (end func()) {
	c := netns.Command(host, "transfer", strings.Fields(fmt.Sprintf(format, args...))...)
	c.Stderr = os.Stderr
	netns.Exit(c.Start())
	return func() {
		_ = c.Process.Kill() // ours, by its id
		_ = c.Wait()
	}
}

// watch sleeps, and sees how late the machine is: what this process is, so are the ends and the
// queue.
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
	end := time.Since(b.start)
	median := b.quantile(game, from, 0.5)
	p99 := b.quantile(game, from, 0.99)
	more := ""
	beside := "-"
	if r.longer {
		more = fmt.Sprintf("; back after %.0f s", b.back(from, end).Seconds())
		from += after
	}
	var shares []string
	for i := range r.transfers {
		share := b.share(uint16(transfer+i), from, end)
		shares = append(shares, percent(share))
		if share == 0 || math.IsNaN(median) {
			netns.Exit(errors.New("no transfer, or no game, went through"))
		}
	}
	if r.tcp != "" {
		beside = percent(b.share(tcp, from, end))
	}
	transfers := cmp.Or(strings.Join(shares, ", "), "-")
	return fmt.Sprintf("%s%s | %s | %.2f | %.2f", transfers, more, beside, median, p99)
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// arrived sees a packet that arrives at host b.
func (b *bench) arrived(packet []byte) {
	const ports, payload = 20, 28 // no IP options; UDP
	if len(packet) < gameBytes {
		return
	}
	port := binary.BigEndian.Uint16(packet[ports+2:])
	value := float64(len(packet))
	if port == game {
		// All hosts are on one machine, so they read one clock, and the delay is true.
		sent := int64(binary.LittleEndian.Uint64(packet[payload:]))
		value = float64(time.Now().UnixNano()-sent) / 1e6
	} else if len(packet) < bulkBytes {
		return
	}
	b.note(port, value)
}

// note adds a point to a series.
func (b *bench) note(series uint16, value float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.series[series] = append(b.series[series], point{time.Since(b.start), value})
}

// values returns those of a series from a time on until another.
func (b *bench) values(series uint16, from, to time.Duration) (values []float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.series[series] {
		if p.at >= from && p.at < to {
			values = append(values, p.value)
		}
	}
	return values
}

// quantile returns one of the values of a series from a time on.
func (b *bench) quantile(series uint16, from time.Duration, q float64) float64 {
	return testkit.OrNaN(b.values(series, from, math.MaxInt64), q)
}

// share returns the part of the link that a flow had.
func (b *bench) share(flow uint16, from, to time.Duration) float64 {
	bytes := 0.0
	for _, n := range b.values(flow, from, to) {
		bytes += n
	}
	return bytes * 8 / 1e6 / (to - from).Seconds() / float64(b.mbit)
}

// back returns how long after a change the transfer lacked 85 % of the link for longer than a
// slowdown for the last time.
func (b *bench) back(change, end time.Duration) (back time.Duration) {
	run := 0
	for at := change; at+time.Second <= end; at += time.Second {
		run++
		if b.share(transfer, at, at+time.Second) >= 0.85 {
			run = 0
		}
		if run > 2 {
			back = at + time.Second - change
		}
	}
	return back
}
