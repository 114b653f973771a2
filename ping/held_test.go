// This test proves that replies that were held up together do not move the clock.

package ping

import (
	"testing"
	"time"

	"timesync/internal/stat"
)

// TestHeldUp: for some seconds the server hangs, or a segment of a stream is lost. All that was sent meanwhile
// is answered at once, in order. What was known before stays known: there is no step, and the delay stays.
func TestHeldUp(t *testing.T) {
	for _, length := range []time.Duration{sec, 5 * sec, 9 * sec, 15 * sec} {
		for _, up := range []bool{true, false} {
			w := newWorld(new(Clock))
			until := int64(0)
			held := func() int64 { return 30*usMs + max(until-w.t-30*usMs, 0) }
			if up {
				w.up = held
			} else {
				w.down = held
			}
			m := w.watch(t)
			w.keepPinging()
			w.run(30 * sec)
			until = w.t + length.Microseconds()
			from := len(m.errors)
			w.run(length + 10*sec)
			s, worst := w.snapshot(t), stat.SpreadOf(m.errors[from:]).Max
			t.Logf("up %v, %v: off by %d us at most, %d steps, delay %v", up, length, worst, s.Steps, s.MinimumOneWayDelay)
			if s.Steps != 0 || worst > 1000 || s.MinimumOneWayDelay > 31*ms {
				t.Error("it moved")
			}
		}
	}
}
