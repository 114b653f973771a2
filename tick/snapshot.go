// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"math"
	"time"
)

// Which clock, in the arrays of the package.
const (
	shared = iota
	server
	predicted
)

// maxStart bounds the game time of a Welcome and what a client believes of a remote
// clock: 2^61 ns, 73 years. With it, sums of two cannot overflow.
const maxStart = 1 << 61

// maxAhead, in microseconds, bounds how far a segment is followed.
const maxAhead = maxStart / 1000

// snapshot is the clocks as straight segments over the local clock, from one Advance to
// the next. It is what readers see, and no reading of it goes back.
type snapshot struct {
	atUsec   uint64 // where the segments start, reading of the local clock
	skewPPB  int64  // rate of all clocks minus that of the local clock, parts in 10^9
	segments [3]segment
	paused   bool
	rate     Rate
	epoch    uint64
}

// segment is one clock from one Advance to the next.
type segment struct {
	base time.Duration // game time at its start
	slew slew
}

// slew is a correction by left, positive forward, of which ppm microseconds are made
// in each second until nothing is left. With 10^6 ppm and left negative a clock
// stands still.
type slew struct {
	left time.Duration
	ppm  int64
}

// read returns clock i at nowUsec. A time before the start counts as the start, so
// that a reader who took the time just before an Advance does not see time go back.
func (s *snapshot) read(i int, nowUsec uint64) time.Duration {
	l := &s.segments[i]
	usec := int64(nowUsec - s.atUsec)
	if usec <= 0 || s.paused {
		return l.base
	}
	ns := min(usec, maxAhead) * 1000
	forward := time.Duration(ns + share(ns, s.skewPPB))
	if left := l.slew.left; left != 0 {
		slewed := min(time.Duration(share(ns, l.slew.ppm*1000)), max(left, -left))
		if left < 0 {
			slewed = -slewed
		}
		forward = max(forward+slewed, 0)
	}
	return min(l.base+forward, 2*maxStart)
}

// clocks returns all clocks at nowUsec.
func (s *snapshot) clocks(nowUsec uint64) Clocks {
	return Clocks{
		Shared:    s.rate.time(s.read(shared, nowUsec)),
		Server:    s.rate.time(s.read(server, nowUsec)),
		Predicted: s.rate.time(s.read(predicted, nowUsec)),
	}
}

// move lets the segments start at nowUsec, which ends the slews, and returns by how much
// the clocks moved.
func (s *snapshot) move(nowUsec uint64) (moved [3]time.Duration) {
	var next [3]segment
	for i, old := range s.segments {
		next[i].base = s.read(i, nowUsec)
		moved[i] = next[i].base - old.base
	}
	s.segments, s.atUsec = next, nowUsec
	return moved
}

// share returns the given parts in 10^9 of ns, ns >= 0, rounded toward zero.
func share(ns, ppb int64) int64 {
	if ns < math.MaxInt64/billion {
		return ns * ppb / billion
	}
	return ns/billion*ppb + ns%billion*ppb/billion
}
