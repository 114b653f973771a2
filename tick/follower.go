// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"time"

	"timesync/jitter"
)

const (
	// adaptReach is how far a clock that sets itself may be from where the remote clock puts it,
	// and the buffer with which it began.
	// The remote clock may take minutes to believe that a path has become longer.
	adaptReach = time.Second
	// adaptFresh is how long arrivals say where a clock should be. Then it keeps its distance
	// from where the remote clock puts it.
	adaptFresh = 3 * time.Second
	// adaptLeast is the least margin: clocks that are being slewed are a little off.
	adaptLeast = 500 * time.Microsecond
	// rowLeast arrivals must be late in a row before a clock is set at once: so many move the
	// median of the last 7 delays. A clock that is off by less than jumpLeast, or than the
	// jitter, is slewed.
	rowLeast  = 4
	jumpLeast = 2 * time.Millisecond
	// debtLeast is by how much earlier than usual an input is for a server whose ticks are late,
	// too.
	debtLeast = 20 * time.Millisecond
)

// follower lets a clock follow arrivals: it learns how far the clock must be ahead of the
// reference, or behind it, so that no more than a share of what is sent or received comes late.
type follower struct {
	jitter jitter.Estimator
	batch  arrival // the first of those that came at one moment

	atUsec uint64        // local time, us, of the last arrival
	news   bool          // something has arrived since distance was called
	held   time.Duration // the distance from the reference
	buffer time.Duration // the distance from where the remote clock puts the fastest arrival
	remote time.Duration // where the remote clock puts the fastest arrival, from the reference

	tally tally // of all arrivals
	row   int   // how many were late in a row, up to the last one
	jump  bool  // the path has become longer: the clock must be set
}

// arrival is an input or a state that has come.
type arrival struct {
	sent     time.Duration // when it was sent, by the reference or the server's clock
	distance time.Duration // how far the clock should have been for it to be just in time
}

// add learns from an arrival.
func (f *follower) add(a arrival, nowUsec uint64) {
	f.news = true
	f.atUsec = nowUsec
	together := f.batch.distance-a.distance >= (a.sent-f.batch.sent)/2
	if f.tally.all == 0 || a.sent < f.batch.sent || !together {
		f.batch = a
	}
	// What a server that was stopped has found waiting is early for it, since its ticks are late,
	// too.
	if f.batch != a && a.distance < f.jitter.Level()-debtLeast {
		return
	}
	f.jitter.Add(a.sent, a.sent+a.distance)
}

// inRow counts how many are late in a row. Those from before the clock was set do not count.
func (f *follower) inRow(late bool) {
	f.row++
	if !late {
		f.row = 0
	}
}

// distance returns how far from the reference the clock should be, given where the remote clock
// puts the fastest arrival, and the buffer that is used until arrivals are told. share is how many
// may be late, and more is what the clock needs beyond the wait for them.
func (f *follower) distance(
	fastest, buffer, more time.Duration, share float64, nowUsec uint64,
) time.Duration {
	f.remote = fastest
	wait, known := f.jitter.Wait()
	switch {
	case !known:
		f.buffer = buffer
	case elapsed(f.atUsec, nowUsec) <= adaptFresh:
		f.jitter.Share = share
		want := wait + adaptLeast
		// The wait changes with each arrival: what is a little less is left.
		less := want < f.held-max(adaptLeast, (wait-f.jitter.Level())/8)
		if f.news && (want > f.held || less) {
			f.held = want
		}
		f.news = false
		f.buffer = min(max(f.held+more-fastest, buffer-adaptReach), buffer+adaptReach)
	}
	return fastest + f.buffer
}

// jumps reports whether the clock, which is off by off, must be set at once: the path has become
// so much longer that arrivals come too late.
func (f *follower) jumps(off time.Duration) bool {
	wait, _ := f.jitter.Wait()
	f.jump = f.row >= rowLeast && off > jumpLeast+wait-f.jitter.Level()
	return f.jump
}

// shift says that all distances are longer by d, since the reference counts from another time. A
// distance that shows this already stays, unless all must follow.
func (f *follower) shift(d time.Duration, all bool) {
	wait, known := f.jitter.Wait()
	if off := wait - f.remote; known && (all || off.Abs() <= (off-d).Abs()) {
		f.jitter.Shift(d)
		f.batch.distance += d
	}
	if off := f.held - f.remote; all || off.Abs() <= (off-d).Abs() {
		f.held += d
	}
}
