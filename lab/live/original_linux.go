// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"timesync/internal/sim"
	"timesync/internal/sim/rivals"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
	"timesync/lab/results"
)

// The C++ original, live: processes of original/peer.cpp and ends of this package exchange
// UDP datagrams on the loopback interface, through a relay that delays them.

// liveCase is how datagrams are sent, and what delays them.
type liveCase struct {
	name  string
	every time.Duration // between frames
	frame int           // datagrams
	gap   time.Duration // between those of a frame
	delay func() simnet.Delay
}

const us, ms = time.Microsecond, time.Millisecond

// shared3 is an exponential jitter of 3 ms that neighbours share.
func shared3(lasting time.Duration) func() simnet.Delay {
	return func() simnet.Delay { return simnet.Shared(lasting, simnet.Exp(3*ms)) }
}

var liveCases = []liveCase{
	{"loopback, 60 singles", time.Second / 60, 1, 0, nil},
	{"jitter of each datagram, 60 singles", time.Second / 60, 1, 0, func() simnet.Delay {
		return simnet.Exp(3 * ms)
	}},
	{"30 pairs", time.Second / 30, 2, 30 * us, shared3(5 * ms)},
	{"30 frames of 8", time.Second / 30, 8, 150 * us, shared3(5 * ms)},
	{"jitter lasts 30 ms, 60 singles", time.Second / 60, 1, 0, shared3(30 * ms)},
	{"jitter lasts 100 ms, 60 singles", time.Second / 60, 1, 0, shared3(100 * ms)},
	{"Wi-Fi bundles of 20 ms, 60 singles", time.Second / 60, 1, 0, func() simnet.Delay {
		return simnet.Bundles(20*ms, 0, simnet.Exp(ms))
	}},
}

// link is one direction of the path. No datagram overtakes another.
func (c *liveCase) link() *simnet.Link {
	if c.delay == nil {
		return &simnet.Link{FIFO: true}
	}
	return &simnet.Link{Base: simnet.Fixed(20 * ms), Delay: c.delay(), FIFO: true}
}

const (
	liveWarmup   = 10 * time.Second // from when on answers count
	liveSkew     = 40.0             // ppm
	liveAhead    = 123_456_789      // us
	liveDatagram = 7                // bytes: a stamp, 1 if a report follows, and the report
	livePort     = 17300
)

// The columns: what the errors of an end are of.
const (
	twoOurs    = "two of ours"
	oursBeside = "ours beside C++"
	cppBeside  = "C++ beside ours"
	twoCPP     = "two C++"
)

// livePairs are who talks to whom.
var livePairs = [][2]string{{twoOurs, twoOurs}, {oursBeside, cppBeside}, {twoCPP, twoCPP}}

// monotonic is the clock that both programs read, us.
func monotonic() uint64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return uint64(t.Nano() / 1000)
}

// liveEnd is an end of a session: its clock, and its errors.
type liveEnd struct {
	column     string
	peer       *liveEnd
	port, to   int     // its own, and the relay's
	skew       float64 // of its clock
	ahead      uint64  // us
	begin      uint64  // machine time, us
	errs       []float64
	compared   int // answers of the C++ end that the port was asked for
	mismatches int // of those
}

func (e *liveEnd) clock(machine uint64) uint64 {
	return machine + e.ahead + uint64(int64(float64(machine)*e.skew))
}

// answered takes an answer for the machine's time. It may be known modulo 2^26 us only.
func (e *liveEnd) answered(machine, remote uint64) {
	if truth := e.peer.clock(machine); machine-e.begin > uint64(liveWarmup/us) {
		e.errs = append(e.errs, math.Abs(float64(int64((remote-truth)<<38)>>38)))
	}
}

// play plays all pairs of a case at the same time, and returns all ends.
func (c *liveCase) play(o options) (ends []*liveEnd) {
	var all sync.WaitGroup
	for i, p := range livePairs {
		port := livePort + 4*i // those of the ends, and the relay's two
		a := &liveEnd{column: p[0], port: port, to: port + 2}
		b := &liveEnd{
			column: p[1],
			port:   port + 1,
			to:     port + 3,
			skew:   liveSkew * 1e-6,
			ahead:  liveAhead,
			peer:   a,
		}
		a.peer = b
		ends = append(ends, a, b)
	}
	for side, e := range ends {
		udp := must(listen(e.to))
		defer udp.Close()
		go relay(c.link(), udp, e.peer.port, o.seed+uint64(side%2))
	}
	for _, e := range ends {
		e.begin = monotonic()
		all.Go(func() {
			if e.column == cppBeside || e.column == twoCPP {
				e.runCPP(o.where, c, o.lasting)
			} else {
				e.runOurs(c, o.lasting)
			}
		})
	}
	all.Wait()
	return ends
}

// runCPP runs the C++ peer, and gives the port what that gives to the original.
func (e *liveEnd) runCPP(peer string, c *liveCase, lasting time.Duration) {
	arguments := fmt.Sprintln(e.port, e.to, int64(c.every/us), c.frame, int64(c.gap/us), e.skew*1e6,
		e.ahead, int64(lasting.Seconds()))
	cmd := exec.Command(peer, strings.Fields(arguments)...)
	cmd.Stderr = os.Stderr
	out := must(cmd.StdoutPipe())
	check(cmd.Start())
	var port rivals.Original
	for in := bufio.NewScanner(out); in.Scan(); {
		check(e.line(&port, in.Text()))
	}
	check(cmd.Wait())
}

