// Worlds in which every parameter is drawn.

package simtest

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
)

// drawn is a world of two ends in which every parameter is drawn. Way 0 leads from A to B.
type drawn struct {
	dice
	seed    uint64
	until   time.Duration
	reports time.Duration // time between two reports
	ways    [2]drawnWay
	clocks  [2]simnet.ClockSpec
	asleep  [2][]simnet.Window // nothing is sent, received or asked
	stalls  [2][]simnet.Window // what arrives is read at the end
	marks   []drawnMark        // what the oracle is told
	over    time.Duration      // the end of all that happens
	sets    []simnet.Window    // clocks are wrong by intent, and 15 s more
	events
	drawn int // so many events of a mixed world
}

// drawnMark says that something began, changed or ended.
type drawnMark struct {
	at  time.Duration
	who int // a way, or ofClocks
}

const ofClocks = 2

func (d *drawn) mark(who int, at ...time.Duration) {
	for _, t := range at {
		d.marks = append(d.marks, drawnMark{t, who})
		d.over = max(d.over, t)
	}
}

type drawnWay struct {
	base  time.Duration
	path  []profile    // changes of the delay without any queue
	queue []profile    // queues that stand
	wide  []profile    // factors of the jitter
	busy  []profile    // factors of the rate
	delay simnet.Delay // jitter
	loss  []simnet.Loss
	rate  float64 // datagrams a second
	frame int     // so many are sent at once
	fifo  bool
}

// profile is a line through knots in the order of time; two at one time are a jump. Before the first
// one it is neutral, which is what the first one says.
type profile []knot

type knot struct {
	at time.Duration
	v  float64
}

func (p profile) value(t time.Duration) float64 {
	next, _ := slices.BinarySearchFunc(p, t+1, func(k knot, t time.Duration) int { return cmp.Compare(k.at, t) })
	from := p[max(next-1, 0)]
	if next == 0 || next == len(p) {
		return from.v
	}
	to := p[next]
	return from.v + (to.v-from.v)*float64(t-from.at)/float64(to.at-from.at)
}

func sum(profiles []profile, t time.Duration) (v float64) {
	for _, p := range profiles {
		v += p.value(t)
	}
	return v
}

func product(profiles []profile, t time.Duration) float64 {
	v := 1.0
	for _, p := range profiles {
		v *= p.value(t)
	}
	return v
}

// baseAt is the delay without any queue.
func (w *drawnWay) baseAt(t time.Duration) time.Duration {
	return max(w.base+time.Duration(sum(w.path, t)), w.base/20)
}

// ---- Drawing ----

func (d *drawn) chance(p float64) bool { return d.r.Float64() < p }

// drawnJitters are the kinds of jitter of a mean of about size.
var drawnJitters = []struct {
	name string
	make func(d *drawn, size time.Duration) simnet.Delay
}{
	{"none", func(*drawn, time.Duration) simnet.Delay { return simnet.Const(0) }},
	{"exponential", func(_ *drawn, size time.Duration) simnet.Delay { return simnet.Exp(size) }},
	{"gamma", func(d *drawn, size time.Duration) simnet.Delay { return simnet.Gamma(d.logBetween(0.4, 4), size) }},
	{"uniform", func(_ *drawn, size time.Duration) simnet.Delay { return simnet.Uniform(0, 2*size) }},
	{"half normal", func(_ *drawn, size time.Duration) simnet.Delay {
		return func(r *rand.Rand, _ time.Duration) time.Duration {
			return time.Duration(math.Abs(r.NormFloat64()) * float64(size))
		}
	}},
	{"slots", func(d *drawn, size time.Duration) simnet.Delay {
		every := max(2*size, 10*us)
		return simnet.Bundles(every, d.span(0, every), simnet.Exp(size/4))
	}},
	{"heavy tail", func(d *drawn, size time.Duration) simnet.Delay {
		if d.chance(0.5) {
			return simnet.Pareto(size/2, d.between(1.3, 2.5))
		}
		return simnet.LogNormal(size/2, d.between(0.5, 1.5))
	}},
	{"core and late", func(d *drawn, size time.Duration) simnet.Delay {
		return simnet.Sum(simnet.Exp(size/8), simnet.Sometimes(d.between(0.05, 0.5), simnet.Uniform(0, 4*size)))
	}},
}

