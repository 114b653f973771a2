// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"gonum.org/v1/plot/plotter"

	"timesync/clock"
	"timesync/clock/rxtime"
	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
	"timesync/lab/play"
	"timesync/lab/results"
)

// The real link: two hosts and a router in network namespaces, which queue.sh sets up. Both ends
// are in this process, so the machine's own clock tells the truth; end B reads it with a known
// offset and skew. What the ends exchange are real UDP datagrams, beside traffic that fills the
// real queues of the router. All methods are given the times of these datagrams, when they are
// all recorded.

// The addresses that queue.sh gives the hosts.
var linkHosts = [2]netip.Addr{netip.AddrFrom4([4]byte{10, 77, 1, 2}),
	netip.AddrFrom4([4]byte{10, 77, 2, 2})}

const (
	linkPort   = 7000
	linkWarmup = 5 * time.Second  // answers count from then on: chronyd has none earlier
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

// The times of receipt that methods are given. Figures are of the kernel's if nothing else is
// said.
const (
	kernel    = 0
	afterRead = ", after the read"
)

// linkTimes are what is said.
var linkTimes = [...]string{kernel: "", afterRead}

// linkSkew is by how many ppm B's clock is fast, or not at all.
const linkSkew = 60

// linkStream is one kind of traffic between both hosts.
type linkStream struct {
	ends    [2]*net.UDPConn
	trace   [2][]linkSample          // what was sent to each end
	answers map[float64]play.Answers // by the skew
}

// linkSample is a datagram: when it was sent, and how long it was under way, by the time of
// receipt.
type linkSample struct {
	sent  time.Duration
	under [len(linkTimes)]time.Duration
}

// link is one experiment: everything that happens on the link while one kind of load fills it.
type link struct {
	options
	spaces [2]string // the namespaces of both hosts
	load   linkLoad
	start  uint64 // machine time, us

	mu       sync.Mutex
	streams  [len(linkTraffics)]linkStream
	programs play.Answers      // of those beside
	missing  map[string]string // programs that were not measured
}

// runLink runs one experiment.
func runLink(load linkLoad, o options) *link {
	l := &link{options: o, load: load, programs: play.Answers{}, missing: map[string]string{}}
	l.spaces[sim.A], l.spaces[sim.B], _ = strings.Cut(o.where, ",")
	for i := range l.streams {
		for side := range l.spaces {
			udp := open(l.spaces[side], side, linkPort+i)
			defer udp.Close()
			l.streams[i].ends[side] = udp
		}
	}
	l.start = clock.Now() + uint64(load.before/us)
	ctx, stop := context.WithTimeout(context.Background(), load.before+l.lasting)
	defer stop()
	var all sync.WaitGroup
	for side := range l.spaces {
		all.Go(func() { l.fill(ctx, side) })
	}
	time.Sleep(load.before)
	for _, p := range rivalPrograms {
		said := new([2][]play.Answer)
		l.programs[p.name] = said
		all.Go(func() { l.runRival(ctx, p, &said[sim.A]) })
	}
	for i := range l.streams {
		go l.receive(i, sim.A)
		go l.receive(i, sim.B)
		all.Go(func() { every(ctx, linkTraffics[i].every, func() { l.send(i) }) })
	}
	all.Wait()
	l.mu.Lock() // readers that still wait for a datagram change nothing any more
	for i := range l.streams {
		l.streams[i].judge(l.programs, l.lasting)
	}
	return l
}

// open opens a port of a host in its namespace.
func open(space string, host, port int) *net.UDPConn {
	return within(space, func() (*net.UDPConn, error) {
		return net.ListenUDP("udp4",
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(linkHosts[host], uint16(port))))
	})
}

// every calls do again and again until ctx is over.
func every(ctx context.Context, period time.Duration, do func()) {
	for range time.Tick(period) {
		if ctx.Err() != nil {
			return
		}
		do()
	}
}

