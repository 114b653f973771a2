// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/binary"
	"sync"
	"time"

	"timesync"
	"timesync/examples/seal"
	"timesync/internal/badnet"
	"timesync/link"
)

const (
	// A payload is the stamp of an event, whose flag says whether it is known, and the judge's
	// note: the send time.
	stampLen   = 3
	payloadLen = stampLen + 8

	// For how long an event has waited for its datagram.
	eventAge = 25 * time.Millisecond

	// settling is how long the start takes, in true time: its errors do not count.
	settling = 3 * time.Second
)

// judge looks over the shoulder of one peer of the demo, and tells it nothing. It knows what peers
// cannot: true time, and what was really sent. Errors are in microseconds.
type judge struct {
	*peer
	name  string
	way   badnet.Way // to the peer
	other *judge
	// Payloads that were sent; the other peer may take each once.
	underWay sync.Map

	// Guarded by peer.mu: datagrams that got through and must not have, and errors since it has
	// settled.
	intruders          int
	offset, owd, event []int64
}

// payload is an event of a moment ago, stamped in the receiver's time if that is
// known, and then the judge's own note.
func (j *judge) payload(sent time.Duration) []byte {
	event, ok := j.end.Link.ToRemoteTime23(j.clock.At((sent - eventAge).Microseconds()))
	b := binary.LittleEndian.AppendUint64(link.AppendTime23(nil, event, ok), uint64(sent))
	j.underWay.Store(string(b), true)
	return b
}

// delivered judges what the peer makes of a datagram.
func (j *judge) delivered(d seal.Datagram, recv time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.other.underWay.LoadAndDelete(string(d.Payload)); !ok {
		j.intruders++
		return
	}
	event := d.Payload[:stampLen]
	note := d.Payload[stampLen:]
	sent := time.Duration(binary.LittleEndian.Uint64(note))
	if recv-j.begun < settling {
		return
	}
	if err, ok := j.offsetError(recv); ok {
		j.offset = append(j.offset, err)
	}
	if stamp, ok := link.ReadTime23(event); ok {
		got := timesync.FromLocalTime23(d.RecvUsec, stamp)
		j.event = append(j.event, int64(got-j.clock.At((sent-eventAge).Microseconds())))
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
