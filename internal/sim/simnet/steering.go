package simnet

import (
	"math/rand/v2"
	"time"
)

// Steering is how a time daemon such as chronyd corrects a clock: now and then it lets the clock
// run faster or slower for a while. The clock that most programs take for a steady one,
// CLOCK_MONOTONIC, gets the same corrections. Ranges are from the least to the largest, and
// what is drawn from them is spread evenly on a logarithmic scale. The zero value never corrects.
type Steering struct {
	First   [2]time.Duration // when the first correction begins
	Every   [2]time.Duration // from the end of one to the begin of the next; 0 is never again
	Lasting [2]time.Duration
	PPM     [2]float64 // either way
	// Odd is the share of corrections that are of 1 ppm or 500 ppm instead, as many of each.
	Odd float64
}

// What the recorded clocks of chronyd show, roughly: corrections of 10 to 100 ppm for 5 to 60 s.
// On a bad network they come every 10 to 60 s, else every 1 to 10 min.
var (
	Steered = Steering{
		First:   [2]time.Duration{30 * time.Second, 300 * time.Second},
		Every:   [2]time.Duration{60 * time.Second, 600 * time.Second},
		Lasting: [2]time.Duration{5 * time.Second, 60 * time.Second},
		PPM:     [2]float64{10, 100},
		Odd:     0.1,
	}
	SteeredOften = Steering{
		First:   [2]time.Duration{30 * time.Second, 90 * time.Second},
		Every:   [2]time.Duration{10 * time.Second, 60 * time.Second},
		Lasting: [2]time.Duration{5 * time.Second, 60 * time.Second},
		PPM:     [2]float64{10, 100},
		Odd:     0.1,
	}
	// SteeredAtStart is a daemon that has just started, too.
	SteeredAtStart = Steering{
		First:   [2]time.Duration{100 * time.Millisecond, 10 * time.Second},
		Lasting: [2]time.Duration{3 * time.Second, 10 * time.Second},
		PPM:     [2]float64{100, 500},
	}
)

// Events draws the corrections that begin before the true time until.
func (s Steering) Events(r *rand.Rand, until time.Duration) (events []ClockEvent) {
	if s.PPM[1] == 0 {
		return nil
	}
	d := Dice{r}
	at := d.LogSpan(s.First[0], s.First[1])
	for at < until {
		ppm := d.LogBetween(s.PPM[0], s.PPM[1])
		if d.Chance(s.Odd) {
			ppm = []float64{1, 500}[r.IntN(2)]
		}
		e := ClockEvent{
			At:  at,
			For: d.LogSpan(s.Lasting[0], s.Lasting[1]),
			PPM: d.Sign() * ppm,
		}
		events = append(events, e)
		if s.Every[1] == 0 {
			break
		}
		at += e.For + d.LogSpan(s.Every[0], s.Every[1])
	}
	return events
}
