// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"timesync"
	"timesync/examples/seal"
	"timesync/internal/program"
)

const (
	rate = 60 // datagrams a second, each way: those of a game

	// quiet is how long nothing must come before a peer is said to be gone. By then a listener
	// serves another. Far longer than a gap of a network that works.
	quiet = 3 * time.Second
)

// peer is one end of the demo: a socket, a clock, and the seal, which has the link.
type peer struct {
	*program.Socket
	end   *seal.End
	clock program.Clock
	// Where to send; not valid: it listens, and sends to who calls.
	dial  netip.AddrPort
	judge *judge
	begun time.Duration // true time

	sent atomic.Int64
	mu   sync.Mutex
	// By the error of Take; nil for those it took.
	opened map[error]taken
}

// taken is how many datagrams there were of a kind.
type taken struct {
	n    int
	last time.Duration // true time of the last
}

// newPeer makes one. If it is to be recorded, the file has a name of that pattern.
func newPeer(
	c config, udp *net.UDPConn, dial netip.AddrPort, own program.Clock, pattern string,
) (*peer, error) {
	p := &peer{
		Socket: program.NewSocket(udp, own.Reads),
		clock:  own,
		dial:   dial,
		begun:  program.True(),
		opened: map[error]taken{},
	}
	direction := uint64(0)
	if !dial.IsValid() {
		direction = 1
	}
	p.end = seal.New(c.key, direction)
	return p, p.Record(&p.end.Link, c.record, pattern)
}

// start sends and receives until Close.
func (p *peer) start() {
	p.Go(func() { p.end.Serve(p, p.UDP, quiet, p.take) })
	p.Every(time.Second/rate, p.send)
}

// send sends a datagram, if there is somebody to send to.
func (p *peer) send() {
	to := cmp.Or(p.dial, p.end.Peer().Addr)
	if !to.IsValid() {
		return
	}
	sent := program.True()
	var payload []byte
	if p.judge != nil {
		payload = p.judge.payload(sent)
	}
	p.Write(p.end.Seal(nil, payload, p.clock.At(sent.Microseconds())), to)
	p.sent.Add(1)
}

// take takes a datagram, or hears why it was refused.
func (p *peer) take(d seal.Datagram, err error) {
	recv := time.Duration(p.clock.True(d.RecvUsec)) * time.Microsecond
	p.mu.Lock()
	p.opened[err] = taken{p.opened[err].n + 1, recv}
	p.mu.Unlock()
	if err == nil && p.judge != nil {
		p.judge.delivered(d, recv)
	}
}

// tally returns how many datagrams met that error; nil: were taken.
func (p *peer) tally(kind error) taken {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened[kind]
}

// state returns what is known now.
func (p *peer) state() timesync.Snapshot {
	s, _ := p.end.Link.Snapshot(p.clock.Now())
	return s
}
