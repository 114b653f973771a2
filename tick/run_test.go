// Run keeps its deadlines, and ends only itself.

package tick

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// running starts a Run and returns where it says how it ended.
func running(ctx context.Context, run func(context.Context) error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return done
}

// sinceNow returns a clock that is 0 now.
func sinceNow() func() uint64 {
	begin := time.Now()
	return func() uint64 { return usec(time.Since(begin)) }
}

// A Run after a Stop is not ended by the one before, also if that is still in a
// handler; and no two handlers run at once.
func TestStopThenRun(t *testing.T) {
	for _, busy := range []time.Duration{0, ms(3), ms(200)} {
		synctest.Test(t, func(t *testing.T) {
			var inside, together, ran atomic.Int32
			s := mustServer(ServerConfig{
				Config: Config{Clock: sinceNow()},
				Handlers: Handlers{Tick: func(Update) {
					if inside.Add(1) > 1 {
						together.Add(1)
					}
					time.Sleep(busy)
					inside.Add(-1)
					ran.Add(1)
				}},
			})
			for i := range 20 {
				first := running(t.Context(), s.Run)
				time.Sleep(ms(101) + time.Duration(i)*ms(1))
				s.Stop()
				ctx, cancel := context.WithCancel(t.Context())
				second := running(ctx, s.Run)
				time.Sleep(sec)
				check(t, <-first, nil, "busy for %v: the first Run", busy)
				before := ran.Load()
				time.Sleep(sec)
				if n := ran.Load() - before; n < 4 {
					t.Errorf("busy for %v: %d ticks in a second of the second Run", busy, n)
				}
				cancel()
				check(t, <-second, context.Canceled, "busy for %v: the second Run", busy)
				_, runs := s.Epoch()
				check(t, runs, false, "it still runs")
			}
			check(t, together.Load(), 0, "busy for %v: handlers beside another", busy)
		})
	}
}

// Run keeps absolute deadlines: late ticks do not delay later ones. In a bubble
// with its own time, without sleeping.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		clock := sinceNow()
		var r recorder
		var late time.Duration
		cfg := r.server(ServerConfig{Config: Config{Clock: clock}})
		record := cfg.Tick
		cfg.Tick = func(s Update) {
			record(s)
			if s.Tick%100 < 50 {
				late = max(late, time.Since(begin)-s.PredictedTime.Duration())
			}
			time.Sleep(ms(3))
			if s.Tick%100 == 50 { // a slow tick
				time.Sleep(ms(37))
			}
		}
		s := mustServer(cfg)
		ctx, end := context.WithTimeout(t.Context(), 10*sec+ms(1))
		defer end()
		check(t, s.Run(ctx), context.DeadlineExceeded, "Run")
		r.told(t, "run", "[synced]")
		if r.ran != 601 || late > ms(1) {
			t.Errorf("%d ticks in 10 s, late by up to %v long after a slow one", r.ran, late)
		}
		_, runs := s.SharedTime(0)
		check(t, runs, false, "it still runs")
		// With a context that has ended it runs no tick, though one is due.
		check(t, s.Run(ctx), context.DeadlineExceeded, "Run")
		check(t, r.ran, 601, "ticks")
	})
}

// TestSlept: Run says that the machine slept, once for each sleep, and says nothing of a wall
// clock that is slewed.
func TestSlept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		// by the second
		sleeps := map[int]time.Duration{0: time.Hour, 20: 40 * sec, 30: ms(20), 40: 2 * time.Hour}
		slept := func() time.Duration {
			at := int(time.Since(begin) / sec)
			by := sleeps[at]
			delete(sleeps, at)
			return by
		}
		var r recorder
		s := mustServer(r.server(ServerConfig{Config: Config{Clock: sinceNow(), Slept: slept}}))
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		check(t, s.Run(ctx), context.DeadlineExceeded, "Run")
		r.told(t, "run", "[synced the machine slept for 40s the machine slept for 2h0m0s]")
	})
}

// Run notices within 5 ms that the clocks are known and that another advance has ended,
// and within 50 ms that a pause has.
func TestRunNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := sinceNow()
		var slow atomic.Int64 // how long the next tick takes
		var last atomic.Int64 // when the first tick ran since it was 0, us
		common := Config{Rate: Hz(1000), Clock: clock}
		handlers := Handlers{Tick: func(Update) {
			last.CompareAndSwap(0, int64(clock()))
			time.Sleep(time.Duration(slow.Swap(0)))
		}}
		// after lets something happen and returns how long after it the next tick ran.
		after := func(happen func()) time.Duration {
			synctest.Wait()
			last.Store(0)
			at := int64(clock())
			happen()
			time.Sleep(sec)
			synctest.Wait()
			return time.Duration(last.Load()-at) * us
		}

		cfg := ClientConfig{Config: common, Handlers: handlers}
		c := mustClient(cfg, &fakeRemote{delay: ms(20)})
		ended := running(t.Context(), c.Run)
		short, cancel := context.WithTimeout(t.Context(), ms(102))
		defer cancel()
		check(t, c.WaitSynced(short), context.DeadlineExceeded, "WaitSynced")
		if d := after(func() {
			_ = c.OnWelcome(Welcome{Epoch: 1, Rate: Hz(1000)}, 0)
		}); d <= 0 || d > ms(7) {
			t.Errorf("the first tick came %v after the clocks were known", d)
		}
		must(t, c.WaitSynced(t.Context()))
		c.Stop()
		must(t, <-ended)

		s := mustServer(ServerConfig{Config: common, Handlers: handlers})
		slow.Store(int64(ms(203)))
		s.Start(clock())
		go s.Advance(clock()) // busy for 203 ms
		synctest.Wait()
		if d := after(func() { running(t.Context(), s.Run) }); d < ms(203) || d > ms(209) {
			t.Errorf("the first tick of Run came after %v", d)
		}
		s.Pause(clock())
		time.Sleep(ms(2))
		if d := after(func() { s.Resume(clock()) }); d <= 0 || d > ms(51) {
			t.Errorf("the first tick came %v after the pause", d)
		}
		s.Stop()
	})
}
