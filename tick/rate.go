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

// start returns when tick n starts: sec seconds and nsec in [0, 1e9) nanoseconds of
// game time. Only a result outside the range of sec is cut off there.
func (r Rate) start(n Tick) (sec, nsec int64) {
	r = r.orDefault()
	periods, inside := floorDiv(int64(n), int64(r.Num)) // Num ticks take Den seconds
	ns := r.startInside(uint64(inside))
	return mulAdd(periods, int64(r.Den), int64(ns/billion)), int64(ns % billion)
}

// Ticks returns the tick at game time d, rounded down (netfox: seconds_to_ticks).
func (r Rate) Ticks(d time.Duration) Tick { return r.instant(d).tick }

// Duration returns the game time at which tick n starts (netfox: ticks_to_seconds).
// A result outside the range of time.Duration, 292 years, is cut off there.
func (r Rate) Duration(n Tick) time.Duration { return duration(r.start(n)) }

// split returns the tick at a time and the nanoseconds since its start.
func (r Rate) split(sec, nsec int64) (Tick, int64) {
	r = r.orDefault()
	carry, nsec := floorDiv(nsec, billion)
	sec = satAdd(sec, carry)
	periods, inside := floorDiv(sec, int64(r.Den))
	ns := uint64(inside)*billion + uint64(nsec) // since the period began, below Den*1e9
	hi, lo := bits.Mul64(ns, uint64(r.Num))
	n, _ := bits.Div64(hi, lo, uint64(r.Den)*billion) // ns < Den*1e9, so n < Num: no overflow
	return Tick(mulAdd(periods, int64(r.Num), int64(n))), int64(ns - r.startInside(n))
}

// startInside returns when tick n of a period starts, n < Num, in nanoseconds.
func (r Rate) startInside(n uint64) uint64 {
	hi, lo := bits.Mul64(n, uint64(r.Den)*billion)
	lo, carry := bits.Add64(lo, uint64(r.Num)-1, 0)
	ns, _ := bits.Div64(hi+carry, lo, uint64(r.Num)) // n < Num, so ns <= Den*1e9: no overflow
	return ns
}

// floorDiv returns the quotient rounded down and the remainder, in [0, d), d > 0.
func floorDiv(a, d int64) (quotient, remainder int64) {
	quotient, remainder = a/d, a%d
	if remainder < 0 {
		quotient, remainder = quotient-1, remainder+d
	}
	return quotient, remainder
}

// satAdd returns a+b, cut off at the ends of int64.
func satAdd[T ~int64](a, b T) T {
	sum := a + b
	if (a^sum)&(b^sum) < 0 { // the sum has another sign than both
		return a>>63 ^ math.MaxInt64
	}
	return sum
}

// mulAdd returns a*b+c, 0 <= c <= b, cut off at the ends of int64.
func mulAdd(a, b, c int64) int64 {
	if a < 0 {
		a, c = a+1, c-b // so that both terms have one sign and cut off alike
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	hi -= uint64(a >> 63 & b)        // the high half of the signed product
	if hi != uint64(int64(lo)>>63) { // it does not fit
		return a>>63 ^ math.MaxInt64
	}
	return satAdd(int64(lo), c)
}

// duration returns sec seconds and nsec nanoseconds, cut off at the ends.
func duration(sec, nsec int64) time.Duration {
	carry, nsec := floorDiv(nsec, billion)
	return time.Duration(mulAdd(satAdd(sec, carry), billion, nsec))
}
