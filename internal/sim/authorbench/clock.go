// SPDX-License-Identifier: BSD-3-Clause

package authorbench

import (
	"math"
	"math/rand/v2"
	"time"
)

// clock is a simnet.Clock of the benchmark. It differs from simnet's own: where its rate changes
// at once, all that it ever gained changes, too, unless it is integrated. Within, true time is in
// microseconds.
type clock struct {
	*clockSpec
	noise       *rand.Rand
	integrated  bool
	skew        float64
	walk, phase []float64 // rate by interval, and its integral
	set         step      // us
	quantum     float64
}

func newClock(spec *clockSpec, r *rand.Rand, sc *Scenario, mode Mode, overlay float64) *clock {
	c := &clock{
		clockSpec:  spec,
		integrated: mode.Integrated,
		skew:       spec.Skew + overlay,
		set:        step{spec.Step.At * 1e6, spec.Step.Delta * 1e6},
		quantum:    sc.Quantum,
	}
	if w := &spec.Walk; w.Sigma != 0 {
		c.walk, c.phase = []float64{0}, []float64{0}
		for t := 0.0; t <= sc.Duration; t += w.Every {
			last := c.walk[len(c.walk)-1]
			c.phase = append(c.phase, c.phase[len(c.phase)-1]+last*w.Every*1e6)
			c.walk = append(c.walk, last+w.Sigma*r.NormFloat64())
		}
	}
	return c
}

// gained returns what the clock gained by skew until t, microseconds.
func (c *clock) gained(t float64) float64 {
	s := t / 1e6
	ppm, sum := c.skew, c.skew*t // at t, and integrated
	if j := &c.SkewStep; j.Delta != 0 && s >= j.At {
		ppm += j.Delta
		sum += j.Delta * (t - j.At*1e6)
	}
	if r := &c.Ramp; r.Rate != 0 && s >= r.Start {
		d := s - r.Start
		full := r.Max / math.Abs(r.Rate) // seconds until it stays
		ppm += r.Rate * min(d, full)
		sum += r.Rate * (min(d, full)*min(d, full)/2 + full*max(d-full, 0)) * 1e6
	}
	if w := &c.Sine; w.Amplitude != 0 {
		omega := 2 * math.Pi / w.Period
		ppm += w.Amplitude * math.Sin(omega*s)
		sum += w.Amplitude * (1 - math.Cos(omega*s)) / omega * 1e6
	}
	if c.walk != nil {
		i := int(s / c.Walk.Every)
		ppm += c.walk[i]
		sum += c.phase[i] + c.walk[i]*(t-float64(i)*c.Walk.Every*1e6)
	}
	if c.integrated {
		return sum * 1e-6
	}
	return ppm * t * 1e-6
}

// Usec implements simnet.Clock.
func (c *clock) Usec(t time.Duration) uint64 { return c.rounded(t, c.quantum, 0) }

// Exact implements simnet.Clock.
func (c *clock) Exact(t time.Duration) uint64 { return c.rounded(t, 1, 0) }

// Received implements simnet.Clock: what a program notes has the noise of a receipt.
func (c *clock) Received(t time.Duration) uint64 {
	return c.rounded(t, c.quantum, c.Noise.draw(c.noise))
}

// rounded returns what the clock shows at true time t, in whole quanta, and the noise.
func (c *clock) rounded(t time.Duration, quantum, noise float64) uint64 {
	read := func(t float64) float64 { return c.Offset*1e6 + t + c.gained(t) }
	at := float64(t.Microseconds())
	v := read(at)
	if f := &c.Freeze; f.To != 0 && at >= f.From*1e6 {
		v -= read(min(at, f.To*1e6)) - read(f.From*1e6)
	}
	if at >= c.set.At {
		v += c.set.Delta
	}
	v = math.Round(v/quantum)*quantum + noise
	return uint64(math.Round(max(v, 0)))
}
