// Readers do not allocate.

package tick

import "testing"

func TestReadsDoNotAllocate(t *testing.T) {
	l, _, _ := newClient(ClientConfig{})
	l.Advance(0)
	now := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += 17
		_, _ = l.SharedTime(now)
		_, _ = l.ServerTime(now)
		_, _ = l.PredictedTime(now)
		_, _ = l.Snapshot(now)
		_, _ = l.Epoch()
		l.Fraction(now)
		l.Accept(1, 216_000, now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
