// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"timesync/internal/sim"
)

// The real link: two hosts and a router in network namespaces, which reallink/run.sh sets
// up. Both ends are in this process, so the machine's own clock tells the truth; end B reads
// it with a known offset and skew. What the ends exchange are real UDP datagrams, beside real
// TCP that fills the real queues of the router.

// The addresses that run.sh gives the hosts.
var linkHosts = [2]netip.Addr{netip.AddrFrom4([4]byte{10, 77, 1, 2}), netip.AddrFrom4([4]byte{10, 77, 2, 2})}

const (
	linkPort     = 7000
	linkEvery    = time.Second / 60
	linkAsk      = time.Second / 10
	linkPing     = time.Second / 4
	linkWarmup   = 2 * time.Second
	linkOffset   = 1_234_567_890 // us: by which B's clock is ahead at first
	linkSkew     = 40e-6
	linkDatagram = 64 // bytes
	linkFlows    = 4  // TCP connections that fill a direction: one alone leaves it empty at times
)

// linkPhases are what happens, in shares of the run.
var linkPhases = []struct {
	name  string
	share float64
	fill  [2]bool // TCP from A to B, from B to A
}{
	{"nothing else", 0.15, [2]bool{}},
	{"TCP from A to B", 0.25, [2]bool{true, false}},
	{"TCP from B to A", 0.25, [2]bool{false, true}},
	{"TCP both ways", 0.25, [2]bool{true, true}},
	{"nothing else again", 0.10, [2]bool{}},
}

// linkMethods are compared on the link: all on the same datagrams.
var linkMethods = []int{ours, original, ntp}

// linkEnd is one host.
type linkEnd struct {
	side  sim.Side
	udp   *net.UDPConn
	peer  netip.AddrPort
	ests  []sim.Estimator
	due   time.Time // the next report
	heard bool
}

// clock returns what the end's clock reads at a reading of the machine's.
func (e *linkEnd) clock(usec uint64) uint64 {
	if e.side == sim.A {
		return usec
	}
	return usec + linkOffset + uint64(float64(usec)*linkSkew)
}

// link is the whole experiment.
type link struct {
	ends  [2]*linkEnd
	start uint64 // machine time
	until time.Duration

	mu     sync.Mutex
	oracle oracle
	errs   []linkError
	delays [2]plotter.XYs // to each end: seconds, ms
	lost   [2]int         // sent to each end and not arrived
}

// linkError is an answer.
type linkError struct {
	at     time.Duration
	side   sim.Side
	method int // index into linkMethods, or its length for the oracle
	err    float64
}

// within runs do in a network namespace. Sockets stay where they were made.
func within(namespace string, do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer home.Close()
	there, err := os.Open("/run/netns/" + namespace)
	if err != nil {
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("namespace %s: %w", namespace, err)
	}
	return errors.Join(do(), unix.Setns(int(home.Fd()), unix.CLONE_NEWNET))
}

// measureLink runs the experiment between two namespaces and writes LINK.md and a picture.
func measureLink(nsA, nsB string, lasting time.Duration, out string) error {
	l := &link{until: lasting}
	spaces := [2]string{nsA, nsB}
	for side := range l.ends {
		e := &linkEnd{side: sim.Side(side), peer: netip.AddrPortFrom(linkHosts[1-side], linkPort)}
		for _, m := range linkMethods {
			e.ests = append(e.ests, methods[m].make())
		}
		err := within(spaces[side], func() (err error) {
			e.udp, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(linkHosts[side], linkPort)))
			return err
		})
		if err != nil {
			return err
		}
		defer e.udp.Close()
		l.ends[side] = e
	}
	ctx, stop := context.WithTimeout(context.Background(), lasting)
	defer stop()
	l.start = machineUsec()
	var fills sync.WaitGroup
	for side := range l.ends {
		go l.receive(l.ends[side])
		fills.Go(func() { l.fillPhases(ctx, spaces, side) })
	}
	l.run(ctx)
	fills.Wait()
	return l.report(out)
}

