// SPDX-License-Identifier: BSD-3-Clause

package authorbench

import (
	"math"
	"math/rand/v2"
	"time"

	"timesync/internal/sim/simnet"
)

// path is one direction.
type path struct {
	*pathSpec
	walk   float64 // where the walk is
	walked float64 // until when it was drawn, s
	n      int     // messages
	burst  int     // how many more get lost in a row
	drawn  int64   // us: delay of the message that was drawn last
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
func (p *path) under(r *rand.Rand, t int64) int64 {
	s := float64(t) / 1e6
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

// link returns the path as one of the simulated network. Whether a message gets lost may depend on
// its delay, so both are drawn at once.
func (p *path) link() *simnet.Link {
	return &simnet.Link{
		Loss:      p.loses,
		Delay:     p.delay,
		Duplicate: p.Duplicate.Probability,
	}
}

// loses draws what happens to a message that is sent at t, and reports whether it gets lost.
func (p *path) loses(r *rand.Rand, t time.Duration) bool {
	p.drawn = p.under(r, t.Microseconds())
	if p.lost(r, float64(p.drawn)) {
		return true
	}
	if late := &p.Reorder; late.Probability != 0 && r.Float64() < late.Probability {
		p.drawn = int64(float64(p.drawn)*late.Multiplier) + int64(late.Late)
	}
	return false
}

// delay returns how long the message is under way that was drawn last; each further copy takes
// longer.
func (p *path) delay(*rand.Rand, time.Duration) time.Duration {
	delay := usec(p.drawn)
	p.drawn += int64(p.Duplicate.Extra)
	return delay
}

func (p *path) lost(r *rand.Rand, delay float64) bool {
	l := &p.Loss
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
