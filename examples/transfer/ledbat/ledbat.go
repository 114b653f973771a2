// SPDX-License-Identifier: BSD-3-Clause

// Package ledbat is congestion control for a transfer in the background: it fills a link
// while that is free, keeps the queue before it short, and gives way to others.
//
// It is LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus), which is LEDBAT (RFC 6817) with
// slow start, a multiplicative decrease and slowdowns. The words are those of the two
// texts: the base delay is the delay without a queue, the current delay is that of the
// last datagrams, the queueing delay is the difference, the target is what the queueing
// delay is steered to, the window is how many bytes may be under way.
//
// What differs from the draft, and why:
//
//   - The delay is the true one-way delay that the receiver reads off each datagram,
//     because both ends know each other's clock, and not the round-trip time. A queue on
//     the way back does not count.
//   - The target is 6 ms instead of 60 ms: a game shares the queue.
//   - With so short a target the decrease of the draft overshoots by several times once
//     the round-trip time is longer than the target. It is scaled by target / (2 round-trip
//     times): half of the excess leaves in each round trip.
//   - The least delay of half a second is steered to the target, else a transfer starves on Wi-Fi
//     and LTE, whose delay wanders by more than the target. A queue also stands while the path is
//     at its shortest, so the transfer yields on such a path, too.
//   - A sixth of the path's own jitter is added to the target. The jitter is what the delay does
//     during slowdowns, when nothing of ours is in the queue, if it comes back to near the base
//     delay. A TCP queue does not, or it takes seconds: by more than the delays of half a second
//     differ, a path does not wander. What is far above the jitter counts as a queue at once.
//   - A loss without a queue is a radio's, and changes nothing. One above the target says nothing
//     that the delay has not said. Any other takes twice the queue out of the window: a half
//     would leave a long path idle. If over 0.5 % are lost, each loss halves the window.
//   - Slow start ends at the target instead of 3/4 of it, and is paced less: a long path would
//     leave it at half of the link.
//   - The base delay is the least of ten minutes, as in RFC 6817; but three slowdowns in a
//     row that agree about the path replace it. A path that became longer looks the same in
//     each slowdown. A queue that others keep does not: it grows and shrinks.
//   - Slowdowns are at least 3 s apart, so that they cost a short path less than a tenth.
//     One begins early if the queue suddenly shrinks: another transfer makes its own.
//   - If the queue never reached the target between two slowdowns, and no loss met a queue, slow
//     start goes on after the second: the window has not found out yet how much the link carries.
//   - Datagrams are paced. In bursts, slow start would end at its own queue.
//
// # A receiver that lies
//
// It can hide the queue in its delays, or invent jitter. Then losses bound the window: a loss
// takes out twice the queue that the sender's own round trip shows, of which invented jitter hides
// 17 ms at most, and over 0.5 % of loss halves the window whatever anybody says. A receiver that
// also holds acknowledgements back hides the round trip's part, and is bounded by that loss only:
// it may be bolder than TCP. The window grows by at most a segment in a round trip or by what was
// acknowledged in slow start, counts at most what is under way, and ends at MaxWindow.
// Whether an acknowledged datagram arrived is for the caller to know.
//
// The package knows no sockets and reads no clock. The zero Controller is ready to use,
// allocates nothing, and is for one goroutine at a time. This file is complete: copy it.
package ledbat

import (
	"slices"
	"time"
)

