// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that the simulated path keeps a stream in order and treats datagrams as
// it is told.

package main

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"
)

// A stream keeps its order whatever the jitter and the loss, and loses nothing.
func TestStreamOrder(t *testing.T) {
	p := newPath(t.Context(), true)
	p.set(conditions{Latency: 5, Uphill: 2, Jitter: 10, Loss: 2})
	const n = 100
	got := make(chan int, n)
	start := time.Now()
	for i := range n {
		p.message(func() { got <- i })
	}
	for want := range n {
		select {
		case i := <-got:
			if i != want {
				t.Fatalf("message %d came for %d", i, want)
			}
			if d := time.Since(start); d < 7*time.Millisecond {
				t.Fatalf("after %v only", d)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("message %d was lost", want)
		}
	}
}

// Datagrams take at least the latency, and get lost as often as wished.
func TestDatagrams(t *testing.T) {
	p := newPath(t.Context(), false)
	p.set(conditions{Latency: 3, Uphill: 1000, Loss: 25})
	const n = 4000
	var came, early atomic.Int64
	for range n / 1000 { // the queue has room for so many
		start := time.Now()
		for range 1000 {
			p.datagram(func() {
				came.Add(1)
				if time.Since(start) < 3*time.Millisecond {
					early.Add(1)
				}
			})
		}
		for end := time.Now().Add(testTime); p.flying.Load() > 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond) // the last one is off the queue, and then it comes
	}
	// The deviation of the share is 0.7 %: 5 % off is no chance.
	if lost := 1 - float64(came.Load())/n; math.Abs(lost-0.25) > 0.05 || early.Load() != 0 {
		t.Errorf("lost %.3f, %d came early", lost, early.Load())
	}
}

// A path that is long holds no more datagrams than its queue has room for.
func TestDatagramQueue(t *testing.T) {
	p := newPath(t.Context(), true)
	p.set(conditions{Latency: 200})
	var came atomic.Int64
	for range 2 {
		for range 3 * queue {
			p.datagram(func() { came.Add(1) })
		}
		for end := time.Now().Add(testTime); came.Load() < queue && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond) // for those that must not come
		if n := came.Swap(0); n != queue {
			t.Errorf("%d of %d datagrams arrived, want %d", n, 3*queue, queue)
		}
	}
}

// A path that is perfect costs nothing: the datagram is delivered at once.
func TestPerfectPath(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	delivered := false
	newPath(ctx, true).datagram(func() { delivered = true })
	if !delivered {
		t.Error("it waits")
	}
}

// Whatever a page asks for, a message takes up to 6 s, and twice as long where it was lost.
func TestConditions(t *testing.T) {
	for _, c := range []conditions{{Latency: -1}, {Jitter: -1e300}, {Uphill: 1e300}, {Latency: 1e9, Uphill: 1e9, Loss: 1e9}} {
		p := newPath(t.Context(), true)
		p.set(c)
		if delay, _, roundTrip := p.draw(); delay < 0 || delay > 6*time.Second || roundTrip < 0 || roundTrip > 6*time.Second {
			t.Errorf("%+v: %v, a round trip %v", c, delay, roundTrip)
		}
	}
}
