// What somebody could know of the clocks who sees the whole session, afterwards.

package simtest

import (
	"math"
	"slices"
	"time"

	"timesync/internal/sim"
)

// drawnPoint is a datagram as the oracle sees it: received at x and sent at the true time sent, in
// seconds, with the delta d in microseconds.
type drawnPoint struct{ x, sent, d float64 }

// drawnOracle is the offset of B's clock over A's: a line for each period between two clock
// changes. It sees all datagrams of both ways, and is told when something happened, and whether to
// a clock or a way, not what. Between two such times it fits a line below the deltas of a way.
// Where the slopes of both ways agree, that is the clocks' rate. What the clocks were set by is
// what the ways say that are told of nothing else then.
type drawnOracle struct {
	periods []oraclePeriod
	i       int
}

// oraclePeriod is a time between two clock changes.
type oraclePeriod struct {
	from, to    float64
	start, rate float64 // offset at from, and its rate, ppm
	pieces      [2][]oraclePiece
}

// oraclePiece is a time in which nothing happens to a way or a clock, with datagrams enough for a
// line.
type oraclePiece struct {
	from, to float64
	envelope
	// the delta without the clock, at both ends
	level, end float64
	marked     bool // something happened to the way in its period by then
}

// offset must be asked forward in time.
func (o *drawnOracle) offset(x float64) float64 {
	for o.i+1 < len(o.periods) && o.periods[o.i+1].from <= x {
		o.i++
	}
	p := &o.periods[o.i]
	return p.start + p.rate*(x-p.from)
}

// minPoints is how many datagrams a line needs.
const minPoints = 4

// envelope is the line below points that is closest to them.
type envelope struct {
	a, b  float64 // level at x0 and slope
	x0    float64
	noise float64 // mean distance of the least in each twelfth of the time
	sd    float64 // of the slope
	hull  []drawnPoint
}

func (e *envelope) at(x float64) float64 { return e.a + e.b*(x-e.x0) }

func newEnvelope(p []drawnPoint) (e envelope) {
	mean := 0.0
	for _, q := range p { // in the order of x: the lower hull
		mean += q.x
		h := e.hull
		for len(h) >= 2 && !isConvex(h[len(h)-2], h[len(h)-1], q) {
			h = h[:len(h)-1]
		}
		if len(h) == 1 && h[0].x == q.x {
			if q.d >= h[0].d {
				continue
			}
			h = h[:0]
		}
		e.hull = append(h, q)
	}
	mean /= float64(len(p)) // the edge below the mean is closest to all points
	e.x0 = e.hull[0].x
	e.a = e.hull[0].d
	for i := 1; i < len(e.hull); i++ {
		from, to := e.hull[i-1], e.hull[i]
		if to.x >= mean || i+1 == len(e.hull) {
			e.x0 = from.x
			e.a = from.d
			if to.x > from.x {
				e.b = (to.d - from.d) / (to.x - from.x)
			}
			break
		}
	}
	const parts = 12
	first := p[0].x
	span := max(p[len(p)-1].x-first, 1e-3)
	var least [parts]float64
	for i := range least {
		least[i] = math.Inf(1)
	}
	for _, q := range p {
		i := min(int((q.x-first)/span*parts), parts-1)
		least[i] = min(least[i], q.d-e.at(q.x))
	}
	k := 0.0
	for _, l := range least {
		if !math.IsInf(l, 1) {
			e.noise += l
			k++
		}
	}
	e.noise = max(e.noise/k, 0.2)
	e.sd = 2 * e.noise * math.Sqrt(12/k) / span
	return e
}

// isConvex says that b is below the line from a to c, all in the order of x.
func isConvex(a, b, c drawnPoint) bool {
	return (b.d-a.d)*(c.x-a.x) < (c.d-a.d)*(b.x-a.x)
}

func newDrawnOracle(marks []sim.Mark, until time.Duration, points [2][]drawnPoint) *drawnOracle {
	o := &drawnOracle{}
	for _, m := range append([]sim.Mark{{Who: sim.OfClocks}}, marks...) {
		if m.Who != sim.OfClocks || m.At >= until {
			continue
		}
		x := m.At.Seconds()
		if n := len(o.periods); n > 0 {
			last := &o.periods[n-1]
			if x <= last.from {
				continue
			}
			last.to = x
		}
		o.periods = append(o.periods, oraclePeriod{from: x, to: until.Seconds()})
	}
	for way, p := range points {
		next := 0
		piece := func(period *oraclePeriod, from, to float64, marked bool) {
			begin := next
			for next < len(p) && p[next].x < to {
				next++
			}
			inside := p[begin:next]
			if from > 0 { // what was sent before belongs to neither side
				inside = slices.DeleteFunc(slices.Clone(inside), func(q drawnPoint) bool {
					return q.sent < from
				})
			}
			if len(inside) >= minPoints {
				period.pieces[way] = append(period.pieces[way], oraclePiece{
					from:     from,
					to:       to,
					envelope: newEnvelope(inside),
					marked:   marked,
				})
			}
		}
		for i := range o.periods {
			period := &o.periods[i]
			from := period.from
			marked := false
			for _, m := range marks {
				x := m.At.Seconds()
				marked = marked || m.Who == way && x == from
				if m.Who == way && x > from && x < period.to {
					piece(period, from, x, marked)
					from = x
					marked = true
				}
			}
			piece(period, from, period.to, marked)
		}
	}
	o.fitRates()
	o.fitLevels()
	return o
}