const (
	// Target is the queueing delay that a transfer alone settles at. It is less than half
	// a frame of a 60 Hz game; a few datagrams on a link of 10 Mbit/s.
	Target = 6 * time.Millisecond

	// Segment is the size in bytes in which the window grows: a datagram that every path
	// carries.
	Segment = 1200

	// MinWindow is the window during a slowdown and the least at all times.
	MinWindow = 2 * Segment

	// MaxWindow is the largest window, whatever the receiver says: 1 Gbit/s over 130 ms.
	MaxWindow = 16 << 20

	target  = int64(Target / time.Microsecond)
	second  = int64(1e6)  // us
	maxRTT  = 60 * second // us: longer ones are taken for this
	slowGap = 3 * second  // us: the least time between two slowdowns
	// The ratio of the time between two slowdowns to the length of one: the draft's.
	slowRatio = 9
	// The draft's: a window grows by at least a 16th of a segment a round trip.
	maxGain = 16
	// The current delay is the least of so many, as RFC 6817 advises.
	filter      = 4
	baseMinutes = 10             // RFC 6817's BASE_HISTORY
	minute      = 60 * second    // us
	full        = target * 7 / 8 // a queueing delay that says that the link is full
	// A queueing delay that says that another transfer went quiet.
	fallen     = target * 5 / 8
	agree      = target / 2 // slowdowns that differ by less saw the same path
	maxTimeout = 4 * second // us: nothing waits longer for an acknowledgement
	minTimeout = second / 5 // us: above the delays of a busy machine
	// us: a datagram may leave so much before its time, so that timers need not be exact.
	earliest = 500
	// us: so much of what a late timer held back leaves at once.
	catchUp   = 5000
	unlimited = 2 * MaxWindow // slow start threshold at first
	// A path that loses more than one of 200 of the last thousand datagrams is taken for full,
	// however short its queue seems. A radio with 0.1 % of loss is rarely above that.
	manyLost   = 1. / 200
	lossMemory = 1024
	// us: a loss that meets a longer queue has met a full buffer. Slow start makes shorter queues
	// long before the link is full.
	fullQueue = 1000
	unseen    = int64(1) << 62 // us: a delay that is longer than any
)

// Controller decides how many bytes of one transfer may be under way. Times are readings
// of one monotonic clock of the sender in microseconds; the value is free and may wrap.
type Controller struct {
	window    float64 // bytes; 0: before the first call
	threshold float64 // bytes: below, the window grows by slow start
	flight    int     // bytes under way

	srtt, minRTT int64      // us; 0: none yet
	roundTrips   leastDelay // the round trips of half a second
	standingRTT  int64      // us: the least of them, above minRTT
	lossRate     float64    // part of about the last lossMemory datagrams that were lost
	timeouts     int        // in a row
	reduced      uint64     // time of the last reduction for a loss, if lost
	lost         bool       // there was one

	recent [filter]int64 // us: the last delays
	delays int           // how many there were, at most filter
	base   baseDelay
	jitter jitter
	// standing is the least delay of half a second, above the base delay, us.
	shortest leastDelay
	standing int64
	queue    int64  // us: queueing delay, including the path's own jitter
	steps    uint32 // the receiver's count of clock steps, if there is a base delay

	next uint64 // when the pace allows the next datagram

	fullAt  uint64 // when the queue was last at the target, if wasFull
	wasFull bool
	// A loss met a queue since the slowdown. The buffer may be shorter than the target.
	overflowed bool
	since      steadySums

	phase     phase
	slowFrom  uint64 // when the slowdown began
	early     bool   // it began before its time, because the queue had suddenly shrunk
	slowUntil uint64 // when its quiet part ends
	slowNext  uint64 // when the next one begins; known in phase steady
}

// steadySums adds up what was seen between two slowdowns.
type steadySums struct {
	standing int64 // us
	span     int64 // us: by how much the delays of half a second differ
	n        int64 // delays
}

// phase is what the window does.
type phase int

const (
	starting phase = iota // slow start
	steady                // steers the queueing delay to the target
	slow                  // the quiet part of a slowdown: MinWindow
	ramping               // slow start back to where it was
)

// start makes the zero value usable.
func (c *Controller) start() {
	if c.window == 0 {
		c.window = MinWindow
		c.threshold = unlimited
	}
}

// Window returns how many bytes may be under way, MinWindow to MaxWindow.
func (c *Controller) Window() int {
	c.start()
	return int(c.window)
}

// InFlight returns how many bytes are under way: neither acknowledged nor lost.
func (c *Controller) InFlight() int { return c.flight }

// CanSend reports whether a datagram of n bytes may leave at nowUsec. If it is only too
// early, wait is how long to wait; else the next acknowledgement decides.
func (c *Controller) CanSend(nowUsec uint64, n int) (wait time.Duration, ok bool) {
	if n < 0 || n > c.Window()-c.flight {
		return 0, false
	}
	early := int64(c.next-nowUsec) - earliest
	// The pace plans no further than a second: that is the first call, or a clock that was set.
	if early <= 0 || early > second {
		return 0, true
	}
	return time.Duration(early) * time.Microsecond, false
}

