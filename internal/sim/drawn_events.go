package sim

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"timesync/internal/sim/simnet"
)

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

func (d *Drawn) size(p plan, lo, hi float64) float64 {
	return d.LogBetween(cmp.Or(p.lo, lo), cmp.Or(p.hi, hi))
}

func (d *Drawn) lasts(p plan, lo, hi time.Duration) time.Duration {
	return d.LogSpan(cmp.Or(p.lasting[0], lo), cmp.Or(p.lasting[1], hi))
}

// knot is a point of a profile or a shape.
func knot(at time.Duration, value float64) simnet.Knot {
	return simnet.Knot{At: at, Value: value}
}

// stands adds a queue of that shape, knots relative to its beginning in units of its height. Its
// corners are marks if they are few.
func (d *Drawn) stands(side int, kind string, at time.Duration, height float64,
	shape []simnet.Knot) {
	p := simnet.Profile{knot(at, 0)}
	for _, k := range shape {
		p = append(p, knot(at+k.At, k.Value*height))
		if len(shape) < 8 {
			d.mark(side, at+k.At)
		}
	}
	end := p[len(p)-1].At
	d.mark(side, at, end)
	d.ways[side].queue = append(d.ways[side].queue, p)
	d.Happens(at, kind, "from %c, %.2f ms, until %.1f s", 'A'+rune(side), height/1e6, end.Seconds())
}

// queues adds a queue of about that height to each way of the plan.
func (d *Drawn) queues(p plan, kind string, height float64,
	shape func(height float64) []simnet.Knot) {
	p.each(func(side int) {
		x := height * d.Between(0.6, 1)
		d.stands(side, kind, p.at, x, shape(x))
	})
}

// drains is how long a queue takes to become empty: a delay cannot fall faster than time passes.
func drains(height float64) time.Duration { return max(100*ms, time.Duration(1.2*height)) }

// changes adds a change of a path, in nanoseconds, at each of the times: on, off, on, ...
func (d *Drawn) changes(side int, size float64, at []time.Duration) {
	w := &d.ways[side]
	size = max(size, -0.9*float64(w.base))
	p := simnet.Profile{}
	for i, t := range at {
		on := float64((i + 1) % 2)
		p = append(p, knot(t, (1-on)*size), knot(t, on*size))
	}
	d.mark(side, at...)
	w.path = append(w.path, p)
	d.Happens(at[0], "path", "from %c, %+.2f ms, changes %d times until %.1f s",
		'A'+rune(side), size/1e6, len(at), at[len(at)-1].Seconds())
}

// pathOf draws a path that changes at these times.
func (d *Drawn) pathOf(p plan, at []time.Duration) {
	longer := float64(p.longer)
	if longer == 0 {
		longer = -d.Sign()
	}
	size := d.size(p, 100e3, 100e6)
	p.each(func(side int) {
		x := size
		if longer < 0 {
			x = d.Between(0.2, 0.9) * float64(d.ways[side].base)
		}
		d.changes(side, longer*x*d.Between(0.7, 1), at)
	})
}

func (d *Drawn) clockEvent(side int, e simnet.ClockEvent) {
	d.Clocks[side].Events = append(d.Clocks[side].Events, e)
	d.mark(OfClocks, e.At, e.At+e.For)
	end := e.At + e.For
	if e.PPM < -1e5 { // it stands still
		d.Sets = append(d.Sets, simnet.Window{From: e.At, To: end + 15*sec})
	} else {
		d.Sets = append(d.Sets,
			simnet.Window{From: e.At, To: e.At + 15*sec},
			simnet.Window{From: end, To: end + 15*sec})
	}
	d.Happens(e.At, "clock", "of %c by %v, %+.0f ppm for %v", 'A'+rune(side), e.Step, e.PPM, e.For)
}

