// These tests prove that a kernel's stamp becomes an age, whatever happened to the wall
// clock in between.

package rxtime

import (
	"math"
	"testing"
	"time"
)

const (
	wall0 = 1_790_000_000_000_000_000 // nanoseconds since 1970
	now0  = 5_000_000                 // microseconds on package clock
)

// TestAge: both clocks go on alike, and a datagram is read some time after the kernel
// has stamped it.
func TestAge(t *testing.T) {
	for _, c := range []struct {
		age  time.Duration
		want uint64 // microseconds before the read
	}{
		{0, 0},
		{999, 0},
		{1000, 1},
		{20 * ms, 20_000},
		{sec, 1_000_000},
		{sec + 1, 0}, // too old
		{-1, 0},      // from the future
		{-time.Hour, 0},
		{math.MaxInt64, 0},
		{wall0, 0}, // stamped 0
	} {
		for _, now := range []uint64{0, 1, now0, math.MaxUint64} { // the clock may wrap
			var a ager
			a.start(wall0, now)
			got := a.received(wall0+1_000_000-int64(c.age), wall0+1_000_000, now+1000)
			check(t, now+1000-got, c.want, "age %v at %#x, us before the read", c.age, now)
		}
	}
}

// TestSteps: the wall clock is set while a datagram waits to be read, or, which looks as if it was set
// back, the reader is stopped between reading it and the other clock. It must never
// become earlier than it was by more than what passes for an interruption, and later
// at most by its wait. A second after, ages count again.
func TestSteps(t *testing.T) {
	const wait = 30 * ms
	for _, step := range []time.Duration{
		0, 1, us, maxShift, -maxShift, maxShift + us, 5 * ms, -5 * ms,
		500 * ms, -500 * ms, sec, -sec, time.Hour, -time.Hour, 50 * 365 * 24 * time.Hour,
	} {
		var a ager
		a.start(wall0, now0)
		const truth = now0 + 1000
		const read = truth + uint64(wait/us)
		stamp := wall0 + int64(ms)
		// Two that waited, read one after the other: the second must not be believed either.
		for i := range uint64(2) {
			now := read + i*100
			got := a.received(stamp, wall0+int64(now-now0)*1000+int64(step), now)
			late := time.Duration(int64(got-truth)) * us
			if late < -maxShift || late > time.Duration(now-truth)*us {
				t.Errorf("step %v, datagram %d: received %v after the truth", step, i, late)
			}
		}
		now := read + 1_001_000
		wall := wall0 + int64(now-now0)*1000 + int64(step)
		ago := now - a.received(wall-int64(wait), wall, now)
		check(t, ago, uint64(wait/us), "step %v, a second later: us before the read", step)
	}
}
