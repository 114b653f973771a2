// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"

	"timesync/tick"
)

// ledger checks what tick promises: each tick runs once and in order, and what does not
// is reported.
type ledger struct {
	counts tickCounts
	next   tick.Tick // what has to follow; known once a tick has run
	known  bool
	fresh  bool // the epoch has changed, and its first tick is not told yet
}

type tickCounts struct {
	Ran        uint64 `json:"ran"`
	Skipped    uint64 `json:"skipped"`    // as reported
	Repeated   uint64 `json:"repeated"`   // in the same epoch, as reported
	Unreported uint64 `json:"unreported"` // breaks of the order that no event has told
}

func (c tickCounts) String() string {
	s := fmt.Sprintf("%d ticks, %d skipped, %d repeated", c.Ran, c.Skipped, c.Repeated)
	if c.Unreported > 0 {
		s += fmt.Sprintf(", %d UNREPORTED", c.Unreported)
	}
	return s
}

// event takes what tick reports.
func (l *ledger) event(e tick.Event) {
	switch e.Kind {
	case tick.EventEpochChanged:
		l.fresh = true
		return
	case tick.EventStepped, tick.EventStalled, tick.EventSkipped:
	default:
		return
	}
	numbers := uint64(max(e.Last-e.First+1, 0))
	switch {
	case !l.known || numbers == 0:
	case e.Again:
		l.next = e.First
		if !l.fresh { // the ticks of another epoch are others
			l.counts.Repeated += numbers
		}
	case e.First == l.next:
		l.next = e.Last + 1
		if !l.fresh {
			l.counts.Skipped += numbers
		}
	}
	l.fresh = false
}

// ran takes a tick that runs, and says what is wrong with it.
func (l *ledger) ran(n tick.Tick) (wrong string) {
	if l.known && (n != l.next || l.fresh) {
		wrong = fmt.Sprintf("UNREPORTED: tick %d runs, not %d", n, l.next)
		l.counts.Unreported++
	}
	l.next, l.known = n+1, true
	l.counts.Ran++
	return wrong
}
