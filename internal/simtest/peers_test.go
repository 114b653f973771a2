// The worlds of the hostile tests, of the soak and of quiet peers: duels whose clocks and ways
// change when a test says so.
package simtest

import (
	"math/rand/v2"
	"time"

	"timesync/internal/sim/simnet"
)

// peers are a duel that is quick to play. Its clocks have a constant rate until something changes
// it, its ways a constant delay and exponential jitter. All times are whole microseconds.
// Everything depends on the seed.
type peers struct {
	*duel
	simnet.Dice
	clocks [2]*simnet.ManualClock
	ways   [2]struct {
		jitter, queue time.Duration // the mean, and for how long all datagrams wait besides
		loss          float64
	}
}

// usecs are whole microseconds.
func usecs(n float64) time.Duration { return us * time.Duration(n) }

// newPeers draws a calm world: each way takes 0.1 to 100 ms, the jitter is up to 3 ms, a
// datagram goes 10 to 60 times a second, and each clock is up to 50 ppm off.
func newPeers(r *rand.Rand) *peers {
	p := &peers{duel: newDuel(0, forever), Dice: simnet.Dice{R: r}}
	p.poll = 250 * ms
	p.sparse = true
	rate := p.Between(10, 60)
	for side := range p.ends {
		e := &p.ends[side]
		w := &p.ways[side]
		p.clocks[side] = simnet.NewManualClock(r.Uint64(), p.Between(-50, 50))
		e.c = p.clocks[side]
		e.link = r
		e.base = usecs(p.LogBetween(100, 100e3))
		w.jitter = usecs(p.Between(0, 3e3))
		e.delays = []simnet.Delay{func(r *rand.Rand, _ time.Duration) time.Duration {
			return w.queue + usecs(r.ExpFloat64()*float64(w.jitter/us))
		}}
		e.losses = []simnet.Loss{func(r *rand.Rand, _ time.Duration) bool {
			return w.loss > 0 && r.Float64() < w.loss
		}}
		e.build()
		e.inbox = []datagram{{at: forever}}
		e.period = usecs(1e6 / rate)
		e.sendAt = us * time.Duration(r.Int64N(int64(e.period/us)))
	}
	return p
}

// pause lets neither end send for so long.
func (p *peers) pause(lasting time.Duration) {
	for side := range p.ends {
		p.ends[side].sendAt += lasting
	}
}

// asymmetry is the error that half the difference of the ways causes, us.
func (p *peers) asymmetry(side int) float64 {
	return float64((p.ends[side].base-p.ends[1-side].base)/us) / 2
}

// wrong reports whether an answer is over a millisecond beyond what the asymmetry of the
// path makes of it.
func (p *peers) wrong(q *query) bool {
	h := p.asymmetry(q.side)
	return !q.ok || q.err > max(h, 0)+1000 || q.err < min(h, 0)-1000
}
