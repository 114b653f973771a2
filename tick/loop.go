// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// maxEvents bounds the events that wait for an Advance because of messages. Those of
// the Advance itself have room besides.
const maxEvents = 1024

// maxWait is how long Run waits at most, so that it notices what the network changes:
// the first synchronization, a Welcome, a step.
const maxWait = 50 * time.Millisecond

// setBack is by how much earlier than the last one a time must be to say that the local clock was
// set back.
const setBack = time.Second

// sleptLong is more than a wall clock that is slewed runs ahead between two calls.
const sleptLong = time.Second

// loop is what a Server and a Client have in common: a life from Start to Stop, the clocks and
// the ticks.
type loop struct {
	role      role
	reads     *readers // what readers see of it
	cfg       Config
	on        Handlers
	neverBack bool

	life atomic.Int64 // how many Stops there were: a Run and its handlers end with their life
	busy atomic.Bool  // Advance is running

	mu       sync.Mutex       // guards what follows; not held while handlers run
	now      snapshot         // what readers see next
	atUsec   uint64           // the last input: Start, Advance, Pause or Resume
	moved    [3]time.Duration // by how much the clocks moved from the input before to it, steps apart
	pins     [3]time.Duration // what the last tick saw of them
	steering Steering         // what the provider is told, kept so that it is not allocated anew
	frames   frameTimes       // how long it is from one Advance to the next
	started  bool
	synced   bool
	isSynced chan struct{} // closed when synced
	events   []Event       // not yet reported
	stats    Stats
}

// role is what a Server and a Client do differently. The lock is held.
type role interface {
	begin()     // at Start: forget the other side
	steer()     // at Advance: set the pace until the next
	paused()    // at Pause and Resume
	ran(n Tick) // tick n runs

	setBack(byUsec uint64) // the local clock was set back
}

func (l *loop) init(r role, reads *readers, cfg Config, on Handlers) {
	l.role, l.reads, l.cfg, l.on = r, reads, cfg, on
	l.reads.behind, l.reads.ahead = cfg.AcceptBehind, cfg.AcceptAhead
	l.isSynced = make(chan struct{})
	l.now.rate = cfg.Rate.orDefault()
	l.reads.snap.Store(&snapshot{})
}

// Start starts the clocks and the ticks: on a server at once, at FirstTick, on a
// client when the first Welcome and the remote clock are there; the first tick is
// then the next one that begins, whatever went before. It does nothing if started.
func (l *loop) Start(nowUsec uint64) { l.start(nowUsec) }

func (l *loop) start(nowUsec uint64) (life int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started {
		l.started, l.stats, l.atUsec, l.frames = true, Stats{}, nowUsec, frameTimes{}
		l.reads.refused.Store(0)
		l.reads.oldEpoch.Store(0)
		l.reads.early.Store(0)
		l.role.begin()
	}
	return l.life.Load()
}

// Stop stops the ticks and the clocks at once, also from inside of a handler, and
// forgets the other side: the server, or the peers. No handler is called after it; only one
// that another goroutine is just about to call may still begin. It does nothing if stopped.
func (l *loop) Stop() { l.stop(l.life.Load()) }

// stop ends a life, unless that is over.
func (l *loop) stop(life int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started || l.life.Load() != life {
		return
	}
	l.life.Add(1)
	l.started, l.events = false, nil
	l.now = snapshot{rate: l.cfg.Rate.orDefault()}
	l.unsync()
	l.reads.snap.Store(&snapshot{})
}

// Pause stops the ticks at once, and the clocks 20 ms after nowUsec: no reader that is so far
// ahead sees them go back. All peers should pause at the same time, or the others step
// when this one resumes.
func (l *loop) Pause(nowUsec uint64) { l.pause(nowUsec, true) }

// Resume ends a pause: the ticks may run at once, and 20 ms after nowUsec the clocks go on
// where they were. A client then goes on by its own until a Welcome says that the
// server does, too. If the server paused for equally long, that changes nothing, and
// otherwise the client steps.
func (l *loop) Resume(nowUsec uint64) { l.pause(nowUsec, false) }

func (l *loop) pause(nowUsec uint64, paused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now.known && l.now.paused != paused {
		l.setPaused(nowUsec, paused)
		l.role.paused()
	}
}

func (l *loop) setPaused(nowUsec uint64, paused bool) {
	l.reach(nowUsec)
	l.now.paused = paused
	for i := range l.now.courses {
		c := &l.now.courses[i]
		c.turn(piece{
			from:  l.atUsec + readerMargin,
			pace:  Pace{SkewPPB: c.last().pace.SkewPPB},
			still: paused,
		})
	}
	l.publish()
}

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

// wait returns how long Run waits: until the next tick starts, but not long while nobody knows
// when that will be: in a pause, while the handlers of another Advance run, or while the clocks
// are not known.
func (l *loop) wait(nowUsec uint64) time.Duration {
	if s := l.reads.snap.Load(); s.known && !s.paused && !l.busy.Load() {
		until := s.rate.Duration(l.reads.nextTick()) - s.read(predicted, nowUsec)
		return min(max(until+time.Microsecond, 0), maxWait)
	}
	return maxWait / 10
}

