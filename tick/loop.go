// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"context"
	"math"
	"math/bits"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxEvents bounds the events that wait for an Advance because of messages. Those of
// the Advance itself have room besides.
const maxEvents = 1024

// loop is what a Server and a Client have in common: the clocks, and the ticks that
// are run by them.
type loop struct {
	role role
	cfg  Config
	on   Handlers

	snap                     atomic.Pointer[snapshot] // what readers see; nil while the clocks are not known
	next                     atomic.Int64             // the tick to run next
	refused, oldEpoch, early atomic.Uint64            // see Stats

	life atomic.Int64 // how many Stops there were: a Run and its handlers end with their life

	mu       sync.Mutex       // guards what follows; not held while handlers run
	now      snapshot         // what readers see next
	atUsec   uint64           // the last input: Start, Advance, Pause or Resume
	at       [3]time.Duration // the clocks then
	moved    [3]time.Duration // by how much they moved since the input before, steps apart
	pins     [3]time.Duration // what the last tick saw of them
	started  bool
	inited   bool // the clocks are known
	busy     bool // Advance is running
	synced   bool
	isSynced chan struct{} // closed when synced
	events   []Event       // not yet reported
	stats    Stats
}

// role is what a Server and a Client do differently. The lock is held.
type role interface {
	begin()              // at Start
	end()                // at Stop: forget the other side
	steer() (ready bool) // at Advance: set the pace until the next; ready is false while the clocks are not known
	paused()             // at Pause and Resume
	ran(n Tick)          // tick n runs
}

func (l *loop) init(r role, cfg Config, on Handlers) {
	l.role, l.cfg, l.on = r, cfg, on
	l.isSynced = make(chan struct{})
	l.now.rate = cfg.Rate.orDefault()
}

// Start starts the clocks and the ticks: on a server at once, at FirstTick, on a
// client when the first Welcome and the remote clock are there; the first tick is
// then the next one that begins, whatever went before. It does nothing if started.
func (l *loop) Start(nowUsec uint64) { l.start(nowUsec) }

func (l *loop) start(nowUsec uint64) (life int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started {
		return l.life.Load()
	}
	l.started, l.stats, l.atUsec = true, Stats{}, nowUsec
	l.refused.Store(0)
	l.oldEpoch.Store(0)
	l.early.Store(0)
	l.role.begin()
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
	l.started, l.inited, l.events = false, false, nil
	l.now = snapshot{rate: l.cfg.Rate.orDefault()}
	l.unsync()
	l.snap.Store(nil)
	l.role.end()
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
	if l.inited && l.now.paused != paused {
		l.reach(nowUsec)
		l.setPaused(paused)
		l.role.paused()
		l.publish()
	}
}

func (l *loop) setPaused(paused bool) {
	l.now.paused = paused
	for i := range l.now.courses {
		c := &l.now.courses[i]
		c.turn(piece{from: l.atUsec + grace, skewPPB: c.last().skewPPB, still: paused})
	}
}

// WaitSynced waits until a client is synchronized with its server, a server until it
// is started, or returns the error of ctx. Another goroutine must advance it: in a handler,
// of whatever Server or Client, it would wait for itself, and returns an error at once.
func (l *loop) WaitSynced(ctx context.Context) error {
	l.mu.Lock()
	synced, done := l.synced, l.isSynced
	l.mu.Unlock()
	if !synced && inHandler() {
		return errHandler
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// inHandler reports whether the caller was called by a handler, on its goroutine.
func inHandler() bool {
	var pcs [32]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		if n == 0 {
			return false
		}
		frames := runtime.CallersFrames(pcs[:n])
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if strings.HasSuffix(f.Function, "/tick.(*loop).advance") {
				return true
			}
		}
	}
}

