package sim

import (
	"cmp"
	"math/rand/v2"
	"time"

	"timesync/internal/sim/simnet"
)

// Estimator is one end's knowledge of the other end's clock. Times in microseconds
// are readings of the local clock; TimeSync's counters are plain integers.
type Estimator interface {
	// OnDatagram takes a datagram with the 24-bit stamp ts24 (8 us units) and
	// returns its one-way delay, if known.
	OnDatagram(ts24 uint32, recvUsec uint64) (owd time.Duration, ok bool)
	// MinDelta returns the 24-bit report for the peer, if there is one.
	MinDelta(localUsec uint64) (uint32, bool)
	// OnPeerMinDelta takes the peer's report.
	OnPeerMinDelta(delta uint32, recvUsec uint64)
	// RemoteTime returns the remote clock at localUsec, if known; it may be known
	// only modulo 67.1 s, then the answer nearest to nearUsec counts.
	RemoteTime(localUsec, nearUsec uint64) (uint64, bool)
}

// Exchanger is an Estimator that wants request and response: t1 local sending, t2
// remote receipt, t3 remote sending and t4 local receipt, microseconds.
type Exchanger interface {
	OnExchange(t1, t2, t3, t4 uint64)
}

// Pair is one method at both ends.
type Pair struct {
	Name string
	A, B Estimator
}

// At returns the one of a side.
func (p Pair) At(side Side) Estimator { return [2]Estimator{p.A, p.B}[side] }

// Side is one of the two ends.
type Side int

// The two ends.
const (
	A Side = iota
	B
)

func (s Side) name() string { return [...]string{"A", "B"}[s] }

