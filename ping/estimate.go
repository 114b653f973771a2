// SPDX-License-Identifier: BSD-3-Clause

package ping

import (
	"cmp"
	"math"

	"timesync"
)

// sample is one exchange in absolute terms.
type sample struct {
	at     uint64 // local clock in the middle of the exchange
	offset uint64 // remote minus local clock
	trip   int64  // round trip without the server's hold
	half   int64  // the offset at the time at is at most this far off
	coarse int64  // by how much the server seems to answer before it was asked: its clock advances in such steps
}

// measure makes a sample of the four timestamps of an exchange: sent and received by
// the client (t1 and t4) and by the server (t3 and t2). v is Accepted, or says why
// they cannot be used.
func measure(t1, t2, t3, t4 uint64) (s sample, v Verdict) {
	away, hold := t4-t1, int64(t3-t2)
	if int64(away) < 0 || hold < -coarseUsec {
		return s, Impossible
	}
	if away > lateUsec {
		return s, TooLate
	}
	skewed := int64(away) * maxSkewPPM / 1e6 // by what the clocks can disagree on away
	if hold > int64(away)+skewed+roundUsec {
		return s, Impossible
	}
	// The truth at the middle lies between two bounds, a half round trip either way:
	// a request arrives after it was sent, so the remote clock is at most t2-t1
	// ahead, and a reply likewise, so it is at least t3-t4 ahead.
	trip := int64(away) - hold
	return sample{
		at:     t1 + away/2,
		offset: t2 - t1 - uint64(trip/2),
		trip:   max(trip, 0),
		half:   (max(trip, 0)+1)/2 + skewed/2 + roundUsec,
		coarse: max(-hold, 0),
	}, Accepted
}

// remote returns the remote clock according to s.
func (s *sample) remote(local uint64, skew int64) uint64 {
	return local + s.offset + uint64(scale(int64(local-s.at), skew))
}

// bound returns how far off remote can be: what the exchange left open, and for
// every second since then (or until then) the skew that may be and the skew that is
// assumed.
func (s *sample) bound(local uint64, skew int64) uint64 {
	age := min(magnitude(int64(local-s.at)), math.MaxInt64)
	return uint64(s.half) + uint64(scale(int64(age), maxSkew+int64(magnitude(skew))))
}

// use lets a sample change the clock.
func (c *Clock) use(s sample, now uint64) Verdict {
	old := c.known.Load()
	disturbed, wasSet := now, false
	if old != nil {
		disturbed, wasSet = old.disturbed, old.always.Disturbed
		if old.admits(s) {
			now = old.notBefore(now)
		} else {
			// Both bounds cannot be true of one pair of clocks: one of them was set, or
			// stood still in a suspended machine. What was learnt before is void.
			c.window, c.drift, c.fast = c.window[:0], drift{}, 0
			// So the last reply may be ahead of now, by a clock that was set back.
			disturbed, wasSet = now, true
		}
	}
	c.remember(s)
	next := c.estimate(now)
	verdict := c.move(next, old, now)
	next.heard, next.disturbed = now, disturbed
	next.always.Disturbed, next.always.Steps = wasSet, c.steps
	c.known.Store(next)
	return verdict
}

// notBefore returns the time of the latest reply for one that was handed over behind
// it: what readers have seen is to stay. No reply is used that took longer than
// lateUsec, so a time farther back is that of a clock that was set.
func (p *published) notBefore(now uint64) uint64 {
	if behind := int64(p.heard - now); behind > 0 && behind <= lateUsec {
		return p.heard
	}
	return now
}

// remember adds s to the window and to what measures the skew.
func (c *Clock) remember(s sample) {
	if n := len(c.window); n > 0 && c.conf.Rule == nil && heldUp(c.window[n-1], s) {
		c.window = c.window[:n-1]
	}
	if len(c.window) == cmp.Or(c.conf.Samples, DefaultSamples) {
		c.window = c.window[:copy(c.window, c.window[1:])]
	}
	c.window = append(c.window, s)
	c.drift.add(s)
}

// heldUp reports whether the reply of a waited on the way until that of b, the next one, came: both came
// within a seventh of the time between their requests. It says less than b, and with more of its
// kind, after a server hung or a segment was lost, it would crowd out what was known.
func heldUp(a, b sample) bool { return 2*(a.trip-b.trip) > 3*int64(b.at-a.at) }

