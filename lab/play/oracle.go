// SPDX-License-Identifier: BSD-3-Clause

package play

import (
	"cmp"
	"math"
	"slices"
	"time"

	"timesync/internal/sim"
	"timesync/internal/sim/rivals"
	"timesync/internal/testkit"
)

// Oracle is the limit that methods are measured against. It works offline: it sees every
// stamp of a world, those to come as well, and is told when a clock is set or changes its
// rate, and when a path changes. In a window around each moment it lays, in both directions,
// the highest line below all datagrams (Moon, Skelly, Towsley 1999: an edge of the lower
// convex hull), with one skew for both. How wide the window is, up to the whole series, and
// whether it ends where a path changes, is chosen for each world in hindsight: so that the
// 99th percentile is least. Nothing that has to answer at once knows any of that.
type Oracle struct {
	Ends [2]OracleEnd

	// questions wait to be answered, with the error of the own clock as an answer.
	questions []sim.Observation

	// causal lets it see nothing that is still to come. It is told how wide the windows are.
	causal bool
}

// Events are what the oracle is told: when clocks are set or change their rate, and when
// paths change.
type Events struct{ Clocks, Paths []time.Duration }

// OracleEnd is what one end hears. As an estimator it says that each datagram was under way for
// no time, and that the other clock shows what its own does: what is wrong with that is the
// truth.
type OracleEnd struct {
	rivals.Silent
	Points []Point
	delta  float64 // of the last datagram, unwrapped
}

// Point is a datagram: true times of sending and receipt, and the delta in microseconds.
type Point struct {
	Sent, At time.Duration
	delta    float64
}

// OnDatagram implements sim.Estimator.
func (e *OracleEnd) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	// Deltas are known modulo 2^27 us; neighbours are near.
	raw := recvUsec - uint64(ts24)<<3
	e.delta += float64(int64((raw-uint64(int64(e.delta)))<<37) >> 37)
	return 0, true
}

// RemoteTime implements sim.Estimator.
func (e *OracleEnd) RemoteTime(localUsec, _ uint64) (uint64, bool) { return localUsec, true }

// Play lets the oracle hear all of a world, and every question.
func (o *Oracle) Play(w World, seed uint64) {
	w.Play(seed, []sim.Pair{{A: &o.Ends[sim.A], B: &o.Ends[sim.B]}}, sim.Observer{
		Poll: func(q *sim.Observation) { o.questions = append(o.questions, *q) },
		OWD: func(x *sim.Observation) {
			e := &o.Ends[x.Side]
			e.Points = append(e.Points, Point{x.At + time.Duration(x.ErrUsec*float64(us)), x.At, e.delta})
		},
	})
}

// answer answers all questions and shows the answers to poll.
func (o *Oracle) answer(told Events, warmup time.Duration, poll func(*sim.Observation)) {
	const narrowest, widest = 4 * time.Second, 1024 * time.Second
	cuts := [][]piece{o.pieces(told.Clocks)}
	if len(told.Paths) > 0 {
		cuts = append(cuts, o.pieces(slices.Concat(told.Clocks, told.Paths)))
	}
	var best []sim.Observation
	least := math.Inf(1)
	for _, pieces := range cuts {
		for half := narrowest; half < widest; half *= 2 {
			answered := slices.Clone(o.questions)
			left := answered
			for i := range pieces {
				left = pieces[i].answer(half, o.causal, left)
			}
			var errs []float64
			for _, q := range answered {
				if q.At >= warmup && q.OK {
					errs = append(errs, math.Abs(q.Excess()))
				}
			}
			if q := testkit.OrNaN(errs, 0.99); q < least || best == nil {
				best, least = answered, q
			}
		}
	}
	for i := range best {
		poll(&best[i])
	}
}

// piece is the time between two events, and the fastest datagrams to each end in it.
type piece struct {
	from, to time.Duration
	points   [2][]Point
	usual    float64 // the skew of all of it
}

// thin is how long a span is of which only the fastest datagram counts, to save time.
const thin = 100 * time.Millisecond

