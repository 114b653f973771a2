// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"timesync"
)

// maxAhead is how far ahead an instant may be agreed. A TS23 reaches 16.8 s ahead, and a
// later one is read as past, without any sign.
const maxAhead = 16 * time.Second

func checkAhead(ahead time.Duration) error {
	if ahead < 0 || ahead > maxAhead {
		return fmt.Errorf("%v: must be from 0 to %v; a timestamp of 3 bytes reaches 16.8 s ahead", ahead, maxAhead)
	}
	return nil
}

// instantAhead returns the instant that is so far ahead of localUsec, in the peer's time;
// an error for more than 16 s, or while the offset is not known.
func instantAhead(k keeper, localUsec uint64, ahead time.Duration) (timesync.Counter23, error) {
	if err := checkAhead(ahead); err != nil {
		return 0, err
	}
	ts, ok := k.ToRemoteTime23(localUsec + uint64(ahead.Microseconds()))
	if !ok {
		return 0, fmt.Errorf("not synchronized")
	}
	return ts, nil
}

// appointment is an instant that peer A proposes and at which both peers act. A says it in
// each datagram as well as it then knows B's clock, so that a loss does no harm and an
// instant that is far ahead gets better. The peers know readings of their clocks; the true
// times are for the judge.
type appointment struct {
	ahead time.Duration

	mu            sync.Mutex
	made          [2]bool
	at            [2]uint64        // on the clocks of A and B
	planned, done [2]time.Duration // true times; 0: not yet
}

// propose returns what peer A says in a datagram that leaves now. It waits until the first
// seconds are over.
func (x *appointment) propose(p *peer, now time.Duration) (stamp timesync.Counter23, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	local := p.clock.at(now)
	if _, ok := p.keeper.RemoteTime(local); ok && now >= settling && !x.made[0] {
		x.plan(p, 0, now, local+uint64(x.ahead.Microseconds()))
	}
	left := time.Duration(x.at[0]-local) * time.Microsecond
	if !x.made[0] || left < 0 {
		return 0, false
	}
	stamp, err := instantAhead(p.keeper, local, left)
	return stamp, err == nil
}

// accept takes what peer B hears now.
func (x *appointment) accept(p *peer, stamp timesync.Counter23, now time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done[1] == 0 {
		x.plan(p, 1, now, timesync.FromLocalTime23(p.clock.at(now), stamp))
	}
}

// plan lets a peer act when its clock reads at.
func (x *appointment) plan(p *peer, who int, now time.Duration, at uint64) {
	x.at[who], x.planned[who] = at, now+p.clock.until(at, now)
	if !x.made[who] {
		x.made[who] = true
		p.tasks.Go(func() { x.act(p, who) })
	}
}

// act waits and acts.
func (x *appointment) act(p *peer, who int) {
	const awake = time.Millisecond     // timers may be so late
	const look = 10 * time.Millisecond // the plan may change
	for {
		now := p.now()
		x.mu.Lock()
		wait := p.clock.until(x.at[who], now)
		if wait <= 0 {
			x.done[who] = now
		}
		x.mu.Unlock()
		switch {
		case wait <= 0:
			return
		case wait <= awake:
			runtime.Gosched()
		default:
			select {
			case <-p.stop:
				return
			case <-time.After(min(wait-awake, look)):
			}
		}
	}
}

// appointmentResults say how far apart the two acts were, in true time.
type appointmentResults struct {
	Ahead   float64 `json:"ahead_s"`
	Planned int64   `json:"planned_apart_us"`
	Done    int64   `json:"done_apart_us"`
}

// results is nil if one of the peers has not acted.
func (x *appointment) results() *appointmentResults {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done[0] == 0 || x.done[1] == 0 {
		return nil
	}
	apart := func(t [2]time.Duration) int64 { return (t[0] - t[1]).Abs().Microseconds() }
	return &appointmentResults{seconds(x.ahead), apart(x.planned), apart(x.done)}
}
