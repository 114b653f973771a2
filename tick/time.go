package tick

import (
	"cmp"
	"fmt"
	"time"
)

// Time is an instant of game time: a tick and the offset inside it (NetworkTime in
// the Network Time System, without its floats). The zero value is game time zero at
// the default rate. Times are made by Rate.Time.
type Time struct {
	rate   Rate
	tick   Tick
	offset int64 // nanoseconds since the tick started, below its length
}

// Time returns the instant that lies offset after the start of tick n, or before it
// if offset is negative. An offset of a tick or more carries into the tick, so
// r.Time(0, d) is the instant at game time d.
func (r Rate) Time(n Tick, offset time.Duration) Time {
	if offset == 0 {
		return Time{rate: r, tick: n}
	}
	sec, nsec := r.Start(n)
	whole, part := floorDiv(int64(offset), billion)
	n, rest := r.split(satAdd(sec, whole), nsec+part)
	return Time{r, n, rest}
}

// time returns the instant at game time d.
func (r Rate) time(d time.Duration) Time {
	n, rest := r.split(0, int64(d))
	return Time{r, n, rest}
}

// Rate returns the ticks a second that the time counts in (TickRate).
func (t Time) Rate() Rate { return t.rate.orDefault() }

// Tick returns the number of the tick (Tick).
func (t Time) Tick() Tick { return t.tick }

// Offset returns the time since the tick started, in [0, FixedDelta).
func (t Time) Offset() time.Duration { return time.Duration(t.offset) }

// Time returns the game time of the instant (Time). It is cut off at 292 years.
func (t Time) Time() time.Duration {
	sec, nsec := t.rate.Start(t.tick)
	return duration(sec, nsec+t.offset)
}

// FixedTime returns the game time at which the tick started (FixedTime).
func (t Time) FixedTime() time.Duration { return t.rate.Duration(t.tick) }

// FixedDelta returns the length of the tick (FixedDeltaTime). At rates that do not
// divide 10^9 neighbours differ by a nanosecond, so that their sum is exact.
func (t Time) FixedDelta() time.Duration {
	return t.rate.Time(satTick(t.tick, 1), 0).Sub(t.rate.Time(t.tick, 0))
}

// Fraction returns how far the tick has passed, in [0, 1), for interpolation.
func (t Time) Fraction() float64 { return float64(t.offset) / float64(max(t.FixedDelta(), 1)) }

// Add returns the instant d later, at the same rate.
func (t Time) Add(d time.Duration) Time {
	sec, nsec := t.rate.Start(t.tick)
	whole, part := floorDiv(int64(d), billion)
	n, rest := t.rate.split(satAdd(sec, whole), nsec+t.offset+part)
	return Time{t.rate, n, rest}
}

// AddTicks returns the same offset n ticks later. An offset that the other tick,
// shorter by a nanosecond, does not have is cut down to its last one.
func (t Time) AddTicks(n Tick) Time {
	u := Time{t.rate, satTick(t.tick, n), 0}
	u.offset = min(t.offset, max(int64(u.FixedDelta())-1, 0))
	return u
}

// Sub returns how much later t is than u, whatever the rates (t-u), cut off at 292
// years.
func (t Time) Sub(u Time) time.Duration {
	ts, tn := t.rate.Start(t.tick)
	us, un := u.rate.Start(u.tick)
	sec := ts - us
	if (ts < 0) != (us < 0) && (sec < 0) != (ts < 0) {
		sec = ts // overflow: out of range either way, with the sign of t
	}
	return duration(sec, tn-un+t.offset-u.offset)
}

// Compare returns -1, 0 or +1 as t is before, at or after u, whatever the rates.
func (t Time) Compare(u Time) int {
	ts, tn := t.rate.Start(t.tick)
	us, un := u.rate.Start(u.tick)
	tn, un = tn+t.offset, un+u.offset
	return cmp.Or(cmp.Compare(satAdd(ts, tn/billion), satAdd(us, un/billion)), cmp.Compare(tn%billion, un%billion))
}

// Before reports whether t is before u.
func (t Time) Before(u Time) bool { return t.Compare(u) < 0 }

// After reports whether t is after u.
func (t Time) After(u Time) bool { return t.Compare(u) > 0 }

// In returns the same instant in ticks of rate r.
func (t Time) In(r Rate) Time {
	sec, nsec := t.rate.Start(t.tick)
	n, rest := r.split(sec, nsec+t.offset)
	return Time{r, n, rest}
}

// String returns the tick and the fraction, as in "1024.50".
func (t Time) String() string {
	return fmt.Sprintf("%d.%02d", t.tick, int(t.Fraction()*100))
}

func satTick(a, b Tick) Tick { return Tick(satAdd(int64(a), int64(b))) }
