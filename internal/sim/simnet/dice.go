package simnet

import (
	"math"
	"math/rand/v2"
	"time"
)

// Dice draws what is random in a world.
type Dice struct{ R *rand.Rand }

// Chance is true with probability p.
func (d Dice) Chance(p float64) bool { return d.R.Float64() < p }

// Between draws a number from lo to hi.
func (d Dice) Between(lo, hi float64) float64 { return lo + (hi-lo)*d.R.Float64() }

// LogBetween draws a number from lo to hi, both above 0, evenly on a logarithmic scale.
func (d Dice) LogBetween(lo, hi float64) float64 { return lo * math.Pow(hi/lo, d.R.Float64()) }

// Span draws a span from lo to hi.
func (d Dice) Span(lo, hi time.Duration) time.Duration {
	return time.Duration(d.Between(float64(lo), float64(hi)))
}

// LogSpan draws a span from lo to hi, both above 0, evenly on a logarithmic scale.
func (d Dice) LogSpan(lo, hi time.Duration) time.Duration {
	return time.Duration(d.LogBetween(float64(lo), float64(hi)))
}

// Sign draws 1 or -1.
func (d Dice) Sign() float64 { return float64(1 - 2*d.R.IntN(2)) }
