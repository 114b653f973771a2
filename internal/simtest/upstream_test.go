// This test proves how we do in the benchmark of the original's author, see package upstream.

package simtest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"testing"

	"timesync/internal/sim"
	"timesync/internal/sim/authorbench"
	"timesync/internal/sim/rivals"
	"timesync/internal/testkit"
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
	packed := must(os.ReadFile("testdata/upstream-baseline.json.gz"))
	unpacked := must(gzip.NewReader(bytes.NewReader(packed)))
	must(0, json.NewDecoder(unpacked).Decode(&file))
	return file.Scenarios
}

// upOriginal is the original as its benchmark asks it: the local time plus the
// decoded offset, without truncating the local time to the offset's 8 us.
type upOriginal struct{ rivals.Original }

func (o *upOriginal) RemoteTime(localUsec, nearUsec uint64) (uint64, bool) {
	below := localUsec & 7
	remote, ok := o.Original.RemoteTime(localUsec-below, nearUsec)
	return remote + below, ok
}

// upJob is a scenario in a mode, and what comes out of it, of the original and of ours.
type upJob struct {
	sc    *authorbench.Scenario
	mode  authorbench.Mode
	seeds int
	base  float64 // p95 of the file; NaN is none
	// of the error at the end where that is worse, us: the median over the seeds
	p95        [2]float64
	unanswered [2]int // polls, all seeds
}

// play plays the scenario for both methods on identical packets.
func (j upJob) play() *upJob {
	var p95 [2]errors
	for seed := range uint64(j.seeds) {
		pairs := []sim.Pair{
			{A: &upOriginal{}, B: &upOriginal{}},
			{A: &subject{}, B: &subject{}},
		}
		var errs [2][2]errors // of a pair, at a side
		session := authorbench.New(j.sc, *seedFirst+seed, j.mode)
		session.Run(pairs, sim.Observer{Poll: func(o *sim.Observation) {
			if o.At < j.sc.Warmup() {
				return
			}
			if !o.OK {
				j.unanswered[o.Pair]++
				return
			}
			errs[o.Pair][o.Side] = append(errs[o.Pair][o.Side], math.Abs(o.ErrUsec))
		}})
		for m, ends := range errs {
			a, b := ends[0].quantile(0.95), ends[1].quantile(0.95)
			p95[m] = append(p95[m], max(a, b))
		}
	}
	j.p95 = [2]float64{p95[0].median(), p95[1].median()}
	return &j
}

// upLeast keeps ratios of errors sensible: below a unit of the stamps they are luck.
const upLeast = 8

// ratio is the p95 error over the original's on the same packets.
func (j *upJob) ratio() float64 { return max(j.p95[1], upLeast) / max(j.p95[0], upLeast) }

// TestUpstream plays all scenarios with clocks as published, and with clocks that integrate their
// rate, and CORE with skew, too. How soon we are back after a step is in TestSteps, and who is how
// good in which scenario in lab/results/report.csv.
func TestUpstream(t *testing.T) {
	if !testkit.Long() {
		t.Skip("its limits are for all seeds: with -long")
	}
	var jobs []upJob
	baselines := upBaselines()
	for _, sc := range must(authorbench.Scenarios()) {
		file := baselines[sc.Name]
		published := upJob{sc: sc, seeds: 4, base: file.Folded}
		integrated := upJob{
			sc:    sc,
			mode:  authorbench.Mode{Integrated: true},
			seeds: 4,
			base:  math.NaN(),
		}
		jobs = append(jobs, published, integrated)
		if sc.Classification == "CORE" {
			jobs = append(jobs, upJob{
				sc:    sc,
				mode:  authorbench.Mode{Integrated: true, Skewed: true},
				seeds: 30,
				base:  file.Overlay,
			})
		}
	}
	results := eachSeed(len(jobs), func(i uint64) *upJob { return jobs[i].play() })
	upRecreation(t, results)
	upMusts(newMusts(t), results)
}

// upRecreation compares the original as played here with that of the file, which
// had other random numbers: 20 seeds, 60 with skew.
func upRecreation(t *testing.T, results []*upJob) {
	var logs errors
	n, off := 0, 0
	for _, r := range results {
		n += count(!math.IsNaN(r.base))
		off += count(math.Abs(r.p95[0]-r.base) > 0.15*r.base+16)
		// Where the time of a step is drawn, p95 may stand on either side of it.
		if r.base > 100 && r.sc.RandomStep == nil {
			logs = append(logs, math.Log(r.p95[0]/r.base))
		}
	}
	mean := math.Exp(logs.mean())
	t.Logf("re-created original: %d of %d more than 15 %% + 16 us off the file; "+
		"geometric mean of p95 over the file's %.3f", off, n, mean)
	if !(mean > 0.9 && mean < 1.1) || off*4 > n {
		t.Error("this is not the original's benchmark")
	}
}

// upMusts asserts that hardly any scenario is much worse than with the original. With the skew of
// CORE the limits are closer. Errors of 0.1 ms are small whatever the original's.
func upMusts(m *musts, results []*upJob) {
	var core geometricMean
	above := map[string]bool{}
	for _, r := range results {
		original, ours := r.p95[0], r.p95[1]
		if r.unanswered[1] > r.unanswered[0] {
			m.t.Errorf("%s %+v: %d polls without an answer, the original %d",
				r.sc.Name, r.mode, r.unanswered[1], r.unanswered[0])
		}
		switch {
		case r.mode.Skewed:
			core.add(max(ours, upLeast), max(original, upLeast))
			aim := 1.1*original + 8
			if ours > aim {
				m.judge("CORE with skew: "+r.sc.Name+" p95, us", ours, 2*original+100, aim)
			}
		case ours > 10*max(original, upLeast)+100:
			m.t.Errorf("%s %+v: p95 %.0f us, more than ten times the original's %.0f us",
				r.sc.Name, r.mode, ours, original)
		case r.ratio() > 3 && ours > 1000:
			above[r.sc.Name] = true
		}
	}
	m.judge("CORE with skew: geometric mean of p95 over the original's here",
		core.value(), 0.24, 0.19)
	m.judge("scenarios with p95 above 3 times the original's and 1 ms",
		float64(len(above)), 4, 0)
}
