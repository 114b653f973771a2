package sim

import "time"

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

// Datagram hands over one that was under way for that long, where and when o says.
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
	o.Pair = pair
	o.OK = ok
	if ok {
		o.ErrUsec = errUsec
	}
	e.shown = o
	observe(&e.shown)
}

// Stamp returns the stamp of a clock reading in microseconds: 24 bits, which count 8 us.
func Stamp(usec uint64) uint32 { return uint32(usec>>3) & (1<<24 - 1) }
