package sim_test

import (
	"flag"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim"
)

// musts says what becomes of a must of the estimator under test that does not hold:
// an error of the test, or a line of its log as long as Floor is not finished
// (FLOOR.md).
var musts = flag.Bool("musts", false, "musts that the estimator under test does not meet are errors, not log lines")

// unmet reports a must that does not hold.
func unmet(t *testing.T, format string, args ...any) {
	t.Helper()
	if *musts {
		t.Errorf(format, args...)
	} else {
		t.Logf("unmet: "+format, args...)
	}
}

// subject is the estimator under test in all tests of bounds, faults, monotony, start,
// interop and traces. This file is all that knows which one it is; subjectFile and
// the table in ablation_test.go belong to it.
//
// To test the TimeSynchronizer instead, once it has these methods: embed core and
// call s.core.s.
type subject struct{ sim.Floor }

// subjectFile holds the subject, seen from this folder.
const subjectFile = "floor.go"

// ErrorBound returns how far RemoteTime may be off.
func (s *subject) ErrorBound(localUsec uint64) (time.Duration, bool) {
	return s.Floor.ErrorBound(localUsec)
}

// Reset forgets everything.
func (s *subject) Reset() { s.Floor.Reset() }

// Remote23 and Remote16 are ToRemoteTime23 and ToRemoteTime16.
func (s *subject) Remote23(localUsec uint64) (timesync.Counter23, bool) {
	remote, ok := s.RemoteTime(localUsec, 0)
	return timesync.NewCounter23(remote >> 3), ok
}

func (s *subject) Remote16(localUsec uint64) (timesync.Counter16, bool) {
	remote, ok := s.RemoteTime(localUsec, 0)
	return timesync.NewCounter16(remote >> 9), ok
}

// debugString returns the inner state of s, if it can tell.
func debugString(s *subject) string {
	if d, ok := any(&s.Floor).(interface{ DebugString() string }); ok {
		return d.DebugString()
	}
	return ""
}
