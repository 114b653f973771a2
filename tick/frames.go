// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"slices"
	"time"
)

// frameTimes is how long it was from one Advance to the next.
type frameTimes struct {
	last [16]time.Duration
	next int
}

func (f *frameTimes) add(length time.Duration) {
	f.last[f.next] = length
	f.next = (f.next + 1) % len(f.last)
}

// median returns the median of the last 16.
func (f *frameTimes) median() time.Duration {
	sorted := f.last
	slices.Sort(sorted[:])
	return sorted[len(sorted)/2]
}

// usual returns the third longest of the last 16: one or two slow frames say nothing of the next.
func (f *frameTimes) usual() time.Duration {
	sorted := f.last
	slices.Sort(sorted[:])
	return sorted[len(sorted)-3]
}
