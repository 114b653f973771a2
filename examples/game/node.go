// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"timesync/examples/seal"
	"timesync/internal/program"
	"timesync/link"
	"timesync/tick"
)

// node is what a server and a player have in common: a socket, a clock, and what they say of
// themselves.
type node struct {
	*program.Socket
	who    string
	begun  time.Duration // true time
	clock  program.Clock // of its own: no two ends agree by chance
	rng    *rand.Rand
	server netip.AddrPort // where a player sends to
	write  func(datagram []byte, to netip.AddrPort)

	folder string // of the recordings; empty: none
	out    *log.Logger

	mu     sync.Mutex // guards the state of the game, and what follows
	ledger ledger
	counts counts
}

// counts counts inputs, at the server, each of a tick that has run once, and what players see.
type counts struct {
	InTime    uint64 // inputs that came before their tick
	Late      uint64 // and after it
	Corrected uint64 // states in which the own figure was not where predicted
	Shown     uint64 // ticks for which the state of the others had arrived
	Frozen    uint64 // and for which it had not
}

// newNode makes that of a player of the server there, or of a server if it is not valid.
func newNode(c config, udp *net.UDPConn, server netip.AddrPort, out *log.Logger) *node {
	n := &node{who: "server", begun: program.True(), server: server, folder: c.record, out: out}
	if server.IsValid() {
		n.who = fmt.Sprint("player ", c.player)
	}
	n.rng = rand.New(rand.NewPCG(c.Network.Seed, 0))
	n.clock = program.Clock{Start: n.rng.Uint64(), PPM: c.Skew}
	n.Socket = program.NewSocket(udp, n.clock.Reads)
	n.write = n.Write
	n.say("at %v", udp.LocalAddr())
	return n
}

// say prints a sentence.
func (n *node) say(format string, a ...any) {
	n.out.Printf("%-8s %5.1f s  %s",
		n.who, (program.True() - n.begun).Seconds(), fmt.Sprintf(format, a...))
}

// told takes what package tick reports.
func (n *node) told(e tick.Event) {
	n.say("%v", e)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ledger.event(e)
}

// ran notes that a tick runs; mu is held.
func (n *node) ran(at tick.Tick) {
	if wrong := n.ledger.ran(at); wrong != "" {
		n.say("%s", wrong)
	}
}

// record records a link into a file of its own, whose name says what it is and when it began.
func (n *node) record(l *link.Link, name string) {
	began := time.Now().UTC().Format("-20060102T150405Z-*.tsr")
	if err := n.Record(l, n.folder, strings.ReplaceAll(name, " ", "-")+began); err != nil {
		n.say("not recorded: %v", err)
	}
}

// run receives and plays until Close, and says once a second how it is.
func (n *node) run(
	take func(b []byte, from netip.AddrPort, recvUsec uint64),
	report func(),
	play func(context.Context) error,
) {
	n.Go(func() { seal.Receive(n, take) })
	n.Every(time.Second, report)
	n.Go(func() { _ = play(n.Ctx) }) // its error is that of Ctx
}

func startServer(c config, udp *net.UDPConn, out *log.Logger) *serverSide {
	s := newServer(newNode(c, udp, netip.AddrPort{}, out), c.Key)
	s.run(s.take, s.report, s.ticks.Run)
	return s
}

// startPlayer starts a player of the server there.
func startPlayer(c config, udp *net.UDPConn, server netip.AddrPort, out *log.Logger) *playerSide {
	p := newPlayer(newNode(c, udp, server, out), c.Key, byte(c.player-1))
	p.Every(tickLength, p.knock)
	p.run(p.take, p.report, p.ticks.Run)
	return p
}
