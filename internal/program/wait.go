// SPDX-License-Identifier: BSD-3-Clause

package program

import (
	"context"
	"runtime"
	"time"
)

const (
	// awake is how long before the instant the wait stops sleeping, because timers may be that
	// late. It is also the most that a wait costs a processor.
	awake = time.Millisecond

	// look is how often to ask how much time is left, because the instant may move.
	look = 10 * time.Millisecond
)

// Wait waits for an instant more exactly than a timer does. left returns how much time is left.
// Wait returns true once that is 0 or less, and false if stop is closed before.
func Wait(left func() time.Duration, stop <-chan struct{}) bool {
	for {
		switch wait := left(); {
		case wait <= 0:
			return true
		case wait <= awake:
			runtime.Gosched()
		default:
			select {
			case <-stop:
				return false
			case <-time.After(min(wait-awake, look)):
			}
		}
	}
}

// Sleep sleeps for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Every calls do once a period until stop is closed. The first call comes after one period.
func Every(stop <-chan struct{}, period time.Duration, do func()) {
	tick := time.Tick(period)
	for {
		select {
		case <-stop:
			return
		case <-tick:
			do()
		}
	}
}
