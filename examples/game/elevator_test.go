// SPDX-License-Identifier: BSD-3-Clause

// This test shows at which of the three game times to draw what moves. It is the elevator problem
// of Unity's Network Time System, on simulated links with a round trip of 200 ms. It uses package
// tick and nothing of the game beside it.
//
// A platform rises by a formula of time that every peer evaluates. Three figures stand on it: your
// own player, the player of somebody else, and a figure that the host moves (NPC). Each client
// decides where its own player is (client authority), or in the last case the host does. At every
// tick a client sends the position of its player for its predicted time. The host puts the player
// there at that tick and sends all positions to everybody. Clients draw what they get at server
// time.
//
// The question is at which time to evaluate the formula. If a figure is drawn at one time and the
// platform at another, the figure sinks into the platform or floats above it. The test prints by
// how much, as a time: "250ms" is where the platform was 250 ms ago. Unity's document says 200,
// without buffers. The test fails if that is not what the document leads to expect, which is in
// brackets.
//
// The lesson: draw a platform at the time of what stands on it. That is predicted time under what
// you play, and server time under what you watch.
//
//	go test ./examples/game -run TestElevator -v
package main_test

import (
	"slices"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
	"timesync/tick"
)

const (
	oneWay = 100 * time.Millisecond // each way
	// buffers are those of tick: 1 tick before server time and 2 before the server, at 60 a
	// second.
	buffers = 50 * time.Millisecond
	// gap is how far predicted time is ahead of server time.
	gap       = 2*oneWay + buffers
	tolerance = 5 * time.Millisecond
	settling  = 3 * time.Second // to synchronize: it does not count
)

// platform returns how high the platform is at a game time. It rises steadily, so its height is a
// time.
func platform(at tick.Time) time.Duration { return at.Duration() }

// lags are how far the figures are behind the platform.
type lags [3]time.Duration

// A rule says at which time a client shows the platform.
type rule struct {
	name   string
	decide bool // the host says where players are
	// The platform under your own player, and under others.
	own, others func(c tick.Clocks) tick.Time
	// What the document says is seen on a client, and on the host.
	client, host lags
}

const (
	own   = iota // the player of the one who looks
	other        // somebody else's
	npc
)

func server(c tick.Clocks) tick.Time    { return c.ServerTime }
func predicted(c tick.Clocks) tick.Time { return c.PredictedTime }

var rules = []rule{
	{
		name:   "in server time (client authority)",
		own:    server,
		others: server,
		client: lags{other: gap},
		host:   lags{other: gap},
	},
	{
		name:   "in predicted time (client authority)",
		own:    predicted,
		others: predicted,
		client: lags{other: gap, npc: gap},
	},
	{
		name:   "predicted under your own player, in server time under all others (client authority)",
		own:    predicted,
		others: server,
	},
	{
		name:   "in server time, and nobody predicts (host authority)",
		decide: true,
		own:    server,
		others: server,
	},
}

// TestElevator: the figures stand where the document says. The test would notice a platform that
// is drawn at another time.
func TestElevator(t *testing.T) {
	t.Logf("round trip %v, buffers %v: predicted time is %v ahead of server time",
		2*oneWay, buffers, gap)
	for _, r := range rules {
		if !right(t, r) {
			t.Error("it does not hold")
		}
	}
	wrong := rules[0]
	wrong.name = "in shared time, which is wrong"
	wrong.own = func(c tick.Clocks) tick.Time { return c.SharedTime }
	if right(t, wrong) {
		t.Error("the shared clock passes for the server clock")
	}
}

// right plays by a rule, and reports whether the figures stand where expected.
func right(t *testing.T, r rule) (right bool) {
	client, host := play(r)
	right = true
	t.Logf("Platform %s; on the client and on the host behind it by", r.name)
	for i, name := range []string{"own player", "other player", "NPC"} {
		t.Logf("%-14s%12s%12s  (%v, %v)", name, client[i], host[i], r.client[i], r.host[i])
		if !client[i].near(r.client[i]) || !host[i].near(r.host[i]) {
			right = false
		}
	}
	return right
}

// lag is how far a figure is behind the platform, at each tick.
type lag []time.Duration

func (l *lag) add(figure, platform time.Duration) { *l = append(*l, platform-figure) }

func (l lag) near(want time.Duration) bool {
	return len(l) > 100 && slices.Min(l) > want-tolerance && slices.Max(l) < want+tolerance
}

func (l lag) String() string {
	if len(l) == 0 {
		return "never seen"
	}
	middle := (slices.Min(l) + slices.Max(l)) / 2
	return middle.Round(time.Millisecond).String()
}

// figuresAt holds where the figures are: the NPC, then the player of each peer. The host is peer
// 0.
type figuresAt [4]time.Duration

// end is an end of the connection between a client and the host.
type end struct {
	sync  timesync.TimeSynchronizer
	clock simnet.Clock
}

// peer is a client in the simulated world.
type peer struct {
	end
	host   end
	loop   *tick.Client
	states map[tick.Tick]figuresAt // what the host sent
}

