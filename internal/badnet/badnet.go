// SPDX-License-Identifier: BSD-3-Clause

// Package badnet is a bad network on one machine, with an attacker on it: it stands between
// a server and its clients and delays, loses, reorders, changes and repeats datagrams.
package badnet

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"timesync/clock/rxtime"
	"timesync/examples/seal"
)

// Config says how bad it is. The zero value delivers everything at once.
type Config struct {
	Delay time.Duration // each way
	// Jitter is the largest; each datagram waits JitterFloor to 1 times as long.
	Jitter time.Duration
	Loss   float64 // percent
	// Reorder is the percentage that is held back by 15 to 45 ms, so that others overtake.
	Reorder float64
	// Up and Down are how much longer the way to the server, and back, takes from a time on.
	Up, Down Extra
	Seed     uint64 // makes it the same again; 0: see Check
}

// Extra is a delay that comes later. As a flag it is 50ms@5s.
type Extra struct {
	By   time.Duration
	From time.Duration // since the relay was started
}

func (e *Extra) parse(text string) error {
	by, from, _ := strings.Cut(text, "@")
	var err1, err2 error
	e.By, err1 = time.ParseDuration(by)
	e.From, err2 = time.ParseDuration(from)
	if err1 != nil || err2 != nil || e.By < 0 || e.From < 0 || e.By > 10*time.Second {
		return errors.New("must be a delay of up to 10s and a time, as in 50ms@5s")
	}
	return nil
}

// JitterFloor is the least jitter, as a part of the largest: 4 of 10 ms.
const JitterFloor = 0.4

const (
	reorderHold = 30 * time.Millisecond // 0.5 to 1.5 times so long
	attackRate  = 0.1                   // injected datagrams for each that is forwarded
)

// Flags adds the flags that change c, with what is in c as defaults.
func (c *Config) Flags(f *flag.FlagSet) {
	f.DurationVar(&c.Jitter, "jitter", c.Jitter, "largest jitter; each datagram waits 0.4 to 1 times as long")
	f.Float64Var(&c.Loss, "loss", c.Loss, "`percent` of datagrams lost")
	f.Func("up", "how much longer the way to the listener takes from a time on, as `50ms@5s`; 50ms@0s: always", c.Up.parse)
	f.Func("down", "the same for the way back", c.Down.parse)
	f.Uint64Var(&c.Seed, "seed", c.Seed, "makes clocks, network and attacker the same again; 0: draw one")
}

// Check refuses what cannot be meant, NaN too, and draws the seed if none was given.
func (c *Config) Check() error {
	c.Seed = cmp.Or(c.Seed, rand.Uint64N(1e9)+1)
	switch {
	case c.Jitter < 0 || c.Jitter > 10*time.Second:
		return fmt.Errorf("-jitter %v: must be from 0 to 10s", c.Jitter)
	case !(c.Loss >= 0 && c.Loss <= 100):
		return fmt.Errorf("-loss %v: must be from 0 to 100 percent", c.Loss)
	}
	return nil
}

// Draw draws how long a datagram takes, but for Up and Down, and whether it is lost.
func (c *Config) Draw(rng *rand.Rand) (delay time.Duration, lost bool) {
	delay = c.Delay + time.Duration(float64(c.Jitter)*(JitterFloor+(1-JitterFloor)*rng.Float64()))
	if rng.Float64()*100 < c.Reorder {
		delay += time.Duration((0.5 + rng.Float64()) * float64(reorderHold))
	}
	return delay, rng.Float64()*100 < c.Loss
}

// Way is a direction.
type Way int

// The two ways.
const (
	ToClient Way = iota
	ToServer
)

// Kind is what is wrong with a datagram.
type Kind int

// What the attacker injects.
const (
	Genuine  Kind = iota
	Forged        // a bit is wrong; it arrives ahead of the true one
	Replayed      // a copy, later
	Cut           // the beginning only
	Recorded      // of another session, see Recordings
	kinds
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

// Loopback opens a socket at a free port of the loopback interface. It panics on a machine that has none,
// as httptest.NewServer does.
func Loopback() *net.UDPConn {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		panic(fmt.Sprintf("no socket on loopback: %v", err))
	}
	return conn
}

// Addr is where a socket is.
func Addr(conn *net.UDPConn) netip.AddrPort { return conn.LocalAddr().(*net.UDPAddr).AddrPort() }

// New starts a relay in front of a server on loopback.
func New(c Config, server netip.AddrPort) *Relay {
	r := &Relay{
		config: c, begun: time.Now(), front: Loopback(), server: server,
		rng: rand.New(rand.NewPCG(c.Seed, 0)), flows: map[netip.AddrPort]*net.UDPConn{},
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

// Move says that the server is at another address from now on; its clients see it where it was. So it can
// start anew without its old port, which somebody else may have taken.
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

// Injected returns how many datagrams of those kinds the attacker has delivered.
func (r *Relay) Injected(w Way, all ...Kind) (sum int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range all {
		sum += r.injected[w][k]
	}
	return sum
}

// flow returns where the server sees a client, which may be a new one; nil once the relay is closed.
func (r *Relay) flow(client netip.AddrPort) *net.UDPConn {
	if back, ok := r.flows[client]; ok || r.closed {
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
		seal.Receive(rxtime.NewConn(conn), func(b []byte, from netip.AddrPort, _ uint64) {
			r.mu.Lock()
			defer r.mu.Unlock()
			take(bytes.Clone(b), from)
		})
	})
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

// inject takes the kinds in turn. What is made up goes ahead of the true datagram: an
// early stamp is what would move a clock that believed it.
func (r *Relay) inject(p parcel, now time.Time, lost bool) {
	r.turn++
	p.kind = Genuine + 1 + Kind(r.turn)%(kinds-1)
	later := p.due.Add(5*time.Millisecond + time.Duration(r.rng.Int64N(3e8)))
	p.due = now
	switch p.kind {
	case Recorded:
		p.data = r.Recordings[p.way]
	case Forged:
		p.data = bytes.Clone(p.data)
		p.data[r.rng.IntN(len(p.data))] ^= 1 << r.rng.IntN(8)
	case Cut:
		p.data = p.data[:r.rng.IntN(len(p.data))]
	case Replayed:
		if p.due = later; lost { // nobody has seen it: its copy would be a late delivery
			return
		}
	}
	r.put(p)
}

// put adds to what is under way, behind what is due no later.
func (r *Relay) put(p parcel) {
	r.queue = append(r.queue, p)
	slices.SortStableFunc(r.queue, func(a, b parcel) int { return a.due.Compare(b.due) })
	if wait := time.Until(p.due); wait > 0 {
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
