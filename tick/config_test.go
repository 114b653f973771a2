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
	l := mustServer(ServerConfig{Epoch: 3, FirstTick: 1000})
	l.Start(0)
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
	s := mustServer(ServerConfig{Config: Config{Rate: Hz(100), Past: ms(50), Future: ms(30)}})
	s.Start(0)
	for n, want := range map[Tick]bool{94: false, 95: true, 103: true, 104: false} {
		if got := s.Accept(s.epoch, n, 1_000_000); got != want {
			t.Errorf("tick %d at 100: %v", n, got)
		}
	}
}

// AcceptInput tells what is kept from what is late and from what is refused.
func TestAcceptInput(t *testing.T) {
	s := mustServer(ServerConfig{Config: Config{CatchUp: CatchUpJump}, Epoch: 3})
	if ok, late := s.AcceptInput(1, 3, 0, 0); ok || late || s.Stats().Early != 1 {
		t.Errorf("before Start: %v, %v", ok, late)
	}
	s.Start(0)
	if ok, late := s.AcceptInput(1, 3, 0, 0); !ok || late {
		t.Errorf("tick 0 before it ran: %v, %v", ok, late)
	}
	s.Advance(1_000_000) // runs tick 60 and skips those before
	for _, tt := range []struct {
		epoch    uint64
		n        Tick
		ok, late bool
	}{{3, 61, true, false}, {3, 60, false, true}, {3, 59, false, true}, {2, 61, false, false}, {3, 600, false, false}} {
		if ok, late := s.AcceptInput(1, tt.epoch, tt.n, 1_000_000); ok != tt.ok || late != tt.late {
			t.Errorf("%+v: %v, %v", tt, ok, late)
		}
	}
	if got := s.Stats(); got.Refused != 1 || got.OldEpoch != 1 {
		t.Errorf("%+v", got)
	}
	// The process hung, and inputs that waited are read before an Advance notices. It will run tick 180 only.
	for n, want := range map[Tick]bool{61: false, 179: false, 180: true, 181: true} {
		if ok, late := s.AcceptInput(2, 3, n, 3_000_000); ok != want || late == want {
			t.Errorf("after a stall, tick %d: %v, %v", n, ok, late)
		}
	}
	w, _ := s.Announce(2, 3_000_000)
	if early, ok := w.inputs.early(2); w.inputs.newest != 181 || !ok || early.Round(time.Millisecond) != -ms(17) {
		t.Errorf("tick 179 came %v early", early)
	}
	if ran := s.Advance(3_000_000); ran != 1 || s.nextTick() != 181 {
		t.Errorf("ran %d, next is %d", ran, s.nextTick())
	}
}

// What makes no sense or does not fit is refused with a message that names it.
func TestRefused(t *testing.T) {
	for want, err := range map[string]error{
		"remote clock is nil": second(NewClient(ClientConfig{}, nil)),
		"Follow(nil)":         newClient(ClientConfig{}, &fakeRemote{}, 0).Follow(nil),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "tick: ") {
			t.Errorf("%s: %v", want, err)
		}
	}
	for want, cfg := range map[string]ServerConfig{
		"Rate is 1/0":                  {Config: Config{Rate: Rate{1, 0}}},
		"Rate is 2000000000/1":         {Config: Config{Rate: Hz(2_000_000_000)}},
		"MaxTicks is negative":         {Config: Config{MaxTicks: -1}},
		"Past or Future is negative":   {Config: Config{Past: -1}},
		"Past or Future is negative: ": {Config: Config{Future: math.MinInt64}},
		"CatchUp is none of":           {Config: Config{CatchUp: 4}},
		"OnMismatch is none of":        {Config: Config{OnMismatch: 4}},
		"Epoch is more than 2^62":      {Epoch: 1<<62 + 1},
		"FirstTick is more than":       {FirstTick: 1 << 38},
		"FirstTick is more than 36":    {FirstTick: math.MinInt64},
		"FirstTick is more than 36 y":  {FirstTick: math.MaxInt64},
	} {
		if s, err := NewServer(cfg); s != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	for want, cfg := range map[string]ClientConfig{
		"Rate is 1/0":                {Config: Config{Rate: Rate{1, 0}}},
		"buffer is longer":           {ClientBuffer: math.MaxInt64},
		"buffer is longer than 1h":   {ServerBuffer: math.MaxInt64},
		"SyncBound is negative":      {SyncBound: -1},
		"SlewPPM is not in":          {SlewPPM: 1_000_001},
		"SlewPPM is not in 0":        {SlewPPM: -1},
		"DeadBand or HardThreshold":  {DeadBand: -1},
		"DeadBand or HardThreshold ": {HardThreshold: -1},
	} {
		if c, err := NewClient(cfg, &fakeRemote{}); c != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func second(_ *Client, err error) error { return err }

// What is allowed works at its ends.
func TestLimits(t *testing.T) {
	const most = math.MaxInt64
	const epoch = 1 << 62
	common := Config{MaxTicks: math.MaxInt, StallThreshold: most, Past: most, Future: most}
	s := mustServer(ServerConfig{Config: common, Epoch: epoch, FirstTick: 1 << 36})
	s.Start(0)
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
