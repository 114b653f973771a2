// SPDX-License-Identifier: BSD-3-Clause

// This test proves which clock to sample for what moves: the elevator problem of
// Unity's Network Time System, on simulated links with a round trip of 200 ms.
//
// A platform goes up by a formula of time that every peer evaluates. On it
// stand your own player, the player of somebody else and a figure that the host moves
// (NPC). Players are where their own client says (client authority), or in the last
// case where the host says. Each client sends, at every tick, where its player is,
// stamped with predicted time. The host puts it there at that tick and sends all
// positions to everybody, and a client shows them at its server time.
//
// The question is at which time to evaluate the formula. If a figure stands in one
// time and the platform is shown in another, the figure is seen sinking into it or
// floating above it. The test prints by how much, in time: "250ms" is where the
// platform was 250 ms ago, where the document has 200 and no buffers. It fails if what it
// finds is not what the document says, which stands in brackets. So show a platform in the time of what
// stands on it: predicted time for what you play, server time for what you watch.
//
//	go test ./examples/elevator -v
package elevator

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
	// gap is how far predicted time is ahead of server time: the round trip, and the
	// buffers of 1 and 2 ticks at 60 a second.
	gap       = 2*oneWay + 50*time.Millisecond
	tolerance = 5 * time.Millisecond
	settling  = 3 * time.Second // to synchronize: it does not count
)

// platform is where the platform is at a game time: it rises all the time, so a height is a time, too.
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
	own = iota
	other
	npc
)

func server(c tick.Clocks) tick.Time    { return c.ServerTime }
func predicted(c tick.Clocks) tick.Time { return c.PredictedTime }

var rules = []rule{
	{
		name: "in server time (client authority)", own: server, others: server,
		client: lags{other: gap}, host: lags{other: gap},
	},
	{
		name: "in predicted time (client authority)", own: predicted, others: predicted,
		client: lags{other: gap, npc: gap},
	},
	{
		name: "predicted under your own player, in server time under all others (client authority)",
		own:  predicted, others: server,
	},
	{name: "in server time, and nobody predicts (host authority)", decide: true, own: server, others: server},
}

// The figures stand where the document says. A platform in another time than the document's is found out.
func TestElevator(t *testing.T) {
	t.Logf("round trip %v, buffers %v: predicted time is %v ahead of server time", 2*oneWay, gap-2*oneWay, gap)
	for _, r := range rules {
		if !right(t, r) {
			t.Error("it does not hold")
		}
	}
	wrong := rules[0]
	wrong.own = func(c tick.Clocks) tick.Time { return c.SharedTime }
	if wrong.name = "in shared time, which is wrong"; right(t, wrong) {
		t.Error("the shared clock passes for the server clock")
	}
}

// right plays by a rule, and reports whether the figures stand where expected.
func right(t *testing.T, r rule) (right bool) {
	client, host := play(r)
	right = true
	t.Logf("Platform %s; on the client and on the host behind it by", r.name)
	for i, name := range []string{"own player", "other player", "NPC"} {
		right = right && client[i].near(r.client[i]) && host[i].near(r.host[i])
		t.Logf("%-14s%12s%12s  (%v, %v)", name, client[i], host[i], r.client[i], r.host[i])
	}
	return right
}

// lag is how far a figure is behind, at each tick.
type lag []time.Duration

func (l *lag) add(figure, platform time.Duration) { *l = append(*l, platform-figure) }

func (l lag) near(want time.Duration) bool {
	return len(l) > 100 && slices.Min(l) > want-tolerance && slices.Max(l) < want+tolerance
}

func (l lag) String() string {
	if len(l) == 0 {
		return "never seen"
	}
	return ((slices.Min(l) + slices.Max(l)) / 2).Round(time.Millisecond).String()
}

// figuresAt holds where the figures of the game are: the NPC, then the players by peer,
// the host being peer 0.
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

// play lets a host and two clients play for 10 s and returns what is seen on client 1
// and on the host.
func play(r rule) (client, host [3]lag) {
	clock := func(i int) simnet.Clock {
		return simnet.NewClock(simnet.ClockSpec{OffsetUsec: uint64(i) * 7_777_777_777, SkewPPM: float64(20 * i)}, 1)
	}
	g := &game{World: simnet.NewWorld(1), rule: r, clock: clock(0), inputs: map[tick.Tick]figuresAt{}}
	g.server, _ = tick.NewServer(tick.ServerConfig{Handlers: tick.Handlers{Tick: g.hostPlays}}) // nothing that it refuses
	g.server.Start(g.usec(g.clock))
	g.Every(time.Millisecond, 0, func() { g.server.Advance(g.usec(g.clock)) })
	for i := range g.peers {
		p := &peer{end: end{clock: clock(i + 1)}, host: end{clock: g.clock}, states: map[tick.Tick]figuresAt{}}
		g.peers[i] = p
		handlers := tick.Handlers{Tick: func(s tick.Info) { g.clientPlays(i, s) }}
		p.loop, _ = tick.NewClient(tick.ClientConfig{Handlers: handlers}, &p.sync)
		p.loop.Start(g.usec(p.clock))
		g.Every(4*time.Millisecond, 0, func() {
			if p.loop.Advance(g.usec(p.clock)) == 0 && !p.sync.IsSynchronized() {
				g.send(&p.end, &p.host, func() {}) // to have something to synchronize by
			}
		})
	}
	g.Run(10 * time.Second)
	return g.client, g.host
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

// hostPlays plays a tick. All clocks of the host are equal: it does not matter which it samples.
func (g *game) hostPlays(s tick.Info) {
	ground := platform(s.SharedTime)
	at := g.inputs[s.Tick] // nothing yet at first
	delete(g.inputs, s.Tick)
	at[0], at[1] = ground, ground // the NPC and the host's own player
	if g.rule.decide {
		at[2], at[3] = ground, ground
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
func (g *game) clientPlays(i int, s tick.Info) {
	under, beside := platform(g.rule.own(s.Clocks)), platform(g.rule.others(s.Clocks))
	p := g.peers[i]
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

// seen returns what a client shows at a time: between the states of two ticks.
func (p *peer) seen(at tick.Time) (figuresAt, bool) {
	a, ok1 := p.states[at.Tick()]
	b, ok2 := p.states[at.Tick()+1]
	for i := range a {
		a[i] += time.Duration(float64(b[i]-a[i]) * at.Fraction())
	}
	return a, ok1 && ok2
}
