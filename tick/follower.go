// SPDX-License-Identifier: BSD-3-Clause

package tick

import "time"

const (
	// adaptReach is how far a clock that sets itself may be from where the remote clock puts it,
	// and the buffer with which it began.
	// The remote clock may take minutes to believe that a path has become longer.
	adaptReach = time.Second
	// adaptFresh is how long arrivals say where a clock should be. Then it keeps its distance
	// from where the remote clock puts it.
	adaptFresh = 3 * time.Second
	// adaptLeast is the least margin, for what the clocks err while they are slewed.
	adaptLeast = 500 * time.Microsecond

	// So many in a row, and for so long, must be late until a clock is set at once: chance does
	// that seldom. Where the jitter has made a row of late ones before, it must be longer than
	// that. A row of 200 ms is enough in any case. Those that were held up until the same moment say
	// nothing: the path, or the sender's program, stopped, and the next ones may be in time.
	rowLeast    = 2
	rowShort    = 20 * time.Millisecond
	rowLong     = 200 * time.Millisecond
	rowRemember = 5 * time.Minute

	// A path that has become longer twice within a minute will do so again.
	jumpsRemember = time.Minute

	// lateMemory is over how many arrivals the share of late ones is told.
	lateMemory = 4096
)

// follower lets a clock follow arrivals: it learns how far the clock must be ahead of the
// reference, or behind it, so that no more than a share of what is sent or received comes late.
type follower struct {
	spread spread
	atUsec uint64        // when the last one was told
	news   bool          // since distance was found
	held   time.Duration // the distance from the reference
	buffer time.Duration // the distance from where the remote clock puts the fastest arrival
	remote time.Duration // and that of this from the reference

	late, all float32 // arrivals of late; all is 0 only before the first one

	row     int     // how many were late in a row, up to the last one
	rowAt   uint64  // since when
	first   arrival // of the row
	last    arrival // and its last one
	since   arrival // the first one of the row that was not held up until others came
	alike   int     // how many there are from that on
	batch   arrival // the first of those, late or not, that were held up until one moment
	worst   int     // the longest row that ended by itself, of late
	worstAt uint64  // when it did
	jump    bool    // too many are late in a row: the clock is to be set

	jumps  int    // how often that was, each within jumpsRemember of the one before
	jumpAt uint64 // the last time
}

// arrival is an input or a state that has come.
type arrival struct {
	sent     time.Duration // when it was sent, by the reference or the server's clock
	distance time.Duration // how far the clock should have been for it to be just in time
}

// heldUp reports whether a was held up until later came, as far as jitter lets one tell: it took longer, by about as much as
// it was sent before.
func (a arrival) heldUp(later arrival) bool {
	return a.distance-later.distance >= (later.sent-a.sent)/2
}

// add takes an arrival.
func (f *follower) add(a arrival, late bool, nowUsec uint64) {
	if elapsed(f.atUsec, nowUsec) > adaptFresh {
		f.spread.recent = f.spread.recent[:0] // the reference may have drifted
	}
	if elapsed(f.atUsec, nowUsec) > rowLong {
		f.rowAt = nowUsec // a row does not last while nothing comes
	}
	f.news, f.atUsec = true, nowUsec
	if late {
		if f.last = a; f.row == 0 {
			f.first = a
		}
		if f.row == 0 || a.sent != f.since.sent && f.since.heldUp(a) { // of those sent at once each may take another time
			f.since, f.alike = a, 0
		}
		f.alike++
	}
	if f.all == 0 || !f.batch.heldUp(a) {
		f.batch = a
	}
	// What a server that was stopped has found waiting is early for it, since its ticks are late, too.
	early := f.batch != a && a.distance < f.spread.level-rowLong/2
	if !early || len(f.spread.recent) == 0 {
		f.spread.add(a.distance, f.row >= recentKept)
	}
	if f.all++; late {
		f.late++
	}
	if f.all >= lateMemory {
		f.late, f.all = f.late/2, f.all/2
	}
}

