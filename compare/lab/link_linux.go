// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"gonum.org/v1/plot/plotter"

	"timesync/clock"
	"timesync/compare/play"
	"timesync/internal/sim"
	"timesync/rxtime"
)

// The real link: two hosts and a router in network namespaces, which queue.sh sets up. Both ends are in
// this process, so the machine's own clock tells the truth; end B reads it with a known offset and
// skew. What the ends exchange are real UDP datagrams, beside traffic that fills the real queues of
// the router.

// The addresses that queue.sh gives the hosts.
var linkHosts = [2]netip.Addr{netip.AddrFrom4([4]byte{10, 77, 1, 2}), netip.AddrFrom4([4]byte{10, 77, 2, 2})}

const (
	linkPort   = 7000
	linkWarmup = 5 * time.Second  // the first answers are not counted: chronyd has none earlier
	linkAsk    = time.Second / 10 // how often every method is asked
)

// singles is the kind of traffic that most figures are of.
const singles = 0

// linkTraffics are how a program may send: both kinds cross the same queue at the same time.
var linkTraffics = [...]struct {
	name  string
	every time.Duration
	frame int // datagrams back to back
	size  int // bytes of UDP payload
}{
	singles: {"60 singles", time.Second / 60, 1, 64},
	{"30 frames of 8", time.Second / 30, 8, 200},
}

// linkDatagram is how a datagram begins; its size is that of its traffic.
type linkDatagram struct {
	Run     uint32    // low bits of the start: the router may still hold a run's last datagrams
	Seq     uint32    // index of its row in the trace
	Sent    uint64    // us after the start: what the stamp of each setup is made of
	Reports [8]uint32 // one for each setup, or 0
}

const linkPresent = 1 << 31 // marks a report that is there

// linkRow is a datagram. Times are microseconds after the start.
type linkRow struct {
	sent uint64
	owd  int64 // until the kernel received it, or -1 if it did not arrive
}

// linkEnd is one end of one kind of traffic.
type linkEnd struct {
	side sim.Side
	udp  *net.UDPConn
	ests []sim.Estimator // one for each setup
	due  time.Duration   // the next report
}

// linkError is an answer.
type linkError struct {
	at   time.Duration
	side sim.Side
	err  float64
}

// linkStream is one kind of traffic between both hosts.
type linkStream struct {
	ends   [2]*linkEnd
	oracle play.Oracle  // sees what oursKernel sees
	trace  [2][]linkRow // of what was sent to each end
	errs   map[linkSetup][]linkError
}

// link is one experiment: everything that happens on the link while one kind of load fills it.
type link struct {
	options
	spaces [2]string // the namespaces of both hosts
	load   linkLoad
	start  uint64 // machine time, us
	begun  time.Time

	mu      sync.Mutex
	streams [len(linkTraffics)]*linkStream
	missing map[string]string // programs that were not measured, and why
}

// runLink runs one experiment.
func runLink(load linkLoad, o options) (l *link, err error) {
	l = &link{options: o, load: load, missing: map[string]string{}}
	l.spaces[sim.A], l.spaces[sim.B], _ = strings.Cut(o.link, ",")
	for i := range l.streams {
		l.streams[i] = newLinkStream()
		for side, e := range l.streams[i].ends {
			if e.udp, err = open(l.spaces[side], e.side, linkPort+i); err != nil {
				return nil, err
			}
			defer e.udp.Close()
		}
	}
	filled, stop := context.WithTimeout(context.Background(), load.before+l.lasting)
	defer stop()
	var others sync.WaitGroup
	l.start, l.begun = clock.Now()+uint64(load.before/us), time.Now().Add(load.before)
	for side := range l.spaces {
		others.Go(func() { l.fill(filled, side) })
	}
	time.Sleep(load.before)
	ctx, stop := context.WithTimeout(filled, l.lasting)
	defer stop()
	others.Go(func() { l.runRivals(ctx) })
	for i, s := range l.streams {
		for _, e := range s.ends {
			go l.receive(s, e)
		}
		others.Go(func() { every(ctx, linkTraffics[i].every, func() { l.send(i) }) })
	}
	every(ctx, linkAsk, l.ask)
	others.Wait()
	l.mu.Lock() // readers that still wait for a datagram change nothing any more
	for _, s := range l.streams {
		s.askOracle()
	}
	return l, nil
}

