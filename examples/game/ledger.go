// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"

	"timesync/tick"
)

// ledger checks what package tick promises an end: each tick runs once and in order, and an event
// tells of every one that does not. The zero value knows no tick yet.
type ledger struct {
	ticks tickCounts
	next  tick.Tick // what has to follow; known once a tick has run
	known bool
	fresh bool // the epoch has changed, and its first tick is not told yet
}

// tickCounts counts ticks.
type tickCounts struct {
	ran        uint64
	skipped    uint64 // as reported
	repeated   uint64 // in the same epoch, as reported
	unreported uint64 // breaks of the order that no event has told
}

// String is for people.
func (c tickCounts) String() string {
	s := fmt.Sprintf("%d ticks, %d skipped, %d repeated", c.ran, c.skipped, c.repeated)
	if c.unreported > 0 {
		s += fmt.Sprintf(", %d UNREPORTED", c.unreported)
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
		l.jump(e)
		l.fresh = false
	}
}

// jump takes an event that may leave ticks out, or let them run again. The ticks of another epoch
// are others, so they do not count as skipped or repeated.
func (l *ledger) jump(e tick.Event) {
	numbers := e.Last - e.First + 1
	if !l.known || numbers <= 0 {
		return
	}
	switch {
	case e.Again:
		l.next = e.First
		if !l.fresh {
			l.ticks.repeated += uint64(numbers)
		}
	case e.First == l.next:
		l.next = e.Last + 1
		if !l.fresh {
			l.ticks.skipped += uint64(numbers)
		}
	}
}

// ran takes a tick that runs, and says what is wrong with it; "" is nothing.
func (l *ledger) ran(n tick.Tick) (wrong string) {
	if l.known && (n != l.next || l.fresh) {
		wrong = fmt.Sprintf("UNREPORTED: tick %d runs, not %d", n, l.next)
		l.ticks.unreported++
	}
	l.next = n + 1
	l.known = true
	l.ticks.ran++
	return wrong
}
