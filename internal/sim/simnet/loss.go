package simnet

import (
	"math/rand/v2"
	"time"
)

// Loss reports whether the datagram sent at the true time t is lost. Like a Delay
// it may hold state, and time must not go back.
type Loss func(r *rand.Rand, t time.Duration) bool

// Bernoulli loses each datagram with probability p.
func Bernoulli(p float64) Loss {
	return func(r *rand.Rand, _ time.Duration) bool { return r.Float64() < p }
}

// GilbertElliott loses the share mean < 1 of the datagrams in bursts of the given
// mean length, which is at least 1.
func GilbertElliott(mean, burst float64) Loss {
	bad := false
	return func(r *rand.Rand, _ time.Duration) bool {
		if bad {
			bad = r.Float64() >= 1/burst
		} else {
			bad = r.Float64() < mean/(1-mean)/burst
		}
		return bad
	}
}

// Silence loses everything that is sent within the windows.
func Silence(windows ...Window) Loss {
	return func(_ *rand.Rand, t time.Duration) bool { return Within(windows, t) }
}

// AnyLoss loses what any of the losses loses.
func AnyLoss(losses ...Loss) Loss {
	return func(r *rand.Rand, t time.Duration) bool {
		lost := false
		for _, l := range losses { // every one sees every datagram
			lost = l(r, t) || lost
		}
		return lost
	}
}
