// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"time"
)

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
	// sentKept is for how many of the last ticks a client knows when it sent their inputs.
	sentKept = 1024

	// So many in a row, and for so long, must be late until a clock is set at once: chance does
	// that seldom. Where the jitter has made a row of late ones before, it must be longer than
	// that. A row of 200 ms is enough in any case.
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
// reference, the local clock at the rate of the server's, or behind it, so that no more than a
// share of what is sent or received comes late. It counts from the local clock, since the remote
// clock's idea of the delay may change although the path does not, and the other way round.
type follower struct {
	spread spread
	told   bool          // there was an arrival since the clocks are known
	atUsec uint64        // when the last one was told
	news   bool          // since distance was found
	held   time.Duration // the distance from the reference
	buffer time.Duration // the distance from where the remote clock puts the fastest arrival

	late, all float32 // arrivals of late

	row   int    // how many were late in a row, up to the last one
	rowAt uint64 // since when
	worst int    // the longest row that ended by itself, of late
	at    uint64 // when it did
	jump  bool   // too many are late in a row: the clock is to be set

	jumps  int    // how often that was, each within jumpsRemember of the one before
	jumpAt uint64 // the last time
}

// add takes how far the clock should have been for an arrival to be just in time.
func (f *follower) add(distance time.Duration, late bool, nowUsec uint64) {
	if f.told && int64(nowUsec-f.atUsec) > adaptFresh.Microseconds() {
		f.spread.recent = f.spread.recent[:0] // the reference may have drifted
	}
	f.told, f.news, f.atUsec = true, true, nowUsec
	f.spread.add(distance)
	if f.all++; late {
		f.late++
	}
	if f.all >= lateMemory {
		f.late, f.all = f.late/2, f.all/2
	}
}

// end notes that a row of late ones has ended by itself.
func (f *follower) end(row int, nowUsec uint64) {
	if row > f.worst || f.forgets(nowUsec) {
		f.worst, f.at = row, nowUsec
	}
}

func (f *follower) forgets(nowUsec uint64) bool {
	return int64(nowUsec-f.at) > rowRemember.Microseconds()
}

// tooMany reports whether a row of late ones is longer than chance makes it.
func (f *follower) tooMany(row int, tick time.Duration, nowUsec uint64) bool {
	worst := f.worst
	if f.forgets(nowUsec) {
		worst = 0
	}
	least := max(rowLeast, int(rowShort/tick))
	return row >= least && row > min(worst, max(least, int(rowLong/tick)))
}

// restart says that a row of late ones, with these distances, shows another path.
func (f *follower) restart(row []time.Duration, nowUsec uint64) {
	f.spread.restart(row)
	f.jump, f.news = true, true
	since := int64(nowUsec - f.jumpAt)
	if since > jumpsRemember.Microseconds() {
		f.jumps = 0
	}
	if f.jumps == 0 || since > adaptFresh.Microseconds() {
		f.jumps++
	}
	f.jumpAt = nowUsec
}

// unquiet reports whether the path becomes longer again and again.
func (f *follower) unquiet(nowUsec uint64) bool {
	return f.jumps > 1 && int64(nowUsec-f.jumpAt) <= jumpsRemember.Microseconds()
}

// distance returns how far from the reference the clock should be, given where the remote clock
// puts the fastest arrival, and the buffer that is used until arrivals are told.
func (f *follower) distance(fastest, buffer time.Duration, share float64, nowUsec uint64) time.Duration {
	switch {
	case !f.told:
		f.buffer = buffer
	case int64(nowUsec-f.atUsec) <= adaptFresh.Microseconds():
		if f.news {
			f.news = false
			f.spread.follow()
			beyond := f.spread.beyond(share)
			want := f.spread.level + beyond + adaptLeast
			// What is less is left until it is worth it, and where it has been too little again
			// and again, until too many have not been late for a minute or so.
			less := want < f.held-max(adaptLeast, beyond/8)
			if want > f.held || less && !(f.unquiet(nowUsec) && f.share() > 2*share) {
				f.held = want
			}
		}
		f.buffer = min(max(f.held-fastest, buffer-adaptReach), buffer+adaptReach)
	}
	return fastest + f.buffer
}

