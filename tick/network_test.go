// A server and a client over the simulated network, with the synchronizer of the core.

package tick

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
)

// match is a server and a client over the simulated network, either of which can be
// killed and started again as another process: with a clock that starts anew, and
// with nothing kept. Both send 60 datagrams a second, and those of the server carry a
// Welcome: each of them, or, if the seed is odd, one a second.
type match struct {
	t          *testing.T
	world      *simnet.World
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
	node *simnet.Node
	path *simnet.Link // to the other machine
	sync *timesync.TimeSynchronizer
	rec  recorder
	base uint64 // what the machine's clock read at 0 of the process's clock
	life int    // how many processes there were
}

func (p *process) now() uint64 { return p.node.NowUsec() - p.base }

// start starts another process. Its clock may wrap soon.
func (p *process) start(rng *rand.Rand) {
	p.sync = &timesync.TimeSynchronizer{}
	p.base = p.node.NowUsec() + 10_000_000 - rng.Uint64N(20_000_000)
	p.life++
}

// send sends a datagram, which does at the other side what arrives does. The connection of an
// earlier process is another: its datagrams are not for this synchronizer (link sees to that).
// What they carry is looked at nevertheless.
func (m *match) send(from, to *process, arrives func(fresh bool)) {
	b := sim.StartDatagram(from.sync, from.now())
	life := from.life
	m.world.Pass(from.path, m.rng, func() {
		fresh := life == from.life
		if m.cut || m.onlyNew && !fresh {
			return
		}
		if fresh {
			sim.OpenDatagram(to.sync, b, to.now())
		}
		arrives(fresh)
	})
}

const matchTolerance = sec / 60

// newMatch starts a match on a path that has 30 ms, 5 ms of jitter, and holds one datagram of 50
// back for half a second: long enough to arrive in another life. The client has a SyncBound, so
// that it does not start by a first datagram that was held back. It draws frames of 1 to 30 ms.
func newMatch(t *testing.T, seed uint64, stop simnet.ClockEvent) *match {
	m := &match{t: t, world: simnet.NewWorld(seed), welcomeEvery: 1 + int(seed%2)*59}
	m.rng = m.world.Rand("test")
	machine := func(spec simnet.ClockSpec, seed uint64) process {
		spec.OffsetUsec = m.rng.Uint64()
		delay := simnet.Sum(simnet.Uniform(0, ms(5)), simnet.Sometimes(0.02, simnet.Const(ms(500))))
		path := &simnet.Link{Base: simnet.Fixed(ms(30)), Delay: delay}
		return process{node: m.world.Node("", simnet.NewClock(spec, seed)), path: path}
	}
	m.hub = machine(simnet.ClockSpec{SkewPPM: 40}, seed)
	m.spoke = machine(simnet.ClockSpec{SkewPPM: -30, Events: []simnet.ClockEvent{stop}}, seed+1)
	m.startServer(ServerConfig{})
	m.startClient()
	m.world.Every(sec/60, 0, func() {
		m.serverSends()
		m.clientSends()
	})
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
	if w, ok := m.server.Announce(1, m.hub.now()); ok {
		m.sent++
		welcomes := m.sent%m.welcomeEvery == 0
		m.send(&m.hub, &m.spoke, func(fresh bool) { m.atClient(w, welcomes, fresh) })
	}
}

// atClient takes a message of the game, of the tick of w, and w itself if the server welcomes.
func (m *match) atClient(w Welcome, welcomes, fresh bool) {
	if m.client == nil {
		return
	}
	before, entered := m.client.Epoch()
	err := ErrMessage
	if welcomes {
		err = m.client.OnWelcome(w, m.spoke.now()) // overtaken ones are refused
	}
	accepted := m.client.Accept(w.Epoch, w.Tick, m.spoke.now())
	after, ok := m.client.Epoch()
	sees := func(e Event) bool { return e.Epoch == m.server.epoch }
	takes := accepted || err == nil || ok && after != before
	if !fresh && takes && entered && slices.ContainsFunc(m.spoke.rec.events, sees) {
		m.wrong = append(m.wrong, fmt.Sprintf("%v: %+v, %v", m.world.Now(), w, err))
	}
}

func (m *match) clientSends() {
	if m.client == nil || m.cut {
		return
	}
	h, says := m.client.Hello()
	m.send(&m.spoke, &m.hub, func(bool) {
		if m.server != nil && says {
			_ = m.server.OnHello(1, h)
		}
	})
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

func (m *match) check() {
	m.t.Helper()
	if recovered := m.lastApart - m.markedAt; recovered > 3*sec {
		m.t.Errorf("out of step for %v", recovered)
	}
	if len(m.wrong) > 0 {
		m.t.Error("the client took from an old life: ", m.wrong)
	}
	m.spoke.rec.check(m.t)
}

// TestLongPing: with 0.5 to 6 s of ping both ends agree on the shared time, and each tick runs
// once and in order.
func TestLongPing(t *testing.T) {
	for _, ping := range []time.Duration{sec / 2, sec, 2 * sec, 6 * sec} {
		for seed := uint64(74_500_000); seed < 74_500_004; seed++ {
			m := newMatch(t, seed, simnet.ClockEvent{})
			for _, p := range []*process{&m.hub, &m.spoke} {
				p.path.Base = simnet.Fixed(ping / 2)
			}
			// No bound is as wide.
			m.client = mustClient(m.spoke.rec.client(ClientConfig{}), m.spoke.sync)
			m.client.Start(m.spoke.now())
			m.run(10*sec + 5*ping)
			m.mark()
			m.run(30 * sec)
			m.check()
			t.Logf("seed %d, %v of ping: the shared clocks are at most %v apart",
				seed, ping, m.worst)
			if m.worst > matchTolerance {
				t.Errorf("seed %d, %v of ping: the shared clocks are %v apart", seed, ping, m.worst)
			}
		}
	}
}

// TestHoursOfDrift: for hours, with clocks 70 ppm apart, both ends stay in step. They drift apart
// by half a second in two hours.
func TestHoursOfDrift(t *testing.T) {
	lasting := testkit.Sized(5*time.Minute, 20*time.Minute, 2*time.Hour)
	m := newMatch(t, 74_600_000, simnet.ClockEvent{})
	m.run(10 * sec)
	m.mark()
	m.run(lasting)
	m.check()
	t.Logf("in %v the shared clocks are at most %v apart", lasting, m.worst)
	if m.worst > matchTolerance {
		t.Errorf("in %v the shared clocks are %v apart", lasting, m.worst)
	}
}