// Queueing returns the queueing delay, which includes the path's own jitter, and the base
// delay, as far as they are known.
func (c *Controller) Queueing() (queueing, base time.Duration) {
	return time.Duration(c.queue) * time.Microsecond, time.Duration(c.base.least()) * time.Microsecond
}

// OnSend says that a datagram of n bytes leaves at nowUsec.
func (c *Controller) OnSend(nowUsec uint64, n int) {
	c.start()
	n = clamp(n, 0, MaxWindow)
	c.flight = min(c.flight+n, 4*MaxWindow) // a caller that ignores CanSend
	c.pace(nowUsec, n)
	c.clock(nowUsec)
}

// pace spreads what may be sent over the round trip. In bursts, slow start would meet its
// own queue long before the link is full.
func (c *Controller) pace(nowUsec uint64, n int) {
	factor := 1.25
	if c.phase == starting {
		// The window doubles within the round trip: this is the mean of both. With more, a long
		// path has a queue when half of it is in use, and slow start ends there.
		factor = 1.5
	}
	if late := int64(nowUsec - c.next); late > catchUp || late < -second {
		c.next = nowUsec - catchUp
	}
	c.next += uint64(min(float64(n)*float64(c.srtt)/(factor*c.window), float64(second)))
}

// OnAck says that a datagram of n bytes that left at sentUsec is acknowledged, and what
// the receiver says of it. An acknowledgement of more than is under way counts for what is
// under way: a receiver gains nothing by it.
func (c *Controller) OnAck(nowUsec, sentUsec uint64, n int, d Delay) {
	c.start()
	owd, steps, ok := d.Read()
	if ok && c.base.n > 0 && steps != c.steps {
		c.forget(nowUsec)
	}
	// If not, something else than the window limits us.
	used := c.flight+MinWindow >= int(c.window)
	n = clamp(n, 0, c.flight)
	c.flight -= n
	c.lossRate -= c.lossRate / lossMemory
	c.roundTrip(nowUsec, int64(nowUsec-sentUsec))
	if ok {
		c.steps = steps
		c.current(nowUsec, owd.Microseconds())
	}
	c.clock(nowUsec)
	switch {
	case c.phase == slow || c.delays == 0:
		c.window = MinWindow // nothing is known before the first delay
	case c.phase == steady:
		c.since.standing += c.standing
		c.since.span += c.shortest.span()
		c.since.n++
		c.steer(float64(n), used)
	default:
		c.slowStart(nowUsec, float64(n), used)
	}
	c.window = clamp(c.window, MinWindow, MaxWindow)
}

// roundTrip smooths the round-trip time as TCP does.
func (c *Controller) roundTrip(nowUsec uint64, rtt int64) {
	rtt = clamp(rtt, 1, maxRTT)
	c.timeouts = 0
	if c.srtt == 0 {
		c.srtt = rtt
		c.minRTT = rtt
	}
	c.srtt += (rtt - c.srtt) / 8
	c.minRTT = min(c.minRTT, rtt)
	c.standingRTT = c.roundTrips.see(nowUsec, rtt) - c.minRTT
}

// current takes a delay.
func (c *Controller) current(nowUsec uint64, delay int64) {
	c.base.see(nowUsec, delay)
	if c.phase == slow {
		c.jitter.see(delay)
	}
	copy(c.recent[1:], c.recent[:])
	c.recent[0] = delay
	c.delays = min(c.delays+1, filter)
	least := slices.Min(c.recent[:c.delays])
	c.queue = max(least-c.base.least(), 0)
	c.standing = max(c.shortest.see(nowUsec, delay)-c.base.least(), 0)
}

// gain is the draft's: how many segments the window grows in a round trip. It is less
// where the path is short, and so a flow of Reno would have a long time between losses.
func (c *Controller) gain() float64 {
	rtt := max(c.minRTT, 1)
	return 1 / float64(min((2*target+rtt-1)/rtt, maxGain))
}

