// SPDX-License-Identifier: BSD-3-Clause

package tick

import "time"

// Which clock, in the arrays of the package.
const (
	shared = iota
	server
	predicted
)

// maxStart bounds the game time of a Welcome and what a client believes of a remote
// clock: 2^61 ns, 73 years. With it, sums of two cannot overflow.
const maxStart = 1 << 61

// maxAhead bounds how far a piece is followed, either way.
const maxAhead = maxStart / 1000 // us

// readerMargin is how far a reader may be ahead of the last input, or behind it, and still read
// what counts for good. It is longer than a frame at 60 Hz. A change of a clock's pace begins the
// reader margin after the input that caused it.
const readerMargin = 20_000 // us

// Pace is how a clock goes on. The zero Pace is the rate of the local clock.
type Pace struct {
	// SkewPPB is the clock's rate minus that of the local clock, in parts in 10^9, from -10^9 to
	// 10^9.
	SkewPPB int64
	// Slew is a correction, positive forward.
	Slew time.Duration
	// SlewPPM is how many microseconds of Slew are made in each second, up to 10^6, until nothing
	// of it is left.
	SlewPPM int64
}

// limited returns what p may be: no clock goes back.
func (p Pace) limited() Pace {
	return Pace{
		SkewPPB: min(max(p.SkewPPB, -billion), billion),
		Slew:    cut(p.Slew),
		SlewPPM: min(max(p.SlewPPM, 0), 1_000_000),
	}
}

// course is one clock over the local clock: the pieces that count from 20 ms before the last
// input on, oldest first. Each goes on until the next begins. Readers share it: it is replaced,
// never changed.
type course []piece

// piece is a straight stretch of a clock.
type piece struct {
	from  uint64        // where it begins, reading of the local clock
	base  time.Duration // game time there
	pace  Pace
	still bool // the clock stands still: a pause
}

// piece returns the piece that counts at nowUsec. Before the first one begins it is the first.
func (c course) piece(nowUsec uint64) *piece {
	i := len(c) - 1
	for i > 0 && int64(nowUsec-c[i].from) < 0 {
		i--
	}
	return &c[i]
}

// read returns the clock at nowUsec, 0 before it was set.
func (c course) read(nowUsec uint64) time.Duration {
	if len(c) == 0 {
		return 0
	}
	return c.piece(nowUsec).read(nowUsec)
}

// last returns the piece that counts from its beginning on, as far as is known.
func (c course) last() piece { return c[len(c)-1] }

// set sets the clock at p.from. What it read before stays, so that no reader behind sees it go
// back, unless it is set back: then all see that at once.
func (c *course) set(p piece) {
	kept := *c
	if p.base < c.read(p.from) {
		kept = nil
	}
	for len(kept) > 0 && int64(p.from-kept[len(kept)-1].from) <= 0 {
		kept = kept[:len(kept)-1]
	}
	// p may begin the reader margin after the last input
	for len(kept) > 1 && int64(p.from-2*readerMargin-kept[1].from) >= 0 {
		kept = kept[1:]
	}
	*c = append(kept[:len(kept):len(kept)], p)
}

// turn lets the clock go on from where it is at p.from as p says; p.base is ignored.
func (c *course) turn(p piece) {
	p.base = c.read(p.from)
	c.set(p)
}

// change lets the clock go on with pace p from the reader margin after nowUsec. It does nothing if
// the clock has that pace already, or if the last change has not begun yet. A pace with a slew is
// always another one, since its slew begins anew.
func (c *course) change(nowUsec uint64, p Pace) {
	last := c.last()
	isOther := p != last.pace || p.Slew != 0
	hasBegun := int64(nowUsec-last.from) >= 0
	if isOther && hasBegun {
		c.turn(piece{from: nowUsec + readerMargin, pace: p})
	}
}

// read returns the clock at nowUsec. Times before the piece count as if it had always gone
// without a slew.
func (p *piece) read(nowUsec uint64) time.Duration {
	if p.still {
		return p.base
	}
	ns := int64(elapsed(p.from, nowUsec))
	forward := time.Duration(ns + parts(ns, p.pace.SkewPPB))
	if ns > 0 {
		slewed := time.Duration(parts(ns, p.pace.SlewPPM*1000))
		forward = max(forward+min(max(p.pace.Slew, -slewed), slewed), 0)
	}
	return cut(p.base + min(forward, 2*maxStart-1)) // no overflow: p.base is cut, too
}

// elapsed returns the time from one reading of the local clock to another, which may be the
// earlier one.
func elapsed(fromUsec, toUsec uint64) time.Duration {
	return time.Duration(max(min(int64(toUsec-fromUsec), maxAhead), -maxAhead)) * time.Microsecond
}

// within limits a game time to the range in which a clock may be set.
func within(t time.Duration) time.Duration { return min(max(t, -maxStart), maxStart) }

// cut limits a game time to the range of the package: a clock that was set within its range may
// run on for as long again.
func cut(t time.Duration) time.Duration { return min(max(t, -2*maxStart), 2*maxStart) }

// parts returns the given parts in 10^9 of ns, rounded toward zero.
func parts(ns, ppb int64) int64 {
	return ns/billion*ppb + ns%billion*ppb/billion
}
