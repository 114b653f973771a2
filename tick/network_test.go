// A server and a client over the simulated network, with the synchronizer of the core.

package tick

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim"
)

// match is a server and a client over the simulated network, either of which can be
// killed and started again as another process: with a clock that starts anew, and
// with nothing kept. Both send 60 datagrams a second, and those of the server carry a
// Welcome: each of them, or, if the seed is odd, one a second.
type match struct {
	t          *testing.T
	world      *sim.World
	rng        *rand.Rand
	hub, spoke process // of the server, of the client
	server     *Server
	client     *Client

	cut     bool // the network is lost
	asleep  bool // the client is
	onlyNew bool // what a server sent before is not delivered

	sent, welcomeEvery int // datagrams of the server

	worst     time.Duration // how far the shared clocks were apart, since mark
	markedAt  time.Duration // world time of mark
	lastApart time.Duration // world time when they were last out of step
	wrong     []string      // what was taken from an old life
}

// process is a process and the machine that it runs on.
type process struct {
	node *sim.Node
	sync *timesync.TimeSynchronizer
	rec  recorder
	base uint64 // what the machine's clock read at 0 of the process's clock
	life byte   // how many processes there were: sent along, to tell who sent a message
}

func (p *process) now() uint64 { return p.node.NowUsec() - p.base }

// start starts another process. Its clock may wrap soon.
func (p *process) start(rng *rand.Rand) {
	p.sync = &timesync.TimeSynchronizer{}
	p.base = p.node.NowUsec() + 10_000_000 - rng.Uint64N(20_000_000)
	p.life++
}

// datagram starts a datagram: stamp, life, epoch and time of a message of the game.
func (p *process) datagram(epoch uint64, at time.Duration) []byte {
	b := append(sim.StartDatagram(p.sync, p.now()), p.life)
	b = binary.LittleEndian.AppendUint64(b, epoch)
	return binary.LittleEndian.AppendUint64(b, uint64(at))
}

// open opens a datagram of the process peer. The connection of an earlier process is another:
// its datagrams are not for this synchronizer (link sees to that). The game's messages are looked
// at nevertheless.
func (p *process) open(b []byte, peer *process) (fresh bool, epoch uint64, at time.Duration, message []byte) {
	if fresh = b[7] == peer.life; fresh {
		sim.OpenDatagram(p.sync, b, p.now())
	}
	b = b[8:]
	return fresh, binary.LittleEndian.Uint64(b), time.Duration(binary.LittleEndian.Uint64(b[8:])), b[16:]
}

const matchTolerance = sec / 60

// newMatch starts a match on a path that has 30 ms, 5 ms of jitter, and holds one datagram of 50
// back for half a second: long enough to arrive in another life. The client has a SyncBound, so
// that it does not start by a first datagram that was held back. It draws frames of 1 to 30 ms.
func newMatch(t *testing.T, seed uint64, stop sim.ClockEvent) *match {
	m := &match{t: t, world: sim.NewWorld(seed), welcomeEvery: 1 + int(seed%2)*59}
	path := func() *sim.Link {
		return &sim.Link{Base: sim.Fixed(ms(30)), Delay: sim.Sum(sim.Uniform(0, ms(5)), sim.Sometimes(0.02, sim.Const(ms(500))))}
	}
	hub, spoke := sim.ClockSpec{SkewPPM: 40}, sim.ClockSpec{SkewPPM: -30, Events: []sim.ClockEvent{stop}}
	m.rng = m.world.Rand("test")
	hub.OffsetUsec, spoke.OffsetUsec = m.rng.Uint64(), m.rng.Uint64()
	m.hub.node = m.world.Node("hub", sim.NewClock(hub, seed))
	m.spoke.node = m.world.Node("spoke", sim.NewClock(spoke, seed+1))
	m.world.Connect(m.spoke.node, m.hub.node, path(), path())
	m.hub.node.OnReceive = func(_ *sim.Node, b []byte) { m.atServer(b) }
	m.spoke.node.OnReceive = func(_ *sim.Node, b []byte) { m.atClient(b) }
	m.startServer(ServerConfig{})
	m.startClient()
	m.world.Every(sec/60, 0, func() { m.serverSends(); m.clientSends() })
	m.world.Every(ms(4), 0, func() {
		if m.server != nil {
			m.server.Advance(m.hub.now())
		}
		m.compare()
	})
	var frame func()
	frame = func() {
		if m.client != nil && !m.asleep {
			m.client.Advance(m.spoke.now())
		}
		m.world.At(m.world.Now()+ms(1)+time.Duration(m.rng.Int64N(int64(ms(30)))), frame)
	}
	frame()
	return m
}

func (m *match) run(d time.Duration) { m.world.Run(m.world.Now() + d) }

