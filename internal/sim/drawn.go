package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"timesync/internal/sim/simnet"
)

// Drawn is a world of two ends in which every parameter is drawn from a seed. Nobody can have
// tuned a method for such worlds. Mixed draws one in which several things happen, a Family one in
// which a single thing does.
type Drawn struct {
	simnet.Dice
	Seed  uint64
	Until time.Duration
	// Reports is the time between two reports.
	Reports time.Duration
	// Clocks are those of both ends, in the order of Side.
	Clocks [2]simnet.ClockSpec
	// Marks is when something began, changed or ended, not in the order of time.
	Marks []Mark
	// Sets is when clocks are wrong by intent, and 15 s more.
	Sets []simnet.Window
	// Happenings say in words what happens.
	Happenings
	// Events is how many events of a mixed world were drawn.
	Events int

	ways   [2]way // way 0 leads from A to B
	asleep [2][]simnet.Window
	stalls [2][]simnet.Window
	over   time.Duration // the end of all that happens
}

// Mark says that something began, changed or ended, on a way or to a clock.
type Mark struct {
	At  time.Duration
	Who int // the Side from which the way leads, or OfClocks
}

// OfClocks is who a Mark of a clock is about.
const OfClocks = 2

func (d *Drawn) mark(who int, at ...time.Duration) {
	for _, t := range at {
		d.Marks = append(d.Marks, Mark{t, who})
		d.over = max(d.over, t)
	}
}

// way is one direction.
type way struct {
	base  time.Duration
	path  []simnet.Profile // changes of the delay without any queue, nanoseconds
	queue []simnet.Profile // queues that stand, nanoseconds
	wide  []simnet.Profile // factors of the jitter
	busy  []simnet.Profile // factors of the rate
	delay simnet.Delay     // jitter
	loss  []simnet.Loss
	rate  float64 // datagrams a second
	frame int     // how many are sent at once
	fifo  bool
}

// askEvery is how often both ends are asked, at the same time.
const askEvery = 200 * ms

// Session returns the two ends. The oracle of internal/simtest sees the same clocks without wander.
func (d *Drawn) Session() *Session {
	s := &Session{
		Duration:    d.Until - 1,
		ReportEvery: func(time.Duration) time.Duration { return d.Reports },
	}
	ask := time.Duration(d.stream('p').Float64() * float64(askEvery))
	for side := range s.End {
		w := &d.ways[side]
		net := d.stream('n' + uint64(side))
		s.End[side] = End{
			Clock:     d.Clocks[side],
			ClockSeed: d.Seed ^ uint64(side),
			Out:       w.link(),
			Net:       net,
			Sends:     w.sends(net),
			Asks:      Regularly(ask, askEvery),
			Off:       d.asleep[side],
			Stalls:    d.stalls[side],
		}
	}
	return s
}

// stream returns random numbers of the world for a use.
func (d *Drawn) stream(use uint64) *rand.Rand { return rand.New(rand.NewPCG(d.Seed, use)) }

// link returns the way as a link of a network.
func (w *way) link() *simnet.Link {
	jitter := simnet.Scaled(w.delay, w.wide)
	return &simnet.Link{
		Base:  simnet.Shifted(w.base, w.path),
		Delay: simnet.Losing(simnet.AnyLoss(w.loss...), simnet.Sum(jitter, simnet.Shaped(w.queue))),
		FIFO:  w.fifo,
	}
}

// sends is when datagrams are sent: frames of some, 50 us apart, up to a fifth of a period or 2 ms
// late. It draws from the random numbers of the way, in turn with it.
func (w *way) sends(net *rand.Rand) Schedule {
	start := time.Duration(net.Float64() * float64(sec) / w.rate)
	period := 0.0 // of the frame, nanoseconds
	n := w.frame  // which datagram of it is next
	var sent time.Duration
	return func() time.Duration {
		if n == w.frame {
			start += time.Duration(period)
			n = 0
			period = float64(sec) / w.rate / simnet.Product(w.busy, start) * float64(w.frame)
		}
		late := time.Duration(net.Float64()*min(period/5, float64(2*ms))) / time.Duration(w.frame)
		sent = max(start+time.Duration(n)*50*us+late, sent)
		n++
		return sent
	}
}

