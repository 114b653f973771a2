// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"timesync"
	"timesync/clock"
	"timesync/examples/internal/program"
	"timesync/examples/seal"
	"timesync/examples/voice/playout"
	"timesync/link"
)

const (
	frameTime = 20 * time.Millisecond

	// A payload is the number of the frame, when it was captured, and the sound. The time is the
	// listener's, and its flag is set, or the speaker's while that does not know the listener's.
	// Here the sound begins with notes for the judge: when that truly was, and how far off the
	// speaker may have been about it, in microseconds.
	atNumber   = 0
	atTime     = atNumber + 4
	atSound    = atTime + 3
	soundLen   = 160
	payloadLen = atSound + soundLen

	// sayEvery is how often the end that plays says what time it is. At 10 a second p99 of the
	// error of play is 0.5 ms instead of 0.3 (TestExact).
	sayEvery = 20 * time.Millisecond

	// hold is how long an end that is called waits for a peer that is silent. A peer that lives sends
	// each frameTime or sayEvery.
	hold = 500 * time.Millisecond

	// late is how much later than due a frame is still played.
	late = 10 * time.Millisecond

	// sleepLeast is how long a machine sleeps at least, and more than the reading of two clocks takes.
	sleepLeast = 200 * time.Millisecond

	// lookAgain is how soon what arrives is noticed while nothing waits; program.Wait is awake
	// for the last millisecond of it.
	lookAgain = 2 * time.Millisecond

	// What was captured longer ago is of no use: the longest latency, and more.
	oldest = time.Second

	// maxHeld is how many frames may wait until it is known when they were captured: oldest.
	maxHeld = int(oldest / frameTime)
)

// side is one end: a clock, a seal, and a socket.
type side struct {
	*program.Socket
	end   *seal.End
	clock program.Clock
	now   func() int64 // true time, us
	send  func(datagram []byte, to netip.AddrPort)

	running sync.RWMutex // held by whoever stops the end, as a process is stopped

	session uint32 // of the peer; of the goroutine that receives, as what follows
	known   bool   // what time it is there
}

func newSide(direction uint64, c config, clock program.Clock) *side {
	now := func() int64 { return program.True().Microseconds() }
	return &side{end: seal.New(c.Key, direction), clock: clock, now: now}
}

// open makes the side use a socket, and gives take what comes.
func (s *side) open(udp *net.UDPConn, take func(seal.Datagram, error)) {
	s.Socket = program.NewSocket(udp, s.clock.Reads)
	s.send = s.Write
	s.Go(func() {
		s.end.Serve(s.Rx, udp, hold, func(d seal.Datagram, err error) {
			s.await()
			take(d, err)
		})
	})
}

// await waits while the end is stopped.
func (s *side) await() {
	s.running.RLock()
	defer s.running.RUnlock()
}

// each calls do at every multiple of period of the end's clock, with the true time, in us, at
// which that should be.
func (s *side) each(period time.Duration, do func(n uint32, at int64)) {
	start := s.clock.At(s.now())
	for n := uint32(0); ; n++ {
		at := s.clock.True(start + uint64(n)*uint64(period.Microseconds()))
		if !program.Wait(func() time.Duration { return time.Duration(at-s.now()) * time.Microsecond }, s.Ctx.Done()) {
			return
		}
		s.await()
		do(n, at)
	}
}

// say sends a datagram without a payload, which says what time it is.
func (s *side) say(to netip.AddrPort) {
	if to.IsValid() {
		s.send(s.end.Seal(nil, nil, s.clock.At(s.now())), to)
	}
}

// greet answers a peer that has started anew at once, until its clock is known. So both know
// the other's after three ways, however seldom they send. It reports whether the peer is new.
func (s *side) greet(session uint32, to netip.AddrPort) (anew bool) {
	if anew = session != s.session; anew {
		s.session, s.known = session, false
	}
	if !s.known {
		s.known = s.end.Link.IsSynchronized()
		s.say(to)
	}
	return anew
}

// speaker captures frames and sends them.
type speaker struct {
	*side
	to netip.AddrPort

	// For the judge, in true time, us.
	captured []int64 // by number
}

func newSpeaker(c config, clock program.Clock, to netip.AddrPort) *speaker {
	return &speaker{side: newSide(0, c, clock), to: to}
}

func (s *speaker) start(udp *net.UDPConn) {
	s.open(udp, s.take)
	s.Go(func() { s.each(frameTime, s.capture) })
}

func (s *speaker) take(d seal.Datagram, err error) {
	if err == nil || err == seal.ErrAnswer {
		s.greet(d.Session, s.to)
	}
}

// capture sends a frame that the card captured at a true time, in us: now, if the machine is quick.
func (s *speaker) capture(n uint32, at int64) {
	s.captured = append(s.captured, at)
	for {
		session := s.end.Peer().Session // whose time it is
		payload := s.payload(n, at)
		datagram, err := s.end.SealFor(session, nil, payload, s.clock.At(s.now()))
		if err == nil {
			s.send(datagram, s.to)
			return
		} // else the listener has just started anew
	}
}

