// SPDX-License-Identifier: BSD-3-Clause

package testkit

import (
	"cmp"
	"fmt"
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

// Spread sums up the sizes of many errors, in microseconds.
type Spread struct {
	Samples int
	Median  int64
	P99     int64
	Max     int64
}

// SpreadOf returns the spread of errors, whose signs do not count.
func SpreadOf(errs []int64) Spread {
	if len(errs) == 0 {
		return Spread{}
	}
	sizes := make([]int64, len(errs))
	for i, e := range errs {
		sizes[i] = max(e, -e)
	}
	return Spread{len(sizes), Quantile(sizes, 0.5), Quantile(sizes, 0.99), Quantile(sizes, 1)}
}

// String returns the median, the 99th percentile and the largest.
func (s Spread) String() string {
	if s.Samples == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d/%d", s.Median, s.P99, s.Max)
}
