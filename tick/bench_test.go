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

func BenchmarkSnapshot(b *testing.B) {
	l := newClient(ClientConfig{}, &fakeRemote{delay: ms(50), ppm: 50}, 1000*time.Hour)
	l.Advance(0)
	now := uint64(1)
	for b.Loop() {
		now += 7
		_, _ = l.Snapshot(now)
	}
}

func BenchmarkAdvance(b *testing.B) {
	l := newClient(ClientConfig{Handlers: Handlers{Tick: func(Info) {}}}, &fakeRemote{delay: ms(50)}, time.Hour)
	now := uint64(0)
	for b.Loop() {
		now += 16_667
		l.Advance(now)
	}
}
