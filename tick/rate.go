// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"
)

// Tick is the number of a tick: tick 0 starts at game time zero, earlier ones are
// negative.
type Tick int64

const billion = 1_000_000_000 // nanoseconds in a second

// Rate is Num/Den ticks a second, as in {60, 1} or {60000, 1001}, above 0 and at most
// 10^9. The zero value is 60 a second. Any other rate with a zero in it, or above
// 10^9, is refused by NewServer, NewClient and the messages; the methods take it for
// 60 a second.
//
// Tick n starts at n*Den/Num seconds, rounded up to a whole nanosecond, and a time
// belongs to the last tick that started: floor one way, ceiling the other, so that
// the way from a tick to its start and back is exact. All of it is integer
// arithmetic with 128-bit products; no error builds up.
type Rate struct {
	Num, Den uint32 // Num ticks in Den seconds
}

// Hz returns the rate of n ticks a second.
func Hz(n uint32) Rate { return Rate{n, 1} }

// valid reports whether r is the default or a rate that can be used.
func (r Rate) valid() bool { return r == (Rate{}) || r == r.orDefault() }

// equal reports whether r and o are the same rate, as {60, 1} and {120, 2} are.
func (r Rate) equal(o Rate) bool {
	r, o = r.orDefault(), o.orDefault()
	return uint64(r.Num)*uint64(o.Den) == uint64(o.Num)*uint64(r.Den)
}

// above reports whether r is a higher rate than o.
func (r Rate) above(o Rate) bool {
	r, o = r.orDefault(), o.orDefault()
	return uint64(r.Num)*uint64(o.Den) > uint64(o.Num)*uint64(r.Den)
}

// String returns the rate as in "60/s" or "60000/1001/s".
func (r Rate) String() string {
	r = cmp.Or(r, r.orDefault())
	return strings.TrimSuffix(fmt.Sprintf("%d/%d", r.Num, r.Den), "/1") + "/s"
}

// orDefault returns r if it can be used, and otherwise 60 a second. Above a tick a nanosecond two
// ticks would start at the same nanosecond, and the way back from a time would be lost.
func (r Rate) orDefault() Rate {
	if r.Num > 0 && uint64(r.Num) <= billion*uint64(r.Den) { // so Den > 0, too
		return r
	}
	return Rate{60, 1}
}

// Ticks returns the tick at game time d, rounded down (netfox: seconds_to_ticks).
func (r Rate) Ticks(d time.Duration) Tick {
	r = r.orDefault()
	return Tick(mulDiv(int64(d), uint64(r.Num), uint64(r.Den)*billion, false))
}

// Duration returns the game time at which tick n starts (netfox: ticks_to_seconds).
// A result outside the range of time.Duration, 292 years, is cut off there.
func (r Rate) Duration(n Tick) time.Duration {
	r = r.orDefault()
	return time.Duration(mulDiv(int64(n), uint64(r.Den)*billion, uint64(r.Num), true))
}

// mulDiv returns a*b/c rounded down, or up, cut off at the ends of int64.
func mulDiv(a int64, b, c uint64, up bool) int64 {
	sign := a>>63 | 1
	size := uint64(sign * a) // also of the least int64
	hi, lo := bits.Mul64(size, b)
	if up == (a > 0) { // away from 0
		more, carry := bits.Add64(lo, c-1, 0)
		hi, lo = hi+carry, more
	}
	size = math.MaxInt64
	if hi < c {
		quotient, _ := bits.Div64(hi, lo, c)
		size = min(size, quotient)
	}
	return sign * int64(size)
}

// wholeUsec returns d in microseconds, rounded down.
func wholeUsec(d time.Duration) int64 { return mulDiv(int64(d), 1, 1000, false) }

// satAdd returns a+b, cut off at the ends of int64.
func satAdd[T ~int64](a, b T) T {
	sum := a + b
	if (a^sum)&(b^sum) < 0 { // the sum has another sign than both
		return a>>63 ^ math.MaxInt64
	}
	return sum
}
