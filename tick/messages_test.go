// Messages that come at a bad time, or say what cannot be.

package tick

import (
	"fmt"
	"testing"
	"time"
)

// Two Welcomes of the same tick, around a pause: the one that was sent last counts.
func TestTie(t *testing.T) {
	c := newClient(ClientConfig{}, &fakeRemote{delay: ms(20)}, time.Hour)
	sent := c.welcomes.last.Welcome
	later := sent
	later.OriginUsec += 800_000
	if err := c.OnWelcome(later, 1000); err != nil {
		t.Fatal(err)
	}
	if err := c.OnWelcome(sent, 2000); err == nil || c.welcomes.last.OriginUsec != later.OriginUsec {
		t.Errorf("the overtaken one: %v, believed is %+v", err, c.welcomes.last)
	}
}

// A Welcome that comes while the client is stopped is not there at the next Start.
func TestWelcomeWhileStopped(t *testing.T) {
	remote := &fakeRemote{delay: ms(20)}
	c := newClient(ClientConfig{}, remote, time.Hour)
	w := c.welcomes.last.Welcome
	w.Epoch = 9
	c.Stop()
	if err := c.OnWelcome(w, 1000); err == nil {
		t.Error("a Welcome was taken after Stop")
	}
	c.Start(2000)
	c.Advance(2000)
	if _, ok := c.Epoch(); ok {
		t.Error("synchronized by a Welcome from before Start")
	}
	w.Epoch = 5
	if err := c.OnWelcome(w, 3000); err != nil {
		t.Errorf("the new server: %v", err)
	}
}

// The highest epoch that can be configured is not that of two lives.
func TestHighestEpoch(t *testing.T) {
	highest := uint64(1) << 62
	s := mustServer(ServerConfig{Epoch: highest})
	for i := range uint64(3) {
		s.Start(0)
		if got, _ := s.Epoch(); got != highest+i {
			t.Errorf("start %d: epoch %d", i, got)
		}
		s.Stop()
	}
}

// A peer that says Hello again and again, refused for its rate, hides no other.
func TestHellosOfOnePeer(t *testing.T) {
	var r recorder
	s := mustServer(r.server(ServerConfig{Config: Config{OnMismatch: MismatchDisconnect}}))
	s.Start(0)
	for i := range 5000 {
		if err := s.OnHello(1, Hello{Epoch: s.epoch, Rate: Hz(30 + uint32(i%2))}); err != ErrRate {
			t.Fatal(err)
		}
	}
	if err := s.OnHello(2, Hello{Epoch: s.epoch, Rate: Hz(60)}); err != nil {
		t.Fatal(err)
	}
	s.Advance(0)
	if got := fmt.Sprint(r.events); got != "[started tick rate 30/s of peer 1 differs peer 2 synced]" {
		t.Errorf("%.200s", got)
	}
	if err := s.OnHello(1, Hello{Epoch: s.epoch, Rate: Hz(60)}); err != nil { // it has changed its mind
		t.Fatal(err)
	}
	s.Advance(0)
	if n := len(r.of(EventClientSynced)); n != 2 {
		t.Errorf("%v", r.events)
	}
}

// Datagrams may be under way for 16 s, each of them.
func TestLongDelay(t *testing.T) {
	for _, delay := range []time.Duration{2 * time.Second, 3 * time.Second, 8 * time.Second, 16 * time.Second} {
		var r recorder
		remote := &fakeRemote{delay: delay}
		l := newClient(r.client(ClientConfig{}), remote, time.Hour)
		remote.shift(delay) // the Welcome of newClient was under way
		first := l.welcomes.last.Welcome
		for now := uint64(0); now < 60_000_000; now += 10_000 {
			if now%1_000_000 == 0 {
				if err := l.OnWelcome(first.at(now), now); err != nil {
					t.Fatal(err)
				}
			}
			l.Advance(now)
		}
		if got := fmt.Sprint(r.events); got != "[synced]" {
			t.Errorf("%v each way: %v", delay, got)
		}
		// The server starts again; its clock goes on.
		w := first.at(60_000_000)
		w.OriginUsec, w.Tick, w.Epoch = w.serverUsec(), 0, 2
		if err := l.OnWelcome(w, 60_000_000); err != nil {
			t.Fatal(err)
		}
		l.Advance(60_010_000)
		g, ok := l.SharedTime(60_010_000)
		if !ok || g.Duration() != delay+ms(10) {
			t.Errorf("%v each way: in the next epoch it is %v, %v; %v", delay, g.Duration(), ok, r.events)
		}
	}
}

