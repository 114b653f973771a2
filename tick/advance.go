// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"context"
	"math"
	"time"
)

// maxWait is how long Run waits at most, so that it notices what the network changes:
// the first synchronization, a Welcome, a step.
const maxWait = 50 * time.Millisecond

// setBack is by how much earlier than the last one a time must be to say that the local clock was set back.
const setBack = time.Second

// sleptLong is more than a wall clock that is slewed runs ahead between two calls.
const sleptLong = time.Second

// Run starts, advances by Config.Clock until ctx ends or Stop is called, and stops.
// It waits for the moment at which the next tick starts, not for a time between ticks:
// a late tick does not delay those that follow. It returns the error of ctx, or nil
// after Stop. A run ends only what it started or found started: after a Stop another
// Run may follow at once, and begins when the handlers of the old one have returned.
// If the machine slept, Run reports EventSlept.
func (l *loop) Run(ctx context.Context) error {
	life := l.start(l.cfg.Clock())
	defer l.stop(life)
	l.cfg.Slept() // what was before
	for ctx.Err() == nil {
		if slept := l.cfg.Slept(); slept > sleptLong {
			l.mu.Lock()
			l.report(Event{Kind: EventSlept, By: slept, Last: -1})
			l.mu.Unlock()
		}
		l.Advance(l.cfg.Clock())
		if l.life.Load() != life {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(l.wait(l.cfg.Clock())):
		}
	}
	return ctx.Err()
}

// wait returns how long Run waits: until the next tick starts, but not long while nobody knows when that will be: in a
// pause, while the handlers of another Advance run, or while the clocks are not known.
func (l *loop) wait(nowUsec uint64) time.Duration {
	if s := l.snap.Load(); s.known && !s.paused && !l.busy.Load() {
		until := s.rate.Duration(l.nextTick()) - s.read(predicted, nowUsec)
		return min(max(until+time.Microsecond, 0), maxWait)
	}
	return maxWait / 10
}

// WasAway reports whether the program did not call Advance for longer than Config.StallThreshold, or 1 s: it hung, or was
// suspended. What it reads then, until its next Advance, has waited on this machine for nobody knows how long.
// Drop it unread: its time of receipt is wrong, and what it says is out of date.
//
//	if client.WasAway(clock.Now()) {
//		continue // with the next datagram
//	}
func (l *loop) WasAway(nowUsec uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	longest := time.Second
	if l.cfg.StallThreshold > 0 {
		longest = l.cfg.StallThreshold
	}
	return l.now.known && elapsed(l.atUsec, nowUsec) > longest
}

// Advance advances the clocks to nowUsec and runs the ticks that have become due:
// those that start at or before predicted time, each once and in order, see
// Config.MaxTicks. It returns how many. Call it in every frame. It does nothing while
// another Advance runs, as when a handler calls it.
func (l *loop) Advance(nowUsec uint64) (ticks int) { return l.advance(nowUsec, false) }

// AdvanceOne is Advance for a physics engine that steps at the tick rate by a clock of its
// own: call it in every physics step instead. It runs one tick, also if that is early
// by less than a tick; none if it is earlier; and if the loop is a tick or more
// behind, those ticks too.
func (l *loop) AdvanceOne(nowUsec uint64) (ticks int) { return l.advance(nowUsec, true) }

// advance is Advance or, with a single tick if possible, AdvanceOne.
func (l *loop) advance(nowUsec uint64, single bool) (ticks int) {
	if !l.busy.CompareAndSwap(false, true) {
		return 0
	}
	defer l.busy.Store(false)
	l.mu.Lock()
	due, life, events := l.due(nowUsec, single), l.life.Load(), l.events
	l.events = nil
	l.mu.Unlock()
	for _, e := range events {
		if e.Kind == eventUpdated {
			call(l, life, l.on.AfterSync, e.By)
			continue
		}
		if e.Kind == EventRateMismatch && l.cfg.OnMismatch == MismatchWarn && l.life.Load() == life {
			l.cfg.Logger.Warn("tick: another tick rate", "peer", e.Peer, "rate", e.Rate.String(), "own", l.cfg.Rate.orDefault().String())
		}
		call(l, life, l.on.Event, e)
	}
	return l.runTicks(due, life)
}

// due advances the clocks and returns how many ticks to run.
func (l *loop) due(nowUsec uint64, single bool) int {
	if !l.started {
		return 0
	}
	if int64(nowUsec-l.atUsec) < 0 {
		l.stats.Backwards++
		l.clockSetBack(nowUsec)
	}
	gap := elapsed(l.atUsec, nowUsec)
	if !l.now.known {
		gap = 0 // waiting for the first synchronization is not a stall
	}
	l.reach(nowUsec)
	if l.now.paused {
		return 0
	}
	if l.now.known {
		l.frames.add(gap)
	}
	if l.role.steer(); !l.now.known {
		return 0
	}
	if l.publish(); l.now.paused { // the role has just found a pause
		return 0
	}
	return l.plan(gap, single)
}

