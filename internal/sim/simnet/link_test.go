// These tests prove that a simulated link delays, queues, loses and reorders as it is told.

package simnet

import (
	"math"
	"slices"
	"testing"
	"time"
)

// delays sends 60 datagrams a second for 2000 s.
func delays(d Delay) []float64 {
	r := Rand(1, "test")
	var out []float64
	for i := range 120_000 {
		at := time.Duration(i) * sec / 60
		out = append(out, d(r, at).Seconds()*1e3)
	}
	return out
}

// TestDelays checks mean and extremes of each model, in milliseconds.
func TestDelays(t *testing.T) {
	tests := []struct {
		name            string
		delay           Delay
		mean, min, max  float64
		tolerance, slop float64 // of the mean, relative; of the extremes, absolute
	}{
		{"Const", Const(30 * ms), 30, 30, 30, 0, 0},
		{"Sum", Sum(Const(30*ms), Exp(3*ms)), 33, 30, 70, 0.01, 15},
		{"Exp", Exp(3 * ms), 3, 0, 35, 0.01, 10},
		{"Uniform", Uniform(2*ms, 4*ms), 3, 2, 4, 0.01, 0.01},
		{"Cellular", Cellular(), 3, 0, 6, 0.01, 0.01},
		{"Gamma 2", Gamma(2, 3*ms), 3, 0, 25, 0.01, 8},
		{"Gamma 0.5", Gamma(0.5, 3*ms), 3, 0, 60, 0.02, 30},
		{"Normal", Normal(10*ms, ms), 10, 5.5, 14.5, 0.01, 1},
		{"LogNormal", LogNormal(ms, 0.5), math.Exp(0.125), 0.1, 8, 0.01, 3},
		{"Pareto", Pareto(ms, 3), 0.5, 0, 60, 0.05, 60},
		{"Sometimes", Sometimes(0.1, Pareto(ms, 1.5)), 0.2, 0, 1000, 0.3, 9000},
		{"Reorder", Reorder(0.05, 30*ms), 1.5, 0, 30, 0.05, 0},
		{"WiFi", WiFi(), 0.3 + 0.5 + 2.1, 0, 300, 0.2, 30},
		{"Bufferbloat", Bufferbloat(50*ms, 150*ms, 5*sec, 15*sec, 40*sec), 20, 0, 165, 0.3, 25},
		{"Plateau", Plateau(50*ms, 150*ms, 5*sec, 15*sec, 40*sec), 20, 0, 150, 0.3, 25},
		{"StandingQueue", StandingQueue(100*sec, 1000*sec, 100*ms), 50, 0, 110, 0.02, 2},
		{"Ramp", Ramp(0, 30, 1000*sec), 22.5, 0, 30, 0.01, 0.01},
		{"Spike", Spike(0.001, 100*ms), 0.3, 0, 100, 0.4, 0.01},
	}
	for _, tt := range tests {
		got := delays(tt.delay)
		var sum float64
		for _, x := range got {
			sum += x
		}
		if mean := sum / float64(len(got)); math.Abs(mean-tt.mean) > tt.tolerance*tt.mean+1e-9 {
			t.Errorf("%s: mean %.3f ms, want %.3f", tt.name, mean, tt.mean)
		}
		lo, hi := slices.Min(got), slices.Max(got)
		if math.Abs(lo-tt.min) > 1 || math.Abs(hi-tt.max) > tt.slop+1e-9 {
			t.Errorf("%s: from %.3f to %.3f ms, want %.3f to %.3f", tt.name, lo, hi, tt.min, tt.max)
		}
	}
}

// TestQueue: at 80 % load there are queues; what waits too long is dropped; a queue
// keeps the order.
func TestQueue(t *testing.T) {
	got := delays(Queue(10e6, 0.95, 50*ms))
	idle, lost := 0, 0
	for i, x := range got {
		switch {
		case x < 0:
			lost++
		case x == 0:
			idle++
		case x > 50:
			t.Fatalf("a datagram waited %.1f ms", x)
		}
		if i > 0 && x >= 0 && x < got[i-1]-1000./60-1e-3 {
			t.Fatalf("datagram %d overtook: %.3f after %.3f ms", i, x, got[i-1])
		}
	}
	if idle < 1000 || lost < 100 {
		t.Errorf("%d of %d found an empty queue and %d a full one", idle, len(got), lost)
	}
}

func TestLosses(t *testing.T) {
	tests := []struct {
		name        string
		loss        Loss
		share, runs float64 // share lost, mean length of a run of losses; 0 is any
	}{
		{"Bernoulli", Bernoulli(0.2), 0.2, 1.25},
		{"GilbertElliott", GilbertElliott(0.2, 5), 0.2, 5},
		{"Silence", Silence(Window{500 * sec, 1000 * sec}), 0.25, 30_000},
		{"AnyLoss", AnyLoss(Bernoulli(0.1), Bernoulli(0.1)), 0.19, 0},
	}
	for _, tt := range tests {
		r := Rand(1, "test")
		lost, runs, before := 0, 0, false
		for i := range 120_000 {
			now := tt.loss(r, time.Duration(i)*sec/60)
			if now {
				lost++
			}
			if now && !before {
				runs++
			}
			before = now
		}
		share, length := float64(lost)/120_000, float64(lost)/float64(runs)
		if math.Abs(share/tt.share-1) > 0.05 || tt.runs > 0 && math.Abs(length/tt.runs-1) > 0.05 {
			t.Errorf("%s: lost %.3f in runs of %.2f, want %.3f and %.2f",
				tt.name, share, length, tt.share, tt.runs)
		}
	}
}

func TestLink(t *testing.T) {
	r := Rand(1, "test")
	var nothing Link
	if got := nothing.Arrivals(r, sec); !slices.Equal(got, []time.Duration{sec}) {
		t.Errorf("the zero link delivers at %v", got)
	}
	l := Link{
		Base:      Route(30*ms, RouteStep{sec, -20 * ms}),
		Delay:     Exp(10 * ms),
		Duplicate: 1,
		FIFO:      true,
	}
	var last time.Duration
	for at := time.Duration(0); at < 3*sec; at += ms {
		got := l.Arrivals(r, at)
		if len(got) != 2 || got[0] < last || got[1] < got[0] {
			t.Fatalf("at %v: %v after %v", at, got, last)
		}
		last = got[1]
	}
	if got := l.BaseAt(2 * sec); got != 10*ms {
		t.Errorf("base after the route change: %v", got)
	}
	dropped := Link{Delay: Recorded([]Sample{{0, ms}, {sec, Lost}, {2 * sec, 3 * ms}})}
	for at, want := range map[time.Duration]int{0: 1, sec - 1: 1, sec: 0, 9 * sec: 1} {
		if got := len(dropped.Arrivals(r, at)); got != want {
			t.Errorf("recorded series at %v: %d arrivals, want %d", at, got, want)
		}
	}
}
