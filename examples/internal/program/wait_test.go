// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that a wait never ends early, follows an instant that is moved, and can
// be ended.
package program

import (
	"testing"
	"time"
)

func TestWait(t *testing.T) {
	start := time.Now()
	for _, wait := range []time.Duration{-time.Second, 0, 100 * time.Microsecond, 5 * time.Millisecond} {
		at := time.Now().Add(wait)
		if !Wait(func() time.Duration { return time.Until(at) }, nil) || time.Now().Before(at) {
			t.Errorf("a wait for %v ends %v early", wait, time.Until(at))
		}
	}
	at := start.Add(time.Hour)
	asked := 0
	Wait(func() time.Duration {
		if asked++; asked == 3 {
			at = time.Now() // moved to now
		}
		return time.Until(at)
	}, nil)
	if asked < 3 {
		t.Error("an instant that is moved is not seen")
	}
	stop := make(chan struct{})
	close(stop)
	if Wait(func() time.Duration { return time.Hour }, stop) {
		t.Error("a wait that was ended says that the instant came")
	}
}
