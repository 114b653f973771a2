// These tests prove that nothing allocates, neither in calm nor in trouble.
package bench

import (
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim/rivals"
)

// TestNoAllocations: no call allocates.
func TestNoAllocations(t *testing.T) {
	for _, c := range costs(t) {
		c.prepare()
		if n := testing.AllocsPerRun(3, func() { c.ours(c.calls) }); n != 0 {
			t.Errorf("%s allocates %v times", c.name, n)
		}
	}
	feed := &NewStreams(1)[0]
	var s timesync.TimeSynchronizer
	run(t, feed, &s, new(rivals.Original), 20*time.Second)
	local := feed.Now
	buf := make([]byte, 8)
	c16, c23, c24 := timesync.NewCounter16(5), timesync.NewCounter23(6), timesync.NewCounter24(7)
	for name, f := range map[string]func(){
		"Skew":            func() { s.Skew() },
		"ErrorBound":      func() { s.ErrorBound(local) },
		"Stats":           func() { s.Stats() },
		"Snapshot":        func() { s.Snapshot(local) },
		"Anchor":          func() { s.Anchor(local, feed.Remote(local)) },
		"Reset":           func() { s.Reset() },
		"NowUsec":         func() { timesync.NowUsec() },
		"IsSynchronized":  func() { s.IsSynchronized() },
		"FromLocalTime23": func() { sink += timesync.FromLocalTime23(local, c23) },
		"FromLocalTime16": func() { sink += timesync.FromLocalTime16(local, c16) },
		"Expand":          func() { sink += c24.Expand(local) },
		"Counter16": func() {
			c16.Put(buf)
			c16 = timesync.ReadCounter16(buf)
			_, _ = c16.AppendBinary(buf[:0])
		},
		"Counter23": func() {
			c23.Put(buf)
			c23 = timesync.ReadCounter23(buf)
			_, _ = c23.AppendBinary(buf[:0])
		},
		"Counter24": func() {
			c24.Put(buf)
			c24 = timesync.ReadCounter24(buf)
			_, _ = c24.AppendBinary(buf[:0])
		},
		"UnmarshalBinary":     func() { _ = c24.UnmarshalBinary(buf[:3]) },
		"UnmarshalBinary err": func() { _ = c24.UnmarshalBinary(buf[:2]) },
	} {
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// TestNoAllocationsInTrouble: nor does anything allocate that is not the rule: jitter,
// fits, longer and shorter ways, steps of either clock, silence, receive times that go
// back, reports that come first and Reset.
func TestNoAllocationsInTrouble(t *testing.T) {
	var s timesync.TimeSynchronizer
	feed := &NewStreams(1)[0]
	now := feed.Now
	// us: by which the way, the peer's clock and ours change
	type change struct{ delay, remote, now int64 }
	changes := map[int]change{ // by second
		30: {delay: 40_000}, 60: {delay: -40_000},
		80: {remote: 1_000_000}, 100: {remote: -3_000},
		120: {now: 20_000_000}, 140: {now: 200_000_000}, 150: {now: -60_000_000}, 160: {now: 5_000_000},
	}
	var delay, remote uint64
	trouble := func() {
		s.Reset()
		s.OnPeerMinDeltaTS24(timesync.LocalTimeToDatagramTS24(remote), now)
		for k := range 60 * 180 {
			now += 16_667
			if k%60 == 0 {
				by := changes[k/60]
				delay, remote, now = delay+uint64(by.delay), remote+uint64(by.remote), now+uint64(by.now)
			}
			recv := now + Delay + delay + uint64(feed.Jitter[k])
			if k%7 == 0 {
				recv -= 20_000
			}
			s.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(now+remote), recv)
			if k%60 == 5 {
				s.OnPeerMinDeltaTS24(timesync.LocalTimeToDatagramTS24(Delay+remote), recv)
				s.MinDeltaTS24(recv)
			}
		}
		s.Reset()
	}
	if n := testing.AllocsPerRun(3, trouble); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
