package sim_test

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"timesync/internal/sim"
)

var (
	boundWorlds = flag.Int("bound.worlds", 0, "random worlds of TestErrorBound (default 10000, or 1000 with -short)")
	boundFirst  = flag.Uint64("bound.first", 1, "seed of the first world of TestErrorBound")
	boundWorld  = flag.Uint64("bound.world", 0, "play only the world of TestErrorBound with this seed, and print it")
)

// randomWorld draws a world in which anything may happen. A calm one has no faults
// and queueing that is small against the delay: at most a fortieth of the round trip on
// average and an eighth ever, no loss, at least 20 datagrams a second, a quartz each.
func randomWorld(seed uint64) (d *duel, calm bool) {
	r := rand.New(rand.NewPCG(seed, 'w'))
	between := func(lo, hi time.Duration) time.Duration { return lo + time.Duration(r.Float64()*float64(hi-lo)) }
	logBetween := func(lo, hi float64) float64 { return lo * math.Pow(hi/lo, r.Float64()) }
	logTime := func(lo, hi time.Duration) time.Duration {
		return time.Duration(logBetween(float64(lo), float64(hi)))
	}
	d = &duel{seed: seed, until: between(8*sec, 24*sec)}
	if r.IntN(4) == 0 {
		d.until = between(24*sec, 40*sec)
	}
	calm = r.IntN(6) == 0
	if r.IntN(3) == 0 {
		d.reports = time.Duration(1+r.IntN(4)) * sec / 2
	}

	rtt := logTime(200*us, 300*ms)
	share := 0.05 + 0.9*r.Float64()
	base := [2]time.Duration{time.Duration(float64(rtt) * share), 0}
	base[1] = rtt - base[0]
	rate := logBetween(5, 120)
	if calm {
		rate = logBetween(20, 120)
	}
	d.happens(0, "start", "%.2f ms there, %.2f ms back, calm %v", base[0].Seconds()*1e3, base[1].Seconds()*1e3, calm)

	var route [2][]sim.RouteStep
	var delays [2][]sim.Delay
	var losses [2][]sim.Loss
	for side := range d.ends {
		e := &d.ends[side]
		name := 'A' + rune(side)
		e.rate = rate
		if r.IntN(4) == 0 && !calm {
			e.rate = logBetween(5, 120)
		}
		e.clock = sim.ClockSpec{OffsetUsec: r.Uint64(), SkewPPM: 100*r.Float64() - 50}
		if !calm {
			e.clock.SkewPPM *= 3
			if r.IntN(2) == 0 {
				e.clock.SinePPM, e.clock.SinePeriod = logBetween(0.1, 10), between(60*sec, 900*sec)
				e.clock.SinePhase = 2 * math.Pi * r.Float64()
			}
			if r.IntN(2) == 0 {
				e.clock.WanderPPM = logBetween(0.003, 0.3)
			}
		}
		size := logTime(10*us, 20*ms)
		if calm {
			size = logTime(min(us, rtt/100), rtt/40)
		}
		jitter := r.IntN(12)
		if calm {
			jitter %= 5
		}
		delays[side] = []sim.Delay{[]func() sim.Delay{
			func() sim.Delay { return sim.Const(0) },
			func() sim.Delay { return sim.Exp(size) },
			func() sim.Delay { return sim.Uniform(0, 2*size) },
			func() sim.Delay { return sim.Normal(size, size/2) },
			func() sim.Delay { return sim.Gamma(logBetween(0.3, 4), size) },
			func() sim.Delay { return sim.LogNormal(size/2, 1) },
			func() sim.Delay { return sim.Pareto(size/2, 1.5) },
			func() sim.Delay { return sim.Cellular() },
			func() sim.Delay { return sim.WiFi() },
			func() sim.Delay { return sim.Queue(logBetween(1e6, 1e8), 0.3+0.65*r.Float64(), 300*ms) },
			func() sim.Delay { return sim.Sum(sim.Exp(size), sim.Spike(0.003, 10*size)) },
			func() sim.Delay { return sim.Sum(sim.Exp(size/10), sim.Tail(0.1, size)) },
		}[jitter]()}
		if calm {
			queue := delays[side][0]
			delays[side][0] = func(r *rand.Rand, t time.Duration) time.Duration { return min(queue(r, t), rtt/8) }
		}
		e.out = &sim.Link{FIFO: r.IntN(2) == 0}
		d.happens(0, "start", "%c sends %.0f/s, jitter %d of %v, %.0f ppm", name, e.rate, jitter, size, e.clock.SkewPPM)
		if calm {
			continue
		}
		switch r.IntN(5) {
		case 0:
			losses[side] = append(losses[side], sim.Bernoulli(0.4*r.Float64()))
		case 1:
			losses[side] = append(losses[side], sim.GilbertElliott(0.4*r.Float64(), 1+20*r.Float64()))
		}
		if r.IntN(5) == 0 {
			e.out.Duplicate = 0.3 * r.Float64()
		}
		if r.IntN(5) == 0 {
			delays[side] = append(delays[side], sim.Reorder(0.2*r.Float64(), logTime(ms, 100*ms)))
		}
		if r.IntN(8) == 0 {
			hi := logTime(10*ms, 500*ms)
			delays[side] = append(delays[side], sim.Bufferbloat(hi/4, hi, sec, 10*sec, 8*sec))
			d.happens(0, "bufferbloat", "from %c to %v", name, hi)
		}
		if r.IntN(12) == 0 {
			hi := logTime(10*ms, 500*ms)
			delays[side] = append(delays[side], sim.Plateau(hi/4, hi, sec, 10*sec, 8*sec))
			d.happens(0, "plateaus", "from %c to %v", name, hi)
		}
	}
	if !calm {
		if r.IntN(6) == 0 {
			d.swaps = 0.3 * r.Float64()
			d.happens(0, "start", "%.0f %% of the datagrams are handed over late", 100*d.swaps)
		}
		for range r.IntN(5) {
			at, side := between(sec/2, d.until-sec), r.IntN(2)
			name := 'A' + rune(side)
			sign := time.Duration(1 - 2*r.IntN(2))
			switch r.IntN(10) {
			case 0:
				change := sign * logTime(ms/10, 100*ms)
				route[side] = append(route[side], sim.RouteStep{At: at, Change: change})
				d.happens(at, "route", "from %c by %v", name, change)
			case 1:
				change := sign * logTime(ms/10, 100*ms)
				for i := range route {
					route[i] = append(route[i], sim.RouteStep{At: at, Change: change})
					d.happens(at, "routes", "from %c by %v", 'A'+rune(i), change)
					change = time.Duration(float64(change) * (0.5 + r.Float64()))
				}
			case 2, 3:
				d.step(side, at, sign*logTime(ms, 10*time.Hour))
			case 4:
				lasting := between(sec, 4*sec)
				both := r.IntN(2) == 0
				if both {
					lasting = logTime(sec, 24*time.Hour)
					d.until += lasting
				}
				d.suspend(side, at, lasting, both)
				if both {
					goto build // times no longer fit
				}
			case 5:
				d.restart(side, at, sign*logTime(sec, 10*time.Hour), r.IntN(2) == 0)
			case 6:
				lasting, ppm := between(sec, 10*sec), 1000*r.Float64()-500
				d.ends[side].clock.Events = append(d.ends[side].clock.Events, sim.ClockEvent{At: at, For: lasting, PPM: ppm})
				d.happens(at, "slew", "of %c by %.0f ppm for %v", name, ppm, lasting)
			case 7:
				lasting, hi := between(sec, 15*sec), logTime(ms, 300*ms)
				delays[side] = append(delays[side], sim.StandingQueue(at, lasting, hi))
				d.happens(at, "queue", "from %c of %v for %v", name, hi, lasting)
			case 8:
				lasting := logTime(sec/5, 10*sec)
				silence := sim.Silence(sim.Window{From: at, To: at + lasting})
				losses[side] = append(losses[side], silence)
				d.happens(at, "silence", "from %c for %v", name, lasting)
				if r.IntN(2) == 0 {
					losses[1-side] = append(losses[1-side], silence)
					d.happens(at, "silence", "from the other, too")
				}
			case 9:
				d.strays = append(d.strays, stray{at, side, r.Uint32() & 0xffffff})
				d.happens(at, "stray", "stamp to %c", name)
			}
		}
	}
build:
	for side := range d.ends {
		least := base[side] / 20
		path := sim.Route(base[side], route[side]...)
		d.ends[side].out.Base = func(t time.Duration) time.Duration { return max(path(t), least) }
		d.ends[side].out.Delay = sim.Sum(delays[side]...)
		if losses[side] != nil {
			d.ends[side].out.Loss = sim.AnyLoss(losses[side]...)
		}
	}
	return d, calm
}

