// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// conditions is what the sliders of a page say of one way. The server makes the way so, since the
// loopback interface is perfect.
type conditions struct {
	Delay  float64 `json:"delay"`  // ms
	Jitter float64 `json:"jitter"` // ms, the mean of what comes on top
	Loss   float64 `json:"loss"`   // percent
}

const (
	// maxDelay bounds the delay of a message, in milliseconds. More is no use here.
	maxDelay = 6000
	// retransmission is by how much the loss of a segment delays a stream, besides a round trip:
	// Linux waits for at least 200 ms (TCP_RTO_MIN).
	retransmission = 200 * time.Millisecond
	// most messages wait in a queue, and as many datagrams. At 60 a second and 6 s of delay there
	// are 360.
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

// path is one way between the server and a page.
type path struct {
	is     atomic.Pointer[conditions]
	stream queue        // nil: it carries datagrams
	flying atomic.Int64 // datagrams that wait
}

// newPath returns a path that delivers until ctx ends. Datagrams get lost and overtake each other.
// Messages of a stream do not, but a loss delays all that follow.
func newPath(ctx context.Context, stream bool) *path {
	p := &path{}
	p.is.Store(new(conditions))
	if stream {
		p.stream = newQueue(ctx)
	}
	return p
}

// carry calls deliver when what is sent now arrives, if it does.
func (p *path) carry(deliver func()) {
	delay, lost := p.draw()
	if p.stream != nil {
		p.message(delay, lost, deliver)
	} else if !lost {
		p.datagram(delay, deliver)
	}
}

// draw returns how long the next message takes, and whether it gets lost.
func (p *path) draw() (delay time.Duration, lost bool) {
	c := p.is.Load()
	delay = milliseconds(c.Delay + rand.ExpFloat64()*c.Jitter)
	return delay, rand.Float64()*100 < c.Loss
}

// milliseconds is no less than 0 and no more than maxDelay, whatever a page asks for.
func milliseconds(ms float64) time.Duration {
	return time.Duration(min(max(ms, 0), maxDelay) * float64(time.Millisecond))
}

// datagram delivers at once, or on a goroutine of its own. One too many is lost, as at any full
// queue.
func (p *path) datagram(delay time.Duration, deliver func()) {
	switch {
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

// message delivers on the goroutine of the stream. The other way is taken to be as long as this
// one.
func (p *path) message(delay time.Duration, lost bool, deliver func()) {
	if lost {
		delay += 2*milliseconds(p.is.Load().Delay) + retransmission
	}
	arrives := time.Now().Add(delay)
	p.stream.add(func() {
		time.Sleep(time.Until(arrives))
		deliver()
	})
}
