// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"encoding/binary"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

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
	linkWarmup = 5 * time.Second // the first answers are not counted: chronyd has none earlier
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
	Sent    uint64    // us after the start: for the oracle and the trace
	Stamps  [2]uint32 // one for each of linkSkews
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
	side  sim.Side
	udp   *net.UDPConn
	peer  netip.AddrPort
	ests  []sim.Estimator // one for each setup
	due   time.Duration   // the next report
	heard bool
}

// linkStream is one kind of traffic between both hosts.
type linkStream struct {
	ends   [2]*linkEnd
	oracle play.Oracle  // sees what oursKernel sees
	trace  [2][]linkRow // of what was sent to each end
	errs   []linkError
}

// link is one experiment: everything that happens on the link while one kind of load fills it.
type link struct {
	options
	spaces [2]string // the namespaces of both hosts
	load   linkLoad
	start  uint64 // machine time, us
	begun  time.Time

	mu      sync.Mutex
	streams [len(linkTraffics)]linkStream
	rivals  []rivalRun
}

// runLink runs one experiment.
func runLink(load linkLoad, o options) (l *link, err error) {
	l = &link{options: o, load: load}
	l.spaces[sim.A], l.spaces[sim.B], _ = strings.Cut(o.link, ",")
	for i := range l.streams {
		for side := range l.streams[i].ends {
			e, port := newLinkEnd(sim.Side(side)), uint16(linkPort+i)
			e.peer = netip.AddrPortFrom(linkHosts[1-side], port)
			if e.udp, err = open(l.spaces[side], e.side, port); err != nil {
				return nil, err
			}
			defer e.udp.Close()
			l.streams[i].ends[side] = e
		}
	}
	filled, stop := context.WithTimeout(context.Background(), load.before+l.lasting)
	defer stop()
	var others sync.WaitGroup
	l.start, l.begun = clock.Now()+uint64(load.before/time.Microsecond), time.Now().Add(load.before)
	for side := range l.spaces {
		others.Go(func() { l.fill(filled, side) })
	}
	time.Sleep(load.before)
	ctx, stop := context.WithTimeout(filled, l.lasting)
	defer stop()
	others.Go(func() { l.runRivals(ctx) })
	for i := range l.streams {
		for _, e := range l.streams[i].ends {
			go l.receive(&l.streams[i], e)
		}
		others.Go(func() { every(ctx, linkTraffics[i].every, func() { l.sendAll(i) }) })
	}
	every(ctx, linkAsk, l.askAll)
	others.Wait()
	l.mu.Lock() // readers that still wait for a datagram change nothing any more
	for i := range l.streams {
		l.streams[i].askOracle()
	}
	return l, nil
}

func newLinkEnd(side sim.Side) *linkEnd {
	e := &linkEnd{side: side}
	for _, s := range linkSetups {
		e.ests = append(e.ests, play.MethodNamed(s.Method).Make())
	}
	return e
}

// open opens a port of a host in its namespace.
func open(space string, host sim.Side, port uint16) (udp *net.UDPConn, err error) {
	err = within(space, func() (err error) {
		udp, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(linkHosts[host], port)))
		return err
	})
	return udp, err
}

// every calls do again and again until ctx is over.
func every(ctx context.Context, period time.Duration, do func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// sendAll sends a frame of one kind of traffic from both ends.
func (l *link) sendAll(traffic int) {
	for _, e := range l.streams[traffic].ends {
		for range linkTraffics[traffic].frame {
			l.send(traffic, e)
		}
	}
}

// askAll asks every method.
func (l *link) askAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.streams {
		for _, e := range l.streams[i].ends {
			l.streams[i].ask(e, l.now())
		}
	}
}

// now is the time since the start, us.
func (l *link) now() uint64 { return clock.Now() - l.start }

// send sends a datagram with both stamps, and every half second at first, later every 2 s,
// with the reports.
func (l *link) send(traffic int, e *linkEnd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := make([]byte, linkTraffics[traffic].size)
	d := linkDatagram{Run: uint32(l.start), Reports: e.reports(l.now())}
	l.streams[traffic].stamp(e, l.now(), &d) // as late as possible
	binary.Encode(b, binary.BigEndian, &d)
	e.udp.WriteToUDPAddrPort(b, e.peer)
}

