// SPDX-License-Identifier: BSD-3-Clause

// Package seal encrypts the datagrams of two peers that share a key, refuses forgeries
// and replays, and keeps time inside (timesync/link). To use it, copy this file. It imports only
// package link and the standard library.
//
// It is for programs that may use no other library. If yours may, take DTLS (examples/dtls), QUIC or
// WebRTC: many people have looked for holes in them. What this file does not give:
//
//   - Safety where a machine is restored from a snapshot, or cloned while it runs: both copies go on
//     with the same session and counter, so the same nonce encrypts two datagrams, and whoever has
//     both can read them and forge more. A program that starts draws a new session; a machine that
//     goes on cannot tell that it was copied. Make new Ends with another key after a restore.
//   - Forward secrecy. The key is used as it is, so whoever gets it later reads every datagram
//     that was ever recorded.
//   - More than two peers with one key: whoever has the key can pass for either end.
//   - A way to agree on the key, or to change it.
//   - A peer that cannot be recognized: sessions and counters travel in the clear.
//
// It reads no clock. All times are readings of one clock of yours, which Reader and the calls pass in. To
// test with clocks that are apart, wrap Reader so that it returns those of a clock of its own.
//
// # More than two peers
//
// An End is for one pair. Each pair needs a key of its own, an End at both, and one of both that calls
// (direction 0), such as the one with the larger name. All may share a socket: give each datagram
// that Receive reads to one End after the other, a copy each, until Take's error is not ErrForged;
// an End that cannot open it remains as it was. examples/hostmigration/peer.go does that, and derives the keys (pairKey).
// With hundreds of peers a forged datagram would cost milliseconds; then tell them apart by a first byte or more
// of your own, as the example of End does with several clients.
//
// # Wire format
//
// Integers are little-endian. The tag covers everything.
//
//	session    8 bytes: random for each start; the lowest bit is the direction
//	counter    4 bytes: of the datagrams of the session; with it the nonce
//	challenge  4 bytes: random; whoever echoes it is alive
//	echo       4 bytes: the challenge that the peer has last shown, as far as we can tell
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
	"net"
	"net/netip"
	"sync"
	"time"

	"timesync/link"
)

// Open refuses a datagram with one of these errors. With the last two it says what came instead.
var (
	// ErrForged: it is not the peer's, or was changed or cut short on its way.
	ErrForged = errors.New("seal: forged or damaged")
	// ErrReplayed: it was seen before, or is too far behind to tell.
	ErrReplayed = errors.New("seal: a replay")
	// ErrUnproven: it may be a recording of another session; see Answer.
	ErrUnproven = errors.New("seal: the sender is not proven yet")
	// ErrAnswer: the peer lives, and may now believe us.
	ErrAnswer = errors.New("seal: an answer without a payload")
	// ErrRefused: the peer lives, and serves another; see Peer.Refused.
	ErrRefused = errors.New("seal: the peer serves another")
)

// ErrSession is what SealFor refuses: the payload was made for a session that is over.
var ErrSession = errors.New("seal: made for an earlier session of the peer")

type header struct {
	session                  uint64
	counter, challenge, echo uint32
}

const (
	headerLen, nonceLen, tagLen = 20, 12, 16

	// Overhead is how many bytes Seal adds to the header of link and the payload.
	Overhead = headerLen + tagLen

	answerGap = 100_000 // us: the least time between two answers to one address
	longest   = 2048    // more bytes than a datagram on its way through networks has

	// Datagrams that overtake others are taken up to window counters late: 10 s of frames of 200
	// datagrams a second. One word is always being emptied for counters to come (RFC 6479).
	words  = 32
	window = 64 * (words - 1)
)

// End is one end of a connection. Any goroutine may use it at any time.
//
// Each end draws a session when it starts, so both may restart with the same key. A
// session of the peer is adopted once it echoes our challenge, which then changes: no
// recording of another session moves the clock. An end that hears nothing from the session
// that it has adopted echoes any challenge that is sealed with the key, in turn by chance:
// so a flood of recordings puts off an adoption, but does not prevent it. Nothing shows a
// network that delays one way longer.
type End struct {
	// Link is to read, and for SendFailed; only the end writes.
	Link link.Link

	mu   sync.Mutex
	aead cipher.AEAD
	next header // of what we send
	// session is the peer's, adopted; before, our direction, which none of its has.
	session uint64
	newest  uint32 // the peer's counter
	// Bit c%64 of word c/64%words of seen: the datagram with counter c came.
	seen     [words]uint64
	peer     Peer   // of the datagram that was newest
	heard    bool   // something newer came since the last Seal
	unproven uint64 // and so many datagrams that were unproven
	stranger uint32 // challenge of the last one
	seed     maphash.Seed
	// answered has the local time, us, of the last answer, or 0, by hash of the address.
	answered [64]uint64
}

