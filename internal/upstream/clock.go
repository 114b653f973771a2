// SPDX-License-Identifier: BSD-3-Clause

package upstream

import (
	"math"
	"math/rand/v2"
)

// clock is a clock of the benchmark. True time is in microseconds.
type clock struct {
	spec       *clockSpec
	integrated bool
	offset     float64
	skew       float64
	walk       []float64 // rate by interval
	phase      []float64 // its integral
	stepAt     float64
	step       float64
	quantum    float64
}

func newClock(spec *clockSpec, r *rand.Rand, sc *Scenario, mode Mode, offset, overlay float64) *clock {
	c := &clock{spec: spec, integrated: mode.Integrated, offset: offset * 1e6, skew: spec.Skew + overlay,
		stepAt: spec.Step.At * 1e6, step: spec.Step.Delta * 1e6, quantum: max(sc.Quantum, 1)}
	if spec.Offset != nil {
		c.offset = *spec.Offset * 1e6
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
	if j := &c.spec.SkewStep; j.Delta != 0 && s >= j.At {
		ppm += j.Delta
		sum += j.Delta * (t - j.At*1e6)
	}
	if r := &c.spec.Ramp; r.Rate != 0 && s >= r.Start {
		d := s - r.Start
		full := r.Max / math.Abs(r.Rate) // seconds until it stays
		ppm += r.Rate * min(d, full)
		sum += r.Rate * (min(d, full)*min(d, full)/2 + full*max(d-full, 0)) * 1e6
	}
	if w := &c.spec.Sine; w.Amplitude != 0 {
		omega := 2 * math.Pi / w.Period
		ppm += w.Amplitude * math.Sin(omega*s)
		sum += w.Amplitude * (1 - math.Cos(omega*s)) / omega * 1e6
	}
	if c.walk != nil {
		i := int(s / c.spec.Walk.Every)
		ppm += c.walk[i]
		sum += c.phase[i] + c.walk[i]*(t-float64(i)*c.spec.Walk.Every*1e6)
	}
	if c.integrated {
		return sum * 1e-6
	}
	return ppm * t * 1e-6
}

// usec reads the clock at true time t; noise is what a receipt adds.
func (c *clock) usec(t int64, noise float64) uint64 {
	read := func(t float64) float64 { return c.offset + t + c.gained(t) }
	at := float64(t)
	v := read(at)
	if f := &c.spec.Freeze; f.To != 0 && at >= f.From*1e6 {
		v -= read(min(at, f.To*1e6)) - read(f.From*1e6)
	}
	if c.step != 0 && at >= c.stepAt {
		v += c.step
	}
	v = math.Round(v/c.quantum)*c.quantum + noise
	return uint64(math.Round(max(v, 0)))
}
