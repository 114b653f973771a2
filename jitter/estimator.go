// SPDX-License-Identifier: BSD-3-Clause

package jitter

import (
	"math"
	"time"
)

const (
	usualShare = 0.01
	leastShare = 0.001
	mostShare  = 0.5

	// Of what was held up until one moment, only what was sent within oneTick counts.
	oneTick = 20 * time.Millisecond
	// A stop is a time in which nothing came. What it held up comes stopLength or more above the
	// level. A stop that begins more than stopAlone after the one before came alone.
	stopLength = 250 * time.Millisecond
	stopAlone  = 5 * time.Second
	// A stop that came alone is felt for stopLasts after the first arrival from it, since a
	// program may take some frames to catch up. One of several is over after oneTick: what comes
	// then may be a longer path.
	stopLasts = 250 * time.Millisecond

	// Late arrivals may have been held up together for batchLasts after the first of them.
	batchLasts = time.Second

	// A late observation lowers the aim by aimGain. What was held up together with it is not in
	// the tail, but late: each of these lowers the aim by heldGain.
	aimGain  = 1. / 45
	heldGain = aimGain / 2
	// The aim has bounds, so that a bad moment is not paid for, nor a good one used up, for
	// minutes.
	aimLeast = 0.1
	aimMost  = 1.3

	// A delay that differs from the first one by more than longest is from another clock.
	longest = 24 * time.Hour
)

// Estimator learns from the arrivals of things how long to wait for them. The zero value knows
// nothing yet and is ready for use. It must not be used by several goroutines at once.
type Estimator struct {
	// Share is how many may come too late, from 0.001 to 0.5. Zero, less, and NaN mean 0.01; other
	// values are cut off at these ends. It may be changed at any time.
	Share float64

	first   time.Duration // the first delay: all delays are counted from it
	level   time.Duration
	wait    time.Duration
	recent  recent
	tail    tail
	aim     float64 // the part of the share asked for that is aimed at; 0 is before the first
	sending sending

	batch batch
	stop  stop

	// The last arrivals, if they were late, are not counted until it is known whether a stop held
	// them up.
	pending [8]uint8      // their bins of the tail
	waiting uint8         // how many these are
	held    uint8         // how many more were held up together with them
	before  time.Duration // the level before the first of them
}

// batch is what may have been held up until one moment: its first arrival.
type batch struct {
	sent, arrived time.Duration
	excess        time.Duration // the longest delay of the batch
	late          bool          // the first one came too late
}

// stop is a time in which nothing came.
type stop struct {
	known bool
	alone bool          // it counts for nothing
	began time.Duration // the first arrival from it
	ended time.Duration // the last arrival that it held up
}

// lasts reports whether a stop is still felt.
func (s *stop) lasts(now time.Duration) bool {
	length := oneTick
	if s.alone {
		length = stopLasts
	}
	since := now - s.began
	return s.known && 0 <= since && since < length
}

// Add takes something that was sent at a time of the sender's clock, and has arrived at a time of
// the receiver's. Call it in the order of arrival. If several of the last dozen things were sent
// at the same time, only the first counts. Times may be negative, and may go back: a clock that
// was set looks like a path that changed. After a delay that is more than a day longer or shorter
// than the first one, Add begins anew, as after Reset.
func (e *Estimator) Add(sent, arrived time.Duration) {
	delay := arrived - sent - e.first
	if e.aim == 0 || delay < -longest || delay > longest {
		e.Reset()
		e.first = arrived - sent
		e.aim = 1
		delay = 0
	}
	if e.sending.add(sent) {
		return
	}
	now := sent + delay
	late := e.recent.size > 0 && delay > e.wait
	due := sent + e.level
	if late && e.stop.lasts(now) && due-e.stop.ended < 0 {
		return // the stop held it up, in whichever order it came
	}
	if apart := e.heldUp(sent, now, late); apart > 0 {
		e.batch.excess = max(e.batch.excess, delay)
		if e.batch.excess-e.level >= stopLength && e.stopped(now) {
			return
		}
		if apart >= oneTick {
			e.held += min(1, math.MaxUint8-e.held)
			return
		}
	} else if since := now - e.batch.arrived; !e.batch.late || since < 0 || since >= oneTick {
		if !late {
			e.countPending()
		}
		e.batch = batch{sent: sent, arrived: now, excess: delay, late: late}
	}
	e.learn(delay, late)
}

