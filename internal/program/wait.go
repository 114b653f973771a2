// SPDX-License-Identifier: BSD-3-Clause

package program

import (
	"context"
	"runtime"
	"time"
)

const (
	// awake is how long before the instant the wait stops sleeping: timers may be so late.
	// It is the most that a wait costs a processor.
	awake = time.Millisecond

	// look is how often to ask again how long there is, because the instant may be moved.
	look = 10 * time.Millisecond
)

// Wait waits for an instant more exactly than a timer does: until left returns 0 or less, and
// reports whether it did; false if stop was closed before. left says how long there is still to wait.
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

// Sleep sleeps, unless interrupted.
func Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Every calls do again and again, the first time after a period, until stop is closed.
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
