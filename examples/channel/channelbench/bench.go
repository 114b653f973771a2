// SPDX-License-Identifier: BSD-3-Clause

// Package channelbench measures how well peers keep time over a transport, for the examples: it
// gives each peer a clock of its own, sends a datagram every 16 ms each way, judges what
// the receiver makes of it, loads the machine or the transport, and prints a table.
//
// All peers are in one process, so that true time is known: it is that of
// program.True.
package channelbench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"timesync/internal/program"
)

const (
	// every is the time between two datagrams, each way, as in a game of 60 frames/s.
	every = 16 * time.Millisecond
	// vague: an end with a larger error bound does not know the other's clock.
	vague = time.Second
	// settle: an end is not judged until it has known that clock for this long.
	settle = 2 * time.Second
	// patience is the time until all ends are judged: bulk stalls a transport for seconds.
	patience = time.Minute
	// cores are those that a program uses, so that 2 busy goroutines are a burden anywhere.
	cores = 2
)

// The clocks are far apart, and their rates by 40 ppm, a bad pair of quartzes. That of the
// second client wraps around while it is measured.
var (
	ServerClock  = program.Clock{Start: 1 << 50}
	ClientClocks = []program.Clock{{Start: 0, PPM: 40}, {Start: 1<<64 - 5_000_000, PPM: -40}}
)

// Load is what goes on beside the datagrams.
type Load struct {
	name     string
	up, down bool  // bulk from each client to the server, and back
	busy     int   // goroutines that never pause
	limit    int64 // how wrong the 99th percentile of the offset may be, us
}

// Loads are the rows of the table.
func Loads(bulk string) []Load {
	return []Load{
		{name: "idle", limit: 2000},
		{name: bulk + " up", up: true, limit: 5000},
		{name: bulk + " both ways", up: true, down: true, limit: 5000},
		{name: "2 busy goroutines", busy: cores, limit: 5000},
	}
}

// A Connect connects a server and a client for each of ClientClocks, lets both ends of each
// connection send, receive and load it, and returns. It stops all that when ctx is done.
type Connect func(ctx context.Context, r *Run) error

// Run is one row: connections under one load.
type Run struct {
	Load
	bulk    atomic.Int64 // bytes received
	tasks   sync.WaitGroup
	stop    context.CancelCauseFunc
	settled chan struct{} // gets one of each end, with its first datagram that is judged

	mu             sync.Mutex
	client, server Found // the ends of all connections together
	// mbps are the megabytes (10^6) of bulk received each second, of all connections.
	mbps float64
}

// errOver is why a run ends that went well.
var errOver = errors.New("bench: measured")

// Measure connects, waits until all ends were judged for length, and closes all.
func Measure(ctx context.Context, load Load, length time.Duration, connect Connect) (*Run, error) {
	ctx, stop := context.WithCancelCause(ctx)
	ends := 2 * len(ClientClocks)
	r := &Run{Load: load, stop: stop, settled: make(chan struct{}, ends)}
	settling := time.AfterFunc(patience, func() {
		stop(fmt.Errorf("not every end knew the other's clock to %v within %v", vague, patience))
	})
	if err := connect(ctx, r); err != nil {
		stop(err)
	}
	for range load.busy {
		r.tasks.Go(func() {
			for ctx.Err() == nil {
			}
		})
	}
	begin := time.Now()
	for range ends {
		select {
		case <-r.settled:
		case <-ctx.Done():
		}
	}
	settling.Stop()
	program.Sleep(ctx, length)
	stop(errOver) // unless it has ended for another reason
	r.mbps = float64(r.bulk.Load()) / 1e6 / time.Since(begin).Seconds()
	r.tasks.Wait()
	switch err := context.Cause(ctx); {
	case err != errOver:
		return nil, fmt.Errorf("%s: %w", load.name, err)
	case (load.up || load.down) && r.mbps == 0:
		return nil, fmt.Errorf("%s: no bulk arrived", load.name)
	}
	return r, nil
}

// Go runs task in a goroutine that ends when ctx of the Connect is done. It fails with its error,
// unless the measurement is over.
func (r *Run) Go(task func() error) {
	r.tasks.Go(func() { r.fail(task()) })
}

// Every does a task again and again until ctx is done, and fails as Go does.
func (r *Run) Every(ctx context.Context, period time.Duration, task func() error) {
	r.tasks.Go(func() {
		program.Every(ctx.Done(), period, func() { r.fail(task()) })
	})
}

func (r *Run) fail(err error) {
	if err != nil {
		r.stop(err)
	}
}

// Write counts bulk that has arrived. It can be called from any goroutine.
func (r *Run) Write(b []byte) (int, error) {
	r.bulk.Add(int64(len(b)))
	return len(b), nil
}
