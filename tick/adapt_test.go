// What players of other engines have reported: a buffer that grows after one stop, catching up
// that takes minutes, states that are sent seldom, slow frames, clocks that are set back.

package tick

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"timesync/link"
)

// host is a server that sends states, and a client that shows them, each with frames of its own.
// Each way takes 30 ms, and the states up to 5 ms more.
type host struct {
	now          uint64
	server       *Server
	client       *Client
	rec          recorder
	every        Tick                       // a state is sent each so many ticks
	frame, draws uint64                     // how long frames of the server and the client are, us
	stopped      func(now uint64) bool      // the server does nothing
	cost         func(now uint64) uint64    // how long the server takes for a tick, us
	busy         uint64                     // until when it is
	silent       bool                       // the server does not tell its debt
	welcomes     map[uint64][]Welcome       // of a server that is behind, under way
	longer       func(now uint64) uint64    // by how much the way of a state is longer, us
	states       map[uint64][]Tick          // under way, by when they arrive
	inputs       map[uint64][]Tick          // so
	newest       Tick                       // that has come
	inTime, late int                        // inputs
	shown        func(at Time, newest Time) // in each frame of the client
}

func newHost(seed uint64, every Tick, frame, draws uint64) *host {
	h := &host{
		every:    every,
		frame:    frame,
		draws:    draws,
		states:   map[uint64][]Tick{},
		inputs:   map[uint64][]Tick{},
		welcomes: map[uint64][]Welcome{},
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	h.server = startServer(ServerConfig{Epoch: 1, Handlers: Handlers{Tick: func(i Update) {
		at := h.now + 30_000 + rng.Uint64N(5)*1000
		if h.cost != nil { // it is sent when its tick is done
			h.busy = max(h.busy, h.now) + h.cost(h.now)
			at += (h.busy - h.now) / 1000 * 1000
			if w, _ := h.server.Announce(1, h.busy); w.Debt > 0 && !h.silent {
				h.welcomes[at] = append(h.welcomes[at], w)
			}
		}
		if h.longer != nil {
			at += h.longer(h.now)
		}
		if i.Tick%h.every == 0 {
			h.states[at] = append(h.states[at], i.Tick)
		}
	}}})
	cfg := h.rec.client(ClientConfig{})
	record := cfg.Tick
	cfg.Tick = func(i Update) {
		record(i)
		h.inputs[h.now+30_000] = append(h.inputs[h.now+30_000], i.Tick)
	}
	h.client = startClient(cfg, &fakeRemote{delay: ms(30)})
	return h
}

// run lets time pass until so many microseconds since the start.
func (h *host) run(until uint64) {
	for ; h.now < until; h.now += 1000 {
		for _, n := range h.states[h.now] {
			if h.client.AcceptState(1, n, h.now) {
				h.newest = max(h.newest, n)
			}
		}
		for _, n := range h.inputs[h.now] {
			if ok, late := h.server.AcceptInput(1, 1, n, h.now); ok {
				h.inTime++
			} else if late {
				h.late++
			}
		}
		delete(h.states, h.now)
		delete(h.inputs, h.now)
		if h.now%h.frame < 1000 && h.now >= h.busy && (h.stopped == nil || !h.stopped(h.now)) {
			h.server.Advance(h.now)
		}
		for _, w := range h.welcomes[h.now] {
			_ = h.client.OnWelcome(w, h.now)
		}
		delete(h.welcomes, h.now)
		if h.now%200_000 == 0 {
			w, _ := h.server.Announce(1, h.now)
			if h.silent {
				w.Debt = 0
			}
			_ = h.client.OnWelcome(w, h.now)
		}
		if h.now%h.draws < 1000 {
			h.client.Advance(h.now)
			if at, ok := h.client.ServerTime(h.now); ok && h.shown != nil {
				h.shown(at, at.rate.At(h.newest, 0))
			}
		}
	}
}

// delay returns how far the server clock is behind.
func (h *host) delay() time.Duration {
	t, _ := h.client.Timing()
	return t.Delay
}

// A host that stops once, for 0.3 to 0.9 s, at any age of the session, and catches up in frames
// of its own, lets the delay grow by a tick at most.
func TestDelayAfterStop(t *testing.T) {
	for _, frame := range []uint64{16_000, 33_000} {
		for _, age := range []uint64{4, 8, 20, 60, 120, 200} {
			if age > 60 && testing.Short() {
				continue
			}
			for _, stop := range []uint64{300, 500, 700, 900} {
				h := newHost(age, 1, frame, 16_000)
				begin := age*1_000_000 + 7000
				h.stopped = func(now uint64) bool { return begin < now && now < begin+stop*1000 }
				h.run(begin)
				before := h.delay()
				most := before
				for range 60 {
					h.run(h.now + 250_000)
					if h.now > begin+stop*1000+2_000_000 {
						most = max(most, h.delay())
					}
				}
				if most > before+Hz(60).Duration(1) {
					t.Errorf("frames of %d us, %d s old, a stop of %d ms: "+
						"the delay grows from %v to %v", frame, age, stop, before, most)
				}
			}
		}
	}
}

// A server whose ticks take too long for a while says that it is behind. Its states come later
// and later meanwhile, and the client takes that for no longer path: when the server has caught
// up, all is as before. Where it stays behind, or does not say so, the delay follows.
func TestServerBehind(t *testing.T) {
	const begin = 20e6
	play := func(
		slow time.Duration, silent bool, d time.Duration,
	) (before, after time.Duration, h *host) {
		h = newHost(3, 1, 1000, 16_000)
		h.silent = silent
		h.cost = func(now uint64) uint64 {
			if now > begin && now < begin+usec(slow) {
				return 24_000
			}
			return 4000
		}
		h.run(begin)
		before = h.delay()
		h.run(begin + usec(d))
		return before, h.delay(), h
	}
	for _, slow := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
		before, after, _ := play(slow, false, slow+2*sec)
		if grown := after - before; grown > Hz(60).Duration(1) {
			t.Errorf("behind for %v: the delay grows from %v to %v", slow, before, after)
		}
		before, after, _ = play(slow, true, slow+ms(100))
		if grown := after - before; grown < ms(50) {
			t.Errorf("behind for %v, and it is not told: the delay grows from %v to %v only",
				slow, before, after)
		}
	}
	_, _, h := play(time.Minute, false, 500*time.Millisecond)
	if timing, _ := h.client.Timing(); timing.ServerDebt < 5 {
		t.Errorf("behind: %+v", timing)
	}
	before, after, _ := play(time.Minute, false, 10*sec)
	if grown := after - before; grown < ms(100) {
		t.Errorf("behind for good: the delay grows from %v to %v only", before, after)
	}
}

