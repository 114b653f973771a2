// Over the simulated network, by the synchronizer of the core, the clocks are as far
// apart as promised.

package tick

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim"
	"timesync/internal/stat"
)

// A star of a server and its clients over the deterministic network: datagrams both
// ways, each of them stamped for the core package, carrying Welcome, Hello and a
// payload of the test.

const originUsec = math.MaxUint64 - 3_000_000 // of the server's clock; wraps after 3 s

type network struct {
	t       *testing.T
	world   *sim.World
	rng     *rand.Rand
	server  *Server
	hub     *sim.Node
	hubRec  recorder
	clients []*client
	// What a client sends is its predicted time, and the server its own.
	onInput func(ahead time.Duration)            // at the server, by how much it is early
	onState func(c *client, state time.Duration) // at the client
}

type client struct {
	id    int
	node  *sim.Node
	loop  *Client
	rec   recorder
	sync  timesync.TimeSynchronizer // the client's
	atHub timesync.TimeSynchronizer // the server's of this client
}

// newNetwork joins n clients of a configuration. Both sides send every 1/60 s, and
// clients draw frames of 1 to 30 ms.
func newNetwork(t *testing.T, seed uint64, n int, cfg ClientConfig, link func(i int) (up, down *sim.Link)) *network {
	t.Logf("seed %d", seed)
	w := &network{t: t, world: sim.NewWorld(seed), onInput: func(time.Duration) {}, onState: func(*client, time.Duration) {}}
	w.rng = w.world.Rand("test")
	clock := func(i int) *sim.Clock {
		spec := sim.ClockSpec{OffsetUsec: w.rng.Uint64()}
		if i == 0 {
			spec.OffsetUsec = originUsec
		}
		return sim.NewClock(spec, seed+uint64(i))
	}
	hub, spokes := w.world.Star(n, clock, link)
	w.hub = hub
	w.server = mustServer(w.hubRec.server(ServerConfig{Config: Config{Rate: cfg.Rate}}))
	w.server.Start(hub.NowUsec())
	w.every(time.Millisecond, func() { w.server.Advance(hub.NowUsec()) })
	for i, node := range spokes {
		c := &client{id: i, node: node}
		w.clients = append(w.clients, c)
		c.loop = mustClient(c.rec.client(cfg), &c.sync)
		c.loop.Start(node.NowUsec())
		w.every(time.Second/60, func() {
			b := sim.StartDatagram(&c.sync, node.NowUsec())
			hello, _ := c.loop.Hello() // also when it was heard
			b, _ = hello.AppendBinary(b)
			if p, ok := c.loop.PredictedTime(node.NowUsec()); ok {
				b = binary.LittleEndian.AppendUint64(b, uint64(p.Duration()))
			}
			node.Send(hub, b)
		})
		w.every(time.Second/60, func() {
			b := sim.StartDatagram(&c.atHub, hub.NowUsec())
			welcome, _ := w.server.Announce(uint64(c.id), hub.NowUsec())
			b, _ = welcome.AppendBinary(b)
			hub.Send(node, binary.LittleEndian.AppendUint64(b, uint64(w.truth())))
		})
		var frame func()
		frame = func() {
			c.loop.Advance(node.NowUsec())
			w.world.At(w.world.Now()+ms(1)+time.Duration(w.rng.Int64N(int64(ms(30)))), frame)
		}
		frame()
		node.OnReceive = func(_ *sim.Node, b []byte) {
			b = sim.OpenDatagram(&c.sync, b, node.NowUsec())
			var welcome Welcome
			must(t, welcome.UnmarshalBinary(b[:welcomeSize]))
			_ = c.loop.OnWelcome(welcome, node.NowUsec()) // overtaken ones are refused
			w.onState(c, time.Duration(binary.LittleEndian.Uint64(b[welcomeSize:])))
		}
	}
	hub.OnReceive = func(from *sim.Node, b []byte) {
		c := w.clients[slices.Index(spokes, from)]
		b = sim.OpenDatagram(&c.atHub, b, hub.NowUsec())
		var hello Hello
		must(t, hello.UnmarshalBinary(b[:helloSize]))
		if c.sync.IsSynchronized() {
			_ = w.server.OnHello(uint64(c.id), hello)
		}
		if b = b[helloSize:]; len(b) > 0 {
			w.onInput(time.Duration(binary.LittleEndian.Uint64(b)) - w.truth())
		}
	}
	return w
}

