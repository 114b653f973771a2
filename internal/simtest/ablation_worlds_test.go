// What the table of rules measures.

package simtest

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"timesync/internal/sim"
	"timesync/internal/upstream"
)

// figures are what came out in each kind of world of each column. Less is better.
type figures map[string]map[string]float64

const ablationSeeds = 6 // of each kind of world, at least

// columns are those of the table. Most have p99 of the error, in us. To each figure something is
// added that nobody would miss, or the ratio of two small ones would say too much.
var columns = []struct {
	name    string
	measure func() map[string]float64
}{
	{"calm", ofScenarios(isCalm)},
	{"slow", ofScenarios(isSlow)}, // at most 10 datagrams a second
	{"minute", minuteWorlds},
	{"LAN", lanWorlds},
	{"bursts", ofScenarios(isBurst)}, // pairs, frames, jitter that lasts, bundles
	{"lossy", ofScenarios(tagged(sim.Lossy))},
	{"queues", ofScenarios(tagged(sim.Queued))},
	{"routes", ofScenarios(tagged(sim.Routed))},
	{"clocks", ofScenarios(tagged(sim.Jumped))},
	{"coarse", coarseWorlds60},
	{"mixture", mixtureWorlds},
	{"2 s", twoSecondWorlds}, // reports so often
	{"steps", stepWorlds},    // time until within 1 ms
	{"early", earlyWorlds},   // a clock is set in the first seconds: time until right
	{"fast", fastClocks},     // 300 to 1,000 ppm apart, or slewed by 500
	{"start", startWorlds},
	{"silence", silenceWorlds},
	{"outliers", outlierWorlds},
	{"hostile", siegeWorlds("wrong", func(o outcome) int64 { return o.wrong })},
	{"beyond", siegeWorlds("beyond", func(o outcome) int64 { return o.beyond })}, // the bound, there and in random worlds
	{"bound", boundWidths}, // over half the round trip
	{"beside", besideWorlds},
	{"traces", traceWorlds},
	{"shared", sharedWorlds}, // the same at 60 and 200 datagrams a second
	{"begun", begunWorlds},   // on a busy link
	{"ramps", rampWorlds},
}

func newFigures(t *testing.T) figures {
	f := figures{}
	match := regexp.MustCompile(*ablationColumn)
	for _, c := range columns {
		if start := time.Now(); match.MatchString(c.name) {
			f[c.name] = c.measure()
			t.Logf("%s: %.1f s", c.name, time.Since(start).Seconds())
		}
	}
	return f
}

// ---- Kinds of scenarios ----

func isBurst(sc sim.Scenario) bool {
	return sc.SendAB != nil || strings.HasPrefix(sc.Name, "lasting")
}

func isSlow(sc sim.Scenario) bool { return sc.RateAB > 0 && sc.RateAB <= 10 }

func isCalm(sc sim.Scenario) bool { return sc.Tag == sim.Calm && !isBurst(sc) && !isSlow(sc) }

func tagged(tag sim.Tag) func(sim.Scenario) bool {
	return func(sc sim.Scenario) bool { return sc.Tag == tag && !isBurst(sc) }
}

// p99s returns p99 of the errors in each scenario.
func p99s(scenarios []sim.Scenario, seeds int) map[string]float64 {
	named := map[string]float64{}
	p99 := eachSeed(len(scenarios), func(i uint64) float64 { return measure(scenarios[i], alone, seeds)[0].poll.p99() })
	for i, sc := range scenarios {
		named[sc.Name] = p99[i] + 2
	}
	return named
}

func ofScenarios(is func(sim.Scenario) bool) func() map[string]float64 {
	return func() map[string]float64 {
		those := slices.DeleteFunc(sim.Scenarios(), func(sc sim.Scenario) bool { return !is(sc) })
		for i := range those {
			if those[i].Name == "frames-40" { // 4,800 datagrams a second
				those[i].Duration = 60 * sec
			}
		}
		return p99s(those, ablationSeeds)
	}
}

// ---- Columns ----

// coarseWorlds60 are clocks that advance in steps, at 60 datagrams a second.
func coarseWorlds60() map[string]float64 {
	return p99s(slices.DeleteFunc(sim.CoarseScenarios(), isSlow), ablationSeeds)
}

func minuteWorlds() map[string]float64 { return p99s(oneAMinute(), ablationSeeds) }

func lanWorlds() map[string]float64 {
	var scenarios []sim.Scenario
	for _, c := range oscillators {
		sc := oscillating(c.base, c.jitter, c.rate, c.ppm)
		sc.Name = c.name
		scenarios = append(scenarios, sc)
	}
	return p99s(scenarios, ablationSeeds)
}

func fastClocks() map[string]float64 {
	const worlds = 60
	named := map[string]float64{}
	for _, slewed := range []bool{false, true} {
		logs := errors(eachSeed(worlds, func(seed uint64) float64 {
			return math.Log(fastRun(slewed, *seedFirst+seed+1).ours + 50)
		}))
		named[fmt.Sprint("slewed ", slewed)] = math.Exp(logs.mean())
	}
	return named
}

func mixtureWorlds() map[string]float64 {
	e := measure(sim.ScenarioNamed("mixture"), alone, 4*ablationSeeds)[0].poll
	return map[string]float64{"p99": e.p99() + 25, "max": e.most() + 100}
}

func twoSecondWorlds() map[string]float64 {
	scenarios := slices.DeleteFunc(sim.Scenarios(), func(sc sim.Scenario) bool { return sc.Tag != sim.Jumped && sc.Tag != sim.Routed })
	for i := range scenarios {
		scenarios[i].ReportEvery = func(time.Duration) time.Duration { return 2 * sec }
	}
	f := p99s(scenarios, ablationSeeds)
	f["steps"] = stepsWithin(2 * sec)
	return f
}

