package simnet

import (
	"math"
	"time"
)

// ManualClock is a clock that a test steps, and whose rate it changes, as a world goes on. It
// keeps whole microseconds exactly, so that it is right after years. It does not remember what it
// was before the last change: read at an earlier time, it shows what it would have shown had
// nothing changed.
type ManualClock struct {
	at      time.Duration // of the last change
	reading uint64        // then
	part    float64       // of a microsecond, 0 to 1
	rate    float64       // minus 1
}

// NewManualClock returns a clock that reads usec at true time 0 and runs ppm fast.
func NewManualClock(usec uint64, ppm float64) *ManualClock {
	return &ManualClock{reading: usec, rate: ppm * 1e-6}
}

// PPM returns how fast it runs: -1e6 stands still.
func (c *ManualClock) PPM() float64 { return c.rate * 1e6 }

// Step makes it jump by that many microseconds at the true time t.
func (c *ManualClock) Step(t time.Duration, usec int64) { c.change(t, usec, c.rate) }

// SetRate lets it run ppm fast from the true time t on.
func (c *ManualClock) SetRate(t time.Duration, ppm float64) { c.change(t, 0, ppm*1e-6) }

func (c *ManualClock) change(t time.Duration, step int64, rate float64) {
	gained := c.gained(t)
	c.reading = c.Usec(t) + uint64(step)
	c.part = gained - math.Floor(gained)
	c.at, c.rate = t, rate
}

// gained is by how much it ran ahead of true time since the last change, microseconds.
func (c *ManualClock) gained(t time.Duration) float64 {
	return c.part + float64((t-c.at)/time.Microsecond)*c.rate
}

// Usec implements Clock.
func (c *ManualClock) Usec(t time.Duration) uint64 {
	return c.reading + uint64((t-c.at)/time.Microsecond) + uint64(int64(math.Floor(c.gained(t))))
}

// Exact implements Clock.
func (c *ManualClock) Exact(t time.Duration) uint64 { return c.Usec(t) }

// Received implements Clock.
func (c *ManualClock) Received(t time.Duration) uint64 { return c.Usec(t) }
