// SPDX-License-Identifier: BSD-3-Clause

package authorbench

import (
	"math"
	"math/rand/v2"
)

// path is one direction.
type path struct {
	*pathSpec
	r            *rand.Rand
	walk, walked float64 // where the walk is, and until when it was drawn
	n, burst     int
}

func (j *jitter) draw(r *rand.Rand) float64 {
	switch j.Kind {
	case "uniform": // a whole number
		return float64(r.IntN(int(j.To) + 1))
	case "gaussian_signed":
		return max(min(r.NormFloat64(), j.Clip), -j.Clip) * j.Sigma
	case "lognormal_minus_1":
		return math.Exp(math.Log(j.Scale+1)+j.SigmaLn*r.NormFloat64()) - 1
	case "pareto":
		return j.Minimum / math.Pow(1-r.Float64(), 1/j.Alpha)
	case "bimodal":
		if r.Float64() < j.HighProbability {
			return j.HighExtra
		}
	}
	return 0
}

// under returns how long a message sent at t is under way, microseconds.
func (p *path) under(t int64) int64 {
	r, s := p.r, float64(t)/1e6
	sum := p.Base + p.Ramp*s
	for _, j := range p.Steps {
		if s >= j.At {
			sum += j.Delta
		}
	}
	if q := &p.Sine; q.Peak != 0 {
		sum += q.Peak * 0.5 * (1 + math.Sin(2*math.Pi*s/q.Period))
	}
	if q := &p.Sawtooth; q.Peak != 0 {
		sum += q.Peak * math.Mod(s, q.Period) / q.Period
	}
	if q := &p.Square; q.Extra != 0 && math.Mod(s, q.Period) < q.HighFirst*q.Period {
		sum += q.Extra
	}
	if w := &p.Walk; w.Sigma != 0 {
		for ; s >= p.walked+w.Every; p.walked += w.Every {
			p.walk += math.Trunc(w.Sigma * r.NormFloat64())
			p.walk = max(min(p.walk, w.Clamp[1]), w.Clamp[0])
		}
		sum += p.walk
	}
	sum += p.Jitter.draw(r)
	if p.Spike.Extra != 0 && r.Float64() < p.Spike.Probability {
		sum += p.Spike.Extra
	}
	return int64(max(sum, 0))
}

// send returns when the copies of a message sent at t arrive.
func (p *path) send(t int64) []int64 {
	r, late, twice := p.r, &p.Reorder, &p.Duplicate
	delay := p.under(t)
	if p.lost(float64(delay)) {
		return nil
	}
	if late.Probability != 0 && r.Float64() < late.Probability {
		delay = int64(float64(delay)*late.Multiplier) + int64(late.Late)
	}
	if twice.Probability != 0 && r.Float64() < twice.Probability {
		return []int64{t + delay, t + delay + int64(twice.Extra)}
	}
	return []int64{t + delay}
}

func (p *path) lost(delay float64) bool {
	l, r := &p.Loss, p.r
	p.n++
	switch {
	case l.EveryNth > 0 && p.n%l.EveryNth == 0:
		return true
	case l.AboveDrop > 0 && delay > l.Above && r.Float64() < l.AboveDrop:
		return true
	case p.burst > 0:
		p.burst--
		return true
	case l.BurstStart > 0 && r.Float64() < l.BurstStart:
		p.burst = l.BurstLength[0] + r.IntN(l.BurstLength[1]-l.BurstLength[0]+1) - 1
		return true
	}
	return l.Independent > 0 && r.Float64() < l.Independent
}

// clock is a clock of the benchmark. True time is in microseconds.
type clock struct {
	*clockSpec
	integrated  bool
	skew        float64
	walk, phase []float64 // rate by interval, and its integral
	set         step      // us
	quantum     float64
}

func newClock(spec *clockSpec, r *rand.Rand, sc *Scenario, mode Mode, overlay float64) *clock {
	c := &clock{clockSpec: spec, integrated: mode.Integrated, skew: spec.Skew + overlay,
		set: step{spec.Step.At * 1e6, spec.Step.Delta * 1e6}, quantum: sc.Quantum}
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

// usec reads the clock at true time t; noise is what a receipt adds.
func (c *clock) usec(t int64, noise float64) uint64 {
	read := func(t float64) float64 { return c.Offset*1e6 + t + c.gained(t) }
	at := float64(t)
	v := read(at)
	if f := &c.Freeze; f.To != 0 && at >= f.From*1e6 {
		v -= read(min(at, f.To*1e6)) - read(f.From*1e6)
	}
	if at >= c.set.At {
		v += c.set.Delta
	}
	v = math.Round(v/c.quantum)*c.quantum + noise
	return uint64(math.Round(max(v, 0)))
}