// New makes one end of two that share key; direction is 0 at the end that calls, 1 at the
// one that answers.
func New(key [32]byte, direction uint64) *End {
	block, _ := aes.NewCipher(key[:])
	aead, _ := cipher.NewGCM(block) // they fail for other sizes only
	e := &End{aead: aead, session: direction, seed: maphash.MakeSeed()}
	e.next.session, e.next.challenge = random()<<1|direction, uint32(random())
	return e
}

// Seal appends to dst the datagram with payload that leaves at sendUsec: now. If it could not be sent,
// call Link.SendFailed.
func (e *End) Seal(dst, payload []byte, sendUsec uint64) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sealed(dst, payload, sendUsec)
}

func (e *End) sealed(dst, payload []byte, sendUsec uint64) []byte {
	e.heard, e.unproven = false, 0
	out := append(e.Link.AppendHeader(e.head(dst, e.next), sendUsec), payload...)
	return e.seal(out, len(dst))
}

// SealFor is Seal for a payload with times on the peer's clock (Link.ToRemoteTime23), which mean
// nothing to a peer that has started anew: ask Peer for the session before they are made. Times on
// our own clock (link.AppendEvent) need only Seal.
func (e *End) SealFor(session uint32, dst, payload []byte, sendUsec uint64) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if session != e.peer.Session {
		return dst, ErrSession
	}
	return e.sealed(dst, payload, sendUsec), nil
}

// Answer appends to dst what an end that waits to be called says to a peer that Open found
// unproven: prove yourself, or, if refuse, that another is served. It appends nothing if
// that address had an answer in the last 100 ms. An answer carries no time and is never
// longer than what it answers, so nobody can make us flood others. An end that calls says nothing.
func (e *End) Answer(dst []byte, to netip.AddrPort, nowUsec uint64, refuse bool) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := &e.answered[e.slot(to)]
	if e.next.session&1 == 0 || *last != 0 && nowUsec-*last < answerGap {
		return dst
	}
	*last = max(nowUsec, 1)
	head, body := e.next, []byte(nil)
	if head.echo = e.stranger; refuse {
		head.challenge, body = 0, []byte{0} // nothing to prove itself with
	}
	return e.seal(append(e.head(dst, head), body...), len(dst))
}

// slot returns where the time of the last answer to an address is.
func (e *End) slot(to netip.AddrPort) uint64 {
	var address [18]byte
	ip := to.Addr().As16()
	copy(address[:], ip[:])
	binary.LittleEndian.PutUint16(address[len(ip):], to.Port())
	return maphash.Bytes(e.seed, address[:]) % uint64(len(e.answered))
}

// head appends a header, and makes that of the next datagram another one.
func (e *End) head(dst []byte, head header) []byte {
	if e.next.counter++; e.next.counter == 0 { // all nonces are spent: as if restarted
		e.next.session += 2
	}
	out := binary.LittleEndian.AppendUint64(dst, head.session)
	for _, v := range []uint32{head.counter, head.challenge, head.echo} {
		out = binary.LittleEndian.AppendUint32(out, v)
	}
	return out
}

// seal encrypts what stands behind the header at start, where it is.
func (e *End) seal(b []byte, start int) []byte {
	sealed := start + headerLen
	return e.aead.Seal(b[:sealed], b[start:start+nonceLen], b[sealed:], b[start:sealed])
}

// Open takes a datagram that arrived from an address at recvUsec, and overwrites it with
// its payload. It returns that and the one-way delay; ok is false while that is not known.
func (e *End) Open(b []byte, from netip.AddrPort, recvUsec uint64) (payload []byte, owd time.Duration, ok bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	head, body, err := e.unseal(b)
	if err == nil {
		err = e.admit(head, from, recvUsec)
	}
	switch {
	case err != nil:
		return nil, 0, false, err
	case len(body) == 0:
		return nil, 0, false, ErrAnswer
	case len(body) == 1:
		e.peer.Refused = head.counter == e.newest || e.peer.Refused
		return nil, 0, false, ErrRefused
	}
	return e.Link.ReadHeader(body, recvUsec)
}

// unseal checks that a datagram was made with the key, and not by us.
func (e *End) unseal(b []byte) (head header, body []byte, err error) {
	if len(b) < headerLen {
		return head, nil, ErrForged
	}
	body, err = e.aead.Open(b[headerLen:headerLen], b[:nonceLen], b[headerLen:], b[:headerLen])
	u32 := binary.LittleEndian.Uint32
	head = header{binary.LittleEndian.Uint64(b), u32(b[8:]), u32(b[12:]), u32(b[16:])}
	if err != nil || head.session&1 == e.next.session&1 {
		return head, nil, ErrForged
	}
	return head, body, nil
}

