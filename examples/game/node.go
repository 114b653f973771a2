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

// play plays the whole game, or one side of it.
func play(ctx context.Context, c config, stdout, stderr io.Writer) error {
	if !c.Alone() {
		return judge.Play(ctx, judge.Config{Flags: c.Flags, Players: c.players, Record: c.record, Tick: tickLength}, stdout, stderr)
	}
	ctx, stop := c.Limit(ctx)
	defer stop()
	if c.Listen != "" {
		s, err := newServer(c)
		if err != nil {
			return err
		}
		return s.play(ctx, s, stdout, c.JSON)
	}
	p, err := newPlayer(c)
	if err != nil {
		return err
	}
	return p.play(ctx, p, stdout, c.JSON)
}

// node is what a server and a player have in common: a socket, a clock, and the notes
// that they take of themselves.
type node struct {
	*judge.Notes
	clock  program.Clock // from a start and at a rate of its own: no two processes agree by chance
	rng    *rand.Rand
	udp    *net.UDPConn
	server netip.AddrPort // where a player sends to
	rx     program.Reader // reads udp, with the kernel's receive times, where it has them

	folder     string               // of the recordings; empty: none
	recordings []*program.Recording // of the goroutine that receives, once it runs

	mu sync.Mutex // guards the state of the game
}

func newNode(who string, c config) (*node, error) {
	udp, server, err := program.Open(c.Listen, c.Dial)
	if err != nil {
		return nil, err
	}
	n := &node{Notes: judge.NewNotes(who), udp: udp, server: server, folder: c.record}
	n.rng = rand.New(rand.NewPCG(c.Network.Seed, 0))
	n.clock = program.Clock{Start: n.rng.Uint64(), PPM: c.Skew}
	n.rx = program.Reader{Conn: rxtime.NewConn(udp), Clock: n.clock}
	n.Say(fmt.Sprintf("at %v; %s", udp.LocalAddr(), program.ReceiveTimes(n.rx.Conn)))
	return n, nil
}

// record records a link into a file of its own, whose name says what it is and when it began.
func (n *node) record(l *link.Link, name string) error {
	began := time.Now().UTC().Format("20060102T150405Z")
	r, err := program.RecordIn(l, n.folder, strings.ReplaceAll(name, " ", "-")+"-"+began+"-*.tsr")
	n.recordings = append(n.recordings, r)
	return err
}

// write sends a datagram. An error is a loss like any other.
func (n *node) write(b []byte, to netip.AddrPort) { _, _ = n.udp.WriteToUDPAddrPort(b, to) }

// side is a server or a player.
type side interface {
	take(b []byte, from netip.AddrPort, recvUsec uint64) // a datagram
	run(ctx context.Context, tasks *sync.WaitGroup)      // until ctx ends
	status() judge.Status
}

// play lets a side play until ctx ends, and prints how it goes.
func (n *node) play(ctx context.Context, s side, out io.Writer, asJSON bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var tasks sync.WaitGroup
	tasks.Go(func() { seal.Receive(n.rx, s.take) })
	tasks.Go(func() { n.WatchStalls(ctx) })
	s.run(ctx, &tasks)
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
	SharedTime(nowUsec uint64) (tick.Time, bool)
	Epoch() (uint64, bool)
}

// newStatus returns the notes since the last one, and what the clocks say.
func (n *node) newStatus(c clocks) judge.Status {
	now := clock.Now()
	s := n.Status(now)
	if game, ok := c.SharedTime(n.clock.At(program.Elapsed(now).Microseconds())); ok {
		s.Game = game.Duration().Microseconds()
		s.Epoch, _ = c.Epoch()
	}
	return s
}
