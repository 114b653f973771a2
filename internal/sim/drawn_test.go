// This test judges the estimator in worlds in which every parameter is drawn: nobody can have tuned
// for them.

package sim_test

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"timesync/internal/long"
	"timesync/internal/stat"
)

var (
	drawnWorlds, drawnWorld = worldFlags("drawn", "TestDrawn", 20, 60, 1000)
	drawnEach               = long.Count("drawn.each", "worlds of each family of TestDrawn", 1, 1, 25)
	drawnFamily             = flag.String("drawn.family", "", "only families of TestDrawn whose name matches this regexp; with -drawn.world the world is of that family")
)

// drawnVerdict is what came out of one world.
type drawnVerdict struct {
	seed   uint64
	events int
	judged bool
	// p99 of the error and shares of the judged time, of the original, of ours and of the oracle
	p99   [3]float64
	over1 float64 // share of the time that ours is over 1 ms off
	over5 float64
	// ours is worse than the oracle by 1 ms for this share of the time, and by 0.5 ms for so long
	behind float64
	wrong  time.Duration
	beyond [2]bool // an answer of ours is beyond its bound: before any clock was set; and later than 15 s after that
}

// beyondWorld is an error of microseconds that no answer counts as.
const noAnswer = 1e6

// excess is how far an error is from those that nobody can avoid.
func (a *drawnAnswer) excess(err float64) float64 {
	if math.IsNaN(err) {
		return noAnswer
	}
	return max(err-a.hi, a.lo-err, 0)
}

// judgeDrawn plays a world. An error counts from 5 s after both methods know the clock at both ends,
// and not in the 15 s after a clock was set.
func judgeDrawn(d *drawn) (v drawnVerdict) {
	answers, oracle := d.play()
	v.seed = d.seed
	for _, e := range d.events {
		if e.at > 0 {
			v.events++
		}
	}
	firstSet := d.until
	for _, s := range d.sets {
		firstSet = min(firstSet, s.From)
	}
	from := d.until
	known := 0
	var seen [2][2]bool
	var errs [3][]float64
	var wrong [2]int
	n := 0.0
	for i := range answers {
		a := &answers[i]
		for m, err := range a.err {
			if !math.IsNaN(err) && !seen[a.side][m] {
				seen[a.side][m] = true
				if known++; known == 4 {
					from = a.at + 5*sec
				}
			}
		}
		if !math.IsNaN(a.err[1]) && math.Abs(a.err[1]) > a.bound+1 {
			if a.at < firstSet {
				v.beyond[0] = true
			}
			if !within(d.sets, a.at) {
				v.beyond[1] = true
			}
		}
		if a.at < from || within(d.sets, a.at) {
			continue
		}
		n++
		e := [3]float64{a.excess(a.err[0]), a.excess(a.err[1]), a.excess(oracle[i])}
		for m := range e {
			errs[m] = append(errs[m], e[m])
		}
		if e[1] > 1000 {
			v.over1++
		}
		if e[1] > 5000 {
			v.over5++
		}
		if e[1] > e[2]+1000 {
			v.behind++
		}
		if e[1] > e[2]+500 {
			wrong[a.side]++
		}
	}
	if n < 25 {
		return v
	}
	v.judged = true
	v.over1, v.over5, v.behind = v.over1/n, v.over5/n, v.behind/n
	v.wrong = time.Duration(max(wrong[0], wrong[1])) * pollEvery
	for m := range errs {
		v.p99[m] = stat.Quantile(errs[m], 0.99)
	}
	return v
}

// isWrong says that ours is 0.5 ms worse than the oracle for over 5 s.
func (v *drawnVerdict) isWrong() bool { return v.wrong > 5*sec }

// off says that ours is off by more than 1 ms, or 5 ms, for over 1 % of the time, although the oracle
// is not off by 0.2 ms.
func (v *drawnVerdict) off(share float64) bool { return v.p99[2] < 200 && share > 0.01 }

// worse says that the original is better by 1.2 times and 50 us.
func (v *drawnVerdict) worse() bool { return v.p99[1] > 1.2*v.p99[0] && v.p99[1] > v.p99[0]+50 }

// drawnFigures are those of the mixed worlds.
type drawnFigures struct {
	n                                       int
	off1, off5, worse, behind, origin, past float64 // shares
	early, late                             float64 // beyond the bound: shares
	overOriginal, overOracle                float64
	oracle                                  float64 // share of worlds in which the oracle is below 0.2 ms
}

