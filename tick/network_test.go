// Over the simulated network, by the synchronizer of the core, the clocks are as far
// apart as promised.

package tick

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
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
	onInput func(c *client, payload []byte) // at the server
	state   func() []byte                   // what the server sends
	onState func(c *client, payload []byte) // at the client
	input   func(c *client) []byte          // what a client sends
}

type client struct {
	id     int
	node   *sim.Node
	loop   *Client
	rec    recorder
	sync   timesync.TimeSynchronizer // the client's
	atHub  timesync.TimeSynchronizer // the server's of this client
	ticked func(Info)
}

// newNetwork joins n clients of a configuration. Both sides send every 1/60 s, and
// clients draw frames of 1 to 30 ms.
func newNetwork(t *testing.T, seed uint64, n int, cfg ClientConfig, skew func(i int) float64, link func(i int) (up, down *sim.Link)) *network {
	t.Logf("seed %d", seed)
	w := &network{t: t, world: sim.NewWorld(seed)}
	w.rng = w.world.Rand("test")
	clock := func(i int) *sim.Clock {
		spec := sim.ClockSpec{OffsetUsec: w.rng.Uint64(), SkewPPM: skew(i)}
		if i == 0 {
			spec.OffsetUsec = originUsec
		}
		return sim.NewClock(spec, seed+uint64(i))
	}
	hub, spokes := w.world.Star(n, clock, link)
	w.hub = hub
	w.server = mustServer(w.hubRec.server(ServerConfig{Config: Config{Rate: cfg.Rate}}))
	w.server.Start(hub.NowUsec())
	w.every(hub, func() time.Duration { return time.Millisecond }, func() { w.server.Advance(hub.NowUsec()) })
	for i, node := range spokes {
		c := &client{id: i, node: node}
		w.clients = append(w.clients, c)
		own := c.rec.client(cfg)
		record := own.Tick
		own.Tick = func(s Info) {
			record(s)
			if c.ticked != nil {
				c.ticked(s)
			}
		}
		c.loop = mustClient(own, &c.sync)
		c.loop.Start(node.NowUsec())
		sent := 0
		const every = time.Second / 60
		w.every(node, func() time.Duration { return every }, func() {
			b := sim.StartDatagram(&c.sync, node.NowUsec())
			hello, _ := c.loop.Hello() // also when it was heard
			b, _ = hello.AppendBinary(b)
			if w.input != nil {
				b = append(b, w.input(c)...)
			}
			node.Send(hub, b)
		})
		w.every(hub, func() time.Duration { return every }, func() {
			b := sim.StartDatagram(&c.atHub, hub.NowUsec())
			welcome, _ := w.server.Announce(uint64(c.id), hub.NowUsec())
			b = append(b, 0)
			head := len(b)
			b, _ = welcome.AppendBinary(b)
			b[head-1] = byte(len(b) - head)
			if w.state != nil {
				b = append(b, w.state()...)
			}
			hub.Send(node, b)
			sent++
		})
		w.every(node, func() time.Duration { return ms(1) + time.Duration(w.rng.Int64N(int64(ms(30)))) }, func() {
			c.loop.Advance(node.NowUsec())
		})
		node.OnReceive = func(_ *sim.Node, b []byte) {
			b = sim.OpenDatagram(&c.sync, b, node.NowUsec())
			var welcome Welcome
			size := int(b[0])
			must(t, welcome.UnmarshalBinary(b[1:1+size]))
			_ = c.loop.OnWelcome(welcome, node.NowUsec()) // overtaken ones are refused
			if w.onState != nil {
				w.onState(c, b[1+size:])
			}
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
		if w.onInput != nil {
			w.onInput(c, b[helloSize:])
		}
	}
	return w
}

func (w *network) every(n *sim.Node, period func() time.Duration, f func()) {
	var next func()
	next = func() {
		f()
		w.world.At(w.world.Now()+period(), next)
	}
	w.world.At(w.world.Now()+time.Duration(w.rng.Int64N(int64(ms(16)))), next)
}

// truth is the server's game time now.
func (w *network) truth() time.Duration {
	return time.Duration(int64(w.hub.NowUsec()-originUsec)) * time.Microsecond
}

func path(base, jitter time.Duration) *sim.Link {
	return &sim.Link{Base: sim.Fixed(base), Delay: sim.Uniform(0, jitter)}
}

func noSkew(int) float64 { return 0 }

func seconds(n int) int {
	if testing.Short() {
		return max(n/10, 10)
	}
	return n
}

// 50 ms each way without jitter: the shared clock is right to a unit of 8 us.
func TestSymmetric(t *testing.T) {
	w := newNetwork(t, 3, 1, ClientConfig{}, noSkew, func(int) (*sim.Link, *sim.Link) { return path(ms(50), 0), path(ms(50), 0) })
	c, worst, n := w.clients[0], time.Duration(0), 0
	w.every(c.node, func() time.Duration { return ms(3) }, func() {
		if g, ok := c.loop.SharedTime(c.node.NowUsec()); ok {
			worst, n = max(worst, (g.Duration()-w.truth()).Abs()), n+1
		}
	})
	w.world.Run(10 * time.Second)
	if worst > 10*time.Microsecond || n < 3000 { // a unit and a microsecond of each clock
		t.Errorf("error up to %v in %d readings", worst, n)
	}
	c.rec.check(t)
	t.Logf("shared error up to %v in %d readings", worst, n)
}

// 30 ms and exponential 20 ms of jitter each way: the shared clock is within 5 ms.
func TestJitterError(t *testing.T) {
	link := func() *sim.Link { return &sim.Link{Base: sim.Fixed(ms(30)), Delay: sim.Exp(ms(20))} }
	w := newNetwork(t, 4, 1, ClientConfig{}, noSkew, func(int) (*sim.Link, *sim.Link) { return link(), link() })
	c := w.clients[0]
	var errs []time.Duration
	w.every(c.node, func() time.Duration { return ms(3) }, func() {
		if g, ok := c.loop.SharedTime(c.node.NowUsec()); ok && w.world.Now() > 10*time.Second {
			errs = append(errs, (g.Duration() - w.truth()).Abs())
		}
	})
	w.world.Run(time.Duration(seconds(120))*time.Second + 10*time.Second)
	if len(errs) < 3000 {
		t.Fatalf("%d readings", len(errs))
	}
	p99 := stat.Quantile(errs, 0.99)
	if p99 > ms(5) {
		t.Errorf("p99 of the error %v", p99)
	}
	c.rec.check(t)
	t.Logf("shared error after 10 s: p99 %v", p99)
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
			w := newNetwork(t, 6, 2, cfg, noSkew, func(int) (*sim.Link, *sim.Link) { return path(tt.up, ms(4)), path(tt.down, ms(3)) })
			margin := tt.rate.Duration(2)
			late, early, inputs, worst := 0, 0, 0, time.Duration(0)
			w.input = func(c *client) []byte {
				p, ok := c.loop.PredictedTime(c.node.NowUsec())
				if !ok {
					return nil
				}
				return binary.LittleEndian.AppendUint64(nil, uint64(p.Duration()))
			}
			w.onInput = func(c *client, b []byte) {
				if len(b) == 0 {
					return
				}
				ahead := time.Duration(binary.LittleEndian.Uint64(b)) - w.truth()
				inputs++
				worst = max(worst, ahead)
				switch {
				case ahead < 0:
					late++
				case ahead > margin+tt.rate.Duration(1):
					early++
				}
			}
			w.state = func() []byte { return binary.LittleEndian.AppendUint64(nil, uint64(w.truth())) }
			newest := [2]time.Duration{-time.Hour, -time.Hour}
			w.onState = func(c *client, b []byte) {
				newest[c.id] = max(newest[c.id], time.Duration(binary.LittleEndian.Uint64(b)))
			}
			renders, underruns, behind := 0, 0, time.Duration(0)
			var sharedError time.Duration
			for _, c := range w.clients {
				w.every(c.node, func() time.Duration { return ms(5) }, func() {
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

// Datagrams that come 300 ms late change nothing.
func TestLateDatagrams(t *testing.T) {
	var up, down *sim.Link
	w := newNetwork(t, 9, 1, ClientConfig{}, noSkew, func(int) (*sim.Link, *sim.Link) {
		late := func(_ *rand.Rand, at time.Duration) time.Duration {
			if at > 5*time.Second && at < 5020*time.Millisecond {
				return ms(300)
			}
			return 0
		}
		up = &sim.Link{Base: sim.Fixed(ms(40)), Delay: late}
		down = &sim.Link{Base: sim.Fixed(ms(40)), Delay: late}
		return up, down
	})
	c, worst := w.clients[0], time.Duration(0)
	w.every(c.node, func() time.Duration { return ms(1) }, func() {
		if g, ok := c.loop.SharedTime(c.node.NowUsec()); ok && w.world.Now() > 4*time.Second {
			worst = max(worst, (g.Duration() - w.truth()).Abs())
		}
	})
	w.world.Run(10 * time.Second)
	if worst > time.Millisecond || len(c.rec.events) != 1 {
		t.Errorf("error up to %v, events %v", worst, c.rec.events)
	}
	c.rec.check(t)
	t.Logf("error up to %v around the late datagrams", worst)
}

// onward reads a client's clocks, of which none may go back, and returns what they read before.
func onward(t *testing.T, c *Client, now uint64, last *[3]time.Duration) (was [3]time.Duration, ok bool) {
	t.Helper()
	was = *last
	for i, get := range []func(uint64) (Time, bool){c.SharedTime, c.ServerTime, c.PredictedTime} {
		x, ok := get(now)
		if !ok {
			return was, false
		}
		if last[i] = x.Duration(); last[i] < was[i] {
			t.Fatalf("clock %d went back by %v", i, was[i]-last[i])
		}
	}
	return was, true
}

// The round trip grows from 40 to 140 ms for good. No clock goes back, and
// predicted time covers the way again 20 s later: 15 s until the core believes the
// new minimum, and 50 ms less the buffer of 33 ms slewed at 1 %.
func TestRouteGetsLonger(t *testing.T) {
	change := 20 * time.Second
	link := func() *sim.Link { return &sim.Link{Base: sim.Route(ms(20), sim.RouteStep{At: change, Change: ms(50)})} }
	w := newNetwork(t, 11, 1, ClientConfig{}, noSkew, func(int) (*sim.Link, *sim.Link) { return link(), link() })
	c := w.clients[0]
	var last [3]time.Duration
	var wrongUntil time.Duration
	w.every(c.node, func() time.Duration { return ms(5) }, func() {
		if _, ok := onward(t, c.loop, c.node.NowUsec(), &last); !ok {
			return
		}
		delay := ms(20)
		if w.world.Now() > change {
			delay = ms(70)
		}
		if p := last[predicted] - w.truth() - delay; p < 0 && w.world.Now() > 5*time.Second {
			wrongUntil = w.world.Now() - change
		}
	})
	w.world.Run(60 * time.Second)
	if wrongUntil > 20*time.Second {
		t.Errorf("predicted time is short for %v", wrongUntil)
	}
	c.rec.check(t)
	t.Logf("predicted time covers the new path after %v; events %v", wrongUntil, c.rec.events)
}

// Jitter of +-30 ms on the network for 10 minutes: no clock goes back, none runs
// faster or slower than 1 %, and no slew changes its sign twice in a second.
func TestNetworkJitter(t *testing.T) {
	w := newNetwork(t, 12, 1, ClientConfig{}, func(i int) float64 { return 50 * float64(i) }, func(int) (*sim.Link, *sim.Link) {
		return path(ms(40), ms(60)), path(ms(40), ms(60))
	})
	c := w.clients[0]
	var last [3]time.Duration
	var lastAt uint64
	slowest, fastest := 2.0, 0.0
	var sign, inSecond, worst, flips [3]int
	w.every(c.node, func() time.Duration { return ms(7) }, func() {
		now := c.node.NowUsec()
		was, ok := onward(t, c.loop, now, &last)
		if !ok {
			return
		}
		for i := range was {
			if was[i] != 0 {
				speed := float64(last[i]-was[i]) / float64(now-lastAt) / 1000
				slowest, fastest = min(slowest, speed), max(fastest, speed)
			}
			if s := c.loop.now.courses[i].last().pace; s.SlewPPM != 0 && s.Slew != 0 {
				dir := 1
				if s.Slew < 0 {
					dir = -1
				}
				if sign[i] == -dir {
					flips[i]++
					inSecond[i]++
				}
				sign[i] = dir
			}
		}
		lastAt = now
	})
	w.every(c.node, func() time.Duration { return time.Second }, func() {
		for i, n := range inSecond {
			worst[i] = max(worst[i], n)
		}
		inSecond = [3]int{}
	})
	w.world.Run(time.Duration(seconds(600)) * time.Second)
	if slowest < 0.99-1e-4 || fastest > 1.01+1e-4 { // and the skew
		t.Errorf("speed between %v and %v", slowest, fastest)
	}
	if max(worst[0], worst[1], worst[2]) > 1 {
		t.Errorf("up to %v changes of sign in a second", worst)
	}
	c.rec.check(t)
	t.Logf("speed %.6f to %.6f; changes of sign: %v, at most %v in a second; events %v", slowest, fastest, flips, worst, c.rec.events)
}

// The same seed gives the same trace to the byte.
func TestDeterministic(t *testing.T) {
	digest := func(seed uint64) uint64 {
		h := fnv.New64a()
		w := newNetwork(t, seed, 3, ClientConfig{}, func(i int) float64 { return 30 * float64(i) }, func(int) (*sim.Link, *sim.Link) {
			return path(ms(30), ms(9)), path(ms(35), ms(5))
		})
		for _, c := range w.clients {
			c.ticked = func(s Info) { fmt.Fprintln(h, c.id, c.node.NowUsec(), s) }
		}
		w.world.Run(5 * time.Second)
		for _, c := range w.clients {
			fmt.Fprintln(h, c.rec.events, c.loop.Stats())
		}
		return h.Sum64()
	}
	a, b, c := digest(1), digest(1), digest(2)
	if a != b || a == c {
		t.Errorf("digests %x and %x of one seed, %x of another", a, b, c)
	}
	t.Logf("digest %x", a)
}

// knowsOne is the synchronizer of a client that keeps the delay to the server to itself.
type knowsOne struct{ *client }

func (k knowsOne) RemoteTime(localUsec uint64) (uint64, bool) { return k.sync.RemoteTime(localUsec) }
func (k knowsOne) MinimumOneWayDelay() (time.Duration, bool)  { return k.sync.MinimumOneWayDelay() }
func (k knowsOne) Skew() (float64, bool)                      { return k.sync.Skew() }
func (k knowsOne) ErrorBound(localUsec uint64) (time.Duration, bool) {
	return k.sync.ErrorBound(localUsec)
}

// The way to the server alone becomes 50 ms longer, for good. A client that is told so by its
// remote clock sends its inputs early enough again; without that, all are late for minutes.
func TestWayToServerGetsLonger(t *testing.T) {
	const change, length = 20 * time.Second, 60 * time.Second
	lateUntil := func(told bool) (until time.Duration, inputs int) {
		w := newNetwork(t, 29, 1, ClientConfig{}, noSkew, func(int) (*sim.Link, *sim.Link) {
			up := &sim.Link{Base: sim.Route(ms(20), sim.RouteStep{At: change, Change: ms(50)}), Delay: sim.Uniform(0, ms(3))}
			return up, path(ms(20), ms(3))
		})
		c := w.clients[0]
		if !told {
			must(t, c.loop.Follow(knowsOne{c}))
		}
		w.input = func(c *client) []byte {
			p, ok := c.loop.PredictedTime(c.node.NowUsec())
			if !ok || w.world.Now() < 5*time.Second {
				return nil
			}
			return binary.LittleEndian.AppendUint64(nil, uint64(p.Duration()))
		}
		w.onInput = func(c *client, b []byte) {
			if len(b) == 0 {
				return
			}
			if inputs++; time.Duration(binary.LittleEndian.Uint64(b)) < w.truth() {
				until = w.world.Now() - change
			}
		}
		w.world.Run(length)
		c.rec.check(t)
		return until, inputs
	}
	told, inputs := lateUntil(true)
	alone, _ := lateUntil(false)
	t.Logf("of %d inputs the last late one comes %v after the change; without being told, %v", inputs, told, alone)
	if inputs < 3000 || told > 20*time.Second {
		t.Errorf("inputs are late for %v", told)
	}
	if alone < length-change-time.Second {
		t.Errorf("without being told, inputs are late for %v only: no test", alone)
	}
}
