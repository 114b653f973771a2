// Either side may be killed, stopped, put to sleep or cut off: both are in step again
// within 2 s, and nothing of an old life is accepted.

package tick

import (
	"encoding/binary"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"timesync"
	"timesync/internal/long"
	"timesync/internal/sim"
)

// match is a server and a client over the simulated network, either of which can be
// killed and started again as another process: with a clock that starts anew, and
// with nothing kept. Both send 60 datagrams a second, and those of the server carry a
// Welcome: each of them, or one a second. A path has 30 ms, 5 ms of jitter, and holds
// one datagram of 50 back for half a second: long enough to arrive in another life. The
// client has a SyncBound, so that it does not start by a first datagram that was held
// back.
type match struct {
	t          *testing.T
	world      *sim.World
	hub, spoke *sim.Node

	server     *Server
	serverSync *timesync.TimeSynchronizer
	serverRec  recorder
	serverBase uint64 // what the hub's clock read when the process started

	client     *Client
	clientSync *timesync.TimeSynchronizer
	clientRec  recorder
	clientBase uint64
	cut        bool // the network is lost
	asleep     bool // the client is
	onlyNew    bool // what a server sent before is not delivered

	sent, welcomeEvery int // datagrams of the server

	uptime    func() uint64 // of a new process when it starts the game, microseconds
	life      [2]uint64     // how many clients, servers there were: sent along, to tell who sent a message
	worst     time.Duration // how far the shared clocks were apart, since mark
	markedAt  time.Duration // world time of mark
	lastApart time.Duration // world time when they were last out of step
	wrong     []string      // what was taken from an old life
	old       int           // messages of an old life that were refused
}

var worlds = long.Count("seeds", "worlds of each restart", 4, 4, 10)

const matchTolerance = time.Second / 60

func newMatch(t *testing.T, seed uint64, spec sim.ClockSpec) *match {
	m := &match{t: t, world: sim.NewWorld(seed), welcomeEvery: 1 + int(seed%2)*59}
	rng := m.world.Rand("test")
	m.uptime = func() uint64 { return rng.Uint64N(10_000_000) }
	path := func() *sim.Link {
		return &sim.Link{Base: sim.Fixed(ms(30)), Delay: sim.Sum(sim.Uniform(0, ms(5)), sim.Sometimes(0.02, sim.Const(ms(500))))}
	}
	hub, spokes := m.world.Star(1, func(i int) *sim.Clock {
		s := sim.ClockSpec{OffsetUsec: rng.Uint64(), SkewPPM: 40}
		if i == 1 {
			spec.OffsetUsec, spec.SkewPPM = rng.Uint64(), -30
			s = spec
		}
		return sim.NewClock(s, seed+uint64(i))
	}, func(int) (up, down *sim.Link) { return path(), path() })
	m.hub, m.spoke = hub, spokes[0]
	m.hub.OnReceive = func(_ *sim.Node, b []byte) { m.atServer(b) }
	m.spoke.OnReceive = func(_ *sim.Node, b []byte) { m.atClient(b) }
	every(m.world, time.Second/60, func() { m.serverSends(); m.clientSends() })
	every(m.world, ms(4), func() {
		if m.server != nil {
			m.server.Advance(m.serverNow())
		}
		if m.client != nil && !m.asleep {
			m.client.Advance(m.clientNow())
		}
		m.compare()
	})
	return m
}

func (m *match) run(d time.Duration) { m.world.Run(m.world.Now() + d) }

func (m *match) serverNow() uint64 { return m.hub.NowUsec() - m.serverBase }
func (m *match) clientNow() uint64 { return m.spoke.NowUsec() - m.clientBase }

func (m *match) startServer(cfg ServerConfig) {
	m.server, m.serverSync = mustServer(m.serverRec.server(cfg)), &timesync.TimeSynchronizer{}
	m.serverBase = m.hub.NowUsec() - m.uptime()
	m.life[1]++
	m.server.Start(m.serverNow())
	// The next process starts later by the wall clock, too, from which it draws its epoch.
	// In a browser that clock shows whole milliseconds only.
	for began := time.Now().UnixMicro(); time.Now().UnixMicro() == began; {
	}
}

func (m *match) startClient() {
	m.clientRec = recorder{}
	m.clientSync = &timesync.TimeSynchronizer{}
	m.client = mustClient(m.clientRec.client(ClientConfig{SyncBound: ms(100)}), m.clientSync)
	m.clientBase = m.spoke.NowUsec() - m.uptime()
	m.life[0]++
	m.sent = m.welcomeEvery - 1 // a Welcome when it joins
	m.client.Start(m.clientNow())
}

