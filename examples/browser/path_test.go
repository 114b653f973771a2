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
		var came atomic.Int64
		send := func(n int) { // and wait
			for range n {
				p.datagram(func() { came.Add(1) })
			}
			time.Sleep(3*time.Millisecond - 1)
			if came.Load() != 0 {
				t.Error("one came early")
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
		}
		lost := 0
		for range n {
			send(1)
			lost += 1 - int(came.Swap(0))
		}
		// The deviation of the share is 0.7 %: 5 % off is no chance.
		if math.Abs(float64(lost)/n-0.25) > 0.05 {
			t.Errorf("lost %d of %d", lost, n)
		}
		// A path holds no more of them than its queue has room for.
		p.is.Store(&conditions{Latency: 3})
		for range 2 {
			if send(3 * most); came.Swap(0) != most {
				t.Errorf("of %d datagrams not %d arrived", 3*most, most)
			}
		}
		// One that is perfect costs nothing: the datagram is delivered at once.
		p.is.Store(new(conditions))
		if p.datagram(func() { came.Add(1) }); came.Load() != 1 {
			t.Error("without any delay it waits")
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
