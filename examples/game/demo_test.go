// This test proves that the judge of a game finds what is wrong.

package main

import (
	"strings"
	"testing"
	"time"
)

// After a start two are looked at ten times a second, for 10 s: when they are in step for good. A long stall of this
// process in the first second does not count.
func TestStep(t *testing.T) {
	const ms, second = time.Millisecond, time.Second
	for _, tt := range []struct {
		name          string
		unknown       int // looks at the start
		apart, after5 time.Duration
		stall, out    time.Duration
	}{
		{name: "nothing"},
		{name: "apart by less than a tick", apart: 16 * ms},
		{name: "apart by more", apart: 17 * ms, out: 10 * second},
		{name: "apart once, after 5 s", after5: second, out: 5 * second},
		{name: "slow to start", unknown: 21, out: 2100 * ms},
		{name: "slow because it did not run", unknown: 21, stall: 200 * ms, out: 1900 * ms},
		{name: "slow, and it stalled for too short", unknown: 21, stall: 99 * ms, out: 2100 * ms},
	} {
		d, s := demo{begun: 10 * second}, step{}
		for i := 1; i <= 100; i++ {
			apart := tt.apart
			if i == 50 {
				apart += tt.after5
			}
			if d.ran(7 * ms); i == 10 { // nothing but a look, each time
				d.ran(tt.stall)
			}
			s.see(10*second+time.Duration(i)*second/10-d.begun, apart, second/60, i > tt.unknown)
		}
		if within := s.apart == tt.apart || s.out == 10*second; s.out != tt.out || !within || d.stalled != tt.stall {
			t.Errorf("%s: %+v, stalled %v", tt.name, s, d.stalled)
		}
	}
	var d demo
	n := open(t, somewhere)
	n.ledger.Ran(1)
	n.ledger.Ran(3)
	if d.kill(n); d.failed == nil || !strings.Contains(d.failed.Error(), "1 ticks were skipped or repeated") {
		t.Errorf("a tick that nobody told of: %v", d.failed)
	}
}
