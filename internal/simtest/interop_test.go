// This test proves that an original and one of ours serve each other as well as two
// originals would, at any cadence of reports, and that our error bound holds there.

package simtest

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"timesync/internal/rivals"
	"timesync/internal/sim"
)

var interopSeeds = flag.Int("interop.seeds", 20, "worlds of each kind and cadence of TestInteropCadence")

// frank is an original that reports whether it has heard anything or not, as the original's
// own tests do. A report of one that has heard nothing is 0.
type frank struct{ rivals.Original }

func (f *frank) MinDelta(localUsec uint64) (uint32, bool) {
	delta, _ := f.Original.MinDelta(localUsec)
	return delta, true
}

// interopWorld is a world in which an original may be either end.
type interopWorld struct {
	sim.Scenario
	seed   uint64
	text   string        // what was drawn
	trip   time.Duration // round trip without queues
	stepAt time.Duration // when a clock is set; forever is never
	deaf   sim.Side      // hears nothing at first; -1: none. The other has heard it for longer than it can know
}

// uniform draws a time between two.
func uniform(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.Float64()*float64(hi-lo))
}

// newInteropWorld draws a world: a loopback, a LAN or a path of 20 ms, and clocks that are 40,
// 100 or 200 ppm apart either way. What the kind says happens at an end that is drawn, too.
func newInteropWorld(kind string, cadence time.Duration, seed uint64) *interopWorld {
	r := newRand(seed, uint64(cadence))
	path := []struct{ base, jitter time.Duration }{{20 * us, 10 * us}, {100 * us, 50 * us}, {10 * ms, ms}}[r.IntN(3)]
	ppm := []float64{40, 100, 200, -40, -100, -200}[r.IntN(6)]
	side, at, step := r.IntN(2), uniform(r, 25*sec, 35*sec), time.Duration(1-2*r.IntN(2))*5*ms
	w := &interopWorld{seed: seed, trip: 2 * path.base, stepAt: forever, deaf: -1}
	w.text = fmt.Sprintf("seed %d, %s, reports every %v, round trip %v, %+.0f ppm, %c's at %v", seed, kind, cadence, w.trip, ppm, 'A'+rune(side), at)
	offset := r.Uint64()
	clock := func(end int, ppm float64) func(uint64) sim.ClockSpec {
		spec := sim.ClockSpec{OffsetUsec: offset, SkewPPM: ppm, SinePPM: 2, SinePeriod: 900 * sec, SinePhase: 2 * math.Pi * r.Float64(), WanderPPM: 0.01}
		if kind == "step" && end == side {
			w.stepAt, w.text = at, w.text+fmt.Sprintf(" by %v", step)
			spec.Events = []sim.ClockEvent{{At: at, Step: step}}
		}
		offset += uint64(uniform(r, 5*sec, 60*sec) / us)
		return func(uint64) sim.ClockSpec { return spec }
	}
	if kind == "deaf" {
		w.deaf = sim.Side(1 - side)
	}
	link := func(from int) func(uint64) *sim.Link {
		return func(uint64) *sim.Link {
			l := &sim.Link{Base: sim.Fixed(path.base), Delay: sim.Exp(path.jitter)}
			switch {
			case kind == "queue" && from == side:
				l.Delay = sim.Sum(l.Delay, func(_ *rand.Rand, t time.Duration) time.Duration {
					if t < at || t >= at+4*sec {
						return 0
					}
					return 100 * ms // it ends at once: what is sent then overtakes what queues
				})
			case kind == "deaf" && from == side:
				l.Loss = sim.Silence(sim.Window{To: at / 10}) // the other end hears nothing so long
			}
			return l
		}
	}
	a, b := clock(0, ppm/2), clock(1, -ppm/2)
	w.Scenario = sim.Scenario{
		Duration: 60 * sec, PollRate: 20, A: a, B: b, AB: link(0), BA: link(1),
		ReportEvery: func(time.Duration) time.Duration { return cadence }, ReportDeaf: kind == "deaf",
	}
	return w
}

// interopRun is what was said in a world.
type interopRun struct {
	errors   [3][2]errors // us: of each end of two originals, of ours at A, and of ours at B
	missed   [3][2]int    // and how often they did not answer
	calm     float64      // us: greatest error of two originals before something happened
	beyond   int          // answers of ours that were beyond the bound
	restarts int          // how often Undisturbed went back
	tallest  float64      // us: the greatest bound of ours
}