// After Stop nothing is called, wherever it came from.
func TestNothingAfterStop(t *testing.T) {
	for stopAt := range 14 {
		var s *Server
		n, after := 0, 0
		fired := func() {
			if _, ok := s.Epoch(); !ok {
				after++
			}
			if n++; n == stopAt {
				s.Stop()
			}
		}
		step := func(Info) { fired() }
		s = mustServer(ServerConfig{Handlers: Handlers{fired, step, step, step, fired, func(Event) { fired() }, nil}})
		s.Start(0)
		for peer := range uint64(3) {
			_ = s.OnHello(peer, Hello{Epoch: s.epoch})
		}
		s.Advance(20_000)
		s.Advance(40_000)
		if after > 0 {
			t.Errorf("after a Stop in call %d there were %d more", stopAt, after)
		}
	}
}

func TestTimeStringNegative(t *testing.T) {
	for want, d := range map[string]time.Duration{"-0.50": -ms(5), "-1.50": -ms(15), "-1.00": -ms(10), "-0.10": -ms(1), "0.50": ms(5), "0.00": 0, "-0.01": -1} {
		if got := Hz(100).At(0, d).String(); got != want {
			t.Errorf("%v at 100/s is %s, want %s", d, got, want)
		}
	}
}

// A client that takes its server's rate says which numbers of ticks come again, or never.
func TestAdjustReports(t *testing.T) {
	for _, rate := range []Rate{Hz(30), Hz(120)} {
		var r recorder
		c := newClient(r.client(ClientConfig{Config: Config{OnMismatch: MismatchAdjust}}), &fakeRemote{delay: ms(20)}, time.Second)
		now := uint64(0)
		run := func() {
			for range 20 {
				now += 10_000
				c.Advance(now)
			}
		}
		run()
		w := c.welcomes.last.Welcome
		w.Rate, w.Tick = rate, rate.Ticks(time.Second+time.Duration(now)*time.Microsecond)
		if err := c.OnWelcome(w, now); err != nil {
			t.Fatal(err)
		}
		run()
		r.check(t)
	}
}

// paired is a server and a client that pause together, without a network: what the server
// says reaches the client when the test says so.
type paired struct {
	t      *testing.T
	s      *Server
	c      *Client
	remote *fakeRemote
	rec    recorder
	now    uint64
}

func newPaired(t *testing.T, cfg ClientConfig) *paired {
	p := &paired{t: t, remote: &fakeRemote{delay: ms(50)}}
	p.s, p.c = mustServer(ServerConfig{Epoch: 1}), mustClient(p.rec.client(cfg), p.remote)
	p.s.Start(0)
	p.c.Start(0)
	return p
}

func (p *paired) run(d time.Duration) {
	for end := p.now + usec(d); p.now < end; {
		p.now += 10_000
		p.s.Advance(p.now)
		p.c.Advance(p.now)
	}
}

// welcome lets what the server says now arrive.
func (p *paired) welcome() {
	p.t.Helper()
	w, _ := p.s.Announce(1, p.now)
	if err := p.c.OnWelcome(w, p.now); err != nil {
		p.t.Fatal(err)
	}
}

// apart returns how far the client's shared clock is ahead of the server's.
func (p *paired) apart() time.Duration {
	a, _ := p.c.SharedTime(p.now)
	b, _ := p.s.SharedTime(p.now)
	return a.Sub(b)
}

// Server and client pause at the same times. Whichever Welcomes are lost, no clock steps: also if
// the last one that came was sent in the pause, or before it, or arrives only after it.
func TestPauseWithLostWelcomes(t *testing.T) {
	for name, tt := range map[string]struct {
		inPause, delayed bool
		after            time.Duration // when the first one after the pause comes
	}{
		"in the pause":                {true, false, 900 * time.Millisecond},
		"none in the pause":           {false, false, 900 * time.Millisecond},
		"one of before comes after":   {false, true, 900 * time.Millisecond},
		"in the pause, and of before": {true, true, ms(10)},
		"at once":                     {true, false, 0},
	} {
		p := newPaired(t, ClientConfig{})
		p.welcome()
		p.run(time.Second)
		old, _ := p.s.Announce(1, p.now)
		p.s.Pause(p.now)
		p.c.Pause(p.now)
		p.run(ms(100))
		if tt.inPause {
			p.welcome()
		}
		p.run(time.Second)
		if tt.inPause {
			p.welcome()
		}
		p.run(ms(800))
		p.s.Resume(p.now)
		p.c.Resume(p.now)
		if tt.delayed {
			_ = p.c.OnWelcome(old, p.now+1000)
		}
		p.run(tt.after)
		p.welcome()
		p.run(2 * time.Second)
		p.welcome()
		p.run(2 * time.Second)
		if got := fmt.Sprint(p.rec.events); got != "[synced]" || p.apart() != 0 {
			t.Errorf("%s: %v, %v apart", name, got, p.apart())
		}
	}
}

