// These tests prove how accurate the offset is where clocks advance in steps, and that the error
// bound holds there.

package simtest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
)

// coarseLimits are what the 99th percentile must be and what it should be, us, where one clock is
// coarse and there are 60 datagrams a second.
var coarseLimits = map[string][2]float64{
	"coarse-100us":  {40, 25},
	"coarse-1ms":    {120, 60},
	"coarse-15.6ms": {700, 450},
}

// coarseMisses are known misses, us: what the 99th percentile must be, and where it stands. Where
// both clocks are coarse it must be 1.5 times what an oracle of folder lab reaches that has seen no
// more than had arrived (TestCausalOracle): it does, but at some seeds. At 4 datagrams a second the
// original is better, and where a clock is set by a third of its step, at some seeds.
var coarseMisses = map[string][2]float64{
	"coarse-15.6ms-4hz":       {1900, 4500},
	"coarse-15.6ms-clockstep": {3100, 3500},
	"coarse-100us-both":       {64, 80},
	"coarse-1ms-both":         {423, 450},
	"coarse-15.6ms-both":      {9530, 9530},
	"coarse-1ms-both-still":   {186, 350},
	"coarse-1ms-instep":       {6, 900},
}

// TestCoarse plays the original and ours where clocks are coarse. The original has the same clock,
// and the same times of receipt. The same worlds with times of receipt that are rounded down show
// what it is worth that they are rounded up: for docs/PRODUCTION.md.
func TestCoarse(t *testing.T) {
	scenarios := chosen(sim.CoarseScenarios())
	n := len(scenarios)
	for _, sc := range scenarios {
		roundDown := func(spec *simnet.ClockSpec) {
			spec.Coarse.RoundDown = true // means nothing to a fine clock
		}
		sc.Name += " down"
		sc.A = sim.Changed(sc.A, roundDown)
		sc.B = sim.Changed(sc.B, roundDown)
		scenarios = append(scenarios, sc)
	}
	worldsEach := worlds()
	if !testing.Short() {
		// At 4 datagrams a second one bad world decides the 99th percentile of a few.
		worldsEach = max(worldsEach, 6)
	}
	results := measureAll(t, scenarios, worldsEach)
	m := newMusts(t)
	for i, sc := range scenarios[:n] {
		original := results[i][0].poll.p99()
		ours := results[i][1].poll.p99()
		down := results[n+i][1].poll.p99()
		what := sc.Name + ", p99 of the error, us"
		limit, ok := coarseLimits[sc.Name]
		if ok && !testing.Short() { // one world says little
			m.judge(what, ours, limit[0], limit[1])
		}
		if ok && ours > down/2+10 {
			t.Errorf("%s: rounded up %.0f us, down %.0f us", sc.Name, ours, down)
		}
		if limit, ok := coarseMisses[sc.Name]; ok {
			m.misses(what, ours, limit[0], limit[1])
		} else if ours > 1.1*original+25 {
			t.Errorf("%s: p99 error %.0f us, the original's %.0f us", sc.Name, ours, original)
		}
	}
}

var coarseWorlds = testkit.Count("coarse.worlds",
	"random worlds of TestCoarseBound and TestSteadyBound", 100, 200, 300)

// coarsen gives the clocks of a random world steps.
func coarsen(d *duel) {
	r := newRand(d.seed, 'k')
	steps := []time.Duration{0, 5 * us, 100 * us, ms, 15600 * us}
	for side := range d.ends {
		step := steps[r.IntN(len(steps))]
		if step == 0 {
			continue
		}
		coarse := simnet.Coarse{
			Step:     step,
			Phase:    time.Duration(r.Int64N(int64(step))).Truncate(us),
			Jittered: r.IntN(4) == 0,
		}
		d.ends[side].clock.Coarse = coarse
		d.Happens(0, "start", "the clock of %c is coarse: %+v", 'A'+rune(side), coarse)
	}
}