// slowStart grows the window by what was acknowledged, times the gain. After a slowdown, half of
// the window from before makes no queue, whatever the delay says: else one long delay of a path
// that wanders would end slow start at the least window.
func (c *Controller) slowStart(nowUsec uint64, n float64, used bool) {
	if used {
		c.window += n * c.gain()
	}
	isHalf := c.phase == ramping && c.window < c.threshold/2
	if c.window < c.threshold && (isHalf || c.queue <= c.surelyQueue()) {
		return
	}
	// They remember the slowdown.
	c.shortest = leastDelay{}
	c.roundTrips = leastDelay{}
	if c.phase == starting {
		c.slowNext = nowUsec + uint64(2*c.srtt) // the initial slowdown
	} else {
		slowed := clamp(int64(nowUsec-c.slowFrom), 0, minute)
		c.slowNext = nowUsec + uint64(max(slowRatio*slowed, slowGap))
	}
	c.window = min(c.window, c.threshold)
	c.threshold = c.window
	c.phase = steady
}

// steer moves the window so that the least delay of half a second comes to the target.
//
// On a path that wanders any single delay may contain all of the jitter. The least of half a second
// contains little of it, but all of a queue that stands: ours or that of others. It sees a queue
// that grows half a second late, so what is missing, or is too much, goes within a second: with
// more, the window would overshoot. A delay that no jitter explains counts at once. Without
// jitter that stops the window soon enough, so it may grow faster.
func (c *Controller) steer(n float64, used bool) {
	grow := 0.0
	if used {
		grow = c.gain() * Segment * n / c.window
	}
	step := grow
	lacks := c.leastTarget() - c.standing
	if lacks < 0 || c.jitter.most > 0 {
		step = min(step, n*float64(lacks)/float64(second))
	}
	if over := c.queue - c.surelyQueue(); over > 0 {
		excess := float64(over) / float64(target) * min(1, float64(target)/float64(2*c.srtt))
		step = min(step, grow-n*excess)
	}
	c.window += max(step, -n/2)
}

// clock begins and ends slowdowns.
func (c *Controller) clock(nowUsec uint64) {
	switch {
	case c.phase == slow && after(nowUsec, c.slowUntil):
		c.jitter.end(c.base.least())
		if c.base.endSlowdown(nowUsec, c.jitter.most) { // the path became longer
			c.searchAgain()
			c.minRTT = c.srtt
			c.delays = 0
			c.queue = 0
			c.shortest = leastDelay{}
		}
		c.phase = ramping
		if c.threshold == unlimited {
			c.phase = starting
		}
	case c.phase == steady && (after(nowUsec, c.slowNext) || c.othersSlow(nowUsec)):
		c.threshold = c.window
		// If the link has room, slow start shall find out how much.
		if c.jitter.most == 0 && !c.wasFull && !c.overflowed {
			c.searchAgain()
		}
		if c.jitter.most > 0 && c.hasRoom() {
			c.threshold = 2 * c.window
		}
		c.slowdown(nowUsec, !after(nowUsec, c.slowNext))
	}
}

// searchAgain lets slow start find out anew how much the link carries. On a path that wanders it
// would end late, far above that: there the window from before stays the limit.
func (c *Controller) searchAgain() {
	if c.jitter.most == 0 {
		c.threshold = unlimited
	}
}

// hasRoom reports whether the link had room since the slowdown, on a path that wanders. Now and
// then the path alone brings any one delay above the target, but not their mean.
func (c *Controller) hasRoom() bool {
	return c.since.n > 0 && c.since.standing/c.since.n < c.leastTarget()-target/2
}

// othersSlow reports whether the queue has just become much shorter, as when another
// transfer makes a slowdown. A transfer then makes its own, which is due soon anyway: only
// if all are quiet at the same time do all see the base delay. On a path that wanders the delay
// falls by itself, so at least every other slowdown is one in its time: see jitter.
func (c *Controller) othersSlow(nowUsec uint64) bool {
	const below = target - full
	if c.standing >= c.leastTarget()-below || c.queue >= c.surelyQueue()-below {
		c.fullAt = nowUsec
		c.wasFull = true
	}
	fell := c.wasFull && c.queue <= fallen && int64(nowUsec-c.fullAt) <= 2*c.srtt
	return fell && !c.early && int64(c.slowNext-nowUsec) < int64(nowUsec-c.slowFrom)
}

