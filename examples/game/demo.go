// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"timesync/clock"
	"timesync/internal/badnet"
	"timesync/internal/program"
)

// None of this file is needed to make a game: it plays the whole game on this machine, and judges
// it.

const (
	// leastDemo is the least length. It leaves three parts, each longer than what the clocks may take.
	leastDemo = 9 * time.Second
	// mayTake is how long it may take until they are in step, after a start.
	mayTake = 2 * time.Second
	// lookEvery is how often the clocks are compared, and whether this process runs is seen.
	lookEvery = 2 * time.Millisecond
	// stallLeast is what this process may be late without a consequence: a lead that has set itself
	// has little to spare.
	stallLeast = 5 * time.Millisecond
	// longStall is a stall that puts off a start: clocks are compared by datagrams every 17 ms,
	// and for a few of them shorter ones make no difference.
	longStall = 100 * time.Millisecond
)

// demo is a server, players, and a bad network between them.
type demo struct {
	config
	out     *log.Logger
	network *badnet.Relay
	server  *serverSide    // the one that runs
	players [2]*playerSide // those that run

	begun  time.Duration // true time of the last start; long stalls put it off
	judged [2]step       // since then

	inTime, late uint64        // inputs
	stalled      time.Duration // this process
	failed       error
}

// step is how well a player is in step with the server since a start.
type step struct {
	out   time.Duration // until in step for good
	apart time.Duration // the shared clocks, at most, then
}

// see takes how far the shared clocks are apart at a time since the start, if the player's is
// known.
func (s *step) see(since, apart, tolerance time.Duration, known bool) {
	if known && apart <= tolerance {
		s.apart = max(s.apart, apart)
	} else {
		*s = step{out: since}
	}
}

// playAll plays the whole game, and says what is wrong: it kills the server after a third and a
// player after two thirds of the time, and restarts them. If ctx ends, it plays for less long.
func playAll(ctx context.Context, c config, out *log.Logger) error {
	d := &demo{config: c, out: out}
	d.serve()
	d.network = badnet.New(d.Network, badnet.Addr(d.server.UDP))
	d.join(0)
	d.join(1)
	d.watch(ctx, "start")
	if ctx.Err() == nil {
		out.Print("server   is killed and restarted")
		d.kill(d.server.node)
		d.serve()
		d.network.Move(badnet.Addr(d.server.UDP))
		d.watch(ctx, "restart of the server")
	}
	if ctx.Err() == nil {
		out.Print("player 1 is killed and restarted")
		d.kill(d.players[0].node)
		d.join(0)
		d.watch(ctx, "restart of player 1")
	}
	for _, p := range d.players {
		d.kill(p.node)
	}
	d.network.Close()
	d.kill(d.server.node)
	late := 100 * float64(d.late) / float64(max(d.inTime+d.late, 1))
	out.Printf("\n%.1f s; -seed %d", program.True().Seconds(), c.Network.Seed)
	out.Printf("inputs   %d in time, %d late: %.2f %%", d.inTime, d.late, late)
	out.Printf("this process waited %.2f s for a processor, which makes inputs late",
		d.stalled.Seconds())
	return d.failed
}

// kill ends an end; what it has counted counts.
func (d *demo) kill(n *node) {
	d.failed = errors.Join(d.failed, n.Close())
	d.inTime += n.counts.InTime
	d.late += n.counts.Late
	if wrong := n.ledger.ticks.unreported; wrong > 0 {
		untold := fmt.Errorf("%s: %d ticks were skipped or repeated, and no event told", n.who, wrong)
		d.failed = errors.Join(d.failed, untold)
	}
}

// serve starts a server.
func (d *demo) serve() {
	d.Network.Seed++ // each end draws others
	c := d.config
	c.Skew = 0
	d.server = startServer(c, badnet.Loopback(), d.out)
}

// join starts player i + 1.
func (d *demo) join(i int) {
	d.Network.Seed++
	d.player = i + 1
	d.players[i] = startPlayer(d.config, badnet.Loopback(), d.network.Addr(), d.out)
}

// watch looks for a third of the time after a start, and says how well the players were in step.
func (d *demo) watch(ctx context.Context, start string) {
	third, cancel := context.WithTimeout(ctx, d.For/3)
	defer cancel()
	looked := program.True()
	d.begun, d.judged = looked, [2]step{}
	program.Every(third.Done(), lookEvery, func() {
		d.ran(program.True() - looked)
		d.look()
		looked = program.True()
	})
	for i, s := range d.judged {
		said := fmt.Sprintf("player %d was out of step for %.1f s after the %s",
			i+1, s.out.Seconds(), start)
		d.out.Printf("%s, then within %.1f ms", said, s.apart.Seconds()*1e3)
		if s.out > mayTake {
			d.failed = errors.Join(d.failed, errors.New(said))
		}
	}
}

// look compares the clocks of the server and all players at one moment.
func (d *demo) look() {
	usec := clock.Now()
	truth, _ := d.server.ticks.SharedTime(d.server.clock.Reads(usec))
	// What the two ways differ by cannot be known, and half of it comes on top.
	tolerance := tickLength + max(d.Network.Up.By, d.Network.Down.By)/2
	for i, p := range d.players {
		own, known := p.ticks.SharedTime(p.clock.Reads(usec))
		apart := (own.Duration() - truth.Duration()).Abs()
		d.judged[i].see(program.Elapsed(usec)-d.begun, apart, tolerance, known)
	}
}

// ran takes how long this process took between two looks. What is late by more, stalled: that says
// something about the machine, and nothing about the game.
func (d *demo) ran(took time.Duration) {
	if took <= lookEvery+stallLeast {
		return
	}
	d.stalled += took
	if took >= longStall {
		d.begun += took
	}
}
