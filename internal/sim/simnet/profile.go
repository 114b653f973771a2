package simnet

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// Profile is a line through knots in the order of time; two knots at one time are a jump. Before
// the first knot and after the last it stays as it is there.
type Profile []Knot

// Knot is a point of a Profile.
type Knot struct {
	At    time.Duration
	Value float64
}

// Value returns where the line is at t.
func (p Profile) Value(t time.Duration) float64 {
	next, _ := slices.BinarySearchFunc(p, t+1, func(k Knot, t time.Duration) int {
		return cmp.Compare(k.At, t)
	})
	from := p[max(next-1, 0)]
	if next == 0 || next == len(p) {
		return from.Value
	}
	to := p[next]
	return from.Value + (to.Value-from.Value)*float64(t-from.At)/float64(to.At-from.At)
}

// Factor is x for that long, and 1 before and after.
func Factor(at, lasting time.Duration, x float64) Profile {
	return Profile{{at, 1}, {at, x}, {at + lasting, x}, {at + lasting, 1}}
}

// Product returns the product of the profiles' values at t, which is 1 of none.
func Product(profiles []Profile, t time.Duration) float64 {
	v := 1.0
	for _, p := range profiles {
		v *= p.Value(t)
	}
	return v
}

// total returns the sum of the profiles' values at t, in nanoseconds.
func total(profiles []Profile, t time.Duration) time.Duration {
	v := 0.0
	for _, p := range profiles {
		v += p.Value(t)
	}
	return time.Duration(v)
}

// Shifted is a path of delay d that the profiles make longer or shorter, in nanoseconds. It is at
// least a twentieth of d.
func Shifted(d time.Duration, profiles []Profile) Base {
	return func(t time.Duration) time.Duration { return max(d+total(profiles, t), d/20) }
}

// Shaped is a queue whose height is the sum of the profiles, in nanoseconds.
func Shaped(profiles []Profile) Delay {
	return func(_ *rand.Rand, t time.Duration) time.Duration { return max(total(profiles, t), 0) }
}

// Scaled multiplies a delay by the product of the profiles.
func Scaled(d Delay, factors []Profile) Delay {
	return func(r *rand.Rand, t time.Duration) time.Duration {
		x := d(r, t)
		if x < 0 {
			return x
		}
		return time.Duration(float64(x) * Product(factors, t))
	}
}
