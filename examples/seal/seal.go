// SPDX-License-Identifier: BSD-3-Clause

// Package seal encrypts the datagrams of two peers that share a key. It refuses forgeries and
// replays, and keeps time inside (timesync/link). To use it, copy this file. It imports only
// package link and the standard library.
//
// It is for programs that may use no other library. If yours may, use DTLS (examples/dtls), QUIC
// or WebRTC: many people have looked for holes in them. This file does not give you:
//
//   - Safety after a machine was cloned or restored from a snapshot. Both copies go on with the
//     same session and counter, so the same nonce encrypts two datagrams. Whoever has both can
//     read them and forge more. A copied machine cannot tell, unlike a program that starts, which
//     draws a new session. After a restore, make new Ends with another key.
//   - Forward secrecy. Whoever gets the key later can read every datagram that was ever recorded.
//   - More than two peers with one key. Whoever has the key can pose as either end.
//   - A way to agree on the key, or to change it.
//   - Anonymity. Sessions and counters are not encrypted, so a peer can be recognized.
//
// The package reads no clock. All times are readings of one clock of yours, from Reader and the
// arguments of the calls. To test with different clocks, wrap Reader to return those of another
// one.
//
// # More than two peers
//
// An End is for one pair. Each pair needs its own key, an End on both sides, and a rule for which
// of them calls (direction 0), such as the one with the larger name.
//
// All Ends may share a socket. Give a copy of each datagram to one End after the other, until the
// error of Take is not ErrForged. An End that cannot open a datagram does not change.
// examples/hostmigration/peer.go does that, and derives the keys (pairKey).
//
// With hundreds of peers, a forged datagram would cost milliseconds. Then put a byte or more in
// front that says whose it is, as the example of End with several clients does.
//
// # Wire format
//
// Integers are little-endian. The tag covers everything.
//
//	session    8 bytes: random for each start; the lowest bit is the direction
//	counter    4 bytes: of the datagrams of the session; the nonce is session and counter
//	challenge  4 bytes: random; whoever echoes it is alive
//	echo       4 bytes: the peer's newest challenge, as far as this end knows
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

// Open returns one of these errors for a datagram without a payload for the caller. The last two
// come from a peer that is alive.
var (
	// ErrForged: the datagram is not the peer's, or was changed or cut short on its way.
	ErrForged = errors.New("seal: forged or damaged")
	// ErrReplayed: the datagram was seen before, or is too old to tell.
	ErrReplayed = errors.New("seal: the datagram is a replay")
	// ErrUnproven: the datagram may be a recording of another session. See Answer.
	ErrUnproven = errors.New("seal: the sender is not proven yet")
	// ErrAnswer: the peer is alive, and can now prove that we are.
	ErrAnswer = errors.New("seal: an answer without a payload")
	// ErrRefused: the peer is alive, and serves another caller. See Peer.Refused.
	ErrRefused = errors.New("seal: the peer is talking to another end")
)

// ErrSession is returned by SealFor: the payload was made for a session that is over.
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
	longest   = 2048    // bytes: no datagram that crosses networks is longer

	// A datagram that others overtook is accepted up to window counters late: 10 s at 200
	// datagrams a second. One word is always kept empty for counters to come (RFC 6479).
	words  = 32
	window = 64 * (words - 1)
)

// End is one end of a connection. Any goroutine may use it at any time.
//
// Each end draws a random session when it starts, so both may restart with the same key. An end
// accepts a session of the peer once that echoes its challenge. The challenge then changes, so
// no recording of another session moves the clock.
//
// An end that no longer hears the accepted session echoes any challenge that is sealed with the
// key, chosen at random. A flood of recordings can delay a new session that way, but not prevent
// it. An End cannot detect a network that delays one way longer.
type End struct {
	// Link keeps the time. Read it, and call SendFailed; nothing else changes it but the End.
	Link link.Link

	mu   sync.Mutex
	aead cipher.AEAD
	next header // of what we send
	// session is the accepted one of the peer. Before there is one it is our direction, which no
	// session of the peer has.
	session uint64
	newest  uint32 // the peer's counter
	// Bit c%64 of word c/64%words of seen says that the datagram with counter c arrived.
	seen     [words]uint64
	peer     Peer   // as of the newest datagram
	heard    bool   // a newer datagram has arrived since the last Seal
	unproven uint64 // unproven datagrams since the last Seal
	stranger uint32 // challenge of the last unproven one
	seed     maphash.Seed
	// answered has the local time of the last answer, us, or 0, by a hash of the address.
	answered [64]uint64
}

