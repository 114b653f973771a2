// SPDX-License-Identifier: BSD-3-Clause

package playout

import (
	"slices"
	"sync"
)

const (
	// A latency that is too long falls by a part in fallTime of the excess in each us, so after
	// twice fallTime it is near what is needed. It falls by at most fallMost us in each us. With
	// usualPitch that makes 2 %, and more would be heard.
	fallTime = 8e6 // us
	fallMost = 0.015

	// A gap of more than restUsec between two calls was a sleep.
	restUsec = 2_000_000

	// A stream from which nothing has arrived for goneUsec holds no other one up.
	goneUsec = 10_000_000

	// The ends notice within 3 s that a clock was set, so the latency of 5 s ago was right.
	trustedAgo = 5 // s
)

// Group keeps streams in step: all have the longest latency that one of them needs. The zero value
// is ready to use. Streams may join, by New, and leave, by Close, at any time. The latency grows
// at once for a new stream, and falls slowly after one has left. A Group must not be copied. Any
// goroutine may use its streams at any time.
type Group struct {
	mu      sync.Mutex // of all its streams, too
	streams []*Buffer
	latency float64 // us, from capture to ear
	falls   float64 // us in each us
	asked   uint64  // the last time that advance was given, if any
	begun   bool

	past    [trustedAgo]float64 // the latency of each of the last seconds
	pastAt  int                 // the place of the oldest
	pastNow uint64              // when it was noted last
}

// join takes a stream in.
func (g *Group) join(b *Buffer) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, other := range g.streams {
		if other.conf.Link != nil && b.conf.Link != nil && other.conf.Link != b.conf.Link {
			return ErrTwoLinks
		}
	}
	g.streams = append(g.streams, b)
	g.grow(g.needed())
	return nil
}

func (g *Group) leave(b *Buffer) {
	g.streams = slices.DeleteFunc(g.streams, func(other *Buffer) bool { return other == b })
}

// needed returns the latency that all streams need together.
func (g *Group) needed() (usec float64) {
	for _, b := range g.streams {
		if !b.known || int64(g.asked-b.arrived) < goneUsec {
			usec = max(usec, float64(b.needs()))
		}
	}
	return usec
}

// advance lets the latency follow what the streams need until now.
func (g *Group) advance(nowUsec uint64) {
	passed := int64(nowUsec - g.asked)
	if !g.begun || passed < -setBack || passed > restUsec {
		passed = 0 // the first call, a clock that was set, or a sleep
		g.pastNow = nowUsec
	}
	g.begun = true
	if passed < 0 {
		return // another goroutine was faster
	}
	g.asked = nowUsec
	needed := g.needed()
	if needed == 0 { // all are silent
		return
	}
	if needed >= g.latency {
		g.grow(needed)
	} else {
		g.falls = min((g.latency-needed)/fallTime, fallMost)
		g.latency -= g.falls * float64(passed)
	}
	if nowUsec-g.pastNow >= 1_000_000 {
		g.pastNow = nowUsec
		g.past[g.pastAt] = g.latency
		g.pastAt = (g.pastAt + 1) % len(g.past)
	}
}

func (g *Group) grow(needed float64) {
	if needed < g.latency {
		return
	}
	g.latency = needed
	g.falls = 0
}

// trusted returns the latency of some seconds ago, or 0 if there was none. What was learned
// since then is wrong.
func (g *Group) trusted() (usec float64) { return g.past[g.pastAt] }

// goBack makes the latency again what it was.
func (g *Group) goBack(usec float64) {
	g.latency = usec
	g.falls = 0
	for i := range g.past {
		g.past[i] = g.latency
	}
}

// peak is the largest value of the last peakUsec, and of up to as much again.
type peak struct {
	now, before int64
	since       uint64
	begun       bool
}

const peakUsec = 2_000_000

func (p *peak) add(value int64, nowUsec uint64) {
	passed := int64(nowUsec - p.since)
	switch {
	case !p.begun || passed >= 2*peakUsec || passed < -setBack:
		*p = peak{now: value, before: value, since: nowUsec, begun: true}
	case passed >= peakUsec:
		p.before = p.now
		p.now = value
		p.since = nowUsec
	default:
		p.now = max(p.now, value)
	}
}

func (p *peak) largest() int64 { return max(p.now, p.before) }
