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

func TestWait(t *testing.T) {
	for tolerable, enough := range map[time.Duration]bool{time.Hour: true, 25 * time.Millisecond: true, time.Millisecond: false} {
		synctest.Test(t, func(t *testing.T) {
			var a, b link.Link
			ctx, cancel := context.WithCancel(t.Context())
			answers := make(chan error, 2)
			for range cap(answers) {
				go func() { answers <- a.Wait(ctx, tolerable) }()
			}
			now, want := uint64(1<<40), 0
			for range 100 {
				came := now + 20_000
				now = talk(&a, &b, now, 1e9, 20*time.Millisecond, time.Microsecond) // a datagram each way
				synctest.Wait()
				s, _ := a.Snapshot(came)
				if s.Within(tolerable) == nil {
					want = cap(answers)
				}
				if len(answers) != want {
					t.Fatalf("tolerable %v: %d have returned, want %d, at %v", tolerable, len(answers), want, s)
				}
			}
			cancel()
			for range cap(answers) {
				err := <-answers
				if gaveUp := errors.Is(err, context.Canceled) && errors.Is(err, timesync.ErrWide); enough != (err == nil) || enough == gaveUp {
					t.Errorf("a bound of 20 ms, tolerable %v: %v", tolerable, err)
				}
			}
			if err := a.Wait(t.Context(), time.Hour); err != nil {
				t.Errorf("what is known well enough is waited for: %v", err)
			}
		})
	}
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
		talk(&a, &b, 1<<40, 1e9, 20*time.Millisecond, 2*time.Second)
		a.Reset()
		if err := a.Wait(ctx, time.Hour); !errors.Is(err, timesync.ErrUnsynchronized) {
			t.Errorf("after a reset: %v", err)
		}
	})
}