// playCoarse plays a random world, in which clocks have steps if they are to be coarse.
func playCoarse(seed uint64, coarse bool) (verdict, *duel) {
	d, _ := randomWorld(seed)
	if coarse {
		coarsen(d)
	}
	return judge(d, 0, 0, boundAges[0].age), d
}

// steadyWorld is a random world in which nothing happens. Datagrams are sent at regular times,
// which may beat with the steps of clocks for minutes. A usual one has 60 a second, 20 ms each way,
// and no jitter, exponential one of 3 ms or that of Wi-Fi.
func steadyWorld(seed uint64, usual bool) *duel {
	r := newRand(seed, 'y')
	dice := simnet.Dice{R: r}
	d := newDuel(seed, dice.LogSpan(10*sec, 200*sec))
	rtt := dice.LogSpan(200*us, 300*ms)
	rate := dice.LogBetween(2, 200)
	if r.IntN(3) == 0 {
		rates := []float64{4, 10, 20, 30, 50, 60, 64, 100, 128}
		rate = rates[r.IntN(len(rates))]
	}
	if usual {
		d.until = 120 * sec
		rtt = 40 * ms
		rate = 60
	}
	there := time.Duration(float64(rtt) * (0.05 + 0.9*r.Float64()))
	for side, base := range [2]time.Duration{there, rtt - there} {
		size := dice.LogSpan(10*us, 20*ms)
		jitters := []simnet.Delay{
			simnet.Const(0),
			simnet.Exp(size),
			simnet.Uniform(0, 2*size),
			simnet.Normal(size, size/2),
			simnet.Gamma(dice.LogBetween(0.3, 4), size),
			simnet.LogNormal(size/2, 1),
			simnet.Pareto(size/2, 1.5),
			simnet.Cellular(),
			simnet.WiFi(),
		}
		jitter := jitters[r.IntN(len(jitters))]
		if usual {
			base = rtt / 2
			usuals := []simnet.Delay{simnet.Const(0), simnet.Exp(3 * ms), simnet.WiFi()}
			jitter = usuals[r.IntN(len(usuals))]
		}
		e := &d.ends[side]
		e.rate = rate
		e.clock = simnet.ClockSpec{
			OffsetUsec: r.Uint64(),
			SkewPPM:    100*r.Float64() - 50,
			WanderPPM:  dice.LogBetween(0.001, 0.03),
		}
		e.base = base
		e.delays = []simnet.Delay{jitter}
		e.out.FIFO = r.IntN(2) == 0
		if r.IntN(3) == 0 {
			e.losses = []simnet.Loss{simnet.Bernoulli(0.2 * r.Float64())}
		}
		d.Happens(0, "start", "%c sends %.1f/s, %v, jitter of %v, %.0f ppm",
			'A'+rune(side), rate, base, size, e.clock.SkewPPM)
	}
	return d
}

// TestSteadyBound: where nothing happens but that clocks advance in steps, the error bound holds.
// The known misses are ends that see the floor tilt by a step of the other's clock, of which they
// do not know, mostly on paths of less than a millisecond.
func TestSteadyBound(t *testing.T) {
	n := coarseWorlds()
	m := newMusts(t)
	for _, usual := range []bool{true, false} {
		verdicts := eachSeed(n, func(seed uint64) verdict {
			d := steadyWorld(seed+*seedFirst, usual)
			coarsen(d)
			return judge(d, 0, 0, 0)
		})
		worlds := 0
		for i, v := range verdicts {
			if v.answers == 0 {
				t.Errorf("seed %d: no answers", uint64(i)+*seedFirst)
			}
			if v.beyond > 0 {
				worlds++
				t.Log(v.worst)
			}
		}
		what := fmt.Sprintf("-seed.first %d, %d worlds, usual %v, beyond the bound in",
			*seedFirst, n, usual)
		if usual {
			m.judge(what, float64(worlds), 0, 0)
		} else {
			m.misses(what, float64(worlds), 0, max(1, float64(n)/2000))
		}
	}
}

