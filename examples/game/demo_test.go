// These tests prove that the judge of a game finds what is wrong.

package main

import (
	"strings"
	"testing"
	"time"
)

const second = time.Second

// A meeting of 10 s, looked at ten times a second: when the two are in step for good, and what is said if
// that takes too long.
func TestMeeting(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name                string
		unknown             int // looks at the start
		apart, after5       time.Duration
		stalls, out, within time.Duration
		failed              string
	}{
		{name: "nothing"},
		{name: "apart by less than a tick", apart: 16 * ms, within: 16 * ms},
		{name: "apart by more", apart: 17 * ms, out: 10 * second, failed: "out of step for 10.0 s after the start of server"},
		{name: "apart once, after 5 s", after5: second, out: 5 * second, failed: "out of step for 5.0 s"},
		{name: "slow to start", unknown: 20, out: 2 * second},
		{name: "too slow to start", unknown: 21, out: 2100 * ms, failed: "2.1 s"},
		{name: "slow because it did not run", unknown: 21, out: 2100 * ms, stalls: 200 * ms},
	} {
		m := &meeting{player: "player 1", After: "server", begun: 10 * second, before: second}
		for i := 1; i <= 100; i++ {
			apart := tt.apart
			if i == 50 {
				apart += tt.after5
			}
			m.see(m.begun+time.Duration(i)*second/10, second+tt.stalls, apart, second/60, i > tt.unknown)
		}
		err := (&result{Meetings: []*meeting{m}}).check()
		if m.Length != 10*second || m.Out != tt.out || m.Apart != tt.within || (err == nil) != (tt.failed == "") {
			t.Errorf("%s: %+v, %v", tt.name, m, err)
		}
		if err != nil && !strings.Contains(err.Error(), tt.failed) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.failed)
		}
	}
	r := &result{}
	r.Ticks.Unreported = 1
	if err := r.check(); err == nil || !strings.Contains(err.Error(), "1 ticks were skipped or repeated") {
		t.Errorf("a tick that nobody told of: %v", err)
	}
}

// Of six late inputs a stall explains three: what was late in it, and soon after.
func TestStalls(t *testing.T) {
	r := result{counts: counts{InTime: 97, Late: 6}}
	for _, at := range []struct{ looked, now, late uint64 }{
		{1000, 1007, 1}, {2000, 2008, 2}, {2050, 2052, 3}, {2060, 2160, 4}, {2262, 2264, 5}, {2264, 2266, 6},
	} {
		r.ran(time.Duration(at.looked)*time.Millisecond, time.Duration(at.now)*time.Millisecond, at.late)
	}
	late, percent := r.wrong()
	if late != 3 || r.Waited != 3 || percent != 3 || r.long != second/10 || r.busy != 260*time.Millisecond {
		t.Errorf("%+v", r)
	}
}