// drawClocks draws two clocks with so much between their rates at most.
func (d *drawn) drawClocks(ppm, wander float64) {
	skew := d.between(-ppm, ppm)
	for side := range d.clocks {
		d.clocks[side] = simnet.ClockSpec{OffsetUsec: d.r.Uint64(), SkewPPM: skew * float64(side), WanderPPM: wander * d.r.Float64()}
	}
	d.happens(0, "clocks", "%.1f ppm apart", skew)
}

// mixedWorld draws everything.
func mixedWorld(seed uint64) *drawn {
	d := &drawn{seed: seed, dice: dice{newRand(seed, 'D')}}
	d.until = d.logSpan(60*sec, 600*sec)
	d.reports = d.span(sec/2, 2*sec)
	d.drawClocks(100, 0.02*float64(d.r.IntN(2)))
	rate, jitter := d.logBetween(2, 200), d.r.IntN(len(drawnJitters))
	size, base := d.logSpan(5*us, 20*ms), d.logSpan(100*us, 150*ms)
	alike := d.chance(0.3) // both ways have the same kind of jitter, of one size, and the same rate
	for side := range d.ways {
		w := &d.ways[side]
		*w = drawnWay{base: base, rate: rate, frame: 1, fifo: d.chance(0.5)}
		if d.chance(0.8) {
			w.base = d.logSpan(100*us, 150*ms)
		}
		if !alike {
			w.rate, jitter, size = d.logBetween(2, 200), d.r.IntN(len(drawnJitters)), d.logSpan(5*us, 20*ms)
		}
		w.delay = drawnJitters[jitter].make(d, size)
		text := drawnJitters[jitter].name
		if d.chance(0.25) {
			lasting := d.logSpan(10*ms, sec)
			w.delay = simnet.Shared(lasting, w.delay)
			text += fmt.Sprintf(" shared for %v", lasting.Round(ms))
		}
		if d.chance(0.25) {
			w.frame = 2 + d.r.IntN(7)
		}
		loss := 0.0
		if d.chance(0.4) {
			loss = d.logBetween(0.001, 0.3)
			w.loss = append(w.loss, simnet.GilbertElliott(loss, d.between(1, 10)))
		}
		d.happens(0, "way", "from %c: %v, %s of %v, %.1f/s in frames of %d, loss %.3f", 'A'+rune(side),
			w.base.Round(10*us), text, size.Round(us), w.rate, w.frame, loss)
	}
	d.drawn = d.r.IntN(5)
	for range d.drawn {
		kind := d.r.IntN(len(drawnKinds))
		at := d.span(500*ms, d.until)
		if d.chance(0.15) {
			at = d.span(500*ms, 10*sec)
		}
		drawnKinds[kind].draw(d, plan{at: at, ways: 1 + d.r.IntN(3)})
	}
	return d
}

// plan is what is already known of an event that is being drawn. Zero is: draw it.
type plan struct {
	at      time.Duration
	ways    int // bit 0 is way 0
	lo, hi  float64
	lasting [2]time.Duration
	longer  int // of a path: +1 longer, -1 shorter
}

func (p plan) each(f func(side int)) {
	for side := range 2 {
		if p.ways>>side&1 == 1 {
			f(side)
		}
	}
}

func (d *drawn) size(p plan, lo, hi float64) float64 {
	return d.logBetween(cmp.Or(p.lo, lo), cmp.Or(p.hi, hi))
}

func (d *drawn) lasts(p plan, lo, hi time.Duration) time.Duration {
	return d.logSpan(cmp.Or(p.lasting[0], lo), cmp.Or(p.lasting[1], hi))
}

// factor is x for so long, and 1 before and after.
func factor(at, lasting time.Duration, x float64) profile {
	return profile{{at, 1}, {at, x}, {at + lasting, x}, {at + lasting, 1}}
}

// stands adds a queue of that shape, knots relative to its beginning in units of its height. Its
// corners are marks if they are few.
func (d *drawn) stands(side int, kind string, at time.Duration, height float64, shape []knot) {
	p := profile{{at, 0}}
	for _, k := range shape {
		p = append(p, knot{at + k.at, k.v * height})
		if len(shape) < 8 {
			d.mark(side, at+k.at)
		}
	}
	end := p[len(p)-1].at
	d.mark(side, at, end)
	d.ways[side].queue = append(d.ways[side].queue, p)
	d.happens(at, kind, "from %c, %.2f ms, until %.1f s", 'A'+rune(side), height/1e6, end.Seconds())
}