// usec returns a span in microseconds, with their fraction.
func usec(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Tag says what happens in a scenario.
type Tag uint

// Tags of scenarios; Calm stands alone.
const (
	Calm   Tag = 0         // jitter at most
	Lossy  Tag = 1 << iota // loss, low rates, silences
	Queued                 // queues that stand
	Routed                 // the path changes
	Jumped                 // a clock steps, stops or is slewed
)

// Scenario is a family of worlds, one for each seed.
type Scenario struct {
	Name     string
	Tag      Tag
	Duration time.Duration // of the run
	Warmup   time.Duration // accuracy counts from here on; Run observes everything

	A, B   func(seed uint64) simnet.ClockSpec
	AB, BA func(seed uint64) *simnet.Link

	RateAB, RateBA float64         // datagrams a second; 0 is 60
	SendAB, SendBA []time.Duration // when datagrams are sent, instead of at a rate
	PollRate       float64         // questions a second to each end; 0 is 10

	// ReportEvery is the time between reports at an age of the session. nil is
	// TimeSync's advice: 0.5 s in the first 20 s, then 2 s.
	ReportEvery func(age time.Duration) time.Duration
	// Off is when one of the computers sleeps: nothing is sent, received or asked.
	Off func(seed uint64) []simnet.Window
}

// Observation is one answer of an estimator.
type Observation struct {
	Pair      int           // index of the pair
	Side      Side          // who answered
	At        time.Duration // true time
	LocalUsec uint64        // what the local clock shows; of a datagram, rounded up
	OK        bool          // there was an answer; else ErrUsec is 0
	// ErrUsec is the answer minus the truth, in microseconds, folded modulo 67.1 s. The truth is
	// what the remote clock reads, and a coarse local one, when the local one reads LocalUsec: how
	// old what a clock shows is does not count.
	ErrUsec float64
	// LoUsec and HiUsec enclose the errors that nobody can avoid: 0, and half the
	// asymmetry of the path at the start of the run and now.
	LoUsec, HiUsec float64
}

// Excess returns the signed distance of the error from the interval of errors that
// nobody can avoid, in microseconds.
func (o *Observation) Excess() float64 {
	return max(o.ErrUsec-o.HiUsec, 0) + min(o.ErrUsec-o.LoUsec, 0)
}

// Observer gets the answers: Poll those for the remote clock, OWD those for the
// one-way delay of each datagram. Either may be nil. The observation is only valid
// during the call.
type Observer struct {
	Poll, OWD func(o *Observation)
}

// Ends are both ends of all pairs, which see the same. An observer gets what they answer.
type Ends struct {
	Pairs []Pair
	Observer
	shown Observation // here it is not allocated anew
}

// Reports returns what an end reports to the other, by pair.
func (e *Ends) Reports(side Side, localUsec uint64) map[int]uint32 {
	reports := map[int]uint32{}
	for i, p := range e.Pairs {
		if delta, ok := p.At(side).MinDelta(localUsec); ok {
			reports[i] = delta
		}
	}
	return reports
}

// Told hands over such reports to an end.
func (e *Ends) Told(side Side, recvUsec uint64, reports map[int]uint32) {
	for i, delta := range reports {
		e.Pairs[i].At(side).OnPeerMinDelta(delta, recvUsec)
	}
}

// Datagram hands over one that was under way for so long, where and when o says.
func (e *Ends) Datagram(o Observation, ts24 uint32, owd time.Duration) {
	for i, p := range e.Pairs {
		got, ok := p.At(o.Side).OnDatagram(ts24, o.LocalUsec)
		e.show(e.OWD, o, i, ok, usec(got-owd))
	}
}

// Ask asks for the remote clock, which is truth, where and when o says.
func (e *Ends) Ask(o Observation, truth uint64) {
	for i, p := range e.Pairs {
		remote, ok := p.At(o.Side).RemoteTime(o.LocalUsec, truth)
		// No more is known than 26 bits, 67.1 s.
		e.show(e.Poll, o, i, ok, float64(int64((remote-truth)<<38)>>38))
	}
}

// Exchange hands over a request and its response to who asked.
func (e *Ends) Exchange(side Side, t1, t2, t3, t4 uint64) {
	for _, p := range e.Pairs {
		if est, ok := p.At(side).(Exchanger); ok {
			est.OnExchange(t1, t2, t3, t4)
		}
	}
}

func (e *Ends) show(observe func(*Observation), o Observation, pair int, ok bool, errUsec float64) {
	if observe == nil {
		return
	}
	if o.Pair, o.OK = pair, ok; ok {
		o.ErrUsec = errUsec
	}
	e.shown = o
	observe(&e.shown)
}

// pingEvery is netfox's; others take fewer.
const pingEvery = time.Second / 4

// Stamp returns the stamp of a clock reading in microseconds: 24 bits, which count 8 us.
func Stamp(usec uint64) uint32 { return uint32(usec>>3) & (1<<24 - 1) }

// end is one of the two peers.
type end struct {
	clock    *simnet.Clock
	out      *simnet.Link
	net      *rand.Rand    // for out
	reportAt time.Duration // the next report
	heard    bool          // a datagram has arrived
}

type exchange struct {
	Ends
	w        *simnet.World
	ends     [2]end
	off      []simnet.Window
	asymUsec float64 // half the asymmetry of the path at the start
	sc       *Scenario
}

// Run plays the world of sc with that seed: two ends exchange datagrams, every pair
// sees the same stamps and times of receipt, and its reports travel in the same
// datagrams. Pings travel besides, four a second from each end, for estimators that
// are Exchangers. The packets do not depend on the pairs.
func Run(sc Scenario, seed uint64, pairs []Pair, obs Observer) {
	x := &exchange{Ends: Ends{Pairs: pairs, Observer: obs}, w: simnet.NewWorld(seed), sc: &sc}
	if sc.Off != nil {
		x.off = sc.Off(seed)
	}
	if sc.ReportEvery == nil {
		sc.ReportEvery = ReportEvery
	}
	x.end(A, sc.A(seed), sc.AB(seed), sc.RateAB, sc.SendAB)
	x.end(B, sc.B(seed), sc.BA(seed), sc.RateBA, sc.SendBA)
	x.asymUsec = x.halfAsymmetry()
	x.w.Run(sc.Duration)
}

// ReportEvery is TimeSync's advice: the time between reports at an age of the session.
func ReportEvery(age time.Duration) time.Duration {
	if age < 20*time.Second {
		return 500 * time.Millisecond
	}
	return 2 * time.Second
}

// end sets up one end and plans what it does on its own.
func (x *exchange) end(side Side, spec simnet.ClockSpec, out *simnet.Link, rate float64, times []time.Duration) {
	name := side.name()
	x.ends[side] = end{clock: simnet.NewClock(spec, x.w.Rand("clock "+name).Uint64()), out: out, net: x.w.Rand("net " + name)}
	phase := x.w.Rand("send " + name)
	if times != nil {
		phase.Float64() // as much as a rate needs
		x.sendAt(side, times)
	} else {
		period := float64(time.Second) / cmp.Or(rate, 60)
		x.sendEvery(side, phase, period, phase.Float64()*period, 0)
	}
	poll := time.Duration(float64(time.Second) / cmp.Or(x.sc.PollRate, 10))
	x.w.Every(poll, time.Duration(phase.Float64()*float64(time.Second/10)), x.awake(func() { x.ask(side) }))
	x.w.Every(pingEvery, time.Duration(phase.Float64()*float64(pingEvery)), x.awake(func() { x.ping(side) }))
}

// sendEvery lets an end send its n-th datagram and those that follow, one in a period: up to a fifth of it or 2 ms
// late, as from a program's loop. Times are in nanoseconds.
func (x *exchange) sendEvery(side Side, phase *rand.Rand, period, start, n float64) {
	late := phase.Float64() * min(period/5, float64(2*time.Millisecond))
	x.w.At(time.Duration(start+n*period+late), func() {
		x.sendEvery(side, phase, period, start, n+1)
		x.send(side)
	})
}

// sendAt lets an end send at these times.
func (x *exchange) sendAt(side Side, times []time.Duration) {
	if len(times) > 0 {
		x.w.At(times[0], func() {
			x.sendAt(side, times[1:])
			x.send(side)
		})
	}
}

// awake returns what happens unless a computer sleeps then.
func (x *exchange) awake(happens func()) func() {
	return func() {
		if !simnet.Within(x.off, x.w.Now()) {
			happens()
		}
	}
}

// pass lets something happen where a packet arrives that an end sends now.
func (x *exchange) pass(from *end, happens func()) {
	x.w.Pass(from.out, from.net, x.awake(happens))
}

func (x *exchange) send(side Side) {
	e, at := &x.ends[side], x.w.Now()
	if simnet.Within(x.off, at) {
		return
	}
	local := e.clock.Usec(at)
	var reports map[int]uint32 // by pair
	if e.heard && at >= e.reportAt {
		e.reportAt, reports = at+x.sc.ReportEvery(at), x.Reports(side, local)
	}
	x.pass(e, func() { x.arrive(1-side, Stamp(local), at, reports) })
}

func (x *exchange) arrive(side Side, ts24 uint32, sent time.Duration, reports map[int]uint32) {
	x.ends[side].heard = true
	local := x.ends[side].clock.Received(x.w.Now())
	x.Datagram(x.observe(side, local), ts24, x.w.Now()-sent)
	x.Told(side, local, reports)
}

func (x *exchange) ask(side Side) {
	own, at := x.ends[side].clock, x.w.Now()
	local := own.Usec(at)
	x.Ask(x.observe(side, local), x.ends[1-side].clock.Exact(at)-(own.Exact(at)-local))
}

// ping sends a request. The other end answers at once.
func (x *exchange) ping(side Side) {
	e, other := &x.ends[side], &x.ends[1-side]
	t1 := e.clock.Usec(x.w.Now())
	x.pass(e, func() {
		t2, t3 := other.clock.Received(x.w.Now()), other.clock.Usec(x.w.Now())
		x.pass(other, func() { x.Exchange(side, t1, t2, t3, e.clock.Received(x.w.Now())) })
	})
}

// halfAsymmetry is the error of A's clock that the path's asymmetry causes now, in
// microseconds; that of B's is its negative.
func (x *exchange) halfAsymmetry() float64 {
	return usec(x.ends[A].out.BaseAt(x.w.Now())-x.ends[B].out.BaseAt(x.w.Now())) / 2
}

// observe prepares the observations of an event.
func (x *exchange) observe(side Side, localUsec uint64) Observation {
	then, now := x.asymUsec, x.halfAsymmetry()
	if side == B {
		then, now = -then, -now
	}
	return Observation{Side: side, At: x.w.Now(), LocalUsec: localUsec,
		LoUsec: min(0, then, now), HiUsec: max(0, then, now)}
}
