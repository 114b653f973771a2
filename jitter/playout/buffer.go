// SPDX-License-Identifier: BSD-3-Clause

package playout

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// Push returns these errors.
var (
	ErrLate = errors.New("playout: the frame came too late")
	// ErrEarly says that the time of capture is further ahead of now than the latency.
	ErrEarly  = errors.New("playout: the frame was captured in the future")
	ErrTwice  = errors.New("playout: duplicate frame")
	ErrFull   = errors.New("playout: frames come more often than Config.Interval says")
	ErrClosed = errors.New("playout: closed")
)

const (
	// A time that is setBack or more before the last one shows that the clock was set back. No
	// goroutine is held up for so long between reading the clock and Push.
	setBack = 1_000_000 // us

	// patientShare is the share of frames that may come too late before the latency exceeds Most.
	patientShare = 0.05
)

// Stats counts frames since New.
type Stats struct {
	Played uint64 // returned by Pop or to a Card
	Late   uint64 // came more than Config.Overdue too late, or after a newer one was played
	Missed uint64 // came in time, and nobody asked for them in time; or dropped by Drop
	Early  uint64 // captured in the future
	Twice  uint64 // had come before
	Full   uint64 // found no room
}

// A Buffer holds the frames of one stream that wait to be played. Any goroutine may use it at any
// time.
type Buffer struct {
	group   *Group
	conf    Config
	frames  []frame // sorted by capture
	stats   Stats
	last    uint64 // capture of the last that was played, if any
	asked   uint64 // the time of the last Pop, if any
	arrived uint64 // the time of the last Push, if any
	start   uint64 // from which the estimators count
	steps   uint32 // of the link
	played  bool
	popped  bool
	known   bool // something has arrived
	closed  bool

	usual   need
	patient need // lets patientShare come too late
	ahead   peak // us: how long before it is heard a Card asks for sound
	recent  recent
}

type frame struct {
	captured uint64
	arrived  uint64
	payload  []byte
}

// New makes an empty buffer. The error says what in a Config cannot work.
func New(c Config) (*Buffer, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	b := &Buffer{group: c.Group, conf: c}
	b.usual.estimator.Share = c.Share
	b.patient.estimator.Share = max(c.Share, patientShare)
	if b.group == nil {
		b.group = &Group{}
	}
	if err := b.group.join(b); err != nil {
		return nil, err
	}
	return b, nil
}

// Push takes a copy of what was captured at capturedUsec. nowUsec is the time now, not that of
// receipt: the time that a program needs to get here delays the frame, too. An error says why the
// frame will not be played. Without one it will be, if Pop or a Card asks in time.
func (b *Buffer) Push(capturedUsec, nowUsec uint64, payload []byte) error {
	b.group.mu.Lock()
	defer b.group.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	// A player that calls Pop only when Due says would not do so for long after a clock was set
	// back.
	b.followBack(nowUsec, setBack)
	err := b.push(capturedUsec, nowUsec, payload)
	b.recent.count(err, nowUsec)
	switch err {
	case ErrLate:
		b.stats.Late++
	case ErrEarly:
		b.stats.Early++
	case ErrTwice:
		b.stats.Twice++
	case ErrFull:
		b.stats.Full++
	}
	return err
}

func (b *Buffer) push(capturedUsec, nowUsec uint64, payload []byte) error {
	delay := int64(nowUsec - capturedUsec)
	switch {
	case delay < -b.latency():
		return ErrEarly
	case delay > longest.Microseconds():
		return ErrLate
	}
	if len(b.frames) == b.conf.frames() {
		b.dropOverdue(nowUsec, 0) // nobody has asked for long
	}
	byCapture := func(f frame, captured uint64) int {
		return cmp.Compare(int64(f.captured-captured), 0)
	}
	at, twice := slices.BinarySearchFunc(b.frames, capturedUsec, byCapture)
	if twice || b.played && capturedUsec == b.last {
		return ErrTwice // a copy delays nothing
	}
	b.learn(capturedUsec, nowUsec)
	overtaken := b.played && int64(capturedUsec-b.last) < 0 // a newer one was played already
	if overtaken || b.over(capturedUsec, nowUsec) > b.conf.Overdue.Microseconds() {
		return ErrLate
	}
	if len(b.frames) == b.conf.frames() {
		return ErrFull
	}
	waits := frame{capturedUsec, nowUsec, slices.Clone(payload)}
	b.frames = slices.Insert(b.frames, at, waits)
	return nil
}

