// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"timesync/examples/transfer/ledbat"
)

const (
	again = 200_000 // us: between two offers that nobody answers
	// us: a peer that is silent for this long has vanished.
	patience = 10_000_000
	// Datagrams may overtake each other by so many, as TCP has it.
	reordered    = 3
	uncontrolled = 512 << 10 // bytes: the window of -cc none
	// Of so many datagram numbers, one is never used: see skipped.
	skipOneOf  = 200
	sealedData = ledbat.Segment // bytes: what a datagram with data counts for
)

var (
	errVanished  = errors.New("the peer has not been heard for 10 s")
	errNeverSent = errors.New("the receiver acknowledges what was never sent: it lies about losses")
)

// sender sends a file.
type sender struct {
	pieces // had: which the receiver has, or are under way; left: how many it lacks
	// It is not read for test data, which is zeros: sealed, they look random.
	source io.ReaderAt
	cc     ledbat.Controller
	greedy bool // without control, whatever happens
	// draw returns a number from 0 to n-1 that the receiver cannot guess.
	draw func(n int) int

	agreed bool // the receiver has answered the offer
	asked  uint64
	heard  uint64 // when anything last came from the receiver
	// When an acknowledgement last came, or data left while none was under way.
	acked  uint64
	next   int      // all before are had
	window []packet // under way, by number
	oldest uint32   // number of window[0]
	losses int
	buf    [chunkLen]byte
	out    []byte // the last message with data
}

// packet is a datagram that is under way.
type packet struct {
	chunk uint32
	sent  uint64
	done  bool // acknowledged
	// Never sent: whoever acknowledges it acknowledges without having received.
	skipped bool
}

func newSender(o offer, source io.ReaderAt, nowUsec uint64) *sender {
	return &sender{
		pieces: newPieces(o), source: source, asked: nowUsec - again, heard: nowUsec,
		oldest: 1, // a receiver takes 0 for one that came
		draw:   rand.IntN,
	}
}

// poll fails if the receiver has vanished or the file cannot be read.
func (s *sender) poll(nowUsec uint64) (message []byte, wait time.Duration, err error) {
	if int64(nowUsec-s.heard) > patience {
		return nil, 0, errVanished
	}
	if !s.agreed || s.left == 0 {
		if nowUsec-s.asked < again {
			return nil, 0, nil
		}
		s.asked = nowUsec
		return s.message(), 0, nil
	}
	s.timeout(nowUsec)
	for s.next < len(s.had) && s.had[s.next] {
		s.next++
	}
	if !s.agreed || s.next == len(s.had) {
		return nil, 0, nil // all is under way
	}
	wait, ok := s.cc.CanSend(nowUsec, sealedData)
	if s.greedy {
		wait, ok = 0, s.cc.InFlight()+sealedData <= uncontrolled
	}
	if !ok {
		return nil, wait, nil
	}
	message, err = s.data(uint32(s.next), nowUsec)
	return message, 0, err
}

// data sends a chunk.
func (s *sender) data(chunk uint32, nowUsec uint64) ([]byte, error) {
	bytes := s.buf[:s.length(chunk)]
	if s.name != "" {
		if n, err := s.source.ReadAt(bytes, int64(chunk)*chunkLen); n < len(bytes) {
			return nil, fmt.Errorf("the file became shorter, or cannot be read: %w", err)
		}
	}
	if s.draw(skipOneOf) == 0 {
		s.window = append(s.window, packet{skipped: true})
	}
	if s.cc.InFlight() == 0 {
		s.acked = nowUsec
	}
	number := s.oldest + uint32(len(s.window))
	s.window = append(s.window, packet{chunk: chunk, sent: nowUsec})
	s.cc.OnSend(nowUsec, sealedData)
	s.had[chunk] = true
	s.out = appendData(s.out[:0], number, chunk, bytes)
	return s.out, nil
}

// timeout takes all that is under way for lost if no acknowledgement came for long, and asks
// what the receiver has.
func (s *sender) timeout(nowUsec uint64) {
	if s.cc.InFlight() == 0 || int64(nowUsec-s.acked) < s.cc.Timeout().Microseconds() {
		return
	}
	s.acked = nowUsec
	s.cc.OnTimeout(nowUsec)
	s.lose(len(s.window), nowUsec)
	s.agreed, s.asked = false, nowUsec-again
}

func (s *sender) take(message []byte, _ ledbat.Delay, nowUsec uint64) (answer []byte, err error) {
	s.heard = nowUsec
	if len(message) == 0 {
		return nil, errMalformed
	}
	switch body := message[1:]; message[0] {
	case kindGame:
		return nil, nil
	case kindHave:
		return nil, s.resume(body)
	case kindAck:
		return nil, s.ack(body, nowUsec)
	case kindOver:
		if len(body) > 0 {
			return nil, fmt.Errorf("the receiver failed: %q", body)
		}
		return nil, io.EOF
	}
	return nil, errMalformed
}

func (s *sender) progress() (there pieces, more string) {
	queueing, base := s.cc.Queueing()
	if base > 0 {
		more = fmt.Sprintf("  queue %v beyond %v  %d lost",
			queueing.Round(shown), base.Round(shown), s.losses)
	}
	return s.pieces, more
}

// resume takes what the receiver has: at the start, after a timeout, since it may be another
// run of it, and when we believe that it has all.
func (s *sender) resume(body []byte) error {
	if s.agreed && s.left > 0 {
		return nil // a copy
	}
	had, err := readHave(body, s.offer)
	if err != nil {
		return err
	}
	s.pieces, s.next, s.agreed = had, 0, true
	return nil
}

// ack marks what arrived, and takes for lost what was overtaken by too much.
func (s *sender) ack(body []byte, nowUsec uint64) error {
	if len(body) != ackLen {
		return errMalformed
	}
	number := wire.Uint32(body)
	delay := ledbat.ReadDelay(body[4:])
	before := wire.Uint64(body[7:])
	s.timeout(nowUsec) // first: if we stood still, what waited says nothing about the round trip
	if !s.agreed {
		return nil
	}
	newest := int64(int32(number - s.oldest)) // so that less 64 it is still below 0
	if newest >= int64(len(s.window)) {
		return errNeverSent
	}
	s.acked = nowUsec
	for i := range int64(65) {
		if i > 0 && before>>(i-1)&1 == 0 || newest-i < 0 {
			continue // not named, or done with before
		}
		p := &s.window[newest-i]
		if p.skipped {
			return errNeverSent
		}
		if p.done {
			continue
		}
		if i > 0 {
			// Its own acknowledgement was lost.
			delay = ledbat.NewDelay(0, 0, false)
		}
		p.done = true
		s.cc.OnAck(nowUsec, p.sent, sealedData, delay)
		s.left--
	}
	s.lose(int(max(newest, 0))-reordered, nowUsec)
	return nil
}

// lose takes for lost what is before the datagram at index end, so that its chunk is sent again,
// and forgets it.
func (s *sender) lose(end int, nowUsec uint64) {
	done := 0
	for ; done < len(s.window) && (done < end || s.window[done].done); done++ {
		p := s.window[done]
		if p.done || p.skipped {
			continue
		}
		s.had[p.chunk] = false
		s.next = min(s.next, int(p.chunk))
		s.losses++
		s.cc.OnLoss(nowUsec, p.sent, sealedData)
	}
	s.oldest += uint32(done)
	s.window = s.window[done:]
}
