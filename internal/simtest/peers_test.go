// The worlds of the hostile tests, of the soak and of their limits share these two ends.
package simtest

import (
	"math"
	"math/rand/v2"
	"slices"

	"timesync"
)

// peers is a world of two synchronizers that is quick to play: 0.2 us for a datagram, all
// told, where duel takes ten times as long. Its clocks have a constant rate until
// something changes it, its links a constant delay and exponential jitter. All times are
// microseconds of true time since the start. Everything depends on the seed.
type peers struct {
	dice
	now  int64
	ends [2]peer

	reports bool // every datagram carries a report

	askAt, askEvery int64
	onAsk           func(side int, a answer)
	// eventAt is when event happens, which may plan the next one.
	eventAt int64
	event   func()
	// deliver hands over a datagram that arrived at side, as take does.
	deliver func(side int, d datagram, localUsec uint64)
}

// peer is one of the two ends, and the way from there.
type peer struct {
	s        *timesync.TimeSynchronizer
	clock    rateClock
	heard    bool // a datagram
	shortest shortest

	base, jitter int64 // us: of a datagram from here, the least and the mean of the rest
	queue        int64 // us: that all of them wait besides
	loss         float64
	period       int64 // us between two datagrams
	sendAt       int64
	born         int64
	reportAt     int64
	inbox        []datagram // in the order of their arrival
}

// datagram is one under way.
type datagram struct {
	sent, at      int64
	stamp, report timesync.Counter24
	reports       bool
}

// answer is what an end says.
type answer struct {
	ok    bool
	err   float64 // us, modulo 67.1 s
	bound float64 // us
}

// beyond reports whether the truth lies outside of the bound: both readings and the truth
// are cut to whole microseconds.
func (a answer) beyond() bool { return a.ok && math.Abs(a.err) > a.bound+2 }

// rateClock is a clock that runs at a constant rate since at.
type rateClock struct {
	at      int64
	reading uint64
	part    float64 // of a microsecond, 0 to 1
	rate    float64 // minus 1
}

func (c *rateClock) usec(t int64) uint64 {
	return c.reading + uint64(t-c.at) + uint64(int64(math.Floor(c.part+float64(t-c.at)*c.rate)))
}

// set lets the clock jump, us, and gives it another rate.
func (c *rateClock) set(t, step int64, rate float64) {
	v := c.part + float64(t-c.at)*c.rate
	c.reading, c.part = c.usec(t)+uint64(step), v-math.Floor(v)
	c.at, c.rate = t, rate
}

// push adds a datagram that is under way to an end, in the order of arrival.
func (e *peer) push(d datagram) {
	i := len(e.inbox)
	for i > 0 && d.at < e.inbox[i-1].at {
		i--
	}
	e.inbox = slices.Insert(e.inbox, i, d)
}

// next returns when the next one arrives.
func (e *peer) next() int64 {
	if len(e.inbox) == 0 {
		return math.MaxInt64
	}
	return e.inbox[0].at
}

// newPeers draws a calm world: each way takes 0.1 to 100 ms, the jitter is up to 3 ms, a
// datagram goes 10 to 60 times a second, and each clock is up to 50 ppm off.
func newPeers(r *rand.Rand) *peers {
	p := &peers{dice: dice{r}, askEvery: 250e3, eventAt: math.MaxInt64}
	p.deliver = p.take
	rate := p.between(10, 60)
	for side := range p.ends {
		e := &p.ends[side]
		e.s = new(timesync.TimeSynchronizer)
		e.shortest.forget()
		e.clock = rateClock{reading: r.Uint64(), rate: p.between(-50e-6, 50e-6)}
		e.base, e.jitter = int64(p.logBetween(100, 100e3)), int64(p.between(0, 3e3))
		e.period = int64(1e6 / rate)
		e.sendAt = r.Int64N(e.period)
	}
	return p
}

