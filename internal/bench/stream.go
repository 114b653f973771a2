// SPDX-License-Identifier: BSD-3-Clause

// Package bench measures what the calls of timesync cost, in its tests and benchmarks:
//
//	go test -run '^$' -bench . ./internal/bench
//
// The package itself is the traffic that they use. It does not import timesync, so that
// the tests of timesync can use it, too.
package bench

import "math/rand/v2"

// Stream is the datagrams of a peer whose clock is ahead by 2^33 us and 20 ppm fast:
// 60 a second over Delay with an exponential jitter of 3 ms.
type Stream struct {
	Now    uint64   // us: our clock when the last one was sent
	N      int      // datagrams so far
	Jitter []uint32 // us: of the datagrams, again and again
}

const (
	Delay   = 30_000  // us: what a datagram takes that does not queue
	Jitters = 1 << 14 // datagrams until the jitter begins again
)

// NewStreams returns n streams with different jitter.
func NewStreams(n int) []Stream {
	rng := rand.New(rand.NewPCG(6, 6))
	jitter := make([]uint32, Jitters+n)
	for i := range jitter {
		jitter[i] = uint32(rng.ExpFloat64() * 3000)
	}
	s := make([]Stream, n)
	for i := range s {
		s[i] = Stream{Now: 1<<40 + uint64(i)*16_667/uint64(n), Jitter: jitter[i : i+Jitters]}
	}
	return s
}

// Remote returns the peer's clock.
func (s *Stream) Remote(now uint64) uint64 { return now + now/50_000 + 1<<33 }

// Next returns the peer's clock when it sends the next datagram, and ours when it arrives.
func (s *Stream) Next() (sent, recv uint64) {
	s.N++
	s.Now += 16_667
	return s.Remote(s.Now), s.Now + Delay + uint64(s.Jitter[s.N%Jitters])
}

// Report returns what the peer's report says, us: the way there, and its clock minus ours.
func (s *Stream) Report() uint64 { return s.Remote(s.Now) - s.Now + Delay }