// learn lets the estimators and the group take note of a frame that has arrived.
func (b *Buffer) learn(capturedUsec, nowUsec uint64) {
	if !b.known {
		b.known = true
		b.start = capturedUsec
	}
	b.arrived = nowUsec
	captured := span(capturedUsec - b.start)
	now := span(nowUsec - b.start)
	b.usual.add(captured, now, nowUsec)
	b.patient.add(captured, now, nowUsec)
	b.group.advance(nowUsec)
}

// span is a difference of readings, which may be negative.
func span(usec uint64) time.Duration { return time.Duration(int64(usec)) * time.Microsecond }

// needs returns the latency, in us, that this stream needs.
func (b *Buffer) needs() int64 {
	output := b.output()
	least := b.conf.Least.Microseconds()
	most := b.conf.Most.Microseconds()
	needed := min(max(int64(b.usual.usec)+output, least), most)
	if !b.conf.DropLate {
		needed = max(needed, int64(b.patient.usec)+output)
	}
	return min(needed, longest.Microseconds())
}

// output returns how many us before it is heard a frame must be there.
func (b *Buffer) output() int64 { return b.conf.Output.Microseconds() + b.ahead.largest() }

// latency is that of the group, in us.
func (b *Buffer) latency() int64 { return int64(b.group.latency) }

// over returns by how many us a frame is late if it is given out now.
func (b *Buffer) over(capturedUsec, nowUsec uint64) int64 {
	return int64(nowUsec-capturedUsec) + b.conf.Output.Microseconds() - b.latency()
}

// dropOverdue drops what can no longer be played, if it is given out now and heard ahead us
// later.
func (b *Buffer) dropOverdue(nowUsec uint64, ahead int64) {
	latest := b.conf.Overdue.Microseconds() - ahead
	for len(b.frames) > 0 {
		f := b.frames[0]
		if b.over(f.captured, nowUsec) <= latest {
			return
		}
		b.frames = slices.Delete(b.frames, 0, 1)
		if b.over(f.captured, f.arrived) > latest {
			b.stats.Late++
			b.recent.count(ErrLate, nowUsec)
		} else {
			b.stats.Missed++
			b.recent.missed(nowUsec)
		}
	}
}

// Pop appends to dst the next frame that is due at nowUsec. Those that were due more than
// Config.Overdue ago are not played any more, and count as Missed. ok is false if none is due.
//
// If nowUsec lies more than Config.Overdue before that of the last Pop, the clock was set back:
// what waits is shifted by as much, as by Shift.
func (b *Buffer) Pop(dst []byte, nowUsec uint64) (payload []byte, capturedUsec uint64, ok bool) {
	b.group.mu.Lock()
	defer b.group.mu.Unlock()
	b.followBack(nowUsec, b.conf.Overdue.Microseconds())
	f, _, ok := b.pop(nowUsec, 0, 0)
	return append(dst, f.payload...), f.captured, ok
}

// pop takes the next frame that is due ahead us from now, or up to early us after that. It
// returns by how many us the frame is late, also where it is not due yet.
func (b *Buffer) pop(nowUsec uint64, ahead, early int64) (f frame, over int64, ok bool) {
	b.asked = nowUsec
	b.popped = true
	b.group.advance(nowUsec)
	b.dropOverdue(nowUsec, ahead)
	if len(b.frames) == 0 {
		return f, 0, false
	}
	f = b.frames[0]
	over = b.over(f.captured, nowUsec) + ahead
	if over < -early {
		return frame{}, over, false
	}
	b.frames = slices.Delete(b.frames, 0, 1)
	b.stats.Played++
	b.recent.plays(nowUsec)
	b.last = f.captured
	b.played = true
	return f, over, true
}

