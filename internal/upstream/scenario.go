// SPDX-License-Identifier: BSD-3-Clause

// Package upstream is the benchmark of the original's author (catid/TimeSync,
// tests/peer_bench.cpp at 1132f39), re-created from a description of its parameters. Its
// semantics are not those of sim.Run: both ends send at the same instants, delays are
// whole microseconds, reports are messages of their own, and the clocks may jump when
// their rate changes ("published") instead of integrating it.
package upstream

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

// Scenario is a scenario as the file has it, all but what does not concern methods that piggyback on
// the data. The file is of one commit and does not change.
type Scenario struct {
	ID             string  `json:"id"`
	Name           string  `json:"name"`
	Classification string  `json:"classification"`
	Duration       float64 `json:"duration_s"`

	DelayAB     *delay      `json:"delay_a_to_b"`
	DelayBA     *delay      `json:"delay_b_to_a"`
	LossAB      loss        `json:"loss_a_to_b"`
	LossBA      loss        `json:"loss_b_to_a"`
	Reorder     reorder     `json:"reorder"`
	Duplicate   duplicate   `json:"duplicate"`
	ClockA      clockSpec   `json:"clock_a"`
	ClockB      clockSpec   `json:"clock_b"`
	RandomStep  *randomStep `json:"random_clock_step"`
	Corrupt     corrupt     `json:"corrupt_send_timestamp"`
	Noise       noise       `json:"receive_timestamp_noise"`
	Quantum     float64     `json:"clock_quantum_us"`
	DataRate    float64     `json:"data_rate_hz_each_way"`
	PollRate    float64     `json:"poll_rate_hz"`
	ReportEvery float64     `json:"min_delta_report_every_s"`
}

// delay is the delay of one direction, path its state.
type delay struct {
	Base   float64 `json:"base_one_way_us"`
	Jitter jitter
	Ramp   float64 `json:"ramp_us_per_s"`
	Steps  []struct {
		At    float64 `json:"at_s"`
		Delta float64 `json:"delta_us"`
	} `json:"path_steps"`
	Sine     wave `json:"queue_sine"`
	Sawtooth wave `json:"queue_sawtooth"`
	Square   struct {
		Extra     float64 `json:"extra_us"`
		Period    float64 `json:"period_s"`
		HighFirst float64 `json:"high_fraction_first"`
	} `json:"square_wave"`
	Spike struct {
		Probability float64 `json:"probability_per_packet"`
		Extra       float64 `json:"extra_us"`
	}
	Walk struct {
		Sigma float64   `json:"gaussian_step_sigma_us"`
		Every float64   `json:"step_every_s"`
		Clamp []float64 `json:"clamp_us"`
	} `json:"random_walk"`
}

// wave is a queue that comes again and again.
type wave struct {
	Peak   float64 `json:"peak_us"`
	Period float64 `json:"period_s"`
}

// jitter is a distribution; which fields count depends on its kind.
type jitter struct {
	Kind            string
	To              float64  `json:"to_us"` // from 0, in all scenarios
	Sigma           float64  `json:"sigma_us"`
	Clip            *float64 `json:"clip_at_sigmas"`
	Scale           float64  `json:"scale_us"`
	SigmaLn         float64  `json:"sigma_ln"`
	Minimum         float64  `json:"minimum_us"`
	Alpha           float64
	HighExtra       float64 `json:"high_extra_us"`
	HighProbability float64 `json:"high_probability"`
}

// loss says which messages of one direction get lost.
type loss struct {
	Independent float64  `json:"independent_probability"`
	BurstStart  float64  `json:"burst_start_probability_per_packet"`
	BurstLength [2]int   `json:"burst_length_packets"`
	EveryNth    int      `json:"drop_every_nth_packet"`
	Above       *float64 `json:"drop_if_delay_above_us"`
	AboveDrop   float64  `json:"drop_probability_then"`
}

// reorder says which messages come late, or early.
type reorder struct {
	AB         float64  `json:"probability_a_to_b"`
	BA         float64  `json:"probability_b_to_a"`
	Multiplier *float64 `json:"delay_multiplier"`
	Late       float64  `json:"late_us"`
}

// duplicate says which messages come twice.
type duplicate struct {
	AB    float64 `json:"probability_a_to_b"`
	BA    float64 `json:"probability_b_to_a"`
	Extra float64 `json:"copy_extra_delay_us"`
}

// corrupt says which stamps of data are wrong.
type corrupt struct {
	AB      float64 `json:"probability_a_to_b"`
	AddedAB int64   `json:"added_us_a_to_b"`
	BA      float64 `json:"probability_b_to_a"`
	AddedBA int64   `json:"added_us_b_to_a"`
}

// noise is added to times of receipt.
type noise struct {
	Kind   string
	ToA    float64 `json:"to_us_at_a"` // from 0, in all scenarios
	ToB    float64 `json:"to_us_at_b"`
	ScaleA float64 `json:"scale_us_at_a"`
	ScaleB float64 `json:"scale_us_at_b"`
	Sigma  float64 `json:"sigma_ln"`
}

// randomStep is a step of a clock at a random time.
type randomStep struct {
	Side  string
	At    [2]float64 `json:"at_s_uniform"`
	Delta [2]float64 `json:"delta_s_uniform"`
}

// clockSpec says how a clock errs, clock is one.
type clockSpec struct {
	Offset *float64 `json:"offset_s"`
	Skew   float64  `json:"skew_ppm"`
	Step   struct {
		At    float64 `json:"at_s"`
		Delta float64 `json:"delta_s"`
	}
	SkewStep struct {
		At    float64 `json:"at_s"`
		Delta float64 `json:"delta_ppm"`
	} `json:"skew_step"`
	Ramp struct {
		Rate  float64 `json:"ppm_per_s"`
		Max   float64 `json:"max_abs_ppm"`
		Start float64 `json:"start_s"`
	} `json:"skew_ramp"`
	Sine struct {
		Amplitude float64 `json:"amplitude_ppm"`
		Period    float64 `json:"period_s"`
	} `json:"skew_sine"`
	Walk struct {
		Sigma float64 `json:"gaussian_step_sigma_ppm"`
		Every float64 `json:"step_every_s"`
	} `json:"skew_random_walk"`
	Freeze struct {
		From float64 `json:"from_s"`
		To   float64 `json:"to_s"`
	}
}

// Mode is how a scenario is played.
type Mode struct {
	Integrated bool // clocks integrate their rate
	Skewed     bool // with the skew of the late-February runs
}
