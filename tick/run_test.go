// Run keeps its deadlines, and ends only itself.

package tick

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A Run after a Stop is not ended by the one before, also if that is still in a
// handler; and no two handlers run at once.
func TestStopThenRun(t *testing.T) {
	for _, busy := range []time.Duration{0, 3 * time.Millisecond, 200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			var inside, together, ran atomic.Int32
			s := mustServer(ServerConfig{
				Config: Config{Clock: func() uint64 { return uint64(time.Since(begin).Microseconds()) }},
				Handlers: Handlers{Tick: func(Step) {
					if inside.Add(1) > 1 {
						together.Add(1)
					}
					time.Sleep(busy)
					inside.Add(-1)
					ran.Add(1)
				}},
			})
			for i := range 20 {
				first, second := make(chan error, 1), make(chan error, 1)
				go func() { first <- s.Run(t.Context()) }()
				time.Sleep(ms(101) + time.Duration(i)*ms(1))
				s.Stop()
				ctx, cancel := context.WithCancel(t.Context())
				go func() { second <- s.Run(ctx) }()
				time.Sleep(time.Second)
				if err := <-first; err != nil {
					t.Errorf("busy for %v: the first Run returned %v", busy, err)
				}
				select {
				case err := <-second:
					t.Fatalf("busy for %v: the second Run returned %v", busy, err)
				default:
				}
				before := ran.Load()
				time.Sleep(time.Second)
				if n := ran.Load() - before; n < 4 {
					t.Errorf("busy for %v: %d ticks in a second of the second Run", busy, n)
				}
				cancel()
				if err := <-second; err != context.Canceled {
					t.Errorf("busy for %v: the second Run returned %v", busy, err)
				}
				if _, ok := s.Epoch(); ok {
					t.Error("not stopped")
				}
			}
			if n := together.Load(); n != 0 {
				t.Errorf("busy for %v: %d handlers beside another", busy, n)
			}
		})
	}
}

// Run keeps absolute deadlines: late ticks do not delay later ones. In a bubble
// with its own time, without sleeping.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		clock := func() uint64 { return uint64(time.Since(begin).Microseconds()) }
		var r recorder
		var late time.Duration
		cfg := r.server(ServerConfig{Config: Config{Clock: clock}})
		record := cfg.Tick
		cfg.Tick = func(s Step) {
			record(s)
			late = max(late, time.Since(begin)-s.Predicted.Time())
			if s.Tick%100 == 50 {
				time.Sleep(ms(40)) // a slow tick
			} else {
				time.Sleep(ms(3))
			}
		}
		s := mustServer(cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+ms(1))
		defer cancel()
		if err := s.Run(ctx); err != context.DeadlineExceeded {
			t.Errorf("Run returned %v", err)
		}
		r.check(t)
		if len(r.ticks) != 601 || len(r.events) != 1 {
			t.Errorf("%d ticks in 10 s; %v", len(r.ticks), r.events)
		}
		if late > ms(41) {
			t.Errorf("a tick was late by %v", late)
		}
		if _, ok := s.Shared(0); ok {
			t.Error("still running")
		}

		// A client starts when its server is known, and Stop ends Run.
		remote := &fakeRemote{delay: ms(20), lost: true}
		c := mustClient(ClientConfig{Config: Config{Clock: clock}}, remote)
		done := make(chan error)
		go func() { done <- c.Run(t.Context()) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if err := c.OnWelcome(Welcome{Rate: Hz(60)}, clock()); err != nil {
			t.Fatal(err)
		}
		short, cancelShort := context.WithTimeout(t.Context(), time.Second)
		defer cancelShort()
		if err := c.WaitSynced(short); err != context.DeadlineExceeded {
			t.Errorf("WaitSynced returned %v", err)
		}
		synctest.Wait()
		remote.lost = false
		if err := c.WaitSynced(t.Context()); err != nil {
			t.Error(err)
		}
		c.Pause(clock())
		time.Sleep(time.Second)
		c.Stop()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v after Stop", err)
		}
	})
}
