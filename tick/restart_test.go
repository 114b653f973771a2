// Either side may be killed, stopped, put to sleep or cut off: both are in step again
// within 3 s, and nothing of an old life is accepted.

package tick

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"timesync"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
)

var worlds = testkit.Count("seeds", "worlds of each restart", 1, 4, 10)

// Either side is killed after 20 s and started again, or the client is away: they are in step
// within 3 s without help, 10 of 1,500 clients later than 2 s, and take nothing from the old life.
// A client says what it did not run.
func TestRestart(t *testing.T) {
	// ends between two Welcomes of one a second
	const life, minutes = 20_500 * time.Millisecond, 5 * time.Minute
	serve := func(cfg ServerConfig) func(m *match) { return func(m *match) { m.startServer(cfg) } }
	wait := func(d time.Duration) func(m *match) { return func(m *match) { m.run(d) } }
	seq := func(steps ...func(m *match)) func(m *match) {
		return func(m *match) {
			for _, step := range steps {
				step(m)
			}
		}
	}
	server := seq(func(m *match) { m.server = nil }, wait(ms(300)), serve(ServerConfig{}))
	client := seq(func(m *match) { m.client = nil }, wait(ms(300)), (*match).startClient)
	newHub := func(m *match) { m.hub.sync = &timesync.TimeSynchronizer{} }
	reconnect := (*match).reconnect
	again := serve(ServerConfig{})
	soon := wait(ms(400))
	away := func(d time.Duration, asleep bool) func(m *match) {
		return func(m *match) {
			m.cut, m.asleep = true, asleep
			m.run(d)
			if !asleep && m.worst > matchTolerance {
				m.t.Errorf("%v apart", m.worst)
			}
			m.spoke.rec.told(m.t, "away", "[synced]")
			m.cut, m.asleep = false, false
			m.mark()
		}
	}
	for _, tt := range []struct {
		name    string
		steps   uint32 // of the client at most
		restart func(m *match)
		goesOn  bool          // the game does: nothing is skipped
		stops   time.Duration // for which the client's clock stops
		says    Event         // what the client says then, once
	}{
		{name: "server", steps: 1, restart: server},
		{name: "server with a new connection", steps: 1, restart: seq(server, reconnect)},
		{name: "server stopped and started", steps: 1, restart: func(m *match) {
			m.server.Stop()
			m.run(ms(300))
			m.server.Start(m.hub.now())
			m.hub.life++
		}},
		{
			name:    "server twice",
			steps:   2,
			restart: seq(again, reconnect, soon, again, reconnect, soon),
		},
		{name: "server twice, found out", steps: 3, restart: seq(again, soon, again, soon)},
		{name: "client", restart: client},
		{name: "client with a new connection", restart: seq(client, newHub)},
		{name: "both", restart: seq(again, (*match).startClient)},
		// Its epoch is earlier than the one that is over.
		{name: "server whose wall clock was set back", steps: 1, restart: func(m *match) {
			epoch, _ := m.server.Epoch()
			m.startServer(ServerConfig{Epoch: epoch - uint64(time.Hour.Microseconds())})
		}},
		// A change to another server, whatever its epoch, by Follow: its connection
		// is not this one's.
		{
			name:  "another server",
			steps: 1,
			restart: seq(
				serve(ServerConfig{Epoch: 5, FirstTick: 10_000}),
				reconnect,
				func(m *match) { m.onlyNew = true },
			),
		},
		// The connection alone is another: the game goes on.
		{name: "new connection", goesOn: true, steps: 2, restart: seq(newHub, reconnect)},
		{name: "no network for 5 min", restart: away(minutes, false), goesOn: true},
		{
			name:    "asleep for 30 s",
			steps:   1,
			restart: away(minutes/10, true),
			stops:   minutes / 10,
			says:    Event{Kind: EventStepped, By: minutes / 10},
		},
		{
			name:    "asleep for 5 min",
			steps:   1,
			restart: away(minutes, true),
			stops:   minutes,
			says:    Event{Kind: EventStepped, By: minutes},
		},
		{
			name:    "asleep for 5 min, but not its clock",
			steps:   1,
			restart: away(minutes, true),
			says:    Event{Kind: EventStalled, By: minutes},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(worlds()) {
				m := newMatch(t, seed, simnet.ClockEvent{At: life, For: tt.stops, PPM: -1e6})
				m.mark()
				m.run(life)
				m.check()
				m.mark()
				tt.restart(m)
				m.run(life)
				m.check()
				if _, ok := m.client.Hello(); ok ||
					m.hub.rec.events[len(m.hub.rec.events)-1].Kind != EventClientSynced {
					t.Errorf("a Hello to send: %v; server %v", ok, m.hub.rec.events)
				}
				if n := m.client.Stats().Steps; n > tt.steps {
					t.Errorf("%d steps: client %v", n, m.spoke.rec.events)
				}
				changes := m.spoke.rec.of(EventEpochChanged)
				if tt.goesOn && (m.client.Stats().Skipped > 0 || len(changes) > 0) {
					t.Errorf("client %v", m.spoke.rec.events)
				}
				said := m.spoke.rec.of(tt.says.Kind)
				if tt.says.Kind != 0 &&
					(len(said) != 1 || said[0].Again || (said[0].By-tt.says.By).Abs() > ms(100)) {
					t.Errorf("want once %v; client %v", tt.says, m.spoke.rec.events)
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
			_, ok := s.Epoch()
			check(t, ok, false, "an epoch before Start")
			for start := range 5 { // all within a microsecond
				s.Start(0)
				epoch, ok := s.Epoch()
				check(t, ok && epoch > last, true, "start %d of process %d: epoch %d after %d",
					start, process, epoch, last)
				last = epoch
				s.Stop()
			}
			time.Sleep(5 * us)
		}
	})
}

// What a client refuses before its first Welcome, or a server before Start, says
// nothing about old epochs.
func TestEarly(t *testing.T) {
	c := startClient(ClientConfig{}, &fakeRemote{})
	check(t, c.Accept(1, 0, 0), false, "before the first Welcome")
	check(t, c.Stats(), Stats{Early: 1}, "before the first Welcome")
	_, known := c.Epoch()
	_, says := c.Hello()
	if _, timed := c.Timing(); known || says || timed {
		t.Error("an epoch, a Hello or a Timing before the first Welcome")
	}
	must(t, c.OnWelcome(Welcome{Epoch: 7}, 0))
	c.Advance(0)
	epoch, _ := c.Epoch()
	if epoch != 7 || !c.Accept(7, 0, 0) || c.Accept(6, 0, 0) || c.Stats().Early != 1 ||
		c.Stats().OldEpoch != 1 {
		t.Errorf("after it: epoch %d, %+v", epoch, c.Stats())
	}
	s := mustServer(ServerConfig{Epoch: 7})
	_, starts := s.StartUsec(3, 0)
	check(t, starts, false, "when a tick starts is known before Start")
	check(t, s.OnHello(1, Hello{Epoch: 7}), ErrEpoch, "before Start")
	check(t, s.Stats(), Stats{Early: 1}, "before Start")
	s.Start(0)
	check(t, s.OnHello(1, Hello{Epoch: 6}), ErrEpoch, "after it")
	check(t, s.Stats(), Stats{OldEpoch: 1, Debt: 1}, "after it")
}

// Stop and Pause from inside of handlers take effect at once. A loop that a handler stops and
// starts again does not go on with the old frame.
func TestStopInHandler(t *testing.T) {
	var l *Server
	var log []string
	note := func(name string) func(Update) {
		return func(s Update) { log = append(log, fmt.Sprint(name, s.Tick)) }
	}
	on := Handlers{
		BeforeLoop: func() { log = append(log, "<") }, AfterLoop: func() { log = append(log, ">") },
		BeforeTick: note("b"), AfterTick: note("a"),
		Tick: func(s Update) {
			note("t")(s)
			switch s.Tick {
			case 2:
				l.Pause(50_000)
			case 4:
				l.Stop()
				l.Start(300_000)
			}
		},
	}
	l = startServer(ServerConfig{Handlers: on})
	// at the second, ticks 1 to 6 are due
	for _, now := range []uint64{0, 100_000, 150_000, 200_000, 300_000, 320_000} {
		if now == 200_000 {
			l.Resume(now)
		}
		l.Advance(now)
	}
	want := "[< b0 t0 a0 > < b1 t1 a1 b2 t2 a2 > < b3 t3 a3 b4 t4 < b0 t0 a0 > < b1 t1 a1 >]"
	check(t, fmt.Sprint(log), want, "calls")
}
