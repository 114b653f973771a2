// SPDX-License-Identifier: BSD-3-Clause

package clock

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// counter turns what a hardware counter shows into the time since the first reading. Only Windows
// has one; it is here so that its arithmetic is tested everywhere.
type counter struct {
	frequency uint64 // ticks a second, not 0
	first     uint64 // ticks
	last      atomic.Uint64
}

// elapsed returns the time since the first reading. It never goes back: on two processors
// Windows' counter may differ by a tick.
func (c *counter) elapsed(ticks uint64) time.Duration {
	ticks -= c.first
	if int64(ticks) < 0 {
		ticks = 0
	}
	for {
		last := c.last.Load()
		if ticks <= last {
			return nanoseconds(last, c.frequency)
		}
		if c.last.CompareAndSwap(last, ticks) {
			return nanoseconds(ticks, c.frequency)
		}
	}
}

// nanoseconds returns how long that many ticks take, rounded down, at most 292 years. The product
// with a second has up to 128 bits: at 10 MHz it no longer fits into 64 after half an hour.
func nanoseconds(ticks, frequency uint64) time.Duration {
	hi, lo := bits.Mul64(ticks, uint64(time.Second))
	if hi >= frequency { // 584 years
		return math.MaxInt64
	}
	nsec, _ := bits.Div64(hi, lo, frequency)
	return time.Duration(min(nsec, math.MaxInt64))
}
