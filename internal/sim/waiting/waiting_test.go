package waiting

import (
	"math"
	"slices"
	"testing"
)

// fixed is an estimator that always waits equally long.
type fixed float64

func (f fixed) Arrived(float64, float64) {}
func (f fixed) Wait() float64            { return float64(f) }

// TestWorldsAgain: the same kind, rate and seed give the same world, other seeds another; items
// are in the order of arrival, at about the rate, and those that a stop held up come when it ends
// or later.
func TestWorldsAgain(t *testing.T) {
	for _, name := range Kinds() {
		w := New(name, 20, 5)
		again, other := New(name, 20, 5), New(name, 20, 6)
		if !slices.Equal(w.Items, again.Items) || slices.Equal(w.Items, other.Items) {
			t.Errorf("%s: the seed does not say which world it is", name)
		}
		if n := len(w.Items); n < 5700 || n > 6200 {
			t.Errorf("%s: %d items in 300 s of 20 a second", name, n)
		}
		for i, item := range w.Items[1:] {
			if item.Arrived < w.Items[i].Arrived || item.delay() < 0 {
				t.Fatalf("%s: %+v after %+v", name, item, w.Items[i])
			}
		}
		for _, stop := range w.Stops {
			for _, item := range w.Items {
				inside := stop.Begin+100 < item.Arrived && item.Arrived < stop.End
				if inside && !w.tailed {
					t.Fatalf("%s: %+v arrives in the stop %+v", name, item, stop)
				}
			}
		}
	}
}

// TestOracle: the oracle and the floor are what a search through all items finds.
func TestOracle(t *testing.T) {
	w := New("stop every 10 s", 30, 3)
	w.Items = w.Items[:1500]
	floor, oracle := w.floor(), w.oracle(0.05)
	for i, item := range w.Items {
		least := math.Inf(1)
		var delays []float64
		for _, other := range w.Items {
			if math.Abs(other.Arrived-item.Arrived) <= 10_000 {
				least = min(least, other.delay())
				if !other.Stopped {
					delays = append(delays, other.delay())
				}
			}
		}
		if floor[i] != least {
			t.Fatalf("the floor of item %d is %v, want %v", i, floor[i], least)
		}
		late := 0
		for _, delay := range delays {
			if delay > oracle[i] {
				late++
			}
		}
		// The oracle looks each half second.
		if share := float64(late) / float64(len(delays)); share > 0.06 {
			t.Fatalf("by the oracle's wait for item %d %v are late", i, share)
		}
	}
}

// TestJudge: of a fixed wait as many are late as take longer, and the wait is that.
func TestJudge(t *testing.T) {
	c := Prepare(New("exponential", 60, 2), 0.01)
	const wait = 35 // of 20 and 5 on the mean: e^-3 are late
	s := c.Judge(fixed(wait))
	if math.Abs(s.Late-math.Exp(-3)) > 0.005 || math.Abs(s.Wait-(wait-20)) > 0.1 {
		t.Errorf("%.4f are late, the wait is %.2f", s.Late, s.Wait)
	}
}

// TestRivalsSeldom: each rival has a wait, also where one thing is sent in 2.5 s, as in a
// recording.
func TestRivalsSeldom(t *testing.T) {
	for _, r := range Rivals {
		e := r.New(1, 0.4)
		for i := range 100 {
			sent := float64(i) * 2500
			e.Arrived(sent, sent+30+float64(i%7)*20)
			if wait := e.Wait(); i > 0 && !(wait >= 0 && wait < 1e5) {
				t.Fatalf("%s waits %v after %d arrivals", r.Name, wait, i+1)
			}
		}
	}
}

// TestRivals: with the factor that suits a calm world, each rival lets as many come late as it
// should, and waits no longer than 3 times as long as the oracle there.
func TestRivals(t *testing.T) {
	c := Prepare(New("exponential", 60, 4), 0.01)
	for _, r := range Rivals {
		s := c.Best(r)
		if s.Late > 0.0101 || s.Late < 0.005 || s.Ratio > 3 {
			t.Errorf("%s: %.4f are late, the wait is %.2f of the oracle's", r.Name, s.Late, s.Ratio)
		}
	}
}
