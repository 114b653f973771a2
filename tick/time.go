// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"fmt"
	"math"
	"time"
)

// Time is an instant of game time: a tick and the offset inside it. The zero value is game time zero at
// the default rate. Times are made by Rate.At.
type Time struct {
	rate Rate
	at   time.Duration // its game time
}

// At returns the instant that lies offset after the start of tick n, or before it
// if offset is negative. An offset of a tick or more carries into the tick, so
// r.At(0, d) is the instant at game time d. It is cut off at 292 years.
func (r Rate) At(n Tick, offset time.Duration) Time {
	return Time{r, max(satAdd(r.Duration(n), offset), -math.MaxInt64)} // which has a negative
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
	n, hundredths := t.Tick(), int(t.Fraction()*100)
	if n < 0 && hundredths > 0 {
		return fmt.Sprintf("-%d.%02d", -(n + 1), 100-hundredths)
	}
	return fmt.Sprintf("%d.%02d", n, hundredths)
}