// reconnect gives the client a fresh synchronizer.
func (m *match) reconnect() {
	m.clientSync = &timesync.TimeSynchronizer{}
	if err := m.client.Follow(m.clientSync); err != nil {
		m.t.Fatal(err)
	}
}

// A datagram: stamp, the lives of sender and receiver as the sender knows them, epoch
// and tick of a message of the game, and a Welcome or, perhaps, a Hello.

func (m *match) serverSends() {
	if m.server == nil || m.cut {
		return
	}
	b := sim.StartDatagram(m.serverSync, m.serverNow())
	w, ok := m.server.Announce(1, m.serverNow())
	if !ok {
		return
	}
	b = append(b, byte(m.life[1]))
	b = binary.LittleEndian.AppendUint64(b, w.Epoch)
	b = binary.LittleEndian.AppendUint64(b, uint64(w.Tick))
	if m.sent++; m.sent%m.welcomeEvery == 0 {
		b, _ = w.AppendBinary(b)
	}
	m.hub.Send(m.spoke, b)
}

func (m *match) clientSends() {
	if m.client == nil || m.cut {
		return
	}
	b := append(sim.StartDatagram(m.clientSync, m.clientNow()), byte(m.life[0]))
	epoch, _ := m.client.Epoch()
	c, _ := m.client.Snapshot(m.clientNow())
	b = binary.LittleEndian.AppendUint64(b, epoch)
	b = binary.LittleEndian.AppendUint64(b, uint64(c.PredictedTime.Tick()))
	if h, ok := m.client.Hello(); ok {
		b, _ = h.AppendBinary(b)
	}
	m.spoke.Send(m.hub, b)
}

func (m *match) atClient(b []byte) {
	if m.client == nil || m.cut {
		return
	}
	// The connection of an earlier process is another: its datagrams are not for this
	// synchronizer (link sees to that). The game's messages are looked at nevertheless.
	life := b[7]
	if m.onlyNew && uint64(life) != m.life[1] {
		return
	}
	if uint64(life) == m.life[1] {
		sim.OpenDatagram(m.clientSync, b, m.clientNow())
	}
	b = b[8:]
	before, entered := m.client.Epoch()
	var w Welcome
	err := w.UnmarshalBinary(b[16:])
	if err == nil {
		err = m.client.OnWelcome(w, m.clientNow())
	}
	accepted := m.client.Accept(binary.LittleEndian.Uint64(b), Tick(binary.LittleEndian.Uint64(b[8:])), m.clientNow())
	if after, ok := m.client.Epoch(); entered && uint64(life) != m.life[1] && m.clientRec.sees(m.server) && (accepted || err == nil || ok && after != before) {
		m.wrong = append(m.wrong, fmt.Sprintf("client at %v: %+v, %v", m.world.Now(), w, err))
	} else if uint64(life) != m.life[1] && err != nil {
		m.old++
	}
}

// sees reports whether the client has seen the epoch of s.
func (r *recorder) sees(s *Server) bool {
	for _, e := range r.events {
		if e.Epoch == s.epoch {
			return true
		}
	}
	return false
}

func (m *match) atServer(b []byte) {
	if m.server == nil || m.cut {
		return
	}
	if uint64(b[7]) == m.life[0] {
		sim.OpenDatagram(m.serverSync, b, m.serverNow())
	}
	b = b[8:]
	epoch := binary.LittleEndian.Uint64(b)
	if m.server.Accept(epoch, Tick(binary.LittleEndian.Uint64(b[8:])), m.serverNow()) && epoch != m.server.epoch {
		m.wrong = append(m.wrong, fmt.Sprintf("server at %v: epoch %d", m.world.Now(), epoch))
	}
	var h Hello
	if h.UnmarshalBinary(b[16:]) == nil {
		if err := m.server.OnHello(1, h); err == nil && h.Epoch != m.server.epoch {
			m.wrong = append(m.wrong, fmt.Sprintf("server at %v: %+v", m.world.Now(), h))
		}
	}
}

