package simnet

import (
	"math/rand/v2"
	"time"
)

// episodes are random spans of time: exponential gaps, uniform lengths.
type episodes struct {
	shortest, longest, gap time.Duration // of length, mean of gap
	lo, hi                 time.Duration // range of height
	pause                  time.Duration // a new one starts no earlier than this after an end

	start, end, height time.Duration // the current or next one; at first end is -pause
}

// advance moves to the episode that holds t or, if none does, the next.
func (e *episodes) advance(r *rand.Rand, t time.Duration) {
	for t >= e.end+e.pause {
		e.start = e.end + e.pause + time.Duration(r.ExpFloat64()*float64(e.gap))
		e.end = e.start + max(uniform(r, e.shortest, e.longest), time.Millisecond)
		e.height = uniform(r, e.lo, e.hi)
	}
}

// fillTime is how long a queue takes to fill; it takes as long to drain, or as long
// as it is high: a delay cannot fall faster than time passes.
const fillTime = 500 * time.Millisecond

// queueLevel is the height at t of a queue that begins to fill at start and to
// drain at end.
func queueLevel(t, start, end, height time.Duration) time.Duration {
	up := float64(t-start) / float64(fillTime)
	down := 1 - float64(t-end)/float64(max(fillTime, height))
	return time.Duration(max(min(up, down, 1), 0) * float64(height))
}

// fluctuation returns a slowly varying factor within 10 % of 1: straight lines
// between random points, four a second.
func fluctuation() func(r *rand.Rand, t time.Duration) float64 {
	const every = 250 * time.Millisecond
	var next time.Duration
	from, to := 1., 1.
	return func(r *rand.Rand, t time.Duration) float64 {
		if t >= next+10*every {
			next = t // nobody looked for long
		}
		for t >= next {
			next += every
			from, to = to, 0.9+0.2*r.Float64()
		}
		return to - (to-from)*float64(next-t)/float64(every)
	}
}

// Bufferbloat is a queue that others fill now and then: to a height between lo and
// hi, for a time between minFor and maxFor, with everyMean between two episodes on
// average. It fills in half a second, fluctuates by 10 % and drains.
func Bufferbloat(lo, hi, minFor, maxFor, everyMean time.Duration) Delay {
	pause := max(fillTime, hi)
	e := episodes{
		shortest: minFor,
		longest:  maxFor,
		gap:      everyMean,
		lo:       lo,
		hi:       hi,
		pause:    pause,
		end:      -pause,
	}
	fluctuate := fluctuation()
	return func(r *rand.Rand, t time.Duration) time.Duration {
		e.advance(r, t)
		return time.Duration(float64(queueLevel(t, e.start, e.end, e.height)) * fluctuate(r, t))
	}
}

// Plateau is Bufferbloat whose queues come and go at once and do not fluctuate.
func Plateau(lo, hi, minFor, maxFor, everyMean time.Duration) Delay {
	e := episodes{shortest: minFor, longest: maxFor, gap: everyMean, lo: lo, hi: hi}
	return func(r *rand.Rand, t time.Duration) time.Duration {
		e.advance(r, t)
		if t < e.start {
			return 0
		}
		return e.height
	}
}

// StandingQueue is one queue that begins to fill at the true time from and begins
// to drain lasting later; it fluctuates by 10 %.
func StandingQueue(from, lasting, height time.Duration) Delay {
	fluctuate := fluctuation()
	return func(r *rand.Rand, t time.Duration) time.Duration {
		return time.Duration(float64(queueLevel(t, from, from+lasting, height)) * fluctuate(r, t))
	}
}

// Queue is a bottleneck with a real queue: rate in bits per second, shared with
// cross traffic that offers the given share of it in bursts of 8 packets of 1500
// bytes on average. What would wait longer than limit is dropped. The datagrams
// themselves are small and take no room.
func Queue(rate, load float64, limit time.Duration) Delay {
	const packetBits, burst = 1500 * 8, 8
	service := time.Duration(packetBits / rate * float64(time.Second))
	gap := float64(service) * burst / load // between bursts
	var next, busy time.Duration           // next burst, end of the work in the queue
	return func(r *rand.Rand, t time.Duration) time.Duration {
		for load > 0 && next <= t {
			for more := true; more; more = r.Float64() >= 1./burst {
				if busy = max(busy, next); busy-next <= limit {
					busy += service
				}
			}
			next += time.Duration(r.ExpFloat64()*gap) + 1
		}
		if wait := max(busy-t, 0); wait <= limit {
			return wait
		}
		return Lost
	}
}

// Ramp is a delay that grows by ppm microseconds a second from the true time from
// on, for lasting, and then stays.
func Ramp(from time.Duration, ppm float64, lasting time.Duration) Delay {
	return func(_ *rand.Rand, t time.Duration) time.Duration {
		return time.Duration(float64(min(max(t-from, 0), lasting)) * ppm * 1e-6)
	}
}
