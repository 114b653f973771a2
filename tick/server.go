// SPDX-License-Identifier: BSD-3-Clause

package tick

import "time"

// Server is the game time and the ticks of a server or host. NewServer makes one. Its
// three clocks are equal and run at the rate of the local clock.
//
// Any goroutine may call any method at any time. Handlers are called by the goroutine
// that is in Advance, Step or Run, and one such call at a time does something.
// Shared, Server, Predicted, Snapshot, Epoch, Fraction and Accept take no lock.
//
// Times are readings of the local clock in microseconds. Its value is free and may
// wrap; it should be monotonic and must not be slewed or set on purpose, as that
// of package clock. Pass clock.Received for the time of receipt, clock.Now for all others.
type Server struct {
	loop
	conf  ServerConfig
	epoch uint64          // of the last Start
	heard map[uint64]bool // peers that have said Hello; false: refused for their rate

	inputs map[uint64]*inputs // of the peers of which there was one
	looked uint64             // when the silent ones among them were looked for
}

// inputs is what a server knows of the inputs of a peer.
type inputs struct {
	arrivals arrivals
	last     vitals
}

// NewServer returns a server, stopped. The error says what is wrong with cfg.
func NewServer(cfg ServerConfig) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{conf: cfg}
	s.loop.init(s, cfg.Config, cfg.Handlers)
	return s, nil
}

func (s *Server) begin() {
	s.epoch = s.nextEpoch()
	s.heard, s.inputs, s.looked = map[uint64]bool{}, map[uint64]*inputs{}, s.atUsec
	first := s.now.rate.Duration(s.conf.FirstTick)
	if _, part := floorDiv(int64(first), 1000); part != 0 {
		first += time.Duration(1000 - part) // a whole microsecond, for OriginUsec
	}
	s.now.epoch = s.epoch
	for i := range s.at {
		s.set(i, first, 0)
	}
	s.inited = true
	s.setNext(s.now.rate.Ticks(first))
	s.sync()
	s.publish()
}

func (s *Server) end() { s.heard, s.inputs = nil, nil }

// steer looks for peers that have fallen silent, now and then: there may be very many.
func (s *Server) steer() bool {
	if s.atUsec-s.looked < uint64(silence.Microseconds())/8 {
		return true
	}
	s.looked = s.atUsec
	for peer, p := range s.inputs {
		if len(s.events) < maxEvents {
			s.watch(&p.last, peer)
		}
	}
	return true
}

func (s *Server) ran(Tick) {}

func (s *Server) paused() {}

// nextEpoch returns the epoch of this Start. The wall clock is read for nothing else:
// it only has to have gone on since the server was started last, perhaps as another
// process.
func (s *Server) nextEpoch() uint64 {
	epoch := s.conf.Epoch
	if epoch == 0 {
		epoch = uint64(max(time.Now().UnixMicro(), 1))
	}
	return max(epoch, s.epoch+1)
}

// Announce returns the Welcome to send to a peer now. ok is false while the server is
// stopped.
func (s *Server) Announce(peer, nowUsec uint64) (w Welcome, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		return Welcome{}, false
	}
	t := s.now.read(predicted, nowUsec)
	usec, _ := floorDiv(int64(t), 1000)
	var came arrivals
	if p := s.inputs[peer]; p != nil {
		came = p.arrivals
	}
	return Welcome{
		Epoch:      s.epoch,
		Rate:       s.now.rate,
		OriginUsec: nowUsec - uint64(usec),
		Tick:       s.now.rate.Ticks(t),
		Heard:      s.heard[peer],
		Paused:     s.now.courses[predicted].at(nowUsec).still,
		inputs:     came,
	}, true
}

// OnHello takes the Hello of a client. The first one of a peer is reported as
// EventClientSynced, unless the error is ErrRate, after which the caller should
// disconnect the peer. Other errors: ErrMessage, and ErrEpoch if the server is
// stopped or in another epoch. While very many Hellos wait for an Advance, more are ignored,
// and counted in Stats.EventsLost; the clients repeat them.
func (s *Server) OnHello(peer uint64, h Hello) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	differs := !h.Rate.equal(s.now.rate)
	refused := differs && s.conf.OnMismatch == MismatchDisconnect
	heard, known := s.heard[peer]
	if p := s.inputs[peer]; p != nil && s.started && h.Epoch == s.epoch {
		s.hear(&p.last, peer, s.atUsec)
	}
	switch {
	case !h.Rate.valid():
		return ErrMessage
	case !s.started:
		s.early.Add(1)
		return ErrEpoch
	case h.Epoch != s.epoch:
		s.oldEpoch.Add(1)
		return ErrEpoch
	case heard:
		return nil
	case known && refused: // and reported
		return ErrRate
	case len(s.events) >= maxEvents-1: // an EventRateMismatch may come on top
		s.stats.EventsLost++
		return nil
	}
	if differs {
		s.report(Event{Kind: EventRateMismatch, Peer: peer, Rate: h.Rate, Last: -1})
	}
	s.heard[peer] = !refused
	if refused {
		return ErrRate
	}
	s.report(Event{Kind: EventClientSynced, Peer: peer})
	return nil
}

// AcceptInput is Accept for the input of tick n, and asks whether the tick has passed: run or
// skipped. ok says that the input is to be kept until its tick, and late that it is one to
// Accept, but too late. Both are of one moment: no epoch ends between them. It takes a lock.
func (s *Server) AcceptInput(epoch uint64, n Tick, nowUsec uint64) (ok, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.accept(s.snap.Load(), epoch, n, nowUsec) {
		return false, false
	}
	late = n < Tick(s.next.Load())
	return !late, late
}

// Received takes that an input of a peer for tick n, one to AcceptInput, came at nowUsec, and
// reports whether its tick has not run yet. Announce tells the peer when its inputs came, so
// that it sends them earlier or later: see ClientConfig.LateShare. One that came too late is
// reason to announce with the next datagram to the peer, rather than within a second. Of a tick
// only the first input counts. For each peer the last 64 ticks are kept, until Forget.
func (s *Server) Received(peer uint64, n Tick, nowUsec uint64) (inTime bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		return false
	}
	p := s.inputs[peer]
	if p == nil {
		p = &inputs{}
		s.inputs[peer] = p
	}
	s.hear(&p.last, peer, nowUsec)
	next := Tick(s.next.Load())
	if inTime = n >= next; s.now.paused {
		return inTime // nothing is late, and nobody can say by how much it is early
	}
	if !inTime && int64(nowUsec-s.atUsec) < 0 { // it came before the tick ran, and was read after
		nowUsec = s.atUsec
	}
	// A server that cannot keep up is where its ticks are.
	at := min(s.now.read(predicted, nowUsec), s.now.rate.Duration(next))
	early := satAdd(s.now.rate.Duration(n), -at)
	if early.Abs() > maxDelay {
		return inTime
	}
	if !inTime {
		early = min(early, -earlyUnit)
	}
	p.arrivals.add(n, early)
	return inTime
}

// Forget forgets a peer that has left, so that it is reported when it comes again.
func (s *Server) Forget(peer uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.heard, peer)
	delete(s.inputs, peer)
}