// play lets two originals meet, then one of ours and an original, at either end.
func (w *interopWorld) play() *interopRun {
	run := &interopRun{}
	ours := [2]*subject{{}, {}}
	var undisturbed [2]time.Duration
	pairs := []sim.Pair{{A: &frank{}, B: &frank{}}, {A: ours[0], B: &frank{}}, {A: &frank{}, B: ours[1]}}
	sim.Run(w.Scenario, w.seed, pairs, sim.Observer{Poll: func(o *sim.Observation) {
		err := math.Abs(o.ErrUsec)
		if !o.OK || o.Pair == 0 && err > 1e6 { // a second is what nobody's answer is off by
			run.missed[o.Pair][o.Side]++
			return
		}
		if o.Pair == 0 && o.At >= 10*sec && o.At < 25*sec {
			run.calm = max(run.calm, err)
		}
		run.errors[o.Pair][o.Side] = append(run.errors[o.Pair][o.Side], err)
		if o.Pair != 1+int(o.Side) || o.Side == w.deaf || o.At >= w.stepAt && o.At < w.stepAt+15*sec {
			return
		}
		s, _ := ours[o.Side].Sync.Snapshot(o.LocalUsec)
		bound := float64(s.ErrorBound) / float64(us)
		run.tallest = max(run.tallest, bound)
		if err > bound {
			run.beyond++
		}
		if o.At < w.stepAt && s.Undisturbed < undisturbed[o.Side] {
			run.restarts++
		}
		undisturbed[o.Side] = s.Undisturbed
	}})
	return run
}

// worse says how these errors are worse than the others by more than 1.1 times and 50 us: at
// worst, in the middle, or for longer, but for the late worst ones. Longer counts those above
// calm, the greatest of two originals before something happened.
func worse(these, others errors, calm float64, late int) string {
	slices.Sort(these)
	slices.Sort(others)
	if a, b := these[len(these)-1-late], others.quantile(1); a > 1.1*b+50 {
		return fmt.Sprintf("worst %.0f us, %.0f us beside an original", a, b)
	}
	if a, b := these.quantile(0.5), others.quantile(0.5); a > 1.1*b+50 {
		return fmt.Sprintf("median %.0f us, %.0f us beside an original", a, b)
	}
	above := func(e errors, level float64) int {
		n, _ := slices.BinarySearch(e, level)
		return len(e) - n
	}
	if a, b := above(these, 1.1*calm+50), above(others, calm); a > b+late {
		return fmt.Sprintf("for %d answers, %d beside an original", a, b)
	}
	return ""
}

// judge adds what does not hold.
func (run *interopRun) judge(f *failures, w *interopWorld, slack time.Duration) {
	late := int(slack.Seconds() * w.PollRate)
	for side := range 2 {
		ours, theirs := 1+side, 2-side
		if how := worse(run.errors[theirs][side], run.errors[0][side], run.calm, late); how != "" {
			f.add("the original is worse beside ours", "%s: at %c %s", w.text, 'A'+rune(side), how)
		}
		if how := worse(run.errors[ours][side], run.errors[0][side], run.calm, late); how != "" {
			f.add("ours is worse than an original there", "%s: at %c %s", w.text, 'A'+rune(side), how)
		}
		for _, pair := range []int{ours, theirs} {
			if n := run.missed[pair][side] - run.missed[0][side]; n > late {
				f.add("no answer", "%s: at %c of pair %d %d", w.text, 'A'+rune(side), pair, n)
			}
		}
	}
	if run.beyond > 0 {
		f.add("beyond the bound", "%s: %d answers", w.text, run.beyond)
	}
	if run.restarts > 0 {
		f.add("Undisturbed begins anew", "%s: %d times", w.text, run.restarts)
	}
	const drift = 10e6 * 100e-6 // us: of 100 ppm in the original's window
	const slewed = 25           // us: of a correction that has not begun
	if limit := 2*(float64(w.trip/us)/2+drift) + slewed; run.tallest > limit {
		f.add("the bound is too wide", "%s: %.0f us", w.text, run.tallest)
	}
}

// TestInteropCadence lets our end talk to an original that reports at any cadence, as programs
// do, on short paths with clocks far apart: calm, with a queue, with a clock that is set, and
// with an original that reports before it has heard anything. 200 worlds each:
//
//	go test ./internal/simtest -run TestInteropCadence -v -interop.seeds 200 -seed.first 1000000
func TestInteropCadence(t *testing.T) {
	var worlds []*interopWorld
	for _, kind := range []string{"calm", "queue", "step", "deaf"} {
		for _, cadence := range []time.Duration{100 * ms, 160 * ms, 500 * ms, sec, 2 * sec} {
			for seed := range uint64(*interopSeeds) {
				worlds = append(worlds, newInteropWorld(kind, cadence, *seedFirst+seed+1))
			}
		}
	}
	var f failures
	eachOf(len(worlds), func(i int) {
		// Ours needs three datagrams, and then the next report, to say what an original says
		// at once. And while two originals wait for 10 s to see a step, their minima become
		// wrong the other way: by 2 ms at 200 ppm, which makes them right 3 s sooner.
		slack := worlds[i].ReportEvery(0) + 200*ms
		if worlds[i].stepAt < forever {
			slack += 3 * sec
		}
		worlds[i].play().judge(&f, worlds[i], slack)
	})
	for kind, lines := range f.lines {
		t.Logf("%s: %d of %d", kind, len(lines), len(worlds))
	}
	f.report(t)
}
