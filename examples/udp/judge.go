// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"timesync"
	"timesync/link"
)

// The judge knows what peers cannot: true time, and what was really sent. It looks
// over their shoulders and tells them nothing.

// outbox is what one peer has really sent, by number.
type outbox struct {
	mu    sync.Mutex
	sent  []time.Duration // true send times
	taken []bool          // the other peer has accepted it
}

func (l *outbox) enter(sent time.Duration) (number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent, l.taken = append(l.sent, sent), append(l.taken, false)
	return uint64(len(l.sent) - 1)
}

// take reports whether the datagram was really sent, then, and not taken before.
func (l *outbox) take(number uint64, sent time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number >= uint64(len(l.sent)) || l.sent[number] != sent || l.taken[number] {
		return false
	}
	l.taken[number] = true
	return true
}

const (
	// A payload is the stamps of an event and of an instant, whose flags say whether there is one,
	// and the judge's notes: number, send time and event time.
	stampLen   = 3
	payloadLen = 2*stampLen + 3*8

	eventAge = 50 * time.Millisecond // events wait for the next datagram at most so long

	// settling is how long the start takes, in true time: the table counts it apart.
	settling = 3 * time.Second
)

// judge rides with one peer. Errors are in microseconds.
type judge struct {
	peer        *peer
	remote      clock         // the other peer's
	start       time.Duration // when the peer started
	mine, other *outbox       // what this peer has sent, and the one it hears
	appointment *appointment  // nil: none is wanted

	mu           sync.Mutex
	rng          *rand.Rand
	synced       bool
	firstSync    time.Duration // since start
	intruders    int           // datagrams that got through and must not have
	first, later judgements    // of the first seconds, and later
}

// judgements are errors.
type judgements struct{ offset, owd, event []int64 }

// payload is an event of a moment ago, stamped in the receiver's time if that is
// known, perhaps an instant, and then the judge's own notes.
func (j *judge) payload(sent time.Duration) []byte {
	j.mu.Lock()
	happened := max(sent-time.Duration(j.rng.Int64N(int64(eventAge))), 0)
	j.mu.Unlock()
	event, ok := j.peer.end.Link.ToRemoteTime23(j.peer.clock.at(happened))
	b := link.AppendTime23(make([]byte, 0, payloadLen), event, ok)
	instant, ok := timesync.Counter23(0), false
	if j.appointment != nil && !j.peer.listens() && sent-j.start >= settling {
		instant, ok = j.appointment.propose(j.peer, sent)
	}
	b = link.AppendTime23(b, instant, ok)
	b = binary.LittleEndian.AppendUint64(b, j.mine.enter(sent))
	b = binary.LittleEndian.AppendUint64(b, uint64(sent))
	return binary.LittleEndian.AppendUint64(b, uint64(happened))
}

func (j *judge) delivered(payload []byte, recv, owd time.Duration, known bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(payload) != payloadLen {
		j.intruders++
		return
	}
	event, instant, notes := payload[:stampLen], payload[stampLen:2*stampLen], payload[2*stampLen:]
	sent := time.Duration(binary.LittleEndian.Uint64(notes[8:]))
	if !j.other.take(binary.LittleEndian.Uint64(notes), sent) {
		j.intruders++
		return
	}
	if at, ok := link.ReadTime23(instant); ok {
		j.appointment.accept(j.peer, at, recv)
	}
	errors := &j.later
	if recv-j.start < settling {
		errors = &j.first
	}
	local := &j.peer.clock
	if stamp, ok := link.ReadTime23(event); ok {
		happened := local.at(time.Duration(binary.LittleEndian.Uint64(notes[16:])))
		got := timesync.FromLocalTime23(local.at(recv), stamp)
		errors.event = append(errors.event, int64(got-happened))
	}
	if err, ok := j.offsetError(recv); ok {
		if !j.synced {
			j.synced, j.firstSync = true, recv-j.start
		}
		errors.offset = append(errors.offset, err)
	}
	if known {
		errors.owd = append(errors.owd, (owd - (recv - sent)).Microseconds())
	}
}

// offsetError is how far the peer's idea of the remote clock is off at true time t.
func (j *judge) offsetError(t time.Duration) (usec int64, ok bool) {
	truth := j.remote.at(t)
	got, ok := j.peer.end.Link.RemoteTime(j.peer.clock.at(t))
	return int64(got - truth), ok
}
