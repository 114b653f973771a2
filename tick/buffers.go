// SPDX-License-Identifier: BSD-3-Clause

package tick

import "time"

// sentKept is for how many of the last ticks a client knows when it sent their inputs.
const sentKept = 1024

// buffers finds how far a client's predicted clock is to be ahead of the shared clock, and its
// server clock behind: by when inputs reach the server, and states the client. All is counted
// from a reference, the local clock at the rate of the server's, since the remote clock's idea of
// the delays may change although the path does not, and the other way round.
type buffers struct {
	ref    time.Duration // the reference
	refAt  uint64        // when the local clock reads this
	skew   int64         // and its rate from there on, parts in 10^9
	gap    time.Duration // where the remote clock put the shared clock, minus the reference
	rebase bool          // there was a pause: gap is another one, and until track finds it nothing counts
	ahead  follower      // the predicted clock, by the server's word of inputs
	behind follower      // the server clock, by states
	sent   []sent        // by tick modulo sentKept; nil until the server says that it knows
	jumped Tick          // the first tick after the predicted clock was set
	states arrivals      // which have come

	phases  [2]time.Duration // how long after their start ticks were run at most, in this minute and in the one before
	phaseAt uint64           // when this minute began
	phased  time.Duration    // that of the last tick
}

// phase takes that a tick was run so long after its start, and returns by how much longer that takes at
// other times. Frames of about a tick beat with the ticks: for minutes all are run when they start, and
// then a frame later. What a single tick waited says nothing, nor what is being caught up with.
func (b *buffers) phase(p, tick time.Duration, nowUsec uint64) (later time.Duration) {
	if p > tick {
		return 0
	}
	if elapsed(b.phaseAt, nowUsec).Abs() > time.Minute {
		b.phases, b.phaseAt = [2]time.Duration{0, b.phases[0]}, nowUsec
	}
	b.phases[0], b.phased = max(b.phases[0], min(p, b.phased)), p
	return max(b.phases[0]-p, b.phases[1]-p, 0)
}

// sent is an input of a client for a tick: when it was sent, and how far the predicted clock was ahead of the
// reference then.
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

// inputSent takes that the input for a tick is sent when the predicted clock shows at, and at other times
// so much later after the start of the tick.
func (b *buffers) inputSent(n Tick, at, later time.Duration, nowUsec uint64) {
	if b.sent != nil {
		ref := b.reference(nowUsec)
		b.sent[uint64(n)%sentKept] = sent{arrival{ref, at + later - ref}, n, !b.rebase}
	}
}

// inputsArrived takes what the server says of inputs.
func (b *buffers) inputsArrived(a *arrivals, tick time.Duration, nowUsec uint64) {
	if b.sent == nil {
		b.sent = make([]sent, sentKept)
	}
	for i := a.ticks - 1; i >= 0; i-- { // the oldest first
		n := a.newest - Tick(i)
		s := &b.sent[uint64(n)%sentKept]
		if early, came := a.early(i); came && s.fresh && s.tick == n {
			s.fresh = false
			b.ahead.add(arrival{s.sent, s.distance - early}, early < 0, nowUsec)
			if n >= b.jumped {
				b.ahead.count(early < 0, nowUsec)
			}
		}
	}
	b.ahead.judge(tick, 0, nowUsec)
}

// stateArrived takes that the state for tick n came when the server clock, which shows one state
// less, was to show at, and that this was early, or late if negative. Of a tick the first one counts.
// waited says that it may have waited on this machine.
func (b *buffers) stateArrived(n Tick, at, early, tick time.Duration, waited bool, nowUsec uint64) {
	if b.states.add(n, 0) && !b.rebase && !waited {
		b.behind.add(arrival{at, b.reference(nowUsec) - at}, early < 0, nowUsec)
		b.behind.count(early < 0, nowUsec)
		b.behind.judge(tick, rowLong/2, nowUsec) // what has waited on the way comes all at once
	}
}

// track lets the reference go on at a rate to nowUsec, when the remote clock puts the shared clock
// at at. If that has jumped by more than hard, a clock was set, and the path is what it was. The
// same holds after a pause, which rebase says. Arrivals may have shown the jump before the remote clock
// did; whether the inputs that are under way come before it, nobody knows.
func (b *buffers) track(at time.Duration, skewPPB int64, hard time.Duration, nowUsec uint64) {
	b.ref, b.refAt, b.skew = b.reference(nowUsec), nowUsec, skewPPB
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

// driven takes that the provider has been asked. After a jump, inputs for the ticks before next say
// nothing of where the clock is now.
func (b *buffers) driven(next Tick) {
	if b.ahead.jump {
		b.jumped, b.ahead.row = next, 0
	}
	b.ahead.jump, b.behind.jump = false, false
}