// slowdown lets our part of the queue run empty for two round trips, the draft's time, which
// shows the base delay.
func (c *Controller) slowdown(nowUsec uint64, early bool) {
	c.phase = slow
	c.window = MinWindow
	c.slowFrom = nowUsec
	c.wasFull = false
	c.overflowed = false
	c.early = early
	c.jitter.begin(early, c.since)
	c.since = steadySums{}
	c.slowUntil = nowUsec + uint64(2*max(c.srtt, 1))
	c.base.lowest = unseen
}

// forget begins with a new base delay: the receiver says that a clock was set, so all
// delays before are wrong. The path's jitter is a difference of two delays, and stays.
func (c *Controller) forget(nowUsec uint64) {
	c.base = baseDelay{}
	c.delays = 0
	c.jitter.shown = 0
	c.shortest = leastDelay{}
	if c.phase == steady {
		c.threshold = c.window
	}
	c.searchAgain()
	c.slowdown(nowUsec, false)
}

// OnLoss says that a datagram of n bytes that left at sentUsec is lost. The window shrinks
// at most once in a round trip, by at most a half, see cut.
func (c *Controller) OnLoss(nowUsec, sentUsec uint64, n int) {
	c.start()
	c.flight -= clamp(n, 0, c.flight)
	c.lossRate += (1 - c.lossRate) / lossMemory
	if c.lost && !after(sentUsec, c.reduced) {
		return
	}
	c.reduced = nowUsec
	c.lost = true
	queue := c.lossQueue()
	c.window = max(c.window*(1-c.cut(queue)), MinWindow)
	if queue <= fullQueue && c.lossRate <= manyLost {
		return // perhaps a radio lost it
	}
	c.overflowed = true
	// Slow start ends where the link is full.
	if c.phase == starting || c.phase == ramping {
		c.threshold = c.window
		c.slowStart(nowUsec, 0, false)
	}
}

// lossQueue returns the queue that a loss met, and that nothing else takes out of the window, us.
//
// The receiver can hide a queue in its delays, but not in the sender's round trips. There the least
// of half a second counts, as it contains little of the path's own jitter, and that little is taken
// off. Above the target, steer takes out what the delay shows. A loss would take out the same queue
// once more, and the window would fall far below what the link carries.
func (c *Controller) lossQueue() int64 {
	roundTrip := c.standingRTT - c.jitter.most/leastPart
	if c.queue > c.surelyQueue() {
		return max(roundTrip-c.queue, 0)
	}
	return max(c.queue-c.jitter.most, roundTrip, 0)
}

// cut returns by which part of the window a loss makes it smaller. Twice the queue leaves: the
// queue itself, and as much again as room for others. Reno's half would empty a long path whose
// queue is a hundredth of its length.
func (c *Controller) cut(queue int64) float64 {
	if c.lossRate > manyLost {
		return 0.5
	}
	return min(2*float64(queue)/float64(max(c.srtt, 1)), 0.5)
}

// leastTarget returns where the least delay of half a second is steered to, beyond the base delay.
func (c *Controller) leastTarget() int64 { return target + c.jitter.most/leastPart }

// surelyQueue returns a delay beyond the base delay that the path's own jitter does not explain,
// also if the jitter is half as large again as the slowdowns have shown.
func (c *Controller) surelyQueue() int64 { return target + c.jitter.most*3/2 }

// Timeout returns how long to wait for an acknowledgement before all that is under way is
// taken for lost, with OnTimeout. It doubles with each timeout until an acknowledgement comes:
// else a path whose round trip became longer than it would never be measured. If your program
// stood still, call OnTimeout before you take the acknowledgements that waited: their round trips
// are those of the stop.
func (c *Controller) Timeout() time.Duration {
	timeout := second
	if c.srtt > 0 {
		timeout = clamp(4*c.srtt, minTimeout, maxTimeout)
	}
	return time.Duration(min(timeout<<c.timeouts, maxTimeout)) * time.Microsecond
}

// OnTimeout says that nothing was acknowledged for so long: the path may be another one.
func (c *Controller) OnTimeout(nowUsec uint64) {
	c.start()
	c.flight = 0
	c.reduced = nowUsec
	c.lost = true
	c.timeouts = min(c.timeouts+1, 5) // up to maxTimeout
	if c.phase != starting {
		c.threshold = max(c.threshold/2, MinWindow)
		c.phase = ramping
		c.slowFrom = nowUsec
	}
	c.window = MinWindow
}