// admit checks that a datagram is of the living peer, and new.
func (e *End) admit(head header, from netip.AddrPort, recvUsec uint64) error {
	if head.session != e.session {
		if head.echo != e.next.challenge {
			e.stranger = head.challenge
			if e.unproven++; !e.heard && head.challenge != 0 && random()%e.unproven == 0 {
				e.next.echo = head.challenge // each as likely, however many come
			}
			return ErrUnproven
		}
		e.session = head.session
		e.begin(head.counter)
		e.next.challenge = uint32(random())
		e.peer.Session++
		e.Link.Reset()
	}
	if !e.first(head.counter) {
		return ErrReplayed
	}
	if head.counter == e.newest { // newer than all before
		e.peer.Addr, e.peer.HeardUsec = from, recvUsec
		e.next.echo, e.heard, e.peer.Refused = head.challenge, true, false
	}
	return nil
}

// begin makes all counters before one seen.
func (e *End) begin(counter uint32) {
	for i := range e.seen {
		e.seen[i] = ^uint64(0)
	}
	e.newest = counter
	e.seen[counter/64%words] = 1<<(counter%64) - 1
}

// first notes a counter, and reports whether it is seen for the first time.
func (e *End) first(counter uint32) bool {
	if counter > e.newest {
		from, to := e.newest/64, counter/64
		for i := range min(to-from, words) {
			e.seen[(to-i)%words] = 0
		}
		e.newest = counter
	}
	word, bit := &e.seen[counter/64%words], uint64(1)<<(counter%64)
	if e.newest-counter >= window || *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // which never fails
	return binary.LittleEndian.Uint64(b[:])
}

// Peer is what an end knows of the other, besides the time.
type Peer struct {
	// Session is 1 for the first that was adopted, 2 once the peer has started anew, ...; 0: none yet.
	Session uint32
	// Addr is where its newest datagram came from; not valid before the first.
	Addr netip.AddrPort
	// HeardUsec is when that came, on our clock; perhaps a little later than clock.Now: see Link.SinceHeard.
	HeardUsec uint64
	// Refused: that was a refusal, so the peer lives, but serves another.
	Refused bool
}

// Peer returns what is known of the peer. An end that was called sends to Addr, and so
// follows a peer that moves. Somebody on the path can redirect it, by being faster, until the next
// datagram: send no more where HeardUsec is some seconds old.
func (e *End) Peer() Peer {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.peer
}

// Datagram is one that came.
type Datagram struct {
	Payload  []byte // in the bytes that were opened
	From     netip.AddrPort
	RecvUsec uint64        // when it was received, on our clock
	OWD      time.Duration // how long it was under way, if Known
	Known    bool
	// Session is the peer's; another one than before: it has started anew.
	Session uint32
}

// Take is Open, and Answer where we are called: write answer to from if it is not nil. The error is
// that of Open.
//
// hold matters where we are called. While the peer was heard in the last hold, whoever calls from
// another address or port is refused, so that two callers with one key do not take the end from
// each other again and again. A caller that starts anew at a port of the system's choice is refused
// so long, too. Take several times the longest gap between two datagrams of a peer that lives, such as 0.5 s
// where sound flows all the time; or 0 where only one program at a time ever calls with this key.
func (e *End) Take(b []byte, from netip.AddrPort, recvUsec uint64, hold time.Duration) (d Datagram, answer []byte, err error) {
	payload, owd, known, err := e.Open(b, from, recvUsec)
	peer := e.Peer()
	if err == ErrUnproven {
		ago := int64(recvUsec - peer.HeardUsec) // less than 0: our clock was set back, or times of receipt are out of order
		held := peer.Addr.IsValid() && peer.Addr != from && max(ago, -ago) < hold.Microseconds()
		answer = e.Answer(nil, from, recvUsec, held)
	}
	return Datagram{payload, from, recvUsec, owd, known, peer.Session}, answer, err
}

// Reader reads datagrams with the times at which they were received: a *rxtime.Conn.
type Reader interface {
	ReadFrom(b []byte) (n int, from netip.AddrPort, recvUsec uint64, err error)
}

// Receive gives take every datagram that comes, until the socket is closed. Where several ends
// share a socket, take finds whose a datagram is, see above; else see Serve.
func Receive(rx Reader, take func(b []byte, from netip.AddrPort, recvUsec uint64)) {
	var buf [longest]byte
	for {
		n, from, recvUsec, err := rx.ReadFrom(buf[:])
		switch {
		case err == nil:
			take(buf[:n], from, recvUsec)
		case errors.Is(err, net.ErrClosed):
			return
		default: // Windows says here that the peer's port is closed
			time.Sleep(time.Millisecond)
		}
	}
}

// Serve gives Take every datagram that comes on a socket of this end's own, writes the answers,
// and passes on what Take says; the Payload lasts until take returns. hold is that of Take. Serve
// returns when the socket is closed.
//
//	go end.Serve(rxtime.NewConn(udp), udp, time.Second/2, take)
func (e *End) Serve(rx Reader, udp *net.UDPConn, hold time.Duration, take func(d Datagram, err error)) {
	Receive(rx, func(b []byte, from netip.AddrPort, recvUsec uint64) {
		d, answer, err := e.Take(b, from, recvUsec, hold)
		if answer != nil {
			_, _ = udp.WriteToUDPAddrPort(answer, from) // an error is a loss
		}
		take(d, err)
	})
}
