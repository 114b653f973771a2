// SPDX-License-Identifier: BSD-3-Clause

package channelbench

import (
	"context"
	"encoding/binary"
	"time"

	"timesync"
	"timesync/examples/channel"
	"timesync/internal/program"
)

// End is one end of a connection, measured.
type End struct {
	*Run
	Clock program.Clock
	Peer  *channel.Peer // to be set before Serve or Judge
	Fill  bool          // this end sends bulk

	other  program.Clock
	found  *Found    // of its side
	knows  time.Time // when it first knew the other's clock
	judged bool
}

// Ends returns both ends of a connection; clock is the client's.
func (r *Run) Ends(clock program.Clock) (client, server *End) {
	client = &End{Run: r, Clock: clock, other: ServerClock, Fill: r.up, found: &r.client}
	server = &End{Run: r, Clock: ServerClock, other: clock, Fill: r.down, found: &r.server}
	return client, server
}

// A payload is the sender's clock, for the judge. The same instant as a TS23 follows once the
// sender knows the receiver's clock.
const (
	plainPayload   = 8
	stampedPayload = plainPayload + 3
)

// Serve sends, and judges what receive returns, until ctx is done. Then it closes the connection.
func (e *End) Serve(
	ctx context.Context, receive func() (channel.Received, error), closes func() error,
) {
	e.Send(ctx)
	e.Go(func() error {
		for {
			r, err := receive()
			if err != nil {
				return err
			}
			e.Judge(r)
		}
	})
	e.Go(func() error {
		<-ctx.Done()
		return closes()
	})
}

// Send sends payloads until ctx is done.
func (e *End) Send(ctx context.Context) {
	e.Every(ctx, every, func() error {
		now := e.Clock.Now()
		payload := make([]byte, 0, stampedPayload)
		payload = binary.LittleEndian.AppendUint64(payload, now)
		if ts, ok := e.Peer.ToRemoteTime23(now); ok {
			payload, _ = ts.AppendBinary(payload) // which never fails
		}
		return e.Peer.Send(payload, now)
	})
}

// Judge compares with the truth what has come, and what the link says now. What is longer than a
// payload is bulk.
func (e *End) Judge(r channel.Received) {
	now := program.True().Microseconds()
	remote, ok := e.Peer.RemoteTime(e.Clock.At(now))
	bound, _ := e.Peer.ErrorBound(e.Clock.At(now))
	if len(r.Payload) > stampedPayload {
		e.Write(r.Payload)
	}
	if !ok || !r.Known || len(r.Payload) != stampedPayload {
		return
	}
	sent := e.other.True(binary.LittleEndian.Uint64(r.Payload))
	delay := e.Clock.True(r.At) - sent
	event := timesync.FromLocalTime23(r.At, timesync.ReadCounter23(r.Payload[plainPayload:]))
	offsetError := size(int64(remote - e.other.At(now)))

	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.settledWith(bound) {
		return
	}
	f := e.found
	f.OffsetError = append(f.OffsetError, offsetError)
	f.OneWayDelay = append(f.OneWayDelay, delay)
	f.OneWayDelayError = append(f.OneWayDelayError, size(r.Delay.Microseconds()-delay))
	f.TS23Error = append(f.TS23Error, size(int64(event-e.Clock.At(sent))))
	f.ErrorBound = append(f.ErrorBound, bound.Microseconds())
	if offsetError > bound.Microseconds()+1 { // 1: its rounding
		f.Outside++
	}
}

// settledWith reports whether the end has known the other's clock for long enough to be judged. mu
// is held.
func (e *End) settledWith(bound time.Duration) bool {
	if e.knows.IsZero() && bound <= vague {
		e.knows = time.Now()
	}
	if e.knows.IsZero() || time.Since(e.knows) < settle {
		return false
	}
	if !e.judged {
		e.judged = true
		e.settled <- struct{}{}
	}
	return true
}

func size(v int64) int64 { return max(v, -v) }