// A delay that is 0.9 s too long is made up for within 10 s, at a speed of at most 25 % more, and
// 1 % within 50 ms.
func TestFarOff(t *testing.T) {
	h := newHost(1, 1, 1000, 16_000)
	h.longer = func(now uint64) uint64 {
		if 20e6 < now && now < 30e6 {
			return 900_000
		}
		return 0
	}
	h.run(20e6)
	before := h.delay()
	h.run(30e6)
	if got := h.delay(); got < before+ms(890) {
		t.Fatalf("the delay is %v where all comes 0.9 s later, before %v", got, before)
	}
	last := h.delay()
	lastAt := h.now
	for h.now < 41.2e6 { // what was late is under way for 0.9 s
		h.run(h.now + 160_000)
		now := h.delay()
		speed := float64(last-now) / float64(h.now-lastAt) / 1e3
		if speed > 0.2501 || now < before+ms(45) && speed > 0.025 {
			t.Errorf("the delay falls by %.1f %% of the time, from %v to %v", 100*speed, last, now)
		}
		last = now
		lastAt = h.now
	}
	if last > before+ms(50) {
		t.Errorf("the delay is %v after 10 s, before %v", last, before)
	}
}

// At each rate of states, in hardly any frame the state after the shown time is missing, and the
// delay is no longer than that takes.
func TestSeldomStates(t *testing.T) {
	for _, every := range []Tick{1, 2, 3, 6} {
		h := newHost(uint64(every), every, 1000, 16_000)
		h.run(20e6)
		frames, starved := 0, 0
		h.shown = func(at, newest Time) {
			frames++
			if at.Sub(newest) > 0 {
				starved++
			}
		}
		h.run(60e6)
		if share := float64(starved) / float64(frames); frames < 2000 || share > 0.02 {
			t.Errorf("a state each %d ticks: %d of %d frames starve", every, starved, frames)
		}
		if got, most := h.delay(), ms(30+5+5)+Hz(60).Duration(every); got > most {
			t.Errorf("a state each %d ticks: the delay is %v, want %v at most", every, got, most)
		}
	}
}