func (m *match) startServer(cfg ServerConfig) {
	m.server = mustServer(m.hub.rec.server(cfg))
	m.hub.start(m.rng)
	m.server.Start(m.hub.now())
	// The next process starts later by the wall clock, too, from which it draws its epoch.
	// In a browser that clock shows whole milliseconds only.
	for began := time.Now().UnixMicro(); time.Now().UnixMicro() == began; {
	}
}

func (m *match) startClient() {
	m.spoke.start(m.rng)
	m.spoke.rec = recorder{}
	m.client = mustClient(m.spoke.rec.client(ClientConfig{SyncBound: ms(100)}), m.spoke.sync)
	m.sent = m.welcomeEvery - 1 // a Welcome when it joins
	m.client.Start(m.spoke.now())
}

// reconnect gives the client a fresh synchronizer.
func (m *match) reconnect() {
	m.spoke.sync = &timesync.TimeSynchronizer{}
	must(m.t, m.client.Follow(m.spoke.sync))
}

func (m *match) serverSends() {
	if m.server == nil || m.cut {
		return
	}
	w, ok := m.server.Announce(1, m.hub.now())
	if !ok {
		return
	}
	at, _ := m.server.SharedTime(m.hub.now())
	b := m.hub.datagram(w.Epoch, at.Duration())
	if m.sent++; m.sent%m.welcomeEvery == 0 {
		b, _ = w.AppendBinary(b)
	}
	m.hub.node.Send(m.spoke.node, b)
}

func (m *match) clientSends() {
	if m.client == nil || m.cut {
		return
	}
	epoch, _ := m.client.Epoch()
	at, _ := m.client.PredictedTime(m.spoke.now())
	b := m.spoke.datagram(epoch, at.Duration())
	if h, ok := m.client.Hello(); ok {
		b, _ = h.AppendBinary(b)
	}
	m.spoke.node.Send(m.hub.node, b)
}

func (m *match) atClient(b []byte) {
	if m.client == nil || m.cut || m.onlyNew && b[7] != m.hub.life {
		return
	}
	fresh, epoch, at, message := m.spoke.open(b, &m.hub)
	before, entered := m.client.Epoch()
	var w Welcome
	err := w.UnmarshalBinary(message)
	if err == nil {
		err = m.client.OnWelcome(w, m.spoke.now()) // overtaken ones are refused
	}
	accepted := m.client.Accept(epoch, Hz(60).Ticks(at), m.spoke.now())
	after, ok := m.client.Epoch()
	if !fresh && entered && m.spoke.rec.sees(m.server) && (accepted || err == nil || ok && after != before) {
		m.wrong = append(m.wrong, fmt.Sprintf("client at %v: %+v, %v", m.world.Now(), w, err))
	}
}

// sees reports whether the client has seen the epoch of s.
func (r *recorder) sees(s *Server) bool {
	return slices.ContainsFunc(r.events, func(e Event) bool { return e.Epoch == s.epoch })
}

func (m *match) atServer(b []byte) {
	if m.server == nil || m.cut {
		return
	}
	_, epoch, at, message := m.hub.open(b, &m.spoke)
	if m.server.Accept(epoch, Hz(60).Ticks(at), m.hub.now()) && epoch != m.server.epoch {
		m.wrong = append(m.wrong, fmt.Sprintf("server at %v: epoch %d", m.world.Now(), epoch))
	}
	var h Hello
	if h.UnmarshalBinary(message) == nil && m.server.OnHello(1, h) == nil && h.Epoch != m.server.epoch {
		m.wrong = append(m.wrong, fmt.Sprintf("server at %v: %+v", m.world.Now(), h))
	}
}

// compare notes whether both are in step.
func (m *match) compare() {
	var a, b Clocks
	var okA, okB bool
	if m.client != nil {
		a, okA = m.client.Snapshot(m.spoke.now())
	}
	if m.server != nil {
		b, okB = m.server.Snapshot(m.hub.now())
	}
	apart := a.SharedTime.Sub(b.SharedTime).Abs()
	if !okA || !okB || m.client.now.epoch != m.server.epoch || apart > matchTolerance {
		m.lastApart = m.world.Now()
	}
	m.worst = max(m.worst, apart)
}

// mark starts to measure.
func (m *match) mark() { m.worst, m.markedAt, m.lastApart = 0, m.world.Now(), m.world.Now() }

// recovered returns how long after mark they were out of step.
func (m *match) recovered() time.Duration { return m.lastApart - m.markedAt }

func (m *match) check(t *testing.T) {
	t.Helper()
	if m.recovered() > 3*sec {
		t.Errorf("out of step for %v", m.recovered())
	}
	for _, w := range m.wrong {
		t.Error("from the old life: ", w)
	}
	m.spoke.rec.check(t)
}
