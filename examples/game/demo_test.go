// This test proves that the judge of a game finds what is wrong.

package main

import (
	"strings"
	"testing"
	"time"
)

// Two are in step from when their clocks are apart by no more than a tick for good. A long stall
// of this process puts the start off. A tick that nobody told of is a failure.
func TestStep(t *testing.T) {
	const ms, second = time.Millisecond, time.Second
	var s step
	for i, tt := range []struct {
		apart time.Duration
		known bool
		want  step
	}{
		{0, false, step{out: 0}},
		{16 * ms, true, step{apart: 16 * ms}},
		{17 * ms, true, step{out: 2 * second}},
		{9 * ms, true, step{out: 2 * second, apart: 9 * ms}},
		{3 * ms, true, step{out: 2 * second, apart: 9 * ms}},
		{0, false, step{out: 5 * second}},
	} {
		if s.see(time.Duration(i)*second, tt.apart, second/60, tt.known); s != tt.want {
			t.Errorf("at %d s: %+v, want %+v", i, s, tt.want)
		}
	}
	for took, want := range map[time.Duration]demo{
		7 * ms:   {},
		99 * ms:  {stalled: 99 * ms},
		100 * ms: {stalled: 100 * ms, begun: 100 * ms},
	} {
		var d demo
		if d.ran(took); d.stalled != want.stalled || d.begun != want.begun {
			t.Errorf("%v between two looks: stalled %v, put off by %v", took, d.stalled, d.begun)
		}
	}
	var d demo
	n := open(t, somewhere)
	n.ledger.ran(1)
	n.ledger.ran(3)
	if d.kill(n); d.failed == nil ||
		!strings.Contains(d.failed.Error(), "1 ticks were skipped or repeated") {
		t.Errorf("a tick that nobody told of: %v", d.failed)
	}
}
