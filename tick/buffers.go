// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"cmp"
	"time"
)

// sentKept is for how many of the last ticks a client knows when it sent their inputs.
const sentKept = 1024

// buffers finds how far a client's predicted clock is to be ahead of the shared clock, and its
// server clock behind: by when inputs reach the server, and states the client. All is counted
// from a reference, the local clock at the rate of the server's, since the remote clock's idea of
// the delays may change although the path does not, and the other way round.
type buffers struct {
	ref   time.Duration // the reference
	refAt uint64        // when the local clock reads this
	skew  int64         // and its rate from there on, parts in 10^9
	gap   time.Duration // where the remote clock put the shared clock, minus the reference
	// there was a pause: gap is another one, and until track finds it nothing counts
	rebase bool
	ahead  follower      // the predicted clock, by the server's word of inputs
	behind follower      // the server clock, by states
	sent   []sent        // by tick modulo sentKept; nil until the server says that it knows
	jumped Tick          // the first tick after the predicted clock was set
	states arrivals      // which have come
	every  time.Duration // how long it is from one state to the next; 0 is not known
	hitch  hitch         // of the server
}

// hitch is a time in which the server is behind with its ticks, and so are its states.
type hitch struct {
	known bool   // there was one
	lasts bool   // it is not over
	began uint64 // reading of the local clock
	ended uint64 // so, of one that is over
	last  Tick   // of one that is over: states up to this one may be late because of it
}

const (
	// hitchMost is how long a server may be behind until that is how its states come, and no
	// hitch.
	hitchMost = 3 * time.Second
	// hitchAlone is for how long a server must have kept up before it is a new hitch. In those
	// that come more often states are late again and again, as on a path with jitter.
	hitchAlone = 5 * time.Second
)

// told takes a Welcome, which arrived at nowUsec.
func (h *hitch) told(w Welcome, nowUsec uint64) {
	switch behind := w.Debt > 0; {
	case behind && !h.lasts:
		if !h.known || elapsed(h.ended, nowUsec) >= hitchAlone {
			h.began = nowUsec
		}
		h.known, h.lasts = true, true
	case !behind && h.lasts:
		h.lasts = false
		h.ended = nowUsec
		h.last = w.Tick
	}
}

// delayed reports whether the state of tick n, which comes at nowUsec, is late because of it.
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

// inputSent takes that the input for tick n, which starts at a time, is sent. How long after that
// does not count: a client knows its own frames.
func (b *buffers) inputSent(n Tick, start time.Duration, nowUsec uint64) {
	if b.sent != nil {
		ref := b.reference(nowUsec)
		b.sent[uint64(n)%sentKept] = sent{arrival{ref, start - ref}, n, !b.rebase}
	}
}

// inputsArrived takes what the server says of inputs.
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

// stateArrived takes that the state for tick n, of a time, came when the server clock showed
// another time. It is late if what is between it and the state before was shown already. Of a
// tick the first one counts. waited says that it may have waited on this machine. In a hitch of
// the server it says nothing of the path.
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

// track lets the reference go on at a rate to nowUsec, when the remote clock puts the shared
// clock at at. If that has jumped by more than hard, a clock was set, and the path is what it
// was. The same holds after a pause, which rebase says. Arrivals may have shown the jump before
// the remote clock did; whether the inputs that are under way come before it, nobody knows.
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
	b.gap, b.rebase = gap, false
}

// driven takes that the provider has been asked. After a jump, inputs for the ticks before next
// say nothing of where the clock is now.
func (b *buffers) driven(next Tick) {
	if b.ahead.jump {
		b.jumped, b.ahead.row = next, 0
	}
	if b.behind.jump {
		b.behind.row = 0
	}
	b.ahead.jump, b.behind.jump = false, false
}