// settledAfter is when the bound of a calm world must be of use: both ends know the
// skew, and what queued before they did no longer counts.
const settledAfter = 10 * sec

// violation is an answer further off than its bound.
type violation struct {
	seed       uint64
	side       int
	at         time.Duration
	err, bound float64
	queries    int    // of that world that were violated
	after      string // what happened last before the first of them
	events     int    // of that world
}

func (v violation) String() string {
	d, _ := randomWorld(v.seed)
	return fmt.Sprintf("-bound.world %d: %c at %.3f s off by %.0f us, bound %.0f us; %d answers%v",
		v.seed, 'A'+rune(v.side), v.at.Seconds(), v.err, v.bound, v.queries, d)
}

// widths is a histogram of lengths of time in microseconds, 64 bins an octave:
// 1.1 % each.
type widths [64 * 64]int

func (w *widths) add(x float64) { w[min(max(int(math.Log2(x)*64), 0), len(w)-1)]++ }

func (w *widths) quantile(q float64) float64 {
	n := 0
	for _, c := range w {
		n += c
	}
	sum := 0
	for i, c := range w {
		if sum += c; float64(sum) >= q*float64(n) {
			return math.Exp2(float64(i+1) / 64)
		}
	}
	return 0
}

// boundScore sums up worlds.
type boundScore struct {
	queries, answered, violated, stale int
	calmQueries, calmAnswered          int // after settledAfter
	all, calm                          widths
	calmUse                            widths // 1000 times bound - 200 us over half the round trip, calm worlds after settledAfter
	worst                              []violation
}