func newLinkStream() *linkStream {
	s := &linkStream{errs: map[linkSetup][]linkError{}}
	for side := range s.ends {
		s.ends[side] = &linkEnd{side: sim.Side(side)}
		for _, setup := range linkSetups {
			s.ends[side].ests = append(s.ends[side].ests, play.MethodNamed(setup.method).Make())
		}
	}
	return s
}

// open opens a port of a host in its namespace.
func open(space string, host sim.Side, port int) (*net.UDPConn, error) {
	return within(space, func() (*net.UDPConn, error) {
		return net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(linkHosts[host], uint16(port))))
	})
}

// every calls do again and again until ctx is over.
func every(ctx context.Context, period time.Duration, do func()) {
	for tick := time.Tick(period); ; do() {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}

// now is the time since the start, us.
func (l *link) now() uint64 { return clock.Now() - l.start }

// send sends a frame of one kind of traffic from both ends.
func (l *link) send(traffic int) {
	s, t := l.streams[traffic], linkTraffics[traffic]
	for _, e := range s.ends {
		peer := netip.AddrPortFrom(linkHosts[1-e.side], uint16(linkPort+traffic))
		for range t.frame {
			l.mu.Lock()
			b := make([]byte, t.size)
			d := linkDatagram{Run: uint32(l.start), Reports: e.reports(l.now())}
			s.stamp(e, l.now(), &d) // as late as possible
			binary.Encode(b, binary.BigEndian, &d)
			e.udp.WriteToUDPAddrPort(b, peer)
			l.mu.Unlock()
		}
	}
}

// stamp says in a datagram when it is sent.
func (s *linkStream) stamp(e *linkEnd, sent uint64, d *linkDatagram) {
	trace := &s.trace[1-e.side]
	d.Seq, d.Sent = uint32(len(*trace)), sent
	*trace = append(*trace, linkRow{sent, -1})
}

// reports returns the reports if they are due: every half second at first, later every 2 s.
func (e *linkEnd) reports(now uint64) (all [8]uint32) {
	at := time.Duration(now) * us
	if at < e.due {
		return all
	}
	for i, est := range e.ests {
		if delta, ok := est.MinDelta(linkClock(e.side, now, linkSetups[i].skew)); ok {
			all[i] = delta | linkPresent
			e.due = at + sim.ReportEvery(at)
		}
	}
	return all
}

// receive takes what arrives at an end until its socket is closed.
func (l *link) receive(s *linkStream, e *linkEnd) {
	conn := rxtime.NewConn(e.udp)
	var b [2048]byte
	for {
		n, _, kernel, err := conn.ReadFrom(b[:])
		if err != nil {
			return
		}
		after := l.now()
		var d linkDatagram
		if _, err := binary.Decode(b[:n], binary.BigEndian, &d); err != nil || d.Run != uint32(l.start) {
			continue
		}
		l.mu.Lock()
		s.take(e, &d, kernel-l.start, after)
		l.mu.Unlock()
	}
}

// take takes a datagram.
func (s *linkStream) take(e *linkEnd, d *linkDatagram, kernel, after uint64) {
	hear := func(est sim.Estimator, setup linkSetup) (local uint64) {
		at := after
		if setup.kernel {
			at = kernel
		}
		local = linkClock(e.side, at, setup.skew)
		est.OnDatagram(sim.Stamp(linkClock(1-e.side, d.Sent, setup.skew)), local)
		return local
	}
	for i, est := range e.ests {
		if local := hear(est, linkSetups[i]); d.Reports[i] != 0 {
			est.OnPeerMinDelta(d.Reports[i]&^linkPresent, local)
		}
	}
	row := &s.trace[e.side][d.Seq]
	row.owd = max(int64(kernel-d.Sent), 0)
	hear(&s.oracle.Ends[e.side], oracleSees)
	s.oracle.Heard(&sim.Observation{Side: e.side, At: time.Duration(kernel) * us, ErrUsec: -float64(row.owd)})
}

// ask asks every method at both ends of all kinds of traffic.
func (l *link) ask() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.streams {
		s.ask(s.ends[sim.A], l.now())
		s.ask(s.ends[sim.B], l.now())
	}
}

