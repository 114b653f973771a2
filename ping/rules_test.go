// These tests prove which exchange is chosen, rule by rule.

package ping

import (
	"slices"
	"testing"
	"time"
)

// trips makes a window of round trips in ms, a second apart, whose newest exchange
// finds the clock 1 s off.
func trips(all ...int) []Sample {
	var w []Sample
	for i, trip := range all {
		w = append(w, Sample{RoundTrip: time.Duration(trip) * ms, Age: time.Duration(len(all)-1-i) * sec, Error: sec})
	}
	return w
}

func repeat(n, trip int) []int { return slices.Repeat([]int{trip}, n) }

func TestRules(t *testing.T) {
	slowAgain := func(n int) []Sample { return trips(append(repeat(64-n, 40), repeat(n, 140)...)...) }
	old := trips(30, 40, 50)
	old[0].Age = 100 * sec // but one of the last 8
	aged := trips(40, 40)
	aged[0].RoundTrip -= 29 * us // a second is worth 30 us
	young := trips(40, 40)
	young[0].RoundTrip -= 31 * us
	equal := trips(40, 40)
	equal[0].RoundTrip -= 30 * us
	limit := trips(repeat(10, 40)...)
	limit[0].Age, limit[0].RoundTrip = 5*sec, 30*ms
	beyond := trips(repeat(10, 40)...)
	beyond[1].Age, beyond[1].RoundTrip = 5*sec+1, 30*ms
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
		{"age counts", MinDelay, aged, 1},
		{"but little", MinDelay, young, 0},
		{"oldest of equal costs", MinDelay, equal, 0},
		{"at 5 s", MinDelay, limit, 0},
		{"beyond 5 s", MinDelay, beyond, 9},
		{"the last 8 at any age", MinDelay, old, 0},
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