// stamp says in a datagram when it is sent.
func (s *linkStream) stamp(e *linkEnd, sent uint64, d *linkDatagram) {
	trace := &s.trace[1-e.side]
	d.Seq, d.Sent = uint32(len(*trace)), sent
	for i, skew := range linkSkews {
		d.Stamps[i] = sim.Stamp(linkClock(e.side, sent, skew))
	}
	*trace = append(*trace, linkRow{sent, -1})
}

// reports returns the reports if they are due.
func (e *linkEnd) reports(now uint64) (all [8]uint32) {
	at := time.Duration(now) * time.Microsecond
	if !e.heard || at < e.due {
		return all
	}
	e.due = at + sim.ReportEvery(at)
	for i, est := range e.ests {
		if delta, ok := est.MinDelta(linkClock(e.side, now, linkSetups[i].skew)); ok {
			all[i] = delta | linkPresent
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
	e.heard = true
	for i, est := range e.ests {
		setup, at := linkSetups[i], after
		if setup.kernel {
			at = kernel
		}
		local := linkClock(e.side, at, setup.skew)
		est.OnDatagram(d.Stamps[slices.Index(linkSkews[:], setup.skew)], local)
		if d.Reports[i] != 0 {
			est.OnPeerMinDelta(d.Reports[i]&^linkPresent, local)
		}
	}
	row := &s.trace[e.side][d.Seq]
	row.owd = max(int64(kernel-d.Sent), 0)
	o := sim.Observation{Side: e.side, At: time.Duration(kernel) * time.Microsecond, ErrUsec: -float64(row.owd)}
	s.oracle.Ends[e.side].OnDatagram(d.Stamps[0], linkClock(e.side, kernel, linkSkews[0]))
	s.oracle.Heard(&o)
}

// ask asks every method at an end.
func (s *linkStream) ask(e *linkEnd, now uint64) {
	at := time.Duration(now) * time.Microsecond
	for i, est := range e.ests {
		setup := linkSetups[i]
		if err, ok := setup.answer(est, e.side, now); ok {
			s.errs = append(s.errs, linkError{at, e.side, setup, err})
		}
	}
	oracleSees.answer(&s.oracle.Ends[e.side], e.side, now)
	s.oracle.Asked(&sim.Observation{Side: e.side, At: at, LocalUsec: linkClock(e.side, now, linkSkew)})
}

// askOracle adds what the oracle says when all is over.
func (s *linkStream) askOracle() {
	s.oracle.Answer(0, play.Events{}, linkWarmup, func(o *sim.Observation) {
		if o.OK {
			s.errs = append(s.errs, linkError{o.At, o.Side, oracleSees, o.ErrUsec})
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
func absolute(all []linkError, setup linkSetup, from, to time.Duration) (errs []float64) {
	for _, e := range all {
		if e.setup == setup && e.at >= max(from, linkWarmup) && e.at < to {
			errs = append(errs, math.Abs(e.err))
		}
	}
	return errs
}

// linkAsk is how often every method is asked.
const linkAsk = time.Second / 10

// linkError is an answer.
type linkError struct {
	at    time.Duration
	side  sim.Side
	setup linkSetup
	err   float64
}

// linkSetup is a method with the times that it is given.
type linkSetup struct {
	Method string  // a column, or a program beside
	kernel bool    // receive times are the kernel's; else those after the read
	skew   float64 // of B's clock
}

// The setups that tables and pictures speak of.
var (
	oursKernel     = linkSetup{play.Ours, true, linkSkew}
	oursRead       = linkSetup{play.Ours, false, linkSkew}
	originalKernel = linkSetup{play.Original, true, linkSkew}
	oracleSees     = linkSetup{play.OracleName, true, linkSkew} // what oursKernel sees
)

const linkSkew = 60e-6

// linkSkews are by how much B's clock may be fast.
var linkSkews = [...]float64{linkSkew, 0}

// linkSetups are all compared on the same datagrams.
var linkSetups = []linkSetup{
	oursKernel, oursRead, originalKernel, {play.Original, false, linkSkew},
	{play.Ours, true, 0}, {play.Ours, false, 0}, {play.Original, true, 0}, {play.Original, false, 0},
}

// name says what the figures of a setup are of.
func (s linkSetup) name() string {
	switch {
	case s == oracleSees:
		return s.Method
	case s.kernel:
		return s.Method + ", kernel"
	}
	return s.Method + ", after the read"
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