// line takes a line of the C++ peer.
func (e *liveEnd) line(port *rivals.Original, text string) error {
	var v [4]uint64
	kind, rest, _ := strings.Cut(text, " ")
	want := map[string]int{"d": 4, "r": 1, "q": 3}[kind]
	if n, _ := fmt.Sscan(rest, &v[0], &v[1], &v[2], &v[3]); n == 0 || n != want {
		return fmt.Errorf("the C++ peer prints %q", text)
	}
	same := true
	switch kind {
	case "d":
		delay := port.Datagram(uint32(v[0]), v[1])
		report, _ := port.MinDelta(v[1])
		same = uint64(delay) == v[2] && uint64(report) == v[3]
	case "r":
		port.OnPeerMinDelta(uint32(v[0]), 0)
	case "q":
		same = uint64(port.Remote23(v[1])) == v[2]
		e.answered(v[0], v[2]<<3)
	}
	e.compared++
	if !same {
		e.mismatches++
	}
	return nil
}

// loopback is a port of the loopback interface.
func loopback(port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
}

// listen opens a port of the loopback interface.
func listen(port int) (*net.UDPConn, error) {
	return net.ListenUDP("udp4", net.UDPAddrFromAddrPort(loopback(port)))
}

// relay passes on what arrives at a socket to a port of the loopback interface, as late as a
// link in which nothing overtakes says, until the socket is closed.
func relay(link *simnet.Link, udp *net.UDPConn, to int, seed uint64) {
	type datagram struct {
		b  []byte
		at time.Time
	}
	waiting := make(chan datagram, 1000)
	defer close(waiting)
	go func() {
		for d := range waiting {
			time.Sleep(time.Until(d.at))
			udp.WriteToUDPAddrPort(d.b, loopback(to))
		}
	}()
	random, start := rand.New(rand.NewPCG(seed, 'r')), time.Now()
	for {
		b := make([]byte, 64)
		n, err := udp.Read(b)
		if err != nil {
			return
		}
		for _, at := range link.Arrivals(random, time.Since(start)) {
			waiting <- datagram{b[:n], start.Add(at)}
		}
	}
}

// runOurs runs an end of this package, which does what the C++ peer does.
func (e *liveEnd) runOurs(c *liveCase, lasting time.Duration) {
	udp := must(listen(e.port))
	defer udp.Close()
	var est sim.Core
	var next, ask, due time.Duration // when to send, to ask, and to report, after the start
	start := time.Now()
	for sent := 0; time.Since(start) < lasting; {
		if age := time.Since(start); age >= next {
			b := sim.StartDatagram(&est.Sync, e.clock(monotonic()))
			if b[3] == 1 && age >= due {
				due = age + sim.ReportEvery(age)
			} else {
				b[3] = 0
			}
			udp.WriteToUDPAddrPort(b, loopback(e.to))
			next += c.gap
			if sent++; sent%c.frame == 0 {
				next += c.every - c.gap*time.Duration(c.frame)
			}
		}
		if time.Since(start) >= ask {
			ask += linkAsk
			now := monotonic()
			if remote, ok := est.RemoteTime(e.clock(now), e.peer.clock(now)); ok {
				e.answered(now, remote)
			}
		}
		var b [64]byte
		udp.SetReadDeadline(start.Add(min(next, ask)))
		n, _ := udp.Read(b[:])
		if at := e.clock(monotonic()); n == liveDatagram {
			sim.OpenDatagram(&est.Sync, b[:n], at)
		}
	}
}

// measureOriginal plays all cases live and writes ORIGINAL.md. It fails if the port of the
// original in internal/sim/rivals is not equal to it in every bit.
func measureOriginal(o options) {
	columns := []string{twoOurs, oursBeside, cppBeside, twoCPP}
	rows := [][]string{append([]string{"datagrams"}, columns...)}
	compared, mismatches, worse := 0, 0, 0
	for _, c := range liveCases {
		if !strings.Contains(c.name, o.only) {
			continue
		}
		errs := map[string][]float64{}
		for _, e := range c.play(o) {
			errs[e.column] = append(errs[e.column], e.errs...)
			compared, mismatches = compared+e.compared, mismatches+e.mismatches
		}
		row := []string{c.name}
		for _, column := range columns {
			row = append(row, cell(errs[column]))
		}
		if testkit.OrNaN(errs[twoOurs], 0.99) > testkit.OrNaN(errs[twoCPP], 0.99) {
			worse++
		}
		fmt.Fprintln(os.Stderr, "live:", strings.Join(row, " | "))
		rows = append(rows, row)
	}
	part := results.Text("Seed %d, %.0f s each row, from %.0f s on:",
		o.seed, o.lasting.Seconds(), liveWarmup.Seconds()) +
		results.Table(rows) +
		results.Text("In %d of %d rows the 99th percentile of two C++ ends is below that of two of ours.",
			worse, len(rows)-1) +
		results.Text("The port of the original in `internal/sim/rivals`, with which other tables "+
			"compare, was given what the C++ ends were given: of %d delays, reports and readings "+
			"of the remote clock, %d differ.", compared, mismatches)
	fmt.Print(part)
	if mismatches > 0 {
		check(errors.New("the port in internal/sim/rivals is not equal to the original"))
	}
	page := results.Page{Path: "lab/results/ORIGINAL.md", Parts: map[string]string{"live": part}}
	check(page.Write(o.out))
}
