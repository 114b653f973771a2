// These tests prove that a simulated clock shows what its offset, rate, steps and wander
// say.

package simnet

import (
	"math"
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	sine := func(sec float64) float64 { // closed form of the integral, microseconds
		w := 2 * math.Pi / 900
		return 2 / w * (math.Cos(1) - math.Cos(w*sec+1))
	}
	wave := ClockSpec{SinePPM: 2, SinePeriod: 900 * sec, SinePhase: 1}
	events := func(e ClockEvent) ClockSpec { return ClockSpec{Events: []ClockEvent{e}} }
	step := events(ClockEvent{At: sec, Step: -5 * ms})
	slew := events(ClockEvent{At: 10 * sec, For: 30 * sec, PPM: 500})
	sleep := events(ClockEvent{At: 10 * sec, For: 37 * sec, PPM: -1e6})
	skewedSleep := sleep
	skewedSleep.SkewPPM = 100
	tests := []struct {
		name string
		spec ClockSpec
		at   time.Duration
		want float64 // microseconds
	}{
		{"perfect", ClockSpec{}, 100 * sec, 100e6},
		{"before the start", ClockSpec{SkewPPM: 100}, -1 * sec, -1e6 - 100},
		{"skew", ClockSpec{SkewPPM: -40}, 250 * sec, 250e6 - 10000},
		{"sine", wave, 123 * sec, 123e6 + sine(123)},
		{"sine, whole period", wave, 900 * sec, 900e6},
		{"just before a step", step, sec - 1, 1e6 - 1e-3},
		{"step", step, sec, 1e6 - 5000},
		{"slewing", slew, 20 * sec, 20e6 + 5000},
		{"slewed", slew, 90 * sec, 90e6 + 15000},
		{"asleep", skewedSleep, 40 * sec, 10e6 + 1000},
		{"awake", sleep, 50 * sec, 13e6},
	}
	for _, tt := range tests {
		got := NewClock(tt.spec, 1).Reading(tt.at)
		if math.Abs(got-tt.want) > 1e-3 {
			t.Errorf("%s: reading %f, want %f", tt.name, got, tt.want)
		}
	}
}

func TestClockWrapsAndRounds(t *testing.T) {
	c := NewClock(ClockSpec{OffsetUsec: math.MaxUint64}, 1)
	for at, want := range map[time.Duration]uint64{
		0: math.MaxUint64, time.Microsecond - 1: math.MaxUint64, time.Microsecond: 0, sec: 1e6 - 1,
	} {
		if got := c.Usec(at); got != want {
			t.Errorf("at %v: %d, want %d", at, got, want)
		}
	}
}

// TestClockWander reads forth and back: the walk must be the same, its phase
// continuous and its spread what the specification says.
func TestClockWander(t *testing.T) {
	const worlds = 400
	var sum float64
	for seed := range uint64(worlds) {
		late := NewClock(ClockSpec{WanderPPM: 0.5}, seed)
		far := late.Reading(100 * sec)
		near := late.Reading(50 * sec)
		early := NewClock(ClockSpec{WanderPPM: 0.5}, seed)
		if early.Reading(50*sec) != near || early.Reading(100*sec) != far {
			t.Fatalf("seed %d: the order of reading matters", seed)
		}
		edge := 50 * sec
		if jump := late.Reading(edge) - late.Reading(edge-1); math.Abs(jump-1e-3) > 1e-4 {
			t.Fatalf("seed %d: the phase jumps by %f us", seed, jump)
		}
		sum += math.Pow(far-100e6, 2)
	}
	// The phase of a random walk of the rate has the variance sigma^2 t^3 / 3.
	want := 0.5 * math.Sqrt(100*100*100/3.)
	if got := math.Sqrt(sum / worlds); math.Abs(got/want-1) > 0.15 {
		t.Errorf("standard deviation of the phase after 100 s: %f us, want %f", got, want)
	}
}
