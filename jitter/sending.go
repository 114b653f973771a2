// SPDX-License-Identifier: BSD-3-Clause

package jitter

import "time"

// restart is how far back the sender's clock must go to be another clock, and no reordering.
const restart = 10 * time.Second

// sending is when the last things were sent.
type sending struct {
	times [12]time.Duration // the earliest first
	known int               // how many there are
}

// add takes when something was sent, and reports whether it has come before.
func (s *sending) add(sent time.Duration) (again bool) {
	if s.known > 0 && s.times[s.known-1]-sent > restart {
		s.known = 0
	}
	at := s.known
	for at > 0 && s.times[at-1]-sent > 0 {
		at--
	}
	if at > 0 && s.times[at-1] == sent {
		return true
	}
	if s.known < len(s.times) {
		copy(s.times[at+1:s.known+1], s.times[at:s.known])
		s.known++
	} else if at > 0 {
		at--
		copy(s.times[:at], s.times[1:at+1])
	} else {
		return false // older than all that are known
	}
	s.times[at] = sent
	return false
}

// interval returns the median of the last 7 gaps, or of those that are known.
func (s *sending) interval() time.Duration {
	var gaps [7]time.Duration
	known := min(s.known-1, len(gaps))
	if known < 1 {
		return 0
	}
	for i := range known {
		gap := s.times[s.known-1-i] - s.times[s.known-2-i]
		k := i
		for ; k > 0 && gaps[k-1] > gap; k-- {
			gaps[k] = gaps[k-1]
		}
		gaps[k] = gap
	}
	return gaps[known/2]
}
