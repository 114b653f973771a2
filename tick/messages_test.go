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
	must(t, c.OnWelcome(later, 1000))
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

// A peer that says Hello again and again, refused for its rate, hides no other. Each is reported once.
func TestHellosOfOnePeer(t *testing.T) {
	var r recorder
	s := startServer(r.server(ServerConfig{Config: Config{OnMismatch: MismatchDisconnect}}))
	for i := range 5000 {
		if err := s.OnHello(1, Hello{Epoch: s.epoch, Rate: Hz(30 + uint32(i%2))}); err != ErrRate {
			t.Fatal(err)
		}
	}
	if err := s.OnHello(2, Hello{Epoch: s.epoch, Rate: Rate{0, 1}}); err != ErrMessage {
		t.Errorf("bad rate: %v", err)
	}
	for range 3 {
		must(t, s.OnHello(2, Hello{Epoch: s.epoch, Rate: Hz(60)}))
	}
	s.Advance(0)
	if got := fmt.Sprint(r.events); got != "[synced tick rate 30/s of peer 1 differs peer 2 synced]" {
		t.Errorf("%.200s", got)
	}
	must(t, s.OnHello(1, Hello{Epoch: s.epoch, Rate: Hz(60)})) // it has changed its mind
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
				must(t, l.OnWelcome(first.at(now), now))
			}
			l.Advance(now)
		}
		if got := fmt.Sprint(r.events); got != "[synced]" {
			t.Errorf("%v each way: %v", delay, got)
		}
		// The server starts again; its clock goes on.
		w := first.at(60_000_000)
		w.OriginUsec, w.Tick, w.Epoch = w.serverUsec(), 0, 2
		must(t, l.OnWelcome(w, 60_000_000))
		l.Advance(60_010_000)
		g, ok := l.SharedTime(60_010_000)
		if !ok || g.Duration() != delay+ms(10) {
			t.Errorf("%v each way: in the next epoch it is %v, %v; %v", delay, g.Duration(), ok, r.events)
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

// Under NeverBack a step sets no clock back, not even one that stands still and will be right when
// it goes on.
func TestNeverBackAfterPause(t *testing.T) {
	remote := &fakeRemote{delay: ms(50)}
	c := startClient(ClientConfig{NeverBack: true}, remote)
	w := Welcome{Epoch: 1, Rate: Hz(60), Tick: 60, Paused: true}
	must(t, c.OnWelcome(w, 1_000_000))
	c.Advance(1_000_000)
	before, _ := c.Snapshot(1_000_000) // stands still at 1 s
	w.OriginUsec, w.Tick, w.Paused = 510_000, 60, false
	must(t, c.OnWelcome(w, 1_500_000)) // which it was 10 ms before
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
