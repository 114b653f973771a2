// SPDX-License-Identifier: BSD-3-Clause

// Package badnet is a bad network on one machine, with an attacker on it. It stands between a
// server and its clients and delays, loses, reorders, changes and repeats their datagrams, on real
// sockets and in real time. Package sim has simulated ones.
package badnet

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Way is a direction.
type Way int

// The two ways.
const (
	ToClient Way = iota
	ToServer
)

// Relay is the network. Clients send to Addr, and for each the server sees an address of
// its own, as behind a router that translates addresses.
type Relay struct {
	// Recordings are datagrams of another session, by the way that they go. They must be
	// set before Attack.
	Recordings [2][]byte
	Attack     atomic.Bool // inject

	config Config
	begun  time.Time
	front  *net.UDPConn
	tasks  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	rng      *rand.Rand
	server   netip.AddrPort
	flows    map[netip.AddrPort]*net.UDPConn // by client: where the server sees it
	queue    []parcel                        // by when they are due
	injected [2][kinds]int                   // delivered
	turn     int                             // of the kinds that are injected
}

// parcel is a datagram under way.
type parcel struct {
	due  time.Time
	way  Way
	from *net.UDPConn
	to   netip.AddrPort
	data []byte
	kind Kind
}

// New starts a relay in front of a server on loopback.
func New(c Config, server netip.AddrPort) *Relay {
	r := &Relay{
		config: c,
		begun:  time.Now(),
		front:  Loopback(),
		server: server,
		rng:    rand.New(rand.NewPCG(c.Seed, 0)),
		flows:  map[netip.AddrPort]*net.UDPConn{},
	}
	r.read(r.front, func(data []byte, from netip.AddrPort) {
		if back := r.flow(from); back != nil {
			r.forward(parcel{way: ToServer, from: back, to: r.server, data: data}, c.Up)
		}
	})
	return r
}

// Addr is where clients send to.
func (r *Relay) Addr() netip.AddrPort { return Addr(r.front) }

// Move says that the server is at another address from now on; its clients see it where it was. So
// it can restart without its old port, which somebody else may have taken.
func (r *Relay) Move(to netip.AddrPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = to
}

// Close drops what is under way.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	r.front.Close()
	for _, back := range r.flows {
		back.Close()
	}
	r.mu.Unlock()
	r.tasks.Wait()
}

// flow returns where the server sees a client, which may be a new one; nil once the relay is
// closed.
func (r *Relay) flow(client netip.AddrPort) *net.UDPConn {
	if r.closed {
		return nil
	}
	if back, ok := r.flows[client]; ok {
		return back
	}
	back := Loopback()
	r.flows[client] = back
	r.read(back, func(data []byte, from netip.AddrPort) {
		if from == r.server {
			r.forward(parcel{way: ToClient, from: r.front, to: client, data: data}, r.config.Down)
		}
	})
	return back
}

// read hands over what arrives, with the lock held, until the socket is closed.
func (r *Relay) read(conn *net.UDPConn, take func(data []byte, from netip.AddrPort)) {
	r.tasks.Go(func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			switch {
			case err == nil:
				r.mu.Lock()
				take(bytes.Clone(buf[:n]), from)
				r.mu.Unlock()
			case errors.Is(err, net.ErrClosed):
				return
			default: // Windows says here that a client's port is closed
				time.Sleep(time.Millisecond)
			}
		}
	})
}

// forward takes a datagram that has come now.
func (r *Relay) forward(p parcel, extra Extra) {
	now := time.Now()
	delay, lost := r.config.Draw(r.rng)
	if now.Sub(r.begun) >= extra.From {
		delay += extra.By
	}
	p.due = now.Add(delay)
	if !lost {
		r.put(p)
	}
	if r.Attack.Load() && len(p.data) > 0 && r.rng.Float64() < attackRate {
		r.inject(p, now, lost)
	}
	r.deliver()
}

// put adds to what is under way, behind what is due no later.
func (r *Relay) put(p parcel) {
	r.queue = append(r.queue, p)
	slices.SortStableFunc(r.queue, func(a, b parcel) int { return a.due.Compare(b.due) })
	wait := time.Until(p.due)
	if wait <= 0 {
		return
	}
	// Timers may be a millisecond late where sleeping is counted in milliseconds, so the last one
	// passes awake.
	time.AfterFunc(wait-time.Millisecond, func() {
		for time.Until(p.due) > 0 {
			runtime.Gosched()
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.deliver()
	})
}

// deliver writes what is due.
func (r *Relay) deliver() {
	for len(r.queue) > 0 && !r.closed && time.Until(r.queue[0].due) <= 0 {
		p := r.queue[0]
		r.queue = r.queue[1:]
		r.injected[p.way][p.kind]++
		_, _ = p.from.WriteToUDPAddrPort(p.data, p.to) // an error is a loss
	}
}
