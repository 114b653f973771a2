// SPDX-License-Identifier: BSD-3-Clause

package playout

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

const (
	usualFrame = 20 * time.Millisecond

	// usualPitch is by which part a frame is made shorter or longer at most. Steady notes that
	// are 0.5 % apart sound alike. Where the latency falls faster than that, what it falls by is
	// added.
	usualPitch = 0.005

	// A frame that is off is made right within about settleUsec: the larger that is, the more an
	// error of the card's rate shows. At 300 ppm it is 0.3 ms.
	settleUsec = 1e6

	// A frame is played up to a part in earlyPart of its length too early, rather than after
	// silence.
	earlyPart = 2

	// silencePart is the part of a frame that silence takes where nothing waits: what arrives
	// next should not have to wait for the end of it.
	silencePart = 8

	// A frame should be there when a part in readyPart of Queue waits before the card. If it is
	// not, it may still come: silence is given only when less than a part in dryPart waits.
	// Between them is room for cards that take sound in pieces of 10 ms.
	readyPart = 2
	dryPart   = 4

	// The place of a card is the mean of what was seen in about placeUsec: cards take sound in
	// pieces of some milliseconds, and a busy machine looks late.
	placeUsec = 1e6
	// What is further off than jumpUsec, jumpTimes in a row, is a card that stood still, or a
	// clock.
	jumpUsec  = 30e3
	jumpTimes = 3

	// mostQueued seconds of sound are as much as may wait: more is a number that means something
	// else.
	mostQueued = 3600

	// A card that takes nothing for stallUsec stands still. The longest period of a card is 0.2
	// s.
	stallUsec = 500_000
)

// CardConfig configures a Card.
type CardConfig struct {
	Rate  int           // samples a second
	Frame time.Duration // the length of the sound in a payload; 0: 20 ms
	// Queue is how much sound is kept before the card. Next returns none while more waits, and
	// while no frame is due and enough waits: ask again later. A quarter of Queue should last
	// until then: 40 ms are right where a program asks every 2 ms.
	//
	// In a callback, which the system calls to fill a block, Queue must be 0. Next then always
	// returns some sound, except after Stop: call it until the block is full.
	Queue time.Duration
}

// CardStats counts samples of the card since NewCard, but for Gaps. Inserted and Dropped correct
// the card's rate, frames that came late, and a latency that changes: they do not tell the rate.
type CardStats struct {
	Samples  uint64 // returned by Next
	Inserted uint64 // by which frames were stretched
	Dropped  uint64 // by which frames were shortened
	Silence  uint64 // of Samples, those that are silence
	Gaps     uint64 // how often silence began, also where a frame was late and still played
}

// Sound is the next piece for the card.
type Sound struct {
	// Samples is how many samples the card gets, of each channel. 0: nothing now, ask again soon.
	Samples int
	// Payload is the frame of which they are made, as it was pushed: resample what is in it to
	// so many. nil: silence, or what conceals a frame that was lost.
	Payload []byte
	// CapturedUsec is when the frame was captured.
	CapturedUsec uint64
}

// A Card plays the sound of a Buffer on a sound card, in step with the clock, at whatever rate the
// card really runs. It shortens sound that is late, and stretches sound that is early, by up to
// 0.5 %. After the path has become shorter it is up to 2 %, until the latency is right again.
// Where a frame is missing there is silence of its length, often in pieces of an eighth.
//
// The card's rate need not be known. Next is told how much of what it returned still waits before
// the card, and that says where the card is. The same holds for a clock that is slewed, and for a
// microphone of another rate. What counts is that each frame is heard when it is due.
//
// Next, Stop and Start are for the goroutine that plays. Any goroutine may call State and Stats.
type Card struct {
	buffer  *Buffer
	conf    CardConfig
	plugged bool
	stats   CardStats

	began  uint64  // the first reading: times are counted from it
	seen   uint64  // the last one
	given  int64   // samples since Start
	place  float64 // us after began at which the first of them was heard
	jumps  int     // measurements in a row that are far off
	asks   bool    // Next was called since Start
	moved  uint64  // when the card was seen to have taken something
	played int64   // and how many samples it had taken by then
	rest   float64 // of a sample, of frames that are no whole number of them
	owed   float64 // samples to be dropped, or inserted if negative
	silent bool
}