func (b *boundScore) add(o *boundScore) {
	b.queries += o.queries
	b.answered += o.answered
	b.violated += o.violated
	b.stale += o.stale
	b.calmQueries += o.calmQueries
	b.calmAnswered += o.calmAnswered
	for i := range b.all {
		b.all[i] += o.all[i]
		b.calm[i] += o.calm[i]
		b.calmUse[i] += o.calmUse[i]
	}
	b.worst = append(b.worst, o.worst...)
}

// play plays one world. The truth and the local time of a question are cut to whole
// microseconds, which is what an answer may exceed its bound by.
//
// The only questions that do not count are those between the beginning of a clock's
// jump and the arrival, at the end that is asked, of the first datagram sent after
// it: nobody can know of the jump before.
func (b *boundScore) play(seed uint64, each func(q *query)) {
	d, calm := randomWorld(seed)
	half := 0.0
	if calm {
		half = float64(d.ends[0].out.BaseAt(0)+d.ends[1].out.BaseAt(0)) / 2e3
	}
	var worst violation
	d.onQuery = func(q *query) {
		if each != nil {
			each(q)
		}
		late := calm && q.at > settledAfter
		b.queries++
		if late {
			b.calmQueries++
		}
		if !q.ok {
			return
		}
		b.answered++
		if b.answered&3 == 0 {
			b.all.add(q.bound)
		}
		if late {
			b.calmAnswered++
			b.calm.add(q.bound)
			b.calmUse.add(1000 * max(q.bound-200, 0) / half)
		}
		switch {
		case q.stale:
			b.stale++
		case math.Abs(q.err) > q.bound+1:
			b.violated++
			if worst.queries == 0 {
				worst.after, worst.events = d.latest(q.at), len(d.events)
			}
			worst.queries++
			if math.Abs(q.err)-q.bound > math.Abs(worst.err)-worst.bound {
				worst.seed, worst.side, worst.at, worst.err, worst.bound = seed, q.side, q.at, q.err, q.bound
			}
		}
	}
	d.run()
	if worst.queries > 0 {
		b.worst = append(b.worst, worst)
	}
}

// playBounds plays n worlds on all processors.
func playBounds(first uint64, n int) *boundScore {
	var sum boundScore
	var mu sync.Mutex
	eachOf(n, func(next func() (int, bool)) {
		var b boundScore
		for i, ok := next(); ok; i, ok = next() {
			b.play(first+uint64(i), nil)
		}
		mu.Lock()
		sum.add(&b)
		mu.Unlock()
	})
	slices.SortFunc(sum.worst, func(x, y violation) int {
		return cmp.Or(-cmp.Compare(math.Abs(x.err)-x.bound, math.Abs(y.err)-y.bound), cmp.Compare(x.seed, y.seed))
	})
	return &sum
}

