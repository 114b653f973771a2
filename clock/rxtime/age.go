// SPDX-License-Identifier: BSD-3-Clause

package rxtime

import (
	"math"
	"time"
)

const (
	// maxAge is the longest that a datagram may wait for its reader. Beyond it, a step of the
	// wall clock is the likelier cause.
	maxAge = time.Second
	// maxShift is how far the wall clock and package clock may move apart between two reads. Both
	// follow NTP at the same rate, so smaller shifts are what remains of interruptions.
	maxShift = time.Millisecond
	// maxApart is how far apart two clocks may be read that count as read at once. Three readings
	// take 0.2 us, and 3 us where each is a system call.
	maxApart = 5 * time.Microsecond
	// maxTries bounds the readings where even one takes longer than that. On a busy machine hardly
	// any two readings in a row are interrupted.
	maxTries = 4
)

// together reads the wall clock and package clock as if at once. If it was interrupted in between,
// it reads both again, and returns the readings that were closest together. package clock is read
// last: what remains of an interruption makes a receive time late, which looks like any other
// delay. An early receive time would look like a shorter path.
func together(
	readWall func() int64, readPackage func() uint64,
) (wall int64, nowUsec uint64) {
	closest := uint64(math.MaxUint64)
	for range maxTries {
		before := readPackage()
		between := readWall()
		after := readPackage()
		if apart := after - before; apart < closest {
			closest = apart
			wall = between
			nowUsec = after
		}
		if closest <= uint64(maxApart/time.Microsecond) {
			break
		}
	}
	return wall, nowUsec
}

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