// estimate returns what the window tells, without a reading.
func (c *Clock) estimate(now uint64) *published {
	p := &published{skew: c.drift.skew, skewKnown: c.drift.known}
	p.best = c.best(p.skew, now)
	trip, jitter := c.roundTrip()
	p.always = timesync.Snapshot{
		MinimumOneWayDelay: duration(trip) / 2,
		MinimumDelayToPeer: duration(trip) / 2,
		Jitter:             duration(jitter) / 2,
		JitterKnown:        len(c.window) > 1,
		Skew:               inPPM(p.skew),
		// That it is known to within doubtMaxPPM is likely, not certain: jitter may be taken for it.
		SkewError: maxSkewPPM + math.Abs(inPPM(p.skew)),
	}
	return p
}

// best returns the exchange that bounds the error of the clock most tightly.
func (c *Clock) best(skew int64, now uint64) sample {
	best := c.window[0]
	for _, s := range c.window[1:] {
		if s.bound(now, skew) <= best.bound(now, skew) {
			best = s
		}
	}
	return best
}

// roundTrip returns the shortest round trip of the last 8 exchanges, so that a line
// that became slower is soon seen, and by how much their mean exceeds it.
func (c *Clock) roundTrip() (least, jitter int64) {
	recent := c.window[max(0, len(c.window)-filterDepth):]
	sum := int64(0)
	least = recent[0].trip
	for _, s := range recent {
		sum += s.trip
		least = min(least, s.trip)
	}
	return least, sum/int64(len(recent)) - least
}

// move sets the clock of next, or lets it go on from that of old and moves it toward
// the sample that the rule chooses.
func (c *Clock) move(next, old *published, now uint64) Verdict {
	if old == nil {
		next.set(c.window[0], now)
		return Synced
	}
	next.before, next.after = old.before, old.after
	var s sample
	if c.conf.Rule == nil {
		s = next.within(c.fastest(next.skew, now), now)
	} else if i := c.choose(old, next.skew, now); i >= 0 {
		s = c.window[i]
	} else {
		return Accepted
	}
	threshold := cmp.Or(c.conf.RecalibrateThreshold, DefaultRecalibrateThreshold)
	if e := int64(s.remote(now, next.skew) - old.read(now)); magnitude(e) > uint64(threshold.Microseconds()) {
		next.set(s, now)
		c.steps++
		return Stepped
	}
	c.slew(next, s, now)
	return Accepted
}

// fastest puts the fastest request and the fastest reply of late together: an exchange in which neither queued is
// rare. Requests say by how much the remote clock is ahead at most, replies by how much at least.
func (c *Clock) fastest(skew int64, now uint64) sample {
	newest := c.window[len(c.window)-1].remote(now, skew)
	least, most := int64(math.MinInt64/2), int64(math.MaxInt64/2)
	for i, s := range c.window {
		age := int64(magnitude(int64(now - s.at)))
		if !ofLate(duration(age), len(c.window)-i) {
			continue
		}
		off, half := int64(s.remote(now, skew)-newest), s.trip/2+scale(age, crystalSkew)
		least, most = max(least, off-half), min(most, off+half)
	}
	return sample{at: now, offset: newest + uint64(least/2+most/2) - now}
}

// within moves s to where the exchange that says most lets the clock be: the fastest of late may have
// waited in a queue that outlasts all of them.
func (p *published) within(s sample, now uint64) sample {
	off, most := int64(s.remote(now, p.skew)-p.best.remote(now, p.skew)), int64(min(p.best.bound(now, p.skew), math.MaxInt64/2))
	s.offset -= uint64(off - min(max(off, -most), most))
	return s
}

// choose asks the rule. There is nothing to choose from a single exchange.
func (c *Clock) choose(old *published, skew int64, now uint64) int {
	if len(c.window) == 1 {
		return 0
	}
	reading := old.read(now)
	c.view = c.view[:0]
	for _, s := range c.window {
		c.view = append(c.view, Sample{
			RoundTrip: duration(s.trip),
			Age:       duration(int64(now - s.at)),
			Error:     duration(int64(s.remote(now, skew) - reading)),
		})
	}
	return c.conf.Rule(c.view)
}

// slew begins a correction toward s, unless the last one has hardly begun.
func (c *Clock) slew(next *published, s sample, now uint64) {
	if begun := int64(now - next.after.at); -settleUsec <= begun && begun < settleUsec {
		return
	}
	from := now + settleUsec
	reading := next.read(from)
	e := int64(s.remote(from, next.skew) - reading)
	n := min(int64(cmp.Or(c.conf.AdjustSteps, DefaultAdjustSteps)), int64(len(c.window)))
	// Rounded away from zero, or the last few microseconds would stay for ever.
	share := (e + int64(cmp.Compare(e, 0))*(n-1)) / n
	next.before = next.after
	next.after = segment{from, reading, next.skew, share}
}

// set sets the clock by s at once.
func (p *published) set(s sample, now uint64) {
	p.after = segment{now, s.remote(now, p.skew), p.skew, 0}
	p.before = p.after
}