// shift says that the reference counts from another time: all distances are longer by d.
func (f *follower) shift(d time.Duration) {
	f.spread.shift(d)
	f.held += d
}

// share returns the share of late arrivals.
func (f *follower) share() float64 { return float64(f.late) / float64(max(f.all, 1)) }

// sent is when a client sent the input for a tick: when its predicted clock was so far ahead of the
// reference.
type sent struct {
	tick     Tick
	distance time.Duration
	told     bool // the server has said when it came
}

// adaptation is what a client needs to set its buffers by itself.
type adaptation struct {
	ref    time.Duration // the reference
	refAt  uint64        // when the local clock reads this
	skew   int64         // and its rate from there on, like target.skewPPB
	gap    time.Duration // where the remote clock put the shared clock, minus the reference
	rebase bool          // there was a pause: gap is another now
	ahead  follower      // the predicted clock, by the server's word of inputs
	behind follower      // the server clock, by states
	sent   []sent        // by tick modulo sentKept; nil until the server says that it knows
	jumped Tick          // the first tick after the predicted clock was set
	states arrivals      // which have come
	last   vitals        // of the server
}

// reference returns the reference at a time near the last Advance.
func (a *adaptation) reference(nowUsec uint64) time.Duration {
	ns := max(min(int64(nowUsec-a.refAt), maxAhead), -maxAhead) * 1000
	return a.ref + time.Duration(ns+share(ns, a.skew))
}

// shift says that the reference, and with it all distances, count from another time.
func (a *adaptation) shift(d time.Duration) {
	a.ahead.shift(d)
	a.behind.shift(-d)
	for i := range a.sent {
		a.sent[i].distance += d
	}
}

// restart forgets all but when the server was heard: there is another server, or another path.
func (a *adaptation) restart() { *a = adaptation{last: a.last} }

// ran notes when the input for a tick is sent.
func (c *Client) ran(n Tick) {
	if c.adapt.sent != nil {
		c.adapt.sent[uint64(n)%sentKept] = sent{n, c.at[predicted] - c.adapt.reference(c.atUsec), false}
	}
}

// learn takes what the server says of inputs.
func (c *Client) learn(a *arrivals) {
	if a.ticks == 0 || !c.inited {
		return
	}
	if c.adapt.sent == nil {
		c.adapt.sent = make([]sent, sentKept)
		for i := range c.adapt.sent {
			c.adapt.sent[i].told = true
		}
	}
	f, row := &c.adapt.ahead, 0
	for i := a.ticks - 1; i >= 0; i-- { // the oldest first
		n := a.newest - Tick(i)
		s := &c.adapt.sent[uint64(n)%sentKept]
		early, came := a.early(i)
		if !came || s.tick != n {
			continue
		}
		if !s.told {
			s.told = true
			f.add(s.distance-early, early < 0, c.atUsec)
		}
		switch {
		case n < c.adapt.jumped:
		case early < 0:
			row++
		default:
			f.end(row, c.atUsec)
			row = 0
		}
	}
	if f.tooMany(row, c.now.rate.Duration(1), c.atUsec) {
		c.restart(a, row)
	}
}

// restart learns from the last inputs, which were late in a row, alone.
func (c *Client) restart(a *arrivals, row int) {
	var distances []time.Duration
	for i := 0; len(distances) < row; i++ {
		if early, came := a.early(i); came {
			if s := c.adapt.sent[uint64(a.newest-Tick(i))%sentKept]; s.tick == a.newest-Tick(i) {
				distances = append(distances, s.distance-early)
			}
		}
	}
	c.adapt.ahead.restart(distances, c.atUsec)
}

