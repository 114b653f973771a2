// SPDX-License-Identifier: BSD-3-Clause

package clock

import (
	"sync"
	"time"
)

// SleepWatch notices that the machine slept. Ask it once a frame or once a second, and drop what
// waited in buffers when it returns more than a second. The zero value is ready to use. A
// SleepWatch must not be copied. Any goroutine may ask it at any time; each answer goes to one of
// them.
//
// On Linux and Android it compares CLOCK_BOOTTIME with CLOCK_MONOTONIC, so it measures sleep
// alone, and does not see that a virtual machine was paused. On all other systems it compares the
// wall clock with Now: a wall clock that somebody sets ahead then looks like a sleep, and slewing
// by NTP adds up to 1.8 s for each hour between two calls. On Windows Now runs on during sleep, so
// SleepWatch sees none: there is no gap between the two clocks.
type SleepWatch struct {
	mu      sync.Mutex
	started bool
	ahead   time.Duration
	read    func() (ahead time.Duration) // aheadOfNow, or a test's
}

// noise is what two clocks that are read one after the other may differ by, because the program was
// interrupted between both readings.
const noise = 20 * time.Millisecond

// Slept returns for how long the machine slept since the last call: by how much longer another
// clock ran than Now did. The first call returns 0. Less than 20 ms is kept for the next call, so
// a slewed wall clock makes it return 20 ms now and then.
func (w *SleepWatch) Slept() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	read := w.read
	if read == nil {
		read = aheadOfNow
	}
	ahead := read()
	slept := ahead - w.ahead
	if !w.started {
		w.started = true
		w.ahead = ahead
		return 0
	}
	if slept >= 0 && slept < noise {
		return 0 // small differences must be able to add up
	}
	w.ahead = ahead
	return max(slept, 0)
}

// wallAheadOfNow returns by how much the wall clock is ahead of Now.
func wallAheadOfNow() time.Duration {
	now := time.Now()
	sinceUnix := time.Duration(now.UnixMicro()) * time.Microsecond
	return sinceUnix - time.Duration(At(now))*time.Microsecond
}
