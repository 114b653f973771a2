// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"timesync/clock"
	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
)

// None of this file is needed to make a game: it plays the whole game on this machine, and judges it.

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
	// longStall is a stall that puts off a start: clocks are compared by datagrams every 17 ms, and for a
	// few of them shorter ones make no difference.
	longStall = 100 * time.Millisecond
)

// demo is a server, players, and a bad network between them.
type demo struct {
	config
	out     *log.Logger
	network *relay.Relay
	server  *serverSide    // the one that runs
	players [2]*playerSide // those that run
	lasting [2]*meeting    // of these players with this server
	result
}

// meeting is the time that one life of a server and one of a player have in common.
type meeting struct {
	player string
	After  string        // which of the two began it
	begun  time.Duration // true time; long stalls put it off
	Length time.Duration
	Out    time.Duration // from the beginning until in step for good
	Apart  time.Duration // the shared clocks, at most, then
}

// see takes how far the shared clocks are apart at a time, if the player's is known.
func (m *meeting) see(now, apart, tolerance time.Duration, known bool) {
	if m.Length = now - m.begun; known && apart <= tolerance {
		m.Apart = max(m.Apart, apart)
	} else {
		m.Out, m.Apart = m.Length, 0
	}
}

// playAll plays the whole game, and judges it: it kills the server after a third and a player after two
// thirds of the time, and starts them anew. If ctx ends, it plays for less long.
func playAll(ctx context.Context, c config, out *log.Logger) *result {
	d := &demo{config: c, out: out}
	d.serve()
	d.network = relay.New(d.Network, relay.Addr(d.server.UDP))
	for i := range d.players {
		d.join(i)
	}
	if d.watch(ctx) {
		out.Print("server   is killed and started anew")
		d.kill(d.server.node)
		d.serve()
		d.network.Move(relay.Addr(d.server.UDP))
	}
	if d.watch(ctx) {
		out.Print("player 1 is killed and started anew")
		d.kill(d.players[0].node)
		d.join(0)
	}
	d.watch(ctx)
	for _, p := range d.players {
		d.kill(p.node)
	}
	d.network.Close()
	d.kill(d.server.node)
	return &d.result
}

// kill ends an end; what it has counted counts.
func (d *demo) kill(n *node) {
	r := &d.result
	r.failed = errors.Join(r.failed, n.End())
	r.InTime += n.counts.InTime
	r.Late += n.counts.Late
	r.Unreported += n.ledger.Counts.Unreported
}

// serve starts a server. All players meet it.
func (d *demo) serve() {
	d.Network.Seed++ // each end draws others
	c := d.config
	c.Skew = 0
	d.server = startServer(c, relay.Loopback(), d.out)
	for i, p := range d.players {
		if p != nil {
			d.meet(i, "server")
		}
	}
}

// join starts player i + 1.
func (d *demo) join(i int) {
	d.Network.Seed++
	d.player = i + 1
	d.players[i] = startPlayer(d.config, relay.Loopback(), d.network.Addr(), d.out)
	d.meet(i, d.players[i].who)
}

// meet begins a meeting of player i + 1 with the server.
func (d *demo) meet(i int, after string) {
	d.lasting[i] = &meeting{player: d.players[i].who, After: after, begun: program.True()}
	d.Meetings = append(d.Meetings, d.lasting[i])
}

// watch looks for a third of the time. It reports whether the game goes on.
func (d *demo) watch(ctx context.Context) bool {
	third, cancel := context.WithTimeout(ctx, d.For/3)
	defer cancel()
	looked := program.True()
	program.Every(third.Done(), lookEvery, func() {
		d.look(looked, program.True())
		looked = program.True()
	})
	return ctx.Err() == nil
}

// look compares the clocks of the server and all players at one moment, some time after the last look.
func (d *demo) look(looked, now time.Duration) {
	d.ran(now - looked)
	usec := clock.Now()
	truth, _ := d.server.ticks.SharedTime(d.server.clock.Reads(usec))
	// What the two ways differ by cannot be known, and half of it comes on top.
	tolerance := tickLength + max(d.Network.Up.By, d.Network.Down.By)/2
	for i, m := range d.lasting {
		p := d.players[i]
		own, known := p.ticks.SharedTime(p.clock.Reads(usec))
		apart := (own.Duration() - truth.Duration()).Abs()
		m.see(program.Elapsed(usec), apart, tolerance, known)
	}
}

// ran takes how long this process took between two looks. What is late by more, stalled: that says something about
// the machine, and nothing about the game.
func (d *demo) ran(took time.Duration) {
	if took <= lookEvery+stallLeast {
		return
	}
	d.Stalled += took
	if took >= longStall {
		for _, m := range d.lasting {
			m.begun += took
		}
	}
}

// result is what comes out: what all ends have counted, and how they met.
type result struct {
	Meetings     []*meeting
	InTime, Late uint64        // inputs
	Unreported   uint64        // ticks that were skipped or ran twice, and no event told
	Stalled      time.Duration // this process
	failed       error         // recordings
}

// check says what is wrong.
func (r *result) check() (err error) {
	if r.Unreported > 0 {
		err = fmt.Errorf("%d ticks were skipped or repeated, and no event told", r.Unreported)
	}
	for _, m := range r.Meetings {
		if m.Out > mayTake {
			err = fmt.Errorf("%s was out of step for %.1f s after the start of %s", m.player, m.Out.Seconds(), m.After)
		}
	}
	return errors.Join(err, r.failed)
}

func (r *result) print(out io.Writer, seed uint64) {
	fmt.Fprintf(out, "\n%.1f s; -seed %d\n", program.True().Seconds(), seed)
	for _, m := range r.Meetings {
		fmt.Fprintf(out, "%s, since the start of %s: ", m.player, m.After)
		if m.Out < m.Length {
			fmt.Fprintf(out, "in step after %.1f s, then within %.1f ms for %.1f s\n",
				m.Out.Seconds(), m.Apart.Seconds()*1e3, (m.Length - m.Out).Seconds())
		} else {
			fmt.Fprintf(out, "not in step after %.1f s\n", m.Length.Seconds())
		}
	}
	late := 100 * float64(r.Late) / float64(max(r.InTime+r.Late, 1))
	fmt.Fprintf(out, "inputs   %d in time, %d late: %.2f %%\n", r.InTime, r.Late, late)
	fmt.Fprintf(out, "this process waited %.2f s for a processor, which makes inputs late\n", r.Stalled.Seconds())
}