// run lets the world go on.
func (p *peers) run(until int64) {
	a, b := &p.ends[0], &p.ends[1]
	for {
		at := min(a.sendAt, b.sendAt, a.next(), b.next(), p.askAt, p.eventAt)
		if at > until {
			return
		}
		p.now = at
		switch at {
		case p.eventAt:
			p.eventAt = math.MaxInt64
			p.event()
		case a.next():
			p.arrive(0)
		case b.next():
			p.arrive(1)
		case a.sendAt:
			p.send(0)
		case b.sendAt:
			p.send(1)
		default:
			p.askAt = at + p.askEvery
			p.ask(0)
			p.ask(1)
		}
	}
}

func (p *peers) send(side int) {
	e, o := &p.ends[side], &p.ends[1-side]
	e.sendAt = p.now + e.period
	local := e.clock.usec(p.now)
	d := datagram{sent: p.now, stamp: timesync.LocalTimeToDatagramTS24(local)}
	if e.heard && (p.reports || p.now >= e.reportAt) {
		e.reportAt = p.now + 2e6
		if p.now < e.born+20e6 {
			e.reportAt = p.now + 0.5e6
		}
		d.report, d.reports = e.s.MinDeltaTS24(local)
	}
	if e.loss > 0 && p.r.Float64() < e.loss {
		return
	}
	d.at = p.now + e.base + e.queue + int64(p.r.ExpFloat64()*float64(e.jitter))
	o.push(d)
}

func (p *peers) arrive(side int) {
	e := &p.ends[side]
	first := e.inbox[0]
	e.inbox = e.inbox[1:]
	p.deliver(side, first, e.clock.usec(p.now))
}

// take gives a datagram to the synchronizer.
func (p *peers) take(side int, d datagram, localUsec uint64) {
	e := &p.ends[side]
	e.s.OnAuthenticatedDatagramTimestamp(d.stamp, localUsec)
	e.shortest.datagram(uint32(d.stamp), localUsec, p.offset(side))
	if d.reports {
		e.s.OnPeerMinDeltaTS24(d.report, localUsec)
		e.shortest.report(uint32(d.report), p.offset(side))
	}
	e.heard = true
}

// offset is the other clock minus the one of side, us.
func (p *peers) offset(side int) uint64 {
	return p.ends[1-side].clock.usec(p.now) - p.ends[side].clock.usec(p.now)
}

// set lets a clock jump, us.
func (p *peers) set(side int, step int64) {
	e, o := &p.ends[side], &p.ends[1-side]
	e.clock.set(p.now, step, e.clock.rate)
	e.shortest.offsetJumps(-step)
	o.shortest.offsetJumps(step)
}

// late holds back every second datagram until others arrived, about that long at most, but
// none in the last second before until. Its receive time stays what it was.
func (p *peers) late(most float64, until int64) func(int, datagram, uint64) {
	type held struct {
		d     datagram
		local uint64
		until int64
	}
	var waits [2][]held
	return func(side int, d datagram, local uint64) {
		if p.r.IntN(2) == 0 && p.now < until-1e6 {
			waits[side] = append(waits[side], held{d, local, p.now + int64(most*p.r.Float64())})
			return
		}
		p.take(side, d, local)
		waits[side] = slices.DeleteFunc(waits[side], func(h held) bool {
			if h.until > p.now {
				return false
			}
			p.take(side, h.d, h.local)
			return true
		})
	}
}

// pause lets neither end send for so long, us.
func (p *peers) pause(lasting int64) {
	for side := range p.ends {
		p.ends[side].sendAt += lasting
	}
}

func (p *peers) ask(side int) {
	e := &p.ends[side]
	local := e.clock.usec(p.now)
	snapshot, ok := e.s.Snapshot(local)
	a := answer{ok: ok}
	if ok {
		a.err = float64(int64((snapshot.RemoteUsec-p.ends[1-side].clock.usec(p.now))<<38) >> 38)
		a.bound = float64(snapshot.ErrorBound.Microseconds())
	}
	p.onAsk(side, a)
}

// asymmetry is the error that half the difference of the ways causes, us.
func (p *peers) asymmetry(side int) float64 {
	return float64(p.ends[side].base-p.ends[1-side].base) / 2
}

// wrong reports whether an answer is over a millisecond beyond what the asymmetry of the
// path makes of it.
func (p *peers) wrong(side int, a answer) bool {
	h := p.asymmetry(side)
	return !a.ok || a.err > max(h, 0)+1000 || a.err < min(h, 0)-1000
}
