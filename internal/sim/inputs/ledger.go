// SPDX-License-Identifier: BSD-3-Clause

// Package ledger checks what package tick promises: each tick runs once and in order, and what does not
// is reported.
package inputs

import (
	"fmt"

	"timesync/tick"
)

// Ledger checks one end. The zero value knows no tick yet.
type Ledger struct {
	Counts Counts
	next   tick.Tick // what has to follow; known once a tick has run
	known  bool
	fresh  bool // the epoch has changed, and its first tick is not told yet
}

// Counts counts ticks.
type Counts struct {
	Ran        uint64
	Skipped    uint64 // as reported
	Repeated   uint64 // in the same epoch, as reported
	Unreported uint64 // breaks of the order that no event has told
}

// String is for people.
func (c Counts) String() string {
	s := fmt.Sprintf("%d ticks, %d skipped, %d repeated", c.Ran, c.Skipped, c.Repeated)
	if c.Unreported > 0 {
		s += fmt.Sprintf(", %d UNREPORTED", c.Unreported)
	}
	return s
}

// Event takes what tick reports.
func (l *Ledger) Event(e tick.Event) {
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
			l.Counts.Repeated += numbers
		}
	case e.First == l.next:
		l.next = e.Last + 1
		if !l.fresh {
			l.Counts.Skipped += numbers
		}
	}
	l.fresh = false
}

// Ran takes a tick that runs, and says what is wrong with it.
func (l *Ledger) Ran(n tick.Tick) (wrong string) {
	if l.known && (n != l.next || l.fresh) {
		wrong = fmt.Sprintf("UNREPORTED: tick %d runs, not %d", n, l.next)
		l.Counts.Unreported++
	}
	l.next, l.known = n+1, true
	l.Counts.Ran++
	return wrong
}
