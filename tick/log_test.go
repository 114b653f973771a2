// This test proves that the clocks print as what they are in structured logs.

package tick_test

import (
	"testing"
	"time"

	"timesync/tick"
)

func TestLogValue(t *testing.T) {
	r := tick.Hz(50)
	c := tick.Clocks{SharedTime: r.At(100, 0), ServerTime: r.At(98, 10*time.Millisecond), PredictedTime: r.At(102, 5*time.Millisecond)}
	const want = "[shared=100.00 server=98.50 predicted=102.25 server_ahead_s=-0.03 predicted_ahead_s=0.045]"
	if got := c.LogValue().String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
