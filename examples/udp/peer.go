// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"net"
	"net/netip"
	"sync"
	"time"

	"timesync/examples/internal/program"
	"timesync/examples/seal"
	"timesync/rxtime"
)

const (
	usualRate = 60 // datagrams a second, each way: those of a game

	// quiet is how long nothing must come before a peer is said to be gone. By then a listener
	// serves another. Far longer than a gap of a network that works.
	quiet = 3 * time.Second
)

// peer is one end: a socket, a clock, and the seal, which has the link.
type peer struct {
	end   *seal.End
	conn  *net.UDPConn
	rx    *rxtime.Conn // reads conn; from start on
	clock program.Clock
	// Where to send; not valid: it listens, and sends to who calls.
	dial netip.AddrPort
	// Nil between two machines: then the datagrams carry stamps only.
	judge *judge
	begun time.Duration // true time of start

	stop  chan struct{}
	tasks sync.WaitGroup

	mu sync.Mutex
	// By the error of Open; nil for those it took.
	opened map[error]tally
	sent   int
}

// tally is how many datagrams there were of a kind.
type tally struct {
	n    int
	last time.Duration // true time of the last
}

// start sends rate datagrams a second and receives.
func (p *peer) start(rate float64) {
	p.stop, p.opened, p.begun = make(chan struct{}), map[error]tally{}, program.True()
	p.rx = rxtime.NewConn(p.conn)
	p.tasks.Go(func() { p.end.Serve(program.Reader{Conn: p.rx, Reads: p.clock.Reads}, p.conn, quiet, p.take) })
	p.tasks.Go(func() { program.Every(p.stop, time.Duration(float64(time.Second)/rate), p.send) })
}

// close ends the receiving. To close stop ends the sending; what is under way still arrives.
func (p *peer) close() {
	p.conn.Close()
	p.tasks.Wait()
}

func (p *peer) to() netip.AddrPort { return cmp.Or(p.dial, p.end.Peer().Addr) }

// send sends a datagram, if there is somebody to send to.
func (p *peer) send() {
	to := p.to()
	if !to.IsValid() {
		return
	}
	sent := program.True()
	var payload []byte
	if p.judge != nil {
		payload = p.judge.payload(sent)
	}
	datagram := p.end.Seal(nil, payload, p.clock.At(sent.Microseconds()))
	p.mu.Lock()
	p.sent++
	p.mu.Unlock()
	// An error is a loss like any other; the next datagram may fare better.
	_, _ = p.conn.WriteToUDPAddrPort(datagram, to)
}

// take takes a datagram, or hears why it was refused.
func (p *peer) take(d seal.Datagram, err error) {
	recv := time.Duration(p.clock.True(d.RecvUsec)) * time.Microsecond
	p.mu.Lock()
	p.opened[err] = tally{p.opened[err].n + 1, recv}
	p.mu.Unlock()
	if err == nil && p.judge != nil {
		p.judge.delivered(d, recv)
	}
}

// tally returns how many datagrams met that error; nil: were taken.
func (p *peer) tally(kind error) tally {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened[kind]
}

// trouble says why nothing comes, if that is so for long.
func (p *peer) trouble(now time.Duration) string {
	heard, refused, forged := p.tally(nil), p.tally(seal.ErrRefused), p.tally(seal.ErrForged)
	switch {
	case refused.n > 0 && refused.last > heard.last:
		return "refused: the listener serves another dialer"
	case now-max(heard.last, p.begun) < quiet:
		return ""
	case forged.n > 0 && now-forged.last < quiet:
		return "what comes is made with another key, or changed"
	case p.dial.IsValid():
		return "nothing comes: wrong address, wrong key, or no listener?"
	default:
		return "nothing comes: no dialer, wrong address, or a firewall?"
	}
}