// ask asks every method at an end.
func (s *linkStream) ask(e *linkEnd, now uint64) {
	at := time.Duration(now) * us
	for i, est := range e.ests {
		setup := linkSetups[i]
		if err, ok := setup.answer(est, e.side, now); ok {
			s.errs[setup] = append(s.errs[setup], linkError{at, e.side, err})
		}
	}
	oracleSees.answer(&s.oracle.Ends[e.side], e.side, now)
	s.oracle.Asked(&sim.Observation{Side: e.side, At: at, LocalUsec: linkClock(e.side, now, linkSkew)})
}

// askOracle adds what the oracle says when all is over.
func (s *linkStream) askOracle() {
	s.oracle.Answer(play.Events{}, linkWarmup, func(o *sim.Observation) {
		if o.OK {
			s.errs[oracleSees] = append(s.errs[oracleSees], linkError{o.At, o.Side, o.ErrUsec})
		}
	})
}

// delays returns how long what was sent to an end was under way: seconds, ms.
func (s *linkStream) delays(side sim.Side) (xy plotter.XYs) {
	for _, r := range s.trace[side] {
		if r.owd >= 0 {
			xy = append(xy, plotter.XY{X: float64(r.sent) / 1e6, Y: float64(r.owd) / 1e3})
		}
	}
	return xy
}

// absolute returns the sizes of a setup's errors in a span after the warm-up.
func (s *linkStream) absolute(setup linkSetup, from, to time.Duration) (errs []float64) {
	for _, e := range s.errs[setup] {
		if e.at >= max(from, linkWarmup) && e.at < to {
			errs = append(errs, math.Abs(e.err))
		}
	}
	return errs
}

// linkSetup is a method with the times that it is given.
type linkSetup struct {
	name   string  // what its figures are of
	method string  // a column; "" is a program beside
	kernel bool    // receive times are the kernel's; else those after the read
	skew   float64 // of B's clock
}

const linkSkew = 60e-6 // by how much B's clock may be fast

// The setups that tables and pictures speak of.
var (
	oursKernel     = linkSetup{play.Ours + ", kernel", play.Ours, true, linkSkew}
	originalKernel = linkSetup{play.Original + ", kernel", play.Original, true, linkSkew}
	oracleSees     = linkSetup{play.OracleName, play.OracleName, true, linkSkew} // what oursKernel sees
)

// linkSetups are all compared on the same datagrams.
var linkSetups = []linkSetup{
	oursKernel, {play.Ours + ", after the read", play.Ours, false, linkSkew},
	originalKernel, {play.Original + ", after the read", play.Original, false, linkSkew},
	{oursKernel.name, play.Ours, true, 0}, {play.Ours + ", after the read", play.Ours, false, 0},
	{originalKernel.name, play.Original, true, 0}, {play.Original + ", after the read", play.Original, false, 0},
}

// linkClock returns what the clock of an end reads at usec after the start.
func linkClock(side sim.Side, usec uint64, skew float64) uint64 {
	if side == sim.A {
		return usec
	}
	const ahead = 1_234_567_890 // us
	return usec + ahead + uint64(float64(usec)*skew)
}

// answer asks an estimator at usec after the start and returns its error.
func (s linkSetup) answer(est sim.Estimator, side sim.Side, usec uint64) (err float64, ok bool) {
	local, truth := linkClock(side, usec, s.skew), linkClock(1-side, usec, s.skew)
	got, ok := est.RemoteTime(local, truth)
	return float64(int64(got - truth)), ok
}

const (
	linkRate  = 10e6 // bits a second of the router, as in queue.sh
	linkFlows = 4    // TCP connections that fill a direction: one alone leaves it empty at times
	crossPort = 7100
)

// linkLoad is what else crosses the link: TCP by phases, or random UDP traffic.
type linkLoad struct {
	name   string        // of files
	what   string        // for readers
	share  float64       // of the rate, each way: of random traffic
	before time.Duration // for how long it has filled the link when the hosts begin to exchange datagrams
	phases []linkPhase
}

// linkPhase is a part of the run.
type linkPhase struct {
	name     string
	from, to float64 // shares of it
	fill     [2]bool // TCP from A to B, from B to A
}

