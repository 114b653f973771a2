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
// the ticks. Receivers are called g, for game, here and in readers, Client and Server: go doc
// lists the methods of all four under Client and Server.
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
	moved    [3]time.Duration // by how much the clocks moved since the input before, but for steps
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

func (g *loop) init(r role, reads *readers, cfg Config, on Handlers) {
	g.role, g.reads, g.cfg, g.on = r, reads, cfg, on
	g.reads.behind = cfg.AcceptBehind
	g.reads.ahead = cfg.AcceptAhead
	g.isSynced = make(chan struct{})
	g.now.rate = cfg.Rate.orDefault()
	g.reads.snap.Store(&snapshot{})
}

// Start starts the clocks and the ticks: on a server at once, at FirstTick, on a
// client when the first Welcome and the remote clock are there; the first tick is
// then the next one that begins, whatever went before. It does nothing if started.
func (g *loop) Start(nowUsec uint64) { g.start(nowUsec) }

func (g *loop) start(nowUsec uint64) (life int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.started {
		g.started = true
		g.stats = Stats{}
		g.atUsec = nowUsec
		g.frames = frameTimes{}
		g.reads.refused.Store(0)
		g.reads.oldEpoch.Store(0)
		g.reads.early.Store(0)
		g.role.begin()
	}
	return g.life.Load()
}

// Stop stops the ticks and the clocks at once, also from inside of a handler, and
// forgets the other side: the server, or the peers. No handler is called after it; only one
// that another goroutine is just about to call may still begin. It does nothing if stopped.
func (g *loop) Stop() { g.stop(g.life.Load()) }

// stop ends a life, unless that is over.
func (g *loop) stop(life int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.started || g.life.Load() != life {
		return
	}
	g.life.Add(1)
	g.started = false
	g.events = nil
	g.now = snapshot{rate: g.cfg.Rate.orDefault()}
	g.unsync()
	g.reads.snap.Store(&snapshot{})
}

// Pause stops the ticks at once, and the clocks 20 ms after nowUsec, so a reader that is 20 ms
// ahead does not see them go back. All peers should pause at the same time, or the others step
// when this one resumes.
func (g *loop) Pause(nowUsec uint64) { g.pause(nowUsec, true) }

// Resume ends a pause: the ticks may run at once, and 20 ms after nowUsec the clocks go on
// where they were. A client then goes on by its own until a Welcome says that the
// server does, too. If the server paused for equally long, that changes nothing, and
// otherwise the client steps.
func (g *loop) Resume(nowUsec uint64) { g.pause(nowUsec, false) }

func (g *loop) pause(nowUsec uint64, paused bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now.known && g.now.paused != paused {
		g.setPaused(nowUsec, paused)
		g.role.paused()
	}
}

func (g *loop) setPaused(nowUsec uint64, paused bool) {
	g.reach(nowUsec)
	g.now.paused = paused
	for i := range g.now.courses {
		c := &g.now.courses[i]
		c.turn(piece{
			from:  g.atUsec + readerMargin,
			pace:  Pace{SkewPPB: c.last().pace.SkewPPB},
			still: paused,
		})
	}
	g.publish()
}

// Run starts, advances by Config.Clock until ctx ends or Stop is called, and stops.
// It waits for the moment at which the next tick starts, not for a time between ticks:
// a late tick does not delay those that follow. It returns the error of ctx, or nil
// after Stop. A run ends only what it started or found started: after a Stop another
// Run may follow at once, and begins when the handlers of the old one have returned.
// If the machine slept, Run reports EventSlept.
func (g *loop) Run(ctx context.Context) error {
	life := g.start(g.cfg.Clock())
	defer g.stop(life)
	g.cfg.Slept() // what was before
	for ctx.Err() == nil {
		if slept := g.cfg.Slept(); slept > sleptLong {
			g.mu.Lock()
			g.report(Event{Kind: EventSlept, By: slept, Last: -1})
			g.mu.Unlock()
		}
		g.Advance(g.cfg.Clock())
		if g.life.Load() != life {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(g.wait(g.cfg.Clock())):
		}
	}
	return ctx.Err()
}

