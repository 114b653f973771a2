// These tests prove that the judge of a game finds what is wrong, as lives that do not meet, and that
// a process notices when it does not run.

package judge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"timesync/clock"
)

const (
	second   = 1_000_000 // microseconds
	second60 = time.Second / 60
)

// told makes what a server or a player says from one second to another: ten statuses a
// second, with a game that began at second 10.
func told(who string, from, to int64) *life {
	l := &life{who: who, killed: to * second}
	for at := from * second; at < to*second; at += second / 10 {
		s := Status{Who: who, Wall: at, Epoch: 7, Game: at - 10*second}
		n := uint64(at-from*second) * 60 / second
		s.Ticks.Ran = n
		if who == "server" {
			s.Inputs = &InputCounts{InTime: n}
		} else {
			s.Player = &PlayerCounts{Shown: n}
		}
		l.statuses = append(l.statuses, s)
	}
	return l
}

// The judge finds what is wrong with a server and a player that live from second 10 to 20.
func TestJudge(t *testing.T) {
	stalls := []Stretch{{14.92 * second, 14.93 * second}, {16.05 * second, 16.06 * second}}
	for _, tt := range []struct {
		name   string
		apart  int64 // how far the player's clock is off, us
		lost   int   // how many of its statuses are of another epoch
		spoil  func(server, player *life)
		relay  []Stretch // stalls
		failed string
		right  func(r *Result) bool
	}{
		{name: "nothing", right: func(r *Result) bool {
			return r.Meetings[0].Out == 0 && r.Late == 0 && r.Inputs.InTime == 594
		}},
		{name: "apart by less than a tick", apart: 16_000, right: func(r *Result) bool {
			return r.Meetings[0].Out == 0 && r.Meetings[0].Apart == 16
		}},
		{name: "apart by more", apart: -17_000, failed: "out of step for 10.0 s"},
		{name: "apart once, after 5 s", failed: "out of step for 5.0 s", spoil: func(_, p *life) {
			p.statuses[50].Game += 100_000
		}},
		{name: "slow to start", lost: 21, right: func(r *Result) bool { return r.Meetings[0].Out == 2 }},
		{name: "too slow to start", lost: 22, failed: "out of step for 2.1 s"},
		{name: "slow because it did not run", lost: 22, spoil: func(s, p *life) {
			// One of them is long.
			both := []Stretch{{10 * second, 10.2 * second}, {11 * second, 11.05 * second}}
			p.statuses[25].Stalls, s.statuses[25].Stalls = both, both
		}, right: func(r *Result) bool {
			return r.Meetings[0].Out == 2.1 && r.Meetings[0].Stalled == 0.2
		}},
		{name: "silent in the end", failed: "out of step for 10.0 s", spoil: func(_, p *life) {
			p.statuses = p.statuses[:80]
		}},
		{name: "a server that says nothing", failed: "out of step for 10.0 s", spoil: func(s, _ *life) {
			s.statuses = s.statuses[:80]
		}},
		{name: "a tick that nobody told of", failed: "1 ticks were skipped or repeated", spoil: func(s, _ *life) {
			s.statuses[99].Ticks.Unreported = 1
		}},
		{name: "late inputs, half of them by the relay", spoil: func(s, _ *life) {
			s.statuses[99].Inputs = &InputCounts{InTime: 96, Late: 4}
			s.statuses[50].Lates = []Stretch{{15 * second, 15.01 * second}, {15.9 * second, 15.91 * second}}
			s.statuses[60].Lates = []Stretch{{16.1 * second, 16.2 * second}, {16.2 * second, 16.3 * second}}
		}, relay: stalls, right: func(r *Result) bool {
			return r.Late == 2.04 && r.Inputs == InputCounts{InTime: 96, Late: 2, Waited: 2} && r.Stalled == 2.2
		}},
	} {
		server, player := told("server", 10, 20), told("player 1", 10, 20)
		for i := range player.statuses {
			player.statuses[i].Game += tt.apart
			if i < tt.lost {
				player.statuses[i].Epoch = 6
			}
		}
		if tt.spoil != nil {
			tt.spoil(server, player)
		}
		r := judge([]*life{server, player}, tt.relay, Config{Tick: second60})
		failed := strings.Contains(r.Failed, tt.failed) && (r.Failed == "") == (tt.failed == "")
		if len(r.Meetings) != 1 || !failed || tt.right != nil && !tt.right(r) {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
}

// Each life of a server meets each life of a player that it lives with, and no other.
func TestMeetings(t *testing.T) {
	lives := []*life{told("server", 10, 15), told("player 1", 11, 20), told("server", 16, 25), told("player 1", 21, 25)}
	r := judge(lives, nil, Config{Tick: second60})
	var got []string
	for _, m := range r.Meetings {
		got = append(got, fmt.Sprintf("%s after %s for %v s", m.Player, m.After, m.Length))
	}
	want := []string{"player 1 after player 1 for 4 s", "player 1 after server for 4 s", "player 1 after player 1 for 4 s"}
	if !slices.Equal(got, want) || r.Failed != "" {
		t.Errorf("%q, want %q; %s", got, want, r.Failed)
	}
}

// TestStatus: a status is of the time that it is asked for, and what was noted is said once.
func TestStatus(t *testing.T) {
	n := NewNotes("server")
	n.Say("a sentence")
	s := n.Status(n.begun + 3*second)
	// The test may be interrupted.
	if off := s.Wall - time.Now().UnixMicro() - 3*second; off < -second || off > second {
		t.Errorf("the wall clock is off by %d us", off)
	}
	if s.Seconds != 3 || !slices.Equal(s.Events, []string{"a sentence"}) {
		t.Errorf("after 3 s: %+v", s)
	}
	if s = n.Status(n.begun + 4*second); s.Seconds != 4 || s.Events != nil {
		t.Errorf("after 4 s: %+v", s)
	}
}

// TestWatchStalls: a process that does not run notices.
func TestWatchStalls(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	n := NewNotes("")
	last := n.Wall()
	n.WatchStalls(ctx)
	for _, s := range n.Status(clock.Now()).Stalls {
		if s[0] < last || time.Duration(s[1]-s[0])*time.Microsecond < stallProbe+stallLeast {
			t.Errorf("stalled from and to %v after %v", s, last)
		}
		last = s[1]
	}
}