// drawnJitters are the kinds of jitter of a mean of about size.
var drawnJitters = []struct {
	name string
	make func(d *Drawn, size time.Duration) simnet.Delay
}{
	{"none", func(*Drawn, time.Duration) simnet.Delay { return simnet.Const(0) }},
	{"exponential", func(_ *Drawn, size time.Duration) simnet.Delay { return simnet.Exp(size) }},
	{"gamma", func(d *Drawn, size time.Duration) simnet.Delay {
		return simnet.Gamma(d.LogBetween(0.4, 4), size)
	}},
	{"uniform", func(_ *Drawn, size time.Duration) simnet.Delay {
		return simnet.Uniform(0, 2*size)
	}},
	{"half normal", func(_ *Drawn, size time.Duration) simnet.Delay {
		return func(r *rand.Rand, _ time.Duration) time.Duration {
			return time.Duration(math.Abs(r.NormFloat64()) * float64(size))
		}
	}},
	{"slots", func(d *Drawn, size time.Duration) simnet.Delay {
		every := max(2*size, 10*us)
		return simnet.Bundles(every, d.Span(0, every), simnet.Exp(size/4))
	}},
	{"heavy tail", func(d *Drawn, size time.Duration) simnet.Delay {
		if d.Chance(0.5) {
			return simnet.Pareto(size/2, d.Between(1.3, 2.5))
		}
		return simnet.LogNormal(size/2, d.Between(0.5, 1.5))
	}},
	{"core and late", func(d *Drawn, size time.Duration) simnet.Delay {
		late := simnet.Sometimes(d.Between(0.05, 0.5), simnet.Uniform(0, 4*size))
		return simnet.Sum(simnet.Exp(size/8), late)
	}},
}

// drawClocks draws two clocks whose rates are at most that far apart.
func (d *Drawn) drawClocks(ppm, wander float64) {
	skew := d.Between(-ppm, ppm)
	for side := range d.Clocks {
		d.Clocks[side] = simnet.ClockSpec{
			OffsetUsec: d.R.Uint64(),
			SkewPPM:    skew * float64(side),
			WanderPPM:  wander * d.R.Float64(),
		}
	}
	d.Happens(0, "clocks", "%.1f ppm apart", skew)
}

// Mixed draws a world in which none to four events happen.
func Mixed(seed uint64) *Drawn {
	d := &Drawn{Seed: seed, Dice: simnet.Dice{R: rand.New(rand.NewPCG(seed, 'D'))}}
	d.Until = d.LogSpan(60*sec, 600*sec)
	d.Reports = d.Span(sec/2, 2*sec)
	d.drawClocks(100, 0.02*float64(d.R.IntN(2)))
	rate := d.LogBetween(2, 200)
	jitter := d.R.IntN(len(drawnJitters))
	size := d.LogSpan(5*us, 20*ms)
	base := d.LogSpan(100*us, 150*ms)
	alike := d.Chance(0.3) // both ways have the same kind of jitter, of one size, and the same rate
	for side := range d.ways {
		w := &d.ways[side]
		*w = way{base: base, rate: rate, frame: 1, fifo: d.Chance(0.5)}
		if d.Chance(0.8) {
			w.base = d.LogSpan(100*us, 150*ms)
		}
		if !alike {
			w.rate = d.LogBetween(2, 200)
			jitter = d.R.IntN(len(drawnJitters))
			size = d.LogSpan(5*us, 20*ms)
		}
		w.delay = drawnJitters[jitter].make(d, size)
		text := drawnJitters[jitter].name
		if d.Chance(0.25) {
			lasting := d.LogSpan(10*ms, sec)
			w.delay = simnet.Shared(lasting, w.delay)
			text += fmt.Sprintf(" shared for %v", lasting.Round(ms))
		}
		if d.Chance(0.25) {
			w.frame = 2 + d.R.IntN(7)
		}
		loss := 0.0
		if d.Chance(0.4) {
			loss = d.LogBetween(0.001, 0.3)
			w.loss = append(w.loss, simnet.GilbertElliott(loss, d.Between(1, 10)))
		}
		d.Happens(0, "way", "from %c: %v, %s of %v, %.1f/s in frames of %d, loss %.3f",
			'A'+rune(side), w.base.Round(10*us), text, size.Round(us), w.rate, w.frame, loss)
	}
	d.Events = d.R.IntN(5)
	for range d.Events {
		kind := d.R.IntN(len(drawnKinds))
		at := d.Span(500*ms, d.Until)
		if d.Chance(0.15) {
			at = d.Span(500*ms, 10*sec)
		}
		drawnKinds[kind].draw(d, plan{at: at, ways: 1 + d.R.IntN(3)})
	}
	return d
}
