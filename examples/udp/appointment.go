// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"sync"
	"time"

	"timesync"
	"timesync/examples/internal/program"
	"timesync/link"
)

// trusted is how far off the peer's clock may be at most: as much as the worst network of the
// demo makes it.
const trusted = time.Second

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

// propose returns what peer A says in a datagram that leaves now.
func (x *appointment) propose(p *peer, now time.Duration) (stamp timesync.Counter23, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	local := p.clock.at(now)
	if _, ok := p.end.Link.RemoteTime(local); ok && !x.made[0] {
		x.plan(p, 0, now, local+uint64(x.ahead.Microseconds()))
	}
	left := time.Duration(x.at[0]-local) * time.Microsecond
	if !x.made[0] || left < 0 {
		return 0, false
	}
	stamp, err := p.end.Link.ProposeInstant(local, local+uint64(left.Microseconds()), trusted)
	return stamp, err == nil
}

// accept takes what peer B hears now.
func (x *appointment) accept(p *peer, stamp timesync.Counter23, now time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at, err := link.AcceptInstant(p.clock.at(now), stamp)
	if x.done[1] == 0 && (err == nil || !x.made[1]) { // act late rather than never
		x.plan(p, 1, now, at)
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
	acts := program.Wait(func() time.Duration {
		x.mu.Lock()
		defer x.mu.Unlock()
		return p.clock.until(x.at[who], program.True())
	}, p.stop)
	if now := program.True(); acts {
		x.mu.Lock()
		x.done[who] = now
		x.mu.Unlock()
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