// A client with slow frames plays so far ahead as a frame needs, carries no debt for ever, and is
// told how many of its inputs were late.
func TestSlowFrames(t *testing.T) {
	for frame, most := range map[uint64]time.Duration{
		83_000:  ms(125),
		143_000: ms(180),
		200_000: ms(180),
		500_000: ms(180),
	} {
		h := newHost(1, 1, 1000, frame)
		h.run(120e6)
		timing, _ := h.client.Timing()
		got := float64(h.late) / float64(h.late+h.inTime)
		if d := timing.LateInputs - got; d < -0.01 || d > 0.01 || got > 0.02 || h.inTime < 1500 {
			t.Errorf("frames of %d us: %d of %d inputs are late, told is %v",
				frame, h.late, h.late+h.inTime, timing.LateInputs)
		}
		if debt := h.client.Stats().Debt; timing.Lead > most || debt > 8 {
			t.Errorf("frames of %d us: the lead is %v, want %v at most; the debt is %d ticks",
				frame, timing.Lead, most, debt)
		}
	}
}

// Where the local clock is set back, by an hour or a second and a half, an event says so, and
// ticks and clocks go on.
func TestClockSetBack(t *testing.T) {
	for _, back := range []time.Duration{1500 * time.Millisecond, time.Hour} {
		var server recorder
		s := mustServer(server.server(ServerConfig{Epoch: 3}))
		const begin = 7_200_000_000
		s.Start(begin)
		c, remote, client := newClient(ClientConfig{})
		now := uint64(begin)
		for range 1000 {
			s.Advance(now)
			c.Advance(now)
			now += 10_000
		}
		was, _ := s.SharedTime(now)
		wasClient, _ := c.SharedTime(now)
		now -= usec(back)
		remote.shift(back) // which knows, as a link does
		for range 1000 {
			s.Advance(now)
			c.Advance(now)
			now += 10_000
		}
		for who, at := range map[string]Time{"the server": was, "the client": wasClient} {
			is, _ := s.SharedTime(now)
			if who == "the client" {
				is, _ = c.SharedTime(now)
			}
			if d := is.Sub(at) - 10*sec; d.Abs() > ms(11) {
				t.Errorf("%s, set back by %v: its game time is off by %v", who, back, d)
			}
		}
		told := fmt.Sprintf(" the local clock was set by -%v]", back-ms(10))
		server.told(t, back, "[synced"+told)
		check(t, len(client.of(EventClockSet)), 1, "%v: events of the client", back)
		client.check(t)
		check(t, s.Stats().Ticks, 1199, "%v: ticks of the server", back)
	}
}

// A SyncBound that the path never meets is an event, once; where it is met in time, it is none.
func TestTooWide(t *testing.T) {
	c, remote, r := newClient(ClientConfig{SyncBound: ms(20)})
	remote.bound = ms(21)
	now := advance(c, 0, 2_900_000)
	r.told(t, "before", "[]")
	now = advance(c, now, 30_000_000)
	r.told(t, "after", "[the error bound of 21ms is wider than SyncBound]")
	remote.bound = ms(20)
	w := Welcome{
		Epoch:      1,
		OriginUsec: 1 << 63,
		Tick:       Hz(60).Ticks(time.Hour + time.Duration(now)*us),
	}
	must(t, c.OnWelcome(w, now))
	advance(c, now, now+1_000_000)
	r.told(t, "met", "[the error bound of 21ms is wider than SyncBound synced]")
}

// A program that was suspended, and drops what has waited meanwhile, is right at once.
func TestWasAway(t *testing.T) {
	check(t, suspend(t, true), 200, "dropped")
}

// A program that was suspended, and reads all that has waited, is right as soon as the first fresh
// datagram has come: what arrives all at one instant proves nothing about the clock.
func TestSuspended(t *testing.T) {
	check(t, suspend(t, false), 0, "dropped")
}

// suspend suspends the program of a client for 100 s, in which its socket fills with 200
// datagrams, and returns how many of them were dropped unread.
func suspend(t *testing.T, drops bool) (dropped int) {
	var atClient, atServer link.Link
	type datagram struct {
		bytes   []byte
		welcome Welcome
	}
	var waiting []datagram
	way := map[uint64]datagram{}
	s := startServer(ServerConfig{Epoch: 1})
	c := startClient(ClientConfig{}, &atClient)
	for now := uint64(0); now < 140e6; now += 1000 {
		s.Advance(now)
		if now%16_000 == 0 {
			w, _ := s.Announce(1, now)
			way[now+30_000] = datagram{atServer.AppendHeader(nil, now), w}
		}
		if d, ok := way[now]; ok && len(waiting) < 200 {
			waiting = append(waiting, d)
		}
		delete(way, now)
		suspended := 30e6 <= now && now <= 130e6
		if now%16_000 != 0 || suspended {
			continue
		}
		for _, d := range waiting {
			if drops && c.WasAway(now) {
				dropped++
				continue
			}
			_, _, _, _ = atClient.ReadHeader(d.bytes, now)
			_ = c.OnWelcome(d.welcome, now)
		}
		waiting = nil
		c.Advance(now)
		_, _, _, _ = atServer.ReadHeader(atClient.AppendHeader(nil, now), now+30_000)
		if got, ok := c.SharedTime(now); now > 10e6 {
			truth, _ := s.SharedTime(now)
			if off := got.Sub(truth); !ok || off.Abs() > ms(5) {
				t.Fatalf("after %d us the shared time is off by %v, known %v", now, off, ok)
			}
		}
	}
	return dropped
}

