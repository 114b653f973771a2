// SPDX-License-Identifier: BSD-3-Clause

package rxtime

import "time"

const (
	// maxAge is the longest that a datagram may wait for its reader. Beyond it, a step of the
	// wall clock is the likelier cause.
	maxAge = time.Second
	// maxShift is how far the wall clock and package clock may move apart between two reads. Both
	// follow NTP at the same rate, so smaller shifts are interruptions.
	maxShift = time.Millisecond
)

// ager converts stamps from the wall clock to the clock of package clock, by their age. Wall-clock
// times are nanoseconds since 1970. The clocks are arguments so that a test can set them.
type ager struct {
	lead  time.Duration // of the wall clock over package clock, at the last read
	doubt uint64        // until then, on package clock, ages are ignored
}

func newAger(wall int64, nowUsec uint64) ager { return ager{lead(wall, nowUsec), nowUsec} }

// lead returns the wall clock minus package clock, modulo 2^64 ns, which cancels in differences.
func lead(wall int64, nowUsec uint64) time.Duration {
	return time.Duration(wall - int64(nowUsec*1000))
}

// received returns when a datagram that the kernel stamped was received. wall and nowUsec are both
// clocks after the read. If the stamp is not credible, it returns nowUsec.
func (a *ager) received(stamp, wall int64, nowUsec uint64) uint64 {
	// A step of the wall clock changes the age of every datagram that is waiting. A step forward
	// makes their receive times early, and a single early datagram misleads a synchronizer.
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
