// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"timesync"
	"timesync/examples/internal/relay"
	"timesync/examples/seal"
	"timesync/link"
)

const (
	// A payload is the stamp of an event, whose flag says whether it is known, and the judge's notes:
	// send time and event time.
	stampLen   = 3
	payloadLen = stampLen + 2*8

	// Events wait for the next datagram at most so long.
	eventAge = 50 * time.Millisecond

	// settling is how long the start takes, in true time: its errors do not count.
	settling = 3 * time.Second
)

// judge looks over the shoulder of one peer of the demo, and tells it nothing. It knows what peers
// cannot: true time, and what was really sent. Errors are in microseconds.
type judge struct {
	*peer
	name  string
	way   relay.Way // to the peer
	other *judge
	// Payloads that were sent; the other peer may take each once.
	underWay sync.Map

	lock      sync.Mutex // of what follows
	rng       *rand.Rand
	firstSync time.Duration // since the start; 0: not yet
	intruders int           // datagrams that got through and must not have
	// Errors since it has settled.
	offset, owd, event []int64
}

// payload is an event of a moment ago, stamped in the receiver's time if that is
// known, and then the judge's own notes.
func (j *judge) payload(sent time.Duration) []byte {
	j.lock.Lock()
	defer j.lock.Unlock()
	happened := max(sent-time.Duration(j.rng.Int64N(int64(eventAge))), 0)
	event, ok := j.end.Link.ToRemoteTime23(j.clock.At(happened.Microseconds()))
	b := link.AppendTime23(nil, event, ok)
	b = binary.LittleEndian.AppendUint64(b, uint64(sent))
	b = binary.LittleEndian.AppendUint64(b, uint64(happened))
	j.underWay.Store(string(b), true)
	return b
}

// delivered judges what the peer makes of a datagram.
func (j *judge) delivered(d seal.Datagram, recv time.Duration) {
	j.lock.Lock()
	defer j.lock.Unlock()
	if _, ok := j.other.underWay.LoadAndDelete(string(d.Payload)); !ok {
		j.intruders++
		return
	}
	event, notes := d.Payload[:stampLen], d.Payload[stampLen:]
	sent := time.Duration(binary.LittleEndian.Uint64(notes))
	happened := time.Duration(binary.LittleEndian.Uint64(notes[8:]))
	err, ok := j.offsetError(recv)
	if ok && j.firstSync == 0 {
		j.firstSync = recv - j.begun
	}
	if recv-j.begun < settling {
		return
	}
	if ok {
		j.offset = append(j.offset, err)
	}
	if stamp, ok := link.ReadTime23(event); ok {
		got := timesync.FromLocalTime23(d.RecvUsec, stamp)
		j.event = append(j.event, int64(got-j.clock.At(happened.Microseconds())))
	}
	if d.Known {
		j.owd = append(j.owd, (d.OWD - (recv - sent)).Microseconds())
	}
}

// offsetError is how far the peer's idea of the remote clock is off at true time t.
func (j *judge) offsetError(t time.Duration) (usec int64, ok bool) {
	got, ok := j.end.Link.RemoteTime(j.clock.At(t.Microseconds()))
	return int64(got - j.other.clock.At(t.Microseconds())), ok
}