// ---- The path's own jitter ----

const (
	// So many slowdowns are remembered, more than a minute.
	jitterMemory = 24
	// Fewer slowdowns than this may all have met a short path: they only raise the jitter.
	fewSlowdowns = 4
	// us: less is no jitter. So much the datagrams of four other transfers queue now and then
	// during their own slowdowns.
	smallJitter = 2000
	// us: with more, a transfer would fill the buffer of a home router to half.
	mostJitter = 100_000
	// The least delay of half a second is steered to the target and this part of the jitter. Of
	// delays that change every 0.1 s, the least of five has a sixth of the range in the mean.
	leastPart = 6
)

// leastDelay is the least delay of the last half second, in parts of a sixteenth of a second, and
// the largest.
type leastDelay struct {
	parts [8]int64 // us, newest first
	tops  [8]int64 // us: the largest delay of each part
	n     int      // parts that are filled
	from  uint64   // when the newest began
}

// see takes a delay, and returns the least one.
func (l *leastDelay) see(nowUsec uint64, delay int64) int64 {
	const part = uint64(second / 16)
	if l.n == 0 || nowUsec-l.from >= part {
		copy(l.parts[1:], l.parts[:])
		copy(l.tops[1:], l.tops[:])
		l.parts[0] = delay
		l.tops[0] = delay
		l.n = min(l.n+1, len(l.parts))
		l.from = nowUsec
	}
	l.parts[0] = min(l.parts[0], delay)
	l.tops[0] = max(l.tops[0], delay)
	return slices.Min(l.parts[:l.n])
}

// span returns by how much the delays of the half second differ.
func (l *leastDelay) span() int64 {
	if l.n == 0 {
		return 0
	}
	return slices.Max(l.tops[:l.n]) - slices.Min(l.parts[:l.n])
}

// jitter is how much the path's delay wanders by itself. Slowdowns show it, because nothing
// of this transfer is in the queue then. A delay counts that a later slowdown comes below: a path
// that became longer stays longer, and the queue of CUBIC does not come back to the base delay.
// A slowdown that began early was chosen because the path was short just then. It shows how short
// the path can be, but how long only if the delay rose again.
type jitter struct {
	most  int64                     // us: the jitter; 0 while it is not known
	seen  [jitterMemory]quietDelays // of the last slowdowns, newest first
	shown int                       // how many of them are filled
	now   quietDelays               // of the slowdown under way
	span  int64                     // us: by how much the delays of half a second differ, smoothed
}

// quietDelays is what one slowdown showed. All are microseconds.
type quietDelays struct {
	low   int64 // the shortest delay; unseen: none yet
	last  int64 // the last delay: our own queue has drained by then
	early bool  // the slowdown began early
}

// begin begins a slowdown; since is what was between it and the one before.
func (j *jitter) begin(early bool, since steadySums) {
	j.now = quietDelays{low: unseen, early: early}
	if since.n > 0 {
		j.span += (since.span/since.n - j.span) / 4
	}
}

// see takes a delay of the slowdown.
func (j *jitter) see(delay int64) {
	j.now.low = min(j.now.low, delay)
	j.now.last = delay
}

// end ends the slowdown, and works out the jitter.
func (j *jitter) end(base int64) {
	if j.now.low == unseen {
		return
	}
	copy(j.seen[1:], j.seen[:])
	j.seen[0] = j.now
	j.shown = min(j.shown+1, jitterMemory)
	var heights [jitterMemory]int64
	n := 0
	low := unseen
	for _, q := range j.seen[:j.shown] {
		low = min(low, q.low)
		rose := q.last-q.low > smallJitter
		if rose || !q.early {
			heights[n] = q.last - low
			n++
		}
	}
	slices.Sort(heights[:n])
	// The largest of them are outliers. Of delays drawn evenly, four fifths are below four fifths
	// of the range.
	whole := heights[n*4/5] * 5 / 4
	// The queue of CUBIC comes back, too, where a transfer has never seen the path without it. But
	// it takes seconds. Five delays drawn evenly differ by two thirds of the range.
	whole = min(whole, j.span*3/2)
	if n >= fewSlowdowns {
		j.most = 0
	}
	// The queue of CUBIC stays above 0.7 of its largest.
	comesBack := 2*(low-base) < whole
	if comesBack && whole > smallJitter {
		j.most = clamp(whole, j.most, mostJitter)
	}
}

