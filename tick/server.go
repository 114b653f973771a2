// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"cmp"
	"math"
	"time"
)

// Server is the game time and the ticks of a server or host. NewServer makes one. Its
// three clocks are equal and run at the rate of the local clock.
//
// Any goroutine may call any method at any time. Handlers run in the goroutine that calls Advance,
// AdvanceOne or Run. Of several calls at a time one does the work, and the others do nothing.
// SharedTime, ServerTime, PredictedTime, Snapshot, Epoch, Fraction, Accept and StartUsec take no
// lock.
//
// Times are readings of the local clock in microseconds. They may start anywhere and wrap. The
// clock should be monotonic, such as that of package clock; do not slew or set it on purpose. Pass
// clock.Received for the time of receipt, clock.Now for all others.
type Server struct {
	loop
	readers
	conf   ServerConfig
	epoch  uint64             // of the last Start
	peers  map[uint64]*player // those of which there was a Hello or an input
	looked uint64             // when the silent ones among them were looked for
}

// player is what a server knows of a peer.
type player struct {
	synced   bool     // it has said Hello
	refused  bool     // it was refused for its rate
	arrivals arrivals // of its inputs
	heard    vitals   // from its first input on
	tally    tally    // of its inputs
	tooEarly uint64   // inputs that were refused because their tick was too far ahead
}

// NewServer returns a server, stopped. The error says what is wrong with cfg.
func NewServer(cfg ServerConfig) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{conf: cfg}
	s.loop.init(s, &s.readers, cfg.Config, cfg.Handlers)
	return s, nil
}

func (g *Server) begin() {
	g.epoch = g.nextEpoch()
	g.peers = map[uint64]*player{}
	g.looked = g.atUsec
	// OriginUsec has whole microseconds, so game time begins at one: the first at or after the tick.
	firstUsec := wholeUsec(g.now.rate.Duration(g.conf.FirstTick) + 999)
	first := time.Duration(firstUsec) * time.Microsecond
	g.now.epoch = g.epoch
	for i := range g.now.courses {
		g.set(i, first, Pace{})
	}
	g.now.known = true
	g.setNextTick(g.now.rate.Ticks(first))
	g.sync()
	g.publish()
}

func (g *Server) ran(Tick) {}

func (g *Server) setBack(byUsec uint64) {
	g.looked -= byUsec
	for _, p := range g.peers {
		p.heard.atUsec -= byUsec
	}
}

func (g *Server) paused() {}

// steer lets a provider steer, whose targets are the clocks themselves. Now and then it looks for
// peers that have fallen silent: there may be very many.
func (g *Server) steer() {
	if g.cfg.Provider != nil {
		g.steering = Steering{}
		for i, c := range g.steering.clocks() {
			c.Target = g.now.read(i, g.atUsec+readerMargin) - g.marginAt(Pace{})
		}
		g.drive()
	}
	if elapsed(g.looked, g.atUsec) < silence/8 {
		return
	}
	g.looked = g.atUsec
	for peer, p := range g.peers {
		g.watch(&p.heard, peer)
	}
}

// nextEpoch returns the epoch of this Start. The wall clock is read for nothing else: it only has
// to have gone on since the server was started last, perhaps as another process.
func (g *Server) nextEpoch() uint64 {
	return max(cmp.Or(g.conf.Epoch, uint64(max(time.Now().UnixMicro(), 1))), g.epoch+1)
}

// OnHello takes the Hello of a client. The first one of a peer is reported as EventClientSynced.
// If the error is ErrRate, the peer is not reported, and the caller should disconnect it. Other
// errors are ErrMessage, and ErrEpoch if the server is stopped or in another epoch. While very
// many Hellos wait for an Advance, more are ignored, and counted in Stats.EventsLost; the clients
// repeat them.
func (g *Server) OnHello(peer uint64, h Hello) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !h.Rate.valid():
		return ErrMessage
	case !g.started:
		g.early.Add(1)
		return ErrEpoch
	case h.Epoch != g.epoch:
		g.oldEpoch.Add(1)
		return ErrEpoch
	}
	p := cmp.Or(g.peers[peer], &player{})
	if p.heard.known {
		g.hear(&p.heard, peer, g.atUsec)
	}
	differs := !h.Rate.equal(g.now.rate)
	refused := differs && g.conf.OnMismatch == MismatchDisconnect
	switch {
	case p.synced:
		return nil
	case p.refused && refused: // and reported
		return ErrRate
	case len(g.events) >= maxEvents-1: // an EventRateMismatch may come on top
		g.stats.EventsLost++
		return nil
	}
	if differs {
		g.report(Event{Kind: EventRateMismatch, Peer: peer, Rate: h.Rate, Last: -1})
	}
	g.peers[peer] = p
	p.synced = !refused
	p.refused = refused
	if refused {
		return ErrRate
	}
	g.report(Event{Kind: EventClientSynced, Peer: peer})
	return nil
}