// drawnKinds are the kinds of events.
var drawnKinds = []struct {
	name string
	draw func(d *Drawn, p plan)
}{
	{"plateau", func(d *Drawn, p plan) {
		fill := d.LogSpan(50*ms, 2*sec)
		lasting := d.lasts(p, 5*sec, 300*sec)
		height := d.size(p, 200e3, 200e6)
		fill = max(fill, time.Duration(height))
		d.queues(p, "plateau", height, func(x float64) []simnet.Knot {
			return []simnet.Knot{
				knot(fill, 1),
				knot(fill+lasting, 1),
				knot(fill+lasting+drains(x), 0),
			}
		})
	}},
	{"saw", func(d *Drawn, p plan) {
		lasting := d.lasts(p, 10*sec, 200*sec)
		height := d.size(p, 200e3, 100e6)
		d.queues(p, "saw", height, func(x float64) (shape []simnet.Knot) {
			period := d.LogSpan(sec, 30*sec) + drains(x)
			for t := time.Duration(0); t == 0 || t+period < lasting; t += period {
				shape = append(shape,
					knot(t+period-drains(x), 1),
					knot(t+period, d.Between(0, 0.3)))
			}
			return append(shape, knot(shape[len(shape)-1].At+drains(x), 0))
		})
	}},
	{"sine", func(d *Drawn, p plan) {
		lasting := d.lasts(p, 10*sec, 200*sec)
		height := d.size(p, 200e3, 100e6)
		d.queues(p, "sine", height, func(x float64) (shape []simnet.Knot) {
			period := max(d.LogSpan(2*sec, 60*sec), 4*drains(x))
			for n := 1; time.Duration(n)*period/32 < lasting || n%32 != 0; n++ {
				turn := 2 * math.Pi * float64(n) / 32
				shape = append(shape, knot(time.Duration(n)*period/32, 0.5-0.5*math.Cos(turn)))
			}
			return append(shape, knot(shape[len(shape)-1].At+period/32, 0))
		})
	}},
	{"fill and drop", func(d *Drawn, p plan) {
		lasting := d.lasts(p, 5*sec, 100*sec)
		height := d.size(p, 200e3, 200e6)
		d.queues(p, "fill", height, func(x float64) []simnet.Knot {
			fill := max(lasting, time.Duration(x))
			return []simnet.Knot{knot(fill, 1), knot(fill+drains(x), 0)}
		})
	}},
	{"ramp", func(d *Drawn, p plan) {
		lasting := d.lasts(p, 10*sec, 200*sec)
		ppm := d.size(p, 3, 1000)
		stays := d.LogSpan(ms, 200*sec)
		back := d.Chance(0.5)
		p.each(func(side int) {
			x := ppm * d.Between(0.6, 1) * lasting.Seconds() * 1e3
			shape := []simnet.Knot{knot(lasting, 1)}
			if back {
				shape = append(shape, knot(lasting+stays, 1), knot(lasting+stays+drains(x), 0))
			}
			d.stands(side, fmt.Sprintf("ramp of %.0f ppm", ppm), p.at, x, shape)
		})
	}},
	{"path for good", func(d *Drawn, p plan) { d.pathOf(p, []time.Duration{p.at}) }},
	{"path and back", func(d *Drawn, p plan) {
		d.pathOf(p, []time.Duration{p.at, p.at + d.lasts(p, 5*sec, 200*sec)})
	}},
	{"flaps", func(d *Drawn, p plan) {
		period := d.LogSpan(4*sec, 60*sec)
		lasting := d.lasts(p, 30*sec, 200*sec)
		on := time.Duration(d.Between(0.2, 0.8) * float64(period))
		at := []time.Duration{}
		for t := p.at; len(at) == 0 || t < p.at+lasting; t += period {
			at = append(at, t, t+on)
		}
		d.pathOf(p, at)
	}},
	{"set", func(d *Drawn, p plan) {
		side := d.R.IntN(2)
		step := time.Duration(-d.Sign() * d.size(p, 1e6, 5e9))
		d.clockEvent(side, simnet.ClockEvent{At: p.at, Step: step})
	}},
	{"slew", func(d *Drawn, p plan) {
		side := d.R.IntN(2)
		ppm := -d.Sign() * d.size(p, 50, 500)
		d.clockEvent(side, simnet.ClockEvent{At: p.at, PPM: ppm, For: d.lasts(p, 5*sec, 100*sec)})
	}},
	{"silence", func(d *Drawn, p plan) {
		w := simnet.Window{From: p.at, To: p.at + d.lasts(p, 2*sec, 60*sec)}
		p.each(func(side int) { d.ways[side].loss = append(d.ways[side].loss, simnet.Silence(w)) })
		d.over = max(d.over, w.To)
		d.Happens(p.at, "silence", "of ways %02b until %.1f s", p.ways, w.To.Seconds())
	}},
	{"stalls", func(d *Drawn, p plan) {
		lasting := d.LogSpan(100*ms, 3*sec)
		every := d.LogSpan(2*sec, 20*sec)
		n := 1 + d.R.IntN(6)
		side := d.R.IntN(2)
		for i := range n {
			from := p.at + time.Duration(i)*(every+lasting)
			d.stalls[side] = append(d.stalls[side], simnet.Window{From: from, To: from + lasting})
		}
		d.Happens(p.at, "stalls", "of %c, %d of %v, every %v",
			'A'+rune(side), n, lasting, every+lasting)
	}},
	{"jitter", func(d *Drawn, p plan) {
		x := d.size(p, 0.1, 10)
		lasting := d.lasts(p, 10*sec, 300*sec)
		p.each(func(side int) {
			d.ways[side].wide = append(d.ways[side].wide, simnet.Factor(p.at, lasting, x))
		})
		d.over = max(d.over, p.at+lasting)
		d.Happens(p.at, "jitter", "of ways %02b times %.2f until %.1f s",
			p.ways, x, (p.at + lasting).Seconds())
	}},
	{"rate", func(d *Drawn, p plan) {
		x := d.size(p, 0.1, 10)
		lasting := d.lasts(p, 10*sec, 300*sec)
		p.each(func(side int) {
			y := min(max(x, 2/d.ways[side].rate), 200/d.ways[side].rate)
			d.ways[side].busy = append(d.ways[side].busy, simnet.Factor(p.at, lasting, y))
		})
		d.Happens(p.at, "rate", "of ways %02b times %.2f until %.1f s",
			p.ways, x, (p.at + lasting).Seconds())
	}},
	{"suspend", func(d *Drawn, p plan) {
		side := d.R.IntN(2)
		lasting := d.lasts(p, sec, 60*sec)
		d.asleep[side] = append(d.asleep[side], simnet.Window{From: p.at, To: p.at + lasting})
		d.Happens(p.at, "suspend", "of %c for %v", 'A'+rune(side), lasting)
		if p.longer > 0 || p.longer == 0 && d.Chance(0.5) {
			return // its clock runs on
		}
		d.clockEvent(side, simnet.ClockEvent{At: p.at, PPM: -1e6, For: lasting})
	}},
}
