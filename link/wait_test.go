// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that Wait returns with the datagram that makes the peer's clock known well
// enough, not before and not later, and that it says why it gave up. They run in bubbles, in which
// time passes when all goroutines wait.
package link_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"timesync"
	"timesync/link"
)

// exchanges lets two ends exchange a datagram each way, 20 ms each, from now on. The peer's clock
// is ahead by offset.
func exchanges(a, b *link.Link, now, offset uint64, n int) (then uint64) {
	for range n {
		now = talk(a, b, now, offset, 20*time.Millisecond, time.Microsecond)
	}
	return now
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a, b link.Link
		ctx, cancel := context.WithCancel(t.Context())
		type waiter struct {
			tolerable time.Duration
			answers   chan error
		}
		start := func(tolerable time.Duration) waiter {
			w := waiter{tolerable, make(chan error, 1)}
			go func() { w.answers <- a.Wait(ctx, w.tolerable) }()
			return w
		}
		waiters := []waiter{start(time.Hour), start(25 * time.Millisecond), start(25 * time.Millisecond), start(time.Millisecond)}
		now := uint64(1 << 40)
		returned := make([]bool, len(waiters))
		for range 100 {
			now = exchanges(&a, &b, now, 1e9, 1)
			synctest.Wait()
			s, _ := a.Snapshot(now - 16667 + 20_000) // when the last one came
			for i, w := range waiters {
				want := returned[i] || s.Within(w.tolerable) == nil
				select {
				case err := <-w.answers:
					if returned[i] = true; !want || err != nil {
						t.Fatalf("tolerable %v: %v while %v", w.tolerable, err, s)
					}
				default:
					if want && !returned[i] {
						t.Fatalf("tolerable %v: still waiting while %v", w.tolerable, s)
					}
				}
			}
		}
		if !returned[0] || !returned[1] || !returned[2] || returned[3] {
			t.Errorf("returned: %v", returned)
		}
		if err := a.Wait(ctx, time.Hour); err != nil {
			t.Errorf("what is known well enough is waited for: %v", err)
		}
		cancel()
		if err := <-waiters[3].answers; !errors.Is(err, context.Canceled) || !errors.Is(err, timesync.ErrWide) {
			t.Errorf("a bound of 20 ms, wanted 1 ms: %v", err)
		}
	})
}

func TestWaitInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var a, b link.Link
		begun := time.Now()
		if err := a.Wait(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, timesync.ErrUnsynchronized) {
			t.Errorf("without a peer: %v", err)
		}
		if waited := time.Since(begun); waited != time.Minute {
			t.Errorf("that took %v", waited)
		}
		exchanges(&a, &b, 1<<40, 1e9, 100)
		a.Reset()
		if err := a.Wait(ctx, time.Hour); !errors.Is(err, timesync.ErrUnsynchronized) {
			t.Errorf("after a reset: %v", err)
		}
	})
}
