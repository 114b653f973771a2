// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"timesync/internal/rivals"
	"timesync/internal/sim"
)

// The C++ original, live: processes of original/peer.cpp and ends of this package exchange
// UDP datagrams on the loopback interface, through a relay that delays them.

// liveCase is how datagrams are sent, and what delays them.
type liveCase struct {
	name  string
	every time.Duration // between frames
	frame int           // datagrams
	gap   time.Duration // between those of a frame
	delay func() sim.Delay
}

const us, ms = time.Microsecond, time.Millisecond

// liveBase is the delay of a path without jitter.
const liveBase = 20 * ms

// shared3 is an exponential jitter of 3 ms that neighbours share.
func shared3(lasting time.Duration) func() sim.Delay {
	return func() sim.Delay { return sim.Shared(lasting, sim.Exp(3*ms)) }
}

var liveCases = []liveCase{
	{"loopback, 60 singles", time.Second / 60, 1, 0, nil},
	{"jitter of each datagram, 60 singles", time.Second / 60, 1, 0, func() sim.Delay { return sim.Exp(3 * ms) }},
	{"30 pairs", time.Second / 30, 2, 30 * us, shared3(5 * ms)},
	{"30 frames of 8", time.Second / 30, 8, 150 * us, shared3(5 * ms)},
	{"jitter lasts 30 ms, 60 singles", time.Second / 60, 1, 0, shared3(30 * ms)},
	{"jitter lasts 100 ms, 60 singles", time.Second / 60, 1, 0, shared3(100 * ms)},
	{"Wi-Fi bundles of 20 ms, 60 singles", time.Second / 60, 1, 0, func() sim.Delay { return sim.Bundles(20*ms, 0, sim.Exp(ms)) }},
}

// link is one direction of the path. No datagram overtakes another.
func (c *liveCase) link() *sim.Link {
	if c.delay == nil {
		return &sim.Link{FIFO: true}
	}
	return &sim.Link{Base: sim.Fixed(liveBase), Delay: c.delay(), FIFO: true}
}

const (
	liveSkew     = 40.0 // ppm
	liveAhead    = 123_456_789 * time.Microsecond
	liveDatagram = 7 // bytes: a stamp, 1 if there is a report, and the report
	livePort     = 17300
)

// livePairs are who talks to whom: true is the original.
var livePairs = [][2]bool{{false, false}, {false, true}, {true, true}}

// monotonic is the clock that both programs read, us.
func monotonic() uint64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return uint64(t.Nano() / 1000)
}

// liveEnd is an end of a session: its clock, and its errors.
type liveEnd struct {
	peer       *liveEnd
	port       int
	to         int     // the relay's port
	skew       float64 // of its clock
	ahead      uint64  // us
	begin      uint64  // machine time, us
	errs       []float64
	compared   int // answers of the C++ end that the port was asked for
	mismatches int // of those

	// Of an end of this package:
	udp *net.UDPConn
	mu  sync.Mutex
	est sim.Core
	due time.Time // the next report
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

// liveWarmup is from when on answers count.
const liveWarmup = 10 * time.Second

// session plays one pair in one case, and returns both ends.
func (c *liveCase) session(ctx context.Context, peer string, cpp [2]bool, port int, lasting time.Duration, seed uint64) ([2]*liveEnd, error) {
	a, b := &liveEnd{port: port, to: port + 2}, &liveEnd{port: port + 1, to: port + 3, skew: liveSkew * 1e-6, ahead: uint64(liveAhead / us)}
	a.peer, b.peer = b, a
	ends := [2]*liveEnd{a, b}
	for side, e := range ends {
		udp, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(loopback(e.to)))
		if err != nil {
			return ends, err
		}
		defer udp.Close()
		relay(c.link(), udp, e.peer.port, seed+uint64(side))
	}
	var both errgroup.Group
	for side, e := range ends {
		e.begin = monotonic()
		both.Go(func() error {
			if cpp[side] {
				return e.runCPP(ctx, peer, c, lasting)
			}
			return e.runOurs(ctx, c, lasting)
		})
	}
	return ends, both.Wait()
}