// since returns how long the experiment has run.
func (l *link) since(usec uint64) time.Duration {
	return time.Duration(usec-l.start) * time.Microsecond
}

// run sends, asks and pings until ctx is over.
func (l *link) run(ctx context.Context) {
	send, ask, ping := time.NewTicker(linkEvery), time.NewTicker(linkAsk), time.NewTicker(linkPing)
	defer send.Stop()
	defer ask.Stop()
	defer ping.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-send.C:
			for _, e := range l.ends {
				l.send(e)
			}
		case <-ask.C:
			for _, e := range l.ends {
				l.ask(e)
			}
		case <-ping.C:
			for _, e := range l.ends {
				var b [linkDatagram]byte
				b[0] = linkRequest
				binary.BigEndian.PutUint64(b[1:], e.clock(machineUsec()))
				e.udp.WriteToUDPAddrPort(b[:], e.peer)
			}
		}
	}
}

// What a datagram is. All have 64 bytes.
const (
	linkData     = iota // machine time (for the oracle and the picture), stamp, reports
	linkRequest         // t1
	linkResponse        // t1, t2, t3
)

// send sends a datagram with a stamp, and every half second at first, later every 2 s, with
// the reports.
func (l *link) send(e *linkEnd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b [linkDatagram]byte
	now := machineUsec()
	reports := b[13:]
	if e.heard && time.Now().After(e.due) {
		e.due = time.Now().Add(2 * time.Second)
		if l.since(now) < 20*time.Second {
			e.due = time.Now().Add(time.Second / 2)
		}
		for i, est := range e.ests {
			if delta, ok := est.MinDelta(e.clock(now)); ok {
				binary.BigEndian.PutUint32(reports[4*i:], delta|1<<31)
			}
		}
	}
	now = machineUsec() // as late as possible
	binary.BigEndian.PutUint64(b[1:], now)
	binary.BigEndian.PutUint32(b[9:], sim.Stamp(e.clock(now)))
	l.lost[1-e.side]++
	e.udp.WriteToUDPAddrPort(b[:], e.peer)
}

// receive takes what arrives at an end until its socket is closed.
func (l *link) receive(e *linkEnd) {
	read := kernelReader(e.udp)
	var b [2048]byte
	for {
		n, _, at, err := read(b[:])
		if err != nil {
			return
		}
		if n != linkDatagram {
			continue
		}
		l.mu.Lock()
		switch b[0] {
		case linkData:
			l.data(e, b[:n], at)
		case linkRequest:
			binary.BigEndian.PutUint64(b[9:], e.clock(at))
			binary.BigEndian.PutUint64(b[17:], e.clock(machineUsec()))
			b[0] = linkResponse
			e.udp.WriteToUDPAddrPort(b[:n], e.peer)
		case linkResponse:
			t := func(i int) uint64 { return binary.BigEndian.Uint64(b[i:]) }
			for _, est := range e.ests {
				if x, ok := est.(sim.Exchanger); ok {
					x.OnExchange(t(1), t(9), t(17), e.clock(at))
				}
			}
		}
		l.mu.Unlock()
	}
}

// data takes a datagram with a stamp.
func (l *link) data(e *linkEnd, b []byte, at uint64) {
	sent, stamp := binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint32(b[9:])
	for i, est := range e.ests {
		est.OnDatagram(stamp, e.clock(at))
		if r := binary.BigEndian.Uint32(b[13+4*i:]); r != 0 {
			est.OnPeerMinDelta(r&(1<<24-1), e.clock(at))
		}
	}
	e.heard = true
	l.lost[e.side]--
	delay := float64(int64(at - sent))
	l.delays[e.side] = append(l.delays[e.side], plotter.XY{X: l.since(at).Seconds(), Y: delay / 1e3})
	o := sim.Observation{Side: e.side, At: l.since(at), ErrUsec: -delay}
	l.oracle.ends[e.side].OnDatagram(stamp, e.clock(at))
	l.oracle.heard(&o)
}

