// These tests prove which exchange is chosen, rule by rule.

package ping

import (
	"slices"
	"testing"
	"time"

	"timesync/internal/sim/rivals"
	"timesync/internal/testkit"
)

// trips makes a window of round trips in ms, a second apart, whose newest exchange
// finds the clock 1 s off.
func trips(all ...int) []Sample {
	var w []Sample
	for i, trip := range all {
		w = append(w, Sample{
			RoundTrip: time.Duration(trip) * ms,
			Age:       time.Duration(len(all)-1-i) * sec,
			Error:     sec,
		})
	}
	return w
}

// with makes the exchange i of a window so old, and its round trip so long.
func with(window []Sample, i int, age, trip time.Duration) []Sample {
	window[i].Age, window[i].RoundTrip = age, trip
	return window
}

func repeat(n, trip int) []int { return slices.Repeat([]int{trip}, n) }

func TestRules(t *testing.T) {
	slowAgain := func(n int) []Sample {
		return trips(append(repeat(64-n, 40), repeat(n, 140)...)...)
	}
	for _, x := range []struct {
		name   string
		rule   Rule
		window []Sample
		want   int
	}{
		{"latest", Latest, trips(1, 2, 3), 2},
		{"only one", MinDelay, trips(5), 0},
		{"shortest", MinDelay, trips(50, 40, 60), 1},
		{"newest of equals", MinDelay, trips(40, 40, 40), 2},
		{"age counts: a second is worth 30 us", MinDelay, with(trips(40, 40), 0, sec, 40*ms-29*us), 1},
		{"but little", MinDelay, with(trips(40, 40), 0, sec, 40*ms-31*us), 0},
		{"oldest of equal costs", MinDelay, with(trips(40, 40), 0, sec, 40*ms-30*us), 0},
		{"at 5 s", MinDelay, with(trips(repeat(10, 40)...), 0, 5*sec, 30*ms), 0},
		{"beyond 5 s", MinDelay, with(trips(repeat(10, 40)...), 1, 5*sec+1, 30*ms), 9},
		{"the last 8 at any age", MinDelay, with(trips(30, 40, 50), 0, 100*sec, 30*ms), 0},
		{"older than 5 s and beyond 8", MinDelay, trips(10, 20, 30, 40, 41, 42, 43, 44, 45, 46), 2},

		{"first", SlotPercentile, trips(40), 0},
		{"best fifth of 5", SlotPercentile, trips(41, 42, 43, 44, 40), 4},
		{"second of 5", SlotPercentile, trips(41, 42, 43, 40, 41), -1},
		{"second of 6", SlotPercentile, trips(45, 42, 43, 44, 40, 41), 5},
		{"slow", SlotPercentile, trips(40, 41, 42, 43, 44), -1},
		{"blind", SlotPercentile, slowAgain(51), -1},
		{"no longer blind", SlotPercentile, slowAgain(52), 63},
		{"blind to 7", Percentile, slowAgain(7), -1},
		{"not to 8", Percentile, slowAgain(8), 63},
		{"nor to more", Percentile, slowAgain(30), 63},
		{"a spike is no route", Percentile, trips(append(repeat(63, 40), 140)...), -1},
	} {
		check(t, x.rule(x.window), x.want, "%s", x.name)
	}
}

// TestTolerance: 3 ms after the first exchange, 7 ms with a full window.
func TestTolerance(t *testing.T) {
	for _, x := range []struct {
		samples int
		most    time.Duration
	}{{1, 3 * ms}, {64, 7 * ms}, {32, 3*ms + 4*ms*31/63}, {100, 7 * ms}} {
		for _, rule := range []Rule{Percentile, SlotPercentile} {
			for _, sign := range []time.Duration{-1, 1} {
				w := trips(repeat(x.samples, 40)...)
				newest := &w[len(w)-1]
				newest.Error = sign * x.most
				check(t, rule(w), -1, "%d samples, %v off", x.samples, newest.Error)
				newest.Error += sign * us
				check(t, rule(w), len(w)-1, "%d samples, %v off", x.samples, newest.Error)
			}
		}
	}
}

// TestNetfox: the exchange that is nearest to the mean is chosen, and slow ones weigh more. On the
// same exchanges the clock is about as far off as netfox's own, which takes the mean itself.
func TestNetfox(t *testing.T) {
	off := func(exchanges ...[2]int) []Sample { // round trip and error, ms
		var window []Sample
		for _, x := range exchanges {
			window = append(window, Sample{
				RoundTrip: time.Duration(x[0]) * ms,
				Error:     time.Duration(x[1]) * ms,
			})
		}
		return window
	}
	type pair = [2]int
	check(t, Netfox(off(pair{40, 5})), 0, "only one")
	check(t, Netfox(off(pair{40, 0}, pair{40, 4}, pair{40, 9})), 1,
		"the middle one of equal round trips")
	check(t, Netfox(off(pair{40, 0}, pair{40, 4}, pair{400, 9})), 2, "a slow one weighs more")
	check(t, Netfox(off(pair{0, 0}, pair{0, 6}, pair{0, 7})), 1, "round trips of 0")

	r := random(t)
	var ours, theirs []int64
	for range 20 {
		w := newWorld(new(Clock))
		w.up = exponential(r, 20*usMs, 3*usMs)
		w.down = exponential(r, 20*usMs, 3*usMs)
		plain := &PlainClock{
			Rule:                 Netfox,
			Samples:              8,
			AdjustSteps:          8,
			RecalibrateThreshold: 8 * sec,
		}
		var fox rivals.Netfox
		w.heard = func(x exchange) {
			plain.OnExchange(x.Exchange)
			fox.OnExchange(x.T1, x.T2, x.T3, x.T4)
			if w.t < 30*usSec {
				return
			}
			remote, _ := plain.RemoteTime(w.local())
			ours = append(ours, int64(remote-w.remote()))
			remote, _ = fox.RemoteTime(w.local(), 0)
			theirs = append(theirs, int64(remote-w.remote()))
		}
		w.keepPinging()
		w.run(2 * time.Minute)
	}
	our := testkit.SpreadOf(ours).P99
	their := testkit.SpreadOf(theirs).P99
	t.Logf("error p99: %d us, netfox itself %d us", our, their)
	if our > their*3/2 || their > our*3/2 {
		t.Error("they differ by more than half")
	}
}
