// What a configuration may hold works to its limits, and all else is refused.

package tick

import (
	"math"
	"strings"
	"testing"
	"time"
)

// Ticks far off are refused, and the ends of int64 do no harm.
func TestWindow(t *testing.T) {
	l := startServer(ServerConfig{Epoch: 3, FirstTick: 1000})
	now := uint64(1_000_000)
	l.Advance(now) // tick 1060
	for _, tt := range []struct {
		n    Tick
		want bool
	}{
		{1060, true}, {1060 + 64, true}, {1060 + 65, false}, {1060 - 243, true}, {1060 - 245, false},
		{31060, false}, {0, false}, {-1, false}, {math.MaxInt64, false}, {math.MinInt64, false},
	} {
		if got := l.Accept(3, tt.n, now); got != tt.want {
			t.Errorf("tick %d at 1060: %v", tt.n, got)
		}
	}
	if n := l.Stats().Refused; n != 7 {
		t.Errorf("%d counted", n)
	}
	c := newClient(ClientConfig{}, &fakeRemote{}, 0)
	for _, n := range []Tick{math.MaxInt64, math.MinInt64, 1 << 60, -1 << 60} {
		if err := c.OnWelcome(Welcome{Epoch: 2, Rate: Hz(60), Tick: n}, 0); err != ErrMessage {
			t.Errorf("Welcome at tick %d: %v", n, err)
		}
	}
	for _, r := range []Rate{{0, 1}, {1, 0}, Hz(2_000_000_000)} {
		if err := c.OnWelcome(Welcome{Epoch: 2, Rate: r}, 0); err != ErrMessage {
			t.Errorf("Welcome of rate %v: %v", r, err)
		}
	}
	for _, n := range []Tick{1 << 36, -1 << 36} {
		s := mustServer(ServerConfig{Config: Config{CatchUp: CatchUpJump}, FirstTick: n})
		s.Start(5)
		for _, at := range []uint64{5, 6, 1 << 40, 1 << 62, math.MaxUint64, 0, 4} {
			s.Advance(at)
			s.Accept(s.epoch, math.MaxInt64, at)
			s.Accept(s.epoch, math.MinInt64, at)
			_, _ = s.Announce(5, at)
		}
	}
}

// The defaults of Past and Future let through what a client sends and hears at any rate, behind
// any delay, and nothing from far off; and what is set counts as it is.
func TestWindowAtAnyRate(t *testing.T) {
	for _, hz := range []uint32{1, 2, 30, 60, 128, 1000, 10_000} {
		for _, delay := range []time.Duration{0, ms(80), 16 * time.Second} {
			cfg := ClientConfig{Config: Config{Rate: Hz(hz), CatchUp: CatchUpRunAll}}
			remote := &fakeRemote{delay: delay}
			c := newClient(cfg, remote, time.Hour)
			s := mustServer(ServerConfig{Config: cfg.Config, FirstTick: Hz(hz).Ticks(time.Hour)})
			c.Advance(0)
			s.Start(0)
			s.Advance(0)
			arrival := uint64(delay.Microseconds())
			p, _ := c.PredictedTime(0)
			if ok, late := s.AcceptInput(1, s.epoch, p.Tick()+1, arrival); !ok || late {
				t.Errorf("%d Hz, %v: fresh input is accepted %v, late %v", hz, delay, ok, late)
			}
			if now := Hz(hz).Ticks(time.Hour); !c.Accept(1, now, arrival) || !c.Accept(1, now, arrival+1_000_000) {
				t.Errorf("%d Hz, %v: state is refused", hz, delay)
			}
			second := Tick(hz)
			if s.Accept(s.epoch, p.Tick()+7*second+7, arrival) || c.Accept(1, Hz(hz).Ticks(time.Hour)-12*second, arrival) {
				t.Errorf("%d Hz, %v: what is far off is accepted", hz, delay)
			}
		}
	}
	s := startServer(ServerConfig{Config: Config{Rate: Hz(100), Past: ms(50), Future: ms(30)}})
	for n, want := range map[Tick]bool{94: false, 95: true, 103: true, 104: false} {
		if got := s.Accept(s.epoch, n, 1_000_000); got != want {
			t.Errorf("tick %d at 100: %v", n, got)
		}
	}
}