// New makes one end of two that share key. direction is 0 at the end that calls, 1 at the
// one that answers.
func New(key [32]byte, direction uint64) *End {
	block, _ := aes.NewCipher(key[:])
	aead, _ := cipher.NewGCM(block) // both fail only for keys of other sizes
	e := &End{aead: aead, session: direction, seed: maphash.MakeSeed()}
	e.next.session, e.next.challenge = random()<<1|direction, uint32(random())
	return e
}

// Seal appends a datagram with payload to dst. sendUsec is now, read just before sending. If the
// datagram cannot be sent, call Link.SendFailed.
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

// SealFor is Seal for a payload that contains times on the peer's clock (Link.ToRemoteTime23).
// They mean nothing to a peer that has restarted, so get session from Peer before you make them.
// The error is ErrSession if the peer has restarted since. Times on your own clock
// (link.AppendEvent) need only Seal.
func (e *End) SealFor(session uint32, dst, payload []byte, sendUsec uint64) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if session != e.peer.Session {
		return dst, ErrSession
	}
	return e.sealed(dst, payload, sendUsec), nil
}

// Answer appends to dst the answer to a datagram for which Open returned ErrUnproven. It asks the
// caller to prove itself; with refuse, it says that another is served. It appends nothing
// if the address had an answer in the last 100 ms, or if this end is the one that calls.
//
// An answer contains no time. It is never longer than what it answers, so nobody can use it to
// flood others.
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
		head.challenge, body = 0, []byte{0} // without a challenge the caller cannot prove itself
	}
	return e.seal(append(e.head(dst, head), body...), len(dst))
}

// slot returns the index in answered of an address.
func (e *End) slot(to netip.AddrPort) uint64 {
	var address [18]byte
	ip := to.Addr().As16()
	copy(address[:], ip[:])
	binary.LittleEndian.PutUint16(address[len(ip):], to.Port())
	return maphash.Bytes(e.seed, address[:]) % uint64(len(e.answered))
}

// head appends a header, and prepares that of the next datagram.
func (e *End) head(dst []byte, head header) []byte {
	if e.next.counter++; e.next.counter == 0 { // all nonces are used: go on as if restarted
		e.next.session += 2
	}
	out := binary.LittleEndian.AppendUint64(dst, head.session)
	for _, v := range []uint32{head.counter, head.challenge, head.echo} {
		out = binary.LittleEndian.AppendUint32(out, v)
	}
	return out
}

// seal encrypts, in place, what follows the header at start.
func (e *End) seal(b []byte, start int) []byte {
	sealed := start + headerLen
	return e.aead.Seal(b[:sealed], b[start:start+nonceLen], b[sealed:], b[start:sealed])
}