// ---- The base delay ----

// baseDelay is the delay without a queue: the least of ten minutes, or what three slowdowns
// in a row have shown.
type baseDelay struct {
	minutes [baseMinutes]int64 // us: the least of each minute, newest first
	n       int                // minutes that are filled
	from    uint64             // when the newest began
	// us: the least of each of the last slowdowns, newest first.
	quiet  [8]int64
	shown  int   // slowdowns that are filled
	lowest int64 // us: since the last slowdown began; unseen: none yet
}

// least returns the base delay; 0 if there is none yet.
func (b *baseDelay) least() int64 { return slices.Min(b.minutes[:max(b.n, 1)]) }

// see takes a delay.
func (b *baseDelay) see(nowUsec uint64, delay int64) {
	if b.n == 0 || int64(nowUsec-b.from) >= minute {
		copy(b.minutes[1:], b.minutes[:])
		b.minutes[0] = delay
		b.n = min(b.n+1, baseMinutes)
		b.from = nowUsec
	}
	b.minutes[0] = min(b.minutes[0], delay)
	b.lowest = min(b.lowest, delay)
}

// endSlowdown compares the slowdown with the two before, and reports whether they show a
// path that became longer.
func (b *baseDelay) endSlowdown(nowUsec uint64, jitter int64) (longer bool) {
	if b.lowest == unseen {
		return false
	}
	copy(b.quiet[1:], b.quiet[:])
	b.quiet[0] = b.lowest
	b.shown = min(b.shown+1, len(b.quiet))
	need := 3
	within := agree
	if jitter > 0 { // slowdowns on a path that wanders agree by chance, and differ by chance
		need = len(b.quiet)
		within += jitter / 4
	}
	if b.shown < need {
		return false
	}
	least := slices.Min(b.quiet[:need])
	most := slices.Max(b.quiet[:need])
	if most-least > within {
		return false
	}
	longer = least-b.least() > agree
	b.minutes[0] = least
	b.n = 1
	b.from = nowUsec
	return longer
}

// ---- What the receiver says ----

// Delay is what the receiver says of a datagram, in 24 bits: its one-way delay, and how
// often clocks were set.
//
//	bits 0-20   one-way delay in units of 8 us, at most 16.7 s; all ones: not known
//	bits 21-23  the receiver's count of clock steps (timesync.Snapshot.Steps) modulo 8
type Delay uint32

const (
	delayUnit    = 8 // us
	delayUnknown = 1<<21 - 1
	stepBits     = 21
	stepMask     = 7
)

// NewDelay makes a Delay; ok is false if the one-way delay is not known. A negative one is
// taken for 0.
func NewDelay(owd time.Duration, steps uint32, ok bool) Delay {
	d := int64(delayUnknown)
	if ok {
		d = clamp(owd.Microseconds()/delayUnit, 0, delayUnknown-1)
	}
	return Delay(uint32(d) | steps&stepMask<<stepBits)
}

// Read returns what NewDelay was given; the delay in units of 8 us, the steps modulo 8.
func (d Delay) Read() (owd time.Duration, steps uint32, ok bool) {
	units := d & delayUnknown
	owd = time.Duration(units) * delayUnit * time.Microsecond
	steps = uint32(d) >> stepBits & stepMask
	return owd, steps, units != delayUnknown
}

// Append appends the 3 bytes, little-endian.
func (d Delay) Append(b []byte) []byte { return append(b, byte(d), byte(d>>8), byte(d>>16)) }

// ReadDelay reads 3 bytes; b must have them.
func ReadDelay(b []byte) Delay { return Delay(b[0]) | Delay(b[1])<<8 | Delay(b[2])<<16 }

// after reports whether a is later than b, or the same.
func after(a, b uint64) bool { return int64(a-b) >= 0 }

func clamp[T int | int64 | float64](x, low, high T) T { return max(low, min(x, high)) }
