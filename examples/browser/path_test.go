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
		p.is.Store(&conditions{Delay: 7, Jitter: 10, Loss: 2})
		const n = 100
		got := make(chan int, n)
		start := time.Now()
		for i := range n {
			p.carry(func() { got <- i })
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

// A loss delays a stream by a retransmission and a round trip.
func TestStreamLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPath(t.Context(), true)
		p.is.Store(&conditions{Delay: 10, Loss: 100})
		arrived := make(chan time.Time)
		start := time.Now()
		p.carry(func() { arrived <- time.Now() })
		if d := (<-arrived).Sub(start); d != 230*time.Millisecond {
			t.Errorf("after %v", d)
		}
	})
}

// Datagrams take the delay, and get lost as often as wished. A path holds no more of them than its
// queue has room for.
func TestDatagrams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPath(t.Context(), false)
		var came atomic.Int64
		send := func(n int) (arrived int64) { // after 3 ms
			for range n {
				p.carry(func() { came.Add(1) })
			}
			time.Sleep(3*time.Millisecond - 1)
			if came.Load() != 0 {
				t.Error("one came early")
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			return came.Swap(0)
		}
		p.is.Store(&conditions{Delay: 3, Loss: 25})
		const n = 4000
		arrived := int64(0)
		for range n {
			arrived += send(1)
		}
		// The deviation of the share is 0.7 %: 5 % off is no chance.
		if math.Abs(float64(arrived)/n-0.75) > 0.05 {
			t.Errorf("%d of %d arrive", arrived, n)
		}
		p.is.Store(&conditions{Delay: 3})
		for range 2 {
			if got := send(3 * most); got != most {
				t.Errorf("%d of %d datagrams arrive, not %d", got, 3*most, most)
			}
		}
		// One that is perfect costs nothing: the datagram is delivered at once.
		p.is.Store(new(conditions))
		if p.carry(func() { came.Add(1) }); came.Load() != 1 {
			t.Error("without any delay it waits")
		}
	})
}

// Whatever a page asks for, a message takes from 0 to 6 s.
func TestConditions(t *testing.T) {
	for _, c := range []conditions{
		{Delay: -1},
		{Jitter: -1e300},
		{Delay: 1e300},
		{Delay: 1e9, Jitter: 1e9, Loss: 1e9},
		{Loss: -5},
	} {
		p := newPath(t.Context(), false)
		p.is.Store(&c)
		if delay, _ := p.draw(); delay < 0 || delay > 6*time.Second {
			t.Errorf("%+v: %v", c, delay)
		}
	}
}