// Snapshot returns the three clocks at one instant, localUsec of the local clock. ok is
// false while they are not known. It takes no lock and does not allocate.
//
// A reading from 20 ms before the last Advance, Pause or Resume to 20 ms after it is final: no
// later one changes it, steps apart. An earlier time is answered by the pace of that time,
// extrapolated back. So for increasing localUsec, at most 20 ms ahead of the next of these
// calls, a clock goes back only where EventStepped, EventEpochChanged or a Start is between.
func (l *loop) Snapshot(localUsec uint64) (c Clocks, ok bool) {
	s := l.snap.Load()
	if s == nil {
		return Clocks{}, false
	}
	return s.clocks(localUsec), true
}

// Shared returns the shared clock at localUsec, like Snapshot.
func (l *loop) SharedTime(localUsec uint64) (t Time, ok bool) { return l.clock(shared, localUsec) }

// Server returns the server clock at localUsec, like Snapshot.
func (l *loop) ServerTime(localUsec uint64) (t Time, ok bool) { return l.clock(server, localUsec) }

// Predicted returns the predicted clock at localUsec, like Snapshot.
func (l *loop) PredictedTime(localUsec uint64) (t Time, ok bool) {
	return l.clock(predicted, localUsec)
}

func (l *loop) clock(i int, localUsec uint64) (Time, bool) {
	s := l.snap.Load()
	if s == nil {
		return Time{}, false
	}
	return s.rate.time(s.read(i, localUsec)), true
}

// Epoch returns the epoch of the game time, with which messages are to be marked. ok
// is false while the clocks are not known.
func (l *loop) Epoch() (epoch uint64, ok bool) {
	s := l.snap.Load()
	if s == nil {
		return 0, false
	}
	return s.epoch, true
}

// Fraction returns how far predicted time is from the start of the last tick that ran
// to the start of the next, in [0, 1], for interpolation between their results.
func (l *loop) Fraction(localUsec uint64) float64 {
	s := l.snap.Load()
	if s == nil {
		return 0
	}
	last := s.rate.At(Tick(l.next.Load())-1, 0)
	past := s.read(predicted, localUsec) - last.Duration()
	return min(max(float64(past)/float64(last.length()), 0), 1)
}

// Accept reports whether a message about tick n of an epoch deserves attention: the
// epoch is the present one, and n starts at most Config.Past before the server clock and
// Config.Future after the predicted clock. What it refuses is counted.
func (l *loop) Accept(epoch uint64, n Tick, nowUsec uint64) bool {
	return l.accept(l.snap.Load(), epoch, n, nowUsec)
}

func (l *loop) accept(s *snapshot, epoch uint64, n Tick, nowUsec uint64) bool {
	switch {
	case s == nil:
		l.early.Add(1)
		return false
	case epoch != s.epoch:
		l.oldEpoch.Add(1)
		return false
	}
	past, future := l.cfg.Past, l.cfg.Future
	if past == 0 {
		past = satAdd(defaultPast, s.rate.Duration(windowTicks))
	}
	if future == 0 {
		future = satAdd(defaultFuture, s.rate.Duration(windowTicks))
	}
	at := s.rate.Duration(n)
	if at < satAdd(s.read(server, nowUsec), -past) || at > satAdd(s.read(predicted, nowUsec), future) {
		l.refused.Add(1)
		return false
	}
	return true
}

// Stats returns the counts.
func (l *loop) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Refused, s.OldEpoch, s.Early = l.refused.Load(), l.oldEpoch.Load(), l.early.Load()
	if l.inited {
		s.Debt = max(l.now.rate.Ticks(l.at[predicted])-Tick(l.next.Load())+1, 0)
	}
	return s
}

// Advance advances the clocks to nowUsec and runs the ticks that have become due:
// those that start at or before predicted time, each once and in order, see
// Config.MaxTicks. It returns how many. Call it in every frame. It does nothing while
// another Advance runs, as when a handler calls it.
func (l *loop) Advance(nowUsec uint64) (ticks int) {
	ticks, _ = l.advance(nowUsec, false)
	return ticks
}