// count counts how many are late in a row.
func (f *follower) count(late bool, nowUsec uint64) {
	if late {
		if f.row++; f.row == 1 {
			f.rowAt = nowUsec
		}
		return
	}
	if beyond := f.stopped(nowUsec); beyond > 0 { // once: that says little of how the path usually is
		f.spread.forget(f.row, beyond)
	}
	if f.row > f.longest(rowRemember, nowUsec) {
		f.worst, f.worstAt = f.row, nowUsec
	}
	f.row = 0
}

// longest returns the longest row that ended by itself, 0 if that is longer ago than remember.
func (f *follower) longest(remember time.Duration, nowUsec uint64) int {
	if elapsed(f.worstAt, nowUsec) > remember {
		return 0
	}
	return f.worst
}

// stopped returns by how much the row is longer than those of the last minute, and than chance makes it, if it is
// from a path that stopped: then all came at once, the first one the latest.
func (f *follower) stopped(nowUsec uint64) int {
	if !f.first.heldUp(f.last) {
		return 0
	}
	return f.row - max(rowLeast, f.longest(jumpsRemember, nowUsec))
}

// judge takes a row of late ones for another path, if those that did not come all at once are more than chance makes
// late, and the row lasts so long.
func (f *follower) judge(tick, lasts time.Duration, nowUsec uint64) {
	least := max(rowLeast, int(rowShort/tick))
	enough := f.alike >= least && f.alike > min(f.longest(rowRemember, nowUsec), max(least, int(rowLong/tick)))
	if f.row == 0 || !enough || f.since.sent == f.last.sent || elapsed(f.rowAt, nowUsec) < lasts {
		return
	}
	f.spread.restart(f.alike)
	f.jump, f.news = true, true
	ago := elapsed(f.jumpAt, nowUsec)
	if ago > jumpsRemember {
		f.jumps = 0
	}
	if f.jumps == 0 || ago > adaptFresh {
		f.jumps++
	}
	f.jumpAt = nowUsec
}

// distance returns how far from the reference the clock should be, given where the remote clock
// puts the fastest arrival, and the buffer that is used until arrivals are told. share is how many
// may be late.
func (f *follower) distance(fastest, buffer time.Duration, share float64, nowUsec uint64) time.Duration {
	f.remote = fastest
	switch {
	case f.all == 0:
		f.buffer = buffer
	case elapsed(f.atUsec, nowUsec) <= adaptFresh:
		if f.news && (f.jump || f.stopped(nowUsec) <= 0) { // else the row may end, and count for nothing
			f.news = false
			f.spread.settle()
			beyond := f.spread.beyond(share)
			want := f.spread.level + beyond + adaptLeast
			// What is less is left until it is worth it, and where it has been too little again
			// and again, until too many have not been late for a minute or so.
			unquiet := f.jumps > 1 && elapsed(f.jumpAt, nowUsec) <= jumpsRemember
			less := want < f.held-max(adaptLeast, beyond/8)
			if want > f.held || less && !(unquiet && f.lateShare() > 2*share) {
				f.held = want
			}
		}
		f.buffer = min(max(f.held-fastest, buffer-adaptReach), buffer+adaptReach)
	}
	return fastest + f.buffer
}

// shift says that the reference counts from another time: all distances are longer by d, but for those
// that show it already, unless none can.
func (f *follower) shift(d time.Duration, all bool) {
	longer := func(distance *time.Duration) {
		if off := *distance - f.remote; all || off.Abs() <= (off-d).Abs() {
			*distance += d
		}
	}
	longer(&f.held)
	longer(&f.batch.distance)
	longer(&f.spread.level)
	for i := range f.spread.recent {
		longer(&f.spread.recent[i])
	}
}

// lateShare returns the share of late arrivals.
func (f *follower) lateShare() float64 { return float64(f.late) / float64(max(f.all, 1)) }
