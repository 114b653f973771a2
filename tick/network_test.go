// Over the simulated network, by the synchronizer of the core, the clocks are as far
// apart as promised.

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
	"timesync/internal/stat"
)

// match is a server and a client over the simulated network, either of which can be
// killed and started again as another process: with a clock that starts anew, and
// with nothing kept. Both send 60 datagrams a second, and those of the server carry a
// Welcome: each of them, or, if the seed is odd, one a second.
type match struct {
	t          *testing.T
	world      *sim.World
	rng        *rand.Rand
	cfg        ClientConfig
	hub, spoke process // of the server, of the client
	server     *Server
	client     *Client

	cut     bool // the network is lost
	asleep  bool // the client is
	onlyNew bool // what a server sent before is not delivered

	sent, welcomeEvery int // datagrams of the server

	onInput func(ahead time.Duration) // at the server: by how much what the client plays is early
	onState func(state time.Duration) // at the client: the time of the server when it sent

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

// newMatch starts a match on machines with such clocks. The client draws frames of 1 to 30 ms.
func newMatch(t *testing.T, seed uint64, cfg ClientConfig, hub, spoke sim.ClockSpec, up, down *sim.Link) *match {
	m := &match{t: t, world: sim.NewWorld(seed), cfg: cfg, welcomeEvery: 1 + int(seed%2)*59}
	m.rng = m.world.Rand("test")
	m.onInput, m.onState = func(time.Duration) {}, func(time.Duration) {}
	hub.OffsetUsec, spoke.OffsetUsec = m.rng.Uint64(), m.rng.Uint64()
	m.hub.node = m.world.Node("hub", sim.NewClock(hub, seed))
	m.spoke.node = m.world.Node("spoke", sim.NewClock(spoke, seed+1))
	m.world.Connect(m.spoke.node, m.hub.node, up, down)
	m.hub.node.OnReceive = func(_ *sim.Node, b []byte) { m.atServer(b) }
	m.spoke.node.OnReceive = func(_ *sim.Node, b []byte) { m.atClient(b) }
	m.startServer(ServerConfig{Config: Config{Rate: cfg.Rate}})
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
	m.client = mustClient(m.spoke.rec.client(m.cfg), m.spoke.sync)
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
	b := m.hub.datagram(w.Epoch, m.truth())
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
	accepted := m.client.Accept(epoch, m.cfg.Rate.Ticks(at), m.spoke.now())
	after, ok := m.client.Epoch()
	if fresh {
		m.onState(at)
	} else if entered && m.spoke.rec.sees(m.server) && (accepted || err == nil || ok && after != before) {
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
	if epoch == m.server.epoch {
		m.onInput(at - m.truth())
	}
	if m.server.Accept(epoch, m.cfg.Rate.Ticks(at), m.hub.now()) && epoch != m.server.epoch {
		m.wrong = append(m.wrong, fmt.Sprintf("server at %v: epoch %d", m.world.Now(), epoch))
	}
	var h Hello
	if h.UnmarshalBinary(message) == nil && m.server.OnHello(1, h) == nil && h.Epoch != m.server.epoch {
		m.wrong = append(m.wrong, fmt.Sprintf("server at %v: %+v", m.world.Now(), h))
	}
}

// truth is the server's game time now.
func (m *match) truth() time.Duration {
	at, _ := m.server.SharedTime(m.hub.now())
	return at.Duration()
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

func path(base, jitter time.Duration) *sim.Link {
	return &sim.Link{Base: sim.Fixed(base), Delay: sim.Uniform(0, jitter)}
}

// The shared clock is as right as the synchronizer: without jitter to a unit of 8 us and a microsecond
// of each clock, with 20 ms of jitter within 5 ms, and datagrams that come 300 ms late change nothing.
func TestSharedClock(t *testing.T) {
	late := func(_ *rand.Rand, at time.Duration) time.Duration {
		if at > 5*sec && at < ms(5020) {
			return ms(300)
		}
		return 0
	}
	for _, tt := range []struct {
		name     string
		link     sim.Link
		from     time.Duration
		length   time.Duration
		quantile float64
		most     time.Duration
	}{
		{"no jitter", sim.Link{Base: sim.Fixed(ms(50))}, 0, 10 * sec, 1, 10 * us},
		{"jitter", sim.Link{Base: sim.Fixed(ms(30)), Delay: sim.Exp(ms(20))}, 10 * sec, 2 * time.Minute, 0.99, ms(5)},
		{"late datagrams", sim.Link{Base: sim.Fixed(ms(40)), Delay: late}, 0, 10 * sec, 1, ms(1)},
	} {
		up, down := tt.link, tt.link
		m := newMatch(t, 4, ClientConfig{}, sim.ClockSpec{}, sim.ClockSpec{}, &up, &down)
		var errs []time.Duration
		m.world.Every(ms(3), 0, func() {
			if g, ok := m.client.SharedTime(m.spoke.now()); ok && m.world.Now() > tt.from {
				errs = append(errs, (g.Duration() - m.truth()).Abs())
			}
		})
		m.run(tt.from + tt.length)
		if worst := stat.Quantile(errs, tt.quantile); len(errs) < 3000 || worst > tt.most {
			t.Errorf("%s: error up to %v in %d readings", tt.name, worst, len(errs))
		}
		m.spoke.rec.told(t, tt.name, "[synced]")
	}
}

// 80 ms up, 20 ms down. The shared clock is 30 ms off, which nobody
// can see, but predicted and server time do not care.
func TestAsymmetric(t *testing.T) {
	for _, tt := range []struct {
		up, down time.Duration
		rate     Rate
		shared   time.Duration
	}{
		{ms(80), ms(20), Hz(60), ms(30)},
		{ms(20), ms(80), Hz(60), -ms(30)},
		{ms(150), ms(150), Hz(30), 0},
		{ms(300), ms(300), Hz(30), 0},
	} {
		t.Run(fmt.Sprint(tt.up, "/", tt.down), func(t *testing.T) {
			cfg := ClientConfig{Config: Config{Rate: tt.rate}, ClientBuffer: tt.rate.Duration(1) + ms(20)}
			m := newMatch(t, 6, cfg, sim.ClockSpec{}, sim.ClockSpec{}, path(tt.up, ms(4)), path(tt.down, ms(3)))
			inputs, bad, most := 0, 0, tt.rate.Duration(3)
			m.onInput = func(ahead time.Duration) {
				if inputs++; ahead < 0 || ahead > most {
					bad++
				}
			}
			newest := -time.Hour
			m.onState = func(state time.Duration) { newest = max(newest, state) }
			renders, underruns := 0, 0
			var sharedError time.Duration
			m.world.Every(ms(5), 0, func() {
				c, ok := m.client.Snapshot(m.spoke.now())
				if !ok {
					return
				}
				if renders++; c.ServerTime.Duration() > newest {
					underruns++
				}
				sharedError = c.SharedTime.Duration() - m.truth()
			})
			m.run(time.Minute)
			if inputs < 500 || renders < 1000 || bad*100 > inputs {
				t.Errorf("of %d inputs %d are late or more than %v early; %d renders", inputs, bad, most, renders)
			}
			check(t, underruns, 0, "renders before their state")
			if d := sharedError - tt.shared; d.Abs() > ms(2) {
				t.Errorf("shared error %v, want about %v", sharedError, tt.shared)
			}
			m.spoke.rec.told(t, "client", "[synced]")
			m.hub.rec.told(t, "server", "[synced peer 1 synced]")
		})
	}
}
