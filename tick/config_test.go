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
		{
			ServerConfig{FirstTick: 1000},
			[]Tick{1060, 1124, 817},
			[]Tick{1125, 815, 31060, 0, -1, most, math.MinInt64},
		},
		{
			ServerConfig{Config: Config{Rate: Hz(100), AcceptBehind: ms(50), AcceptAhead: ms(30)}},
			[]Tick{95, 103},
			[]Tick{94, 104},
		},
		{ServerConfig{Config: Config{Rate: Hz(1)}}, []Tick{-7, 6}, []Tick{-8, 7}},
		{
			ServerConfig{Config: Config{AcceptBehind: most, AcceptAhead: most}},
			[]Tick{-1 << 38, -1, 0, 1 << 36, most},
			nil,
		},
	} {
		s := startServer(tt.cfg)
		s.Advance(now)
		for i, n := range append(tt.accepted, tt.refused...) {
			check(t, s.Accept(s.epoch, n, now), i < len(tt.accepted), "%+v: tick %d", tt.cfg, n)
		}
		check(t, s.Stats().Refused, uint64(len(tt.refused)), "%+v: counted", tt.cfg)
	}
}

// What makes no sense or does not fit is refused with a message that names it.
func TestRefused(t *testing.T) {
	// At this rate a tick starts 2^60 ns from tick 0.
	odd := Config{Rate: Hz(39229)}
	oddLimit := Tick(45227957704222)
	mustServer(ServerConfig{Config: odd, FirstTick: oddLimit})
	beyond := ServerConfig{Config: odd, FirstTick: oddLimit + 1}
	bad := Config{Rate: Rate{1, 0}}
	_, noServer := NewServer(ServerConfig{Config: bad})
	_, noClient := NewClient(ClientConfig{Config: bad}, &fakeRemote{})
	_, noRemote := NewClient(ClientConfig{}, nil)
	c, _, _ := newClient(ClientConfig{})
	for _, tt := range []struct {
		want string
		err  error
	}{
		{"the remote clock is nil", noRemote},
		{"the remote clock is nil", c.Follow(nil)},
		{"Rate is 1/0", noServer},
		{"Rate is 1/0", noClient},
		{"Rate is 2000000000/1", (&Config{Rate: Hz(2_000_000_000)}).complete()},
		{"MaxRate is 1/0, not", (&Config{MaxRate: Rate{1, 0}}).complete()},
		{"MaxTicks is negative", (&Config{MaxTicks: -1}).complete()},
		{"AcceptBehind or AcceptAhead is negative", (&Config{AcceptBehind: -1}).complete()},
		{"AcceptBehind or AcceptAhead is negative", (&Config{AcceptAhead: math.MinInt64}).complete()},
		{"CatchUp is none of", (&Config{CatchUp: 4}).complete()},
		{"OnMismatch is none of", (&Config{OnMismatch: 4}).complete()},
		{"Epoch is more than 2^62", (&ServerConfig{Epoch: 1<<62 + 1}).complete()},
		{"FirstTick is more than 36 years", beyond.complete()},
		{"FirstTick is more than 36 years", (&ServerConfig{FirstTick: math.MinInt64}).complete()},
		{"FirstTick is more than 36 years", (&ServerConfig{FirstTick: math.MaxInt64}).complete()},
		{"a buffer is longer than 1h", (&ClientConfig{ClientBuffer: math.MaxInt64}).complete()},
		{"a buffer is longer than 1h", c.SetBuffers(time.Hour+1, 0)},
		{"a buffer is longer than 1h", (&ClientConfig{ServerBuffer: math.MaxInt64}).complete()},
		{"SyncBound is negative", (&ClientConfig{SyncBound: -1}).complete()},
		{"SlewPPM is not in 0 to 10^6", (&ClientConfig{SlewPPM: 1_000_001}).complete()},
		{"SlewPPM is not in 0 to 10^6", (&ClientConfig{SlewPPM: -1}).complete()},
		{"LateShare is not in 0 to 0.5", (&ClientConfig{LateShare: 0.51}).complete()},
		{"DeadBand or HardThreshold", (&ClientConfig{DeadBand: -1}).complete()},
		{"DeadBand or HardThreshold", (&ClientConfig{HardThreshold: -1}).complete()},
	} {
		if !strings.HasPrefix(fmt.Sprint(tt.err), "tick: "+tt.want) {
			t.Errorf("want %q: %v", tt.want, tt.err)
		}
	}
}

// What is allowed works at its ends.
func TestLimits(t *testing.T) {
	const most = math.MaxInt64
	common := Config{
		MaxTicks:       math.MaxInt,
		StallThreshold: most,
		AcceptBehind:   most,
		AcceptAhead:    most,
	}
	s := startServer(ServerConfig{Config: common, Epoch: 1 << 62, FirstTick: 1 << 36})
	s.Advance(20_000)
	w, _ := s.Announce(0, 20_000)
	check(t, w.Epoch == 1<<62 && w.Tick == 1<<36+1 && w.plausible(), true, "announced %+v", w)
	c, remote, _ := newClient(ClientConfig{
		Config: common, ClientBuffer: time.Hour, ServerBuffer: time.Hour,
		SyncBound: most, SlewPPM: 1_000_000, DeadBand: most, HardThreshold: most,
	})
	remote.delay = time.Hour
	remote.bound = most
	c.Advance(0)
	got, _ := c.Snapshot(0)
	hours := [3]time.Duration{shared: time.Hour, server: -time.Hour, predicted: 3 * time.Hour}
	check(t, got.since(Clocks{}), hours, "clocks")
	c.Advance(1_000_000)
	check(t, c.Stats().Losses, 0, "losses")
}
