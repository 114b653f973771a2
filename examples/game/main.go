// SPDX-License-Identifier: BSD-3-Clause

// Game prints for 15 s, each second, how many ticks a server and two players have run and how many
// inputs came too late, while the server and a player are killed and started again; then a verdict.
//
// It is a game over UDP: a server and players in processes of their own, each with a clock of its
// own, at 60 ticks a second.
//
// Players predict: at each tick they play their input at once and send it for that tick,
// early enough to reach the server before the server gets there. Everybody else is shown in
// server time, so that what is shown has arrived. Clocks are compared by each datagram
// (seal, link), with the kernel's receive times where it has them (rxtime).
//
// Each process counts what tick promises it: inputs that came too late, and ticks that were
// skipped or ran twice. An input that came too late only because a process or the relay had
// to wait for a processor is counted as one that waited: that says something about the
// machine.
//
// Without -listen or -dial the program starts them all here, with a bad network in between. After
// a third of the time it kills the server, after two thirds a player, and starts them again.
// It says how long they were out of step, and exits with status 1 if that was more than 2 s
// or if a tick was skipped or repeated and no event told.
//
// With -up 50ms@5s the way to the server, and it alone, becomes longer: the players' lead
// follows. -down does the same to the way back.
//
// The game is in server.go, client.go, world.go and this file. Package judge starts the processes and
// says how they did.
//
//	go run ./examples/game
//	go run ./examples/game -up 50ms@5s
//	go run ./examples/game -listen :9000 -key HEX
//	go run ./examples/game -dial HOST:9000 -player 1 -key HEX
package main

import (
	"context"
	"errors"
	"flag"
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

type config struct {
	program.Flags
	player, players int
	record          string // folder; empty: none
}

func main() { program.Main(run) }

var run = program.New("game", usage, (*config).flags, (*config).check, play)

const usage = `usage: game [flags]                        a server and players here, and a bad network between them
       game -listen ADDR -key KEY          the server here ...
       game -dial ADDR -player N -key KEY  ... and a player elsewhere`

func (c *config) flags(f *flag.FlagSet) {
	c.Add(f, 15*time.Second)
	f.IntVar(&c.player, "player", 1, "`number` of the player, 1 to 8, each its own, with -dial")
	f.IntVar(&c.players, "players", 2, "how `many` players there are, 1 to 8")
	f.StringVar(&c.record, "record", "", "record what the clocks are told in this `folder`, a file for each end")
}

// check refuses what cannot be meant.
func (c *config) check(f *flag.FlagSet) error {
	if err := c.Check(f, []string{"players"}, []string{"player"}); err != nil {
		return err
	}
	switch {
	case c.player < 1 || c.player > maxPlayers:
		return fmt.Errorf("-player %d: must be from 1 to %d", c.player, maxPlayers)
	case c.players < 1 || c.players > maxPlayers:
		return fmt.Errorf("-players %d: must be from 1 to %d", c.players, maxPlayers)
	case program.Given(f, "player") && c.Dial == "":
		return errors.New("-player: needs -dial")
	case !c.Alone() && c.For < judge.Least:
		return fmt.Errorf("-for %v: must be %v or more, for two restarts", c.For, judge.Least)
	}
	return nil
}

// play plays the whole game, or one side of it.
func play(ctx context.Context, c config, stdout, stderr io.Writer) error {
	if !c.Alone() {
		game := judge.Config{Flags: c.Flags, Players: c.players, Record: c.record, Tick: tickLength}
		return judge.Play(ctx, game, stdout, stderr)
	}
	ctx, stop := c.Limit(ctx)
	defer stop()
	n, err := newNode(c)
	if err != nil {
		return err
	}
	if c.Listen != "" {
		return n.play(ctx, newServer(n, c.Key), stdout, c.JSON)
	}
	p := newPlayer(n, c.Key, byte(c.player-1))
	go program.Every(ctx.Done(), tickLength, p.knock)
	return n.play(ctx, p, stdout, c.JSON)
}

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
	n.rx = program.Reader{Conn: rxtime.NewConn(udp), Clock: n.clock}
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
	if game, ok := n.clocks.SharedTime(n.clock.At(program.Elapsed(now).Microseconds())); ok {
		s.Game = game.Duration().Microseconds()
		s.Epoch, _ = n.clocks.Epoch()
	}
	return s
}
