// The method under test, as the simulation wants it.

package sim_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"timesync"
)

// seedFirst lets every test of accuracy play other worlds than those for which the
// estimator was made. Each such test logs it.
var (
	seedFirst = flag.Uint64("seed.first", 0, "added to the seeds of the worlds by which accuracy is judged")
	long      = flag.Bool("long", false, "play as many worlds as the limits of all tests ask for")
)

// sized returns how many worlds to play: with -short, normally, and with -long.
func sized(short, normal, many int) int {
	switch {
	case testing.Short():
		return short
	case *long:
		return many
	}
	return normal
}

// subject is the TimeSynchronizer in the terms of this package.
type subject struct {
	s  timesync.TimeSynchronizer
	at uint64 // local time of the last datagram
}

// subjectFiles hold the estimator, seen from the module's root.
var subjectFiles = []string{"synchronizer.go"}

func (s *subject) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	s.at = recvUsec
	return s.s.OnAuthenticatedDatagramTimestamp(timesync.Counter24(ts24), recvUsec)
}

func (s *subject) MinDelta(localUsec uint64) (uint32, bool) {
	d, ok := s.s.MinDeltaTS24(localUsec)
	return uint32(d), ok
}

func (s *subject) OnPeerMinDelta(delta uint32, recvUsec uint64) {
	s.s.OnPeerMinDeltaTS24(timesync.Counter24(delta), recvUsec)
}

func (s *subject) RemoteTime(localUsec, nearUsec uint64) (uint64, bool) {
	remote, ok := s.s.RemoteTime(localUsec)
	return nearUsec + uint64(int64((remote-nearUsec)<<38)>>38), ok
}

func (s *subject) MinOWD() (time.Duration, bool) { return s.s.MinimumOneWayDelay() }

func (s *subject) Steps() int { return int(s.snapshot().Steps) }

func (s *subject) snapshot() timesync.Snapshot {
	snapshot, _ := s.s.Snapshot(s.at)
	return snapshot
}

// inside describes the state, for a look at one world.
func (s *subject) inside() string {
	if d, ok := any(&s.s).(interface{ DebugString() string }); ok {
		return d.DebugString()
	}
	return fmt.Sprint(s.snapshot(), s.s.Stats())
}
