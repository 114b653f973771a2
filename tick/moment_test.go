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

// slewing returns a client whose predicted clock is to be slewed from nowUsec on, when
// nothing has changed for long.
func slewing(cfg ClientConfig, off time.Duration) (l *Client, nowUsec uint64) {
	remote := &fakeRemote{delay: ms(50)}
	l = newClient(cfg, remote, time.Hour)
	for ; nowUsec < 1_000_000; nowUsec += 10_000 {
		l.Advance(nowUsec)
	}
	remote.shift(off)
	return l, nowUsec
}

// A reader that is up to 20 ms ahead of the next Advance or Pause sees no clock go back,
// whatever they bring, steps apart.
func TestReaderAhead(t *testing.T) {
	for _, cfg := range []ClientConfig{{}, {SlewPPM: 1_000_000}, {NeverBack: true}} {
		for _, off := range []time.Duration{-ms(190), -ms(30), ms(30), ms(190), -time.Second} {
			if off == -time.Second && !cfg.NeverBack {
				continue // a step
			}
			for name, input := range map[string]func(l *Client, now uint64){
				"Advance": func(l *Client, now uint64) { l.Advance(now) },
				"Pause":   func(l *Client, now uint64) { l.Pause(now) },
				"Pause after Advance": func(l *Client, now uint64) {
					l.Advance(now - 5000)
					l.Pause(now)
				},
				"Pause and Resume": func(l *Client, now uint64) {
					l.Advance(now - 5000)
					l.Pause(now - 3000)
					l.Resume(now)
				},
			} {
				for ahead := uint64(0); ahead <= 20_000; ahead += 1000 {
					l, now := slewing(cfg, off)
					var before [30]Clocks
					for i := range before { // a reader that comes nearer and nearer
						before[i], _ = l.Snapshot(now - 10_000 + ahead*uint64(i)/30)
					}
					input(l, now)
					after, _ := l.Snapshot(now + ahead)
					last := before[29]
					if compare(after.SharedTime, last.SharedTime) < 0 || compare(after.ServerTime, last.ServerTime) < 0 || compare(after.PredictedTime, last.PredictedTime) < 0 {
						t.Fatalf("off by %v, %s, a reader %d us ahead: %v after %v", off, name, ahead, after, last)
					}
				}
			}
		}
	}
}

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
