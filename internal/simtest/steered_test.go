// This test proves how accurate the estimator is where a time daemon steers a clock, beside the
// original.

package simtest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
)

// steeredLimits are limits of p99 over the original's, by kind: where the estimator stands on eight
// seed bases, with a third of room for chance. The goal of each kind is steeredGoals.
var steeredLimits = map[string]float64{
	"drawn":    1.6,
	"often":    1.35,
	"start":    1.3,
	"calm":     0.2,
	"recorded": 1.05,
	"phones":   0.25,
}

// steeredGoals: to follow a clock that is steered is worth more than to wait as long as the
// original does, and where nobody steers, knowing the rate is worth most.
var steeredGoals = map[string]float64{
	"drawn":    0.5,
	"often":    0.5,
	"start":    0.5,
	"calm":     0.15,
	"recorded": 0.5,
	"phones":   0.2,
}

// steeredCell is a kind of worlds on one kind of path at one rate.
type steeredCell struct {
	kind      string // of the limit
	scenario  sim.Scenario
	p99       [2]geometricMean // us, of the worse end: of the original and of ours
	ratio     geometricMean
	beyond, n int // answers of ours beyond the bound, of all
}

// TestSteered plays worlds in which the clock of one end is steered: now and then, often, or as the
// session begins. With -clocks FOLDER it plays recorded clocks, too. An error counts from 10 s on.
func TestSteered(t *testing.T) {
	worlds := testkit.Sized(2, 6, 8)
	lasting := testkit.Sized(300*sec, 900*sec, 1500*sec)
	var cells []*steeredCell
	each := func(kind string, scenario func(path sim.PathKind, rate float64) sim.Scenario) {
		for _, path := range sim.PathKinds {
			for _, rate := range []float64{60, 4} {
				sc := scenario(path, rate)
				if strings.Contains(sc.Name, *only) {
					cells = append(cells, &steeredCell{kind: kind, scenario: sc})
				}
			}
		}
	}
	for _, kind := range sim.SteeredKinds {
		each(kind.Name, func(path sim.PathKind, rate float64) sim.Scenario {
			return kind.Scenario(path, rate, lasting)
		})
	}
	for _, pair := range must(simnet.ReadClockPairs(*clocksFolder)) {
		kind := "recorded"
		if pair.B == nil {
			kind = "phones"
		}
		each(kind, func(path sim.PathKind, rate float64) sim.Scenario {
			return sim.RecordedScenario(pair, path, rate, 4*lasting)
		})
	}
	eachOf(len(cells), func(i int) { cells[i].play(worlds) })

	var table strings.Builder
	byKind := map[string]*geometricMean{}
	for _, c := range cells {
		fmt.Fprintf(&table, "%-32s %9.0f %9.0f %9.2f %9.4f\n", c.scenario.Name, c.p99[0].value(),
			c.p99[1].value(), c.ratio.value(), 100*float64(c.beyond)/float64(max(c.n, 1)))
		if byKind[c.kind] == nil {
			byKind[c.kind] = &geometricMean{}
		}
		byKind[c.kind].sum += c.ratio.sum
		byKind[c.kind].n += c.ratio.n
	}
	header := fmt.Sprintf("%-32s %9s %9s %9s %9s", "", "original", "ours", "ratio", "beyond %")
	t.Logf("-seed.first %d, %d worlds of %v each; p99 of the worse end, us\n%s\n%s",
		*seedFirst, worlds, lasting, header, &table)
	if *only != "" || testing.Short() { // a few worlds say little
		return
	}
	m := newMusts(t)
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		what := kind + ": geometric mean of p99 over the original's"
		m.misses(what, byKind[kind].value(), steeredGoals[kind], steeredLimits[kind])
	}
}

// play plays some worlds.
func (c *steeredCell) play(worlds int) {
	const leastUsec = 3 // below that errors are luck
	for seed := range uint64(worlds) {
		pairs := scorePairs()
		var errs [2][2]errors // of a pair, at a side
		sim.Run(c.scenario, *seedFirst+seed+1, pairs, sim.Observer{Poll: func(o *sim.Observation) {
			if o.At < c.scenario.Warmup || !o.OK {
				return
			}
			errs[o.Pair][o.Side] = append(errs[o.Pair][o.Side], math.Abs(o.Excess()))
			if o.Pair == 1 {
				c.n++
				c.beyond += count(beyondBound(pairs, o))
			}
		}})
		var p99 [2]float64
		for pair := range p99 {
			p99[pair] = leastUsec + max(errs[pair][0].p99(), errs[pair][1].p99())
			c.p99[pair].add(p99[pair], 1)
		}
		c.ratio.add(p99[1], p99[0])
	}
}
