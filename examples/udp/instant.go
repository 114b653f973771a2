// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"time"

	"timesync"
	"timesync/examples/internal/program"
	"timesync/link"
)

// trusted is how far off the peer's clock may be at most: as much as the worst network of the
// demo makes it.
const trusted = time.Second

// act is what a peer does at an instant that peer A proposes and at which both act. A says it
// in each datagram as well as it then knows B's clock, so that a loss does no harm and an
// instant that is far ahead gets better. The peers know readings of their clocks; the true
// times are for the judge.
type act struct {
	at            uint64        // on the peer's clock
	planned, done time.Duration // true times; 0: not yet
}

// propose returns what peer A says in a datagram that leaves now.
func (j *judge) propose(now time.Duration) (stamp timesync.Counter23, ok bool) {
	if j.ahead == 0 || now-j.begun < settling || !j.end.Link.IsSynchronized() {
		return 0, false
	}
	local := j.clock.at(now)
	if j.planned == 0 {
		j.plan(local + uint64(j.ahead.Microseconds()))
	}
	stamp, err := j.end.Link.ProposeInstant(local, j.at, trusted)
	return stamp, err == nil
}

// accept takes what peer B hears now.
func (j *judge) accept(stamp timesync.Counter23, now time.Duration) {
	at, err := link.AcceptInstant(j.clock.at(now), stamp)
	if j.done == 0 && (err == nil || j.planned == 0) { // act late rather than never
		j.plan(at)
	}
}

// plan lets the peer act when its clock reads at.
func (j *judge) plan(at uint64) {
	first := j.planned == 0
	j.at, j.planned = at, j.clock.when(at)
	if first {
		j.tasks.Go(j.perform)
	}
}

// perform waits and acts.
func (j *judge) perform() {
	left := func() time.Duration {
		j.lock.Lock()
		defer j.lock.Unlock()
		return j.planned - program.True()
	}
	if program.Wait(left, j.stop) {
		now := program.True()
		j.lock.Lock()
		j.done = now
		j.lock.Unlock()
	}
}
