// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"timesync/clock"
	"timesync/examples/seal"
	"timesync/internal/program"
	"timesync/jitter/playout"
	"timesync/link"
)

const (
	// frameTime is also how often the end that plays says what time it is. At 10 a second p99 of
	// the error of play is 0.5 ms instead of 0.3 (TestExact).
	frameTime = 20 * time.Millisecond

	// A payload is when the frame was captured, by the clock of the listener, and the sound.
	// Here that begins with a note for the judge: when that truly was, in microseconds.
	atSound    = 3
	payloadLen = atSound + 160

	// late is how much later than due a frame is still played.
	late = 10 * time.Millisecond

	// sleepLeast is how long a machine sleeps at least.
	sleepLeast = 200 * time.Millisecond

	// lookAgain is how soon what arrives is noticed while nothing waits; program.Wait is awake
	// for the last millisecond of it.
	lookAgain = 2 * time.Millisecond

	// What was captured longer ago is of no use: the longest latency, and more.
	oldest = time.Second
)

// side is one end: a clock, a seal, and a socket.
type side struct {
	*program.Socket
	end   *seal.End
	clock program.Clock
	now   func() int64                             // true time, us
	send  func(datagram []byte, to netip.AddrPort) // as Write of Socket

	// Held by what the end does, and by whoever stops it, as a process is stopped.
	running sync.Mutex
}

func newSide(direction uint64, c config, clock program.Clock) *side {
	now := func() int64 { return program.True().Microseconds() }
	return &side{end: seal.New(c.Key, direction), clock: clock, now: now}
}

// open makes the side use a socket, gives take what comes, and calls do once a frameTime.
func (s *side) open(udp *net.UDPConn, take func(seal.Datagram, error), do func()) {
	s.Socket = program.NewSocket(udp, s.clock.Reads)
	s.send = s.Write
	s.Go(func() {
		s.end.Serve(s, udp, 0, func(d seal.Datagram, err error) {
			s.running.Lock()
			defer s.running.Unlock()
			take(d, err)
		})
	})
	s.Every(frameTime, func() {
		s.running.Lock()
		defer s.running.Unlock()
		do()
	})
}

// say sends a datagram without a payload, which says what time it is.
func (s *side) say(to netip.AddrPort) {
	s.send(s.end.Seal(nil, nil, s.clock.At(s.now())), to)
}

// greet answers at once while the peer's clock is not known. So both know the other's three ways
// after one has restarted, however seldom they send.
func (s *side) greet(d seal.Datagram, err error) {
	if err == nil && !d.Known || err == seal.ErrAnswer {
		s.say(d.From)
	}
}

// speaker captures frames and sends them.
type speaker struct {
	*side
	to      netip.AddrPort
	waiting []int64 // when the frames were captured that are to be sent, in true time, us

	captured []int64 // for the judge: when all were
}

func (s *speaker) start(udp *net.UDPConn) {
	next := s.now()
	s.open(udp, s.take, func() {
		// A card skips none, however busy the machine is.
		for ; next <= s.now(); next += frameTime.Microseconds() {
			s.capture(next)
		}
	})
}

func (s *speaker) take(d seal.Datagram, err error) {
	if s.greet(d, err); err == seal.ErrAnswer {
		s.waiting = nil // from before a listener was there that could play it in time
	}
	s.speak()
}

// capture captures a frame at a true time, in us: now, if the machine is quick.
func (s *speaker) capture(at int64) {
	s.captured, s.waiting = append(s.captured, at), append(s.waiting, at)
	if s.speak(); len(s.waiting) > 0 {
		s.say(s.to)
	}
}

// speak sends what has been captured, once the listener's clock is known.
func (s *speaker) speak() {
	session := s.end.Peer().Session // whose time it is
	for len(s.waiting) > 0 {
		at := s.waiting[0]
		ts, known := s.end.Link.ToRemoteTime23(s.clock.At(at))
		if !known {
			return
		}
		b := link.AppendTime23(make([]byte, 0, payloadLen), ts, known)
		b = binary.LittleEndian.AppendUint64(b, uint64(at))
		datagram, err := s.end.SealFor(session, nil, b[:payloadLen], s.clock.At(s.now()))
		if err != nil { // the listener has just restarted: what it said is taken next
			return
		}
		s.send(datagram, s.to)
		s.waiting = s.waiting[1:]
	}
}

// truly is when a frame was captured, in true time, us.
func truly(payload []byte) int64 { return int64(binary.LittleEndian.Uint64(payload[atSound:])) }

// listener plays what arrives.
type listener struct {
	*side
	buffer *playout.Buffer
	slept  func() time.Duration // as clock.SleepWatch

	// For the judge.
	begun   int64                    // true time, us
	stopped struct{ from, to int64 } // the same; 0: never
	late    int                      // played later than playout and the clocks allow
	arrived map[int64]fate           // by the true time of capture
}

// fate is what became of a frame. If it was played, over is how much later than captured +
// latency that truly was, and woke how much of it is because the program woke up late, in
// microseconds.
type fate struct {
	played     bool
	over, woke int64
}

func newListener(c config, own program.Clock) *listener {
	l := &listener{side: newSide(1, c, own), arrived: map[int64]fate{}}
	// Its error is that of check. What is played here is played when it is due, or not at all.
	l.buffer, _ = playout.New(playout.Config{Latency: c.latency, Overdue: late, DropLate: true})
	l.slept = new(clock.SleepWatch).Slept
	l.begun = l.now()
	return l
}

func (l *listener) start(udp *net.UDPConn) {
	l.open(udp, l.take, func() { l.say(l.end.Peer().Addr) })
	l.Go(l.play)
}

// take puts a frame into the buffer.
func (l *listener) take(d seal.Datagram, err error) {
	l.greet(d, err)
	if err != nil || len(d.Payload) != payloadLen {
		return
	}
	l.arrived[truly(d.Payload)] = fate{}
	ts, _ := link.ReadTime23(d.Payload)
	captured, err := l.end.Link.AcceptEvent(d.RecvUsec, ts, oldest)
	if !errors.Is(err, link.ErrFuture) && !errors.Is(err, link.ErrOld) { // it cannot be
		// It counts what it refuses.
		_ = l.buffer.Push(captured, l.clock.At(l.now()), d.Payload)
	}
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
		l.pop()
	}
}

// pop plays the frame that is due, unless the machine has slept.
func (l *listener) pop() {
	l.running.Lock()
	defer l.running.Unlock()
	if l.slept() > sleepLeast {
		l.buffer.Drop()
	}
	now := l.now()
	frame, captured, ok := l.buffer.Pop(nil, l.clock.At(now))
	if !ok {
		return
	}
	at, latency := truly(frame), l.buffer.Latency().Microseconds()
	// About as wide as the speaker's, whose stamp it was.
	bound, _ := l.end.Link.ErrorBound(captured)
	f := fate{played: true, over: now - at - latency, woke: int64(l.clock.At(now)-captured) - latency}
	if f.over > (late + bound).Microseconds() {
		l.late++
	}
	l.arrived[at] = f
}
