// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"testing"

	"timesync/tick"
)

// TestLedger: it finds every break of the order that was not told, and no other.
func TestLedger(t *testing.T) {
	type event = tick.Event
	anew := event{Kind: tick.EventEpochChanged}
	skip := func(first, last tick.Tick) event {
		return event{Kind: tick.EventSkipped, First: first, Last: last}
	}
	stall := func(first, last tick.Tick) event {
		return event{Kind: tick.EventStalled, First: first, Last: last}
	}
	step := func(first, last tick.Tick, again bool) event {
		return event{Kind: tick.EventStepped, First: first, Last: last, Again: again}
	}
	for _, tt := range []struct {
		name string
		of   []any // ticks and events
		want tickCounts
	}{
		{"in order", []any{5, 6, 7}, tickCounts{ran: 3}},
		{"skipped", []any{5, skip(6, 8), 9}, tickCounts{ran: 2, skipped: 3}},
		{"stalled, and nothing skipped", []any{5, stall(6, 5), 6}, tickCounts{ran: 2}},
		{"repeated", []any{5, 6, 7, step(6, 7, true), 6, 7, 8}, tickCounts{ran: 6, repeated: 2}},
		{"before the first", []any{event{Kind: tick.EventSynced}, 5}, tickCounts{ran: 1}},
		{"another epoch", []any{5, anew, step(2, 5, true), 2, 3}, tickCounts{ran: 3}},
		{"another epoch, later", []any{5, anew, step(6, 8, false), 9}, tickCounts{ran: 2}},
		{"another epoch without a step", []any{5, anew, 6}, tickCounts{ran: 2, unreported: 1}},
		{"skipped untold", []any{5, 7}, tickCounts{ran: 2, unreported: 1}},
		{"repeated untold", []any{5, 5}, tickCounts{ran: 2, unreported: 1}},
		{"another told", []any{5, skip(7, 8), 9}, tickCounts{ran: 2, unreported: 1}},
		{"fewer told", []any{5, skip(6, 7), 9}, tickCounts{ran: 2, skipped: 2, unreported: 1}},
	} {
		var l ledger
		for _, x := range tt.of {
			switch x := x.(type) {
			case event:
				l.event(x)
			case int:
				l.ran(tick.Tick(x))
			}
		}
		if l.ticks != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, l.ticks, tt.want)
		}
	}
}
