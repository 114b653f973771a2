// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that the simulated path keeps a stream in order and treats datagrams as
// it is told.

package main

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A stream keeps its order whatever the jitter and the loss, and loses nothing.
func TestStreamOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPath(t.Context(), true)
		p.is.Store(&conditions{Latency: 5, Uphill: 2, Jitter: 10, Loss: 2})
		const n = 100
		got := make(chan int, n)
		start := time.Now()
		for i := range n {
			p.message(func() { got <- i })
		}
		for want := range n {
			if i := <-got; i != want {
				t.Fatalf("message %d came for %d", i, want)
			}
			if d := time.Since(start); d < 7*time.Millisecond {
				t.Fatalf("after %v only", d)
			}
		}
	})
}

// Datagrams take the latency, and get lost as often as wished.
func TestDatagrams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPath(t.Context(), false)
		p.is.Store(&conditions{Latency: 3, Uphill: 1000, Loss: 25})
		const n = 4000
		var came, wrong atomic.Int64
		for range n {
			start := time.Now()
			p.datagram(func() {
				came.Add(1)
				if time.Since(start) != 3*time.Millisecond {
					wrong.Add(1)
				}
			})
			time.Sleep(10 * time.Microsecond)
		}
		time.Sleep(3 * time.Millisecond)
		// The deviation of the share is 0.7 %: 5 % off is no chance.
		if lost := 1 - float64(came.Load())/n; math.Abs(lost-0.25) > 0.05 || wrong.Load() != 0 {
			t.Errorf("lost %.3f, %d did not take 3 ms", lost, wrong.Load())
		}
	})
}

// A path that is long holds no more datagrams than its queue has room for. One that is perfect costs
// nothing: the datagram is delivered at once.
func TestDatagramQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPath(t.Context(), true)
		var came atomic.Int64
		if p.datagram(func() { came.Add(1) }); came.Swap(0) != 1 {
			t.Error("without any delay it waits")
		}
		p.is.Store(&conditions{Latency: 200})
		for range 2 {
			for range 3 * queue {
				p.datagram(func() { came.Add(1) })
			}
			time.Sleep(201 * time.Millisecond)
			if n := came.Swap(0); n != queue {
				t.Errorf("%d of %d datagrams arrived, want %d", n, 3*queue, queue)
			}
		}
	})
}

// Whatever a page asks for, a message takes up to 6 s, and twice as long where it was lost.
func TestConditions(t *testing.T) {
	for _, c := range []conditions{{Latency: -1}, {Jitter: -1e300}, {Uphill: 1e300}, {Latency: 1e9, Uphill: 1e9, Loss: 1e9}} {
		p := newPath(t.Context(), true)
		p.is.Store(&c)
		if delay, _, roundTrip := p.draw(); delay < 0 || delay > 6*time.Second || roundTrip < 0 || roundTrip > 6*time.Second {
			t.Errorf("%+v: %v, a round trip %v", c, delay, roundTrip)
		}
	}
}
