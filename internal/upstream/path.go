// SPDX-License-Identifier: BSD-3-Clause

package upstream

import (
	"math"
	"math/rand/v2"
)

// path is one direction.
type path struct {
	d         *delay
	loss      *loss
	r         *rand.Rand
	reorder   float64
	duplicate float64
	sc        *Scenario
	walk      float64
	walkNext  float64
	n         int
	burst     int
}

func (p *path) jitter() float64 {
	j, r := &p.d.Jitter, p.r
	switch j.Kind {
	case "uniform":
		return uniform(r, j.To)
	case "gaussian_signed":
		v := r.NormFloat64()
		if j.Clip != nil {
			v = max(min(v, *j.Clip), -*j.Clip)
		}
		return v * j.Sigma
	case "lognormal_minus_1":
		return lognormal(r, j.Scale, j.SigmaLn)
	case "pareto":
		return j.Minimum / math.Pow(1-r.Float64(), 1/j.Alpha)
	case "bimodal":
		if r.Float64() < j.HighProbability {
			return j.HighExtra
		}
	}
	return 0
}

// uniform draws a whole number from 0 on.
func uniform(r *rand.Rand, to float64) float64 { return float64(r.IntN(int(to) + 1)) }

func lognormal(r *rand.Rand, scale, sigma float64) float64 {
	return math.Exp(math.Log(scale+1)+sigma*r.NormFloat64()) - 1
}

// under returns how long a message sent at t is under way, microseconds.
func (p *path) under(t int64) int64 {
	d, r, s := p.d, p.r, float64(t)/1e6
	sum := d.Base + d.Ramp*s
	for _, j := range d.Steps {
		if s >= j.At {
			sum += j.Delta
		}
	}
	if q := &d.Sine; q.Peak != 0 {
		sum += q.Peak * 0.5 * (1 + math.Sin(2*math.Pi*s/q.Period))
	}
	if q := &d.Sawtooth; q.Peak != 0 {
		sum += q.Peak * math.Mod(s, q.Period) / q.Period
	}
	if q := &d.Square; q.Extra != 0 && math.Mod(s, q.Period) < q.HighFirst*q.Period {
		sum += q.Extra
	}
	if w := &d.Walk; w.Sigma != 0 {
		if p.walkNext == 0 {
			p.walkNext = w.Every
		}
		for ; s >= p.walkNext; p.walkNext += w.Every {
			p.walk += math.Trunc(w.Sigma * r.NormFloat64())
			if w.Clamp != nil {
				p.walk = max(min(p.walk, w.Clamp[1]), w.Clamp[0])
			}
		}
		sum += p.walk
	}
	sum += p.jitter()
	if d.Spike.Extra != 0 && r.Float64() < d.Spike.Probability {
		sum += d.Spike.Extra
	}
	return int64(max(sum, 0))
}

// send returns when the copies of a message sent at t arrive.
func (p *path) send(t int64) []int64 {
	r, delay := p.r, p.under(t)
	if p.lost(float64(delay)) {
		return nil
	}
	if p.reorder != 0 && r.Float64() < p.reorder {
		if m := p.sc.Reorder.Multiplier; m != nil {
			delay = int64(float64(delay) * *m)
		} else {
			delay += int64(p.sc.Reorder.Late)
		}
	}
	if p.duplicate != 0 && r.Float64() < p.duplicate {
		return []int64{t + delay, t + delay + int64(p.sc.Duplicate.Extra)}
	}
	return []int64{t + delay}
}

func (p *path) lost(delay float64) bool {
	l, r := p.loss, p.r
	p.n++
	switch {
	case l.EveryNth > 0 && p.n%l.EveryNth == 0:
		return true
	case l.Above != nil && delay > *l.Above && r.Float64() < l.AboveDrop:
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