// Step is Advance for a physics engine that steps at the tick rate by a clock of its
// own: call it in every physics step instead. It runs one tick, also if that is early
// by less than a tick; none if it is earlier; and if the loop is a tick or more
// behind, those ticks too.
func (l *loop) AdvanceOne(nowUsec uint64) (ticks int) {
	ticks, _ = l.advance(nowUsec, true)
	return ticks
}

// advance is Advance or, with a single tick if possible, Step. ok is false if another
// advance is running.
func (l *loop) advance(nowUsec uint64, single bool) (ticks int, ok bool) {
	l.mu.Lock()
	if l.busy {
		l.mu.Unlock()
		return 0, false
	}
	l.busy = true
	events := l.events
	l.events = nil
	due, life := l.due(nowUsec, single), l.life.Load()
	events, l.events = append(events, l.events...), nil
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.busy = false
		l.mu.Unlock()
	}()
	for _, e := range events {
		if e.Kind == EventRateMismatch && l.cfg.OnMismatch == MismatchWarn && l.life.Load() == life {
			l.cfg.Logf("tick: %v", e)
		}
		call(l, life, l.on.Event, e)
	}
	return l.runTicks(due, life), true
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
	for ticks < due {
		s, ok := l.take(life)
		if !ok {
			break
		}
		ticks++
		call(l, life, l.on.BeforeTick, s)
		call(l, life, l.on.Tick, s)
		call(l, life, l.on.AfterTick, s)
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
func (l *loop) take(life int64) (Info, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Load() != life || !l.inited || l.now.paused {
		return Info{}, false
	}
	r, n := l.now.rate, Tick(l.next.Add(1)-1)
	l.stats.Ticks++
	start := r.At(n, 0)
	back := l.at[predicted] - r.Duration(n)
	l.role.ran(n)
	return Info{Tick: n, Delta: start.length(), Clocks: Clocks{
		SharedTime:    r.time(l.pinned(shared, back)),
		ServerTime:    r.time(l.pinned(server, back)),
		PredictedTime: start,
	}}, true
}

// pinned returns what a clock read when predicted time was back earlier: within the
// last frame both moved evenly, and before it they are taken to go alike, but not so
// that a tick would see less than the one before. (The Network Time System takes them
// to go alike always, and in whole ticks.)
func (l *loop) pinned(i int, back time.Duration) time.Duration {
	frame := l.moved[predicted]
	if 0 < back && back < frame {
		back = mulDiv(back, l.moved[i], frame)
	}
	l.pins[i] = max(l.at[i]-back, l.pins[i])
	return l.pins[i]
}

// due advances the clocks and returns how many ticks to run.
func (l *loop) due(nowUsec uint64, single bool) int {
	if !l.started {
		return 0
	}
	if int64(nowUsec-l.atUsec) < 0 {
		l.stats.Backwards++
		nowUsec = l.atUsec
	}
	gap := time.Duration(min(nowUsec-l.atUsec, maxAhead)) * time.Microsecond
	if !l.inited {
		gap = 0 // waiting for the first synchronization is not a stall
	}
	l.reach(nowUsec)
	if l.now.paused || !l.role.steer() {
		return 0
	}
	l.publish()
	if l.now.paused { // the role has just found a pause
		return 0
	}
	return l.plan(gap, single)
}

// reach moves the last input to nowUsec, unless that is past.
func (l *loop) reach(nowUsec uint64) {
	if int64(nowUsec-l.atUsec) <= 0 {
		return
	}
	l.atUsec = nowUsec
	for i := range l.at {
		c, was := &l.now.courses[i], l.at[i]
		l.at[i] = c.read(nowUsec)
		l.moved[i] = l.at[i] - was
		if len(*c) > 0 && int64(nowUsec-c.last().from) > rebase {
			c.turn(piece{from: nowUsec, skewPPB: c.last().skewPPB, still: c.last().still})
		}
	}
}

// set sets clock i, which makes the last frame useless for pinned.
func (l *loop) set(i int, t time.Duration, skewPPB int64) {
	l.at[i], l.pins[i] = cut(t), math.MinInt64
	if !l.inited {
		l.now.courses[i] = nil // the past was another time
	}
	l.now.courses[i].set(piece{from: l.atUsec, base: l.at[i], skewPPB: skewPPB})
	l.moved = [3]time.Duration{}
}

// step reports that predicted time was set from old to what it is, and goes on with
// the tick that is running now, or after it if that is run already.
func (l *loop) step(old time.Duration) {
	e := Event{Kind: EventStepped, By: l.at[predicted] - old, First: Tick(l.next.Load())}
	running := l.now.rate.Ticks(l.at[predicted])
	e.Last = running - 1
	l.stats.Steps++
	if e.By < 0 && running < e.First-1 {
		e.First, e.Last, e.Again = running+1, e.First-1, true
		l.setNext(e.First)
	} else if e.First <= running {
		l.stats.Skipped += uint64(running - e.First)
		l.setNext(running)
	}
	l.report(e)
}

// plan applies the policies and returns how many ticks to run.
func (l *loop) plan(gap time.Duration, single bool) int {
	next := Tick(l.next.Load())
	last := l.now.rate.Ticks(l.at[predicted])
	if single && next == last+1 {
		last = next
	}
	due := int64(max(last-next+1, 0))
	stall := orDefault(l.cfg.StallThreshold, defaultStall)
	if stall > 0 && gap > stall {
		l.stats.Stalls++
		l.skip(max(due-1, 0), Event{Kind: EventStalled, By: gap})
		return int(min(due, 1))
	}
	most := int64(orDefault(l.cfg.MaxTicks, defaultMaxTicks))
	if due <= most || l.cfg.CatchUp == CatchUpRunAll {
		return int(min(due, math.MaxInt32))
	}
	keep := most
	switch l.cfg.CatchUp {
	case CatchUpJump:
		keep = 1
	case CatchUpKeep:
		if keep = due; stall > 0 {
			keep = max(min(due, int64(l.now.rate.Ticks(stall))), most)
		}
	}
	if keep < due {
		l.skip(due-keep, Event{Kind: EventSkipped})
	}
	return int(min(keep, most))
}

// skip skips n ticks and reports them with e.
func (l *loop) skip(n int64, e Event) {
	next := Tick(l.next.Load())
	e.First, e.Last = next, next+Tick(n)-1
	l.stats.Skipped += uint64(n)
	l.setNext(next + Tick(n))
	l.report(e)
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

// silence is after how long the other side is taken to be silent: it should have announced itself,
// or sent inputs, three times.
const silence = 3 * time.Second

// vitals is when the other side was heard last.
type vitals struct {
	known  bool
	silent bool // and that is reported
	atUsec uint64
}

// age returns how long ago that was, at the last input.
func (v *vitals) age(nowUsec uint64) time.Duration {
	return time.Duration(max(min(int64(nowUsec-v.atUsec), maxAhead), 0)) * time.Microsecond
}

// hear notes that the other side is heard, and reports it if it was silent.
func (l *loop) hear(v *vitals, peer, nowUsec uint64) {
	if v.silent && len(l.events) < maxEvents-2 {
		l.report(Event{Kind: EventHeard, By: v.age(nowUsec), Peer: peer, Last: -1})
		v.silent = false
	}
	if !v.known || int64(nowUsec-v.atUsec) > 0 {
		v.known, v.atUsec = true, nowUsec
	}
}

// watch reports the other side if it has fallen silent.
func (l *loop) watch(v *vitals, peer uint64) {
	if age := v.age(l.atUsec); v.known && !v.silent && age > silence {
		v.silent = true
		l.report(Event{Kind: EventSilent, By: age, Peer: peer, Last: -1})
	}
}

func (l *loop) setNext(n Tick) { l.next.Store(int64(n)) }

func (l *loop) publish() { s := l.now; l.snap.Store(&s) }

// mulDiv returns a*b/c for 0 <= a <= c and b >= 0.
func mulDiv(a, b, c time.Duration) time.Duration {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c)) // a <= c, so q <= b: no overflow
	return time.Duration(q)
}