func (s *speaker) payload(n uint32, at int64) []byte {
	local := s.clock.At(at)
	ts, known := s.end.Link.ToRemoteTime23(local)
	if !known {
		// Our own, in the same units.
		ts = timesync.NewCounter23(uint64(timesync.LocalTimeToDatagramTS24(local)))
	}
	bound, _ := s.end.Link.ErrorBound(local)
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, payloadLen), n)
	b = link.AppendTime23(b, ts, known)
	b = binary.LittleEndian.AppendUint64(b, uint64(at))
	b = binary.LittleEndian.AppendUint64(b, uint64(bound.Microseconds()))
	return b[:payloadLen]
}

// listener plays what arrives.
type listener struct {
	*side
	buffer *playout.Buffer
	// By how many us the wall clock is before the one that stands still in sleep.
	ahead func() int64
	was   int64 // ahead, when it was last asked; of the goroutine that plays
	// Frames of this session, until its clock is known; of the goroutine that receives.
	held [][]byte

	// For the judge.
	begun   int64           // true time, us
	stopped span            // empty: never
	late    int             // played later than playout and the clocks allow
	arrived map[uint32]bool // by number
	played  map[uint32]play // by number
}

// play says of a frame that was played, in microseconds: how much later than captured + latency
// that truly was, and how much of it is because the program woke up late.
type play struct{ over, woke int64 }

func newListener(c config, own program.Clock) *listener {
	l := &listener{side: newSide(1, c, own), arrived: map[uint32]bool{}, played: map[uint32]play{}}
	// Its error is that of check.
	l.buffer, _ = playout.New(playout.Config{Latency: c.latency, Overdue: late})
	l.ahead = func() int64 {
		t := time.Now() // both at once
		return t.UnixMicro() - int64(clock.At(t))
	}
	l.begun, l.was = l.now(), l.ahead()
	return l
}

func (l *listener) start(udp *net.UDPConn) {
	l.open(udp, l.take)
	l.Go(l.play)
	l.Go(func() { l.each(sayEvery, func(uint32, int64) { l.say(l.end.Peer().Addr) }) })
}

// take puts a frame into the buffer, or holds it until it is known when it was captured.
func (l *listener) take(d seal.Datagram, err error) {
	if err != nil {
		return
	}
	if l.greet(d.Session, d.From) {
		l.held = nil
	}
	if len(d.Payload) == payloadLen {
		l.arrived[binary.LittleEndian.Uint32(d.Payload[atNumber:])] = true
		ts, known := link.ReadTime23(d.Payload[atTime:])
		captured, err := l.end.Link.AcceptEvent(d.RecvUsec, ts, oldest)
		switch {
		case !known:
			l.held = append(l.held, bytes.Clone(d.Payload))
			l.held = l.held[max(len(l.held)-maxHeld, 0):]
		case errors.Is(err, link.ErrFuture), errors.Is(err, link.ErrOld):
			// It cannot be.
		default:
			l.push(captured, d.Payload)
		}
	}
	l.release(d.RecvUsec)
}

// release puts what was held into the buffer, once the speaker's clock is known.
func (l *listener) release(nowUsec uint64) {
	there, ok := l.end.Link.RemoteTime(nowUsec)
	if !ok {
		return
	}
	for _, payload := range l.held {
		ts, _ := link.ReadTime23(payload[atTime:])
		captured, _ := l.end.Link.LocalTime(timesync.FromLocalTime23(there, ts))
		l.push(captured, payload)
	}
	l.held = nil
}

func (l *listener) push(captured uint64, payload []byte) {
	_ = l.buffer.Push(captured, l.clock.At(l.now()), payload) // it counts what it refuses
}

// play plays each frame when it is due.
func (l *listener) play() {
	left := func() time.Duration {
		due, ok := l.buffer.Due()
		if !ok {
			return lookAgain
		}
		return time.Duration(due-l.clock.At(l.now())) * time.Microsecond
	}
	for program.Wait(left, l.Ctx.Done()) {
		l.await()
		l.pop()
	}
}

// pop plays the frame that is due, unless the machine has slept, or its wall clock was set.
func (l *listener) pop() {
	ahead := l.ahead()
	if slept := ahead - l.was; max(slept, -slept) > sleepLeast.Microseconds() {
		l.buffer.Drop()
	}
	l.was = ahead
	now := l.now()
	frame, captured, ok := l.buffer.Pop(nil, l.clock.At(now))
	if !ok {
		return
	}
	truly := int64(binary.LittleEndian.Uint64(frame[atSound:]))
	bound := int64(binary.LittleEndian.Uint64(frame[atSound+8:]))
	latency := l.buffer.Latency().Microseconds()
	p := play{over: now - truly - latency, woke: int64(l.clock.At(now)-captured) - latency}
	if p.over > late.Microseconds()+bound {
		l.late++
	}
	l.played[binary.LittleEndian.Uint32(frame[atNumber:])] = p
}