// NewCard returns a Card that plays the sound of a buffer. A Buffer has at most one Card, and then
// nobody else calls its Pop. The error says what is wrong with the CardConfig.
func NewCard(b *Buffer, c CardConfig) (*Card, error) {
	c.Frame = cmp.Or(c.Frame, usualFrame)
	if err := c.check(b); err != nil {
		return nil, err
	}
	return &Card{buffer: b, conf: c, plugged: true}, nil
}

// check refuses what cannot work.
func (c *CardConfig) check(b *Buffer) error {
	b.group.mu.Lock()
	defer b.group.mu.Unlock()
	ahead := c.Queue / readyPart
	room := b.conf.Most - b.conf.Output
	switch {
	case c.Rate < 1000 || c.Rate > 1_000_000:
		return fmt.Errorf("playout: Rate %d: must be from 1,000 to 1,000,000", c.Rate)
	case c.Frame < time.Millisecond || c.Frame > time.Second:
		return fmt.Errorf("playout: frames of %v: must be from 1 ms to 1 s", c.Frame)
	case c.Queue < 0 || c.Queue > time.Second:
		return fmt.Errorf("playout: Queue %v: must be from 0 to 1 s", c.Queue)
	case b.conf.DropLate && ahead >= room:
		return fmt.Errorf("playout: Queue %v, and %v until it must be heard: all would be dropped",
			c.Queue, room)
	}
	return nil
}

// Next returns the next sound for the card. queued is how many samples of what it returned before
// have not been heard at nowUsec: what the caller keeps of a frame, and what the device holds or is
// playing. An error of queued is an error of Latency. A delay that the system does not report, such
// as that of Bluetooth, is Config.Output of the buffer. The payload is appended to dst.
func (c *Card) Next(dst []byte, nowUsec uint64, queued int) Sound {
	c.buffer.group.mu.Lock()
	defer c.buffer.group.mu.Unlock()
	if !c.plugged {
		return Sound{}
	}
	c.buffer.followBack(nowUsec, c.buffer.conf.Overdue.Microseconds())
	most := mostQueued * int64(c.conf.Rate)
	c.measure(nowUsec, min(max(int64(queued), 0), most))
	if c.conf.Queue > 0 && queued >= c.samples(c.conf.Queue) {
		return Sound{}
	}
	ahead := c.ahead(nowUsec)
	ready := ahead
	if c.conf.Queue > 0 {
		ready = min(ahead, float64(c.conf.Queue.Microseconds())/readyPart)
	}
	c.buffer.ahead.add(int64(ready), nowUsec)
	early := c.conf.Frame.Microseconds() / earlyPart
	f, over, ok := c.buffer.pop(nowUsec, int64(ahead), early)
	if !ok && c.conf.Queue > 0 && queued > c.samples(c.conf.Queue)/dryPart {
		return Sound{}
	}
	if !ok {
		return c.silence(over)
	}
	c.silent = false
	samples := c.fit(float64(over))
	c.give(samples)
	return Sound{samples, append(dst, f.payload...), f.captured}
}

// ahead returns how many us after now what is given next is heard, but for Config.Output.
func (c *Card) ahead(nowUsec uint64) float64 {
	return max(c.place+c.usec(c.given)-float64(int64(nowUsec-c.began)), 0)
}

// usec returns how long samples take, nominally.
func (c *Card) usec(samples int64) float64 { return float64(samples) / float64(c.conf.Rate) * 1e6 }

// samples returns how many samples take so long.
func (c *Card) samples(d time.Duration) int { return int(d.Seconds() * float64(c.conf.Rate)) }

