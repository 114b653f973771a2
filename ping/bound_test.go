// These tests prove that the truth lies within the error bound, and that the bound is no
// wider than it must be.

package ping

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestBoundHolds: in 10^4 random worlds, the truth lies within the error bound in 100 %
// of queries, of the present and up to 100 s ahead, also by a snapshot of the present, with ways as unequal as they come,
// skew up to what the bound allows for, jitter, loss, hold times, every rule and all
// settings; readings do not go back without a step; and those of 20 ms before a reply to 20 ms after it stay.
func TestBoundHolds(t *testing.T) {
	most := 0.0
	play(t, worlds(), func(r *rand.Rand) { most = max(most, boundWorld(t, r)) })
	t.Logf("all within the bound; largest error over bound %.3f", most)
	if most < 0.99 {
		t.Errorf("no world came near its bound: largest share %.3f, the worlds are too kind", most)
	}
}

// boundWorld plays one world, and returns the largest share of its bound that an error used.
func boundWorld(t *testing.T, r *rand.Rand) (share float64) {
	upTo := func(n int64) int64 { return r.Int64N(n + 1) }
	c := &Clock{conf: Config{
		Rule:                 rules[r.IntN(len(rules))],
		SyncInterval:         time.Duration(50+upTo(2000)) * ms,
		Samples:              1 + r.IntN(64),
		AdjustSteps:          1 + r.IntN(16),
		RecalibrateThreshold: time.Duration(1+upTo(1000)) * ms,
	}}
	w := newWorld(c)
	w.base, w.offset, w.hold = r.Uint64(), r.Uint64(), upTo(100*usMs)
	w.ppb = upTo(2*maxSkewPPM*1000) - maxSkewPPM*1000
	if r.IntN(4) == 0 {
		w.ppb = maxSkewPPM * 1000 * (2*upTo(1) - 1)
	}
	jitter := upTo(50*usMs) * upTo(1)
	w.up, w.down = exponential(r, upTo(300*usMs), jitter), exponential(r, upTo(300*usMs), jitter)
	if r.IntN(4) == 0 {
		w.down = constant(0) // as unequal as can be
	}
	loss := r.Float64() * 0.4
	w.lost = func() bool { return r.Float64() < loss }
	m := watcher{last: noSnapshot}
	var before *published
	w.heard = func(exchange) {
		after := c.known.Load()
		for ago := uint64(1); before != nil && before.always.Steps == after.always.Steps && ago < 2*settleUsec; ago += 3333 {
			at := w.local() + settleUsec - ago
			check(t, after.read(at), before.read(at), "reading for %d us", at)
		}
		before = after
	}
	w.keepPinging()
	for range 100 {
		w.run(time.Duration(r.ExpFloat64() * float64(300*ms)))
		if m.look(t, w); m.last == noSnapshot {
			continue
		}
		for _, ahead := range []int64{0, upTo(100 * usSec)} {
			kept := w.snapshot(t)
			w.t += ahead
			e := magnitude(w.errorUsec(t))
			if kept = kept.At(w.local()); magnitude(int64(kept.RemoteUsec-w.remote())) > uint64(kept.ErrorBound.Microseconds()) {
				t.Errorf("kept for %d us: the truth is %d, %+v", ahead, w.remote(), kept)
			}
			bound, _ := c.ErrorBound(w.local())
			w.t -= ahead
			if e > uint64(bound.Microseconds()) {
				t.Errorf("error %d us, bound %v, %d us ahead: %+v", e, bound, ahead, m.last)
			}
			share = max(share, float64(e)/float64(bound.Microseconds()))
		}
	}
	return share
}
