// This file tells which wrong answers nobody could have avoided, and its test proves that there
// are such: a clock that was set may look like a path that was shorter for a while.

package simtest

import (
	"math"
	"testing"
	"time"

	"timesync"
)

// shortest is what an end was shown of both paths: for how long the fastest datagram to here was
// under way, and the fastest from here as reports told, us, if the clocks had always been as
// they are now. What an attack or a clock that was set makes of it may be negative.
type shortest struct{ here, there float64 }

func (s *shortest) forget() { s.here, s.there = math.Inf(1), math.Inf(1) }

// datagram takes one that arrived when the remote minus the local clock was offset, us.
func (s *shortest) datagram(ts24 uint32, localUsec, offset uint64) {
	s.here = min(s.here, signedDelta(localUsec-uint64(ts24)*8+offset))
}

// report takes one that arrived when the remote minus the local clock was offset, us.
func (s *shortest) report(minDelta uint32, offset uint64) {
	s.there = min(s.there, signedDelta(uint64(minDelta)*8-offset))
}

// signedDelta returns a delay modulo 134 s, us.
func signedDelta(usec uint64) float64 { return float64(int64(usec<<37) >> 37) }

// offsetJumps says that the remote minus the local clock became larger by d, us.
func (s *shortest) offsetJumps(d int64) { s.here, s.there = s.here+float64(d), s.there-float64(d) }

// likeShorterPaths reports whether nobody could know that an answer which is off by err is
// further off than its bound. All that the end took may also come from a world in which no
// clock is ever set, and paths were shorter for a while: there the truth is where no delay is
// negative, and it is all within the bound. Longer paths must not widen it.
func (s *shortest) likeShorterPaths(err, bound float64) bool {
	const rounding = 16 // us: of a stamp and of a report
	low, high := -s.here, s.there
	return low <= high+rounding && err-bound <= low+rounding && err+bound >= high-rounding
}

// TestLikeAShorterPath proves that not every attack can be over for the bound after 15 s.
// Receive times that are 10 ms early for 25 s at both ends are, on these paths, what both
// ends would also see if two queues of 10 ms drained for 25 s and came back. A queue that
// comes must not widen the bound, so the bound must not forget the 25 s.
func TestLikeAShorterPath(t *testing.T) {
	type world struct {
		offset  int64    // us: B's clock minus A's
		delay   [2]int64 // us: from A, from B
		shorter int64    // us: for 25 s both ways take so much less
		early   int64    // us: or receive times are so early
	}
	honest := world{offset: 5e6, delay: [2]int64{30e3, 15e3}, shorter: 10e3}
	attacked := world{offset: honest.offset - 10e3, delay: [2]int64{40e3, 5e3}, early: 10e3}
	const begin, end, until, period = 60e6, 85e6, 235e6, 50_000

	var ends [2]timesync.TimeSynchronizer
	var narrow time.Duration
	beyond := 0
	for now := int64(0); now < until; now += period {
		for from := range ends {
			sent := now + int64(from)*honest.offset // both by the clocks of the ends, as arrives
			arrives := func(w world) int64 {
				at := sent + w.delay[from] + w.offset*int64(1-2*from)
				if begin <= now && now < end {
					at -= w.shorter + w.early
				}
				return at
			}
			if a, b := arrives(honest), arrives(attacked); a != b {
				t.Fatalf("%d us: the datagram from %c arrives at %d, or at %d in the other world", now, 'A'+rune(from), a, b)
			}
			local := uint64(arrives(honest))
			ends[1-from].OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(uint64(sent)), local)
			if report, ok := ends[from].MinDeltaTS24(uint64(sent)); ok && now%(10*period) == 0 {
				ends[1-from].OnPeerMinDeltaTS24(report, local)
			}
		}
		at := uint64(now + 40e3)
		a, ok := ends[0].Snapshot(at)
		off := func(w world) time.Duration {
			return (time.Duration(a.OffsetUsec-w.offset) * us).Abs()
		}
		switch {
		case now < 1e6:
		case !ok || off(honest) > a.ErrorBound:
			t.Fatalf("%d us: the offset is off by %v without an attack: %v", now, off(honest), a)
		case now == end-period:
			narrow = a.ErrorBound
		case now > end && a.ErrorBound > narrow*5/4:
			t.Fatalf("%d us: a queue widens the bound from %v to %v", now, narrow, a.ErrorBound)
		case now > end+attackOver && off(attacked) > a.ErrorBound:
			beyond++
		}
	}
	lasting := time.Duration(beyond) * period * us
	if lasting < 15*sec {
		t.Errorf("the truth of the attacked is outside of the bound for %v only", lasting)
	}
	t.Logf("15 s after the attack, the truth is still outside of %v for %v", narrow, lasting)
}
