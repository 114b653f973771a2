// The method under test, as the simulation wants it.

package simtest

import (
	"flag"
	"math"
	"math/rand/v2"
	"time"

	"timesync"
	"timesync/internal/sim"
)

// seedFirst lets every test of accuracy play other worlds than those for which the
// estimator was made. Each such test logs it.
var seedFirst = flag.Uint64("seed.first", 0, "added to the seeds of the worlds by which accuracy is judged")

// newRand returns the random numbers of a seed; each use of the same seed has others.
func newRand(seed, use uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, use)) }

// dice draw what is random in a world.
type dice struct{ r *rand.Rand }

func (d dice) between(lo, hi float64) float64 { return lo + (hi-lo)*d.r.Float64() }

func (d dice) logBetween(lo, hi float64) float64 { return lo * math.Pow(hi/lo, d.r.Float64()) }

func (d dice) span(lo, hi time.Duration) time.Duration {
	return time.Duration(d.between(float64(lo), float64(hi)))
}

func (d dice) logSpan(lo, hi time.Duration) time.Duration {
	return time.Duration(d.logBetween(float64(lo), float64(hi)))
}

// sign is 1 or -1.
func (d dice) sign() float64 { return float64(1 - 2*d.r.IntN(2)) }

// subject is the TimeSynchronizer in the terms of package sim.
type subject struct {
	sim.Core
	at uint64 // local time of the last datagram
}

func (s *subject) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	s.at = recvUsec
	return s.Core.OnDatagram(ts24, recvUsec)
}

func (s *subject) Steps() int { return int(s.snapshot().Steps) }

func (s *subject) snapshot() timesync.Snapshot {
	snapshot, _ := s.Sync.Snapshot(s.at)
	return snapshot
}

// count is 1 if something is so.
func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// must returns what can be had: an error means that a file of the project is not there.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
