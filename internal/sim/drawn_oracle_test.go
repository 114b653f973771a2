// What somebody could know of the clocks who sees the whole session, afterwards.

package sim_test

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// drawnPoint is a datagram as the oracle sees it: received at x and sent at the true time sent, in
// seconds, with the delta d in microseconds.
type drawnPoint struct{ x, sent, d float64 }

// drawnOracle is the offset of B's clock over A's as a line through knots. It sees all datagrams of
// both ways, and is told when something happened, not what. Between two such times it fits a line below
// the deltas of each way. Where the slopes of both ways agree, that is the clocks' rate. Where both
// ways say that the clock was set, and say the same, it was set. All else is the paths.
type drawnOracle struct {
	spans []oracleSpan
	i     int
}

// oracleSpan is a time between two marks.
type oracleSpan struct {
	from, to float64
	ways     [2]envelope
	rate     float64    // of the offset, ppm
	start    float64    // offset at from
	level    [2]float64 // of each way without the clock: at the start
	end      [2]float64
}

func (s *oracleSpan) known() bool { return s.ways[0].n >= 4 && s.ways[1].n >= 4 }

// offset must be asked forward in time.
func (o *drawnOracle) offset(x float64) float64 {
	for o.i+1 < len(o.spans) && o.spans[o.i+1].from <= x {
		o.i++
	}
	s := &o.spans[o.i]
	return s.start + s.rate*(x-s.from)
}

// envelope is the line below points that is closest to them.
type envelope struct {
	n     int
	a, b  float64 // level at x0 and slope
	x0    float64
	noise float64 // mean distance of the least in each twelfth
	sd    float64 // of the slope
	hull  []drawnPoint
}

func (e *envelope) at(x float64) float64 { return e.a + e.b*(x-e.x0) }

