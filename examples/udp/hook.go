package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"timesync"
)

// Why Open refuses: shorter than it says; not the peer's; seen before, or too far
// behind to tell; the peer's, but perhaps a recording of another session.
var ErrTruncated, ErrForged = errors.New("truncated"), errors.New("forged")
var ErrReplayed, ErrUnproven = errors.New("replayed"), errors.New("unproven")

// header precedes the sealed part: a 3-byte stamp, perhaps a MinDelta, the payload.
type header struct {
	Session         uint64 // random, but for the lowest bit: the direction
	Counter         uint32 // with Session the nonce; the top bit: a MinDelta is there
	Challenge, Echo uint32 // the sender's, and the last that it heard
	Length          uint16 // of the datagram
}

const headerLen, tagLen, reportFlag = 22, 16, 1 << 31

// Hook seals what one end of a connection sends, opens what it receives, and shows
// its synchronizer authentic, fresh datagrams only. Any goroutine may use it.
//
// Each end draws a session when it starts, so that it may count from 0 with the same
// key. A session of the peer is adopted once it echoes our challenge, which then
// changes: no recording of another session moves the clock, whichever end restarts,
// whatever the wall clock says. Within a session each counter is taken once, and the
// direction keeps what we sent from coming back as the peer's. A flood of recordings
// can put off an adoption, and nothing shows a network that delays one way longer.
type Hook struct {
	Sync timesync.TimeSynchronizer // to read; only the hook writes

	mu                 sync.Mutex
	gcm                cipher.AEAD
	next               header // of what we send
	peer               uint64 // the adopted session; before, one that nobody can have
	newest             uint32 // the peer's counter
	seen               uint64 // bit i: newest-i came
	reports, reportDue uint64 // MinDeltas sent; when to send the next, usec
}

// NewHook makes one end of two that share key; direction is 0 at one, 1 at the other.
func NewHook(key [32]byte, direction uint64) *Hook {
	block, _ := aes.NewCipher(key[:])
	gcm, _ := cipher.NewGCM(block) // they fail for other sizes only
	h := &Hook{gcm: gcm, peer: direction}
	binary.Read(rand.Reader, binary.LittleEndian, &h.next)
	h.next.Session, h.next.Counter = h.next.Session&^1|direction, 0
	return h
}

// Seal appends to dst the datagram with payload that leaves at sendUsec: now.
func (h *Hook) Seal(dst, payload []byte, sendUsec uint64) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	head := h.next
	if h.next.Counter++; h.next.Counter == reportFlag { // all nonces spent: as if restarted
		h.next.Session, h.next.Counter = h.next.Session+2, 0
	}
	body, _ := timesync.LocalTimeToDatagramTS24(sendUsec).AppendBinary(nil)
	if minDelta, ok := h.Sync.MinDeltaTS24(sendUsec); ok && int64(sendUsec-h.reportDue) >= 0 {
		head.Counter |= reportFlag
		body, _ = minDelta.AppendBinary(body)
		h.reportDue = sendUsec + 500_000 + min(h.reports/40, 1)*1_500_000 // 2 s after 20 s
		h.reports++
	}
	body = append(body, payload...)
	head.Length = uint16(headerLen + len(body) + tagLen)
	out, _ := binary.Append(dst, binary.LittleEndian, head)
	return h.gcm.Seal(out, out[len(dst):len(dst)+12], body, out[len(dst):])
}

// Open overwrites a datagram that arrived at recvUsec with its payload, and returns
// that and the one-way delay, which is ok once the clocks are synchronized.
func (h *Hook) Open(b []byte, recvUsec uint64) (payload []byte, owd time.Duration, ok bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var head header
	if binary.Decode(b, binary.LittleEndian, &head); len(b) < max(headerLen+3+tagLen, int(head.Length)) {
		return nil, 0, false, ErrTruncated
	}
	b, err = h.gcm.Open(b[headerLen:headerLen], b[:12], b[headerLen:], b[:headerLen])
	if err != nil || head.Session&1 == h.next.Session&1 {
		return nil, 0, false, ErrForged
	}
	counter := head.Counter &^ reportFlag
	if h.next.Echo = head.Challenge; head.Session != h.peer {
		if head.Echo != h.next.Challenge {
			return nil, 0, false, ErrUnproven
		}
		h.peer, h.newest, h.seen = head.Session, counter, ^uint64(1) // its past is seen
		h.reports, h.reportDue = 0, recvUsec
		binary.Read(rand.Reader, binary.LittleEndian, &h.next.Challenge)
		h.Sync.Reset()
	}
	if counter > h.newest {
		h.seen, h.newest = h.seen<<(counter-h.newest), counter
	}
	bit := uint64(1) << (h.newest - counter) // 0 if 64 or more behind
	if bit&^h.seen == 0 {
		return nil, 0, false, ErrReplayed
	}
	h.seen |= bit
	owd, ok = h.Sync.OnAuthenticatedDatagramTimestamp(timesync.ReadCounter24(b), recvUsec)
	if b = b[3:]; head.Counter != counter && len(b) >= 3 {
		h.Sync.OnPeerMinDeltaTS24(timesync.ReadCounter24(b), recvUsec)
		b = b[3:]
	}
	return b, owd, ok, nil
}