func (w *network) every(period time.Duration, f func()) {
	w.world.At(w.world.Now()+time.Duration(w.rng.Int64N(int64(ms(16)))), func() { every(w.world, period, f) })
}

// every calls f now, and again after each period.
func every(world *sim.World, period time.Duration, f func()) {
	f()
	world.At(world.Now()+period, func() { every(world, period, f) })
}

// truth is the server's game time now.
func (w *network) truth() time.Duration {
	return time.Duration(int64(w.hub.NowUsec()-originUsec)) * time.Microsecond
}

func path(base, jitter time.Duration) *sim.Link {
	return &sim.Link{Base: sim.Fixed(base), Delay: sim.Uniform(0, jitter)}
}

func seconds(n int) int {
	if testing.Short() {
		return max(n/10, 10)
	}
	return n
}

// The shared clock is as right as the synchronizer: without jitter to a unit of 8 us and a microsecond
// of each clock, with 20 ms of jitter within 5 ms, and datagrams that come 300 ms late change nothing.
func TestSharedClock(t *testing.T) {
	late := func(_ *rand.Rand, at time.Duration) time.Duration {
		if at > 5*time.Second && at < 5020*time.Millisecond {
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
		{"no jitter", sim.Link{Base: sim.Fixed(ms(50))}, 0, 10 * time.Second, 1, 10 * time.Microsecond},
		{"jitter", sim.Link{Base: sim.Fixed(ms(30)), Delay: sim.Exp(ms(20))}, 10 * time.Second, time.Duration(seconds(120)) * time.Second, 0.99, ms(5)},
		{"late datagrams", sim.Link{Base: sim.Fixed(ms(40)), Delay: late}, 0, 10 * time.Second, 1, time.Millisecond},
	} {
		w := newNetwork(t, 4, 1, ClientConfig{}, func(int) (*sim.Link, *sim.Link) {
			up, down := tt.link, tt.link
			return &up, &down
		})
		c := w.clients[0]
		var errs []time.Duration
		w.every(ms(3), func() {
			if g, ok := c.loop.SharedTime(c.node.NowUsec()); ok && w.world.Now() > tt.from {
				errs = append(errs, (g.Duration() - w.truth()).Abs())
			}
		})
		w.world.Run(tt.from + tt.length)
		if len(errs) < 3000 {
			t.Fatalf("%s: %d readings", tt.name, len(errs))
		}
		worst := stat.Quantile(errs, tt.quantile)
		t.Logf("%s: shared error up to %v in %d readings", tt.name, worst, len(errs))
		if worst > tt.most || len(c.rec.events) != 1 {
			t.Errorf("%s: error up to %v, events %v", tt.name, worst, c.rec.events)
		}
		c.rec.check(t)
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
			w := newNetwork(t, 6, 2, cfg, func(int) (*sim.Link, *sim.Link) { return path(tt.up, ms(4)), path(tt.down, ms(3)) })
			margin := tt.rate.Duration(2)
			late, early, inputs, worst := 0, 0, 0, time.Duration(0)
			w.onInput = func(ahead time.Duration) {
				inputs++
				worst = max(worst, ahead)
				switch {
				case ahead < 0:
					late++
				case ahead > margin+tt.rate.Duration(1):
					early++
				}
			}
			newest := [2]time.Duration{-time.Hour, -time.Hour}
			w.onState = func(c *client, state time.Duration) { newest[c.id] = max(newest[c.id], state) }
			renders, underruns, behind := 0, 0, time.Duration(0)
			var sharedError time.Duration
			for _, c := range w.clients {
				w.every(ms(5), func() {
					now := c.node.NowUsec()
					s, ok := c.loop.ServerTime(now)
					if !ok {
						return
					}
					renders++
					if s.Duration() > newest[c.id] {
						underruns++
					}
					behind = max(behind, newest[c.id]-s.Duration())
					g, _ := c.loop.SharedTime(now)
					sharedError = g.Duration() - w.truth()
				})
			}
			w.world.Run(time.Duration(seconds(60)) * time.Second)
			if inputs < 1000 || renders < 1000 {
				t.Fatalf("%d inputs, %d renders", inputs, renders)
			}
			if bad := late + early; bad*100 > inputs {
				t.Errorf("of %d inputs %d are late and %d more than %v early", inputs, late, early, margin+tt.rate.Duration(1))
			}
			if underruns != 0 {
				t.Errorf("%d of %d renders before their state", underruns, renders)
			}
			if d := sharedError - tt.shared; d.Abs() > ms(2) {
				t.Errorf("shared error %v, want about %v", sharedError, tt.shared)
			}
			for _, c := range w.clients {
				c.rec.check(t)
				if len(c.rec.events) != 1 {
					t.Errorf("events %v", c.rec.events)
				}
			}
			if n := len(w.hubRec.of(EventClientSynced)); n != 2 {
				t.Errorf("%d clients reported as synced", n)
			}
			t.Logf("%d inputs: %d late, %d too early, at most %v ahead; %d renders: %d underruns, at most %v behind; shared error %v",
				inputs, late, early, worst, renders, underruns, behind, sharedError)
		})
	}
}

