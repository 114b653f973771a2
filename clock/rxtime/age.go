// SPDX-License-Identifier: BSD-3-Clause

package rxtime

import "time"

const (
	// maxAge is how long a datagram may wait for its reader. Beyond it a wall clock that
	// was set is the likelier cause.
	maxAge = time.Second
	// maxShift is by how much the wall clock and package clock may come apart between two
	// reads. Both follow NTP at the same rate, so what shows is interruptions.
	maxShift = time.Millisecond
)

// ager carries stamps over from the wall clock to that of package clock, by their age.
// Wall-clock times are nanoseconds since 1970. The clocks are arguments, so that a test
// can set them.
type ager struct {
	lead  time.Duration // of the wall clock over package clock, at the last read
	doubt uint64        // until then, on package clock, ages are not believed
}

func newAger(wall int64, nowUsec uint64) ager { return ager{lead(wall, nowUsec), nowUsec} }

// lead is modulo 2^64 ns, which cancels out in differences.
func lead(wall int64, nowUsec uint64) time.Duration {
	return time.Duration(wall - int64(nowUsec*1000))
}

// received returns when a datagram stamped by the kernel was received, given both
// clocks after the read; nowUsec, if the stamp cannot be believed.
func (a *ager) received(stamp, wall int64, nowUsec uint64) uint64 {
	// A step of the wall clock adds to the ages of all that was waiting meanwhile. Forward,
	// that makes them early, and a single early datagram misleads a synchronizer.
	before := a.lead
	a.lead = lead(wall, nowUsec)
	if (a.lead - before).Abs() > maxShift {
		a.doubt = nowUsec + uint64(maxAge/time.Microsecond)
	}
	age := time.Duration(wall - stamp)
	if age < 0 || age > maxAge || int64(nowUsec-a.doubt) < 0 {
		return nowUsec
	}
	return nowUsec - uint64(age/time.Microsecond)
}
