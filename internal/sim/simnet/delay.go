package simnet

import (
	"math"
	"math/rand/v2"
	"time"
)

// Lost is the delay of a datagram that a Delay drops.
const Lost time.Duration = -1

// maxDelay bounds the heavy tails: nothing holds a datagram much longer.
const maxDelay = 10 * time.Second

// Delay returns the delay of a datagram that is sent at the true time t, or a
// negative value such as Lost to drop it. Successive calls must not go back in
// time. A Delay may hold state: every link of every run needs its own.
type Delay func(r *rand.Rand, t time.Duration) time.Duration

// Const delays every datagram by d.
func Const(d time.Duration) Delay {
	return func(*rand.Rand, time.Duration) time.Duration {
		return d
	}
}

// Sum adds delays. A datagram that one of them drops is dropped.
func Sum(delays ...Delay) Delay {
	return func(r *rand.Rand, t time.Duration) time.Duration {
		var sum time.Duration
		for _, d := range delays { // every one sees every datagram
			if x := d(r, t); x < 0 || sum < 0 {
				sum = Lost
			} else {
				sum += x
			}
		}
		return sum
	}
}

// Losing is a delay that drops what a loss loses. Unlike the Loss of a Link, it lets the delay see
// those datagrams, too.
func Losing(loss Loss, d Delay) Delay {
	return func(r *rand.Rand, t time.Duration) time.Duration {
		lost := loss(r, t)
		if x := d(r, t); !lost {
			return x
		}
		return Lost
	}
}

// Exp is exponential jitter.
func Exp(mean time.Duration) Delay {
	return drawn(func(r *rand.Rand) float64 { return r.ExpFloat64() * float64(mean) })
}

// drawn draws the nanoseconds of each datagram anew. They are at most 10 s.
func drawn(draw func(r *rand.Rand) float64) Delay {
	return func(r *rand.Rand, _ time.Duration) time.Duration {
		return time.Duration(min(draw(r), float64(maxDelay)))
	}
}

// Shared is a delay that datagrams share which are sent while it lasts, as those of a frame
// do. It is drawn anew every so often.
func Shared(lasting time.Duration, d Delay) Delay {
	var until, shared time.Duration
	return func(r *rand.Rand, t time.Duration) time.Duration {
		if t >= until {
			until, shared = t+lasting, d(r, t)
		}
		return shared
	}
}

// Bundles delivers what a delay lets through all at once, at phase and then every so often,
// as Wi-Fi does, or a program that reads its socket once a frame.
func Bundles(every, phase time.Duration, d Delay) Delay {
	return func(r *rand.Rand, t time.Duration) time.Duration {
		x := d(r, t)
		wait := every - 1 - (t+x-phase-1+every)%every
		return x + wait
	}
}

// Uniform is jitter spread evenly over [lo, hi).
func Uniform(lo, hi time.Duration) Delay {
	return func(r *rand.Rand, _ time.Duration) time.Duration { return uniform(r, lo, hi) }
}

func uniform(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.Float64()*float64(hi-lo))
}

// Gamma is gamma-distributed jitter of shape k > 0 (k = 1 is exponential; above 1
// hardly any datagram comes close to the minimum).
func Gamma(k float64, mean time.Duration) Delay {
	return drawn(func(r *rand.Rand) float64 { return gamma(r, k) / k * float64(mean) })
}

// gamma draws from the gamma distribution of shape k and scale 1 (Marsaglia and
// Tsang, 2000).
func gamma(r *rand.Rand, k float64) float64 {
	if k < 1 {
		return gamma(r, k+1) * math.Pow(r.Float64(), 1/k)
	}
	d := k - 1./3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		v *= v * v
		if v > 0 && r.ExpFloat64() > -0.5*x*x-d+d*v-d*math.Log(v) {
			return d * v
		}
	}
}

// LogNormal is log-normal jitter with the given median; sigma is the standard
// deviation of its logarithm. It is at most 10 s.
func LogNormal(median time.Duration, sigma float64) Delay {
	return drawn(func(r *rand.Rand) float64 {
		return float64(median) * math.Exp(sigma*r.NormFloat64())
	})
}

// Normal is normal jitter, where less than nothing counts as nothing.
func Normal(mean, sigma time.Duration) Delay {
	return func(r *rand.Rand, _ time.Duration) time.Duration {
		return max(mean+time.Duration(r.NormFloat64()*float64(sigma)), 0)
	}
}

// Pareto is jitter with a heavy tail: the excess of a Pareto distribution over its
// scale, at most 10 s. Its mean is scale/(shape-1) for a shape above 1.
func Pareto(scale time.Duration, shape float64) Delay {
	return drawn(func(r *rand.Rand) float64 {
		return float64(scale) * (math.Pow(1-r.Float64(), -1/shape) - 1)
	})
}

// Sometimes applies the delay to a share prob of the datagrams, one by one, so that
// others overtake them.
func Sometimes(prob float64, d Delay) Delay {
	return func(r *rand.Rand, t time.Duration) time.Duration {
		x := d(r, t)
		if r.Float64() < prob || x < 0 {
			return x
		}
		return 0
	}
}

// Reorder holds a share prob of the datagrams back by extra.
func Reorder(prob float64, extra time.Duration) Delay { return Sometimes(prob, Const(extra)) }

// Spike lets every datagram start, with probability prob, a stop of the path for
// extra; what is sent during a stop arrives at its end.
func Spike(prob float64, extra time.Duration) Delay {
	var end time.Duration
	return func(r *rand.Rand, t time.Duration) time.Duration {
		if r.Float64() < prob {
			end = max(end, t+extra)
		}
		return max(end-t, 0)
	}
}

// Cellular is the scheduling of a mobile network: Uniform over 6 ms.
func Cellular() Delay { return Uniform(0, 6*time.Millisecond) }

// WiFi is a busy wireless network: an exponential core of 0.3 ms, 5 % of the
// datagrams spread over 20 ms, and every 10 s or so a stall of 0.1 to 0.3 s, at
// the end of which everything sent in it is delivered.
func WiFi() Delay {
	const core, late = 300 * time.Microsecond, 20 * time.Millisecond
	stalls := episodes{
		shortest: 100 * time.Millisecond,
		longest:  300 * time.Millisecond,
		gap:      10 * time.Second,
	}
	return func(r *rand.Rand, t time.Duration) time.Duration {
		d := time.Duration(r.ExpFloat64() * float64(core))
		if r.Float64() < 0.05 {
			d += uniform(r, 0, late)
		}
		stalls.advance(r, t)
		if t >= stalls.start {
			d += max(stalls.end-t, 0)
		}
		return d
	}
}