// stepsWithin returns p99 of the time, in s, until an end is within 1 ms after a step.
func stepsWithin(reports time.Duration) float64 {
	var cases []faultCase
	for i := range 200 {
		size := time.Duration(math.Pow(10, float64(i)/26) * float64(ms)) // 1 ms to 13 h
		if i&2 != 0 {
			size = -size
		}
		cases = append(cases, faultCase{size: size, to: settled, seed: uint64(i), happen: func(d *duel) {
			d.reports = reports
			d.step(i&1, settled, size)
		}})
	}
	judgeAll(cases)
	var within errors
	for _, c := range cases {
		within = append(within, c.v.within[0].Seconds(), c.v.within[1].Seconds())
	}
	return within.p99() + 0.1
}

func stepWorlds() map[string]float64 {
	return map[string]float64{"500ms": stepsWithin(sec / 2), "1s": stepsWithin(sec)}
}

func earlyWorlds() map[string]float64 {
	e := errors(eachSeed(300, func(seed uint64) float64 { return earlySet(*seedFirst + seed).wrong.Seconds() }))
	return map[string]float64{"p90": e.quantile(0.9) + 1, "p95": e.quantile(0.95) + 1}
}

func startWorlds() map[string]float64 {
	scenarios := startupWorlds()
	for i := range scenarios {
		scenarios[i].Duration, scenarios[i].Warmup = 10*sec, sec
	}
	f := p99s(scenarios, 10)
	for name := range f {
		f[name] += 25
	}
	return f
}

func silenceWorlds() map[string]float64 {
	var by, lasting errors
	for _, h := range eachSeed(100, func(seed uint64) harm { return afterSilence(*seedFirst + seed) }) {
		by, lasting = append(by, h.by), append(lasting, h.lasting)
	}
	return map[string]float64{"further off, us": by.p99() + 25, "so long, s": lasting.p99() + 1}
}

func outlierWorlds() map[string]float64 {
	var e errors
	for i := range ablationSeeds {
		d := faultWorld(uint64(i))
		d.until = 40 * sec
		earlyStamps(d)
		d.onQuery = func(q *query) {
			if q.ok && q.at > 10*sec {
				e = append(e, math.Abs(q.err))
			}
		}
		d.run()
	}
	return map[string]float64{"p99": e.p99() + 2, "max": e.most() + 10}
}

// siegeWorlds measures for how long harm lasts after each attack, s.
func siegeWorlds(what string, of func(outcome) int64) func() map[string]float64 {
	return func() map[string]float64 {
		all := map[string]errors{}
		for _, s := range playSieges(24 * len(attacks)) {
			for _, o := range s.outcomes {
				all[s.attack.name] = append(all[s.attack.name], max(float64(of(o))/1e6, 0))
			}
		}
		f := map[string]float64{}
		for name, e := range all {
			f[name] = e.p99() + 1
		}
		if what == "beyond" {
			const worlds = 3000
			f["random worlds"] = float64(playBounds(worlds).beyondWorlds) + 3
		}
		return f
	}
}

func boundWidths() map[string]float64 {
	b := playBounds(1000)
	return map[string]float64{"median": b.quietUse.quantile(0.5), "p95": b.quietUse.quantile(0.95)}
}

// besideWorlds are worlds in which an original is the peer: p99 of our end, and of the original.
func besideWorlds() map[string]float64 {
	f := map[string]float64{}
	scenarios := slices.DeleteFunc(sim.Scenarios(), isBurst)
	for i, b := range eachSeed(len(scenarios), func(i uint64) beside { return besideOriginal(scenarios[i], 1) }) {
		name := scenarios[i].Name
		f[name+", ours"], f[name+", the original"] = b.errs[1].p99()+50, b.errs[2].p99()+50
	}
	return f
}

// recordings are those of the project, and those of -traces.
func recordings() (scenarios []sim.Scenario) {
	for _, path := range append(tracePaths(*traces), tracePaths("../sim/testdata")...) {
		sc := must(sim.Replay(filepath.Base(path), path))
		if strings.Contains(path, "-start") {
			sc.Warmup = 5 * sec
		}
		scenarios = append(scenarios, sc)
	}
	return scenarios
}

func traceWorlds() map[string]float64 { return p99s(recordings(), 2) } // the delays are always the same

// sharedWorlds are the recordings at higher rates: neighbours share their delay.
func sharedWorlds() map[string]float64 {
	var scenarios []sim.Scenario
	for _, sc := range recordings() {
		for _, rate := range []float64{60, 200} {
			faster := atRate(sc, rate)
			faster.Name = fmt.Sprintf("%s %.0f/s", sc.Name, rate)
			scenarios = append(scenarios, faster)
		}
	}
	return p99s(scenarios, 2)
}

func begunWorlds() map[string]float64 {
	scenarios := begunScenarios()
	for i, sc := range scenarios {
		scenarios[i] = sc.Apart(60)
	}
	return p99s(scenarios, 1)
}

// rampWorlds are queues that grow for long.
func rampWorlds() map[string]float64 {
	f := map[string]float64{}
	for _, sc := range must(upstream.Scenarios()) {
		if sc.ID == "E72" || sc.ID == "E125" {
			r := upResult{sc: sc, mode: upstream.Mode{Integrated: true, Skewed: true}, seeds: 8}
			f[sc.ID] = r.measure().ratio() + 0.01
		}
	}
	return f
}
