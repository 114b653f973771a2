// SPDX-License-Identifier: BSD-3-Clause

// Package playout plays what was captured elsewhere a fixed time after it was captured: frames
// of sound, positions, camera pictures. These files are complete: copy them. They need the
// standard library only, start no goroutine and read no clock.
//
// All times are readings of the clock of the end that plays, in microseconds: link.ReadEvent makes
// them of what link.AppendEvent wrote where the frame was captured. So a difference between the clocks
// neither piles frames up nor runs out of them, and several sources are in step.
package playout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// What Push refuses.
var (
	ErrLate  = errors.New("playout: it should have been played already")
	ErrEarly = errors.New("playout: it was captured in the future") // by more than the latency
	ErrTwice = errors.New("playout: it has come before")
	ErrFull  = errors.New("playout: too much waits")
)

// Config is what New wants. Zero values have the defaults.
//
// A latency by itself is what InTime of the last frames needed. It rises at once, and falls by
// at most 5 ms a second, since what plays then must run 0.5 % faster: a player without a resampler leaves a
// frame out where more than two would wait, as the chat does, or the sound stays late. So one stall of the network is heard
// for a while: Most limits that. In a conversation 200 ms are enough, see docs/USES.md.
type Config struct {
	// Latency is from capture to play: at least the length of a frame, which is captured before it is
	// sent, the way, its jitter, and the error of the clocks. 0: by itself, from the arrivals.
	Latency time.Duration
	Least   time.Duration // by itself: the shortest; 0: 10 ms
	Most    time.Duration // by itself: the longest; 0: 500 ms
	InTime  float64       // by itself: the share of frames that come in time; 0: 0.99
	Overdue time.Duration // how much later than due a frame is still played; 0: 20 ms
	Frames  int           // that wait at most: twice the longest latency over the length of a frame; 0: 64
}

// check puts in the defaults and refuses what cannot be meant, NaN too.
func (c *Config) check() error {
	c.Least = cmp.Or(c.Least, 10*time.Millisecond)
	c.Most = cmp.Or(c.Most, 500*time.Millisecond)
	c.InTime = cmp.Or(c.InTime, 0.99)
	c.Overdue = cmp.Or(c.Overdue, 20*time.Millisecond)
	c.Frames = cmp.Or(c.Frames, 64)
	const longest = 10 * time.Second
	switch {
	case min(c.Latency, c.Least, c.Overdue) < 0, max(c.Latency, c.Most, c.Overdue) > longest, c.Least > c.Most:
		return fmt.Errorf("playout: %+v: times must be from 0 to %v, and Least and Most in order", *c, longest)
	case !(c.InTime > 0 && c.InTime < 1), c.Frames < 1, c.Frames > 1<<16:
		return fmt.Errorf("playout: %+v: InTime must be above 0 and below 1, Frames from 1 to %d", *c, 1<<16)
	}
	return nil
}

// setBack is by how much more than a goroutine may be held up between reading the clock and Push, in us,
// that clock must be back to have been set.
const setBack = 1_000_000

// Stats count frames since New.
type Stats struct {
	Played uint64
	Late   uint64 // refused by Push: they came too late, so the latency is too short
	Missed uint64 // Pop was not called in time, or they were dropped: the program is late, see Config.Overdue
	Early  uint64 // captured in the future
	Twice  uint64
	Full   uint64
}

// Buffer is what waits to be played. Any goroutine may use it at any time.
type Buffer struct {
	mu      sync.Mutex
	latency latency
	frames  []frame // sorted by capture
	stats   Stats
	last    uint64 // capture of the last that was played, if any
	asked   uint64 // the time of the last Pop, if any
	steps   uint32 // of the link
	played  bool
	popped  bool
}

type frame struct {
	captured uint64
	payload  []byte
}

// New makes an empty buffer.
func New(c Config) (*Buffer, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Buffer{latency: newLatency(c)}, nil
}