// What makes no sense or does not fit is refused with a message that names it.
func TestRefused(t *testing.T) {
	server := func(cfg ServerConfig) error {
		_, err := NewServer(cfg)
		return err
	}
	client := func(cfg ClientConfig) error {
		_, err := NewClient(cfg, &fakeRemote{})
		return err
	}
	_, noRemote := NewClient(ClientConfig{}, nil)
	for _, tt := range []struct {
		want string
		err  error
	}{
		{"remote clock is nil", noRemote},
		{"remote clock is nil", newClient(ClientConfig{}, &fakeRemote{}, 0).Follow(nil)},
		{"Rate is 1/0", server(ServerConfig{Config: Config{Rate: Rate{1, 0}}})},
		{"Rate is 2000000000/1", server(ServerConfig{Config: Config{Rate: Hz(2_000_000_000)}})},
		{"MaxTicks is negative", server(ServerConfig{Config: Config{MaxTicks: -1}})},
		{"Past or Future is negative", server(ServerConfig{Config: Config{Past: -1}})},
		{"Past or Future is negative", server(ServerConfig{Config: Config{Future: math.MinInt64}})},
		{"CatchUp is none of", server(ServerConfig{Config: Config{CatchUp: 4}})},
		{"OnMismatch is none of", server(ServerConfig{Config: Config{OnMismatch: 4}})},
		{"Epoch is more than 2^62", server(ServerConfig{Epoch: 1<<62 + 1})},
		{"FirstTick is more than 36 years", server(ServerConfig{FirstTick: 1 << 38})},
		{"FirstTick is more than 36 years", server(ServerConfig{FirstTick: math.MinInt64})},
		{"FirstTick is more than 36 years", server(ServerConfig{FirstTick: math.MaxInt64})},
		{"Rate is 1/0", client(ClientConfig{Config: Config{Rate: Rate{1, 0}}})},
		{"buffer is longer than 1h", client(ClientConfig{ClientBuffer: math.MaxInt64})},
		{"buffer is longer than 1h", client(ClientConfig{ServerBuffer: math.MaxInt64})},
		{"SyncBound is negative", client(ClientConfig{SyncBound: -1})},
		{"SlewPPM is not in 0 to 10^6", client(ClientConfig{SlewPPM: 1_000_001})},
		{"SlewPPM is not in 0 to 10^6", client(ClientConfig{SlewPPM: -1})},
		{"LateShare is not in 0 to 0.5", client(ClientConfig{LateShare: 0.51})},
		{"DeadBand or HardThreshold", client(ClientConfig{DeadBand: -1})},
		{"DeadBand or HardThreshold", client(ClientConfig{HardThreshold: -1})},
	} {
		if tt.err == nil || !strings.HasPrefix(tt.err.Error(), "tick: ") || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("want %q: %v", tt.want, tt.err)
		}
	}
}

// What is allowed works at its ends.
func TestLimits(t *testing.T) {
	const most = math.MaxInt64
	const epoch = 1 << 62
	common := Config{MaxTicks: math.MaxInt, StallThreshold: most, Past: most, Future: most}
	s := startServer(ServerConfig{Config: common, Epoch: epoch, FirstTick: 1 << 36})
	s.Advance(20_000)
	if got, _ := s.Epoch(); got != epoch {
		t.Errorf("epoch %d", got)
	}
	if w, ok := s.Announce(0, 20_000); !ok || w.Tick != 1<<36+1 || !w.plausible() {
		t.Errorf("%+v", w)
	}
	for _, n := range []Tick{-1 << 38, -1, 0, 1 << 36, most} {
		if !s.Accept(epoch, n, 20_000) {
			t.Errorf("tick %d refused", n)
		}
	}
	c := newClient(ClientConfig{
		Config: common, ClientBuffer: time.Hour, ServerBuffer: time.Hour,
		SyncBound: most, SlewPPM: 1_000_000, DeadBand: most, HardThreshold: most,
	}, &fakeRemote{delay: time.Hour, bound: most}, time.Hour)
	c.Advance(0)
	if got, ok := c.Snapshot(0); !ok || got.ServerTime.Duration() != -time.Hour || got.PredictedTime.Duration() != 3*time.Hour {
		t.Errorf("clocks %v", got)
	}
	c.Advance(1_000_000)
	if err := c.SetBuffers(time.Hour+1, 0); err == nil {
		t.Error("a buffer of more than an hour was taken")
	}
	if n := c.Stats().Losses; n != 0 {
		t.Errorf("%d losses", n)
	}
}

// The first tick may start 2^60 ns from tick 0, to the nanosecond: at these rates one does.
func TestFirstTickLimit(t *testing.T) {
	for rate, limit := range map[Rate]Tick{{39229, 1}: 45227957704222, {55645, 1}: -64154317123848} {
		beyond := limit + limit/max(limit, -limit)
		for _, n := range []Tick{limit, beyond} {
			c := ServerConfig{Config: Config{Rate: rate}, FirstTick: n}
			if err := c.complete(); (err == nil) != (n == limit) {
				t.Errorf("%v, first tick %d, at %v: %v", rate, n, rate.Duration(n), err)
			}
		}
	}
}
