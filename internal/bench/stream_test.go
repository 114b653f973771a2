// Package bench measures what the calls of timesync cost:
//
//	go test -run '^$' -bench . ./internal/bench
//
// This file is what its tests and benchmarks share: streams for a synchronizer and for the
// baseline, checked to be right before anything is measured.
package bench

import (
	"math/rand/v2"
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

// stream is the datagrams of a peer whose clock is ahead by 2^33 us and 20 ppm fast:
// 60 a second over Delay with an exponential jitter of 3 ms.
type stream struct {
	Now    uint64   // us: our clock when the last one was sent
	N      int      // datagrams so far
	Jitter []uint32 // us: of the datagrams, again and again
}

const (
	Delay   = 30_000  // us: what a datagram takes that does not queue
	Jitters = 1 << 14 // datagrams until the jitter begins again
)

// newStreams returns n streams with different jitter.
func newStreams(n int) []stream {
	rng := rand.New(rand.NewPCG(6, 6))
	jitter := make([]uint32, Jitters+n)
	for i := range jitter {
		jitter[i] = uint32(rng.ExpFloat64() * 3000)
	}
	s := make([]stream, n)
	for i := range s {
		s[i] = stream{Now: 1<<40 + uint64(i)*16_667/uint64(n), Jitter: jitter[i : i+Jitters]}
	}
	return s
}

// Remote returns the peer's clock.
func (s *stream) Remote(now uint64) uint64 { return now + now/50_000 + 1<<33 }

func (s *stream) next() datagram {
	s.N++
	s.Now += 16_667
	return datagram{timesync.LocalTimeToDatagramTS24(s.Remote(s.Now)), s.Now + Delay + uint64(s.Jitter[s.N%Jitters])}
}

// report returns what the peer reports: the way there, and its clock minus ours.
func (s *stream) report() timesync.Counter24 {
	return timesync.LocalTimeToDatagramTS24(s.Remote(s.Now) - s.Now + Delay)
}

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
