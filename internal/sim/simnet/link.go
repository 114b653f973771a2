package simnet

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Base is the delay that a path has at the true time t without any queue. It is
// what no end can see of an asymmetry, so it has no randomness.
type Base func(t time.Duration) time.Duration

// Window is a span of true time, From included and To excluded.
type Window struct{ From, To time.Duration }

// Within reports whether t is in one of the windows.
func Within(windows []Window, t time.Duration) bool {
	return slices.ContainsFunc(windows, func(w Window) bool { return t >= w.From && t < w.To })
}

// Resumes returns t, or the end of the window that holds t.
func Resumes(windows []Window, t time.Duration) time.Duration {
	for _, w := range windows {
		if t >= w.From && t < w.To {
			t = w.To
		}
	}
	return t
}

// Link is one direction of a path. The zero value delivers at once. A link holds
// state: use it in one run only.
type Link struct {
	Base      Base    // nil is no delay
	Delay     Delay   // on top of Base; nil is none
	Loss      Loss    // nil loses nothing
	Duplicate float64 // share of the datagrams that arrive twice
	FIFO      bool    // no datagram overtakes another

	last time.Duration    // latest arrival
	buf  [2]time.Duration // what Arrivals returns
}

// Arrivals returns when the datagram sent at the true time t arrives: never if it
// is lost, twice if it is duplicated. The result is valid until the next call.
// Successive calls must not go back in time.
func (l *Link) Arrivals(r *rand.Rand, t time.Duration) []time.Duration {
	copies := 1
	if l.Duplicate > 0 && r.Float64() < l.Duplicate {
		copies = 2
	}
	if l.Loss != nil && l.Loss(r, t) {
		copies = 0
	}
	out := l.buf[:0]
	for range copies {
		delay := time.Duration(0)
		if l.Delay != nil {
			delay = l.Delay(r, t)
		}
		if delay < 0 {
			continue
		}
		at := max(t+l.BaseAt(t)+delay, t)
		if l.FIFO {
			at = max(at, l.last)
			l.last = at
		}
		out = append(out, at)
	}
	return out
}

// BaseAt returns the link's delay without any queue at the true time t.
func (l *Link) BaseAt(t time.Duration) time.Duration {
	if l.Base == nil {
		return 0
	}
	return l.Base(t)
}

// Fixed is a path that stays.
func Fixed(d time.Duration) Base { return func(time.Duration) time.Duration { return d } }

// RouteStep changes the delay of a path by Change from the true time At on.
type RouteStep struct{ At, Change time.Duration }

// Route is a path of delay d that changes with every step; the changes add up.
func Route(d time.Duration, steps ...RouteStep) Base {
	return func(t time.Duration) time.Duration {
		sum := d
		for _, s := range steps {
			if t >= s.At {
				sum += s.Change
			}
		}
		return sum
	}
}