// queues adds a queue of about that height to each way of the plan.
func (d *drawn) queues(p plan, kind string, height float64, shape func(height float64) []knot) {
	p.each(func(side int) {
		x := height * d.between(0.6, 1)
		d.stands(side, kind, p.at, x, shape(x))
	})
}

// drains is how long a queue takes to become empty: a delay cannot fall faster than time passes.
func drains(height float64) time.Duration { return max(100*ms, time.Duration(1.2*height)) }

// changes adds a change of a path, in nanoseconds, at each of the times: on, off, on, ...
func (d *drawn) changes(side int, size float64, at []time.Duration) {
	w := &d.ways[side]
	size = max(size, -0.9*float64(w.base))
	p := profile{}
	for i, t := range at {
		on := float64((i + 1) % 2)
		p = append(p, knot{t, (1 - on) * size}, knot{t, on * size})
	}
	d.mark(side, at...)
	w.path = append(w.path, p)
	d.happens(at[0], "path", "from %c, %+.2f ms, changes %d times until %.1f s", 'A'+rune(side), size/1e6, len(at), at[len(at)-1].Seconds())
}

// pathOf draws a path that changes at these times.
func (d *drawn) pathOf(p plan, at []time.Duration) {
	longer := float64(p.longer)
	if longer == 0 {
		longer = -d.sign()
	}
	size := d.size(p, 100e3, 100e6)
	p.each(func(side int) {
		x := size
		if longer < 0 {
			x = d.between(0.2, 0.9) * float64(d.ways[side].base)
		}
		d.changes(side, longer*x*d.between(0.7, 1), at)
	})
}

func (d *drawn) clockEvent(side int, e simnet.ClockEvent) {
	d.clocks[side].Events = append(d.clocks[side].Events, e)
	d.mark(ofClocks, e.At, e.At+e.For)
	end := e.At + e.For
	if e.PPM < -1e5 { // it stands still
		d.sets = append(d.sets, simnet.Window{From: e.At, To: end + 15*sec})
	} else {
		d.sets = append(d.sets, simnet.Window{From: e.At, To: e.At + 15*sec}, simnet.Window{From: end, To: end + 15*sec})
	}
	d.happens(e.At, "clock", "of %c by %v, %+.0f ppm for %v", 'A'+rune(side), e.Step, e.PPM, e.For)
}