// game is a host and its clients, and what is seen on client 1 and on the host.
type game struct {
	*simnet.World
	rule         rule
	clock        simnet.Clock // the host's
	server       *tick.Server
	inputs       map[tick.Tick]figuresAt // by the tick for which clients sent them
	peers        [2]*peer
	client, host [3]lag
}

// newClock returns the clock of peer i. No two clocks show the same time or run equally fast.
func newClock(i int) simnet.Clock {
	return simnet.NewClock(simnet.ClockSpec{
		OffsetUsec: uint64(i) * 7_777_777_777,
		SkewPPM:    20 * float64(i),
	}, 1)
}

// play lets a host and two clients play for 10 s and returns what is seen on client 1
// and on the host.
func play(r rule) (client, host [3]lag) {
	g := &game{
		World:  simnet.NewWorld(1),
		rule:   r,
		clock:  newClock(0),
		inputs: map[tick.Tick]figuresAt{},
	}
	handlers := tick.Handlers{Tick: g.hostPlays}
	g.server, _ = tick.NewServer(tick.ServerConfig{Handlers: handlers}) // nothing that it refuses
	g.server.Start(g.usec(g.clock))
	g.Every(time.Millisecond, 0, func() { g.server.Advance(g.usec(g.clock)) })
	for i := range g.peers {
		g.join(i)
	}
	g.Run(10 * time.Second)
	return g.client, g.host
}

// join lets client i play from now on.
func (g *game) join(i int) {
	p := &peer{
		end:    end{clock: newClock(i + 1)},
		host:   end{clock: g.clock},
		states: map[tick.Tick]figuresAt{},
	}
	g.peers[i] = p
	handlers := tick.Handlers{Tick: func(s tick.Update) { g.clientPlays(i, s) }}
	p.loop, _ = tick.NewClient(tick.ClientConfig{Handlers: handlers}, &p.sync)
	p.loop.Start(g.usec(p.clock))
	g.Every(4*time.Millisecond, 0, func() {
		played := p.loop.Advance(g.usec(p.clock))
		if _, known := p.sync.Snapshot(g.usec(p.clock)); played == 0 && !known {
			g.send(&p.end, &p.host, func() {}) // to have something to synchronize by
		}
	})
}

func (g *game) usec(c simnet.Clock) uint64 { return c.Usec(g.Now()) }

// send lets something happen when a datagram arrives.
func (g *game) send(from, to *end, happens func()) {
	datagram := sim.StartDatagram(&from.sync, g.usec(from.clock))
	g.At(g.Now()+oneWay, func() {
		sim.OpenDatagram(&to.sync, datagram, g.usec(to.clock))
		happens()
	})
}

// hostPlays plays a tick. The three times of a host are equal: it does not matter which it
// samples.
func (g *game) hostPlays(s tick.Update) {
	ground := platform(s.SharedTime)
	at := g.inputs[s.Tick] // nothing yet at first
	delete(g.inputs, s.Tick)
	at[0] = ground // the NPC
	at[1] = ground // the host's own player
	if g.rule.decide {
		at[2] = ground
		at[3] = ground
	}
	if s.SharedTime.Duration() > settling {
		for i, figure := range [4]int{npc, own, other, other} {
			g.host[figure].add(at[i], ground)
		}
	}
	for i, p := range g.peers {
		welcome, _ := g.server.Announce(uint64(i), g.usec(g.clock))
		g.send(&p.host, &p.end, func() {
			_ = p.loop.OnWelcome(welcome, g.usec(p.clock)) // an overtaken one changes nothing
			p.states[welcome.Tick] = at
		})
	}
}

// clientPlays plays a tick: the player stands on what it sees.
func (g *game) clientPlays(i int, s tick.Update) {
	p := g.peers[i]
	under := platform(g.rule.own(s.Clocks))
	beside := platform(g.rule.others(s.Clocks))
	epoch, _ := g.server.Epoch()
	g.send(&p.end, &p.host, func() {
		if g.server.Accept(epoch, s.Tick, g.usec(g.clock)) {
			at := g.inputs[s.Tick]
			at[2+i] = under
			g.inputs[s.Tick] = at
		}
	})
	seen, ok := p.seen(s.ServerTime) // the others, in server time
	if i > 0 || !ok || s.ServerTime.Duration() < settling {
		return
	}
	mine := under
	if g.rule.decide {
		mine = seen[2]
	}
	g.client[own].add(mine, under)
	g.client[other].add(seen[3], beside)
	g.client[npc].add(seen[0], beside)
}

// seen returns what a client draws at a time: between the states of two ticks, if it has both.
func (p *peer) seen(at tick.Time) (figuresAt, bool) {
	from, ok1 := p.states[at.Tick()]
	to, ok2 := p.states[at.Tick()+1]
	for i := range from {
		from[i] += time.Duration(float64(to[i]-from[i]) * at.Fraction())
	}
	return from, ok1 && ok2
}
