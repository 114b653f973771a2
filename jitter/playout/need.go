// SPDX-License-Identifier: BSD-3-Clause

package playout

import (
	"time"

	"timesync/jitter"
)

const (
	// A need follows what the estimator says within needTime. The estimator's wait changes with
	// each arrival, and a listener would hear that.
	needTime = 4e6 // us
	// Between two arrivals at most needStep counts as passed: a silence tells nothing new.
	needStep = 100_000 // us
)

// need is how long after its capture a frame must be given out, in us, so that no more than a
// share of them comes too late. It grows at once where one does, and follows the estimator
// slowly where none does.
type need struct {
	estimator jitter.Estimator
	usec      float64
	last      uint64 // arrival
	begun     bool
}

// add takes a frame, by times since the first one.
func (n *need) add(captured, now time.Duration, nowUsec uint64) {
	n.estimator.Add(captured, now)
	d, _ := n.estimator.Wait()
	wait := float64(d.Microseconds())
	passed := min(max(int64(nowUsec-n.last), 0), needStep)
	n.last = nowUsec
	late := float64((now - captured).Microseconds()) > n.usec
	switch {
	case !n.begun:
		n.begun = true
		n.usec = wait
	case late && wait > n.usec:
		n.usec = wait
	default:
		n.usec += (wait - n.usec) * float64(passed) / needTime
	}
}

// restart forgets the arrivals, and goes on from a need that was right before them.
func (n *need) restart(usec float64) {
	n.estimator.Reset()
	n.usec = usec
}