// drawnKinds are the kinds of events.
var drawnKinds = []struct {
	name string
	draw func(d *drawn, p plan)
}{
	{"plateau", func(d *drawn, p plan) {
		fill, lasting := d.logSpan(50*ms, 2*sec), d.lasts(p, 5*sec, 300*sec)
		height := d.size(p, 200e3, 200e6)
		fill = max(fill, time.Duration(height))
		d.queues(p, "plateau", height, func(x float64) []knot {
			return []knot{{fill, 1}, {fill + lasting, 1}, {fill + lasting + drains(x), 0}}
		})
	}},
	{"saw", func(d *drawn, p plan) {
		lasting, height := d.lasts(p, 10*sec, 200*sec), d.size(p, 200e3, 100e6)
		d.queues(p, "saw", height, func(x float64) (shape []knot) {
			period := d.logSpan(sec, 30*sec) + drains(x)
			for t := time.Duration(0); t == 0 || t+period < lasting; t += period {
				shape = append(shape, knot{t + period - drains(x), 1}, knot{t + period, d.between(0, 0.3)})
			}
			return append(shape, knot{shape[len(shape)-1].at + drains(x), 0})
		})
	}},
	{"sine", func(d *drawn, p plan) {
		lasting, height := d.lasts(p, 10*sec, 200*sec), d.size(p, 200e3, 100e6)
		d.queues(p, "sine", height, func(x float64) (shape []knot) {
			period := max(d.logSpan(2*sec, 60*sec), 4*drains(x))
			for n := 1; time.Duration(n)*period/32 < lasting || n%32 != 0; n++ {
				shape = append(shape, knot{time.Duration(n) * period / 32, 0.5 - 0.5*math.Cos(2*math.Pi*float64(n)/32)})
			}
			return append(shape, knot{shape[len(shape)-1].at + period/32, 0})
		})
	}},
	{"fill and drop", func(d *drawn, p plan) {
		lasting, height := d.lasts(p, 5*sec, 100*sec), d.size(p, 200e3, 200e6)
		d.queues(p, "fill", height, func(x float64) []knot {
			fill := max(lasting, time.Duration(x))
			return []knot{{fill, 1}, {fill + drains(x), 0}}
		})
	}},
	{"ramp", func(d *drawn, p plan) {
		lasting, ppm := d.lasts(p, 10*sec, 200*sec), d.size(p, 3, 1000)
		stays, back := d.logSpan(ms, 200*sec), d.chance(0.5)
		p.each(func(side int) {
			x := ppm * d.between(0.6, 1) * lasting.Seconds() * 1e3
			shape := []knot{{lasting, 1}}
			if back {
				shape = append(shape, knot{lasting + stays, 1}, knot{lasting + stays + drains(x), 0})
			}
			d.stands(side, fmt.Sprintf("ramp of %.0f ppm", ppm), p.at, x, shape)
		})
	}},
	{"path for good", func(d *drawn, p plan) { d.pathOf(p, []time.Duration{p.at}) }},
	{"path and back", func(d *drawn, p plan) {
		d.pathOf(p, []time.Duration{p.at, p.at + d.lasts(p, 5*sec, 200*sec)})
	}},
	{"flaps", func(d *drawn, p plan) {
		period, lasting := d.logSpan(4*sec, 60*sec), d.lasts(p, 30*sec, 200*sec)
		on := time.Duration(d.between(0.2, 0.8) * float64(period))
		at := []time.Duration{}
		for t := p.at; len(at) == 0 || t < p.at+lasting; t += period {
			at = append(at, t, t+on)
		}
		d.pathOf(p, at)
	}},
	{"set", func(d *drawn, p plan) {
		d.clockEvent(d.r.IntN(2), simnet.ClockEvent{At: p.at, Step: time.Duration(-d.sign() * d.size(p, 1e6, 5e9))})
	}},
	{"slew", func(d *drawn, p plan) {
		d.clockEvent(d.r.IntN(2), simnet.ClockEvent{At: p.at, PPM: -d.sign() * d.size(p, 50, 500), For: d.lasts(p, 5*sec, 100*sec)})
	}},
	{"silence", func(d *drawn, p plan) {
		w := simnet.Window{From: p.at, To: p.at + d.lasts(p, 2*sec, 60*sec)}
		p.each(func(side int) { d.ways[side].loss = append(d.ways[side].loss, simnet.Silence(w)) })
		d.over = max(d.over, w.To)
		d.happens(p.at, "silence", "of ways %02b until %.1f s", p.ways, w.To.Seconds())
	}},
	{"stalls", func(d *drawn, p plan) {
		lasting, every := d.logSpan(100*ms, 3*sec), d.logSpan(2*sec, 20*sec)
		n, side := 1+d.r.IntN(6), d.r.IntN(2)
		for i := range n {
			from := p.at + time.Duration(i)*(every+lasting)
			d.stalls[side] = append(d.stalls[side], simnet.Window{From: from, To: from + lasting})
		}
		d.happens(p.at, "stalls", "of %c, %d of %v, every %v", 'A'+rune(side), n, lasting, every+lasting)
	}},
	{"jitter", func(d *drawn, p plan) {
		x, lasting := d.size(p, 0.1, 10), d.lasts(p, 10*sec, 300*sec)
		p.each(func(side int) {
			d.ways[side].wide = append(d.ways[side].wide, factor(p.at, lasting, x))
		})
		d.over = max(d.over, p.at+lasting)
		d.happens(p.at, "jitter", "of ways %02b times %.2f until %.1f s", p.ways, x, (p.at + lasting).Seconds())
	}},
	{"rate", func(d *drawn, p plan) {
		x, lasting := d.size(p, 0.1, 10), d.lasts(p, 10*sec, 300*sec)
		p.each(func(side int) {
			y := min(max(x, 2/d.ways[side].rate), 200/d.ways[side].rate)
			d.ways[side].busy = append(d.ways[side].busy, factor(p.at, lasting, y))
		})
		d.happens(p.at, "rate", "of ways %02b times %.2f until %.1f s", p.ways, x, (p.at + lasting).Seconds())
	}},
	{"suspend", func(d *drawn, p plan) {
		side, lasting := d.r.IntN(2), d.lasts(p, sec, 60*sec)
		d.asleep[side] = append(d.asleep[side], simnet.Window{From: p.at, To: p.at + lasting})
		d.happens(p.at, "suspend", "of %c for %v", 'A'+rune(side), lasting)
		if p.longer > 0 || p.longer == 0 && d.chance(0.5) {
			return // its clock runs on
		}
		d.clockEvent(side, simnet.ClockEvent{At: p.at, PPM: -1e6, For: lasting})
	}},
}