// pieces cuts the series. What was under way when a clock was set tells nothing.
func (o *Oracle) pieces(events []time.Duration) []piece {
	cuts := slices.Concat([]time.Duration{math.MinInt64}, events, []time.Duration{math.MaxInt64})
	slices.Sort(cuts)
	pieces := make([]piece, len(cuts)-1)
	for i := range pieces {
		pieces[i].from, pieces[i].to = cuts[i], cuts[i+1]
	}
	for side := range o.Ends {
		i := 0
		for _, x := range o.Ends[side].Points {
			for x.At >= pieces[i].to {
				i++
			}
			if x.Sent < pieces[i].from {
				continue
			}
			ps := &pieces[i].points[side]
			switch n := len(*ps); {
			case n == 0 || (*ps)[n-1].At/thin != x.At/thin:
				*ps = append(*ps, x)
			case x.delta < (*ps)[n-1].delta:
				(*ps)[n-1] = x
			}
		}
	}
	for i := range pieces {
		p := &pieces[i]
		if ps := p.points[sim.A]; len(ps) > 0 && !o.causal {
			l, _ := p.line((ps[0].At+ps[len(ps)-1].At)/2, forever, 0, 0)
			p.usual = l.skew
		}
	}
	return pieces
}

// forever is longer than any world.
const forever = time.Hour

// answer answers the questions within the piece by windows that reach half to both sides, or by
// causal ones, which reach back twice as far. It returns the questions after the piece.
func (p *piece) answer(half time.Duration, causal bool, asked []sim.Observation) []sim.Observation {
	for len(asked) > 0 && asked[0].At < p.to {
		from := asked[0].At
		together, middle := half/2, from+half/4
		if causal {
			together, middle = half/32, from-half
		}
		l, ok := p.line(middle, half, p.usual, tie)
		for len(asked) > 0 && asked[0].At < min(from+together, p.to) {
			q := &asked[0]
			theta := l.at(q.At) // B's clock minus A's
			if q.Side == sim.B {
				theta = -theta
			}
			q.ErrUsec, q.OK = float64(int64(math.Round(theta+q.ErrUsec))<<38>>38), ok
			asked = asked[1:]
		}
	}
	return asked
}

// line is the offset of B's clock to A's as a straight line.
type line struct {
	x0    time.Duration
	theta float64 // microseconds at x0
	skew  float64
}

func (l line) at(x time.Duration) float64 {
	return l.theta + l.skew*float64(x-l.x0)/float64(us)
}

// hull returns the lower convex hull of points in order of time.
func hull(ps []Point) (h []Point) {
	for _, c := range ps {
		for len(h) >= 2 {
			a, b := h[len(h)-2], h[len(h)-1]
			if (b.delta-a.delta)*float64(c.At-a.At) < (c.delta-a.delta)*float64(b.At-a.At) {
				break
			}
			h = h[:len(h)-1]
		}
		h = append(h, c)
	}
	return h
}

// tie is how much a second of the window weighs against skews that are not the usual one,
// relative to what a second of it says about the skew: where a path changes within the
// window, many skews are as good.
const tie = 0.02

// window returns the hulls of the datagrams to both ends around a moment. A window with few
// datagrams grows.
func (p *piece) window(middle, half time.Duration) (w [2][]Point) {
	const few = 4
	before := func(x Point, t time.Duration) int { return cmp.Compare(x.At, t) }
	for ; ; half *= 2 {
		for side, ps := range p.points {
			i, _ := slices.BinarySearchFunc(ps, middle-half, before)
			j, _ := slices.BinarySearchFunc(ps, middle+half, before)
			w[side] = ps[i:j]
		}
		if len(w[0]) >= few && len(w[1]) >= few || half > forever {
			return [2][]Point{hull(w[0]), hull(w[1])}
		}
	}
}

// line lays the line around a moment; ok is false if a direction has no datagrams.
func (p *piece) line(middle, half time.Duration, usual, tie float64) (l line, ok bool) {
	w := p.window(middle, half)
	if len(w[0]) == 0 || len(w[1]) == 0 {
		return l, false
	}
	// Below all datagrams to A there is a line that falls with the skew, below those to B
	// one that rises with it. The skew is right at which both are highest in sum, which is
	// the round trip: it can only come out too short.
	floor := func(ps []Point, skew float64) float64 {
		low := math.Inf(1)
		for i := range ps {
			low = min(low, ps[i].delta-skew*float64(ps[i].At-middle)/float64(us))
		}
		return low
	}
	const maxSkew = 2e-3 // no computer's clock is as wrong
	trip := func(skew float64) float64 {
		unusual := tie * math.Abs(skew-usual) * float64(half) / float64(us)
		return floor(w[sim.A], -skew) + floor(w[sim.B], skew) - unusual
	}
	lo, hi := -maxSkew, maxSkew
	for range 40 { // concave: by thirds
		if a, b := lo+(hi-lo)/3, hi-(hi-lo)/3; trip(a) < trip(b) {
			lo = a
		} else {
			hi = b
		}
	}
	skew := (lo + hi) / 2
	return line{middle, (floor(w[sim.B], skew) - floor(w[sim.A], -skew)) / 2, skew}, true
}
