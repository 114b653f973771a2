// These tests prove that inputs come in time, whatever the way does, with a shorter lead than
// others need for it.

package inputs

import (
	"flag"
	"sort"
	"testing"
)

var (
	seeds = flag.Int("seeds", 1, "seeds of each world")
	all   = flag.Bool("all", false, "compare leads in all worlds, not in two")
)

// At most 1 % of the inputs is late in every world whose jitter is stationary, over all seeds.
// After a change the late ones in a row end within 2 s, and a lead that is too long within 10 s;
// the inputs that are late meanwhile are those of two round trips at most. Ticks are never left
// out or repeated without an event. With -short only those worlds are played that are about
// inputs.
func TestInputsComeInTime(t *testing.T) {
	for _, w := range Worlds() {
		if testing.Short() && w.Duration > 120*second {
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			var sum Result
			for seed := range uint64(*seeds) {
				r := Methods[0].run(w, seed+1, Methods[0].Default)
				t.Logf("seed %d: %v, rows of late ones for %v, excess %v, %d late in the change",
					seed+1, r, r.Until.Round(ms), r.Excess, r.Lost)
				if r.Inputs < 5000 || r.Unreported > 0 {
					t.Errorf("%d inputs, %d ticks unreported", r.Inputs, r.Unreported)
				}
				sum.Inputs += r.Inputs
				sum.Late += r.Late
				if w.Change != 0 && (r.Until > 2*second || r.Excess > 10*second ||
					float64(r.Lost) > 2*w.RoundTrip.Seconds()*rate) {
					t.Errorf("inputs are late in a row for %v, the lead is too long for %v, %d are late",
						r.Until, r.Excess, r.Lost)
				}
			}
			if w.Steady && sum.Share() > 0.01 {
				t.Errorf("%.2f %% are late", 100*sum.Share())
			}
		})
	}
}

// match turns a method, each of whose steps is so long, until no larger a share is late in a
// world, and returns what it makes of the world then: with the shortest lead that does it.
func match(m *Method, step float64, w World, seeds int, share float64) Result {
	const most = 12 // ticks: more than enough
	at := func(n int) Result { return m.At(w, seeds, float64(n)*step) }
	return at(sort.Search(int(most/step), func(n int) bool { return at(n).Share() <= share }))
}

// In no world whose jitter is stationary does another method, with any of its settings, need a
// shorter lead for the same share of late inputs. But lightyear does in wifi, whose path stops now
// and then: our lead is for those stops, too.
func TestLeadIsShort(t *testing.T) {
	for _, w := range Worlds() {
		chosen := *all || w.Name == "jitter 10 ms" || w.Name == "loss of 5 %"
		if !w.Steady || !chosen {
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			w.Duration = min(w.Duration, 120*second)
			ours := Methods[0].At(w, 3, Methods[0].Default)
			for i, m := range Methods[1:] {
				step := []float64{1, 1. / 16}[i] // ticks: as finely as it can be turned
				as, same := m.At(w, 3, m.Default), match(&m, step, w, 3, ours.Share())
				if as.Share() > 0.02 || as.Lead < 10*ms || as.Lead > 200*ms {
					t.Errorf("%s is not what it is: %v", m.Name, as)
				}
				t.Logf("%v; %s as it is %v, with the same share %v", ours, m.Name, as, same)
				if same.Lead < ours.Lead && !(w.Name == "wifi" && m.Name == "lightyear") {
					t.Errorf("%s needs %v, not %v", m.Name, same.Lead, ours.Lead)
				}
			}
		})
	}
}