// followBack moves all that is known along with the clock if that was set back: if nowUsec is more
// than usual us before the last Pop.
func (b *Buffer) followBack(nowUsec uint64, usual int64) {
	if back := int64(nowUsec - b.asked); b.popped && back < -usual {
		b.shift(back)
		b.asked = nowUsec
	}
}

// Due returns when the next frame is to be given out. ok is false if none waits. A frame that
// arrives, or a latency that changes, can make it earlier or later.
func (b *Buffer) Due() (usec uint64, ok bool) {
	b.group.mu.Lock()
	defer b.group.mu.Unlock()
	if len(b.frames) == 0 {
		return 0, false
	}
	return b.frames[0].captured + uint64(b.latency()-b.conf.Output.Microseconds()), true
}

// Shift tells the buffer that the local clock was set by byUsec microseconds, forward if positive.
// The frames that wait are then played when they would have been otherwise. If the clock of the
// other end was set, call only Steps.
func (b *Buffer) Shift(byUsec int64) {
	b.group.mu.Lock()
	defer b.group.mu.Unlock()
	b.shift(byUsec)
	b.asked += uint64(byUsec)
}

func (b *Buffer) shift(by int64) {
	for i := range b.frames {
		b.frames[i].captured += uint64(by)
	}
	b.last += uint64(by)
	b.arrived += uint64(by)
	b.start += uint64(by)
}

// Steps takes the Steps of the link's Snapshot. Call it before each Push. If the count has
// changed, a clock was set, and what was learned of the arrivals since then is wrong. The latency
// then goes back to what it was 5 s ago, and follows new arrivals from there.
func (b *Buffer) Steps(steps uint32) {
	b.group.mu.Lock()
	defer b.group.mu.Unlock()
	if steps == b.steps {
		return
	}
	b.steps = steps
	if was := b.group.trusted(); was > 0 {
		needed := was - float64(b.output())
		b.usual.restart(needed)
		b.patient.restart(min(needed, b.patient.usec))
		b.group.goBack(was)
	}
}

// Drop discards the frames that wait, and counts them as Missed. Call it when clock.SleepWatch
// says that this machine has slept: the frames are older than they seem, and would be played late
// by the length of the sleep. The latency stays as it is. If the other machine slept, there is
// nothing to call.
func (b *Buffer) Drop() {
	b.group.mu.Lock()
	defer b.group.mu.Unlock()
	b.stats.Missed += uint64(len(b.frames))
	b.frames = nil
}

// SetOutput changes Config.Output, as when somebody takes other headphones. The error says why
// New would refuse it.
func (b *Buffer) SetOutput(output time.Duration) error {
	b.group.mu.Lock()
	defer b.group.mu.Unlock()
	changed := b.conf
	changed.Output = output
	if err := changed.check(); err != nil {
		return err
	}
	b.conf.Output = output
	b.group.grow(b.group.needed())
	return nil
}

// Latency returns the time from capture to ear or eye. It is wrong by the error of the clocks:
// half of the difference if one way takes longer than the other, and never more than ErrorBound.
func (b *Buffer) Latency() time.Duration {
	b.group.mu.Lock()
	defer b.group.mu.Unlock()
	return span(uint64(b.latency()))
}

// Stats returns the counts.
func (b *Buffer) Stats() Stats {
	b.group.mu.Lock()
	defer b.group.mu.Unlock()
	return b.stats
}

// Close ends the stream: it leaves its Group, and Push refuses what comes. A Buffer that is alone
// need not be closed.
func (b *Buffer) Close() {
	b.group.mu.Lock()
	defer b.group.mu.Unlock()
	b.closed = true
	b.frames = nil
	b.group.leave(b)
}
