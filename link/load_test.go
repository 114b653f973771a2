// SPDX-License-Identifier: BSD-3-Clause

// This test proves that no two goroutines get into each other's way.
package link

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestGoroutines: any goroutine may call anything. Two send, two receive, four read.
func TestGoroutines(t *testing.T) {
	var a, b Link
	var clock atomic.Uint64
	var wg sync.WaitGroup
	datagrams := make(chan []byte, 16)
	for range 2 {
		wg.Go(func() {
			for range 2000 {
				now := clock.Add(5000)
				b.Open(a.AppendHeader(nil, now), now)
				datagrams <- b.AppendHeader(nil, now)
			}
		})
		wg.Go(func() {
			for range 2000 {
				a.Open(<-datagrams, clock.Load())
			}
		})
		for _, l := range []*Link{&a, &b} {
			wg.Go(func() {
				for range 2000 {
					now := clock.Load()
					l.RemoteTime(now)
					l.ToRemoteTime23(now)
					l.ToRemoteTime16(now)
					l.Snapshot(now)
					l.ErrorBound(now)
					l.Skew()
					l.Stats()
					l.MinimumOneWayDelay()
					l.IsSynchronized()
					runtime.Gosched()
				}
			})
		}
	}
	wg.Wait()
	now := clock.Load()
	remote, ok := a.RemoteTime(now)
	if d := int64(remote - now); !ok || max(d, -d) > second {
		t.Errorf("one clock for both ends, but %d us apart, ok %v", d, ok)
	}
}

const second = 1_000_000 // us
