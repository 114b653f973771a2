// Readers do not allocate, and what readers and Advance cost.

package tick

import (
	"testing"
	"time"
)

func TestReadsDoNotAllocate(t *testing.T) {
	l := newClient(ClientConfig{}, &fakeRemote{delay: ms(50)}, time.Hour)
	l.Advance(0)
	now := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += 17
		_, _ = l.SharedTime(now)
		_, _ = l.ServerTime(now)
		_, _ = l.PredictedTime(now)
		_, _ = l.Snapshot(now)
		_, _ = l.Epoch()
		l.Fraction(now)
		l.Accept(1, 216_000, now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRead(b *testing.B) {
	for _, bb := range []struct {
		name    string
		rate    Rate
		slewing bool
	}{{"60", Hz(60), false}, {"60/slewing", Hz(60), true}, {"60000_1001", Rate{60000, 1001}, false}} {
		l := newClient(ClientConfig{Config: Config{Rate: bb.rate}}, &fakeRemote{delay: ms(50), ppm: 50}, 1000*time.Hour)
		l.Advance(0)
		if bb.slewing {
			l.SetBuffers(ms(100), ms(100))
			l.Advance(1)
		}
		b.Run(bb.name, func(b *testing.B) {
			now := uint64(1)
			for b.Loop() {
				now += 7
				_, _ = l.PredictedTime(now)
			}
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	l := newClient(ClientConfig{}, &fakeRemote{delay: ms(50), ppm: 50}, 1000*time.Hour)
	l.Advance(0)
	now := uint64(1)
	for b.Loop() {
		now += 7
		_, _ = l.Snapshot(now)
	}
}

func BenchmarkReadParallel(b *testing.B) {
	l := newClient(ClientConfig{}, &fakeRemote{delay: ms(50)}, time.Hour)
	l.Advance(0)
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		now := uint64(0)
		for pb.Next() {
			now += 7
			_, _ = l.PredictedTime(now)
		}
	})
}

func BenchmarkAdvance(b *testing.B) {
	l := newClient(ClientConfig{Handlers: Handlers{Tick: func(Info) {}}}, &fakeRemote{delay: ms(50)}, time.Hour)
	now := uint64(0)
	for b.Loop() {
		now += 16_667
		l.Advance(now)
	}
}

func BenchmarkTimeNow(b *testing.B) { // the baseline
	for b.Loop() {
		_ = time.Now()
	}
}
