// What the tests and benchmarks of this package share: streams for a synchronizer and for
// the baseline, checked to be right before anything is measured.
package bench

import (
	"testing"
	"time"

	"timesync"
	"timesync/internal/rivals"
)

// datagram is what arrives.
type datagram struct {
	ts24 timesync.Counter24
	recv uint64
}

// stream hands out stamps.
type stream struct{ Stream }

func newStreams(n int) []stream {
	s := make([]stream, n)
	for i, each := range NewStreams(n) {
		s[i].Stream = each
	}
	return s
}

func (s *stream) next() datagram {
	sent, recv := s.Next()
	return datagram{timesync.LocalTimeToDatagramTS24(sent), recv}
}

// report returns what the peer reports.
func (s *stream) report() timesync.Counter24 { return timesync.LocalTimeToDatagramTS24(s.Report()) }

// off returns by how much a remote time is off, us: it is known modulo 67.1 s.
func off(got, truth uint64) int64 { return int64((got-truth)<<38) >> 38 }

// run brings a synchronizer and the baseline to where they are after d.
func (s *stream) run(t testing.TB, ours *timesync.TimeSynchronizer, base *rivals.Original, d time.Duration) {
	t.Helper()
	for range int(d/time.Second) * 60 {
		s.both(ours, base, s.next())
	}
	truth := s.Remote(s.Now)
	if got, ok := ours.RemoteTime(s.Now); !ok || off(got, truth) < -2000 || off(got, truth) > 2000 {
		t.Fatalf("RemoteTime is %d us off, ok %v", off(got, truth), ok)
	}
	if got := timesync.Counter23(base.Remote23(s.Now)).Distance(timesync.NewCounter23(truth >> 3)); max(got, -got) > 500 {
		t.Fatalf("the baseline is %d units off", got)
	}
}

// both hands a datagram to both, and a report every 2 s.
func (s *stream) both(ours *timesync.TimeSynchronizer, base *rivals.Original, d datagram) {
	ours.OnAuthenticatedDatagramTimestamp(d.ts24, d.recv)
	base.Datagram(uint32(d.ts24), d.recv)
	if s.N%120 == 5 {
		ours.OnPeerMinDeltaTS24(s.report(), d.recv)
		base.OnPeerMinDelta(uint32(s.report()), 0)
	}
}