// ---- Single events ----

// family is a kind of event in an otherwise calm world.
type family struct {
	name   string
	kind   string // "" is none
	ways   int    // 1 is one of the two
	lo, hi float64
	lasts  [2]time.Duration
	longer int
	early  bool
	jitter string // "" is narrow, "wide" or "gamma"
	share  float64
}

// drawnFamilies are all of them.
var drawnFamilies = func() (all []family) {
	add := func(f family) {
		f.share = 0.08
		name := cmp.Or(f.kind, "no event") + [...]string{"", " one way", "", " both ways"}[f.ways]
		switch f.kind {
		case "ramp", "slew":
			name += fmt.Sprintf(" %g-%g ppm", f.lo, f.hi)
		case "set":
			name += fmt.Sprintf(" %g-%g ms", f.lo/1e6, f.hi/1e6)
		case "suspend":
			name += map[int]string{1: ", clock runs", -1: ", clock stands"}[f.longer]
		default:
			name += map[int]string{1: " longer", -1: " shorter"}[f.longer]
		}
		if f.lasts[1] > 0 {
			name += fmt.Sprintf(" %g-%g s", f.lasts[0].Seconds(), f.lasts[1].Seconds())
		}
		if f.early {
			name, f.share = "early "+name, 0.2
			if f.kind == "ramp" {
				f.share = 0.3
			}
		}
		if f.jitter != "" {
			name, f.share = name+", "+f.jitter, map[string]float64{"wide": 0.2, "gamma": 0.45}[f.jitter]
		}
		f.name = name
		all = append(all, f)
	}
	for _, ways := range []int{1, 3} {
		add(family{kind: "plateau", ways: ways, lasts: [2]time.Duration{5 * sec, 133 * sec}})
		add(family{kind: "plateau", ways: ways, lasts: [2]time.Duration{133 * sec, 300 * sec}})
		add(family{kind: "plateau", ways: ways, lasts: [2]time.Duration{28 * sec, 200 * sec}, early: true})
		for _, kind := range []string{"saw", "sine", "fill and drop"} {
			add(family{kind: kind, ways: ways})
		}
		for _, slope := range [][2]float64{{3, 10}, {10, 30}, {30, 100}, {100, 300}, {300, 1000}} {
			add(family{kind: "ramp", ways: ways, lo: slope[0], hi: slope[1], lasts: [2]time.Duration{40 * sec, 200 * sec}})
		}
		add(family{kind: "ramp", ways: ways, lo: 3, hi: 30, early: true})
		add(family{kind: "ramp", ways: ways, lo: 30, hi: 300, early: true})
		for _, longer := range []int{1, -1} {
			add(family{kind: "path for good", ways: ways, longer: longer})
			add(family{kind: "path for good", ways: ways, longer: longer, early: true})
			add(family{kind: "path and back", ways: ways, longer: longer, lasts: [2]time.Duration{5 * sec, 77 * sec}})
			add(family{kind: "path and back", ways: ways, longer: longer, lasts: [2]time.Duration{77 * sec, 200 * sec}})
			add(family{kind: "path and back", ways: ways, longer: longer, early: true})
			add(family{kind: "flaps", ways: ways, longer: longer})
		}
		add(family{kind: "silence", ways: ways})
	}
	add(family{kind: "set", lo: 1e6, hi: 1e7})
	add(family{kind: "set", lo: 1e7, hi: 1e9})
	add(family{kind: "set", lo: 1e9, hi: 5e9})
	add(family{kind: "set", lo: 1e6, hi: 5e9, early: true})
	add(family{kind: "slew", lo: 50, hi: 150})
	add(family{kind: "slew", lo: 150, hi: 500})
	add(family{kind: "slew", lo: 50, hi: 500, early: true})
	add(family{kind: "stalls"})
	add(family{kind: "jitter", ways: 3})
	add(family{kind: "rate", ways: 3})
	add(family{kind: "suspend", longer: 1})
	add(family{kind: "suspend", longer: -1})
	add(family{})
	add(family{jitter: "wide"})
	add(family{jitter: "gamma"})
	for _, jitter := range []string{"wide", "gamma"} {
		add(family{kind: "plateau", ways: 1, jitter: jitter})
		add(family{kind: "path for good", ways: 1, jitter: jitter})
		add(family{kind: "path and back", ways: 3, longer: 1, jitter: jitter})
		add(family{kind: "ramp", ways: 1, lo: 30, hi: 100, jitter: jitter})
	}
	return all
}()

