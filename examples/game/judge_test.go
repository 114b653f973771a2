// These tests prove that the judge of a game finds what is wrong: breaks of the order, and lives
// that do not meet.

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"timesync/clock"
	"timesync/tick"
)

const second = 1_000_000 // microseconds

// told makes what a server or a player says from one second to another: ten statuses a
// second, with a game that began at second 10.
func told(who string, from, to int64) *life {
	l := &life{who: who, killed: to * second}
	for at := from * second; at < to*second; at += second / 10 {
		s := status{Who: who, Wall: at, Epoch: 7, Game: at - 10*second}
		n := uint64(at-from*second) * ticksPerSecond / second
		s.Ticks.Ran = n
		if who == "server" {
			s.Inputs = &inputCounts{InTime: n}
		} else {
			s.Player = &playerCounts{InSync: true, Shown: n}
		}
		l.statuses = append(l.statuses, s)
	}
	return l
}

// The judge finds what is wrong.
func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name   string
		spoil  func(server, player *life) (relay []stretch)
		failed string
		right  func(r *result) bool
	}{
		{"nothing", nil, "", func(r *result) bool { return r.Meetings[0].Out == 0 && r.Late == 0 && r.Inputs.InTime == 594 }},
		{"apart by less than a tick", func(_, p *life) []stretch {
			for i := range p.statuses {
				p.statuses[i].Game += 16_000
			}
			return nil
		}, "", func(r *result) bool { return r.Meetings[0].Out == 0 && r.Meetings[0].Apart == 16 }},
		{"apart by more", func(_, p *life) []stretch {
			for i := range p.statuses {
				p.statuses[i].Game -= 17_000
			}
			return nil
		}, "out of step for 10.0 s", nil},
		{"apart once, after 5 s", func(_, p *life) []stretch {
			p.statuses[50].Game += 100_000
			return nil
		}, "out of step for 5.0 s", nil},
		{"slow to start", func(_, p *life) []stretch {
			for i := range 21 {
				p.statuses[i].Epoch = 0
			}
			return nil
		}, "", func(r *result) bool { return r.Meetings[0].Out == 2 }},
		{"too slow to start", func(_, p *life) []stretch {
			for i := range 22 {
				p.statuses[i].Epoch = 6
			}
			return nil
		}, "out of step for 2.1 s", nil},
		{"slow because it did not run", func(s, p *life) []stretch {
			for i := range 22 {
				p.statuses[i].Epoch = 6
			}
			both := []stretch{{10 * second, 10.2 * second}, {11 * second, 11.05 * second}} // one long
			p.statuses[25].Stalls, s.statuses[25].Stalls = both, both
			return nil
		}, "", func(r *result) bool { return r.Meetings[0].Out == 2.1 && r.Meetings[0].Stalled == 0.2 }},
		{"silent in the end", func(_, p *life) []stretch {
			p.statuses = p.statuses[:80]
			return nil
		}, "out of step for 10.0 s", nil},
		{"a server that says nothing", func(s, _ *life) []stretch {
			s.statuses = s.statuses[:80]
			return nil
		}, "out of step for 10.0 s", nil},
		{"a tick that nobody told of", func(s, _ *life) []stretch {
			s.statuses[99].Ticks.Unreported = 1
			return nil
		}, "1 ticks were skipped or repeated", nil},
		{"late inputs, half of them by the relay", func(s, _ *life) []stretch {
			s.statuses[99].Inputs = &inputCounts{InTime: 96, Late: 4}
			s.statuses[50].Lates = []stretch{{15 * second, 15.01 * second}, {15.9 * second, 15.91 * second}}
			s.statuses[60].Lates = []stretch{{16.1 * second, 16.2 * second}, {16.2 * second, 16.3 * second}}
			return []stretch{{14.92 * second, 14.93 * second}, {16.05 * second, 16.06 * second}}
		}, "", func(r *result) bool {
			return r.Late == 2.04 && r.Inputs == inputCounts{InTime: 96, Late: 2, Waited: 2} && r.Stalled == 2.2
		}},
	} {
		server, player := told("server", 10, 20), told("player 1", 10, 20)
		var relay []stretch
		if tt.spoil != nil {
			relay = tt.spoil(server, player)
		}
		r := judge([]*life{server, player, {who: "player 2"}}, relay, config{players: 1})
		if len(r.Meetings) != 1 || !strings.Contains(r.Failed, tt.failed) || (r.Failed == "") != (tt.failed == "") || tt.right != nil && !tt.right(r) {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
}

// Each life of a server meets each life of a player that it lives with, and no other.
func TestMeetings(t *testing.T) {
	r := judge([]*life{told("server", 10, 15), told("player 1", 11, 20), told("server", 16, 25), told("player 1", 21, 25)}, nil, config{})
	var got []string
	for _, m := range r.Meetings {
		got = append(got, fmt.Sprintf("%s after %s for %v s", m.Player, m.After, m.Length))
	}
	want := []string{"player 1 after player 1 for 4 s", "player 1 after server for 4 s", "player 1 after player 1 for 4 s"}
	if !slices.Equal(got, want) || r.Failed != "" {
		t.Errorf("%q, want %q; %s", got, want, r.Failed)
	}
	if r := judge(nil, nil, config{}); r.Failed != "" || len(r.Meetings) != 0 {
		t.Errorf("nothing said: %+v", r)
	}
}

func TestStalled(t *testing.T) {
	stalls := []stretch{{10, 20}, {12, 15}, {18, 30}, {50, 60}}
	for _, tt := range []struct{ from, to, want int64 }{
		{0, 100, 30}, {0, 10, 0}, {15, 25, 10}, {25, 55, 10}, {30, 50, 0}, {60, 50, 0},
	} {
		if got := stalled(stalls, tt.from, tt.to); got != tt.want {
			t.Errorf("%d to %d: %d, want %d", tt.from, tt.to, got, tt.want)
		}
	}
}

// The ledger finds every break of the order that was not told, and no other.
func TestLedger(t *testing.T) {
	event := func(kind tick.EventKind, first, last tick.Tick, again bool) tick.Event {
		return tick.Event{Kind: kind, First: first, Last: last, Again: again}
	}
	for _, tt := range []struct {
		name string
		of   []any // ticks and events
		want tickCounts
	}{
		{"in order", []any{5, 6, 7}, tickCounts{Ran: 3}},
		{"skipped", []any{5, event(tick.EventSkipped, 6, 8, false), 9}, tickCounts{Ran: 2, Skipped: 3}},
		{"stalled, and nothing skipped", []any{5, event(tick.EventStalled, 6, 5, false), 6}, tickCounts{Ran: 2}},
		{"repeated", []any{5, 6, 7, event(tick.EventStepped, 6, 7, true), 6, 7, 8}, tickCounts{Ran: 6, Repeated: 2}},
		{"before the first", []any{event(tick.EventSynced, 0, 0, false), 5}, tickCounts{Ran: 1}},
		{"another epoch", []any{5, event(tick.EventEpochChanged, 0, 0, false), event(tick.EventStepped, 2, 5, true), 2, 3}, tickCounts{Ran: 3}},
		{"another epoch, later", []any{5, event(tick.EventEpochChanged, 0, 0, false), event(tick.EventStepped, 6, 8, false), 9}, tickCounts{Ran: 2}},
		{"another epoch without a step", []any{5, event(tick.EventEpochChanged, 0, 0, false), 6}, tickCounts{Ran: 2, Unreported: 1}},
		{"skipped untold", []any{5, 7}, tickCounts{Ran: 2, Unreported: 1}},
		{"repeated untold", []any{5, 5}, tickCounts{Ran: 2, Unreported: 1}},
		{"another told", []any{5, event(tick.EventSkipped, 7, 8, false), 9}, tickCounts{Ran: 2, Unreported: 1}},
		{"fewer told", []any{5, event(tick.EventSkipped, 6, 7, false), 9}, tickCounts{Ran: 2, Skipped: 2, Unreported: 1}},
	} {
		var l ledger
		for _, x := range tt.of {
			switch x := x.(type) {
			case tick.Event:
				l.event(x)
			case int:
				l.ran(tick.Tick(x))
			}
		}
		if l.counts != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, l.counts, tt.want)
		}
	}
}

func TestWallMinusNow(t *testing.T) {
	// Within the second by which a test may be interrupted.
	if off := wallMinusNow() + int64(clock.Now()) - time.Now().UnixMicro(); off < -second || off > second {
		t.Errorf("the wall clock is off by %d us", off)
	}
}