// knowsOne is a synchronizer that keeps the delay to the server to itself.
type knowsOne struct{ RemoteClock }

// A path becomes longer for good: both ways, or the one to the server alone. No clock goes back. A
// client that is told so by its remote clock sends its inputs early enough again 20 s later: 15 s until
// the core believes the new minimum, and 50 ms less the buffer of 33 ms slewed at 1 %. Without that,
// all are late for minutes.
func TestRouteGetsLonger(t *testing.T) {
	const change, length = 20 * time.Second, 60 * time.Second
	for _, tt := range []struct {
		name        string
		down        time.Duration // by which the way from the server becomes longer
		alone       bool          // nobody tells of the way to the server
		least, most time.Duration // until when inputs are late
	}{
		{"both ways", ms(50), false, 0, 20 * time.Second},
		{"to the server", 0, false, 0, 20 * time.Second},
		{"to the server, without being told", 0, true, length - change - time.Second, length},
	} {
		w := newNetwork(t, 29, 1, ClientConfig{}, func(int) (up, down *sim.Link) {
			longer := func(by time.Duration) *sim.Link {
				return &sim.Link{Base: sim.Route(ms(20), sim.RouteStep{At: change, Change: by}), Delay: sim.Uniform(0, ms(3))}
			}
			return longer(ms(50)), longer(tt.down)
		})
		c := w.clients[0]
		if tt.alone {
			must(t, c.loop.Follow(knowsOne{&c.sync}))
		}
		inputs, lateUntil := 0, time.Duration(0)
		w.onInput = func(ahead time.Duration) {
			if inputs++; ahead < 0 && w.world.Now() > 5*time.Second {
				lateUntil = w.world.Now() - change
			}
		}
		var last Clocks
		w.every(ms(5), func() {
			now, ok := c.loop.Snapshot(c.node.NowUsec())
			if ok && now.back(last) {
				t.Fatalf("%s: %v after %v", tt.name, now, last)
			}
			last = now
		})
		w.world.Run(length)
		if inputs < 3000 || lateUntil < tt.least || lateUntil > tt.most {
			t.Errorf("%s: of %d inputs the last late one comes %v after the change", tt.name, inputs, lateUntil)
		}
		c.rec.check(t)
		t.Logf("%s: of %d inputs the last late one comes %v after the change; events %v", tt.name, inputs, lateUntil, c.rec.events)
	}
}