// world draws a world of the family.
func (f *family) world(seed uint64) *drawn {
	d := &drawn{seed: seed, dice: dice{newRand(seed, uint64(crc32.ChecksumIEEE([]byte(f.name))))}}
	d.reports = d.span(sec/2, 2*sec)
	d.drawClocks(50, 0.003)
	for side := range d.ways {
		w := &d.ways[side]
		*w = drawnWay{base: d.logSpan(ms, 50*ms), rate: d.logBetween(15, 60), frame: 1, fifo: true}
		size := d.logSpan(10*us, 300*us)
		w.delay = simnet.Exp(size)
		switch f.jitter {
		case "wide":
			size = d.logSpan(ms, 10*ms)
			w.delay = simnet.Exp(size)
		case "gamma":
			size = d.logSpan(300*us, 3*ms)
			w.delay = simnet.Gamma(d.between(1.5, 4), size)
		}
		d.happens(0, "way", "from %c: %v, jitter %v, %.1f/s", 'A'+rune(side), w.base.Round(10*us), size.Round(us), w.rate)
	}
	p := plan{at: d.span(40*sec, 150*sec), ways: f.ways, lo: f.lo, hi: f.hi, lasting: f.lasts, longer: f.longer}
	if f.early {
		p.at = d.span(500*ms, 8*sec)
	}
	if p.ways == 1 {
		p.ways += d.r.IntN(2)
	}
	for _, k := range drawnKinds {
		if k.name == f.kind {
			k.draw(d, p)
		}
	}
	d.until = min(max(d.over, p.at)+d.span(60*sec, 120*sec), 600*sec)
	return d
}

// ---- Playing ----

// flight is a datagram: when it is sent, and when it is received, which is 0 if it is lost.
type flight struct{ sent, at time.Duration }

// drawnAnswer is what an end said at one time.
type drawnAnswer struct {
	at   time.Duration
	side int
	// errors of the original, of ours and of the oracle, microseconds; NaN is no answer
	err    [3]float64
	bound  float64 // of ours
	lo, hi float64 // errors that nobody can avoid
}

// drawnEnd is one of the two ends, and what it sends.
type drawnEnd struct {
	clock, steady *simnet.Clock // steady has no wander: the oracle knows that
	flights       []flight
	heard         bool
	reportAt      time.Duration
}

// sendAll draws all datagrams of a way.
func (d *drawn) sendAll(side int) (all []flight) {
	w, net := &d.ways[side], newRand(d.seed, 'n'+uint64(side))
	var last, sent time.Duration
	for t := time.Duration(net.Float64() * float64(sec) / w.rate); t < d.until; {
		period := float64(sec) / w.rate / product(w.busy, t) * float64(w.frame)
		for i := range w.frame {
			at := t + time.Duration(i)*50*us + time.Duration(net.Float64()*min(period/5, float64(2*ms)))/time.Duration(w.frame)
			at = max(at, sent)
			if simnet.Within(d.asleep[side], at) {
				continue
			}
			sent, all = at, append(all, flight{sent: at})
			lost := simnet.AnyLoss(w.loss...)(net, at)
			jitter := time.Duration(float64(w.delay(net, at)) * product(w.wide, at))
			there := at + w.baseAt(at) + time.Duration(max(sum(w.queue, at), 0)) + jitter
			if w.fifo && !lost {
				there = max(there, last)
			}
			if lost || simnet.Within(d.asleep[1-side], there) {
				continue
			}
			last = wakes(d.stalls[1-side], there)
			all[len(all)-1].at = last
		}
		t += time.Duration(period)
	}
	return all
}

