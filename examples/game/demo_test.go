// This test proves that the judge of a game finds what is wrong.

package main

import (
	"strings"
	"testing"
	"time"
)

// A meeting of 10 s, looked at ten times a second: when the two are in step for good, and what is said if
// that takes too long. What this process stalls in the first second does not count, if it is long.
func TestMeeting(t *testing.T) {
	const ms, second = time.Millisecond, time.Second
	for _, tt := range []struct {
		name                string
		unknown             int // looks at the start
		apart, after5       time.Duration
		stall, out, stalled time.Duration
		failed              string
	}{
		{name: "nothing"},
		{name: "apart by less than a tick", apart: 16 * ms},
		{name: "apart by more", apart: 17 * ms, out: 10 * second, failed: "out of step for 10.0 s after the start of server"},
		{name: "apart once, after 5 s", after5: second, out: 5 * second, failed: "out of step for 5.0 s"},
		{name: "slow to start", unknown: 20, out: 2 * second},
		{name: "too slow to start", unknown: 21, out: 2100 * ms, failed: "2.1 s"},
		{name: "slow because it did not run", unknown: 21, stall: 200 * ms, stalled: 200 * ms, out: 1900 * ms},
		{name: "slow, and it stalled for too short", unknown: 21, stall: 99 * ms, stalled: 99 * ms, out: 2100 * ms, failed: "2.1 s"},
		{name: "it ran", stall: 7 * ms},
	} {
		m := &meeting{player: "player 1", After: "server", begun: 10 * second}
		d := demo{lasting: [2]*meeting{m, {}}, result: result{Meetings: []*meeting{m}}}
		for i := 1; i <= 100; i++ {
			apart := tt.apart
			if i == 50 {
				apart += tt.after5
			}
			if i == 10 {
				d.ran(tt.stall)
			}
			m.see(10*second+time.Duration(i)*second/10, apart, second/60, i > tt.unknown)
		}
		err := d.result.check()
		if m.Out != tt.out || m.Apart != tt.apart && m.Out < m.Length || d.Stalled != tt.stalled || (err == nil) != (tt.failed == "") {
			t.Errorf("%s: %+v, stalled %v, %v", tt.name, m, d.Stalled, err)
		}
		if err != nil && !strings.Contains(err.Error(), tt.failed) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.failed)
		}
	}
	if err := (&result{Unreported: 1}).check(); err == nil || !strings.Contains(err.Error(), "1 ticks were skipped or repeated") {
		t.Errorf("a tick that nobody told of: %v", err)
	}
}
