// SPDX-License-Identifier: BSD-3-Clause

package playout

import "fmt"

// State says whether a stream is heard, and if not, why.
type State int

// A Buffer is in one of the first seven, a Card in any.
const (
	Waiting     State = iota // nothing has arrived yet, or nothing is due yet
	Playing                  // all is well
	PlayingLate              // frames take longer than Most or Latency allow, and are played late
	TooLate                  // all that arrives comes too late, and is dropped
	TooEarly                 // all that arrives was captured in the future: a clock is wrong
	NotAsked                 // frames arrive in time, and nobody asks for them
	Silent                   // nothing has arrived for a second

	Unplugged // there is no sound card: see Card.Stop
	Stalled   // the sound card stands still
)

var stateNames = [...]string{
	Waiting:     "waiting for the first frame",
	Playing:     "playing",
	PlayingLate: "playing late: the path takes longer than the latency may be",
	TooLate:     "silent: all comes too late",
	TooEarly:    "silent: all seems to come from the future",
	NotAsked:    "silent: nobody asks for what has arrived",
	Silent:      "silent: nothing arrives",
	Unplugged:   "silent: the sound card is unplugged",
	Stalled:     "silent: the sound card stands still",
}

// String returns what to show.
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return stateNames[s]
}

// recentUsec is how far back a state looks, up to twice.
const recentUsec = 1_000_000

// fates are what became of frames.
type fates struct{ taken, late, early, played, missed int }

// recent is what became of the last frames.
type recent struct {
	now, before fates
	since       uint64
	begun       bool
}

// turn forgets what is old.
func (r *recent) turn(nowUsec uint64) {
	passed := int64(nowUsec - r.since)
	switch {
	case !r.begun || passed >= 2*recentUsec || passed < -recentUsec:
		*r = recent{since: nowUsec, begun: true}
	case passed >= recentUsec:
		r.before = r.now
		r.now = fates{}
		r.since += recentUsec
	}
}

func (r *recent) count(err error, nowUsec uint64) {
	r.turn(nowUsec)
	switch err {
	case nil:
		r.now.taken++
	case ErrLate:
		r.now.late++
	case ErrEarly:
		r.now.early++
	}
}

func (r *recent) plays(nowUsec uint64) {
	r.turn(nowUsec)
	r.now.played++
}

func (r *recent) missed(nowUsec uint64) {
	r.turn(nowUsec)
	r.now.missed++
}

// State says what became of the frames of the last second or two.
func (b *Buffer) State(nowUsec uint64) State {
	b.group.mu.Lock()
	defer b.group.mu.Unlock()
	return b.state(nowUsec)
}

func (b *Buffer) state(nowUsec uint64) State {
	begun := b.recent.begun
	b.recent.turn(nowUsec)
	now := b.recent.now
	before := b.recent.before
	late := now.late + before.late
	early := now.early + before.early
	played := now.played + before.played
	missed := now.missed + before.missed
	taken := now.taken + before.taken
	switch {
	case !begun:
		return Waiting
	case played > 0 && b.needs() > b.conf.Most.Microseconds():
		return PlayingLate
	case played > 0:
		return Playing
	case taken+late+early+missed == 0:
		return Silent
	case late > missed+early:
		return TooLate
	case early > missed+late:
		return TooEarly
	case missed > 0 || b.overdue(nowUsec):
		return NotAsked
	}
	return Waiting // for a long latency to pass
}

// overdue reports whether a frame should have been asked for.
func (b *Buffer) overdue(nowUsec uint64) bool {
	return len(b.frames) > 0 &&
		b.over(b.frames[0].captured, nowUsec) > b.conf.Overdue.Microseconds()
}
