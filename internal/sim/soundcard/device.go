// Package soundcard is a sound card that is simulated: it plays at a rate of its own, behind a
// pipe that takes all that is written.
package soundcard

import "time"

// Of the player behind the pipe, as aplay with a buffer of 40 ms: it takes a period at a time.
const (
	period = 10 * time.Millisecond
	holds  = 40 * time.Millisecond
)

// Output is how long on average it takes until what the player has taken out of the pipe is
// heard.
const Output = holds - period/2

// Device is a card with its player and its pipe. Times are true, and must not go back.
type Device struct {
	Still bool // it plays nothing

	rate   float64 // samples in a second
	holds  float64 // samples
	period float64
	waits  float64 // samples that were written and not played
	at     time.Duration
}

// New returns a card of so many samples a second that is off by so many parts in a million, from
// now on.
func New(now time.Duration, rate int, ppm float64) *Device {
	return &Device{
		rate:   float64(rate) * (1 + ppm/1e6),
		holds:  holds.Seconds() * float64(rate),
		period: period.Seconds() * float64(rate),
		at:     now,
	}
}

// Queued returns how many samples are in the pipe.
func (d *Device) Queued(now time.Duration) int {
	if !d.Still {
		d.waits = max(d.waits-(now-d.at).Seconds()*d.rate, 0)
	}
	d.at = now
	periods := (d.waits - d.holds) / d.period
	if periods <= 0 {
		return 0
	}
	return int(float64(int(periods)+1) * d.period)
}

// Write gives it samples, and returns when the first of them is heard if nothing happens.
func (d *Device) Write(now time.Duration, samples int) (heard time.Duration) {
	d.Queued(now)
	heard = now + time.Duration(d.waits/d.rate*float64(time.Second))
	d.waits += float64(samples)
	return heard
}