// Received takes that state of the server for tick n, one to Accept, came at nowUsec. The server
// clock then follows such arrivals, if ClientBuffer is zero, so that the state after the one that
// it shows has come, too. Of a tick only the first state counts. It also tells that the server
// is alive, see EventSilent.
func (c *Client) Received(n Tick, nowUsec uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.started {
		return
	}
	c.hear(&c.adapt.last, 0, nowUsec)
	a, tick := &c.adapt.states, c.now.rate.Duration(1)
	at := satAdd(c.now.rate.Duration(n), -tick) // one state ahead
	early := satAdd(at, -c.now.read(server, nowUsec))
	if !c.inited || c.now.paused || early.Abs() > maxDelay {
		return
	}
	if i := a.newest - n; a.ticks > 0 && (i >= Tick(a.ticks) || i >= 0 && a.units[i] != notArrived) {
		return
	}
	a.add(n, 0)
	f := &c.adapt.behind
	f.add(c.adapt.reference(nowUsec)-at, early < 0, nowUsec)
	if early >= 0 {
		f.end(f.row, nowUsec)
		f.row = 0
		return
	}
	if f.row++; f.row == 1 {
		f.rowAt = nowUsec
	}
	// What has waited on the way comes all at once.
	if f.tooMany(f.row, tick, nowUsec) && int64(nowUsec-f.rowAt) > rowLong.Microseconds()/2 {
		last := f.spread.recent[max(len(f.spread.recent)-f.row, 0):]
		f.restart(append([]time.Duration(nil), last...), nowUsec)
	}
}

// goals returns where the server and predicted clocks should be when the remote clock puts the
// shared clock at at, the delays are from and to, and skewPPB is the server's rate.
func (c *Client) goals(at, from, to time.Duration, skewPPB int64) (behind, ahead time.Duration) {
	a, tick := &c.adapt, c.now.rate.Duration(1)
	a.ref, a.refAt, a.skew = a.reference(c.atUsec), c.atUsec, skewPPB
	if gap := at - a.ref; c.frozen || !c.tells() {
		a.rebase = true
	} else {
		if a.rebase || (gap-a.gap).Abs() > c.steering.hard { // a clock was set: the path is what it was
			a.shift(gap - a.gap)
		}
		a.gap, a.rebase = gap, false
	}
	behind, ahead = at-from-max(c.conf.ClientBuffer, 0), at+to+max(c.conf.ServerBuffer, 0)
	if c.conf.ClientBuffer == 0 {
		behind = a.ref - a.behind.distance(a.ref-(at-from), tick, c.late(), c.atUsec)
	}
	if c.conf.ServerBuffer == 0 {
		ahead = a.ref + a.ahead.distance(at+to-a.ref, c.now.rate.Duration(2), c.late(), c.atUsec)
	}
	return behind, ahead
}

// late is the share that may be late, with room for what is not known yet: half of LateShare.
func (c *Client) late() float64 { return orDefault(c.conf.LateShare, defaultLateShare) / 2 }

// Timing is how a client sets its clocks, and how well that works. See ClientConfig.
type Timing struct {
	Lead  time.Duration // predicted clock minus shared clock
	Delay time.Duration // shared clock minus server clock

	// ServerBuffer and ClientBuffer are what Lead and Delay have beyond the shortest delays that the
	// remote clock knows. Negative where it overestimates them.
	ServerBuffer, ClientBuffer time.Duration
	// Error is where the predicted clock should be, minus where it is: what is still to be slewed.
	Error time.Duration

	LateInputs float64 // share of the inputs that came too late, of the last minute; 0 if the server tells none
	LateStates float64 // share of the states that came too late to be shown between

	HeardUsec uint64 // when a Welcome or a state came last, reading of the local clock
	Silent    bool   // that is longer ago than 3 s
}

// Timing returns how the clocks are set, as of the last Advance. ok is false while they are not
// known.
func (c *Client) Timing() (t Timing, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.inited {
		return Timing{}, false
	}
	a := &c.adapt
	t = Timing{
		Lead: c.at[predicted] - c.at[shared], Delay: c.at[shared] - c.at[server],
		Error:      c.goal - c.at[predicted],
		LateInputs: a.ahead.share(), LateStates: a.behind.share(),
		HeardUsec: a.last.atUsec, Silent: a.last.silent,
	}
	t.ServerBuffer = c.at[predicted] - c.fastest[predicted]
	t.ClientBuffer = c.fastest[server] - c.at[server]
	return t, true
}
