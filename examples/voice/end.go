// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"timesync"
	"timesync/examples/internal/instant"
	"timesync/examples/internal/program"
	"timesync/examples/internal/seal"
	"timesync/examples/voice/playout"
	"timesync/link"
	"timesync/rxtime"
)

const (
	frameTime = 20 * time.Millisecond
	samples   = 960 // in a frame
	cardRate  = 48_000

	// A payload is the number of the frame, when it was captured in the listener's time, and
	// the sound. Here the sound begins with notes for the judge: when that truly was, and how far
	// off the speaker may have been about it, in microseconds.
	atNumber   = 0
	atTime     = atNumber + 4
	atSound    = atTime + 3
	soundLen   = 160
	payloadLen = atSound + soundLen

	// late is how much later than due a frame is still played.
	late = 10 * time.Millisecond

	// lookAgain is how soon what arrives is noticed while nothing waits; instant.Wait is awake
	// for the last millisecond of it.
	lookAgain = 2 * time.Millisecond

	// What was captured longer ago is of no use: the longest latency, and more.
	oldest = time.Second
)

// side is one end: a socket, a clock and a seal.
type side struct {
	end   *seal.End
	udp   *net.UDPConn
	rx    *rxtime.Conn
	clock program.Clock
	stop  chan struct{}
	tasks sync.WaitGroup

	running sync.RWMutex // held by whoever stops the end, as a process is stopped
}

func newSide(direction uint64, c config, udp *net.UDPConn, clock program.Clock) *side {
	return &side{end: seal.New(c.Key, direction), udp: udp, rx: rxtime.NewConn(udp), clock: clock, stop: make(chan struct{})}
}

// ReadFrom reads a datagram with the time at which it was received on the end's clock.
func (s *side) ReadFrom(b []byte) (n int, from netip.AddrPort, recvUsec uint64, err error) {
	n, from, recvUsec, err = s.rx.ReadFrom(b)
	s.await()
	return n, from, s.clock.At(int64(recvUsec)), err
}

// await waits while the end is stopped.
func (s *side) await() {
	s.running.RLock()
	defer s.running.RUnlock()
}

func (s *side) close() {
	close(s.stop)
	s.udp.Close()
	s.tasks.Wait()
}

// each calls do at every multiple of period of the end's clock.
func (s *side) each(period time.Duration, do func(n uint32)) {
	start := s.clock.Now()
	for n := uint32(0); ; n++ {
		at := s.clock.True(start + uint64(n)*uint64(period.Microseconds()))
		if !instant.Wait(func() time.Duration { return time.Duration(at-int64(timesync.NowUsec())) * time.Microsecond }, s.stop) {
			return
		}
		s.await()
		do(n)
	}
}

// speaker captures frames and sends them.
type speaker struct {
	*side
	to netip.AddrPort

	mu       sync.Mutex
	captured []int64 // true times, us, by number; for the judge
}

func (s *speaker) start() {
	s.tasks.Go(func() { s.end.Serve(s, s.udp, func(seal.Datagram, error) {}) })
	s.tasks.Go(func() { s.each(frameTime, s.capture) })
}

// capture sends a frame that begins now.
func (s *speaker) capture(n uint32) {
	now := int64(timesync.NowUsec())
	local := s.clock.At(now)
	s.mu.Lock()
	s.captured = append(s.captured, now)
	s.mu.Unlock()
	session := s.end.Peer().Session // whose time it is
	ts, known := s.end.Link.ToRemoteTime23(local)
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, payloadLen), n)
	b = link.AppendTime23(b, ts, known)
	bound, _ := s.end.Link.ErrorBound(local)
	b = binary.LittleEndian.AppendUint64(b, uint64(now))
	b = binary.LittleEndian.AppendUint64(b, uint64(bound.Microseconds()))
	datagram, err := s.end.SealFor(session, nil, b[:payloadLen], s.clock.Now())
	if err == nil {
		_, _ = s.udp.WriteToUDPAddrPort(datagram, s.to) // an error is a loss
	}
}

// listener plays what arrives.
type listener struct {
	*side
	buffer *playout.Buffer
	begun  int64 // true time, us

	mu      sync.Mutex
	refused int // capture times that cannot be
	late    int // played later than playout allows, and than the clocks may be off
	card    playout.Card
	session uint32
	played  map[uint32]int64 // by number: true time of play - of capture - latency, us
}

func newListener(c config, udp *net.UDPConn, clock program.Clock) (*listener, error) {
	buffer, err := playout.New(playout.Config{Latency: c.latency, Late: late})
	return &listener{side: newSide(1, c, udp, clock), buffer: buffer, begun: int64(timesync.NowUsec()), played: map[uint32]int64{}}, err
}

func (l *listener) start() {
	l.tasks.Go(func() { l.end.Serve(l, l.udp, l.take) })
	l.tasks.Go(l.play)
	l.tasks.Go(func() { // a quiet end says now and then what time it is
		l.each(100*time.Millisecond, func(uint32) {
			if to := l.end.Peer().Addr; to.IsValid() {
				_, _ = l.udp.WriteToUDPAddrPort(l.end.Seal(nil, nil, l.clock.Now()), to)
			}
		})
	})
}

// take puts a frame into the buffer, unless its time cannot be.
func (l *listener) take(d seal.Datagram, err error) {
	if err != nil || len(d.Payload) != payloadLen {
		return
	}
	ts, known := link.ReadTime23(d.Payload[atTime:])
	if !known {
		return // the speaker does not know our clock yet
	}
	captured, err := l.end.Link.AcceptEvent(d.RecvUsec, ts, oldest)
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(err, link.ErrFuture) || errors.Is(err, link.ErrOld) {
		l.refused++
		return
	}
	if d.Session != l.session {
		l.session, l.card = d.Session, playout.Card{}
	}
	l.card.Add(captured, int64(binary.LittleEndian.Uint32(d.Payload[atNumber:]))*samples, cardRate)
	_ = l.buffer.Push(captured, l.clock.Now(), d.Payload) // it counts what it refuses
}

// play plays each frame when it is due.
func (l *listener) play() {
	left := func() time.Duration {
		due, ok := l.buffer.Due()
		if !ok {
			return lookAgain
		}
		return time.Duration(due-l.clock.Now()) * time.Microsecond
	}
	for instant.Wait(left, l.stop) {
		l.await()
		now := int64(timesync.NowUsec())
		frame, _, ok := l.buffer.Pop(nil, l.clock.At(now))
		if !ok {
			continue
		}
		captured := int64(binary.LittleEndian.Uint64(frame[atSound:]))
		bound := int64(binary.LittleEndian.Uint64(frame[atSound+8:]))
		e := now - captured - l.buffer.Latency().Microseconds()
		l.mu.Lock()
		if e > late.Microseconds()+bound {
			l.late++
		}
		l.played[binary.LittleEndian.Uint32(frame[atNumber:])] = e
		l.mu.Unlock()
	}
}