// eachOf lets as many workers as there are processors share the numbers below n.
func eachOf(n int, worker func(next func() (int, bool))) {
	var count atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		wg.Go(func() {
			worker(func() (int, bool) {
				i := int(count.Add(1)) - 1
				return i, i < n
			})
		})
	}
	wg.Wait()
}

// TestErrorBound asks for the error bound in random worlds: no answer may be further
// off, and where all is calm the bound must be of use.
func TestErrorBound(t *testing.T) {
	if *boundWorld != 0 {
		printWorld(t, *boundWorld)
		return
	}
	n := cmp.Or(*boundWorlds, map[bool]int{true: 1000, false: 10000}[testing.Short()])
	start := time.Now()
	b := playBounds(*boundFirst, n)
	percent := func(a, b int) float64 { return 100 * float64(a) / float64(b) }
	var s strings.Builder
	fmt.Fprintf(&s, "%d worlds in %.1f s, %d questions, %.2f %% answered, %.2f %% of the answers when nobody could know\n",
		n, time.Since(start).Seconds(), b.queries, percent(b.answered, b.queries), percent(b.stale, b.answered))
	fmt.Fprintf(&s, "coverage %.6f %%: %d answers in %d worlds beyond the bound\n",
		100-percent(b.violated, b.answered-b.stale), b.violated, len(b.worst))
	fmt.Fprintf(&s, "bound: median %.0f us, p95 %.0f us; in calm worlds after %v median %.0f us, p95 %.0f us, at most %.2f times half the round trip + 200 us",
		b.all.quantile(0.5), b.all.quantile(0.95), settledAfter, b.calm.quantile(0.5), b.calm.quantile(0.95), b.calmUse.quantile(1)/1000)
	t.Log(s.String())
	for _, v := range b.worst[:min(len(b.worst), 3)] {
		t.Errorf("among the worst: %v", v)
	}
	// The simplest worlds in which it happens after each kind of event.
	slices.SortStableFunc(b.worst, func(x, y violation) int {
		return cmp.Or(cmp.Compare(x.after, y.after), cmp.Compare(x.events, y.events), cmp.Compare(x.seed, y.seed))
	})
	for len(b.worst) > 0 {
		n := 1
		for n < len(b.worst) && b.worst[n].after == b.worst[0].after {
			n++
		}
		t.Errorf("after %q: %d worlds", b.worst[0].after, n)
		for _, v := range b.worst[:min(n, 3)] {
			t.Errorf("%v", v)
		}
		b.worst = b.worst[n:]
	}
	if use := b.calmUse.quantile(1) / 1000; use > 1.5 {
		t.Errorf("calm: the bound is up to %.2f times half the round trip + 200 us, want 1.5", use)
	}
	if p := percent(b.calmAnswered, b.calmQueries); p < 100 {
		t.Errorf("calm: %.2f %% answered after %v", p, settledAfter)
	}
}

// printWorld plays one world and prints what the ends say whenever it changes much.
func printWorld(t *testing.T, seed uint64) {
	d, _ := randomWorld(seed)
	t.Log(d)
	var b boundScore
	b.play(seed, printChanges())
}

// printChanges returns an observer that prints what the ends say whenever it changes
// much.
func printChanges() func(q *query) {
	type seen struct {
		err, bound float64
		at         time.Duration
		flags      string
	}
	var last [2]seen
	return func(q *query) {
		l := &last[q.side]
		flags := ""
		if !q.ok {
			flags += " unknown"
		}
		if q.stale {
			flags += " stale"
		}
		if q.ok && !q.stale && math.Abs(q.err) > q.bound+1 {
			flags += " VIOLATED"
		}
		other := func(a, b float64) bool { return math.Abs(a-b) > 0.1*max(math.Abs(a), math.Abs(b))+200 }
		if flags == l.flags && q.at < l.at+5*sec && !other(q.err, l.err) && !other(q.bound, l.bound) {
			return
		}
		*l = seen{q.err, q.bound, q.at, flags}
		fmt.Printf("%8.3f %c err %9.0f bound %9.0f steps %d%s  %s\n", q.at.Seconds(), 'A'+rune(q.side), q.err, q.bound, q.s.Steps(), flags, q.s.inside())
	}
}