// send lets the datagrams of a side flow to the other.
func (d *drawn) send(w *simnet.World, both *sim.Ends, ends *[2]drawnEnd, side sim.Side, flights []flight) {
	if len(flights) == 0 {
		return
	}
	f, from, to := flights[0], &ends[side], &ends[1-side]
	w.At(f.sent, func() {
		var reports map[int]uint32
		stamp := from.clock.Usec(f.sent)
		if from.heard && f.sent >= from.reportAt {
			from.reportAt, reports = f.sent+d.reports, both.Reports(side, stamp)
		}
		if f.at > 0 {
			w.At(f.at, func() {
				o := sim.Observation{Side: 1 - side, LocalUsec: to.clock.Usec(f.at)}
				both.Datagram(o, sim.Stamp(stamp), f.at-f.sent)
				both.Told(o.Side, o.LocalUsec, reports)
				to.heard = true
			})
		}
		d.send(w, both, ends, side, flights[1:])
	})
}

// newEnds returns both ends, and an oracle of what they send.
func (d *drawn) newEnds() (ends [2]drawnEnd, oracle *drawnOracle) {
	for side, spec := range d.clocks {
		clock := simnet.NewClock(spec, d.seed^uint64(side))
		spec.WanderPPM = 0
		ends[side] = drawnEnd{clock: clock, steady: simnet.NewClock(spec, 0), flights: d.sendAll(side)}
	}
	var points [2][]drawnPoint
	for way := range points {
		for _, f := range ends[way].flights {
			if f.at > 0 {
				delta := ends[1-way].steady.Reading(f.at) - ends[way].steady.Reading(f.sent)
				points[way] = append(points[way], drawnPoint{x: f.at.Seconds(), sent: f.sent.Seconds(), d: delta})
			}
		}
		slices.SortStableFunc(points[way], func(a, b drawnPoint) int { return cmp.Compare(a.x, b.x) })
	}
	slices.SortFunc(d.marks, func(a, b drawnMark) int { return cmp.Compare(a.at, b.at) })
	return ends, newDrawnOracle(d.marks, d.until, points)
}

// pollEvery is how often both ends are asked.
const pollEvery = 200 * ms

// play lets the original and ours talk over the same datagrams.
func (d *drawn) play() (answers []drawnAnswer) {
	ends, oracle := d.newEnds()
	both := sim.Ends{Pairs: scorePairs()}
	half := func(t time.Duration) float64 { return float64(d.ways[0].baseAt(t)-d.ways[1].baseAt(t)) / 2e3 }
	w, first := simnet.NewWorld(d.seed), half(0)
	w.Every(pollEvery, time.Duration(newRand(d.seed, 'p').Float64()*float64(pollEvery)), func() {
		at := w.Now()
		now, offset := half(at), oracle.offset(at.Seconds())-ends[1].steady.Reading(at)+ends[0].steady.Reading(at)
		for side := range ends {
			if simnet.Within(d.asleep[side], at) {
				continue
			}
			local, remote := ends[side].clock.Usec(at), ends[1-side].clock.Usec(at)
			sign := float64(1 - 2*side)
			a := drawnAnswer{at: at, side: side, lo: min(sign*first, sign*now), hi: max(sign*first, sign*now)}
			for i, p := range both.Pairs {
				a.err[i] = math.NaN()
				if got, ok := p.At(sim.Side(side)).RemoteTime(local, remote); ok {
					a.err[i] = float64(int64((got-remote)<<38) >> 38)
				}
			}
			bound, _ := both.Pairs[1].At(sim.Side(side)).(*subject).Sync.ErrorBound(local)
			a.bound, a.err[2] = bound.Seconds()*1e6, sign*offset
			answers = append(answers, a)
		}
	})
	for side := range ends {
		d.send(w, &both, &ends, sim.Side(side), ends[side].flights)
	}
	w.Run(d.until - 1)
	return answers
}
