// Messages that come at a bad time, or say what cannot be.

package tick

import (
	"math"
	"testing"
	"time"
)

// newHushed is a way on which nothing comes but what welcome sends.
func newHushed(t *testing.T) *way {
	w := newWay(t, ClientConfig{})
	w.every, w.mute = math.MaxUint64, true
	return w
}

// welcome lets what the server says now arrive at once.
func (w *way) welcome() {
	w.t.Helper()
	welcome, _ := w.server.Announce(1, w.now)
	must(w.t, w.client.OnWelcome(welcome, w.now))
}

// Where both pause at the same times no clock steps, whichever Welcomes are lost: also if the last
// one that came was sent in the pause, or before it, or arrives only after it. Where one of them pauses
// alone, the client steps once.
func TestPause(t *testing.T) {
	for name, tt := range map[string]struct {
		server, client bool          // who pauses, for 2 s
		inPause        bool          // Welcomes arrive
		delayed        bool          // one of before arrives after it
		after          time.Duration // when the first one after it comes
		joins          bool          // the client is started in the pause
		want           string
	}{
		"both":                        {true, true, true, false, ms(900), false, "[synced]"},
		"none in the pause":           {true, true, false, false, ms(900), false, "[synced]"},
		"one of before comes after":   {true, true, false, true, ms(900), false, "[synced]"},
		"in the pause, and of before": {true, true, true, true, ms(10), false, "[synced]"},
		"at once":                     {true, true, true, false, 0, false, "[synced]"},
		"the server alone":            {true, false, true, false, ms(500), false, "[synced stepped by -1.9s, ticks 94 to 207 run again]"},
		"the client joins":            {true, false, true, false, ms(500), true, "[synced]"},
		"the client alone":            {false, true, false, false, sec, false, "[synced stepped by 1.9s, ticks 124 to 236 skipped]"},
	} {
		w := newHushed(t)
		w.welcome()
		w.run(sec)
		old, _ := w.server.Announce(1, w.now)
		if tt.server {
			w.server.Pause(w.now)
		}
		if tt.client {
			w.client.Pause(w.now)
		}
		if tt.joins {
			w.client.Stop()
			w.rec = recorder{}
			w.client.Start(w.now)
		}
		frozen, _ := w.client.PredictedTime(w.now + readerMargin)
		ran := len(w.rec.ticks)
		for _, d := range []time.Duration{ms(100), sec, ms(800)} {
			w.run(d)
			if tt.inPause {
				w.welcome()
			}
		}
		if got, _ := w.client.PredictedTime(w.now); tt.client && (got.Sub(frozen) != 0 || len(w.rec.ticks) != ran) {
			t.Errorf("%s: the pause moved time from %v to %v and ran %d ticks", name, frozen, got, len(w.rec.ticks)-ran)
		}
		w.server.Resume(w.now)
		w.client.Resume(w.now)
		if tt.delayed {
			_ = w.client.OnWelcome(old, w.now+1000)
		}
		w.run(tt.after)
		w.welcome()
		w.run(2 * sec)
		w.welcome()
		w.run(2 * sec)
		ours, _ := w.client.SharedTime(w.now)
		theirs, _ := w.server.SharedTime(w.now)
		check(t, ours.Sub(theirs), 0, "%s: apart", name)
		if tt.client && w.rec.ticks[ran] != w.rec.ticks[ran-1]+1 {
			t.Errorf("%s: ticks %v around the pause", name, w.rec.ticks[ran-1:ran+1])
		}
		w.rec.told(t, name, tt.want)
	}
}
