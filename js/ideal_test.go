// SPDX-License-Identifier: BSD-3-Clause

package js

import (
	"encoding/binary"
	"math"
	"time"
)

// ideal is an end that knows more than any end can: each datagram of both ways as soon as it
// arrived, that delays are exponential above a floor, and that both floors are of one length. What
// it reads is the most likely offset if the rate was constant for a window. The window is that of
// 10 to 100 s with which it is best on the calm path, at 60 and at 4 datagrams a second.
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
	const most = 200e-6 // of a rate
	low, high := -most, most
	for range 50 {
		third := (high - low) / 3
		if likelihood(&ways, low+third) < likelihood(&ways, high-third) {
			low += third
		} else {
			high -= third
		}
	}
	levelIn := ways[0].level(-low)
	levelOut := ways[1].level(low)
	delay := (float64(int64(first[0]+first[1])) + levelIn + levelOut) / 2
	return now + first[1] + uint64(int64(math.Round(levelOut-delay))), 0, true
}

// likelihood returns how likely it is that the remote clock runs faster by skew, in a unit of its
// own. It is concave.
func likelihood(ways *[2]floor, skew float64) float64 {
	return ways[0].likelihood(-skew) + ways[1].likelihood(skew)
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
