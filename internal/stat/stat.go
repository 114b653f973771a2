// SPDX-License-Identifier: BSD-3-Clause

// Package stat sums up what tests, benchmarks and examples have measured.
package stat

import (
	"cmp"
	"math"
	"slices"
)

// Quantile sorts v and returns its quantile q, from 0, the least value, to 1, the largest. It
// panics if there are no values.
func Quantile[T cmp.Ordered](v []T, q float64) T {
	if !slices.IsSorted(v) {
		slices.Sort(v)
	}
	return v[int(q*float64(len(v)-1)+0.5)]
}

// OrNaN is Quantile, and NaN of no values.
func OrNaN(v []float64, q float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return Quantile(v, q)
}