func (m *match) compare() {
	var a, b Clocks
	var okA, okB bool
	if m.client != nil {
		a, okA = m.client.Snapshot(m.clientNow())
	}
	if m.server != nil {
		b, okB = m.server.Snapshot(m.serverNow())
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

func (m *match) check(t *testing.T, within time.Duration) {
	t.Helper()
	if m.recovered() > within {
		t.Errorf("out of step for %v", m.recovered())
	}
	for _, w := range m.wrong {
		t.Error("from the old life: ", w)
	}
	m.clientRec.check(t)
}

// Either side is killed after 20 s and started again, and they are in step within 2 s
// without help, and take nothing from the old life.
func TestRestart(t *testing.T) {
	const life = 20 * time.Second
	for _, tt := range []struct {
		name    string
		within  time.Duration
		steps   uint32 // of the client at most
		restart func(m *match)
	}{
		{"server", 2 * time.Second, 1, func(m *match) {
			m.server = nil
			m.run(ms(300))
			m.startServer(ServerConfig{})
		}},
		{"server with a new connection", 2 * time.Second, 1, func(m *match) {
			m.server = nil
			m.run(ms(300))
			m.startServer(ServerConfig{})
			m.reconnect()
		}},
		{"server stopped and started", 2 * time.Second, 1, func(m *match) {
			m.server.Stop()
			m.run(ms(300))
			m.server.Start(m.serverNow())
			m.life[1]++
		}},
		{"server twice", 2 * time.Second, 2, func(m *match) {
			for range 2 {
				m.startServer(ServerConfig{})
				m.reconnect()
				m.run(ms(400))
			}
		}},
		{"server twice, found out", 2 * time.Second, 3, func(m *match) {
			for range 2 {
				m.startServer(ServerConfig{})
				m.run(ms(400))
			}
		}},
		{"client", 2 * time.Second, 0, func(m *match) {
			m.client = nil
			m.run(ms(300))
			m.startClient()
		}},
		{"client with a new connection", 2 * time.Second, 0, func(m *match) {
			m.client = nil
			m.run(ms(300))
			m.startClient()
			m.serverSync = &timesync.TimeSynchronizer{}
		}},
		{"both", 2 * time.Second, 0, func(m *match) {
			m.startServer(ServerConfig{})
			m.startClient()
		}},
		// Its epoch is earlier than the one that is over.
		{"server whose wall clock was set back", 2 * time.Second, 1, func(m *match) {
			epoch, _ := m.server.Epoch()
			m.startServer(ServerConfig{Epoch: epoch - uint64(time.Hour.Microseconds())})
		}},
		// A change to another server, whatever its epoch, by Follow.
		{"another server", 2 * time.Second, 1, func(m *match) {
			m.startServer(ServerConfig{Epoch: 5, FirstTick: 10_000})
			m.reconnect()
			m.onlyNew = true // the other server's connection is not this one's
		}},
		// The connection alone is another: the game goes on.
		{"new connection", 2 * time.Second, 2, func(m *match) {
			m.serverSync = &timesync.TimeSynchronizer{}
			m.reconnect()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var slowest time.Duration
			old := 0
			for seed := range uint64(worlds()) {
				m := newMatch(t, seed, sim.ClockSpec{})
				m.startServer(ServerConfig{})
				m.startClient()
				m.mark()
				m.run(life)
				m.check(t, 2*time.Second)
				m.mark()
				tt.restart(m)
				m.run(life)
				m.check(t, tt.within)
				slowest, old = max(slowest, m.recovered()), old+m.old
				if _, ok := m.client.Hello(); ok || m.serverRec.events[len(m.serverRec.events)-1].Kind != EventClientSynced {
					t.Errorf("a Hello to send: %v; server %v", ok, m.serverRec.events)
				}
				if n := m.client.Stats().Steps; n > tt.steps {
					t.Errorf("%d steps: client %v", n, m.clientRec.events)
				}
				if s := m.client.Stats(); tt.name == "new connection" && (s.Skipped > 0 || len(m.clientRec.of(EventEpochChanged)) > 0) {
					t.Errorf("client %v", m.clientRec.events)
				}
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
			t.Logf("in step after %v at most; %d messages of an old life refused", slowest, old)
		})
	}
}

// What a client does that was away: it is in step again within 2 s, and says what it
// did not run.
func TestAway(t *testing.T) {
	for _, tt := range []struct {
		name   string
		away   time.Duration
		stops  bool      // its clock stops meanwhile
		asleep bool      // it does nothing meanwhile; otherwise only the network is lost
		kind   EventKind // what says so, once
	}{
		{"no network for 5 min", 5 * time.Minute, false, false, 0},
		{"asleep for 30 s", 30 * time.Second, true, true, EventStepped},
		{"asleep for 5 min", 5 * time.Minute, true, true, EventStepped},
		{"asleep for 5 min, but not its clock", 5 * time.Minute, false, true, EventStalled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const from = 20500 * time.Millisecond // between two Welcomes of one a second
			var spec sim.ClockSpec
			if tt.stops {
				spec.Events = []sim.ClockEvent{{At: from, For: tt.away, PPM: -1e6}}
			}
			var slowest time.Duration
			for seed := range uint64(worlds()) {
				m := newMatch(t, seed, spec)
				m.startServer(ServerConfig{})
				m.startClient()
				m.run(from)
				m.mark()
				m.cut, m.asleep = true, tt.asleep
				m.run(tt.away)
				worst := m.worst
				m.cut, m.asleep = false, false
				m.mark()
				m.run(20 * time.Second)
				m.check(t, 2*time.Second)
				slowest = max(slowest, m.recovered())
				said, steps := m.clientRec.of(tt.kind), m.client.Stats().Steps
				if tt.kind == 0 && fmt.Sprint(m.clientRec.events) != "[synced]" || tt.kind != 0 && (len(said) != 1 || steps > 1 || said[0].Again || (said[0].By-tt.away).Abs() > ms(100)) {
					t.Errorf("client %v", m.clientRec.events)
				}
				if !tt.asleep && worst > matchTolerance {
					t.Errorf("%v apart", worst)
				}
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
			t.Logf("in step after %v at most", slowest)
		})
	}
}

// Each start has a later epoch than those before, in the same process and in others.
func TestEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := uint64(0)
		for process := range 5 {
			s := mustServer(ServerConfig{})
			if _, ok := s.Epoch(); ok {
				t.Error("an epoch before Start")
			}
			for start := range 5 { // all within a microsecond
				s.Start(0)
				epoch, ok := s.Epoch()
				if w, _ := s.Announce(0, 0); !ok || epoch <= last || w.Epoch != epoch {
					t.Errorf("start %d of process %d: epoch %d after %d, announced %d", start, process, epoch, last, w.Epoch)
				}
				last = epoch
				s.Stop()
			}
			time.Sleep(5 * time.Microsecond)
		}
	})
}