// runCPP runs the C++ peer, and gives the port what that gives to the original.
func (e *liveEnd) runCPP(ctx context.Context, peer string, c *liveCase, lasting time.Duration) error {
	arguments := fmt.Sprintln(e.port, e.to, int64(c.every/us), c.frame, int64(c.gap/us), e.skew*1e6, e.ahead, int64(lasting.Seconds()))
	cmd := exec.CommandContext(ctx, peer, strings.Fields(arguments)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var port rivals.Original
	for in := bufio.NewScanner(out); in.Scan(); {
		if err := e.line(&port, in.Text()); err != nil {
			return errors.Join(err, cmd.Wait())
		}
	}
	return cmd.Wait()
}

// line takes a line of the C++ peer.
func (e *liveEnd) line(port *rivals.Original, text string) error {
	kind, rest, _ := strings.Cut(text, " ")
	var v [4]uint64
	want := map[string]int{"d": 4, "r": 1, "q": 3}[kind]
	fields := strings.Fields(rest)
	if want == 0 || len(fields) != want {
		return fmt.Errorf("the C++ peer prints %q", text)
	}
	for i, f := range fields {
		var err error
		if v[i], err = strconv.ParseUint(f, 10, 64); err != nil {
			return err
		}
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

// relay passes on what arrives at a socket to a port of the loopback interface, as late as a
// link in which nothing overtakes says, until the socket is closed.
func relay(link *sim.Link, udp *net.UDPConn, to int, seed uint64) {
	type waiting struct {
		b  []byte
		at time.Time
	}
	const room = 4096 // datagrams: of 4800 a second in 0.2 s, and more
	queue := make(chan waiting, room)
	go func() {
		for w := range queue {
			time.Sleep(time.Until(w.at))
			udp.WriteToUDPAddrPort(w.b, loopback(to))
		}
	}()
	go func() {
		defer close(queue)
		random, start := rand.New(rand.NewPCG(seed, 'r')), time.Now()
		for {
			b := make([]byte, 64)
			n, err := udp.Read(b)
			if err != nil {
				return
			}
			for _, at := range link.Arrivals(random, time.Since(start)) {
				queue <- waiting{b[:n], start.Add(at)}
			}
		}
	}()
}

// runOurs runs an end of this package, which sends as the C++ peer does.
func (e *liveEnd) runOurs(ctx context.Context, c *liveCase, lasting time.Duration) error {
	var err error
	if e.udp, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(loopback(e.port))); err != nil {
		return err
	}
	defer e.udp.Close()
	go e.receive()
	lasts, stop := context.WithTimeout(ctx, lasting)
	defer stop()
	var asking sync.WaitGroup
	asking.Go(func() { every(lasts, linkAsk, e.ask) })
	every(lasts, c.every, func() {
		for i := range c.frame {
			time.Sleep(time.Duration(min(i, 1)) * c.gap)
			e.send()
		}
	})
	asking.Wait()
	return ctx.Err()
}

// receive takes datagrams until the socket is closed.
func (e *liveEnd) receive() {
	var b [64]byte
	for {
		n, err := e.udp.Read(b[:])
		at := e.clock(monotonic())
		if err != nil {
			return
		}
		if n == liveDatagram {
			e.mu.Lock()
			sim.OpenDatagram(&e.est.Sync, b[:n], at)
			e.mu.Unlock()
		}
	}
}

func (e *liveEnd) ask() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := monotonic()
	if remote, ok := e.est.RemoteTime(e.clock(now), e.peer.clock(now)); ok {
		e.answered(now, remote)
	}
}

// send sends a datagram, with a report if it is due.
func (e *liveEnd) send() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := monotonic()
	b := sim.StartDatagram(&e.est.Sync, e.clock(now))
	if due := time.Now().After(e.due); due && b[3] == 1 {
		e.due = time.Now().Add(sim.ReportEvery(time.Duration(now-e.begin) * us))
	} else {
		b[3] = 0
	}
	e.udp.WriteToUDPAddrPort(b, loopback(e.to))
}
