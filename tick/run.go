// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"context"
	"time"
)

// maxWait is how long Run waits at most, so that it notices what the network changes:
// the first synchronization, a Welcome, a step.
const maxWait = 50 * time.Millisecond

// Run starts, advances by Config.Clock until ctx ends or Stop is called, and stops.
// It waits for the moment at which the next tick starts, not for a time between ticks:
// a late tick does not delay those that follow. It returns the error of ctx, or nil
// after Stop. A run ends only what it started or found started: after a Stop another
// Run may follow at once, and begins when the handlers of the old one have returned.
func (l *loop) Run(ctx context.Context) error {
	life := l.start(l.cfg.Clock())
	defer l.stop(life)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		if err := ctx.Err(); err != nil { // of two that are ready, select takes any
			return err
		}
		_, ok := l.advance(l.cfg.Clock(), false)
		if l.life.Load() != life {
			return nil
		}
		wait := maxWait / 10 // for the handlers of another advance
		if ok {
			wait = l.wait(l.cfg.Clock())
		}
		timer.Reset(wait)
	}
}

// wait returns how long it is until the next tick starts.
func (l *loop) wait(nowUsec uint64) time.Duration {
	s := l.snap.Load()
	if s == nil {
		return maxWait / 10
	}
	if s.paused {
		return maxWait
	}
	until := s.rate.Duration(Tick(l.next.Load())) - s.read(predicted, nowUsec)
	return min(max(until+time.Microsecond, 0), maxWait)
}
