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
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim"
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

// platform is where the platform is at a game time, in metres.
func platform(at tick.Time) float64 { return at.Duration().Seconds() }

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

// add adds by how much time a figure is behind a platform, which rises by 1 m/s.
func (l *lag) add(figure, platform float64) {
	*l = append(*l, time.Duration((platform-figure)*float64(time.Second)))
}

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
type figuresAt [4]float64

// input says where a client's player is at a tick.
type input struct {
	Tick tick.Tick
	At   float64
}

// peer is a client in the simulated world.
type peer struct {
	node   *sim.Node
	loop   *tick.Client
	sync   timesync.TimeSynchronizer
	hosts  timesync.TimeSynchronizer // the host's end of the connection
	states map[tick.Tick]figuresAt   // what the host sent
}

// game is a host, which is the hub, and its clients, and what is seen on client 1 and on the host.
type game struct {
	rule         rule
	world        *sim.World
	hub          *sim.Node
	server       *tick.Server
	epoch        uint64
	inputs       map[tick.Tick]figuresAt // by the tick for which clients sent them
	peers        []*peer
	client, host [3]lag
}

// play lets a host and two clients play for 10 s and returns what is seen on client 1
// and on the host.
func play(r rule) (client, host [3]lag) {
	g := &game{rule: r, world: sim.NewWorld(1), inputs: map[tick.Tick]figuresAt{}}
	node := func(i int) *sim.Node {
		spec := sim.ClockSpec{OffsetUsec: uint64(i) * 7_777_777_777, SkewPPM: float64(20 * i)}
		return g.world.Node(fmt.Sprint(i), sim.NewClock(spec, 1))
	}
	g.hub = node(0)
	g.server, _ = tick.NewServer(tick.ServerConfig{Handlers: tick.Handlers{Tick: g.hostPlays}}) // nothing that it refuses
	g.server.Start(g.hub.NowUsec())
	g.epoch, _ = g.server.Epoch()
	g.hub.OnReceive = g.hostTakes
	g.world.Every(time.Millisecond, 0, func() { g.server.Advance(g.hub.NowUsec()) })
	for i := range 2 {
		client := node(i + 1)
		g.world.Connect(client, g.hub, &sim.Link{Base: sim.Fixed(oneWay)}, &sim.Link{Base: sim.Fixed(oneWay)})
		g.join(client)
	}
	g.world.Run(10 * time.Second)
	return g.client, g.host
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
		b := sim.StartDatagram(&p.hosts, g.hub.NowUsec())
		b, _ = binary.Append(b, binary.LittleEndian, at)
		welcome, _ := g.server.Announce(uint64(i), g.hub.NowUsec())
		b, _ = welcome.AppendBinary(b)
		g.hub.Send(p.node, b)
	}
}

// hostTakes takes a datagram of a client.
func (g *game) hostTakes(from *sim.Node, b []byte) {
	i := slices.IndexFunc(g.peers, func(p *peer) bool { return p.node == from })
	b = sim.OpenDatagram(&g.peers[i].hosts, b, g.hub.NowUsec())
	var in input
	if _, err := binary.Decode(b, binary.LittleEndian, &in); err == nil && g.server.Accept(g.epoch, in.Tick, g.hub.NowUsec()) {
		at := g.inputs[in.Tick]
		at[2+i] = in.At
		g.inputs[in.Tick] = at
	}
}

// join adds a client.
func (g *game) join(node *sim.Node) {
	p := &peer{node: node, states: map[tick.Tick]figuresAt{}}
	g.peers = append(g.peers, p)
	handlers := tick.Handlers{Tick: func(s tick.Info) { g.clientPlays(p, s) }}
	p.loop, _ = tick.NewClient(tick.ClientConfig{Handlers: handlers}, &p.sync)
	p.loop.Start(node.NowUsec())
	node.OnReceive = func(_ *sim.Node, b []byte) { p.take(b) }
	g.world.Every(4*time.Millisecond, 0, func() {
		if p.loop.Advance(node.NowUsec()) == 0 && !p.sync.IsSynchronized() {
			// To have something to synchronize by.
			node.Send(g.hub, sim.StartDatagram(&p.sync, node.NowUsec()))
		}
	})
}

// clientPlays plays a tick: the player stands on what it sees.
func (g *game) clientPlays(p *peer, s tick.Info) {
	under := platform(g.rule.own(s.Clocks))
	beside := platform(g.rule.others(s.Clocks))
	mine := under
	b := sim.StartDatagram(&p.sync, p.node.NowUsec())
	b, _ = binary.Append(b, binary.LittleEndian, input{s.Tick, mine})
	p.node.Send(g.hub, b)

	seen, ok := p.seen(s.ServerTime) // the others, in server time
	if p != g.peers[0] || !ok || s.ServerTime.Duration() < settling {
		return
	}
	if g.rule.decide {
		mine = seen[2]
	}
	g.client[own].add(mine, under)
	g.client[other].add(seen[3], beside)
	g.client[npc].add(seen[0], beside)
}

// take takes a datagram of the host.
func (p *peer) take(b []byte) {
	b = sim.OpenDatagram(&p.sync, b, p.node.NowUsec())
	var welcome tick.Welcome
	var at figuresAt
	n, err := binary.Decode(b, binary.LittleEndian, &at)
	if err != nil || welcome.UnmarshalBinary(b[n:]) != nil {
		return
	}
	// An overtaken one changes nothing.
	_ = p.loop.OnWelcome(welcome, p.node.NowUsec())
	p.states[welcome.Tick] = at
}

// seen returns what a client shows at a time: between the states of two ticks.
func (p *peer) seen(at tick.Time) (figuresAt, bool) {
	a, ok1 := p.states[at.Tick()]
	b, ok2 := p.states[at.Tick()+1]
	for i := range a {
		a[i] += (b[i] - a[i]) * at.Fraction()
	}
	return a, ok1 && ok2
}