// A server that pauses alone makes its client step once, when it goes on.
func TestPauseOfServerAlone(t *testing.T) {
	p := newPaired(t, ClientConfig{})
	p.welcome()
	p.run(time.Second)
	p.s.Pause(p.now)
	for range 5 {
		p.run(time.Second)
		p.welcome()
	}
	p.s.Resume(p.now)
	p.run(ms(500))
	p.welcome()
	p.run(time.Second)
	if e := p.rec.of(EventStepped); len(p.rec.events) != 2 || len(e) != 1 || e[0].By != -5*time.Second || p.apart() != 0 {
		t.Errorf("%v, %v apart", p.rec.events, p.apart())
	}
	p.rec.check(t)
}

// A client that joins a paused server is synchronized and pauses with it, with Resume or without.
func TestJoinInPause(t *testing.T) {
	for _, resumes := range []bool{false, true} {
		p := newPaired(t, ClientConfig{})
		p.run(time.Second)
		p.s.Pause(p.now)
		p.run(time.Second)
		p.welcome()
		p.run(time.Second)
		p.welcome()
		if _, ok := p.c.Hello(); !ok || fmt.Sprint(p.rec.events) != "[synced]" {
			t.Errorf("no Hello in the pause; %v", p.rec.events)
		}
		if d := p.apart(); d.Abs() > Hz(60).Duration(1) || p.c.Stats().Ticks != 0 {
			t.Errorf("in the pause %v apart, %d ticks", d, p.c.Stats().Ticks)
		}
		p.run(3 * time.Second)
		p.s.Resume(p.now)
		if resumes {
			p.c.Resume(p.now)
		}
		p.run(ms(50))
		p.welcome()
		p.run(10 * time.Second)
		if d := p.apart(); d.Abs() > sharedBand || p.c.Stats().Ticks < 500 || len(p.rec.events) != 1 {
			t.Errorf("%v apart, %d ticks; %v", d, p.c.Stats().Ticks, p.rec.events)
		}
		p.rec.check(t)
	}
}

// A Welcome in bytes: as it was before Paused was added, and with it.
func TestWelcomeFlags(t *testing.T) {
	w := Welcome{Epoch: 7, Rate: Hz(60), OriginUsec: 5, Tick: 9}
	heard, paused, both := w, w, w
	heard.Heard, paused.Paused, both.Heard, both.Paused = true, true, true, true
	for flags, want := range map[byte]Welcome{0: w, 1: heard, 2: paused, 3: both} {
		b, _ := want.AppendBinary(nil)
		var got Welcome
		if err := got.UnmarshalBinary(b); err != nil || got != want || b[33] != flags || len(b) != 34 {
			t.Errorf("%+v in % x is %+v, %v", want, b, got, err)
		}
		b[33] |= 4
		if err := got.UnmarshalBinary(b); err != ErrMessage {
			t.Errorf("inputs that do not follow: %v", err)
		}
		b[33] ^= 12
		if err := got.UnmarshalBinary(b); err != ErrMessage {
			t.Errorf("an unknown flag: %v", err)
		}
	}
}

// Under NeverBack a step sets no clock back, not even one that stands still and will be right when
// it goes on.
func TestNeverBackAfterPause(t *testing.T) {
	remote := &fakeRemote{delay: ms(50)}
	c := mustClient(ClientConfig{NeverBack: true}, remote)
	c.Start(0)
	w := Welcome{Epoch: 1, Rate: Hz(60), Tick: 60, Paused: true}
	if err := c.OnWelcome(w, 1_000_000); err != nil {
		t.Fatal(err)
	}
	c.Advance(1_000_000)
	before, _ := c.Snapshot(1_000_000) // stands still at 1 s
	w.OriginUsec, w.Tick, w.Paused = 510_000, 60, false
	if err := c.OnWelcome(w, 1_500_000); err != nil { // which it was 10 ms before
		t.Fatal(err)
	}
	remote.delay += ms(250)
	c.Advance(1_500_000)
	for at := uint64(1_480_000); at <= 1_600_000; at += 5000 {
		if got, _ := c.Snapshot(at); got.SharedTime.Sub(before.SharedTime) < 0 || got.ServerTime.Sub(before.ServerTime) < 0 {
			t.Fatalf("at %d: %v after %v", at, got, before)
		}
	}
	if c.Stats().Steps != 1 {
		t.Errorf("%d steps", c.Stats().Steps)
	}
}
