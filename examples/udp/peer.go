package main

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"timesync"
	"timesync/rxtime"
)

// clock is the clock of one peer. What it reads is a function of true time, so in
// one process the truth about two of them is known.
type clock struct {
	start uint64  // reading at true time 0, microseconds
	skew  float64 // how much faster than true time it runs: 50e-6 is 50 ppm
}

// at returns the reading at true time t.
func (c clock) at(t time.Duration) uint64 {
	return c.start + uint64((t+time.Duration(float64(t)*c.skew))/time.Microsecond)
}

// rider is what travels in the datagrams besides the stamps: the demo's payload and
// its judge, or nothing. sent and recv are true times.
type rider interface {
	payload(sent time.Duration) []byte
	sealed(datagram, payload int)
	delivered(payload []byte, recv, owd time.Duration, synced bool)
}

// peer is one end: a socket, a clock, and the hook between them.
type peer struct {
	*Hook
	conn  *net.UDPConn
	rx    *rxtime.Conn // reads conn; from start on
	clock clock
	epoch time.Time // true time 0
	rider rider

	// listens is true for an end that learns where its peer is from authentic
	// datagrams, and so follows one that moves or restarts on another port.
	listens bool
	remote  atomic.Pointer[netip.AddrPort] // nil while a listener knows nobody

	silent atomic.Bool // neither sends nor hears, as one that lost its network
	stop   chan struct{}
	tasks  sync.WaitGroup

	mu     sync.Mutex
	opened map[error]int // by the error of Open; nil for those it took
}

// start sends rate datagrams a second and receives until close.
func (p *peer) start(rate float64) {
	p.stop, p.opened = make(chan struct{}), map[error]int{}
	p.rx = rxtime.NewConn(p.conn)
	p.tasks.Go(p.receive)
	p.tasks.Go(func() {
		tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
		defer tick.Stop()
		for {
			if remote := p.remote.Load(); remote != nil && !p.silent.Load() {
				p.send(*remote)
			}
			select {
			case <-tick.C:
			case <-p.stop:
				return
			}
		}
	})
}

// hush ends the sending; what is under way still arrives.
func (p *peer) hush() {
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
}

// close ends both directions and waits for that.
func (p *peer) close() {
	p.hush()
	p.conn.Close()
	p.tasks.Wait()
}

// send may be called by both the sending and the receiving goroutine.
func (p *peer) send(to netip.AddrPort) {
	sent := time.Since(p.epoch)
	payload := p.rider.payload(sent)
	datagram := p.Seal(nil, payload, p.clock.at(sent))
	p.rider.sealed(len(datagram), len(payload))
	// An error is a loss like any other; the next datagram may fare better.
	_, _ = p.conn.WriteToUDPAddrPort(datagram, to)
}

func (p *peer) receive() {
	buf := make([]byte, 2048)
	for {
		n, from, recvUsec, err := p.rx.ReadFrom(buf)
		waited := time.Duration(timesync.NowUsec()-recvUsec) * time.Microsecond
		recv := time.Since(p.epoch) - waited
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond) // Windows reports here that the peer's port is closed
			continue
		}
		if p.silent.Load() {
			continue
		}
		payload, owd, synced, err := p.Open(buf[:n], p.clock.at(recv))
		p.mu.Lock()
		p.opened[err]++
		p.mu.Unlock()
		switch {
		case err == nil:
			if p.listens {
				p.remote.Store(&from)
			}
			p.rider.delivered(payload, recv, owd, synced)
		case err == ErrUnproven && p.listens:
			// A peer that has restarted elsewhere must hear our challenge to prove itself.
			// One answer for one datagram of the same size: there is nothing to amplify.
			p.send(from)
		}
	}
}

// receiveTimes says where the receive times come from.
func (p *peer) receiveTimes() string {
	if p.rx.Kernel() {
		return "receive times are the kernel's"
	}
	return "receive times are read after the datagram: the kernel gives none here"
}

// count returns how many datagrams met that error; nil: were taken.
func (p *peer) count(kind error) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened[kind]
}

// minDelay is MinimumOneWayDelay for the eye.
func (p *peer) minDelay() string {
	if delay, ok := p.Sync.MinimumOneWayDelay(); ok {
		return millis(delay)
	}
	return "-"
}
