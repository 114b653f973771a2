// This test proves that datagrams which share a delay, since they are sent while it lasts, are
// not taken for a path without jitter.

package simtest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"timesync/internal/sim"
)

// atRate returns the recording with single datagrams at another rate: each is under way for as
// long as the last recorded one, so that neighbours share a delay where the rate is higher.
func atRate(sc sim.Scenario, rate float64) sim.Scenario {
	sc.SendAB, sc.SendBA, sc.RateAB, sc.RateBA = nil, nil, rate, rate
	return sc
}

// slower are the recordings whose p99 at a higher rate is more than 1.2 times that at their own,
// and by how much it may be.
var slower = map[string]float64{
	"5g-n78-arterial-cicv-18pps-randsplit 60/s":  1.6,
	"kernel-cross90-10m-60pps-busy 60/s":         4,
	"kernel-cross90-10m-60pps-busy 200/s":        3,
	"sim-3g-verizon-evdo-driving-load80 200/s":   2,
	"starlink-leoviz-lossy-10pps-upexcess 60/s":  3,
	"starlink-leoviz-lossy-10pps-upexcess 200/s": 3,
	"wifi2-bad-roc-4ts-5pps 200/s":               2,
}

// TestTracesAtOtherRates replays recorded series at 60 and at 200 datagrams a second. More
// datagrams that share a delay tell no more, but no less either: p99 must be at most 1.2 times
// that at the series' own rate. A lower rate than that is printed only. The project's own
// recordings are played always; -traces names a folder with more.
func TestTracesAtOtherRates(t *testing.T) {
	paths := append(tracePaths("../sim/testdata"), tracePaths(*traces)...)
	slices.SortStableFunc(paths, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	paths = slices.CompactFunc(paths, func(a, b string) bool { return filepath.Base(a) == filepath.Base(b) })
	const seeds = 2 // for the clocks; the delays are always the same
	rates := []float64{0, 60, 200}
	p99 := make([][2]errors, len(paths)) // of the original and ours, at each rate
	perSecond := make(errors, len(paths))
	eachOf(len(paths), func(i int) {
		sc := must(sim.Replay("", paths[i]))
		perSecond[i] = float64(max(len(sc.SendAB), len(sc.SendBA))) / sc.Duration.Seconds()
		for _, rate := range rates {
			if rate > 0 {
				sc = atRate(sc, rate)
			}
			for k, r := range measure(sc, scorePairs, seeds) {
				p99[i][k] = append(p99[i][k], r.poll.p99())
			}
		}
	})
	m := newMusts(t)
	var overOriginal geometricMean
	for i, path := range paths {
		if !strings.HasPrefix(path, "../sim/") { // of our own the original's errors are huge
			overOriginal.add(p99[i][1][0], p99[i][0][0])
		}
		name, own, line := strings.TrimSuffix(filepath.Base(path), ".csv.gz"), p99[i][1][0], ""
		for k, rate := range rates[1:] {
			what, ratio := fmt.Sprintf("%s %.0f/s", name, rate), p99[i][1][k+1]/(own+5) // a stamp is 8 us
			switch limit, misses := slower[what]; {
			case rate < 1.1*perSecond[i]: // no more of them share a delay
				m.note(what, ratio)
			case misses:
				m.misses(what, ratio, 1.2, limit)
			default:
				m.judge(what, ratio, 1.2, 1.1)
			}
			line += fmt.Sprintf(", at %.0f/s %.0f (%.0f)", rate, p99[i][1][k+1], p99[i][0][k+1])
		}
		m.note(fmt.Sprintf("  p99 in us (the original's), at its %.1f/s %.0f (%.0f)%s", perSecond[i], own, p99[i][0][0], line), own)
	}
	if *traces != "" {
		m.judge("geometric mean of p99 over the original's, those of -traces at their own rates", overOriginal.value(), 0.115, 0.09)
	}
}
