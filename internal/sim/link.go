package sim

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"strings"
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

// Loss reports whether the datagram sent at the true time t is lost. Like a Delay
// it may hold state, and time must not go back.
type Loss func(r *rand.Rand, t time.Duration) bool

// Base is the delay that a path has at the true time t without any queue. It is
// what no end can see of an asymmetry, so it has no randomness.
type Base func(t time.Duration) time.Duration

// Window is a span of true time, From included and To excluded.
type Window struct{ From, To time.Duration }

// Within reports whether t is in one of the windows.
func Within(windows []Window, t time.Duration) bool {
	return slices.ContainsFunc(windows, func(w Window) bool { return t >= w.From && t < w.To })
}

// Link is one direction of a path. The zero value delivers at once. A link holds
// state: use it in one run only.
type Link struct {
	Base      Base    // nil is no delay
	Delay     Delay   // on top of Base; nil is none
	Loss      Loss    // nil loses nothing
	Duplicate float64 // share of the datagrams that arrive twice
	FIFO      bool    // no datagram overtakes another

	last time.Duration    // latest arrival
	buf  [2]time.Duration // what Arrivals returns
}

// Arrivals returns when the datagram sent at the true time t arrives: never if it
// is lost, twice if it is duplicated. The result is valid until the next call.
// Successive calls must not go back in time.
func (l *Link) Arrivals(r *rand.Rand, t time.Duration) []time.Duration {
	copies := 1
	if l.Duplicate > 0 && r.Float64() < l.Duplicate {
		copies = 2
	}
	if l.Loss != nil && l.Loss(r, t) {
		copies = 0
	}
	out := l.buf[:0]
	for range copies {
		delay := time.Duration(0)
		if l.Delay != nil {
			delay = l.Delay(r, t)
		}
		if delay < 0 {
			continue
		}
		at := max(t+l.BaseAt(t)+delay, t)
		if l.FIFO {
			at = max(at, l.last)
			l.last = at
		}
		out = append(out, at)
	}
	return out
}

// BaseAt returns the link's delay without any queue at the true time t.
func (l *Link) BaseAt(t time.Duration) time.Duration {
	if l.Base == nil {
		return 0
	}
	return l.Base(t)
}

// Fixed is a path that stays.
func Fixed(d time.Duration) Base { return func(time.Duration) time.Duration { return d } }

// RouteStep changes the delay of a path by Change from the true time At on.
type RouteStep struct{ At, Change time.Duration }

// Route is a path of delay d that changes with every step; the changes add up.
func Route(d time.Duration, steps ...RouteStep) Base {
	return func(t time.Duration) time.Duration {
		sum := d
		for _, s := range steps {
			if t >= s.At {
				sum += s.Change
			}
		}
		return sum
	}
}

// Const delays every datagram by d.
func Const(d time.Duration) Delay { return func(*rand.Rand, time.Duration) time.Duration { return d } }

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
	return drawn(func(r *rand.Rand) float64 { return float64(median) * math.Exp(sigma*r.NormFloat64()) })
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
	return drawn(func(r *rand.Rand) float64 { return float64(scale) * (math.Pow(1-r.Float64(), -1/shape) - 1) })
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
	stalls := episodes{shortest: 100 * time.Millisecond, longest: 300 * time.Millisecond, gap: 10 * time.Second}
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
	e := episodes{shortest: minFor, longest: maxFor, gap: everyMean, lo: lo, hi: hi, pause: pause, end: -pause}
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

// Bernoulli loses each datagram with probability p.
func Bernoulli(p float64) Loss {
	return func(r *rand.Rand, _ time.Duration) bool { return r.Float64() < p }
}

// GilbertElliott loses the share mean < 1 of the datagrams in bursts of the given
// mean length, which is at least 1.
func GilbertElliott(mean, burst float64) Loss {
	bad := false
	return func(r *rand.Rand, _ time.Duration) bool {
		if bad {
			bad = r.Float64() >= 1/burst
		} else {
			bad = r.Float64() < mean/(1-mean)/burst
		}
		return bad
	}
}

// Silence loses everything that is sent within the windows.
func Silence(windows ...Window) Loss {
	return func(_ *rand.Rand, t time.Duration) bool { return Within(windows, t) }
}

// AnyLoss loses what any of the losses loses.
func AnyLoss(losses ...Loss) Loss {
	return func(r *rand.Rand, t time.Duration) bool {
		lost := false
		for _, l := range losses { // every one sees every datagram
			lost = l(r, t) || lost
		}
		return lost
	}
}

// Sample is one datagram of a recorded series.
type Sample struct {
	At    time.Duration // sent at this true time
	Delay time.Duration // Lost if it did not arrive
}

// ReadTrace reads recorded series: a gzip CSV file with the columns send_time_us,
// owd_us (-1 is lost) and direction. It returns the rows of each direction, in the
// order of the file.
func ReadTrace(path string) (series map[string][]Sample, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	series = map[string][]Sample{}
	lines := bufio.NewScanner(z)
	lines.Scan() // names of the columns
	for lines.Scan() {
		var at, owd int64
		var to string
		if _, err := fmt.Sscan(strings.ReplaceAll(lines.Text(), ",", " "), &at, &owd, &to); err != nil {
			return nil, fmt.Errorf("%s: row %q: %w", path, lines.Text(), err)
		}
		delay := max(time.Duration(owd)*time.Microsecond, Lost)
		series[to] = append(series[to], Sample{time.Duration(at) * time.Microsecond, delay})
	}
	return series, lines.Err()
}

// Recorded delays a datagram like the latest of the series that was sent no later.
func Recorded(series []Sample) Delay {
	return func(_ *rand.Rand, t time.Duration) time.Duration {
		i := sort.Search(len(series), func(i int) bool { return series[i].At > t })
		if len(series) == 0 {
			return Lost
		}
		return series[max(i-1, 0)].Delay
	}
}