func newEnvelope(p []drawnPoint) (e envelope) {
	e.n = len(p)
	if e.n < 4 {
		return e
	}
	mean := 0.0
	for _, q := range p {
		mean += q.x
		h := e.hull
		for n := len(h); n >= 2 && (h[n-1].d-h[n-2].d)*(q.x-h[n-2].x) >= (q.d-h[n-2].d)*(h[n-1].x-h[n-2].x); n = len(h) {
			h = h[:n-1]
		}
		if n := len(h); n == 1 && h[0].x == q.x {
			if q.d >= h[0].d {
				continue
			}
			h = h[:0]
		}
		e.hull = append(h, q)
	}
	mean /= float64(e.n)
	e.x0, e.a = e.hull[0].x, e.hull[0].d
	for i := 1; i < len(e.hull); i++ {
		from, to := e.hull[i-1], e.hull[i]
		if to.x >= mean || i+1 == len(e.hull) {
			e.x0, e.a = from.x, from.d
			if to.x > from.x {
				e.b = (to.d - from.d) / (to.x - from.x)
			}
			break
		}
	}
	const parts = 12
	first, span := p[0].x, p[len(p)-1].x-p[0].x
	var least [parts]float64
	for i := range least {
		least[i] = math.Inf(1)
	}
	for _, q := range p {
		i := min(int((q.x-first)/span*parts), parts-1)
		if span <= 0 {
			i = 0
		}
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
	e.sd = 2 * e.noise * math.Sqrt(12/k) / max(span, 1e-3)
	return e
}

func newDrawnOracle(marks []time.Duration, until time.Duration, points [2][]drawnPoint) *drawnOracle {
	o := &drawnOracle{}
	cuts := []float64{0}
	for _, m := range marks {
		if x := m.Seconds(); x > cuts[len(cuts)-1] && m < until {
			cuts = append(cuts, x)
		}
	}
	var next [2]int
	for i, from := range cuts {
		s := oracleSpan{from: from, to: until.Seconds()}
		if i+1 < len(cuts) {
			s.to = cuts[i+1]
		}
		for way := range 2 {
			p := points[way]
			begin := next[way]
			for next[way] < len(p) && p[next[way]].x < s.to {
				next[way]++
			}
			// what was sent before the mark belongs to neither side of it
			inside := p[begin:next[way]]
			if i > 0 {
				inside = slices.Clone(inside)
				inside = slices.DeleteFunc(inside, func(q drawnPoint) bool { return q.sent < from })
			}
			s.ways[way] = newEnvelope(inside)
		}
		o.spans = append(o.spans, s)
	}
	o.fitRates()
	o.fitLevels()
	return o
}

// slope is what a span says of the rate.
type slope struct{ rate, sd, weight float64 }

// agree reports whether both slopes of a span can be the clocks', and what they say together.
func (s *oracleSpan) agree() (m slope, ok bool) {
	in, out := s.ways[0], s.ways[1]
	u, v := 1/(in.sd*in.sd), 1/(out.sd*out.sd)
	m = slope{(u*in.b - v*out.b) / (u + v), math.Sqrt(1 / (u + v)), s.to - s.from}
	return m, math.Abs(in.b+out.b) < 3*math.Hypot(in.sd, out.sd)+0.2
}

// fitRates finds the clocks' usual rate: that of most of the time in which both ways agree. A span
// in which both agree that it is another one has that.
func (o *drawnOracle) fitRates() {
	var all, single []slope
	for i := range o.spans {
		s := &o.spans[i]
		if !s.known() {
			continue
		}
		if m, ok := s.agree(); ok {
			all = append(all, m)
		}
		single = append(single, slope{s.ways[0].b, s.ways[0].sd, s.to - s.from}, slope{-s.ways[1].b, s.ways[1].sd, s.to - s.from})
	}
	usual, ok := mostUsual(all)
	if !ok {
		usual, _ = mostUsual(single)
	}
	for i := range o.spans {
		s := &o.spans[i]
		s.rate = usual.rate
		if !s.known() {
			continue
		}
		if m, ok := s.agree(); ok && math.Abs(m.rate-usual.rate) > 4*math.Hypot(m.sd, usual.sd)+1 && m.sd < 30 {
			s.rate = m.rate
		}
	}
}

// mostUsual returns the slope with which most of the time goes along.
func mostUsual(all []slope) (best slope, ok bool) {
	most := 0.0
	for _, a := range all {
		var sum, weights, time float64
		for _, b := range all {
			if math.Abs(a.rate-b.rate) < 3*math.Hypot(a.sd, b.sd)+0.5 {
				w := 1 / (b.sd * b.sd)
				sum, weights, time = sum+w*b.rate, weights+w, time+b.weight/(1+b.sd)
			}
		}
		if time > most && a.sd < 30 {
			most, best, ok = time, slope{sum / weights, math.Sqrt(1 / weights), time}, true
		}
	}
	return best, ok
}

// fitLevels follows the clock from span to span.
func (o *drawnOracle) fitLevels() {
	last := -1
	clock := 0.0 // offset at the start of the span, without its level at the very start
	jumps := 0.0
	for i := range o.spans {
		s := &o.spans[i]
		s.start = clock
		clock += s.rate * (s.to - s.from)
		if !s.known() {
			continue
		}
		for way := range 2 {
			e, sign := &s.ways[way], float64(1-2*way)
			residual := func(x, d float64) float64 { return d - sign*(s.start+s.rate*(x-s.from)) }
			if math.Abs(e.b-sign*s.rate) > 4*e.sd+0.5 {
				s.level[way], s.end[way] = residual(s.from, e.at(s.from)), residual(s.to, e.at(s.to))
				continue
			}
			least := math.Inf(1)
			for _, q := range e.hull {
				least = min(least, residual(q.x, q.d))
			}
			s.level[way], s.end[way] = least, least
		}
		if last >= 0 {
			before := &o.spans[last]
			in, out := s.level[0]-before.end[0], s.level[1]-before.end[1]
			noise := 0.0
			for way := range 2 {
				noise += s.ways[way].noise + before.ways[way].noise
			}
			if jump := (in - out) / 2; math.Abs(in+out) < 3*noise+0.02*math.Abs(jump) && math.Abs(jump) > noise {
				jumps += jump
				for j := last + 1; j < len(o.spans); j++ {
					if j <= i {
						o.spans[j].start += jump
					}
				}
				clock += jump
				for way := range 2 {
					s.level[way] -= jump * float64(1-2*way)
					s.end[way] -= jump * float64(1-2*way)
				}
			}
		}
		last = i
	}
	// All levels that are what they were at first tell together what they were.
	first := slices.IndexFunc(o.spans, func(s oracleSpan) bool { return s.known() })
	if first < 0 {
		return
	}
	f := &o.spans[first]
	start := (f.level[0] - f.level[1]) / 2
	for i := range o.spans {
		o.spans[i].start += start
	}
	slices.SortFunc(o.spans, func(a, b oracleSpan) int { return cmp.Compare(a.from, b.from) })
}
