// A time is one moment everywhere: for readers behind and ahead of the last input, and for
// what a server announces.

package tick

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What a server announces is one moment, also for a reading from before the last Advance.
func TestAnnouncePast(t *testing.T) {
	s := mustServer(ServerConfig{})
	s.Start(1_000_000)
	s.Advance(5_000_000)
	for _, now := range []uint64{5_000_000, 4_999_000, 4_750_000, 5_250_000, 1_000_000} {
		w, ok := s.Announce(1, now)
		if !ok || w.OriginUsec != 1_000_000 || w.Tick != Hz(60).Ticks(time.Duration(now-1_000_000)*time.Microsecond) {
			t.Errorf("at %d: %+v", now, w)
		}
	}
}

// Goroutines that announce by times that they read some while before, beside one that advances:
// all say the same origin.
func TestAnnounceBeside(t *testing.T) {
	var clock atomic.Uint64
	s := mustServer(ServerConfig{})
	clock.Store(1_000_000)
	s.Start(1_000_000)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range 5000 {
				now := clock.Load()
				runtime.Gosched() // so long that an Advance may come between
				if w, ok := s.Announce(1, now); !ok || w.OriginUsec != 1_000_000 || w.Tick != Hz(60).Ticks(time.Duration(now-1_000_000)*time.Microsecond) {
					t.Errorf("at %d: %+v", now, w)
					return
				}
			}
		})
	}
	for range 5000 {
		s.Advance(clock.Add(4000))
		runtime.Gosched()
	}
	wg.Wait()
}