func share(all []drawnVerdict, is func(v *drawnVerdict) bool) float64 {
	n := 0
	for i := range all {
		if is(&all[i]) {
			n++
		}
	}
	return float64(n) / float64(max(len(all), 1))
}

func newDrawnFigures(all []drawnVerdict) (f drawnFigures) {
	f.n = len(all)
	f.off1 = share(all, func(v *drawnVerdict) bool { return v.off(v.over1) })
	f.off5 = share(all, func(v *drawnVerdict) bool { return v.off(v.over5) })
	f.worse = share(all, (*drawnVerdict).worse)
	f.early = share(all, func(v *drawnVerdict) bool { return v.beyond[0] })
	f.late = share(all, func(v *drawnVerdict) bool { return v.beyond[1] })
	f.oracle = share(all, func(v *drawnVerdict) bool { return v.p99[2] < 200 })
	var original, oracle geometricMean
	for _, v := range all {
		f.behind += v.behind / float64(len(all))
		original.add(max(v.p99[1], 5), max(v.p99[0], 5))
		oracle.add(max(v.p99[1], 5), max(v.p99[2], 5))
	}
	f.overOriginal, f.overOracle = original.value(), oracle.value()
	return f
}

func (f *drawnFigures) String() string {
	return fmt.Sprintf("%5d %8.1f %8.1f %8.1f %9.3f %8.2f %8.1f %8.1f %8.1f %8.1f", f.n, 100*f.off1, 100*f.off5, 100*f.worse,
		f.overOriginal, f.overOracle, 100*f.behind, 100*f.early, 100*f.late, 100*f.oracle)
}

const drawnHeader = "worlds   >1 ms %  >5 ms %  orig. %  p99/orig /oracle  behind %  bound %  later %  oracle %"

// playDrawn plays n worlds on all processors.
func playDrawn(n int, world func(seed uint64) *drawn) []drawnVerdict {
	all := make([]drawnVerdict, n)
	eachOf(n, func(i int) { all[i] = judgeDrawn(world(*seedFirst + uint64(i) + 1)) })
	return slices.DeleteFunc(all, func(v drawnVerdict) bool { return !v.judged })
}

// worst returns the seeds of those that are worst.
func worst(all []drawnVerdict, n int, by func(v *drawnVerdict) float64) string {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b drawnVerdict) int { return cmp.Compare(by(&b), by(&a)) })
	var s strings.Builder
	for _, v := range sorted[:min(n, len(sorted))] {
		if x := by(&v); x > 0 {
			fmt.Fprintf(&s, " %d (%.3g)", v.seed, x)
		}
	}
	return s.String()
}

