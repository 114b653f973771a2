// These tests prove that a sleep is noticed once, and that a wall clock that is set back does no
// harm.

package clock

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSleepWatch(t *testing.T) {
	for _, c := range []struct {
		name  string
		ahead []time.Duration // of the clock that runs on, at each call
		slept []time.Duration
	}{
		{"the first call knows no sleep", []time.Duration{10 * sec}, []time.Duration{0}},
		{
			"a sleep is told once",
			[]time.Duration{sec, 41 * sec, 41 * sec},
			[]time.Duration{0, 40 * sec, 0},
		},
		{"two sleeps", []time.Duration{0, sec, 3 * sec}, []time.Duration{0, sec, 2 * sec}},
		{
			"an interruption between two readings is no sleep",
			[]time.Duration{0, 5 * ms, 0},
			[]time.Duration{0, 0, 0},
		},
		{
			"what is slewed for long adds up",
			[]time.Duration{0, 15 * ms, 30 * ms},
			[]time.Duration{0, 0, 30 * ms},
		},
		{
			"a wall clock that is set back is no sleep, and hides none after it",
			[]time.Duration{0, -60 * sec, -50 * sec},
			[]time.Duration{0, 0, 10 * sec},
		},
	} {
		call := 0
		w := SleepWatch{read: func() time.Duration { return c.ahead[call] }}
		for call = range c.ahead {
			check(t, w.Slept(), c.slept[call], "%s, call %d", c.name, call)
		}
	}
}

// TestSleepWatchShared: whoever asks first is told, and nobody else.
func TestSleepWatchShared(t *testing.T) {
	var ahead, told atomic.Int64
	w := SleepWatch{read: func() time.Duration { return time.Duration(ahead.Load()) }}
	w.Slept()
	ahead.Store(int64(30 * sec))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { told.Add(int64(w.Slept())) })
	}
	all.Wait()
	check(t, time.Duration(told.Load()), 30*sec, "told in all")
}

// TestNoSleep: this machine does not sleep while it runs this test, and a bubble never does.
func TestNoSleep(t *testing.T) {
	const least = 500 * ms // a virtual machine may be paused for as long
	var w SleepWatch
	w.Slept()
	if slept := w.Slept(); slept > least {
		t.Errorf("slept for %v", slept)
	}
	synctest.Test(t, func(t *testing.T) {
		var w SleepWatch
		w.Slept()
		time.Sleep(time.Hour)
		if slept := w.Slept(); slept > least {
			t.Errorf("slept for %v in a bubble", slept)
		}
	})
}
