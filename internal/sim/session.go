package sim

import (
	"math"
	"math/rand/v2"
	"time"

	"timesync/internal/sim/simnet"
)

// Session is one world of two ends that exchange TimeSync's datagrams. It can be run once, since
// links and schedules keep state.
type Session struct {
	Duration time.Duration
	End      [2]End
	// ReportEvery is the time between reports at an age of the session. nil is ReportEvery.
	ReportEvery func(age time.Duration) time.Duration
}

// End is one of the two computers, and the way from it to the other.
type End struct {
	Clock     simnet.ClockSpec
	ClockSeed uint64 // chooses the clock's random walk
	Out       *simnet.Link
	Net       *rand.Rand // draws what Out does with a datagram

	Sends Schedule // of datagrams
	Asks  Schedule // of questions to this end
	Pings Schedule // of requests, for estimators that are Exchangers; nil is never

	Off    []simnet.Window // it sleeps: nothing is sent, received or asked
	Stalls []simnet.Window // what arrives is read at the end of the window
}

// ReportEvery is TimeSync's advice: the time between reports at an age of the session.
func ReportEvery(age time.Duration) time.Duration {
	if age < 20*time.Second {
		return 500 * time.Millisecond
	}
	return 2 * time.Second
}

// Schedule returns the next time at which something happens, which is no earlier than the one
// before. Never ends it.
type Schedule func() time.Duration

// Never is later than any world lasts.
const Never time.Duration = math.MaxInt64

// Regularly is a schedule with a fixed period.
func Regularly(first, period time.Duration) Schedule {
	next := first - period
	return func() time.Duration {
		next += period
		return next
	}
}

// Paced is a schedule as of a program's loop: a fixed period in nanoseconds, from a random time
// within the first on, and each time up to a fifth of it or 2 ms late.
func Paced(r *rand.Rand, period float64) Schedule {
	start := r.Float64() * period
	n := 0.0
	draw := func() time.Duration {
		late := r.Float64() * min(period/5, float64(2*time.Millisecond))
		return time.Duration(start + n*period + late)
	}
	next := draw()
	return func() time.Duration {
		at := next
		n++
		next = draw()
		return at
	}
}

// Times is a schedule of these times.
func Times(times []time.Duration) Schedule {
	return func() time.Duration {
		if len(times) == 0 {
			return Never
		}
		at := times[0]
		times = times[1:]
		return at
	}
}

// HalfAsymmetry is the error of the clock of an end that unequal delays of both ways cause at the
// true time t, without queues, in microseconds.
func (s *Session) HalfAsymmetry(side Side, t time.Duration) float64 {
	out, back := s.End[side].Out, s.End[1-side].Out
	return usec(out.BaseAt(t)-back.BaseAt(t)) / 2
}

// Run plays the world: every pair sees the same stamps and times of receipt, and its reports
// travel in the same datagrams. Pings travel besides. The packets do not depend on the pairs.
func (s *Session) Run(pairs []Pair, obs Observer) {
	x := &exchange{Ends: Ends{Pairs: pairs, Observer: obs}, Session: s, w: simnet.NewWorld(0)}
	if s.ReportEvery == nil {
		s.ReportEvery = ReportEvery
	}
	for side := range Side(2) {
		end := &s.End[side]
		x.state[side].clock = simnet.NewClock(end.Clock, end.ClockSeed)
		x.state[side].asymUsec = s.HalfAsymmetry(side, 0)
		x.repeat(end.Sends, func() { x.send(side) })
		x.repeat(end.Asks, x.awake(side, func() { x.ask(side) }))
		x.repeat(end.Pings, x.awake(side, func() { x.ping(side) }))
	}
	x.w.Run(s.Duration)
}

// exchange is a session that is being played.
type exchange struct {
	*Session
	Ends
	w     *simnet.World
	state [2]endState
}

// endState is what becomes of an end.
type endState struct {
	clock    simnet.Clock
	asymUsec float64       // half the asymmetry of the path at the start
	reportAt time.Duration // the next report
	heard    bool          // a datagram has arrived
}

// repeat lets something happen by a schedule.
func (x *exchange) repeat(next Schedule, happens func()) {
	if next == nil {
		return
	}
	at := next()
	if at == Never {
		return
	}
	x.w.At(at, func() {
		happens()
		x.repeat(next, happens)
	})
}

// awake returns what happens at an end unless it sleeps then.
func (x *exchange) awake(side Side, happens func()) func() {
	return func() {
		if !simnet.Within(x.End[side].Off, x.w.Now()) {
			happens()
		}
	}
}

// pass lets something happen at the other end where it reads a packet that an end sends now.
func (x *exchange) pass(side Side, happens func()) {
	from, to := &x.End[side], &x.End[1-side]
	x.w.Pass(from.Out, from.Net, x.awake(1-side, func() {
		if at := simnet.Resumes(to.Stalls, x.w.Now()); at > x.w.Now() {
			x.w.At(at, happens)
			return
		}
		happens()
	}))
}

func (x *exchange) send(side Side) {
	e := &x.state[side]
	at := x.w.Now()
	if simnet.Within(x.End[side].Off, at) {
		return
	}
	local := e.clock.Usec(at)
	var reports map[int]uint32 // by pair
	if e.heard && at >= e.reportAt {
		e.reportAt = at + x.ReportEvery(at)
		reports = x.Reports(side, local)
	}
	x.pass(side, func() { x.arrive(1-side, Stamp(local), at, reports) })
}

func (x *exchange) arrive(side Side, ts24 uint32, sent time.Duration, reports map[int]uint32) {
	e := &x.state[side]
	e.heard = true
	local := e.clock.Received(x.w.Now())
	x.Datagram(x.observe(side, local), ts24, x.w.Now()-sent)
	x.Told(side, local, reports)
}

func (x *exchange) ask(side Side) {
	own, other, at := x.state[side].clock, x.state[1-side].clock, x.w.Now()
	local := own.Usec(at)
	lag := own.Exact(at) - local
	x.Ask(x.observe(side, local), other.Exact(at)-lag)
}

// ping sends a request. The other end answers at once.
func (x *exchange) ping(side Side) {
	own, other := x.state[side].clock, x.state[1-side].clock
	t1 := own.Usec(x.w.Now())
	x.pass(side, func() {
		t2 := other.Received(x.w.Now())
		t3 := other.Usec(x.w.Now())
		x.pass(1-side, func() { x.Exchange(side, t1, t2, t3, own.Received(x.w.Now())) })
	})
}

// observe prepares the observations of an event.
func (x *exchange) observe(side Side, localUsec uint64) Observation {
	then, now := x.state[side].asymUsec, x.HalfAsymmetry(side, x.w.Now())
	return Observation{
		Side:      side,
		At:        x.w.Now(),
		LocalUsec: localUsec,
		LoUsec:    min(0, then, now),
		HiUsec:    max(0, then, now),
	}
}