// ask asks every method at an end.
func (l *link) ask(e *linkEnd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := machineUsec()
	local, truth := e.clock(now), l.ends[1-e.side].clock(now)
	o := sim.Observation{Side: e.side, At: l.since(now), LocalUsec: local}
	for i, est := range e.ests {
		if got, ok := est.RemoteTime(local, truth); ok {
			l.errs = append(l.errs, linkError{o.At, e.side, i, circle(float64(int64(got-truth)), 26)})
		}
	}
	l.oracle.ends[e.side].RemoteTime(local, truth)
	l.oracle.asked(&o)
}

// fillPhases fills the link from one side with TCP whenever its phases say so.
func (l *link) fillPhases(ctx context.Context, spaces [2]string, side int) {
	begin := time.Duration(0)
	for _, p := range linkPhases {
		end := begin + time.Duration(p.share*float64(l.until))
		if p.fill[side] {
			select {
			case <-ctx.Done():
				return
			case <-time.After(begin - l.since(machineUsec())):
			}
			if err := fill(spaces, side, end-begin); err != nil {
				fmt.Fprintln(os.Stderr, "compare: TCP:", err)
			}
		}
		begin = end
	}
}

// fill sends as much as TCP can from one host to the other.
func fill(spaces [2]string, side int, lasting time.Duration) error {
	var listener net.Listener
	err := within(spaces[1-side], func() (err error) {
		listener, err = net.Listen("tcp4", netip.AddrPortFrom(linkHosts[1-side], linkPort).String())
		return err
	})
	if err != nil {
		return err
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(io.Discard, conn)
				conn.Close()
			}()
		}
	}()
	errs := make([]error, linkFlows)
	var flows sync.WaitGroup
	for i := range errs {
		flows.Go(func() { errs[i] = flow(spaces[side], listener.Addr().String(), lasting) })
	}
	flows.Wait()
	return errors.Join(errs...)
}