// WasAway reports whether the program did not call Advance for longer than Config.StallThreshold,
// or 1 s: it hung, or was suspended. What it reads then, until its next Advance, has waited on
// this machine for nobody knows how long. Drop it unread: its time of receipt is wrong, and what
// it says is out of date.
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
			own := l.cfg.Rate.orDefault()
			l.cfg.Logger.Warn("tick: another tick rate",
				"peer", e.Peer, "rate", e.Rate.String(), "own", own.String())
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

// clockSetBack lets the clocks and ticks go on where they are if the local clock has been set
// back, so that a time is earlier than the last one by more than a late reading can be.
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
	next, last := l.reads.nextTick(), l.now.rate.Ticks(l.latest(predicted))
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
		most = runAllMost
		keep = min(due, most)
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
	next, running := l.reads.nextTick(), l.now.rate.Ticks(l.latest(predicted))
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
	old := l.reads.nextTick()
	l.reads.setNextTick(next)
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
	r, n := l.now.rate, l.reads.nextTick()
	l.reads.setNextTick(n + 1)
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

// WaitSynced waits until a client is synchronized with its server, a server until it
// is started, or returns the error of ctx. Another goroutine must advance it: a handler must not
// call it, since it would wait for itself.
func (l *loop) WaitSynced(ctx context.Context) error {
	l.mu.Lock()
	done := l.isSynced
	l.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stats returns the counts.
func (l *loop) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Refused = l.reads.refused.Load()
	s.OldEpoch = l.reads.oldEpoch.Load()
	s.Early = l.reads.early.Load()
	if l.now.known {
		s.Debt = max(l.now.rate.Ticks(l.latest(predicted))-l.reads.nextTick()+1, 0)
	}
	return s
}

// debt returns how many ticks are due at nowUsec beyond those of a frame as most are.
func (l *loop) debt(nowUsec uint64) Tick {
	if !l.now.known || l.now.paused {
		return 0
	}
	due := l.now.rate.Ticks(l.now.read(predicted, nowUsec)) - l.reads.nextTick() + 1
	frame := l.now.rate.Ticks(l.frames.median()) + 1
	return max(due-frame, 0)
}

// reach moves the last input to nowUsec, unless that is past.
func (l *loop) reach(nowUsec uint64) {
	if int64(nowUsec-l.atUsec) <= 0 {
		return
	}
	for i := range l.moved {
		l.moved[i] = l.now.read(i, nowUsec) - l.latest(i)
	}
	l.atUsec = nowUsec
}

// latest returns what clock i reads at the last input.
func (l *loop) latest(i int) time.Duration { return l.now.read(i, l.atUsec) }

// set sets clock i, which makes the last frame useless for pinned.
func (l *loop) set(i int, t time.Duration, p Pace) {
	l.pins[i] = math.MinInt64
	l.now.courses[i].set(piece{from: l.atUsec, base: t, pace: p, still: l.now.paused})
	l.moved = [3]time.Duration{}
}

// drive lets the provider set the pace, or the clocks. The targets in steering are of the last
// input.
func (l *loop) drive() {
	s := &l.steering
	for i, c := range s.clocks() {
		c.At, c.Target = l.now.read(i, l.atUsec+readerMargin), c.Target+l.marginAt(c.Pace)
	}
	ok, old, set := l.cfg.Provider.AdvanceTime(s), l.latest(predicted), false
	for i, c := range s.clocks() {
		p, was := c.Pace.limited(), l.now.read(i, l.atUsec+readerMargin)
		at := within(satAdd(c.At, -l.marginAt(p)))
		// With NeverBack no reader that is ahead may see it go back either.
		if ok || c.At == was || l.neverBack && at < was {
			l.now.courses[i].change(l.atUsec, p)
		} else {
			l.set(i, at, p)
			set = true
		}
	}
	if set {
		l.step(old, s.PredictedTime.Late)
	}
}

// marginAt returns how far a clock goes in the reader margin.
func (*loop) marginAt(p Pace) time.Duration {
	return time.Duration(readerMargin*1000 + parts(readerMargin*1000, p.SkewPPB))
}

func (l *loop) sync() {
	l.synced = true
	close(l.isSynced)
	l.report(Event{Kind: EventSynced, Epoch: l.now.epoch})
}

func (l *loop) unsync() {
	if l.synced {
		l.synced, l.isSynced = false, make(chan struct{})
	}
}

func (l *loop) report(e Event) {
	e.AtUsec = l.atUsec
	l.events = append(l.events, e)
}

func (l *loop) publish() { s := l.now; l.reads.snap.Store(&s) }

// hear notes that the other side is heard, and reports it if it was silent.
func (l *loop) hear(v *vitals, peer, nowUsec uint64) {
	if v.silent && len(l.events) < maxEvents-2 {
		l.report(Event{Kind: EventHeard, By: max(elapsed(v.atUsec, nowUsec), 0), Peer: peer, Last: -1})
		v.silent = false
	}
	if !v.known || int64(nowUsec-v.atUsec) > 0 {
		v.known, v.atUsec = true, nowUsec
	}
}

// watch reports the other side if it has fallen silent, unless too many events wait.
func (l *loop) watch(v *vitals, peer uint64) {
	if age := elapsed(v.atUsec, l.atUsec); v.known && !v.silent && age > silence &&
		len(l.events) < maxEvents {
		v.silent = true
		l.report(Event{Kind: EventSilent, By: age, Peer: peer, Last: -1})
	}
}
