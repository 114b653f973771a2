// SPDX-License-Identifier: BSD-3-Clause

package channelbench

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"timesync"
	"timesync/examples/internal/program"
	"timesync/link"
)

// End is one end of a connection, measured.
type End struct {
	server      bool
	clock, peer program.Clock
	link        *link.Link
	settled     chan struct{} // closed when the first datagram is judged

	mu    sync.Mutex
	knows time.Time // when it first knew the other's clock
	found samples
}

// samples are of what one end received, in microseconds; of errors the size.
type samples struct {
	offset  []int64 // error of RemoteTime
	delay   []int64 // true one-way delay
	owd     []int64 // error of the one-way delay
	payload []int64 // error of a TS23 in the payload
	bound   []int64 // ErrorBound of the offset
	outside int     // offsets whose error exceeds their bound
}

// Client and Server add an end. A connection has one of each; clock is the client's.
func (r *Run) Client(l *link.Link, clock program.Clock) *End {
	return r.add(&End{link: l, clock: clock, peer: ServerClock})
}

func (r *Run) Server(l *link.Link, clock program.Clock) *End {
	return r.add(&End{link: l, clock: ServerClock, peer: clock, server: true})
}

func (r *Run) add(e *End) *End {
	e.settled = make(chan struct{})
	r.ends = append(r.ends, e)
	return e
}

// A payload is the sender's clock, for the judge, and the same instant as a TS23, once the
// sender knows the receiver's clock.
const plainPayload, stampedPayload = 8, 8 + 3

// Send gives payloads to send until ctx is done, each with the time at which it is sent.
func (e *End) Send(ctx context.Context, send func(payload []byte, sentUsec uint64) error) error {
	for tick := time.NewTicker(every); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := e.clock.Now()
		payload := binary.LittleEndian.AppendUint64(make([]byte, 0, stampedPayload), now)
		if ts, ok := e.link.ToRemoteTime23(now); ok {
			payload, _ = ts.AppendBinary(payload) // which never fails
		}
		if err := send(payload, now); err != nil {
			return err
		}
	}
}

// Judge compares with the truth what a received payload says, and what the link says now.
// owd is the one-way delay of its datagram, if that is known.
func (e *End) Judge(payload []byte, receivedUsec uint64, owd time.Duration, known bool) {
	now := program.True().Microseconds()
	remote, ok := e.link.RemoteTime(e.clock.At(now))
	bound, _ := e.link.ErrorBound(e.clock.At(now))
	if !ok || !known || len(payload) != stampedPayload {
		return
	}
	sent := e.peer.True(binary.LittleEndian.Uint64(payload))
	received := e.clock.True(receivedUsec)
	event := timesync.FromLocalTime23(receivedUsec, timesync.ReadCounter23(payload[plainPayload:]))
	offset := size(int64(remote - e.peer.At(now)))

	e.mu.Lock()
	defer e.mu.Unlock()
	if e.knows.IsZero() {
		if bound > vague {
			return
		}
		e.knows = time.Now()
	}
	if time.Since(e.knows) < settle {
		return
	}
	f := &e.found
	if len(f.offset) == 0 {
		close(e.settled)
	}
	f.offset = append(f.offset, offset)
	f.delay = append(f.delay, received-sent)
	f.owd = append(f.owd, size(owd.Microseconds()-(received-sent)))
	f.payload = append(f.payload, size(int64(event-e.clock.At(sent))))
	f.bound = append(f.bound, bound.Microseconds())
	if offset > bound.Microseconds()+1 {
		f.outside++
	}
}

func size(v int64) int64 { return max(v, -v) }
