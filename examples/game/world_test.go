// This test runs the sides of the game as they are, but over a network and by a time that are
// simulated: what it says of inputs no busy machine spoils.

package main

import (
	"bytes"
	"context"
	"log"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"timesync/internal/badnet"
	"timesync/internal/program/programtest"
	"timesync/internal/testkit"
)

// wire is the network of the demo, without sockets.
type wire struct {
	badnet.Config
	mu   sync.Mutex
	rng  *rand.Rand
	ends map[netip.AddrPort]func(b []byte, from netip.AddrPort) // what they do with a datagram
}

// join lets an end play at an address.
func (w *wire) join(
	n *node, at netip.AddrPort,
	take func(b []byte, from netip.AddrPort, recvUsec uint64),
	play func(context.Context) error,
) {
	w.mu.Lock()
	defer w.mu.Unlock()
	came := make(chan func(), 1000) // an end takes one after the other, and none when it is killed
	w.ends[at] = func(b []byte, from netip.AddrPort) {
		came <- func() { take(b, from, n.clock.Received()) }
	}
	context.AfterFunc(n.Ctx, func() { came <- func() {} }) // so that it notices
	n.Go(func() {
		for n.Ctx.Err() == nil {
			(<-came)()
		}
	})
	n.write = func(b []byte, to netip.AddrPort) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delay, lost := w.Draw(w.rng); !lost && to.IsValid() {
			end, b := w.ends[to], bytes.Clone(b)
			time.AfterFunc(delay, func() { end(b, at) })
		}
	}
	n.Go(func() { _ = play(n.Ctx) })
}

// TestLate: a minute over 34 to 40 ms, 1 % loss and 2 % held back, by clocks that are 50 ppm
// apart; the server is killed and started again, and then a player. Less than 1 % of the inputs
// are late (with "ServerBuffer: -1" in newPlayer 15 %), players see the others move, all are soon
// in step, and what is over takes no memory.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := programtest.Config(t, (*config).flags, (*config).check, "-seed 50100001 -for 60s")
		w := &wire{
			Config: c.Network,
			rng:    rand.New(rand.NewPCG(c.Network.Seed, 0)),
			ends:   map[netip.AddrPort]func([]byte, netip.AddrPort){},
		}
		d := demo{config: c, out: log.New(t.Output(), "", 0)}
		node := func(server netip.AddrPort) *node {
			c.Network.Seed++
			return newNode(c, badnet.Loopback(), server, d.out)
		}
		serve := func() {
			d.server = newServer(node(netip.AddrPort{}), c.Key)
			w.join(d.server.node, somewhere, d.server.take, d.server.ticks.Run)
		}
		join := func(i int) {
			c.player = i + 1
			p := newPlayer(node(somewhere), c.Key, byte(i))
			w.join(p.node, netip.AddrPortFrom(somewhere.Addr(), uint16(i)+1), p.take, p.ticks.Run)
			p.Every(tickLength, p.knock)
			d.players[i] = p
		}
		serve()
		join(0)
		join(1)
		d.watch(t.Context(), "start")
		d.kill(d.server.node)
		serve()
		d.watch(t.Context(), "restart of the server")
		d.kill(d.players[0].node)
		join(0)
		d.watch(t.Context(), "restart of player 1")
		d.kill(d.server.node)
		for i, p := range d.players {
			d.kill(p.node)
			n := max(len(d.server.players[i].inputs), len(p.past), len(p.states))
			if c := p.counts; n > 2*kept || c.Frozen*100 > c.Shown {
				t.Errorf("player %d: %d ticks are remembered; %+v", i+1, n, c)
			}
		}
		testkit.Must(t, d.failed)
		if d.late*100 > d.inTime || d.inTime < 2*60*58 {
			t.Errorf("%d inputs in time, %d late", d.inTime, d.late)
		}
	})
}
