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

// loop is what a Server and a Client have in common: a life from Start to Stop, and the clocks.
// advance.go has its ticks.
type loop struct {
	role      role
	cfg       Config
	on        Handlers
	neverBack bool

	// What readers use, without a lock: see readers.go.
	snap                     atomic.Pointer[snapshot]
	next                     atomic.Int64  // the tick to run next
	refused, oldEpoch, early atomic.Uint64 // see Stats

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

func (l *loop) init(r role, cfg Config, on Handlers) {
	l.role, l.cfg, l.on = r, cfg, on
	l.isSynced = make(chan struct{})
	l.now.rate = cfg.Rate.orDefault()
	l.snap.Store(&snapshot{})
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
		l.refused.Store(0)
		l.oldEpoch.Store(0)
		l.early.Store(0)
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
	l.snap.Store(&snapshot{})
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
		c.turn(piece{from: l.atUsec + readerMargin, pace: Pace{SkewPPB: c.last().pace.SkewPPB}, still: paused})
	}
	l.publish()
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
	s.Refused, s.OldEpoch, s.Early = l.refused.Load(), l.oldEpoch.Load(), l.early.Load()
	if l.now.known {
		s.Debt = max(l.now.rate.Ticks(l.latest(predicted))-l.nextTick()+1, 0)
	}
	return s
}

// debt returns how many ticks are due at nowUsec beyond those of a frame as most are.
func (l *loop) debt(nowUsec uint64) Tick {
	if !l.now.known || l.now.paused {
		return 0
	}
	due := l.now.rate.Ticks(l.now.read(predicted, nowUsec)) - l.nextTick() + 1
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

func (l *loop) publish() { s := l.now; l.snap.Store(&s) }
