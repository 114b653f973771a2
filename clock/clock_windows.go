// SPDX-License-Identifier: BSD-3-Clause

package clock

import (
	"math"
	"syscall"
	"time"
	"unsafe"
)

var (
	kernel32                  = syscall.NewLazyDLL("kernel32.dll")
	queryPerformanceCounter   = kernel32.NewProc("QueryPerformanceCounter").Addr()
	queryPerformanceFrequency = kernel32.NewProc("QueryPerformanceFrequency").Addr()

	performance = counter{
		frequency: query(queryPerformanceFrequency),
		first:     query(queryPerformanceCounter),
	}
)

// query calls one of both functions. They cannot fail since Windows XP, says Microsoft.
func query(function uintptr) (value uint64) {
	_, _, _ = syscall.SyscallN(function, uintptr(unsafe.Pointer(&value)))
	return value
}

// elapsed returns for how long the process has run. A time.Time without a monotonic reading is
// one of a bubble of testing/synctest, which has its own time.
func elapsed() time.Duration {
	if now := time.Now(); now == now.Round(0) {
		return now.Sub(start)
	}
	return performance.elapsed(query(queryPerformanceCounter))
}

// age returns for how long the process has run at t, and timeOf the time at which it has run that
// long. Go's clock and the performance counter may run at different rates, so they are compared
// now. If this is interrupted between both readings, then t seems later than it was: like a longer
// delay, which does no harm. A time that is further in the future than reading goes is as far as
// that.
func age(t time.Time) time.Duration {
	ago := max(time.Since(t), origin-math.MaxInt64)
	return elapsed() - ago
}

func timeOf(at time.Duration) time.Time {
	ahead := at - elapsed()
	return time.Now().Add(ahead)
}
