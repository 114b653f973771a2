// This test proves that the truth lies within the error bound in drawn worlds.

package ping

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestBoundHolds: in drawn worlds the truth lies within the error bound at all looks at the present
// at which Within is nil, and readings do not go back without a step. Ways are as unequal as they
// come, the skew is up to 500 ppm, with jitter, loss and hold times.
func TestBoundHolds(t *testing.T) {
	looks, beyond, bad := 0, 0, 0
	play(t, worlds(), func(r *rand.Rand) {
		l, b := boundWorld(t, r)
		looks += l
		beyond += b
		if b > 0 {
			bad++
		}
	})
	t.Logf("%d looks, %d beyond the bound, in %d of %d worlds", looks, beyond, bad, worlds())
	if beyond > 0 {
		t.Error("the bound is broken")
	}
}

// TestBoundWhileSlewing: in these worlds a correction waited while the one before was being slewed:
// readers went on to where that one led, farther from the truth than the bound allowed for.
func TestBoundWhileSlewing(t *testing.T) {
	for _, seed := range []uint64{0x4641558635dca508, 0x24f29de10b08d956, 0xb5c0500dca110555} {
		if _, beyond := boundWorld(t, rand.New(rand.NewPCG(seed, 0))); beyond > 0 {
			t.Errorf("seed %#x: %d looks beyond the bound", seed, beyond)
		}
	}
}

// boundWorld plays one world, and returns how many looks found Within nil, and how many of those
// the truth beyond the bound.
func boundWorld(t *testing.T, r *rand.Rand) (looks, beyond int) {
	upTo := func(n int64) int64 { return r.Int64N(n + 1) }
	w := newWorld(&Clock{conf: Config{SyncInterval: time.Duration(50+upTo(2000)) * ms}})
	w.base = r.Uint64()
	w.offset = r.Uint64()
	w.hold = upTo(100 * usMs)
	w.ppb = upTo(1_000_000) - 500_000
	jitter := upTo(50*usMs) * upTo(1)
	w.up = exponential(r, upTo(300*usMs), jitter)
	w.down = exponential(r, upTo(300*usMs), jitter)
	if r.IntN(4) == 0 {
		w.down = constant(0) // as unequal as can be
	}
	loss := r.Float64() * 0.4
	w.lost = func() bool { return r.Float64() < loss }
	last := noSnapshot
	w.keepPinging()
	for range 100 {
		w.run(time.Duration(r.ExpFloat64() * float64(300*ms)))
		s, ok := w.c.Snapshot(w.local())
		if !ok {
			continue
		}
		if s.Steps == last.Steps && int64(s.RemoteUsec-last.RemoteUsec) < 0 {
			t.Errorf("at %d us: went back", w.t)
		}
		last = s
		if s.Within(s.ErrorBound) != nil {
			continue
		}
		looks++
		if magnitude(w.errorUsec(t)) > uint64(s.ErrorBound.Microseconds()) {
			beyond++
		}
	}
	return looks, beyond
}
