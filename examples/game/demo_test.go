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
	always := func(apart time.Duration) func(int) (time.Duration, bool) {
		return func(int) (time.Duration, bool) { return apart, true }
	}
	for _, tt := range []struct {
		name   string
		looks  func(i int) (apart time.Duration, same bool)
		stalls time.Duration
		out    time.Duration
		apart  time.Duration
		failed string
	}{
		{name: "nothing", looks: always(0)},
		{name: "apart by less than a tick", looks: always(16 * time.Millisecond), apart: 16 * time.Millisecond},
		{name: "apart by more", looks: always(17 * time.Millisecond), out: 10 * second, failed: "out of step for 10.0 s after the start of server"},
		{name: "apart once, after 5 s", looks: func(i int) (time.Duration, bool) {
			if i == 50 {
				return second, true
			}
			return 0, true
		}, out: 5 * second, failed: "out of step for 5.0 s"},
		{name: "slow to start", looks: func(i int) (time.Duration, bool) { return 0, i > 20 }, out: 2 * second},
		{name: "too slow to start", looks: func(i int) (time.Duration, bool) { return 0, i > 21 }, out: 2100 * time.Millisecond, failed: "2.1 s"},
		{name: "slow because it did not run", looks: func(i int) (time.Duration, bool) { return 0, i > 21 }, out: 2100 * time.Millisecond, stalls: second / 5},
	} {
		m := &meeting{player: "player 1", After: "server", begun: 10 * second, before: second}
		for i := 1; i <= 100; i++ {
			apart, same := tt.looks(i)
			m.see(m.begun+time.Duration(i)*second/10, second+tt.stalls, apart, same, second/60)
		}
		if m.Length != 10*second || m.Out != tt.out || m.Apart != tt.apart {
			t.Errorf("%s: %+v", tt.name, m)
		}
		err := (&result{Meetings: []*meeting{m}}).check()
		if (err == nil) != (tt.failed == "") || err != nil && !strings.Contains(err.Error(), tt.failed) {
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
