// A snapshot reads as its segments say, and never goes back.

package tick

import (
	"math"
	"testing"
	"time"
)

func TestSnapshotRead(t *testing.T) {
	const at = math.MaxUint64 - 5 // the local clock wraps
	for _, tt := range []struct {
		name  string
		skew  int64
		slew  slew
		after uint64 // microseconds
		want  time.Duration
	}{
		{"at its start", 0, slew{ms(5), 10_000}, 0, 0},
		{"before its start", 0, slew{ms(5), 10_000}, 1 << 63, 0},
		{"at rest", 0, slew{}, 1_000_000, time.Second},
		{"with skew", 100_000, slew{}, 1_000_000, time.Second + 100*time.Microsecond},
		{"slewed forward", 0, slew{ms(50), 10_000}, 1_000_000, time.Second + ms(10)},
		{"slewed backward", 0, slew{-ms(50), 10_000}, 1_000_000, time.Second - ms(10)},
		{"slew at its end", 0, slew{ms(5), 10_000}, 1_000_000, time.Second + ms(5)},
		{"standing still", 0, slew{-time.Hour, 1_000_000}, 1_000_000, 0},
		{"standing still, slower", -100_000, slew{-time.Hour, 1_000_000}, 1_000_000, 0},
		{"standing still, then on", 0, slew{-ms(400), 1_000_000}, 1_000_000, ms(600)},
		{"73 years on", 0, slew{}, math.MaxInt64, maxAhead * 1000},
	} {
		s := snapshot{atUsec: at, skewPPB: tt.skew, segments: [3]segment{predicted: {time.Hour, tt.slew}}}
		if got := s.read(predicted, at+tt.after) - time.Hour; got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		s.paused = true
		if got := s.read(predicted, at+tt.after); got != time.Hour {
			t.Errorf("%s: %v in a pause", tt.name, got)
		}
	}
	s := snapshot{segments: [3]segment{predicted: {base: 2*maxStart - ms(5)}}}
	if got := s.read(predicted, 1_000_000); got != 2*maxStart {
		t.Errorf("beyond the end: %v", got)
	}
}

// No clock goes back, and moving it changes no reading of that moment.
func TestSnapshotMove(t *testing.T) {
	rng := newRand(t)
	for range 10_000 {
		s := snapshot{atUsec: rng.Uint64(), skewPPB: rng.Int64N(2*maxSkewPPB) - maxSkewPPB}
		for i := range s.segments {
			s.segments[i] = segment{time.Duration(rng.Int64() >> 3), slew{time.Duration(rng.Int64N(1<<33) - 1<<32), rng.Int64N(1_000_001)}}
		}
		a := s.atUsec + rng.Uint64N(1<<(1+rng.IntN(30)))
		b := a + rng.Uint64N(1<<(1+rng.IntN(30)))
		before, first, later := s, s.clocks(a), s.clocks(b)
		for i := range s.segments {
			if s.read(i, a) < s.read(i, s.atUsec) || s.read(i, b) < s.read(i, a) {
				t.Fatalf("clock %d of %+v goes back between %d and %d", i, s, a, b)
			}
		}
		if compare(later.Shared, first.Shared) < 0 || compare(later.Server, first.Server) < 0 || compare(later.Predicted, first.Predicted) < 0 {
			t.Fatalf("%v after %v", later, first)
		}
		moved := s.move(a)
		for i := range s.segments {
			if s.read(i, a) != before.read(i, a) || moved[i] != s.segments[i].base-before.segments[i].base || s.segments[i].slew != (slew{}) {
				t.Fatalf("clock %d: %+v moved to %d is %+v, by %v", i, before, a, s, moved[i])
			}
		}
	}
}

// Snapshot is the three readers at one instant.
func TestSnapshotReaders(t *testing.T) {
	l := newClient(ClientConfig{}, &fakeRemote{delay: ms(50), ppm: 20}, time.Hour)
	if _, ok := l.Snapshot(0); ok {
		t.Error("a snapshot before the first Advance")
	}
	l.Advance(0)
	for _, now := range []uint64{0, 12_345, 1_000_000} {
		a, okA := l.Shared(now)
		b, okB := l.Server(now)
		c, okC := l.Predicted(now)
		if got, ok := l.Snapshot(now); got != (Clocks{a, b, c}) || !ok || !okA || !okB || !okC {
			t.Errorf("at %d: %v, but %v %v %v", now, got, a, b, c)
		}
	}
}
