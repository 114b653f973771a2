// SPDX-License-Identifier: BSD-3-Clause

package jitter

import (
	"cmp"
	"time"
)

// restart is how far back the sender's clock must go to be another clock, and no reordering.
const restart = 10 * time.Second

// sending is when things were sent.
type sending struct {
	last     [12]uint32 // when the last ones were, microseconds
	known    int        // how many of last are
	next     int        // the place of the next one
	newest   time.Duration
	gaps     [7]time.Duration // from one to the next, of those that came in order
	gap      int              // the place of the next one
	interval time.Duration    // their median
}

// add takes when something was sent, and reports whether it has come before.
func (s *sending) add(sent time.Duration) (again bool) {
	stamp := uint32(sent / time.Microsecond)
	ahead := sent - s.newest
	if s.known > 0 && ahead <= 0 {
		for _, last := range s.last[:s.known] {
			if last == stamp {
				return true
			}
		}
	}
	first := s.known == 0
	s.last[s.next] = stamp
	s.next = (s.next + 1) % len(s.last)
	s.known = min(s.known+1, len(s.last))
	switch {
	case first || ahead < -restart:
		s.newest = sent
	case ahead > 0:
		s.newest = sent
		s.learn(ahead)
	}
	return false
}

// learn takes how long it was from one sending to the next.
func (s *sending) learn(gap time.Duration) {
	place := &s.gaps[s.gap%len(s.gaps)]
	full := s.gap >= len(s.gaps)
	same := full && cmp.Compare(*place, s.interval) == cmp.Compare(gap, s.interval)
	*place = gap
	if s.gap++; s.gap == 2*len(s.gaps) {
		s.gap = len(s.gaps)
	}
	if same { // on the same side of the median, which stays
		return
	}
	known := min(s.gap, len(s.gaps))
	sorted := s.gaps
	for i := 1; i < known; i++ {
		for k := i; k > 0 && sorted[k-1] > sorted[k]; k-- {
			sorted[k-1], sorted[k] = sorted[k], sorted[k-1]
		}
	}
	s.interval = sorted[known/2]
}
