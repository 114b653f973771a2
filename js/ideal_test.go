// SPDX-License-Identifier: BSD-3-Clause

package js

import (
	"encoding/binary"
	"math"
	"time"
)

// ideal is an end that knows more than any end can: each datagram of both ways as soon as it
// arrived, that delays are exponential above a floor and by what mean, and that both floors are of
// one length. Of rates it knows before what every end does: two crystals are apart by 100 ppm. If
// the rate was constant for a window, what it reads is the mean of all offsets that the datagrams
// allow, each with its probability. The window is that of 20 to 100 s with which it is best on the
// calm path, at 60 and at 4 datagrams a second.
type ideal struct {
	peer    *ideal
	arrived []datagram
}

const idealWindow = time.Minute

// datagram is when one was sent and when it arrived, by the clocks of the two ends, us.
type datagram struct{ sent, arrived uint64 }

// idealErrors returns how far off an ideal end is on the calm path, us.
func idealErrors(seed uint64, rate float64) []float64 {
	e := &ideal{peer: &ideal{}}
	var out outcome
	session(seed, rate, course{}, [2]end{e, e.peer}, [2]*outcome{&out, {}})
	return out.errs
}

func (e *ideal) anew() { e.arrived = nil }

func (e *ideal) send(now uint64) []byte { return binary.LittleEndian.AppendUint64([]byte{0}, now) }

func (e *ideal) open(b []byte, now uint64) {
	e.arrived = append(e.arrived, datagram{binary.LittleEndian.Uint64(b[1:]), now})
}

func (e *ideal) trusts(uint64) bool { return false }

func (e *ideal) read(now uint64) (remote uint64, bound float64, ok bool) {
	if e.peer == nil || len(e.arrived) == 0 || len(e.peer.arrived) == 0 {
		return 0, 0, false
	}
	// Deltas are as of the first ones: so they are small. By the first one the peer's clock is
	// known to some milliseconds, which is enough for x.
	in, out := e.arrived[0], e.peer.arrived[0]
	first := [2]uint64{in.arrived - in.sent, out.arrived - out.sent}
	var ways [2]floor
	for _, d := range e.arrived {
		ways[0].add(d.arrived-now, d.arrived-d.sent-first[0])
	}
	for _, d := range e.peer.arrived {
		ways[1].add(d.arrived-first[1]-now, d.arrived-d.sent-first[1])
	}
	ways[0].end()
	ways[1].end()
	return now + first[1] + uint64(int64(math.Round(meanOffset(&ways, first)))), 0, true
}

// meanOffset returns the mean of the offset at x = 0, less first[1]. It is over the rates about the
// most likely one, to where the logarithm of the probability is lower by 15: nothing is left there.
func meanOffset(ways *[2]floor, first [2]uint64) float64 {
	const most = 500e-6 // of a rate
	const lower, steps = 15, 100
	low, high := -most, most
	for range 50 {
		third := (high - low) / 3
		if likelihood(ways, low+third) < likelihood(ways, high-third) {
			low += third
		} else {
			high -= third
		}
	}
	best := low
	top := likelihood(ways, best)
	// edge returns the rate between best and far at which the probability is that low.
	edge := func(far float64) float64 {
		near := best
		for range 40 {
			middle := (near + far) / 2
			if likelihood(ways, middle) > top-lower {
				near = middle
			} else {
				far = middle
			}
		}
		return far
	}
	from := edge(-most)
	to := edge(most)
	base := float64(int64(first[0] + first[1]))
	var sum, weights float64
	for i := range steps {
		skew := from + (to-from)*(float64(i)+0.5)/steps
		weight := math.Exp(likelihood(ways, skew) - top)
		levelIn := ways[0].level(-skew)
		levelOut := ways[1].level(skew)
		delay := (base + levelIn + levelOut) / 2
		sum += weight * (levelOut - delay)
		weights += weight
	}
	return sum / weights
}

// likelihood returns the logarithm of how likely it is that the remote clock runs faster by skew,
// but for a constant. It is concave.
func likelihood(ways *[2]floor, skew float64) float64 {
	const usual = 100e-6 // of the rates of two crystals
	datagrams := ways[0].likelihood(-skew) + ways[1].likelihood(skew)
	meanDelay := float64(jitterMean.Microseconds())
	return datagrams/meanDelay - skew*skew/(2*usual*usual)
}

// floor is what an ideal end knows of one way in its window.
type floor struct {
	points []point // in the end only those that may touch the floor
	count  float64
	sum    float64 // of their x
}

// point is a datagram: when it arrived, relative to now, and its delta, us.
type point struct{ x, delta float64 }

// add adds a datagram, if it is in the window.
func (f *floor) add(x, delta uint64) {
	p := point{float64(int64(x)), float64(int64(delta))}
	if p.x < -float64(idealWindow.Microseconds()) {
		return
	}
	f.points = append(f.points, p)
	f.count++
	f.sum += p.x
}

// end keeps the points that a line from below can touch.
func (f *floor) end() {
	hull := f.points[:0]
	for _, p := range f.points {
		for len(hull) >= 2 {
			q, r := hull[len(hull)-2], hull[len(hull)-1]
			if (r.delta-q.delta)*(p.x-q.x) < (p.delta-q.delta)*(r.x-q.x) {
				break
			}
			hull = hull[:len(hull)-1]
		}
		hull = append(hull, p)
	}
	f.points = hull
}

// level returns where a line with that slope is at x = 0, if it touches the points from below.
func (f *floor) level(slope float64) float64 {
	level := math.Inf(1)
	for _, p := range f.points {
		level = min(level, p.delta-slope*p.x)
	}
	return level
}

// likelihood says how likely the points are above a floor with that slope.
func (f *floor) likelihood(slope float64) float64 {
	return f.count*f.level(slope) + slope*f.sum
}
