// What a configuration may hold works to its limits, and all else is refused.

package tick

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// Ticks far off are refused, also at the ends of int64, and what is set counts as it is.
func TestWindow(t *testing.T) {
	const most, now = math.MaxInt64, 1_000_000
	for _, tt := range []struct {
		cfg               ServerConfig
		accepted, refused []Tick // a second after the first
	}{
		{ServerConfig{FirstTick: 1000}, []Tick{1060, 1124, 817}, []Tick{1125, 815, 31060, 0, -1, most, math.MinInt64}},
		{ServerConfig{Config: Config{Rate: Hz(100), Past: ms(50), Future: ms(30)}}, []Tick{95, 103}, []Tick{94, 104}},
		{ServerConfig{Config: Config{Rate: Hz(1)}}, []Tick{-7, 6}, []Tick{-8, 7}},
		{ServerConfig{Config: Config{Past: most, Future: most}}, []Tick{-1 << 38, -1, 0, 1 << 36, most}, nil},
	} {
		s := startServer(tt.cfg)
		s.Advance(now)
		for i, n := range append(tt.accepted, tt.refused...) {
			check(t, s.Accept(s.epoch, n, now), i < len(tt.accepted), "%+v: tick %d", tt.cfg, n)
		}
		check(t, s.Stats().Refused, uint64(len(tt.refused)), "%+v: counted", tt.cfg)
	}
}

// refused is what NewServer, NewClient or Follow has said.
type refused struct{ err error }

func (r refused) complete() error { return r.err }

// What makes no sense or does not fit is refused with a message that names it.
func TestRefused(t *testing.T) {
	// At this rate a tick starts 2^60 ns from tick 0.
	odd, oddLimit := Config{Rate: Hz(39229)}, Tick(45227957704222)
	mustServer(ServerConfig{Config: odd, FirstTick: oddLimit})
	bad := Config{Rate: Rate{1, 0}}
	_, noServer := NewServer(ServerConfig{Config: bad})
	_, noClient := NewClient(ClientConfig{Config: bad}, &fakeRemote{})
	_, noRemote := NewClient(ClientConfig{}, nil)
	c, _, _ := newClient(ClientConfig{})
	for _, tt := range []struct {
		want string
		cfg  interface{ complete() error }
	}{
		{"the remote clock is nil", refused{noRemote}},
		{"the remote clock is nil", refused{c.Follow(nil)}},
		{"Rate is 1/0", refused{noServer}},
		{"Rate is 1/0", refused{noClient}},
		{"Rate is 2000000000/1", &Config{Rate: Hz(2_000_000_000)}},
		{"MaxTicks is negative", &Config{MaxTicks: -1}},
		{"Past or Future is negative", &Config{Past: -1}},
		{"Past or Future is negative", &Config{Future: math.MinInt64}},
		{"CatchUp is none of", &Config{CatchUp: 4}},
		{"OnMismatch is none of", &Config{OnMismatch: 4}},
		{"Epoch is more than 2^62", &ServerConfig{Epoch: 1<<62 + 1}},
		{"FirstTick is more than 36 years", &ServerConfig{Config: odd, FirstTick: oddLimit + 1}},
		{"FirstTick is more than 36 years", &ServerConfig{FirstTick: math.MinInt64}},
		{"FirstTick is more than 36 years", &ServerConfig{FirstTick: math.MaxInt64}},
		{"a buffer is longer than 1h", &ClientConfig{ClientBuffer: math.MaxInt64}},
		{"a buffer is longer than 1h", &ClientConfig{ServerBuffer: math.MaxInt64}},
		{"SyncBound is negative", &ClientConfig{SyncBound: -1}},
		{"SlewPPM is not in 0 to 10^6", &ClientConfig{SlewPPM: 1_000_001}},
		{"SlewPPM is not in 0 to 10^6", &ClientConfig{SlewPPM: -1}},
		{"LateShare is not in 0 to 0.5", &ClientConfig{LateShare: 0.51}},
		{"DeadBand or HardThreshold", &ClientConfig{DeadBand: -1}},
		{"DeadBand or HardThreshold", &ClientConfig{HardThreshold: -1}},
	} {
		if err := tt.cfg.complete(); !strings.HasPrefix(fmt.Sprint(err), "tick: "+tt.want) {
			t.Errorf("want %q: %v", tt.want, err)
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
	got, _ := s.Epoch()
	check(t, got, epoch, "epoch")
	if w, ok := s.Announce(0, 20_000); !ok || w.Tick != 1<<36+1 || !w.plausible() {
		t.Errorf("%+v", w)
	}
	c, remote, _ := newClient(ClientConfig{
		Config: common, ClientBuffer: time.Hour, ServerBuffer: time.Hour,
		SyncBound: most, SlewPPM: 1_000_000, DeadBand: most, HardThreshold: most,
	})
	remote.delay, remote.bound = time.Hour, most
	c.Advance(0)
	if got, ok := c.Snapshot(0); !ok || got.ServerTime.Duration() != -time.Hour || got.PredictedTime.Duration() != 3*time.Hour {
		t.Errorf("clocks %v", got)
	}
	c.Advance(1_000_000)
	if err := c.SetBuffers(time.Hour+1, 0); err == nil {
		t.Error("a buffer of more than an hour was taken")
	}
	check(t, c.Stats().Losses, 0, "losses")
}