// TestCoarseBound: the error bound holds in the worlds of TestErrorBound as often where each clock
// has steps of 0, 5 us, 100 us, 1 ms or 15.6 ms, and is wider by the larger step at most. Both are
// known misses.
func TestCoarseBound(t *testing.T) {
	n := coarseWorlds()
	var worlds [3]int // beyond the bound with fine clocks, with coarse ones, with those only
	var wider errors  // in steps; 200 us are free, as in boundUse
	type world struct {
		fine, coarse verdict
		wider        float64
	}
	played := eachSeed(n, func(seed uint64) (w world) {
		var d *duel
		seed += *seedFirst + 46_000_001
		w.fine, _ = playCoarse(seed, false)
		w.coarse, d = playCoarse(seed, true)
		w.wider = math.NaN()
		step := max(d.ends[0].clock.Coarse.Step, d.ends[1].clock.Coarse.Step)
		haveBounds := w.fine.bound > 0 && w.coarse.bound > 0
		if len(d.changes) == 0 && step >= 100*us && haveBounds {
			w.wider = (w.coarse.bound - w.fine.bound - 200) / float64(step/us)
		}
		return w
	})
	for _, w := range played {
		worlds[0] += count(w.fine.beyond > 0)
		worlds[1] += count(w.coarse.beyond > 0)
		if w.coarse.beyond > 0 && w.fine.beyond <= 0 {
			worlds[2]++
			t.Log(w.coarse.worst)
		}
		if !math.IsNaN(w.wider) {
			wider = append(wider, w.wider)
		}
	}
	t.Logf("-seed.first %d, %d worlds, beyond the bound with fine clocks, with coarse ones, "+
		"and with those only: %d", *seedFirst, n, worlds)
	m := newMusts(t)
	share := func(k, n int) float64 { return 1000 * float64(k) / float64(n) }
	m.misses("of 1,000 worlds, beyond the bound with coarse clocks only",
		share(worlds[2], n), 0, max(1, share(2, n)))
	m.misses("of 1,000 worlds, the bound is wider by more than a step",
		share(wider.above(1), len(wider)), 0, 145)
}

// TestBoundHolds: worlds in which answers would be beyond the bound without one part of it each.
func TestBoundHolds(t *testing.T) {
	beyond := 0
	for _, c := range []struct {
		without string
		coarse  bool
		seeds   []uint64
	}{
		{
			"the step of the own clock, near a multiple of which datagrams come, " +
				"so that the floor tilts",
			true,
			[]uint64{176001152, 176008800, 186003518},
		},
		{
			"a round trip that would be negative, by which both floors are wrong",
			false,
			[]uint64{46002460, 46005486, 176007176},
		},
		{
			"a floor that fell in the first seconds, though a clock was set",
			false,
			[]uint64{176001523, 176007330, 196009828},
		},
		{
			"what crystals do, while the slope is hardly known",
			true,
			[]uint64{176000617, 196005948, 196006842},
		},
		{
			"what a step's tilt adds to a slope that is known well",
			true,
			[]uint64{186004920},
		},
		{
			"that tilt, where both clocks are fine and something else tilts the floor",
			false,
			[]uint64{196007430},
		},
		{
			"the step of the own clock, which points showed earlier",
			true,
			[]uint64{196005242, 196006844},
		},
		{
			"that datagrams may come at a multiple of steps",
			true,
			[]uint64{186004920},
		},
		{
			"the step of the own clock in what an original may not have reported yet",
			true,
			[]uint64{186008545, 196005659},
		},
		{
			"how long the peer may have extrapolated since a clock was set",
			true,
			[]uint64{186009936},
		},
	} {
		for _, seed := range c.seeds {
			v, _ := playCoarse(seed, c.coarse)
			if v.beyond > 0 || v.answers == 0 {
				beyond++
				t.Logf("MISSES of %d answers one is beyond the bound, as without %s: %s",
					v.answers, c.without, v.worst)
			}
		}
	}
	if beyond > 12 { // tilts of coarse clocks and clocks that are set in the first seconds: open
		t.Errorf("%d worlds have answers beyond the bound", beyond)
	}
}