// wait returns how long Run waits: until the next tick starts, but not long while nobody knows
// when that will be: in a pause, while the handlers of another Advance run, or while the clocks
// are not known.
func (g *loop) wait(nowUsec uint64) time.Duration {
	if s := g.reads.snap.Load(); s.known && !s.paused && !g.busy.Load() {
		until := s.rate.Duration(g.reads.nextTick()) - s.read(predicted, nowUsec)
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
func (g *loop) WasAway(nowUsec uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	longest := time.Second
	if g.cfg.StallThreshold > 0 {
		longest = g.cfg.StallThreshold
	}
	return g.now.known && elapsed(g.atUsec, nowUsec) > longest
}

// Advance advances the clocks to nowUsec and runs the ticks that have become due:
// those that start at or before predicted time, each once and in order, see
// Config.MaxTicks. It returns how many. Call it in every frame. It does nothing while
// another Advance runs, as when a handler calls it.
func (g *loop) Advance(nowUsec uint64) (ticks int) { return g.advance(nowUsec, false) }

// AdvanceOne is Advance for a physics engine that steps at the tick rate by a clock of its own:
// call it in every physics step instead. It runs one tick, even if it is early by less than a
// tick, and none if it is earlier. If the loop is a tick or more behind, it runs those ticks, too.
func (g *loop) AdvanceOne(nowUsec uint64) (ticks int) { return g.advance(nowUsec, true) }

// advance is Advance or, with a single tick if possible, AdvanceOne.
func (g *loop) advance(nowUsec uint64, single bool) (ticks int) {
	if !g.busy.CompareAndSwap(false, true) {
		return 0
	}
	defer g.busy.Store(false)
	g.mu.Lock()
	due := g.due(nowUsec, single)
	life := g.life.Load()
	events := g.events
	g.events = nil
	g.mu.Unlock()
	for _, e := range events {
		if e.Kind == eventUpdated {
			call(g, life, g.on.AfterSync, e.By)
			continue
		}
		warns := e.Kind == EventRateMismatch && g.cfg.OnMismatch == MismatchWarn
		if warns && g.life.Load() == life {
			own := g.cfg.Rate.orDefault()
			g.cfg.Logger.Warn("tick: another tick rate",
				"peer", e.Peer, "rate", e.Rate.String(), "own", own.String())
		}
		call(g, life, g.on.Event, e)
	}
	return g.runTicks(due, life)
}

// due advances the clocks and returns how many ticks to run.
func (g *loop) due(nowUsec uint64, single bool) int {
	if !g.started {
		return 0
	}
	if int64(nowUsec-g.atUsec) < 0 {
		g.stats.Backwards++
		g.clockSetBack(nowUsec)
	}
	gap := elapsed(g.atUsec, nowUsec)
	if !g.now.known {
		gap = 0 // waiting for the first synchronization is not a stall
	}
	g.reach(nowUsec)
	if g.now.paused {
		return 0
	}
	if g.now.known {
		g.frames.add(gap)
	}
	g.role.steer()
	if !g.now.known {
		return 0
	}
	g.publish()
	if g.now.paused { // the role has just found a pause
		return 0
	}
	return g.plan(gap, single)
}

// clockSetBack lets the clocks and ticks go on where they are if the local clock has been set
// back, so that a time is earlier than the last one by more than a late reading can be.
func (g *loop) clockSetBack(nowUsec uint64) {
	back := -elapsed(g.atUsec, nowUsec)
	if back <= setBack {
		return
	}
	by := g.atUsec - nowUsec
	for i, c := range g.now.courses {
		moved := make(course, len(c)) // readers may have the old one
		for k, p := range c {
			p.from -= by
			moved[k] = p
		}
		g.now.courses[i] = moved
	}
	g.atUsec = nowUsec
	g.role.setBack(by)
	g.publish()
	g.report(Event{Kind: EventClockSet, By: -back, Last: -1})
}

// plan applies the policies and returns how many ticks to run.
func (g *loop) plan(gap time.Duration, single bool) int {
	next := g.reads.nextTick()
	last := g.now.rate.Ticks(g.latest(predicted))
	if single && next == last+1 {
		last = next
	}
	due := max(last-next+1, 0)
	most := Tick(g.cfg.MaxTicks)
	stall := g.cfg.StallThreshold
	keep := due
	e := Event{Kind: EventSkipped}
	switch {
	case stall > 0 && gap > stall:
		g.stats.Stalls++
		keep = min(due, 1)
		e = Event{Kind: EventStalled, By: gap}
	case g.cfg.CatchUp == CatchUpRunAll:
		most = runAllMost
		keep = min(due, most)
	case due <= most:
	case g.cfg.CatchUp == CatchUpJump:
		keep = 1
	case g.cfg.CatchUp == CatchUpDrop || g.now.rate.Ticks(g.frames.usual()) >= most:
		keep = most // frames that are too long make up for nothing
	case stall > 0:
		keep = max(min(due, g.now.rate.Ticks(stall)), most)
	}
	if keep < due || e.Kind == EventStalled {
		g.renumber(next+due-keep, e)
	}
	return int(min(keep, most))
}

// firstTick returns the first tick that starts at predicted time or later.
func (g *loop) firstTick() Tick { return g.now.rate.Ticks(g.latest(predicted)-1) + 1 }

// step reports that predicted time was set from old to what it is, and goes on with the tick that
// is running now, or after it if that is run already. With all, the ticks between are run, if an
// Advance may run so many.
func (g *loop) step(old time.Duration, all bool) {
	g.stats.Steps++
	e := Event{Kind: EventStepped, By: satAdd(g.latest(predicted), -old)}
	next := g.reads.nextTick()
	running := g.now.rate.Ticks(g.latest(predicted))
	switch most := Tick(g.cfg.MaxTicks); {
	case e.By < 0 && running < next-1:
		next = running + 1
	case running > next && !(all && running-next < most):
		next = running
	}
	g.renumber(next, e)
}

// renumber goes on with another tick, and reports in e which are left out for that, or come again.
func (g *loop) renumber(next Tick, e Event) {
	old := g.reads.nextTick()
	g.reads.setNextTick(next)
	e.First = min(old, next)
	e.Last = max(old, next) - 1
	e.Again = next < old
	if !e.Again {
		g.stats.Skipped += uint64(next - old)
	}
	g.report(e)
}

// runTicks runs the ticks that are due, until a handler stops or pauses the loop.
func (g *loop) runTicks(due int, life int64) (ticks int) {
	if due == 0 {
		return 0
	}
	bracket := func(handler func()) {
		if handler != nil && g.life.Load() == life {
			handler()
		}
	}
	bracket(g.on.BeforeLoop)
	for ; ticks < due; ticks++ {
		t, ok := g.take(life)
		if !ok {
			break
		}
		call(g, life, g.on.BeforeTick, t)
		call(g, life, g.on.Tick, t)
		call(g, life, g.on.AfterTick, t)
	}
	bracket(g.on.AfterLoop)
	return ticks
}

// call calls a handler, unless its life is over.
func call[T any](l *loop, life int64, handler func(T), arg T) {
	if handler != nil && l.life.Load() == life {
		handler(arg)
	}
}

// take takes the next tick, unless a handler has stopped or paused the loop.
func (g *loop) take(life int64) (Update, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.life.Load() != life || !g.now.known || g.now.paused {
		return Update{}, false
	}
	r := g.now.rate
	n := g.reads.nextTick()
	g.reads.setNextTick(n + 1)
	g.stats.Ticks++
	start := r.At(n, 0)
	back := g.latest(predicted) - r.Duration(n)
	g.role.ran(n)
	clocks := Clocks{Time{r, g.pinned(shared, back)}, Time{r, g.pinned(server, back)}, start}
	return Update{n, start.length(), clocks}, true
}

// pinned returns what a clock read when predicted time was back earlier: within the
// last frame both moved evenly, and before it they are taken to go alike, but not so
// that a tick would see less than the one before. (The Network Time System takes them
// to go alike always, and in whole ticks.)
func (g *loop) pinned(i int, back time.Duration) time.Duration {
	if frame := g.moved[predicted]; 0 < back && back < frame {
		back = time.Duration(float64(g.moved[i]) * (float64(back) / float64(frame)))
	}
	g.pins[i] = max(g.latest(i)-back, g.pins[i])
	return g.pins[i]
}

// WaitSynced waits until a client is synchronized with its server, a server until it
// is started, or returns the error of ctx. Another goroutine must advance it: a handler must not
// call it, since it would wait for itself.
func (g *loop) WaitSynced(ctx context.Context) error {
	g.mu.Lock()
	done := g.isSynced
	g.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stats returns the counts.
func (g *loop) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.Refused = g.reads.refused.Load()
	s.OldEpoch = g.reads.oldEpoch.Load()
	s.Early = g.reads.early.Load()
	if g.now.known {
		s.Debt = max(g.now.rate.Ticks(g.latest(predicted))-g.reads.nextTick()+1, 0)
	}
	return s
}

// debt returns how many ticks are due at nowUsec beyond those of a frame as most are.
func (g *loop) debt(nowUsec uint64) Tick {
	if !g.now.known || g.now.paused {
		return 0
	}
	due := g.now.rate.Ticks(g.now.read(predicted, nowUsec)) - g.reads.nextTick() + 1
	frame := g.now.rate.Ticks(g.frames.median()) + 1
	return max(due-frame, 0)
}

// reach moves the last input to nowUsec, unless that is past.
func (g *loop) reach(nowUsec uint64) {
	if int64(nowUsec-g.atUsec) <= 0 {
		return
	}
	for i := range g.moved {
		g.moved[i] = g.now.read(i, nowUsec) - g.latest(i)
	}
	g.atUsec = nowUsec
}

// latest returns what clock i reads at the last input.
func (g *loop) latest(i int) time.Duration { return g.now.read(i, g.atUsec) }

// set sets clock i, which makes the last frame useless for pinned.
func (g *loop) set(i int, t time.Duration, p Pace) {
	g.pins[i] = math.MinInt64
	g.now.courses[i].set(piece{from: g.atUsec, base: t, pace: p, still: g.now.paused})
	g.moved = [3]time.Duration{}
}

// drive lets the provider set the pace, or the clocks. The targets in steering are of the last
// input.
func (g *loop) drive() {
	s := &g.steering
	for i, c := range s.clocks() {
		c.At = g.now.read(i, g.atUsec+readerMargin)
		c.Target += g.marginAt(c.Pace)
	}
	ok := g.cfg.Provider.AdvanceTime(s)
	old := g.latest(predicted)
	set := false
	for i, c := range s.clocks() {
		p := c.Pace.limited()
		was := g.now.read(i, g.atUsec+readerMargin)
		at := within(satAdd(c.At, -g.marginAt(p)))
		// With NeverBack no reader that is ahead may see it go back either.
		if ok || c.At == was || g.neverBack && at < was {
			g.now.courses[i].change(g.atUsec, p)
		} else {
			g.set(i, at, p)
			set = true
		}
	}
	if set {
		g.step(old, s.PredictedTime.Late)
	}
}

// marginAt returns how far a clock goes in the reader margin.
func (*loop) marginAt(p Pace) time.Duration {
	return time.Duration(readerMargin*1000 + parts(readerMargin*1000, p.SkewPPB))
}

func (g *loop) sync() {
	g.synced = true
	close(g.isSynced)
	g.report(Event{Kind: EventSynced, Epoch: g.now.epoch})
}

func (g *loop) unsync() {
	if g.synced {
		g.synced = false
		g.isSynced = make(chan struct{})
	}
}

func (g *loop) report(e Event) {
	e.AtUsec = g.atUsec
	g.events = append(g.events, e)
}

func (g *loop) publish() {
	s := g.now
	g.reads.snap.Store(&s)
}

// hear notes that the other side is heard, and reports it if it was silent.
func (g *loop) hear(v *vitals, peer, nowUsec uint64) {
	if v.silent && len(g.events) < maxEvents-2 {
		g.report(Event{
			Kind: EventHeard,
			By:   max(elapsed(v.atUsec, nowUsec), 0),
			Peer: peer,
			Last: -1,
		})
		v.silent = false
	}
	if !v.known || int64(nowUsec-v.atUsec) > 0 {
		v.known = true
		v.atUsec = nowUsec
	}
}

// watch reports the other side if it has fallen silent, unless too many events wait.
func (g *loop) watch(v *vitals, peer uint64) {
	age := elapsed(v.atUsec, g.atUsec)
	if v.known && !v.silent && age > silence && len(g.events) < maxEvents {
		v.silent = true
		g.report(Event{Kind: EventSilent, By: age, Peer: peer, Last: -1})
	}
}