// measure takes how many samples wait before the card.
func (c *Card) measure(nowUsec uint64, queued int64) {
	if !c.asks {
		c.asks = true
		c.began = nowUsec
		c.seen = nowUsec
		c.moved = nowUsec
		c.place = c.usec(queued)
	}
	played := c.given - queued
	if played != c.played || queued == 0 {
		c.played = played
		c.moved = nowUsec
	}
	passed := max(float64(int64(nowUsec-c.seen)), 0)
	c.seen = nowUsec
	off := float64(int64(nowUsec-c.began)) - c.usec(played) - c.place
	if math.Abs(off) <= jumpUsec {
		c.jumps = 0
		c.place += off * -math.Expm1(-passed/placeUsec)
		return
	}
	c.jumps++
	if c.jumps >= jumpTimes {
		c.jumps = 0
		c.place += off
	}
}

// silence returns silence until the next frame is due, which is over us late if one waits, or for
// a short while. over is below 0 if a frame waits.
func (c *Card) silence(over int64) Sound {
	length := float64(c.samples(c.conf.Frame))
	samples := length / silencePart
	if over < 0 {
		samples = min(float64(-over)*float64(c.conf.Rate)/1e6, length)
	}
	if !c.silent {
		c.silent = true
		c.stats.Gaps++
	}
	c.owed = 0
	whole := max(int(samples), 1)
	c.give(whole)
	c.stats.Silence += uint64(whole)
	return Sound{Samples: whole}
}

// fit returns how many samples to make of a frame that is over us late.
func (c *Card) fit(over float64) int {
	whole := c.conf.Frame.Seconds()*float64(c.conf.Rate) + c.rest
	length := math.Floor(whole)
	c.rest = whole - length
	falls := c.buffer.group.falls
	limit := usualPitch
	if falls > usualPitch {
		limit += falls
	}
	pitch := max(min(falls+over/settleUsec, limit), -limit)
	// Less than a sample is kept for later. It may be more than limit allows only where a frame
	// is so short that this is less than a sample.
	most := max(limit*length, 1)
	c.owed = max(min(c.owed+pitch*length, most), -most)
	drop := math.Trunc(c.owed)
	c.owed -= drop
	if drop > 0 {
		c.stats.Dropped += uint64(drop)
	} else {
		c.stats.Inserted += uint64(-drop)
	}
	return int(length - drop)
}

// give counts samples that the card gets.
func (c *Card) give(samples int) {
	c.given += int64(samples)
	c.stats.Samples += uint64(samples)
}

// Stop says that the card is gone, as when it was unplugged: Next returns nothing until Start.
// Frames still arrive, and those that become too old are dropped.
func (c *Card) Stop() {
	c.buffer.group.mu.Lock()
	defer c.buffer.group.mu.Unlock()
	c.plugged = false
}

// Start says that there is a card again, of rate samples a second, which may differ from the rate
// before. What was written before no longer counts. The error says that there is no such rate.
func (c *Card) Start(rate int) error {
	changed := c.conf
	changed.Rate = rate
	fresh, err := NewCard(c.buffer, changed)
	if err != nil {
		return err
	}
	c.buffer.group.mu.Lock()
	defer c.buffer.group.mu.Unlock()
	fresh.stats = c.stats
	*c = *fresh
	return nil
}

// State returns Unplugged or Stalled if the card takes nothing, and otherwise the State of the
// buffer.
func (c *Card) State(nowUsec uint64) State {
	c.buffer.group.mu.Lock()
	defer c.buffer.group.mu.Unlock()
	stalled := int64(nowUsec-c.moved) > stallUsec || int64(nowUsec-c.seen) > stallUsec
	switch {
	case !c.plugged:
		return Unplugged
	case c.asks && stalled:
		return Stalled
	}
	return c.buffer.state(nowUsec)
}

// Stats returns the counts.
func (c *Card) Stats() CardStats {
	c.buffer.group.mu.Lock()
	defer c.buffer.group.mu.Unlock()
	return c.stats
}
