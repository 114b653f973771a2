// Either side may be killed, stopped, put to sleep or cut off: both are in step again
// within 2 s, and nothing of an old life is accepted.

package tick

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"timesync"
	"timesync/internal/long"
	"timesync/internal/sim"
)

var worlds = long.Count("seeds", "worlds of each restart", 4, 4, 10)

// newRestart starts a match on a path that has 30 ms, 5 ms of jitter, and holds one datagram of 50
// back for half a second: long enough to arrive in another life. The client has a SyncBound, so
// that it does not start by a first datagram that was held back.
func newRestart(t *testing.T, seed uint64, events ...sim.ClockEvent) *match {
	path := func() *sim.Link {
		return &sim.Link{Base: sim.Fixed(ms(30)), Delay: sim.Sum(sim.Uniform(0, ms(5)), sim.Sometimes(0.02, sim.Const(ms(500))))}
	}
	hub, spoke := sim.ClockSpec{SkewPPM: 40}, sim.ClockSpec{SkewPPM: -30, Events: events}
	return newMatch(t, seed, ClientConfig{SyncBound: ms(100)}, hub, spoke, path(), path())
}

// Either side is killed after 20 s and started again, and they are in step within 2 s
// without help, and take nothing from the old life.
func TestRestart(t *testing.T) {
	const life = 20 * time.Second
	server := func(m *match) {
		m.server = nil
		m.run(ms(300))
		m.startServer(ServerConfig{})
	}
	client := func(m *match) {
		m.client = nil
		m.run(ms(300))
		m.startClient()
	}
	for _, tt := range []struct {
		name    string
		steps   uint32 // of the client at most
		restart func(m *match)
	}{
		{"server", 1, server},
		{"server with a new connection", 1, func(m *match) {
			server(m)
			m.reconnect()
		}},
		{"server stopped and started", 1, func(m *match) {
			m.server.Stop()
			m.run(ms(300))
			m.server.Start(m.hub.now())
			m.hub.life++
		}},
		{"server twice", 2, func(m *match) {
			for range 2 {
				m.startServer(ServerConfig{})
				m.reconnect()
				m.run(ms(400))
			}
		}},
		{"server twice, found out", 3, func(m *match) {
			for range 2 {
				m.startServer(ServerConfig{})
				m.run(ms(400))
			}
		}},
		{"client", 0, client},
		{"client with a new connection", 0, func(m *match) {
			client(m)
			m.hub.sync = &timesync.TimeSynchronizer{}
		}},
		{"both", 0, func(m *match) {
			m.startServer(ServerConfig{})
			m.startClient()
		}},
		// Its epoch is earlier than the one that is over.
		{"server whose wall clock was set back", 1, func(m *match) {
			epoch, _ := m.server.Epoch()
			m.startServer(ServerConfig{Epoch: epoch - uint64(time.Hour.Microseconds())})
		}},
		// A change to another server, whatever its epoch, by Follow.
		{"another server", 1, func(m *match) {
			m.startServer(ServerConfig{Epoch: 5, FirstTick: 10_000})
			m.reconnect()
			m.onlyNew = true // the other server's connection is not this one's
		}},
		// The connection alone is another: the game goes on.
		{"new connection", 2, func(m *match) {
			m.hub.sync = &timesync.TimeSynchronizer{}
			m.reconnect()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(worlds()) {
				m := newRestart(t, seed)
				m.mark()
				m.run(life)
				m.check(t)
				m.mark()
				tt.restart(m)
				m.run(life)
				m.check(t)
				if _, ok := m.client.Hello(); ok || m.hub.rec.events[len(m.hub.rec.events)-1].Kind != EventClientSynced {
					t.Errorf("a Hello to send: %v; server %v", ok, m.hub.rec.events)
				}
				if n := m.client.Stats().Steps; n > tt.steps {
					t.Errorf("%d steps: client %v", n, m.spoke.rec.events)
				}
				if s := m.client.Stats(); tt.name == "new connection" && (s.Skipped > 0 || len(m.spoke.rec.of(EventEpochChanged)) > 0) {
					t.Errorf("client %v", m.spoke.rec.events)
				}
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
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
			var events []sim.ClockEvent
			if tt.stops {
				events = []sim.ClockEvent{{At: from, For: tt.away, PPM: -1e6}}
			}
			for seed := range uint64(worlds()) {
				m := newRestart(t, seed, events...)
				m.run(from)
				m.mark()
				m.cut, m.asleep = true, tt.asleep
				m.run(tt.away)
				worst := m.worst
				m.cut, m.asleep = false, false
				m.mark()
				m.run(20 * time.Second)
				m.check(t)
				said, steps := m.spoke.rec.of(tt.kind), m.client.Stats().Steps
				if tt.kind == 0 && fmt.Sprint(m.spoke.rec.events) != "[synced]" || tt.kind != 0 && (len(said) != 1 || steps > 1 || said[0].Again || (said[0].By-tt.away).Abs() > ms(100)) {
					t.Errorf("client %v", m.spoke.rec.events)
				}
				if !tt.asleep && worst > matchTolerance {
					t.Errorf("%v apart", worst)
				}
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
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
	_, says := c.Hello()
	if _, timed := c.Timing(); known || says || timed {
		t.Error("an epoch, a Hello or a Timing before the first Welcome")
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

// Stop and Pause from inside of handlers take effect at once. A loop that a handler stops and starts
// again does not go on with the old frame.
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
				l.Start(300_000)
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
	l.Advance(320_000)
	want := "[< b0 t0 a0 > < b1 t1 a1 b2 t2 a2 > < b3 t3 a3 b4 t4 < b0 t0 a0 > < b1 t1 a1 >]"
	if got := fmt.Sprint(log); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
