// This test proves that the ledger finds each break of the order.
package inputs

import (
	"testing"

	"timesync/tick"
)

// TestLedger: it finds every break of the order that was not told, and no other.
func TestLedger(t *testing.T) {
	event := func(kind tick.EventKind, first, last tick.Tick, again bool) tick.Event {
		return tick.Event{Kind: kind, First: first, Last: last, Again: again}
	}
	for _, tt := range []struct {
		name string
		of   []any // ticks and events
		want Counts
	}{
		{"in order", []any{5, 6, 7}, Counts{Ran: 3}},
		{"skipped", []any{5, event(tick.EventSkipped, 6, 8, false), 9}, Counts{Ran: 2, Skipped: 3}},
		{"stalled, and nothing skipped", []any{5, event(tick.EventStalled, 6, 5, false), 6}, Counts{Ran: 2}},
		{"repeated", []any{5, 6, 7, event(tick.EventStepped, 6, 7, true), 6, 7, 8}, Counts{Ran: 6, Repeated: 2}},
		{"before the first", []any{event(tick.EventSynced, 0, 0, false), 5}, Counts{Ran: 1}},
		{"another epoch", []any{5, event(tick.EventEpochChanged, 0, 0, false), event(tick.EventStepped, 2, 5, true), 2, 3}, Counts{Ran: 3}},
		{"another epoch, later", []any{5, event(tick.EventEpochChanged, 0, 0, false), event(tick.EventStepped, 6, 8, false), 9}, Counts{Ran: 2}},
		{"another epoch without a step", []any{5, event(tick.EventEpochChanged, 0, 0, false), 6}, Counts{Ran: 2, Unreported: 1}},
		{"skipped untold", []any{5, 7}, Counts{Ran: 2, Unreported: 1}},
		{"repeated untold", []any{5, 5}, Counts{Ran: 2, Unreported: 1}},
		{"another told", []any{5, event(tick.EventSkipped, 7, 8, false), 9}, Counts{Ran: 2, Unreported: 1}},
		{"fewer told", []any{5, event(tick.EventSkipped, 6, 7, false), 9}, Counts{Ran: 2, Skipped: 2, Unreported: 1}},
	} {
		var l Ledger
		for _, x := range tt.of {
			switch x := x.(type) {
			case tick.Event:
				l.Event(x)
			case int:
				l.Ran(tick.Tick(x))
			}
		}
		if l.Counts != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, l.Counts, tt.want)
		}
	}
}
