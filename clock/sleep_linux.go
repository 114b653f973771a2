// SPDX-License-Identifier: BSD-3-Clause

package clock

import (
	"syscall"
	"time"
	"unsafe"
)

// Both are in linux/time.h.
const (
	clockMonotonic = 1
	clockBootTime  = 7 // as clockMonotonic, but it runs on while the machine sleeps
)

// aheadOfNow returns by how much the clock that also counts sleep is ahead. A sandbox may refuse to
// show that clock. Then it is the wall clock that says so.
func aheadOfNow() time.Duration {
	ahead := time.Duration(0)
	for try := range 3 { // an interruption between both readings makes the difference too small
		boot, bootOK := kernelClock(clockBootTime)
		monotonic, monotonicOK := kernelClock(clockMonotonic)
		if !bootOK || !monotonicOK {
			return wallAheadOfNow()
		}
		if difference := boot - monotonic; try == 0 || difference > ahead {
			ahead = difference
		}
	}
	return ahead
}

// kernelClock reads a clock of Linux.
func kernelClock(id uintptr) (reading time.Duration, ok bool) {
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano()), errno == 0
}
