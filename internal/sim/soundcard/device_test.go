// This test proves that a card plays at its rate, and that the pipe before it shows what it has
// not taken.
package soundcard

import (
	"testing"
	"time"
)

func TestDevice(t *testing.T) {
	const ms, rate = time.Millisecond, 48_000
	d := New(time.Second, rate, -1000)
	if heard := d.Write(time.Second, 4800); heard != time.Second {
		t.Errorf("heard at %v", heard)
	}
	// It has taken 40 ms of 100.
	if got := d.Queued(time.Second); got < 6*480 || got > 7*480 {
		t.Errorf("%d samples in the pipe, want 60 to 70 ms", got)
	}
	heard := d.Write(time.Second, 960)
	if off := heard - time.Second - 100*ms*1001/1000; off.Abs() > ms/100 {
		t.Errorf("the next one is heard %v too late", off)
	}
	d.Still = true
	before := d.Queued(1010 * ms)
	if after := d.Queued(1500 * ms); after != before {
		t.Errorf("it stands still, and %d of %d samples wait", after, before)
	}
	d.Still = false
	if left := d.Queued(3 * time.Second); left != 0 {
		t.Errorf("%d samples wait", left)
	}
	if heard := d.Write(3*time.Second, 1); heard != 3*time.Second {
		t.Errorf("heard at %v after silence", heard)
	}
}
