// This test proves that a clock that is set in the first seconds, when it looks like a queue that
// ends, is found out.

package sim_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"timesync/internal/sim"
)

// earlySet is a world in which a clock is set by 10 to 100 ms within 6 s of the start. It
// returns how long both ends were wrong after that.
func earlySet(seed uint64) (wrong time.Duration, text string) {
	r := rand.New(rand.NewPCG(seed, 7))
	base := [2]time.Duration{uniform(r, ms/2, 40*ms), uniform(r, ms/2, 40*ms)}
	jitter, at, step := uniform(r, ms/10, 8*ms), uniform(r, 0, 6*sec), uniform(r, 10*ms, 100*ms)
	if r.IntN(2) == 0 {
		step = -step
	}
	side, ppm, offset := r.IntN(2), float64(r.IntN(101)-50), r.Uint64()
	clock := func(end int, ppm float64) func(uint64) sim.ClockSpec {
		spec := sim.ClockSpec{OffsetUsec: offset + uint64(end)*1e12, SkewPPM: ppm}
		if end == side {
			spec.Events = []sim.ClockEvent{{At: at, Step: step}}
		}
		return func(uint64) sim.ClockSpec { return spec }
	}
	link := func(from int) func(uint64) *sim.Link {
		return func(uint64) *sim.Link { return &sim.Link{Base: sim.Fixed(base[from]), Delay: sim.Exp(jitter)} }
	}
	rate, cadence := []float64{20, 30, 60}[r.IntN(3)], []time.Duration{500 * ms, sec, 2 * sec}[r.IntN(3)]
	sc := sim.Scenario{
		Duration: 60 * sec, PollRate: 10, A: clock(0, ppm/2), B: clock(1, -ppm/2), AB: link(0), BA: link(1),
		RateAB: rate, RateBA: rate, ReportEvery: func(time.Duration) time.Duration { return cadence },
	}
	tolerable := 3000 + float64(jitter/us)/2
	sim.Run(sc, seed, []sim.Pair{{A: &subject{}, B: &subject{}}}, sim.Observer{Poll: func(o *sim.Observation) {
		if o.At > at && (!o.OK || math.Abs(o.Excess()) > tolerable) {
			wrong = o.At - at
		}
	}})
	return wrong, fmt.Sprintf("seed %d: %c's at %v by %v, one way %v, jitter %v, %v datagrams a second, reports every %v",
		seed, 'A'+rune(side), at, step, base, jitter, rate, cadence)
}

// TestEarlySets: of clocks that are set in the first 6 s, 19 of 20 are right again within 15 s,
// and 24 of 25 within 26 s. The rest are sets while jitter of that size hides the floors.
func TestEarlySets(t *testing.T) {
	type world struct {
		wrong time.Duration
		text  string
	}
	worlds := make([]world, 300)
	eachOf(len(worlds), func(i int) {
		worlds[i].wrong, worlds[i].text = earlySet(*seedFirst + uint64(i))
	})
	slices.SortFunc(worlds, func(a, b world) int { return cmp.Compare(b.wrong, a.wrong) })
	for limit, most := range map[time.Duration]int{15 * sec: len(worlds) / 20, 26 * sec: len(worlds) / 25} {
		n, _ := slices.BinarySearchFunc(worlds, limit, func(w world, l time.Duration) int { return cmp.Compare(l, w.wrong) })
		t.Logf("wrong for more than %v: %d of %d", limit, n, len(worlds))
		if n > most {
			t.Errorf("more than %d worlds are wrong for more than %v:", most, limit)
		}
	}
	for _, w := range worlds[:5] {
		t.Logf("%.1f s: %s", w.wrong.Seconds(), w.text)
	}
}