// linkLoads are the experiments.
var linkLoads = []linkLoad{
	{name: "tcp", what: "TCP", phases: []linkPhase{
		{"nothing else", 0, 0.15, [2]bool{}},
		{"TCP from A to B", 0.15, 0.40, [2]bool{true, false}},
		{"TCP from B to A", 0.40, 0.65, [2]bool{false, true}},
		{"TCP both ways", 0.65, 0.90, [2]bool{true, true}},
		{"nothing else again", 0.90, 1, [2]bool{}},
	}},
	{name: "cross60", what: "cross traffic of 60 %", share: 0.6},
	{name: "cross80", what: "cross traffic of 80 %", share: 0.8},
	{name: "cross90", what: "cross traffic of 90 %", share: 0.9},
	{name: "cross90-busy", what: "cross traffic of 90 %, begun later", share: 0.9, before: 10 * time.Second},
}

// within runs do in a network namespace. Sockets stay where they were made, and so do
// processes. The thread that was moved there ends with its goroutine, since it is not unlocked.
func within[T any](namespace string, do func() (T, error)) (made T, err error) {
	var moved sync.WaitGroup
	moved.Go(func() {
		runtime.LockOSThread()
		var there *os.File
		if there, err = os.Open("/run/netns/" + namespace); err != nil {
			return
		}
		defer there.Close()
		if err = unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err == nil {
			made, err = do()
		}
	})
	moved.Wait()
	return made, err
}

// after is the time after a share of the run.
func (l *link) after(share float64) time.Duration { return time.Duration(share * float64(l.lasting)) }

// fill fills the link from one side until ctx is over: with random traffic, or with TCP whenever the
// phases say so.
func (l *link) fill(ctx context.Context, side int) {
	var err error
	if l.load.share > 0 {
		err = l.cross(ctx, side)
	}
	for _, p := range l.load.phases {
		if !p.fill[side] {
			continue
		}
		time.Sleep(l.after(p.from) - time.Since(l.begun))
		var flows errgroup.Group
		for range linkFlows {
			flows.Go(func() error { return l.flow(side, l.after(p.to)-l.after(p.from)) })
		}
		err = errors.Join(err, flows.Wait())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab: load:", err)
	}
}

// flow is one TCP connection from one host to the other that sends as much as it can.
func (l *link) flow(side int, lasting time.Duration) error {
	deadline := time.Now().Add(lasting)
	listener, err := within(l.spaces[1-side], func() (net.Listener, error) {
		return net.Listen("tcp4", netip.AddrPortFrom(linkHosts[1-side], 0).String())
	})
	if err != nil {
		return err
	}
	defer listener.Close()
	go func() {
		if in, err := listener.Accept(); err == nil {
			io.Copy(io.Discard, in)
			in.Close()
		}
	}()
	conn, err := within(l.spaces[side], func() (net.Conn, error) {
		return net.DialTimeout("tcp4", listener.Addr().String(), lasting)
	})
	if err != nil {
		return err
	}
	defer conn.Close()
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

// cross sends bursts of packets at random moments: those of a Poisson process. A burst has
// 1 to 20 packets of 1,200 bytes.
func (l *link) cross(ctx context.Context, side int) error {
	const payload, header, longest = 1200, 14 + 20 + 8, 20       // Ethernet, IPv4, UDP
	conn, err := open(l.spaces[side], sim.Side(side), crossPort) // nobody reads it: what it has no room for is dropped
	if err != nil {
		return err
	}
	defer conn.Close()
	random := rand.New(rand.NewPCG(l.seed, uint64(side)))
	bits := float64(longest+1) / 2 * (payload + header) * 8
	gap := bits / (l.load.share * linkRate) * float64(time.Second)
	b := make([]byte, payload)
	peer := netip.AddrPortFrom(linkHosts[1-side], crossPort)
	for next := time.Now(); ctx.Err() == nil; {
		next = next.Add(time.Duration(random.ExpFloat64() * gap))
		time.Sleep(time.Until(next))
		for range 1 + random.IntN(longest) {
			conn.WriteToUDPAddrPort(b, peer)
		}
	}
	return nil
}
