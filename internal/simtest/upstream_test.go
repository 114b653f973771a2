// This test proves how we do in the benchmark of the original's author, see package upstream.

package simtest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"timesync/internal/long"
	"timesync/internal/rivals"
	"timesync/internal/sim"
	"timesync/internal/upstream"
)

// upBaseline is what another re-creation of the benchmark found for the original, with other random
// numbers.
type upBaseline struct {
	Folded  float64 `json:"m4_p95_us_modulo_67s"`
	Overlay float64 `json:"m4_p95_us_drift_overlay"`
}

// upBaselines returns them by scenario.
func upBaselines() map[string]upBaseline {
	var file struct{ Scenarios map[string]upBaseline }
	z := must(gzip.NewReader(bytes.NewReader(must(os.ReadFile("testdata/upstream-baseline.json.gz")))))
	must(0, json.NewDecoder(z).Decode(&file))
	return file.Scenarios
}

// upScore says of a method, at the end where that is worse, p95 of the error, and how many polls had no answer.
type upScore struct {
	p95        float64
	unanswered int
}

// upOriginal is the original as its benchmark asks it: the local time plus the
// decoded offset, without truncating the local time to the offset's 8 us.
type upOriginal struct{ rivals.Original }

func (o *upOriginal) RemoteTime(localUsec, nearUsec uint64) (uint64, bool) {
	below := localUsec & 7
	remote, ok := o.Original.RemoteTime(localUsec-below, nearUsec)
	return remote + below, ok
}

// upRun plays a scenario for both methods on identical packets.
func upRun(sc *upstream.Scenario, seed uint64, mode upstream.Mode) (scores [2]upScore) {
	pairs := []sim.Pair{{A: &upOriginal{}, B: &upOriginal{}}, {A: &subject{}, B: &subject{}}}
	var errs [2][2]errors
	upstream.New(sc, seed, mode).Run(pairs, sim.Observer{Poll: func(o *sim.Observation) {
		if o.At >= sc.Warmup() && o.OK {
			errs[o.Pair][o.Side] = append(errs[o.Pair][o.Side], math.Abs(o.ErrUsec))
		}
		scores[o.Pair].unanswered += count(o.At >= sc.Warmup() && !o.OK)
	}})
	for m := range scores {
		for _, e := range errs[m] {
			if len(e) > 0 {
				scores[m].p95 = max(scores[m].p95, e.quantile(0.95))
			}
		}
	}
	return scores
}

// upResult is a scenario in a mode, all seeds.
type upResult struct {
	sc    *upstream.Scenario
	mode  upstream.Mode
	seeds int
	score [2]upScore // the median over the seeds, and all polls without an answer
	base  float64    // of the file; NaN is none
}

// measure plays the scenario.
func (r upResult) measure() *upResult {
	var p95 [2]errors
	for seed := range uint64(r.seeds) {
		for m, s := range upRun(r.sc, *seedFirst+seed, r.mode) {
			p95[m] = append(p95[m], s.p95)
			r.score[m].unanswered += s.unanswered
		}
	}
	for m := range r.score {
		r.score[m].p95 = p95[m].median()
	}
	return &r
}

// upLeast keeps ratios of errors sensible: below a unit of the stamps they are luck.
const upLeast = 8

// ratio is the p95 error over the original's on the same packets.
func (r *upResult) ratio() float64 {
	return max(r.score[1].p95, upLeast) / max(r.score[0].p95, upLeast)
}

// String is the scenario and its clocks.
func (r *upResult) String() string { return fmt.Sprintf("%s %+v", r.sc.Name, r.mode) }

// TestUpstream plays all scenarios with clocks as published, and with clocks that integrate their rate, and CORE with
// skew, too. How soon we are back after a step is in TestSteps, and who is how good in which scenario in docs/report.csv.
func TestUpstream(t *testing.T) {
	if !*long.Flag {
		t.Skip("its limits are for all seeds: with -long")
	}
	var jobs []upResult
	baselines := upBaselines()
	for _, sc := range must(upstream.Scenarios()) {
		file := baselines[sc.Name]
		jobs = append(jobs, upResult{sc: sc, seeds: 4, base: file.Folded},
			upResult{sc: sc, seeds: 4, base: math.NaN(), mode: upstream.Mode{Integrated: true}})
		if sc.Classification == "CORE" {
			jobs = append(jobs, upResult{sc: sc, seeds: 30, base: file.Overlay, mode: upstream.Mode{Integrated: true, Skewed: true}})
		}
	}
	results := eachSeed(len(jobs), func(i uint64) *upResult { return jobs[i].measure() })
	upRecreation(t, results)
	upMusts(newMusts(t), results)
}

// upRecreation compares the original as played here with that of the file, which
// had other random numbers: 20 seeds, 60 with skew.
func upRecreation(t *testing.T, results []*upResult) {
	var logs errors
	n, off := 0, 0
	for _, r := range results {
		o := &r.score[0]
		n += count(!math.IsNaN(r.base))
		off += count(math.Abs(o.p95-r.base) > 0.15*r.base+16)
		// Where the time of a step is drawn, p95 may stand on either side of it.
		if r.base > 100 && r.sc.RandomStep == nil {
			logs = append(logs, math.Log(o.p95/r.base))
		}
	}
	mean := math.Exp(logs.mean())
	t.Logf("re-created original: %d of %d more than 15 %% + 16 us off the file; geometric mean of p95 over the file's %.3f", off, n, mean)
	if !(mean > 0.9 && mean < 1.1) || off*4 > n {
		t.Error("this is not the original's benchmark")
	}
}

// upMusts asserts that hardly any scenario is much worse than with the original. With the skew of CORE the limits are
// closer. Errors of 0.1 ms are small whatever the original's.
func upMusts(m *musts, results []*upResult) {
	var core geometricMean
	above := map[string]bool{}
	for _, r := range results {
		o, s := &r.score[0], &r.score[1]
		if s.unanswered > o.unanswered {
			m.t.Errorf("%v: %d polls without an answer, the original %d", r, s.unanswered, o.unanswered)
		}
		if r.mode.Skewed {
			core.add(max(s.p95, upLeast), max(o.p95, upLeast))
		}
		switch {
		case r.mode.Skewed && s.p95 > 1.1*o.p95+8:
			m.judge("CORE with skew: "+r.sc.Name+" p95, us", s.p95, 2*o.p95+100, 1.1*o.p95+8)
		case r.mode.Skewed:
		case s.p95 > 10*max(o.p95, upLeast)+100:
			m.t.Errorf("%v: p95 %.0f us, more than ten times the original's %.0f us", r, s.p95, o.p95)
		case r.ratio() > 3 && s.p95 > 1000:
			above[r.sc.Name] = true
		}
	}
	m.judge("CORE with skew: geometric mean of p95 over the original's here", core.value(), 0.24, 0.19)
	m.judge("scenarios with p95 above 3 times the original's and 1 ms", float64(len(above)), 4, 0)
}
