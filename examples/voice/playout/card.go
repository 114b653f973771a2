// SPDX-License-Identifier: BSD-3-Clause

package playout

import "math"

const (
	cardMemory = 30e6 // us: how far back a rate looks, about
	cardKnown  = 10e6 // us: and how long it takes to say one
	cardJump   = 15e3 // us: from one call to the next: a clock was set, a machine slept, or sound was held up
	cardOff    = 10   // such calls in a row; fewer were late, as on a busy machine
	cardMost   = 1e-3 // no card runs faster or slower by more
)

// Card is how fast a sound card runs against the clock: of the capturing card, from the
// times of capture; of the playing one, from when it took how many samples. The zero value is
// ready to use, by one goroutine at a time.
//
// Samples come faster or slower than they are played by the difference: a resampler that takes
// 1 + (captured-played)/1e6 samples for each that it makes keeps step for ever. The capturing end counts its samples, and
// sends the count with each frame; for a frame that is lost play as much silence. When the card or the clock jumps
// by more than 15 ms, for 10 calls, PPM begins anew: go on with the last one until it is ok again.
type Card struct {
	from           uint64
	weight, mx, my float64 // of what was added, and its mean
	spanXX, spanXY float64
	longest        float64 // us: time since from
	x, y           float64 // us: of the last call that was not off
	off            int     // calls in a row
}

// Add says that at atUsec the card was at sample number samples, of rate a second. Later calls
// have larger numbers. Not each number need be told, but all samples count that the card took or gave,
// silence included.
func (c *Card) Add(atUsec uint64, samples int64, rate float64) {
	played := float64(samples) / rate * 1e6
	x := float64(int64(atUsec - c.from))
	y := played - x // us by which the card is ahead, from some start
	if c.weight > 0 && math.Abs(y-c.y) > cardJump+cardMost*math.Abs(x-c.x) {
		if c.off++; c.off < cardOff {
			return
		}
		c.weight = 0
	}
	if c.weight == 0 {
		*c = Card{from: atUsec}
		x, y = 0, played
	}
	c.x, c.y, c.off = x, y, 0
	fade := math.Exp(-max(x-c.longest, 0) / cardMemory)
	c.longest = max(c.longest, x)
	c.weight, c.spanXX, c.spanXY = c.weight*fade+1, c.spanXX*fade, c.spanXY*fade
	dx := x - c.mx
	c.mx += dx / c.weight
	c.my += (y - c.my) / c.weight
	c.spanXX += dx * (x - c.mx)
	c.spanXY += dx * (y - c.my)
}

// PPM returns by how much the card is faster than the clock, in parts per million. ok is false
// in the first 10 s. Times with an error of 1 ms, 20 ms apart, give it to about 20 ppm then, and to 5 from 30 s on.
func (c *Card) PPM() (ppm float64, ok bool) {
	if c.longest < cardKnown || c.spanXX == 0 {
		return 0, false
	}
	return c.spanXY / c.spanXX * 1e6, true
}