// Push takes a copy of what was captured at capturedUsec. nowUsec is the time now, not that of
// receipt: what a program needs to get here delays the frame, too. The error says why it will not
// be played; without one it will be, if Pop is called in time.
func (b *Buffer) Push(capturedUsec, nowUsec uint64, payload []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.followBack(nowUsec, setBack) // who calls Pop only when Due says would not call it for long
	delay := int64(nowUsec - capturedUsec)
	if delay < -b.latency.now {
		b.stats.Early++
		return ErrEarly
	}
	at, twice := slices.BinarySearchFunc(b.frames, capturedUsec, func(f frame, captured uint64) int {
		return cmp.Compare(int64(f.captured-captured), 0)
	})
	if twice = twice || b.played && capturedUsec == b.last; !twice { // a copy delays nothing
		b.latency.arrived(nowUsec, delay)
	}
	switch {
	case delay > b.latency.now+b.latency.conf.Overdue.Microseconds() || b.played && int64(capturedUsec-b.last) < 0:
		b.stats.Late++ // a newer one was played already
		return ErrLate
	case twice:
		b.stats.Twice++
		return ErrTwice
	case len(b.frames) == b.latency.conf.Frames:
		b.stats.Full++
		return ErrFull
	}
	b.frames = slices.Insert(b.frames, at, frame{capturedUsec, slices.Clone(payload)})
	return nil
}

// Pop appends to dst the next frame that is due at nowUsec. Those that were due more than
// Config.Overdue ago are not played any more, and count as Missed. ok is false if none is due.
// The frame was due at capturedUsec + Latency: nowUsec less that is how late it is played. Only Push
// changes Latency.
//
// If nowUsec lies more than Config.Overdue before that of the last Pop, the clock was set back:
// what waits is shifted by as much, as by Shift.
func (b *Buffer) Pop(dst []byte, nowUsec uint64) (payload []byte, capturedUsec uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.followBack(nowUsec, b.latency.conf.Overdue.Microseconds())
	b.asked, b.popped = nowUsec, true
	for len(b.frames) > 0 {
		f := b.frames[0]
		over := int64(nowUsec-f.captured) - b.latency.now
		if over < 0 {
			break
		}
		b.frames = slices.Delete(b.frames, 0, 1)
		if over <= b.latency.conf.Overdue.Microseconds() {
			b.stats.Played++
			b.last, b.played = f.captured, true
			return append(dst, f.payload...), f.captured, true
		}
		b.stats.Missed++
	}
	return dst, 0, false
}

// followBack moves all that is known with a clock that was set back: by more than usual, us, since the last Pop.
func (b *Buffer) followBack(nowUsec uint64, usual int64) {
	if back := int64(nowUsec - b.asked); b.popped && back < -usual {
		b.shift(back)
		b.asked = nowUsec
	}
}

// Due returns when the next frame is to be played. ok is false if none waits. A frame that
// arrives, or a latency that changes, can make it earlier or later.
func (b *Buffer) Due() (usec uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.frames) == 0 {
		return 0, false
	}
	return b.frames[0].captured + uint64(b.latency.now), true
}

// Shift says that our own clock was set by byUsec microseconds, forward if positive: what waits
// was captured at other readings than it seemed. It is played when it would have been. If the
// clock of the other end was set, call nothing: what waits is right, and what comes is refused as early
// or late until the ends know better, in about 2 s. A latency by itself becomes longer by as much as such frames
// seem to be late, up to Config.Most, and needs a minute or more to fall: unless you call Steps.
func (b *Buffer) Shift(byUsec int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shift(byUsec)
	b.asked += uint64(byUsec)
}

func (b *Buffer) shift(by int64) {
	for i := range b.frames {
		b.frames[i].captured += uint64(by)
	}
	b.last += uint64(by)
	b.latency.last += uint64(by)
}

// Steps takes the Steps of the link's Snapshot, before each Push. If they are others than before, a clock was set: what
// a latency by itself has learned was wrong, and it begins anew.
func (b *Buffer) Steps(steps uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if steps != b.steps {
		b.latency, b.steps = newLatency(b.latency.conf), steps
	}
}

// Drop drops what waits, and counts it as missed. Call it when this machine has slept, if its clock
// stood still meanwhile: nobody knows then how old that is. Without it, what waited is played, so
// late as the sleep was long: a latency of sound. If the other machine slept, call nothing.
func (b *Buffer) Drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats.Missed += uint64(len(b.frames))
	b.frames = nil
}

// Latency returns the time from capture to play. It is as far off as the clocks: by half of the difference
// if one way takes longer than the other, and within ErrorBound.
func (b *Buffer) Latency() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Duration(b.latency.now) * time.Microsecond
}

// Stats returns the counts.
func (b *Buffer) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}