// What a client refuses before its first Welcome, or a server before Start, says
// nothing about old epochs.
func TestEarly(t *testing.T) {
	c := startClient(ClientConfig{}, &fakeRemote{})
	if c.Accept(1, 0, 0) || c.Stats().Early != 1 || c.Stats().OldEpoch != 0 {
		t.Errorf("before the first Welcome: %+v", c.Stats())
	}
	_, known := c.Epoch()
	if _, says := c.Hello(); known || says {
		t.Error("an epoch or a Hello before the first Welcome")
	}
	must(t, c.OnWelcome(Welcome{Epoch: 7}, 0))
	c.Advance(0)
	if epoch, ok := c.Epoch(); !ok || epoch != 7 {
		t.Errorf("epoch %d", epoch)
	}
	if !c.Accept(7, 0, 0) || c.Accept(6, 0, 0) || c.Stats().Early != 1 || c.Stats().OldEpoch != 1 {
		t.Errorf("after it: %+v", c.Stats())
	}
	s := mustServer(ServerConfig{Epoch: 7})
	if err := s.OnHello(1, Hello{Epoch: 7}); err != ErrEpoch || s.Stats().Early != 1 || s.Stats().OldEpoch != 0 {
		t.Errorf("before Start: %v, %+v", err, s.Stats())
	}
	s.Start(0)
	if err := s.OnHello(1, Hello{Epoch: 6}); err != ErrEpoch || s.Stats().Early != 0 || s.Stats().OldEpoch != 1 {
		t.Errorf("after it: %v, %+v", err, s.Stats())
	}
}

// Stop, Pause and a rate change from inside of handlers take effect at once.
func TestStopInHandler(t *testing.T) {
	var l *Server
	var log []string
	after := func(name string) func(Info) {
		return func(s Info) { log = append(log, fmt.Sprint(name, s.Tick)) }
	}
	on := Handlers{
		BeforeLoop: func() { log = append(log, "<") }, AfterLoop: func() { log = append(log, ">") },
		BeforeTick: after("b"), AfterTick: after("a"),
		Tick: func(s Info) {
			log = append(log, fmt.Sprint("t", s.Tick))
			if s.Tick == 2 {
				l.Pause(50_000)
			}
			if s.Tick == 4 {
				l.Stop()
			}
		},
	}
	l = startServer(ServerConfig{Handlers: on})
	l.Advance(0)
	l.Advance(100_000) // ticks 1 to 6 are due
	l.Advance(150_000)
	l.Resume(200_000)
	l.Advance(200_000)
	l.Advance(300_000)
	want := "[< b0 t0 a0 > < b1 t1 a1 b2 t2 a2 > < b3 t3 a3 b4 t4]"
	if got := fmt.Sprint(log); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A loop that a handler stops and starts again does not go on with the old frame.
func TestRestartInHandler(t *testing.T) {
	var l *Server
	var ran []Tick
	l = mustServer(ServerConfig{
		Handlers: Handlers{
			Tick: func(s Info) {
				ran = append(ran, s.Tick)
				if s.Tick == 2 {
					l.Stop()
					l.Start(100_000)
				}
			},
		},
	})
	l.Start(0)
	l.Advance(0)
	l.Advance(100_000)
	l.Advance(120_000)
	if got := fmt.Sprint(ran); got != "[0 1 2 0 1]" {
		t.Errorf("ran %v", got)
	}
}
