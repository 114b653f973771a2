// SPDX-License-Identifier: BSD-3-Clause

package ping

import (
	"math"
	"time"

	"timesync"
)

// ends are the two ends of a conversation as package timesync has it. The client keeps both: its
// own, and the one that a server with a TimeSynchronizer would keep. A request is a datagram from
// here, a reply one from there, and each carries its end's report. Readers ask here.
type ends struct {
	here, there timesync.TimeSynchronizer

	// These never change.
	anew  bool   // an exchange contradicted the ends before these
	steps uint32 // jumps of the time until these began
}

// learn takes an exchange. There hears what the request would have told it, here what
// the reply tells.
func (e *ends) learn(x Exchange) {
	e.there.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(x.T1), x.T2)
	if report, ok := e.here.MinDeltaTS24(x.T1); ok {
		e.there.OnPeerMinDeltaTS24(report, x.T2)
	}
	e.here.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(x.T3), x.T4)
	e.here.Anchor(x.T4, x.T3)
	if report, ok := e.there.MinDeltaTS24(x.T3); ok {
		e.here.OnPeerMinDeltaTS24(report, x.T4)
	}
}

// contradict reports whether what is known and x cannot both be true of the same two clocks.
func (e *ends) contradict(x Exchange) bool {
	s, ok := e.here.Snapshot(x.T4)
	return ok && !x.allows(uint64(s.OffsetUsec), s.ErrorBound)
}

// surprised reports whether a message of x was faster than this path allows, by more
// than the jitter of the path and of a computer. Then a clock may have been set by
// less than the bound shows.
func (e *ends) surprised(x Exchange) bool {
	const hostJitter = 100 * time.Microsecond
	s, ok := e.here.Snapshot(x.T4)
	if !ok {
		return false
	}
	early := max(s.FloorScatter, hostJitter)
	to := duration(int64(x.T2-x.T1) - s.OffsetUsec)
	from := duration(s.OffsetUsec - int64(x.T3-x.T4))
	return to < s.MinimumDelayToPeer-early || from < s.MinimumOneWayDelay-early
}

// total returns the jumps of the time so far.
func (e *ends) total() uint32 {
	s, _ := e.here.Snapshot(0)
	return e.steps + s.Steps
}

// undisturbed returns how long ago, at localUsec, the last clock step was noticed. If none was,
// that is longer than anything.
func (e *ends) undisturbed(localUsec uint64) time.Duration {
	s, _ := e.here.Snapshot(localUsec)
	if !s.StepSeen {
		return math.MaxInt64
	}
	return s.SinceStep
}

// snapshot returns what is known at localUsec. Until interval has passed no reply is missing.
func (e *ends) snapshot(localUsec uint64, interval time.Duration) (s timesync.Snapshot, ok bool) {
	s, ok = e.here.Snapshot(localUsec)
	s.Steps += e.steps
	s.StepSeen = s.StepSeen || e.anew
	s.Age = max(s.Age-interval, 0)
	return s, ok
}