// A client that starts while its server hangs is right as soon as its link is: what the first
// datagrams said wrong is set, not slewed for seconds. It sends four datagrams a second until the
// clocks are known, and then one in each tick.
func TestStartWhileServerHangs(t *testing.T) {
	begins := []uint64{1, 20_000, 40_000, 100_000} // us after the client's first datagram
	for _, hang := range []uint64{100_000, 200_000} {
		for _, begin := range begins {
			var rec recorder
			var atClient, atServer link.Link
			up := map[uint64][]byte{}
			down := map[uint64]func(now uint64){}
			var waits [][]byte // at the server
			played := false
			cfg := rec.client(ClientConfig{})
			record := cfg.Tick
			cfg.Tick = func(u Update) {
				record(u)
				played = true
			}
			s := startServer(ServerConfig{Epoch: 1})
			c := startClient(cfg, &atClient)
			right, joined := 0, false
			for now, sent := uint64(0), uint64(0); now < 10e6; now += 1000 {
				if b, ok := up[now]; ok {
					waits = append(waits, b)
				}
				if begin > now || now >= begin+hang {
					for _, b := range waits {
						_, _, _, _ = atServer.ReadHeader(b, now)
						joined = true
					}
					waits = nil
					if s.Advance(now) > 0 && joined {
						b := atServer.AppendHeader(nil, now)
						w, _ := s.Announce(1, now)
						down[now+30_000] = func(now uint64) {
							_, _, _, _ = atClient.ReadHeader(b, now)
							_ = c.OnWelcome(w, now)
						}
					}
				}
				if arrives := down[now]; arrives != nil {
					arrives(now)
				}
				if now%8000 == 0 {
					c.Advance(now)
					if _, known := c.Snapshot(now); played || !known && now >= sent {
						up[now+30_000] = atClient.AppendHeader(nil, now)
						sent = now + 250_000
					}
					played = false
				}
				ours, known := c.SharedTime(now)
				theirs, _ := s.SharedTime(now)
				if known && now >= 1_500_000 {
					off := ours.Sub(theirs)
					right++
					if off.Abs() > ms(20) || now >= 4e6 && off.Abs() > ms(1) {
						t.Fatalf("a hang of %d us from %d on: after %d us "+
							"the shared time is off by %v", hang, begin, now, off)
					}
				}
			}
			check(t, right, 8500, "a hang of %d us from %d on: times at which it was right",
				hang, begin)
			rec.check(t)
		}
	}
}

// States are found by time, in whichever order they came.
func TestStates(t *testing.T) {
	var s States[int]
	if _, _, _, ok := s.Around(Time{}); ok {
		t.Error("an empty one has a state")
	}
	for _, n := range []Tick{10, 40, 20, 30, 20} {
		s.Put(n, int(n))
	}
	for _, tt := range []struct {
		at     Time
		before int
		after  int
		blend  float64
	}{
		{Hz(60).At(5, 0), 10, 10, 0},
		{Hz(60).At(10, 0), 10, 20, 0},
		{Hz(60).At(15, 0), 10, 20, 0.5},
		{Hz(60).At(39, 0), 30, 40, 0.9},
		{Hz(60).At(40, 0), 40, 40, 0},
		{Hz(60).At(99, 0), 40, 40, 0},
	} {
		before, after, blend, ok := s.Around(tt.at)
		if d := blend - tt.blend; !ok || before != tt.before || after != tt.after || d < -1e-6 ||
			d > 1e-6 {
			t.Errorf("at %v: %d, %d and %v", tt.at, before, after, blend)
		}
	}
	for n := range Tick(500) {
		s.Put(1000+n, 1000+int(n))
	}
	s.Put(3, 3) // older than all that are kept
	before, _, _, _ := s.Around(Hz(60).At(0, 0))
	check(t, before, 1500-statesKept, "the oldest")
}
