// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"cmp"
	"time"
)

// sentKept is for how many of the last ticks a client knows when it sent their inputs.
const sentKept = 1024

// buffers finds how far a client's predicted clock must be ahead of the shared clock, and its
// server clock behind, from when inputs reach the server and states the client. All is counted
// from a reference, the local clock at the rate of the server's: the remote clock's idea of the
// delays may change although the path does not, and the other way round.
type buffers struct {
	ref   time.Duration // the reference when the local clock reads refAt
	refAt uint64        // us
	skew  int64         // the rate of the reference from there on, parts in 10^9
	gap   time.Duration // where the remote clock put the shared clock, minus the reference
	// rebase says that the gap is not known, as after a pause. Until track finds it, nothing
	// counts.
	rebase bool

	ahead  follower // how far the predicted clock is ahead, from what the server says of inputs
	behind follower // how far the server clock is behind, from states

	sent   []sent        // by tick modulo sentKept; nil until the server says when inputs come
	jumped Tick          // the first tick after the predicted clock was set
	states arrivals      // which have come
	every  time.Duration // how long it is from one state to the next; 0 is not known
	hitch  hitch         // of the server
}

// hitch is a time in which the server is behind with its ticks, and so are its states.
type hitch struct {
	known bool   // there was one
	lasts bool   // it is not over
	began uint64 // local time, us
	ended uint64 // local time, us, if it is over
	last  Tick   // if it is over: states up to this one may be late because of it
}

const (
	// A server that is behind for longer than hitchMost is slow, and has no hitch.
	hitchMost = 3 * time.Second
	// A server must have kept up for hitchAlone before another hitch begins. Where it is behind
	// more often, its states are late again and again, as on a path with jitter.
	hitchAlone = 5 * time.Second
)

// told notes what a Welcome that arrived at nowUsec says of the server's ticks.
func (h *hitch) told(w Welcome, nowUsec uint64) {
	switch behind := w.Debt > 0; {
	case behind && !h.lasts:
		if !h.known || elapsed(h.ended, nowUsec) >= hitchAlone {
			h.began = nowUsec
		}
		h.known = true
		h.lasts = true
	case !behind && h.lasts:
		h.lasts = false
		h.ended = nowUsec
		h.last = w.Tick
	}
}

// delayed reports whether the hitch made the state of tick n late, which comes at nowUsec.
func (h *hitch) delayed(n Tick, nowUsec uint64) bool {
	return h.known && elapsed(h.began, nowUsec) < hitchMost && (h.lasts || n <= h.last)
}

// sent is an input of a client for a tick: when it was sent, and how far ahead of the reference
// the tick began then.
type sent struct {
	arrival // as if it had come just in time
	tick    Tick
	fresh   bool // the server has not said when it came
}

// reference returns the reference at a time near the last Advance.
func (b *buffers) reference(nowUsec uint64) time.Duration {
	d := elapsed(b.refAt, nowUsec)
	return b.ref + d + time.Duration(parts(int64(d), b.skew))
}

// inputSent notes that the input for tick n, which starts at start, is sent at nowUsec. How long
// after its start a tick runs does not count: a client knows its own frames.
func (b *buffers) inputSent(n Tick, start time.Duration, nowUsec uint64) {
	if b.sent != nil {
		ref := b.reference(nowUsec)
		b.sent[uint64(n)%sentKept] = sent{arrival{ref, start - ref}, n, !b.rebase}
	}
}

// inputsArrived notes what the server says of when inputs came.
func (b *buffers) inputsArrived(a *arrivals, nowUsec uint64) {
	if b.sent == nil {
		b.sent = make([]sent, sentKept)
	}
	for i := a.ticks - 1; i >= 0; i-- { // the oldest first
		n := a.newest - Tick(i)
		s := &b.sent[uint64(n)%sentKept]
		if early, came := a.early(i); came && s.fresh && s.tick == n {
			s.fresh = false
			b.ahead.add(arrival{s.sent, s.distance - early}, nowUsec)
			b.ahead.tally.count(early < 0)
			if n >= b.jumped {
				b.ahead.inRow(early < 0)
			}
		}
	}
}

// stateArrived notes that the state for tick n, which starts at at, came when the server clock
// read shown. It is late if the clock has already passed the state before. Only the first state of
// a tick counts, and only if it cannot have waited on this machine (waited). In a hitch of the
// server it says nothing of the path.
func (b *buffers) stateArrived(n Tick, at, shown time.Duration, waited bool, nowUsec uint64) {
	if b.states.add(n, 0) && !b.rebase && !waited {
		late := shown > at-b.every
		if b.hitch.delayed(n, nowUsec) {
			b.behind.tally.count(late)
			return
		}
		b.behind.add(arrival{at, b.reference(nowUsec) - at}, nowUsec)
		b.every = cmp.Or(b.behind.jitter.Interval(), b.every)
		b.behind.tally.count(late)
		b.behind.inRow(late)
	}
}

// track lets the reference go on to nowUsec, when the remote clock puts the shared clock at at. If
// that has jumped by more than hard, a clock was set, and the path is what it was. The same holds
// after a pause (rebase). Arrivals may have shown the jump before the remote clock did. Inputs that
// are under way are not counted, since nobody knows whether they come before the jump.
func (b *buffers) track(at time.Duration, skewPPB int64, hard time.Duration, nowUsec uint64) {
	b.ref = b.reference(nowUsec)
	b.refAt = nowUsec
	b.skew = skewPPB
	gap := at - b.ref
	if d := gap - b.gap; b.rebase || d.Abs() > hard {
		b.ahead.shift(d, b.rebase)
		b.behind.shift(-d, b.rebase)
		for i := range b.sent {
			b.sent[i].distance += d
			b.sent[i].fresh = b.sent[i].fresh && b.rebase
		}
	}
	b.gap = gap
	b.rebase = false
}

// driven notes that the provider has been asked, and has followed the jumps. Inputs for the ticks
// before next then say nothing of where the predicted clock is now.
func (b *buffers) driven(next Tick) {
	if b.ahead.jump {
		b.jumped = next
		b.ahead.row = 0
	}
	if b.behind.jump {
		b.behind.row = 0
	}
	b.ahead.jump = false
	b.behind.jump = false
}
