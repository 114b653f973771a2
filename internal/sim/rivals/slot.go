// SPDX-License-Identifier: BSD-3-Clause

package rivals

import (
	"slices"
	"time"
)

// Slot is Matt Slot's game clock: every 5 s a ping; if its round trip is among the
// best 20 % of the last 32 and the clock is over 3 ms off, the clock is set. The
// zero value is ready to use.
type Slot struct {
	pinged
	ring [32]uint64 // round trips, microseconds
	n    int
}

// OnExchange implements sim.Exchanger.
func (s *Slot) OnExchange(t1, t2, t3, t4 uint64) {
	const tooLate, wrong = 10_000_000, 3_000 // microseconds
	e := newEcho(t1, t2, t3, t4)
	if !s.due(t1, 5*time.Second) || e.rtt > tooLate {
		return
	}
	s.ring[s.n%len(s.ring)] = e.rtt
	s.n++
	sorted := s.ring
	known := sorted[:min(s.n, len(sorted))]
	slices.Sort(known)
	off := int64(e.offset - s.offset)
	if !s.synced || e.rtt <= known[(len(known)-1)/5] && max(off, -off) > wrong {
		s.set(e.offset)
	}
}
