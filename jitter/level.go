// SPDX-License-Identifier: BSD-3-Clause

package jitter

import "time"

// recent is the last delays.
type recent struct {
	delays [7]time.Duration
	order  [7]uint8 // their places, the shortest first
	size   int      // how many there are
	next   int      // the place of the next one, and of the oldest if all are taken
}

// add takes a delay and returns the median.
func (r *recent) add(delay time.Duration) (median time.Duration) {
	if r.size == len(r.delays) {
		r.dropOldest()
	}
	r.delays[r.next] = delay
	i := r.size
	for ; i > 0 && r.delays[r.order[i-1]] > delay; i-- {
		r.order[i] = r.order[i-1]
	}
	r.order[i] = uint8(r.next)
	r.size++
	r.next = (r.next + 1) % len(r.delays)
	return r.delays[r.order[(r.size-1)/2]]
}

func (r *recent) dropOldest() {
	i := 0
	for int(r.order[i]) != r.next {
		i++
	}
	copy(r.order[i:], r.order[i+1:])
	r.size--
}
