// SPDX-License-Identifier: BSD-3-Clause

package channelbench

import (
	"context"
	"encoding/binary"
	"time"

	"timesync"
	"timesync/examples/channel"
	"timesync/examples/internal/program"
)

// End is one end of a connection, measured.
type End struct {
	run         *Run
	clock, peer program.Clock
	channel     *channel.Peer
	found       *Found        // of its side
	settled     chan struct{} // closed when the first datagram is judged

	// run.mu guards these.
	knows  time.Time // when it first knew the other's clock
	judged int       // datagrams
}

// Client and Server add an end. A connection has one of each; clock is the client's.
func (r *Run) Client(p *channel.Peer, clock program.Clock) *End {
	return r.add(&End{channel: p, clock: clock, peer: ServerClock, found: &r.client})
}

func (r *Run) Server(p *channel.Peer, clock program.Clock) *End {
	return r.add(&End{channel: p, clock: ServerClock, peer: clock, found: &r.server})
}

func (r *Run) add(e *End) *End {
	e.run, e.settled = r, make(chan struct{})
	r.ends = append(r.ends, e)
	return e
}

// A payload is the sender's clock, for the judge, and the same instant as a TS23, once the
// sender knows the receiver's clock.
const plainPayload, stampedPayload = 8, 8 + 3

// Serve sends, and judges what receive returns, until ctx is done, and then closes the connection.
func (e *End) Serve(ctx context.Context, receive func() (channel.Received, error), closes func() error) {
	e.Send(ctx)
	e.run.Go(func() error {
		for {
			r, err := receive()
			if err != nil {
				return err
			}
			e.Judge(r)
		}
	})
	e.run.Go(func() error {
		<-ctx.Done()
		return closes()
	})
}

// Send sends payloads until ctx is done.
func (e *End) Send(ctx context.Context) {
	e.run.Every(ctx, every, func() error {
		now := e.clock.Now()
		payload := binary.LittleEndian.AppendUint64(make([]byte, 0, stampedPayload), now)
		if ts, ok := e.channel.ToRemoteTime23(now); ok {
			payload, _ = ts.AppendBinary(payload) // which never fails
		}
		return e.channel.Send(payload, now)
	})
}

// Judge compares with the truth what has come, and what the link says now. What is longer than a
// payload is bulk.
func (e *End) Judge(r channel.Received) {
	now := program.True().Microseconds()
	remote, ok := e.channel.RemoteTime(e.clock.At(now))
	bound, _ := e.channel.ErrorBound(e.clock.At(now))
	if len(r.Payload) > stampedPayload {
		e.run.Write(r.Payload)
	}
	if !ok || !r.Known || len(r.Payload) != stampedPayload {
		return
	}
	sent := e.peer.True(binary.LittleEndian.Uint64(r.Payload))
	received := e.clock.True(r.At)
	event := timesync.FromLocalTime23(r.At, timesync.ReadCounter23(r.Payload[plainPayload:]))
	offset := size(int64(remote - e.peer.At(now)))

	e.run.mu.Lock()
	defer e.run.mu.Unlock()
	if e.knows.IsZero() && bound <= vague {
		e.knows = time.Now()
	}
	if e.run.over || e.knows.IsZero() || time.Since(e.knows) < settle {
		return
	}
	if e.judged++; e.judged == 1 {
		close(e.settled)
	}
	delay, f := received-sent, e.found
	f.OffsetError = append(f.OffsetError, offset)
	f.OneWayDelay = append(f.OneWayDelay, delay)
	f.OneWayDelayError = append(f.OneWayDelayError, size(r.Delay.Microseconds()-delay))
	f.TS23Error = append(f.TS23Error, size(int64(event-e.clock.At(sent))))
	f.ErrorBound = append(f.ErrorBound, bound.Microseconds())
	if offset > bound.Microseconds()+1 {
		f.Outside++
	}
}

func size(v int64) int64 { return max(v, -v) }
