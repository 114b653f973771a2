// SPDX-License-Identifier: BSD-3-Clause

// Package seal encrypts the datagrams of two peers that share a key, refuses forgeries
// and replays, and keeps time inside (timesync/link). This file is complete: copy it.
//
// # Wire format
//
// Integers are little-endian. The tag covers everything.
//
//	session    8 bytes: random for each start; the lowest bit is the direction
//	counter    4 bytes: of the datagrams of the session; with it the nonce
//	challenge  4 bytes: random; whoever echoes it is alive
//	echo       4 bytes: the challenge that the peer has last shown
//	sealed     a header of link and the payload; nothing: an answer; 1 byte: a refusal
//	tag        16 bytes: AES-256-GCM
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"timesync/link"
)

// What Open refuses, and in the last two cases only says.
var (
	ErrForged   = errors.New("forged")   // not the peer's, changed or cut short
	ErrReplayed = errors.New("replayed") // seen before, or too far behind to tell
	ErrUnproven = errors.New("unproven") // perhaps a recording of another session: see Answer
	ErrAnswer   = errors.New("answer")   // the peer lives, and may now believe us
	ErrRefused  = errors.New("refused")  // the peer lives, and serves another
)

type header struct {
	Session                  uint64
	Counter, Challenge, Echo uint32
}

const (
	headerLen, nonceLen, tagLen = 20, 12, 16

	// Overhead is how many bytes Seal adds to the header of link and the payload.
	Overhead = headerLen + tagLen

	answerGap = 100_000 // us: the least time between two answers to one address
)

// End is one end of a connection. Any goroutine may use it at any time.
//
// Each end draws a session when it starts, so both may restart with the same key. A
// session of the peer is adopted once it echoes our challenge, which then changes: no
// recording of another session moves the clock. A flood of recordings can put off an
// adoption, and nothing shows a network that delays one way longer.
type End struct {
	Link link.Link // to read; only the end writes

	mu       sync.Mutex
	aead     cipher.AEAD
	next     header         // of what we send
	session  uint64         // the peer's, adopted; before, our direction, which none of its has
	newest   uint32         // the peer's counter
	seen     uint64         // bit i: newest-i came
	peer     netip.AddrPort // where newest came from
	stranger uint32         // challenge of what was last unproven
	seed     maphash.Seed
	answered [64]uint64 // local time, us, of the last answer, by hash of the address
}

// New makes one end of two that share key; direction is 0 at the end that calls, 1 at the
// one that answers.
func New(key [32]byte, direction uint64) *End {
	block, _ := aes.NewCipher(key[:])
	aead, _ := cipher.NewGCM(block) // they fail for other sizes only
	e := &End{aead: aead, session: direction, seed: maphash.MakeSeed()}
	binary.Read(rand.Reader, binary.LittleEndian, &e.next)
	e.next.Session, e.next.Counter = e.next.Session&^1|direction, 0
	return e
}

// Seal appends to dst the datagram with payload that leaves at sendUsec: now.
func (e *End) Seal(dst, payload []byte, sendUsec uint64) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seal(dst, e.next, append(e.Link.AppendHeader(nil, sendUsec), payload...))
}

// Answer appends to dst what an end that waits to be called says to a peer that Open found
// unproven: prove yourself, or, if refuse, that another is served. It appends nothing if
// that address had an answer in the last 100 ms. An answer carries no time and is never
// longer than what it answers, so nobody can make us flood others.
func (e *End) Answer(dst []byte, to netip.AddrPort, nowUsec uint64, refuse bool) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := &e.answered[maphash.Comparable(e.seed, to)%uint64(len(e.answered))]
	if nowUsec-*last < answerGap {
		return dst
	}
	*last = nowUsec
	head, body := e.next, []byte(nil)
	if head.Echo = e.stranger; refuse {
		head.Challenge, body = 0, []byte{0} // nothing to prove itself with
	}
	return e.seal(dst, head, body)
}

func (e *End) seal(dst []byte, head header, body []byte) []byte {
	if e.next.Counter++; e.next.Counter == 0 { // all nonces are spent: as if restarted
		e.next.Session += 2
	}
	out, _ := binary.Append(dst, binary.LittleEndian, head)
	return e.aead.Seal(out, out[len(dst):len(dst)+nonceLen], body, out[len(dst):])
}

// Open takes a datagram that arrived from an address at recvUsec, and overwrites it with
// its payload. It returns that and the one-way delay, 0 while the offset is not known.
func (e *End) Open(b []byte, from netip.AddrPort, recvUsec uint64) (payload []byte, owd time.Duration, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var head header
	if _, err := binary.Decode(b, binary.LittleEndian, &head); err != nil {
		return nil, 0, ErrForged
	}
	b, err = e.aead.Open(b[headerLen:headerLen], b[:nonceLen], b[headerLen:], b[:headerLen])
	if err != nil || head.Session&1 == e.next.Session&1 {
		return nil, 0, ErrForged
	}
	if head.Session != e.session {
		if head.Echo != e.next.Challenge {
			e.stranger = head.Challenge
			return nil, 0, ErrUnproven
		}
		e.session, e.newest, e.seen = head.Session, head.Counter, ^uint64(1) // its past is seen
		binary.Read(rand.Reader, binary.LittleEndian, &e.next.Challenge)
		e.Link.Reset()
	}
	if head.Counter > e.newest {
		e.seen, e.newest = e.seen<<(head.Counter-e.newest), head.Counter
	}
	bit := uint64(1) << (e.newest - head.Counter) // 0 if 64 or more behind
	if bit&^e.seen == 0 {
		return nil, 0, ErrReplayed
	}
	if e.seen |= bit; bit == 1 { // newer than all before
		e.peer, e.next.Echo = from, head.Challenge
	}
	switch len(b) {
	case 0:
		return nil, 0, ErrAnswer
	case 1:
		return nil, 0, ErrRefused
	}
	return e.Link.Open(b, recvUsec)
}

// Peer returns where the newest datagram of the peer came from; not valid before the
// first. An end that was called sends there, and so follows a peer that moves. Somebody
// on the path can redirect it, by being faster, but only until the next datagram.
func (e *End) Peer() netip.AddrPort {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.peer
}