// since is how long after the start a time of package clock is.
func (l *link) since(usec uint64) time.Duration { return time.Duration(usec-l.start) * us }

// send sends a frame of one kind of traffic from both ends. A datagram begins with the low bits
// of the start, since the router may still hold the last datagrams of a run before, and with its
// index in the trace.
func (l *link) send(traffic int) {
	s, t := &l.streams[traffic], linkTraffics[traffic]
	for side, udp := range s.ends {
		peer := netip.AddrPortFrom(linkHosts[1-side], uint16(linkPort+traffic))
		for range t.frame {
			l.mu.Lock()
			b := binary.BigEndian.AppendUint32(nil, uint32(l.start))
			b = binary.BigEndian.AppendUint32(b, uint32(len(s.trace[1-side])))
			sent := l.since(clock.Now()) // as late as possible
			s.trace[1-side] = append(s.trace[1-side],
				linkSample{sent, [...]time.Duration{simnet.Lost, simnet.Lost}})
			udp.WriteToUDPAddrPort(append(b, make([]byte, t.size-len(b))...), peer)
			l.mu.Unlock()
		}
	}
}

// receive takes what arrives at an end until its socket is closed.
func (l *link) receive(traffic int, side sim.Side) {
	s := &l.streams[traffic]
	conn := rxtime.NewConn(s.ends[side])
	var b [2048]byte
	for {
		n, _, received, err := conn.ReadFrom(b[:])
		if err != nil {
			return
		}
		read := clock.Now()
		if n < 8 || binary.BigEndian.Uint32(b[:]) != uint32(l.start) {
			continue
		}
		l.mu.Lock()
		x := &s.trace[side][binary.BigEndian.Uint32(b[4:])]
		for times, at := range [...]uint64{kernel: received, read} {
			x.under[times] = max(l.since(at)-x.sent, 0)
		}
		l.mu.Unlock()
	}
}

// judge plays what was recorded to the methods, with each time of receipt, between clocks that are
// linkSkew apart and between others that are not. Beside them are the answers of the programs.
func (s *linkStream) judge(programs play.Answers, lasting time.Duration) {
	s.answers = map[float64]play.Answers{}
	for _, skew := range []float64{0, linkSkew} {
		s.answers[skew] = maps.Clone(programs)
		for times, name := range linkTimes {
			for column, answers := range play.Play(s.world(times, skew, lasting), play.FirstSeed) {
				s.answers[skew][column+name] = answers
			}
		}
	}
}

// world is what was recorded, with one of the times of receipt.
func (s *linkStream) world(times int, skew float64, lasting time.Duration) play.World {
	const ahead = 1_234_567_890 // us
	sc := sim.Scenario{Duration: lasting, Warmup: linkWarmup,
		A: func(uint64) simnet.ClockSpec { return simnet.ClockSpec{} },
		B: func(uint64) simnet.ClockSpec { return simnet.ClockSpec{OffsetUsec: ahead, SkewPPM: skew} },
	}
	to := func(side sim.Side) (link func(uint64) *simnet.Link, sent []time.Duration) {
		var series []simnet.Sample
		for _, x := range s.trace[side] {
			sent = append(sent, x.sent)
			series = append(series, simnet.Sample{At: x.sent, Delay: x.under[times]})
		}
		return func(uint64) *simnet.Link { return &simnet.Link{Delay: simnet.Recorded(series)} }, sent
	}
	sc.AB, sc.SendAB = to(sim.B)
	sc.BA, sc.SendBA = to(sim.A)
	return play.SimWorld(sc, "", 1)
}

// delays returns how long what was sent to an end was under way: seconds, ms.
func (s *linkStream) delays(side sim.Side) (xy plotter.XYs) {
	for _, x := range s.trace[side] {
		if delay := x.under[kernel]; delay != simnet.Lost {
			xy = append(xy, plotter.XY{X: x.sent.Seconds(), Y: results.Millis(delay)})
		}
	}
	return xy
}

