// SPDX-License-Identifier: BSD-3-Clause

// Package upstream is the benchmark of the original's author (catid/TimeSync,
// tests/peer_bench.cpp at 1132f39), re-created from a description of its parameters. Its
// semantics are not those of sim.Run: both ends send at the same instants, delays are
// whole microseconds, reports are messages of their own, and the clocks may jump when
// their rate changes ("published") instead of integrating it.
package authorbench

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
)

//go:embed scenarios.json.gz
var scenarios []byte

// Scenarios returns all scenarios.
func Scenarios() ([]*Scenario, error) {
	z, err := gzip.NewReader(bytes.NewReader(scenarios))
	if err != nil {
		return nil, err
	}
	var file struct{ Scenarios []*Scenario }
	err = json.NewDecoder(z).Decode(&file)
	return file.Scenarios, err
}

// Scenario is a scenario as the file has it: times in s, delays in us, rates of clocks in ppm. Of
// two values the first is that of A, or of the way from A to B. What concerns only methods that do
// not piggyback on the data is left out. The file is of one commit and does not change.
type Scenario struct {
	ID, Name, Classification       string
	Duration, Quantum, ReportEvery float64
	DataRate, PollRate             float64 // a second
	Clocks                         [2]clockSpec
	Paths                          [2]pathSpec
	RandomStep                     *struct { // of a clock
		Side      string
		At, Delta [2]float64
	}
}

// step is a change at a time.
type step struct{ At, Delta float64 }

// wave is a queue that comes again and again.
type wave struct{ Peak, Period float64 }

// pathSpec is one direction, path its state.
type pathSpec struct {
	Base, Ramp     float64
	Jitter         jitter
	Steps          []step
	Sine, Sawtooth wave
	Square         struct{ Extra, Period, HighFirst float64 }
	Spike          struct{ Probability, Extra float64 }
	Walk           struct {
		Sigma, Every float64
		Clamp        [2]float64
	}
	Loss loss
	// Messages that come late, or early; that come twice; and stamps of data that are wrong.
	Reorder   struct{ Probability, Multiplier, Late float64 }
	Duplicate struct{ Probability, Extra float64 }
	Corrupt   struct{ Probability, Added float64 }
}

// jitter is a distribution; which fields count depends on its kind.
type jitter struct {
	Kind                       string
	To                         float64 // from 0, in all scenarios
	Sigma, Clip                float64 // Clip is in units of Sigma
	Scale, SigmaLn             float64
	Minimum, Alpha             float64
	HighExtra, HighProbability float64
}

// loss says which messages of one direction get lost.
type loss struct {
	Independent, BurstStart float64 // probabilities
	BurstLength             [2]int
	EveryNth                int
	Above, AboveDrop        float64 // the delay from which on, and the probability
}

// clockSpec says how a clock errs, clock is one.
type clockSpec struct {
	Offset, Skew   float64
	Step, SkewStep step
	Ramp           struct{ Rate, Max, Start float64 }
	Sine           struct{ Amplitude, Period float64 }
	Walk           struct{ Sigma, Every float64 }
	Freeze         struct{ From, To float64 }
	Noise          jitter // on times of receipt
}

// Mode is how a scenario is played.
type Mode struct {
	Integrated bool // clocks integrate their rate
	Skewed     bool // with the skew of the late-February runs
}
