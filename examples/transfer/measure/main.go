// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

// Measure runs examples/transfer on real queues in network namespaces, alone and beside the
// kernel's TCP, while a game's datagrams measure the delay. See measure.sh.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
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
)

func main() {
	role := flag.String("role", "", "internal: what this process is in a namespace")
	quick := flag.Bool("quick", false, "a few seconds: is it alive?")
	only := flag.String("only", "", "rows whose name contains this")
	flag.Parse()
	var err error
	switch *role {
	case "":
		err = lab.Measure("a transfer on a real queue", "transfer", []string{"tc"}, func(l *lab.Lab, program string) error {
			return measure(l, program, *quick, *only)
		})
	case "ping":
		err = ping(flag.Arg(0))
	case "pong":
		err = pong()
	case "sink":
		err = sink(flag.Arg(0))
	case "source":
		err = source(flag.Arg(0), flag.Arg(1))
	}
	lab.Exit(err)
}

// network is a bottleneck.
type network struct {
	mbit   int // a second
	buffer time.Duration
}

func (n network) String() string {
	return fmt.Sprintf("%d Mbit/s, buffer of %v, round trip %v", n.mbit, n.buffer, 2*delay)
}

// bench is the network as it is built, and what runs on it.
type bench struct {
	network
	lab     *lab.Lab
	a, b    string // namespaces of the sender and the receiver
	wire    *lab.Wire
	self    string // this program
	program string // examples/transfer
	start   time.Time

	procs []*exec.Cmd
	stop  context.CancelFunc

	mu     sync.Mutex
	series map[string][]point // of each flow, bytes on the link that arrived; and the two below
}

const (
	game = "game" // delays, ms
	late = "late" // by how much this process woke up late, ms
)

// point is a measurement at a time since the start.
type point struct {
	at    time.Duration
	value float64
}

func measure(l *lab.Lab, program string, quick bool, only string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	networks := []network{{10, 300 * time.Millisecond}, {50, 40 * time.Millisecond}}
	if quick {
		networks = networks[:1]
	}
	for i, n := range networks {
		b := &bench{network: n, lab: l, self: self, program: program}
		if b.build(i); l.Built() != nil {
			return l.Built()
		}
		if err := b.table(quick, only); err != nil {
			return err
		}
	}
	return nil
}

// build joins sender and receiver by a router, whose way out is the bottleneck.
func (b *bench) build(i int) {
	l := b.lab
	r := l.Space(fmt.Sprint("r", i))
	b.a, b.b = l.Space(fmt.Sprint("a", i)), l.Space(fmt.Sprint("b", i))
	l.Cable(lab.At(b.a, "eth0", "10.78.1.2/24"), lab.At(r, "near", "10.78.1.1/24"))
	b.wire = l.Wire(lab.At(r, "far", "10.78.2.1/24"), lab.At(b.b, "eth0", hostB+"/24"), delay)
	// The queue drops packets of 1500 bytes, as a modem does, not bundles of forty.
	l.Run("ip", "-n", b.a, "link", "set", "eth0", "gso_max_segs", "1")
	l.Forward(r)
	l.Route(b.a, "10.78.1.1")
	l.Route(b.b, "10.78.2.1")
	rate := fmt.Sprintf("%dmbit", b.mbit)
	for _, dev := range []string{"near", "far"} {
		l.Run("tc", "-n", r, "qdisc", "add", "dev", dev, "root", "tbf", "rate", rate, "burst", "4kb", "latency", b.buffer.String())
	}
}

// spawn starts a process in a namespace and gives its lines to a function.
func (b *bench) spawn(ns string, line func(string), program string, args []string) error {
	c := lab.Command(ns, program, args...)
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		return err
	}
	b.procs = append(b.procs, c)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			line(s.Text())
		}
	}()
	return nil
}

// pair starts what receives, gives its lines to a function, and then starts what sends.
func (b *bench) pair(line func(string), program string, receiver, sender []string) error {
	if err := b.spawn(b.b, line, program, receiver); err != nil {
		return err
	}
	time.Sleep(200 * time.Millisecond)
	return b.spawn(b.a, func(string) {}, program, sender)
}

// note adds a point to a series.
func (b *bench) note(series string, value float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.series[series] = append(b.series[series], point{time.Since(b.start), value})
}

// quantile returns one of the points of a series from a time on.
func (b *bench) quantile(series string, from time.Duration, q float64) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	var values []float64
	for _, p := range b.series[series] {
		if p.at >= from {
			values = append(values, p.value)
		}
	}
	return stat.OrNaN(values, q)
}

// begin starts a run with the game alone.
func (b *bench) begin() error {
	b.start, b.series, b.procs = time.Now(), map[string][]point{}, nil
	var running context.Context
	running, b.stop = context.WithCancel(context.Background())
	go b.watch(running)
	b.wire.Delay[0].Store(int64(delay))
	return b.pair(b.noteLines(game, 1), b.self, []string{"-role", "pong"}, []string{"-role", "ping", hostB})
}

// noteLines notes lines that are numbers, times a factor.
func (b *bench) noteLines(series string, factor float64) (line func(string)) {
	return func(s string) {
		if value, err := strconv.ParseFloat(s, 64); err == nil {
			b.note(series, value*factor)
		}
	}
}

// watch sees how late the machine is: what this process is, so are the ends and the queue.
func (b *bench) watch(running context.Context) {
	const nap = time.Millisecond
	for running.Err() == nil {
		start := time.Now()
		time.Sleep(nap)
		b.note(late, float64(time.Since(start)-nap)/1e6)
	}
}

// end kills what runs. The processes are ours, by their ids.
func (b *bench) end() {
	b.stop()
	for _, c := range b.procs {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	time.Sleep(500 * time.Millisecond) // the queues run empty
}

// tcp starts a flow of TCP.
func (b *bench) tcp(cc string) error {
	const port = "7100"
	receiver := []string{"-role", "sink", port}
	sender := []string{"-role", "source", hostB + ":" + port, cc}
	return b.pair(b.noteLines("tcp", tcpWire), b.self, receiver, sender)
}

// transfer starts one.
func (b *bench) transfer(i int, cc string) error {
	last, flow, port := 0.0, fmt.Sprint(i), fmt.Sprint(7200+i)
	receiver := []string{"-listen", ":" + port, "-key", lab.Key, "-json"}
	sender := []string{"-dial", hostB + ":" + port, "-key", lab.Key, "-cc", cc, "-mb", "100000", "-json"}
	return b.pair(func(s string) {
		var p struct{ Bytes float64 }
		if json.Unmarshal([]byte(s), &p) == nil {
			b.note(flow, (p.Bytes-last)*udpWire)
			last = p.Bytes
		}
	}, b.program, receiver, sender)
}
