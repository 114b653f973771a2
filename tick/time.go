// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"cmp"
	"errors"
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
	r = r.orDefault()
	o = o.orDefault()
	return uint64(r.Num)*uint64(o.Den) == uint64(o.Num)*uint64(r.Den)
}

// above reports whether r is a higher rate than o.
func (r Rate) above(o Rate) bool {
	r = r.orDefault()
	o = o.orDefault()
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

// At returns the instant that lies offset after the start of tick n, or before it
// if offset is negative. An offset of a tick or more carries into the tick, so
// r.At(0, d) is the instant at game time d. It is cut off at 292 years.
func (r Rate) At(n Tick, offset time.Duration) Time {
	return Time{r, max(satAdd(r.Duration(n), offset), -math.MaxInt64)} // which has a negative
}

// ErrRate says that tick rates differ: those of two Times that were to be added, or those of a
// peer and the server. Where the server's OnMismatch is MismatchDisconnect, disconnect that peer.
var ErrRate = errors.New("tick: tick rate differs")

// Time is an instant of game time: a tick and the offset inside it. The zero value is game time
// zero at the default rate. Times are made by Rate.At.
type Time struct {
	rate Rate
	at   time.Duration // its game time
}

// Rate returns the rate of the ticks: the rate that the Time was made with, or 60 a second.
func (t Time) Rate() Rate { return t.rate.orDefault() }

// Tick returns the number of the tick.
func (t Time) Tick() Tick { return t.rate.Ticks(t.at) }

// Duration returns the game time of the instant.
func (t Time) Duration() time.Duration { return t.at }

// offset returns the time since the tick started, below its length.
func (t Time) offset() time.Duration { return max(t.at-t.rate.Duration(t.Tick()), 0) }

// length returns the length of the tick. At rates that do not divide 10^9 neighbours
// differ by a nanosecond, so that their sum is exact.
func (t Time) length() time.Duration {
	n := t.Tick()
	return t.rate.Duration(satAdd(n, 1)) - t.rate.Duration(n)
}

// below1 is what a part of a tick of over 104 days would be rounded up from.
const below1 = 1 - 1./(1<<53)

// Fraction returns how far the tick has passed, in [0, 1), for interpolation.
func (t Time) Fraction() float64 {
	return min(float64(t.offset())/float64(max(t.length(), 1)), below1)
}

// Add returns the instant d later, at the same rate.
func (t Time) Add(d time.Duration) Time { return t.rate.At(0, satAdd(t.at, d)) }

// Plus returns the sum of two Times: their ticks are added, and the offsets in them. The error is
// ErrRate if their rates differ; {60, 1} and {120, 2} do not.
func (t Time) Plus(u Time) (Time, error) {
	if !t.rate.equal(u.rate) {
		return Time{}, ErrRate
	}
	return t.rate.At(satAdd(t.Tick(), u.Tick()), t.offset()+u.offset()), nil
}

// Sub returns how much later t is than u, whatever the rates (t-u), cut off at 292
// years. Its sign says which is earlier.
func (t Time) Sub(u Time) time.Duration { return satAdd(t.at, -u.at) }

// String returns the ticks since tick 0, rounded down to a hundredth, as in "1024.50". Half a
// tick before tick 0 is "-0.50".
func (t Time) String() string {
	n := t.Tick()
	hundredths := int(t.Fraction() * 100)
	if n < 0 && hundredths > 0 {
		return fmt.Sprintf("-%d.%02d", -(n + 1), 100-hundredths)
	}
	return fmt.Sprintf("%d.%02d", n, hundredths)
}

// mulDiv returns a*b/c rounded down, or up, cut off at the ends of int64.
func mulDiv(a int64, b, c uint64, up bool) int64 {
	sign := a>>63 | 1
	size := uint64(sign * a) // also of the least int64
	hi, lo := bits.Mul64(size, b)
	if up == (a > 0) { // away from 0
		more, carry := bits.Add64(lo, c-1, 0)
		hi += carry
		lo = more
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