// AcceptInput says what to do with the input of a peer for tick n, which came at nowUsec:
//
//	ok     late
//	true   false  it is in time: keep it until tick n is run
//	false  true   too late: tick n was run or skipped. Announce soon, see there
//	false  false  drop it: of another epoch, or not within Config.AcceptBehind and AcceptAhead
//
// It came early by int64(start - nowUsec), where start is the result of StartUsec(n, nowUsec). A
// second input for the same tick gets the same answer; which one to keep is up to the game. An
// input in time need not be played: after a stall ticks are skipped. To count what was played,
// count in the Tick handler.
//
// Keep an input before Advance can run its tick. So call AcceptInput, and keep the input, either
// in the goroutine that calls Advance, or under a mutex that the Tick handler locks, too.
// AcceptInput may be called under that mutex.
//
// Announce then tells the peer when its inputs came, and the peer sends them earlier or later: see
// ClientConfig.LateShare. Only the first input for a tick counts. For each peer the last 64 ticks
// are kept, until Forget. AcceptInput takes a lock.
func (g *Server) AcceptInput(peer, epoch uint64, n Tick, nowUsec uint64) (ok, late bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.peers[peer]
	if !g.Accept(epoch, n, nowUsec) {
		isOfEpoch := g.started && epoch == g.epoch
		if isOfEpoch && p != nil {
			g.refuse(p, n, nowUsec)
		}
		return false, false
	}
	if p == nil {
		p = &player{}
		g.peers[peer] = p
	}
	g.hear(&p.heard, peer, nowUsec)
	next := g.nextTick()
	late = n < next
	if late && int64(nowUsec-g.atUsec) < 0 {
		nowUsec = g.atUsec // it came before the tick ran, but was read after it
	}
	// A server that cannot keep up is where its ticks are.
	at := min(g.now.read(predicted, nowUsec), g.now.rate.Duration(next))
	early := satAdd(g.now.rate.Duration(n), -at)
	if late {
		early = min(early, -earlyUnit)
	}
	// In a pause nobody can say by how much it is early.
	if !g.now.paused && p.arrivals.add(n, early) {
		p.tally.count(late)
	}
	return !late, late
}

// refuse counts an input for a tick that is out of the window.
func (g *Server) refuse(p *player, n Tick, nowUsec uint64) {
	if g.now.rate.Duration(n) > g.now.read(predicted, nowUsec) {
		p.tooEarly++
	} else {
		p.tally.count(true)
	}
}

// PeerTiming says how well the inputs of a peer come in time, as Timing does for a client. A peer
// without late inputs whose HeardUsec is long ago sends none. One with many TooEarly has another
// idea of the time.
type PeerTiming struct {
	// LateInputs is the share of the last 2000 to 4000 inputs that came too late, refused ones
	// included. Only the first input for a tick counts.
	LateInputs float64
	// TooEarly counts the inputs that were refused because their tick was further ahead than
	// Config.AcceptAhead.
	TooEarly uint64

	Synced bool // it has said Hello
	// HeardUsec is the reading of the local clock when the last input came or, after the first
	// input, the last Hello. It is 0 if none has come.
	HeardUsec uint64
	Silent    bool // that is longer ago than 3 s
}

// Peer returns how well the inputs of a peer come in time; AcceptInput says how early one came. ok
// is false if there was neither a Hello nor an input of it since Start, or since Forget.
func (g *Server) Peer(peer uint64) (t PeerTiming, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.peers[peer]
	if p == nil {
		return PeerTiming{}, false
	}
	return PeerTiming{
		LateInputs: p.tally.share(),
		TooEarly:   p.tooEarly,
		Synced:     p.synced,
		HeardUsec:  p.heard.atUsec,
		Silent:     p.heard.silent,
	}, true
}

// Announce returns the Welcome to send to a peer now. Send one when the peer has joined, after
// each Hello, and once a second. If inputs came too late, send one for all of them with the next
// state. While its Debt is above 0, send one with each state: the clients then know that the
// states are late because of the server. ok is false while the server is stopped.
func (g *Server) Announce(peer, nowUsec uint64) (w Welcome, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.started {
		return Welcome{}, false
	}
	zero, at := g.now.origin(nowUsec)
	course := g.now.courses[predicted]
	if course.piece(nowUsec).still != g.now.paused {
		// A Pause or Resume takes effect the reader margin after its call. The Welcome says already
		// what holds from then on.
		next := course.last()
		at = next.base
		if !next.still {
			zero = next.from - uint64(wholeUsec(at))
		}
	}
	p := cmp.Or(g.peers[peer], &player{})
	return Welcome{
		Epoch:      g.epoch,
		Rate:       g.now.rate,
		OriginUsec: zero,
		Tick:       g.now.rate.Ticks(at),
		Heard:      p.synced,
		Paused:     g.now.paused,
		Debt:       min(g.debt(nowUsec), math.MaxUint16),
		inputs:     p.arrivals,
	}, true
}

// StartUsec returns the reading of the local clock at which tick n starts or started, if game time
// always runs as it does at nowUsec. ok is false while the server is stopped.
func (g *Server) StartUsec(n Tick, nowUsec uint64) (localUsec uint64, ok bool) {
	now := g.snap.Load()
	zero, _ := now.origin(nowUsec)
	return Welcome{Rate: now.rate, OriginUsec: zero, Tick: n}.serverUsec(), now.known
}

// Forget forgets a peer that has left, so that it is reported when it comes again.
func (g *Server) Forget(peer uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.peers, peer)
}