// slope is what a piece says of the rate.
type slope struct{ rate, sd, weight float64 }

// agreeing returns what both ways say of the rate where they agree.
func (p *oraclePeriod) agreeing() (all []slope) {
	for _, in := range p.pieces[0] {
		for _, out := range p.pieces[1] {
			both := min(in.to, out.to) - max(in.from, out.from)
			if both <= 0 || math.Abs(in.b+out.b) >= 3*math.Hypot(in.sd, out.sd)+0.2 {
				continue
			}
			u := 1 / (in.sd * in.sd)
			v := 1 / (out.sd * out.sd)
			all = append(all, slope{
				rate:   (u*in.b - v*out.b) / (u + v),
				sd:     math.Sqrt(1 / (u + v)),
				weight: both,
			})
		}
	}
	return all
}

// fitRates finds the clocks' usual rate: that of most of the time in which both ways agree. A
// period in which both agree that it is another one has that.
func (o *drawnOracle) fitRates() {
	var all, single []slope
	for i := range o.periods {
		p := &o.periods[i]
		all = append(all, p.agreeing()...)
		for way := range 2 {
			for _, s := range p.pieces[way] {
				single = append(single, slope{
					rate:   s.b * float64(1-2*way),
					sd:     s.sd,
					weight: s.to - s.from,
				})
			}
		}
	}
	usual, ok := mostUsual(all)
	if !ok {
		usual, _ = mostUsual(single)
	}
	for i := range o.periods {
		p := &o.periods[i]
		p.rate = usual.rate
		own, ok := mostUsual(p.agreeing())
		if ok && math.Abs(own.rate-usual.rate) > 4*math.Hypot(own.sd, usual.sd)+1 {
			p.rate = own.rate
		}
	}
}

// mostUsual returns the slope with which most of the time goes along.
func mostUsual(all []slope) (best slope, ok bool) {
	most := 0.0
	for _, a := range all {
		if a.sd > 30 {
			continue
		}
		var sum, weights, time float64
		for _, b := range all {
			if math.Abs(a.rate-b.rate) < 3*math.Hypot(a.sd, b.sd)+0.5 {
				w := 1 / (b.sd * b.sd)
				sum += w * b.rate
				weights += w
				time += b.weight / (1 + b.sd)
			}
		}
		if time > most {
			most = time
			best = slope{
				rate:   sum / weights,
				sd:     math.Sqrt(1 / weights),
				weight: time,
			}
			ok = true
		}
	}
	return best, ok
}

// fitLevels follows the clock from period to period.
func (o *drawnOracle) fitLevels() {
	var last [2]*oraclePiece // known ones
	clock := 0.0             // offset, without its level at the very start
	for i := range o.periods {
		p := &o.periods[i]
		p.start = clock
		var says, noise [2]float64 // by how much the clock was set, says a way
		var alone [2]bool          // nothing happened to that way
		var known [2]bool
		for way := range 2 {
			sign := float64(1 - 2*way)
			for j := range p.pieces[way] {
				s := &p.pieces[way][j]
				residual := func(x, d float64) float64 {
					return d - sign*(p.start+p.rate*(x-p.from))
				}
				if math.Abs(s.b-sign*p.rate) > 4*s.sd+0.5 {
					s.level = residual(s.from, s.at(s.from))
					s.end = residual(s.to, s.at(s.to))
				} else {
					s.level = math.Inf(1)
					for _, q := range s.hull {
						s.level = min(s.level, residual(q.x, q.d))
					}
					s.end = s.level
				}
				if before := last[way]; j == 0 && before != nil {
					known[way] = true
					alone[way] = !s.marked
					says[way] = sign * (s.level - before.end)
					noise[way] = s.noise + before.noise
				}
			}
		}
		jump := 0.0
		bothCount := known[0] && known[1] && alone[0] == alone[1]
		switch a, b := says[0], says[1]; {
		case i == 0 || !known[0] && !known[1]:
		case bothCount && math.Abs(a-b) < 3*(noise[0]+noise[1]):
			u := 1 / (noise[0] * noise[0])
			v := 1 / (noise[1] * noise[1])
			jump = (u*a + v*b) / (u + v)
		case bothCount:
			jump = max(min(a, b), min(max(a, b), 0)) // the median of both and 0
		case alone[0] || !known[1]:
			jump = a
		default:
			jump = b
		}
		p.start += jump
		clock = p.start + p.rate*(p.to-p.from)
		for way := range 2 {
			for j := range p.pieces[way] {
				s := &p.pieces[way][j]
				s.level -= jump * float64(1-2*way)
				s.end -= jump * float64(1-2*way)
				last[way] = s
			}
		}
	}
	o.fitStart()
}

// fitStart: all levels that may be those of the start tell together what they were.
func (o *drawnOracle) fitStart() {
	var start [2]float64
	for way := range 2 {
		var first *oraclePiece
		for i := range o.periods {
			for j := range o.periods[i].pieces[way] {
				s := &o.periods[i].pieces[way][j]
				switch {
				case first == nil:
					first = s
					start[way] = s.level
				case s.level == s.end && math.Abs(s.level-first.level) < 2*first.noise+s.noise:
					start[way] = min(start[way], s.level)
				}
			}
		}
	}
	for i := range o.periods {
		o.periods[i].start += (start[0] - start[1]) / 2
	}
}
