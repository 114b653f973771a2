// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"timesync/clock"
	"timesync/examples/game/judge"
	"timesync/examples/internal/program"
	"timesync/examples/seal"
	"timesync/link"
	"timesync/rxtime"
	"timesync/tick"
)

// node is what a server and a player have in common: a socket, a clock, and the notes
// that they take of themselves.
type node struct {
	*judge.Notes
	who    string
	clock  program.Clock // of its own: no two processes agree by chance
	rng    *rand.Rand
	udp    *net.UDPConn
	server netip.AddrPort // where a player sends to
	rx     program.Reader // reads udp, with the kernel's receive times, where it has them

	folder     string               // of the recordings; empty: none
	recordings []*program.Recording // of the goroutine that receives, once it runs

	clocks clocks

	mu sync.Mutex // guards the state of the game
}

func newNode(c config) (*node, error) {
	udp, server, err := program.Open(c.Listen, c.Dial)
	if err != nil {
		return nil, err
	}
	n := &node{who: "server", udp: udp, server: server, folder: c.record}
	if c.Dial != "" {
		n.who = fmt.Sprint("player ", c.player)
	}
	n.Notes = judge.NewNotes(n.who)
	n.rng = rand.New(rand.NewPCG(c.Network.Seed, 0))
	n.clock = program.Clock{Start: n.rng.Uint64(), PPM: c.Skew}
	n.rx = program.Reader{Conn: rxtime.NewConn(udp), Reads: n.clock.Reads}
	n.Say(fmt.Sprintf("at %v; %s", udp.LocalAddr(), program.ReceiveTimes(n.rx.Conn)))
	return n, nil
}

// record records a link into a file of its own, whose name says what it is and when it began.
func (n *node) record(l *link.Link, name string) {
	began := time.Now().UTC().Format("20060102T150405Z")
	r, err := program.RecordIn(l, n.folder, strings.ReplaceAll(name, " ", "-")+"-"+began+"-*.tsr")
	if err != nil {
		n.Say("not recorded: " + err.Error())
	}
	n.recordings = append(n.recordings, r)
}

// write sends a datagram. An error is a loss like any other.
func (n *node) write(b []byte, to netip.AddrPort) { _, _ = n.udp.WriteToUDPAddrPort(b, to) }

// side is a server or a player.
type side interface {
	take(b []byte, from netip.AddrPort, recvUsec uint64) // a datagram
	status() judge.Status
}

// play lets a side play until ctx ends, and prints how it goes.
func (n *node) play(ctx context.Context, s side, out io.Writer, asJSON bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var tasks sync.WaitGroup
	tasks.Go(func() { seal.Receive(n.rx, s.take) })
	tasks.Go(func() { n.WatchStalls(ctx) })
	tasks.Go(func() { _ = n.clocks.Run(ctx) }) // its error is that of ctx
	err := judge.Report(ctx, out, asJSON, s.status)
	cancel()
	n.udp.Close()
	tasks.Wait()
	for _, r := range n.recordings {
		err = errors.Join(err, r.Close())
	}
	return err
}

// clocks is what a tick.Server and a tick.Client have in common here.
type clocks interface {
	Run(ctx context.Context) error
	SharedTime(nowUsec uint64) (tick.Time, bool)
	Epoch() (uint64, bool)
}

// newStatus returns the notes since the last one, and what the clocks say.
func (n *node) newStatus() judge.Status {
	now := clock.Now()
	s := n.Status(now)
	if game, ok := n.clocks.SharedTime(n.clock.Reads(now)); ok {
		s.Game = game.Duration().Microseconds()
		s.Epoch, _ = n.clocks.Epoch()
	}
	return s
}