// Open decrypts a datagram that arrived from an address at recvUsec. It returns the payload, in
// the bytes of b, and the one-way delay. ok is false while the delay is not known. The error is
// one of those above, or of Link.ReadHeader.
func (e *End) Open(
	b []byte, from netip.AddrPort, recvUsec uint64,
) (payload []byte, owd time.Duration, ok bool, err error) {
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

// unseal checks that a datagram was sealed with the key by the other end.
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

// admit checks that a datagram is new, and of a session of the peer that is alive.
func (e *End) admit(head header, from netip.AddrPort, recvUsec uint64) error {
	if head.session != e.session {
		if head.echo != e.next.challenge {
			e.stranger = head.challenge
			if e.unproven++; !e.heard && head.challenge != 0 && random()%e.unproven == 0 {
				e.next.echo = head.challenge // each is equally likely, however many arrive
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

// begin marks all counters before counter as seen.
func (e *End) begin(counter uint32) {
	for i := range e.seen {
		e.seen[i] = ^uint64(0)
	}
	e.newest = counter
	e.seen[counter/64%words] = 1<<(counter%64) - 1
}

// first marks a counter as seen, and reports whether it was new.
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
	_, _ = rand.Read(b[:]) // it never fails
	return binary.LittleEndian.Uint64(b[:])
}

// Peer is what an End knows of the other end, besides the time.
type Peer struct {
	// Session counts the sessions of the peer: 0 before the first, 2 after the peer has restarted
	// once.
	Session uint32
	// Addr is the sender of its newest datagram. It is not valid before the first.
	Addr netip.AddrPort
	// HeardUsec is when that arrived, on our clock. It may be a little ahead of clock.Now: see
	// Link.SinceHeard.
	HeardUsec uint64
	// Refused says that it was a refusal: the peer is alive, but serves another caller.
	Refused bool
}

// Peer returns what is known of the peer. An end that is called sends to Addr, and so follows a
// peer that changes its address. An attacker on the path who is faster can redirect it, until the
// next datagram of the peer. So stop sending once HeardUsec is some seconds old.
func (e *End) Peer() Peer {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.peer
}

// Datagram is one that arrived.
type Datagram struct {
	Payload  []byte // in the bytes given to Take
	From     netip.AddrPort
	RecvUsec uint64        // when it was received, on our clock
	OWD      time.Duration // its one-way delay, if Known
	Known    bool
	// Session is Peer.Session. If it changed, the peer has restarted.
	Session uint32
}

// Take calls Open, and Answer if that is due: send answer to from if it is not nil. The error is
// that of Open.
//
// hold matters at the end that is called. For hold after the peer was last heard, callers from
// another address or port are refused. Otherwise two callers with one key would take the End from
// each other again and again. A peer that restarts at another port is refused that long, too.
//
// A good hold is several times the longest gap between two datagrams, such as 0.5 s for continuous
// sound. Use 0 if only one program at a time calls with this key.
func (e *End) Take(
	b []byte, from netip.AddrPort, recvUsec uint64, hold time.Duration,
) (d Datagram, answer []byte, err error) {
	payload, owd, known, err := e.Open(b, from, recvUsec)
	peer := e.Peer()
	if err == ErrUnproven {
		// negative: our clock was set back, or receive times are out of order
		ago := int64(recvUsec - peer.HeardUsec)
		held := peer.Addr.IsValid() && peer.Addr != from && max(ago, -ago) < hold.Microseconds()
		answer = e.Answer(nil, from, recvUsec, held)
	}
	return Datagram{payload, from, recvUsec, owd, known, peer.Session}, answer, err
}

// Reader reads datagrams and their receive times. A *Conn of package timesync/clock/rxtime is one.
type Reader interface {
	ReadFrom(b []byte) (n int, from netip.AddrPort, recvUsec uint64, err error)
}

// Receive calls take for every datagram, until the socket is closed. It is for several Ends that
// share a socket: take finds the End. For a single End, use Serve.
func Receive(rx Reader, take func(b []byte, from netip.AddrPort, recvUsec uint64)) {
	var buf [longest]byte
	for {
		n, from, recvUsec, err := rx.ReadFrom(buf[:])
		switch {
		case err == nil:
			take(buf[:n], from, recvUsec)
		case errors.Is(err, net.ErrClosed):
			return
		default: // on Windows: the peer's port is closed
			time.Sleep(time.Millisecond)
		}
	}
}

// Serve reads every datagram of a socket that only this End uses, sends the answers, and calls
// take with the results of Take. The Payload is valid until take returns. hold is that of Take.
// Serve returns when the socket is closed.
//
//	go end.Serve(rxtime.NewConn(udp), udp, time.Second/2, take)
func (e *End) Serve(
	rx Reader, udp *net.UDPConn, hold time.Duration, take func(d Datagram, err error),
) {
	Receive(rx, func(b []byte, from netip.AddrPort, recvUsec uint64) {
		d, answer, err := e.Take(b, from, recvUsec, hold)
		if answer != nil {
			_, _ = udp.WriteToUDPAddrPort(answer, from) // an error counts as a loss
		}
		take(d, err)
	})
}