// clockSetBack lets the clocks and ticks go on where they are if the local clock has been set back, so that a time is
// earlier than the last one by more than a late reading can be.
func (l *loop) clockSetBack(nowUsec uint64) {
	back := -elapsed(l.atUsec, nowUsec)
	if back <= setBack {
		return
	}
	by := l.atUsec - nowUsec
	for i, c := range l.now.courses {
		moved := make(course, len(c)) // readers may have the old one
		for k, p := range c {
			p.from -= by
			moved[k] = p
		}
		l.now.courses[i] = moved
	}
	l.atUsec = nowUsec
	l.role.setBack(by)
	l.publish()
	l.report(Event{Kind: EventClockSet, By: -back, Last: -1})
}

// plan applies the policies and returns how many ticks to run.
func (l *loop) plan(gap time.Duration, single bool) int {
	next, last := l.nextTick(), l.now.rate.Ticks(l.latest(predicted))
	if single && next == last+1 {
		last = next
	}
	due, most, stall := max(last-next+1, 0), Tick(l.cfg.MaxTicks), l.cfg.StallThreshold
	keep, e := due, Event{Kind: EventSkipped}
	switch {
	case stall > 0 && gap > stall:
		l.stats.Stalls++
		keep, e = min(due, 1), Event{Kind: EventStalled, By: gap}
	case l.cfg.CatchUp == CatchUpRunAll:
		most = math.MaxInt32
	case due <= most:
	case l.cfg.CatchUp == CatchUpJump:
		keep = 1
	case l.cfg.CatchUp == CatchUpDrop || l.now.rate.Ticks(l.frames.usual()) >= most:
		keep = most // frames that are too long make up for nothing
	case stall > 0:
		keep = max(min(due, l.now.rate.Ticks(stall)), most)
	}
	if keep < due || e.Kind == EventStalled {
		l.renumber(next+due-keep, e)
	}
	return int(min(keep, most))
}

// firstTick returns the first tick that starts at predicted time or later.
func (l *loop) firstTick() Tick { return l.now.rate.Ticks(l.latest(predicted)-1) + 1 }

// step reports that predicted time was set from old to what it is, and goes on with the tick that
// is running now, or after it if that is run already. With all, the ticks between are run, if an
// Advance may run so many.
func (l *loop) step(old time.Duration, all bool) {
	l.stats.Steps++
	e := Event{Kind: EventStepped, By: satAdd(l.latest(predicted), -old)}
	next, running := l.nextTick(), l.now.rate.Ticks(l.latest(predicted))
	switch most := Tick(l.cfg.MaxTicks); {
	case e.By < 0 && running < next-1:
		next = running + 1
	case running > next && !(all && running-next < most):
		next = running
	}
	l.renumber(next, e)
}

// renumber goes on with another tick, and reports in e which are left out for that, or come again.
func (l *loop) renumber(next Tick, e Event) {
	old := l.nextTick()
	l.setNextTick(next)
	if e.First, e.Last, e.Again = min(old, next), max(old, next)-1, next < old; !e.Again {
		l.stats.Skipped += uint64(next - old)
	}
	l.report(e)
}

// runTicks runs the ticks that are due, until a handler stops or pauses the loop.
func (l *loop) runTicks(due int, life int64) (ticks int) {
	if due == 0 {
		return 0
	}
	bracket := func(handler func()) {
		if handler != nil && l.life.Load() == life {
			handler()
		}
	}
	bracket(l.on.BeforeLoop)
	for ; ticks < due; ticks++ {
		t, ok := l.take(life)
		if !ok {
			break
		}
		call(l, life, l.on.BeforeTick, t)
		call(l, life, l.on.Tick, t)
		call(l, life, l.on.AfterTick, t)
	}
	bracket(l.on.AfterLoop)
	return ticks
}

// call calls a handler, unless its life is over.
func call[T any](l *loop, life int64, handler func(T), arg T) {
	if handler != nil && l.life.Load() == life {
		handler(arg)
	}
}

// take takes the next tick, unless a handler has stopped or paused the loop.
func (l *loop) take(life int64) (Update, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Load() != life || !l.now.known || l.now.paused {
		return Update{}, false
	}
	r, n := l.now.rate, l.nextTick()
	l.setNextTick(n + 1)
	l.stats.Ticks++
	start := r.At(n, 0)
	back := l.latest(predicted) - r.Duration(n)
	l.role.ran(n)
	clocks := Clocks{Time{r, l.pinned(shared, back)}, Time{r, l.pinned(server, back)}, start}
	return Update{n, start.length(), clocks}, true
}

// pinned returns what a clock read when predicted time was back earlier: within the
// last frame both moved evenly, and before it they are taken to go alike, but not so
// that a tick would see less than the one before. (The Network Time System takes them
// to go alike always, and in whole ticks.)
func (l *loop) pinned(i int, back time.Duration) time.Duration {
	if frame := l.moved[predicted]; 0 < back && back < frame {
		back = time.Duration(float64(l.moved[i]) * (float64(back) / float64(frame)))
	}
	l.pins[i] = max(l.latest(i)-back, l.pins[i])
	return l.pins[i]
}