// absolute returns the sizes of a column's errors in a span after the warm-up.
func (s *linkStream) absolute(
	column string, skew float64, from, to time.Duration,
) (errs []float64) {
	for _, a := range slices.Concat(s.answers[skew][column][:]...) {
		if a.At >= max(from, linkWarmup) && a.At < to && !math.IsInf(a.Err, 1) {
			errs = append(errs, a.Err)
		}
	}
	return errs
}

const (
	linkRate  = 10e6 // bits a second of the router, as in queue.sh
	linkFlows = 4    // TCP connections that fill a direction: one leaves it empty at times
	crossPort = 7100
)

// linkLoad is what else crosses the link: TCP by phases, or random UDP traffic.
type linkLoad struct {
	name  string  // of files
	what  string  // for readers
	share float64 // of the rate, each way: of random traffic
	// for how long it has filled the link when the hosts begin to exchange datagrams
	before time.Duration
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
		{"all of it", 0, 1, [2]bool{}},
	}},
	{name: "cross60", what: "cross traffic of 60 %", share: 0.6},
	{name: "cross80", what: "cross traffic of 80 %", share: 0.8},
	{name: "cross90", what: "cross traffic of 90 %", share: 0.9},
	{
		name:   "cross90-busy",
		what:   "cross traffic of 90 %, begun 10 s later",
		share:  0.9,
		before: 10 * time.Second,
	},
}

// within runs do in a network namespace. Sockets stay where they were made. The
// thread that was moved there ends with its goroutine, since it is not unlocked.
func within[T any](namespace string, do func() (T, error)) (made T) {
	var moved sync.WaitGroup
	moved.Go(func() {
		runtime.LockOSThread()
		there := must(os.Open("/run/netns/" + namespace))
		defer there.Close()
		check(unix.Setns(int(there.Fd()), unix.CLONE_NEWNET))
		made = must(do())
	})
	moved.Wait()
	return made
}

// after is the time after a share of the run.
func (l *link) after(share float64) time.Duration {
	return time.Duration(share * float64(l.lasting))
}

// fill fills the link from one side until ctx is over: with random traffic, or with TCP whenever
// the phases say so.
func (l *link) fill(ctx context.Context, side int) {
	if l.load.share > 0 {
		l.cross(ctx, side)
	}
	for _, p := range l.load.phases {
		if !p.fill[side] {
			continue
		}
		time.Sleep(l.after(p.from) - l.since(clock.Now()))
		var flows sync.WaitGroup
		for range linkFlows {
			flows.Go(func() { l.flow(side, l.after(p.to)-l.after(p.from)) })
		}
		flows.Wait()
	}
}

// flow is one TCP connection from one host to the other that sends as much as it can.
func (l *link) flow(side int, lasting time.Duration) {
	deadline := time.Now().Add(lasting)
	listener := within(l.spaces[1-side], func() (net.Listener, error) {
		return net.Listen("tcp4", netip.AddrPortFrom(linkHosts[1-side], 0).String())
	})
	defer listener.Close()
	go func() {
		if in, err := listener.Accept(); err == nil {
			io.Copy(io.Discard, in)
			in.Close()
		}
	}()
	conn := within(l.spaces[side], func() (net.Conn, error) {
		return net.DialTimeout("tcp4", listener.Addr().String(), lasting)
	})
	defer conn.Close()
	conn.(*net.TCPConn).SetLinger(0) // what waits in the queue is not wanted any more
	conn.SetDeadline(deadline)
	var err error
	for chunk := make([]byte, 1<<16); err == nil; {
		_, err = conn.Write(chunk)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		check(err)
	}
}

// cross sends bursts of packets at random moments: those of a Poisson process. A burst has
// 1 to 20 packets of 1,200 bytes.
func (l *link) cross(ctx context.Context, side int) {
	const payload, header, longest = 1200, 14 + 20 + 8, 20 // Ethernet, IPv4, UDP
	// nobody reads it: what it has no room for is dropped
	conn := open(l.spaces[side], side, crossPort)
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
}