// flow is one TCP connection that sends as much as it can.
func flow(space, address string, lasting time.Duration) error {
	var conn net.Conn
	deadline := time.Now().Add(lasting)
	err := within(space, func() (err error) {
		conn, err = net.DialTimeout("tcp4", address, lasting)
		return err
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := fillBuffers(conn.(*net.TCPConn)); err != nil {
		return err
	}
	conn.(*net.TCPConn).SetLinger(0) // what waits in the queue is not wanted any more
	conn.SetDeadline(deadline)
	for chunk := make([]byte, 1<<16); err == nil; {
		_, err = conn.Write(chunk)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// fillBuffers chooses CUBIC, which fills buffers, as most TCP does; BBR tries not to.
func fillBuffers(conn *net.TCPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var chosen error
	err = raw.Control(func(fd uintptr) {
		chosen = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic")
	})
	return errors.Join(err, chosen)
}

// report writes LINK.md and its picture.
func (l *link) report(out string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.oracle.answer(0, events{}, linkWarmup, func(o *sim.Observation) {
		if o.OK {
			l.errs = append(l.errs, linkError{o.At, o.Side, len(linkMethods), o.ErrUsec})
		}
	})
	if len(l.delays[0]) == 0 || len(l.delays[1]) == 0 {
		return errors.New("no datagram arrived: are the namespaces joined?")
	}
	d := new(document)
	d.heading(1, "A real queue")
	d.text("Two hosts and a router are network namespaces of one Linux machine. The router sends 10 Mbit/s each way and holds 300 ms (`tc ... tbf`). For %.0f s the hosts exchange 60 datagrams a second each way, of which the kernel notes the arrival, while four TCP connections (CUBIC) fill the link one way, the other way and both ways. Both ends read the machine's own clock, which is the truth; one reads it 1234.57 s ahead and 40 ppm fast. Every method gets the same datagrams; NTP's exchanges go besides, one every 2 s. Without a queue both ways take equally long, to within some 10 us. This was measured, not simulated: another run gives other figures.", l.until.Seconds())
	d.text("Error in microseconds at both ends, median / 99th percentile / maximum, from %.0f s on, and for how long datagrams were under way, median to B / to A:", linkWarmup.Seconds())
	d.table(l.table())
	d.text("Of the datagrams, %d of %d to B and %d of %d to A did not arrive. The command, as root:", l.lost[1], len(l.delays[1])+l.lost[1], l.lost[0], len(l.delays[0])+l.lost[0])
	d.code("compare/reallink/run.sh docs    # 2 min")
	d.text("Where it cannot run, it says why in a line: it needs Linux, root, and `ip` and `tc` of iproute2.")
	d.picture("link", "Above: this package is right to tens of microseconds while TCP keeps the queue at up to 300 ms for 20 s; the original after 10 s, and NTP's filter after 16 s, take the queue for the path and are wrong by half of it. Below: how long datagrams were under way.", l.draw)
	return l.write(d, out)
}

func (l *link) write(d *document, out string) error {
	if err := os.MkdirAll(filepath.Join(out, pictureFolder), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "LINK.md"), []byte(d.markdown()), 0o644); err != nil {
		return err
	}
	fmt.Print(d.markdown())
	return d.pictures[0].draw(filepath.Join(out, pictureFolder, d.pictures[0].name+".png"))
}

// linkNames are the columns of the table and the curves of the picture.
func linkNames() (names []string) {
	for _, m := range linkMethods {
		names = append(names, methods[m].name)
	}
	return append(names, oracleName)
}

// table returns a row for each phase and one for all.
func (l *link) table() [][]string {
	rows := [][]string{append(append([]string{"while there is"}, linkNames()...), "under way")}
	row := func(name string, from, to time.Duration) {
		cells := []string{name}
		for m := range linkNames() {
			var errs []float64
			for _, e := range l.errs {
				if e.method == m && e.at >= max(from, linkWarmup) && e.at < to {
					errs = append(errs, math.Abs(e.err))
				}
			}
			slices.Sort(errs)
			cells = append(cells, fmt.Sprintf("%.0f / %.0f / %.0f", quantile(errs, 0.5), quantile(errs, 0.99), quantile(errs, 1)))
		}
		var middle [2]float64
		for side := range middle {
			var ms []float64
			for _, p := range l.delays[side] {
				if p.X >= from.Seconds() && p.X < to.Seconds() {
					ms = append(ms, p.Y)
				}
			}
			middle[side] = medianOf(ms)
		}
		rows = append(rows, append(cells, fmt.Sprintf("%.3g / %.3g ms", middle[1], middle[0])))
	}
	begin := time.Duration(0)
	for _, p := range linkPhases {
		end := begin + time.Duration(p.share*float64(l.until))
		row(p.name, begin, end)
		begin = end
	}
	row("all of it", 0, l.until+time.Second)
	return rows
}

// draw draws the errors at end A, and the delays.
func (l *link) draw(path string) error {
	seconds := l.until.Seconds()
	var curves []curve
	for m := range linkNames() {
		column := len(methods)
		if m < len(linkMethods) {
			column = linkMethods[m]
		}
		worst := slices.Repeat([]float64{math.NaN()}, int(seconds)+1)
		for _, e := range l.errs {
			if i := int(e.at / time.Second); e.method == m && e.side == sim.A && i < len(worst) && !(worst[i] >= math.Abs(e.err)) {
				worst[i] = math.Abs(e.err)
			}
		}
		curves = append(curves, curveOf(column, parts(worst)...))
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
		{name: "to B", color: methods[original].color, parts: []plotter.XYs{l.delays[sim.B]}},
		{name: "to A", color: methods[ours].color, parts: []plotter.XYs{l.delays[sim.A]}},
	})
	if err != nil {
		return err
	}
	return save(path, 1.5*plotHeight, []*plot.Plot{top, bottom}, []plot.Legend{upper, lower})
}
