// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// conditions is what the sliders of a page say, above all about its path. The server makes the path
// so, since the loopback interface is perfect.
type conditions struct {
	Latency float64 `json:"latency"` // ms, each way
	Uphill  float64 `json:"uphill"`  // ms, more on the way to the server
	Jitter  float64 `json:"jitter"`  // ms, the mean of what comes on top
	Loss    float64 `json:"loss"`    // percent
	Rate    uint32  `json:"rate"`    // ticks a second, for all; 0: as before
}

const (
	// maxDelay bounds all delays together, in milliseconds; more is no use here.
	maxDelay = 6000
	// retransmission is by how much the loss of a segment delays a stream, besides a
	// round trip: Linux waits for at least 200 ms (TCP_RTO_MIN).
	retransmission = 200 * time.Millisecond
	// most messages wait in a queue, and as many datagrams. At 120 a second and 6 s of delay there are 720.
	most = 1024
)

// queue is what a goroutine does, one after the other.
type queue chan func()

// newQueue makes one that is worked off until ctx ends.
func newQueue(ctx context.Context) queue {
	q := make(queue, most)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case do := <-q:
				do()
			}
		}
	}()
	return q
}

// add drops what the queue has no room for: all here is sent again and again.
func (q queue) add(do func()) {
	select {
	case q <- do:
	default:
	}
}

// path is one way between the server and one page. Datagrams get lost and overtake each
// other; messages of a stream do not, but a loss delays all that follow.
type path struct {
	up     bool
	is     atomic.Pointer[conditions]
	stream queue
	flying atomic.Int64 // datagrams that wait
}

// newPath returns a path that delivers the messages of its stream until ctx ends.
func newPath(ctx context.Context, up bool) *path {
	p := &path{up: up, stream: newQueue(ctx)}
	p.is.Store(new(conditions))
	return p
}

// draw returns how long the next message takes, and whether it gets lost.
func (p *path) draw() (delay time.Duration, lost bool, roundTrip time.Duration) {
	c := p.is.Load()
	ms := c.Latency + rand.ExpFloat64()*c.Jitter
	if p.up {
		ms += c.Uphill
	}
	return milliseconds(ms), rand.Float64()*100 < c.Loss, milliseconds(2*c.Latency + c.Uphill)
}

// milliseconds is no less than 0 and no more than maxDelay, whatever a page asks for.
func milliseconds(ms float64) time.Duration {
	return time.Duration(min(max(ms, 0), maxDelay) * float64(time.Millisecond))
}

// datagram calls deliver when a datagram that is sent now arrives, if it does: at once, or
// on a goroutine of its own. One too many is lost, as at any full queue.
func (p *path) datagram(deliver func()) {
	switch delay, lost, _ := p.draw(); {
	case lost:
	case delay == 0:
		deliver()
	case p.flying.Add(1) > most:
		p.flying.Add(-1)
	default:
		time.AfterFunc(delay, func() {
			p.flying.Add(-1)
			deliver()
		})
	}
}

// message calls deliver when a message of the stream that is sent now arrives, on the goroutine of the stream.
func (p *path) message(deliver func()) {
	delay, lost, roundTrip := p.draw()
	if lost {
		delay += roundTrip + retransmission
	}
	arrives := time.Now().Add(delay)
	p.stream.add(func() {
		time.Sleep(time.Until(arrives))
		deliver()
	})
}