// TestDrawn plays worlds in which every parameter is drawn: mixed ones, in which anything happens or
// nothing, and families of single events in calm worlds.
//
//	go test ./internal/sim -run TestDrawn -v -drawn.worlds 1000 -drawn.each 25 -seed.first 500000
//	go test ./internal/sim -run TestDrawn -v -drawn.world 500042
//	go test ./internal/sim -run TestDrawn -v -drawn.family 'ramp' -drawn.each 50
//	go test ./internal/sim -run TestDrawn -v -drawn.family '^ramp one way 10-30 ppm$' -drawn.world 500007
func TestDrawn(t *testing.T) {
	match := regexp.MustCompile(*drawnFamily)
	if *drawnWorld != 0 {
		world := mixedWorld
		if i := slices.IndexFunc(drawnFamilies, func(f family) bool { return match.MatchString(f.name) }); *drawnFamily != "" && i >= 0 {
			world = drawnFamilies[i].world
			t.Log(drawnFamilies[i].name)
		}
		printDrawn(t, world(*drawnWorld))
		return
	}
	if *drawnFamily == "" {
		all := playDrawn(drawnWorlds(), mixedWorld)
		var b strings.Builder
		fmt.Fprintf(&b, "-seed.first %d\n%s\n", *seedFirst, drawnHeader)
		for n := range 5 {
			part := slices.DeleteFunc(slices.Clone(all), func(v drawnVerdict) bool { return min(v.events, 4) != n })
			f := newDrawnFigures(part)
			fmt.Fprintf(&b, "%s  %d events\n", f.String(), n)
		}
		f := newDrawnFigures(all)
		fmt.Fprintf(&b, "%s  all\n", f.String())
		fmt.Fprintf(&b, "longest over 1 ms:%s\n", worst(all, 12, func(v *drawnVerdict) float64 {
			if !v.off(v.over1) {
				return 0
			}
			return v.over1
		}))
		fmt.Fprintf(&b, "worst beside the original:%s\n", worst(all, 12, func(v *drawnVerdict) float64 {
			if !v.worse() {
				return 0
			}
			return v.p99[1] / max(v.p99[0], 20)
		}))
		fmt.Fprintf(&b, "beyond the bound:%s\n", worst(all, 12, func(v *drawnVerdict) float64 {
			if !v.beyond[0] {
				return 0
			}
			return v.p99[1]
		}))
		fmt.Fprintf(&b, "the oracle's p99:%s\n", worst(all, 12, func(v *drawnVerdict) float64 { return v.p99[2] }))
		t.Log(b.String())
	}
	each := drawnEach()
	var families []*family
	for i := range drawnFamilies {
		if match.MatchString(drawnFamilies[i].name) {
			families = append(families, &drawnFamilies[i])
		}
	}
	results := make([]drawnVerdict, len(families)*each)
	eachOf(len(results), func(i int) { results[i] = judgeDrawn(families[i/each].world(*seedFirst + uint64(i%each) + 1)) })
	above, wrongs := 0, 0.0
	var b strings.Builder
	fmt.Fprintf(&b, "%-44s %7s %7s %8s %8s %8s %7s\n", "family", "wrong %", "share %", "original", "p99, us", "oracle", "bound %")
	for i, f := range families {
		all := results[i*each : (i+1)*each]
		wrong := share(all, (*drawnVerdict).isWrong)
		wrongs += wrong / float64(len(families))
		note := ""
		if wrong > f.share {
			above++
			note = "ABOVE" + worst(all, 3, func(v *drawnVerdict) float64 { return max(v.wrong-5*sec, 0).Seconds() })
		}
		var p [3][]float64
		for _, v := range all {
			for m := range p {
				p[m] = append(p[m], v.p99[m])
			}
		}
		fmt.Fprintf(&b, "%-44s %7.0f %7.0f %8.0f %8.0f %8.0f %7.1f %s\n", f.name, 100*wrong, 100*f.share, stat.Quantile(p[0], 0.9), stat.Quantile(p[1], 0.9), stat.Quantile(p[2], 0.9),
			100*share(all, (*drawnVerdict).brokeBound), note)
	}
	fmt.Fprintf(&b, "%d of %d families above their share; %.1f %% wrong on average; worlds of each %d\n", above, len(families), 100*wrongs, each)
	t.Log(b.String())
}

func (v *drawnVerdict) brokeBound() bool { return v.beyond[0] }

// printDrawn prints a world: what happens, and who is how far off.
func printDrawn(t *testing.T, d *drawn) {
	var b strings.Builder
	answers, oracle := d.play()
	events := slices.Clone(d.events)
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	fmt.Fprintf(&b, "world %d, %.1f s, reports every %v\n", d.seed, d.until.Seconds(), d.reports)
	step := max(d.until/60, sec).Round(sec)
	var worst [2][3]float64
	var last [2]*drawnAnswer
	next := step
	fmt.Fprintf(&b, "worst error in %v, ms: original, ours, oracle at A and B; nobody can avoid; ours within\n", step)
	for i := range answers {
		a := &answers[i]
		for len(events) > 0 && events[0].at <= a.at {
			fmt.Fprintf(&b, "%8.1f s  %s %s\n", events[0].at.Seconds(), events[0].kind, events[0].text)
			events = events[1:]
		}
		for m, err := range []float64{a.err[0], a.err[1], oracle[i]} {
			if e := a.excess(err); e >= math.Abs(worst[a.side][m]) {
				worst[a.side][m] = e
			}
		}
		last[a.side] = a
		if a.at >= next && last[0] != nil && last[1] != nil {
			next += step
			fmt.Fprintf(&b, "%8.1f s %s", a.at.Seconds(), map[bool]string{true: "*", false: " "}[within(d.sets, a.at)])
			for _, w := range worst {
				for _, e := range w {
					fmt.Fprintf(&b, " %9.3f", e/1e3)
				}
				b.WriteString("  ")
			}
			fmt.Fprintf(&b, " %.3f to %.3f  +-%.3f %.3f\n", last[0].lo/1e3, last[0].hi/1e3, last[0].bound/1e3, last[1].bound/1e3)
			worst = [2][3]float64{}
		}
	}
	t.Log(b.String())
}
