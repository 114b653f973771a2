// SPDX-License-Identifier: BSD-3-Clause

// These tests prove what README says of Snapshot.Within: while it is nil the peer's clock is
// known to the tolerable error, from the first second on, after silences, steps and restarts. And how
// often one event counts.
package link_test

import (
	"strings"
	"testing"
	"time"

	"timesync/internal/sim"
)

// told is what Within said in a wire, and for how long, and for how long it was nil and wrong.
type told struct {
	said        map[string]time.Duration // at end A
	wrong, late time.Duration            // late is when it last was, since after
	after       time.Duration
}

// asks lets t be told what both ends say of a tolerable error.
func (t *told) asks(w *wire, tolerable time.Duration) {
	w.asked = func(side int) {
		s, ok := w.links[side].Snapshot(w.clocks[side].Usec(w.now))
		off, _ := w.err(side)
		err := s.Within(tolerable)
		if side == 0 {
			what := "nil"
			if err != nil {
				what = strings.TrimPrefix(err.Error(), "timesync: ")
			}
			t.said[what] += askEvery
		}
		if err == nil && (!ok || off > float64(tolerable.Microseconds())) {
			t.wrong, t.late = t.wrong+askEvery, w.now-t.after
		}
	}
}

func TestWithin(t *testing.T) {
	const seeds, start, event, after = 10, 16 * time.Second, 36 * time.Second, 30 * time.Second
	const noticed = 2100 * time.Millisecond // a report comes every 2 s
	events := []struct {
		name     string
		silent   time.Duration // from the event on nothing arrives for so long
		side     int           // whose clock is set then
		step     time.Duration
		restarts bool          // and the end starts anew
		wrong    time.Duration // so long after that at most it was nil and wrong
		reason   string        // which is to be said, if any
	}{
		{"silence of 2 min", 2 * time.Minute, 0, 0, false, 0, "no report from the peer for 15 s"},
		{"step of 200 ms", 0, 1, 200 * time.Millisecond, false, noticed, "a clock was set less than 15 s ago"},
		{"step of -10 s", 0, 0, -10 * time.Second, false, noticed, "a clock was set less than 15 s ago"},
		{"peer suspended for 2 min", 2 * time.Minute, 1, -2 * time.Minute, false, time.Second, "a clock was set less than 15 s ago"},
		{"own machine suspended for 2 min", 2 * time.Minute, 0, -2 * time.Minute, false, time.Second, "a clock was set less than 15 s ago"},
		{"peer restarted", 0, 1, 7 * time.Hour, true, time.Second, "nil"}, // unknown for some datagrams
	}
	for _, delay := range []time.Duration{20 * time.Microsecond, 50 * time.Millisecond} {
		for _, e := range events {
			for seed := range uint64(seeds) {
				over := event + e.silent
				w := newWire(seed, [2]float64{60, 60}, delay/20+20*time.Microsecond, e.side, over, e.step)
				for side := range w.out { // unequal, as ways are
					w.out[side].Base = sim.Fixed(delay * time.Duration(11-2*side) / 10)
					w.out[side].Loss = sim.Silence(sim.Window{From: event, To: over})
				}
				var said told
				until := func(at time.Duration) *told {
					said = told{said: map[string]time.Duration{}, after: w.now}
					said.asks(w, delay*6/5+200*time.Microsecond)
					w.run(at)
					return &said
				}
				if x := until(start); x.wrong > 0 || x.said["nil"] < 14*time.Second || x.said["the remote clock is not known yet"] > time.Second {
					t.Errorf("seed %d, %v each way: the start: %+v", seed, delay, x)
				}
				w.run(event)
				if x := until(over); x.said["nil"] > 16*time.Second || x.wrong > 0 {
					t.Errorf("seed %d, %v each way, during %s: %+v", seed, delay, e.name, x)
				}
				if e.restarts {
					w.links[e.side].Reset()
				}
				if x := until(over + after); x.late > e.wrong || x.said[e.reason] == 0 || x.said["nil"] == 0 {
					t.Errorf("seed %d, %v each way, %s: %+v", seed, delay, e.name, x)
				}
			}
		}
	}
}

// TestStepsOfOne: a clock that is set counts as one to four steps, all within 3 s.
func TestStepsOfOne(t *testing.T) {
	const at = 30 * time.Second
	for _, step := range []time.Duration{5 * time.Second, -5 * time.Second, 200 * time.Millisecond, 83 * time.Minute} {
		counts, last := map[uint32]int{}, time.Duration(0)
		for seed := range uint64(20) {
			w := newWire(seed, [2]float64{50, 50}, 3*time.Millisecond, int(seed%2), at, step)
			var before, now [2]uint32
			w.asked = func(side int) {
				s, _ := w.links[side].Snapshot(w.clocks[side].Usec(w.now))
				if w.now < at {
					before[side] = s.Steps
				} else if s.Steps != now[side] && s.Steps != before[side] {
					last = max(last, w.now-at)
				}
				now[side] = s.Steps
			}
			w.run(2 * at)
			for side := range now {
				n := now[side] - before[side]
				if counts[n]++; n < 1 || n > 4 {
					t.Errorf("seed %d: a clock set by %v is %d steps at end %d", seed, step, n, side)
				}
			}
		}
		t.Logf("a clock is set by %v: ends by steps %v, the last after %v", step, counts, last)
		if last > 3*time.Second {
			t.Errorf("a step %v after a clock was set by %v", last, step)
		}
	}
}