// heldUp returns how far apart in sending a late arrival is from the first of the batch, if it
// was held up together with it, and otherwise 0.
func (e *Estimator) heldUp(sent, now time.Duration, late bool) (apart time.Duration) {
	apart = max(min(sent-e.batch.sent, longest), -longest)
	if apart < 0 && !e.batch.late {
		return 0 // it was overtaken
	}
	apart = apart.Abs()
	since := now - e.batch.arrived
	if !late || since < 0 || since > min(apart/2, batchLasts) {
		return 0
	}
	return apart
}

// stopped notes that a stop held the batch up, and reports whether the stop counts for nothing.
func (e *Estimator) stopped(now time.Duration) bool {
	if !e.stop.lasts(now) {
		since := now - e.stop.began
		alone := !e.stop.known || since < 0 || since > stopAlone
		e.stop = stop{known: true, alone: alone, began: now}
	}
	e.stop.ended = now
	if e.stop.alone {
		e.waiting = 0
		e.held = 0
	}
	return e.stop.alone
}

// countPending counts the pending late arrivals, since no stop has held them up. Those that the
// level explains by now show a path that has become longer, and count as one.
func (e *Estimator) countPending() {
	for i, bin := range e.pending[:e.waiting] {
		if i == 0 || e.level-e.before < binEnd(int(bin))/2 {
			e.tail.count(int(bin), e.share())
		}
		e.aim = max(e.aim-aimGain, aimLeast)
	}
	e.aim = max(e.aim-heldGain*float64(e.held), aimLeast)
	e.waiting = 0
	e.held = 0
}

// learn takes a delay that counts.
func (e *Estimator) learn(delay time.Duration, late bool) {
	share := e.share()
	if e.recent.size == 0 {
		e.level = delay
	}
	before := e.level
	bin := binOf(delay - before)
	e.level = e.recent.add(delay)
	e.aim = min(e.aim+aimGain*share, aimMost)
	switch {
	case !late:
		e.tail.count(bin, share)
	case int(e.waiting) < len(e.pending):
		if e.waiting == 0 {
			e.before = before
		}
		e.pending[e.waiting] = uint8(bin)
		e.waiting++
	default: // so many late ones in a row come from no stop
		e.tail.count(bin, share)
		e.aim = max(e.aim-aimGain, aimLeast)
	}
	e.wait = e.level + e.tail.quantile(share*e.aim)
}

func (e *Estimator) share() float64 {
	if !(e.Share > 0) {
		return usualShare
	}
	return max(leastShare, min(e.Share, mostShare))
}

// Wait returns how long after its sending something should be shown, so that no more than Share
// come later. What was sent at a time s of the sender's clock is shown at s + wait of the
// receiver's. Where the clocks differ this may be negative. ok is false before the first arrival.
func (e *Estimator) Wait() (wait time.Duration, ok bool) { return e.first + e.wait, e.aim > 0 }

// Interval returns the time from one sending to the next: the median of the last 7, or 0 before
// two things have arrived. To show what lies between two things, such as two states of a game,
// wait that much longer: then the later one has arrived, too.
func (e *Estimator) Interval() time.Duration { return e.sending.interval() }

// Level returns the median of the last delays, by the same clocks as Wait. It is 0 before the
// first arrival.
func (e *Estimator) Level() time.Duration { return e.first + e.level }

// Shift says that all delays are longer by a time from now on, or shorter if it is negative,
// because a clock was set: the receiver's forward by that time, or the sender's back.
func (e *Estimator) Shift(by time.Duration) { e.first += by }

// Reset forgets everything but Share. Call it when the path has certainly changed: after a sleep
// of the machine, or for a new connection.
func (e *Estimator) Reset() { *e = Estimator{Share: e.Share} }
