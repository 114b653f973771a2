// These tests prove how the clock behaves: its schedule, what it asks, what it
// reads between replies, and what it does with extreme figures.

package ping

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestSkewFollows: through jitter, and when the skew changes.
func TestSkewFollows(t *testing.T) {
	r := random(t)
	worst := 0.0
	for range 10 {
		w := newWorld(new(Clock))
		w.up = exponential(r, 20*usMs, 3*usMs)
		w.down = exponential(r, 20*usMs, 3*usMs)
		w.keepPinging()
		for _, ppm := range []int64{50, -50} {
			w.jump += w.t * (w.ppb - ppm*1000) / 1_000_000_000 // no step
			w.ppb = ppm * 1000
			w.run(5 * time.Minute)
			got, ok := w.c.Skew()
			worst = max(worst, math.Abs(got-float64(ppm)))
			check(t, ok, true, "the skew is known")
		}
	}
	t.Logf("worst error of the skew %.1f ppm", worst)
	if worst > 12 {
		t.Errorf("skew off by %.1f ppm", worst)
	}
}

// TestReaders: one goroutine asks, handles replies and starts anew, while 8 read the present, and
// now and then ask, too. None sees the clock go back within one number of steps, a torn snapshot,
// or a reading beyond its bound. The race detector watches.
func TestReaders(t *testing.T) {
	r := random(t)
	c := new(Clock)
	w := newWorld(c)
	w.up = exponential(r, 20*usMs, 20*usMs)
	w.down = exponential(r, 20*usMs, 20*usMs)
	var now, reads atomic.Uint64 // now is the local clock that all see
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			last, asked := noSnapshot, uint64(0)
			for !done.Load() {
				runtime.Gosched() // js/wasm has one thread and does not interrupt it
				local := now.Load()
				s, ok := c.Snapshot(local)
				if !ok || now.Load()-local > 10_000 {
					continue // this goroutine was interrupted: that was not the present
				}
				reads.Add(1)
				if s.Steps == last.Steps && int64(s.RemoteUsec-last.RemoteUsec) < 0 {
					t.Errorf("went back from %d to %d", last.RemoteUsec, s.RemoteUsec)
					return
				}
				off := duration(int64(s.RemoteUsec - local - w.offset))
				agrees := s.OffsetUsec == int64(s.RemoteUsec-local)
				if s.ErrorBound < off.Abs() || s.MinimumOneWayDelay < 0 || !agrees {
					t.Errorf("torn, or %v off: %+v", off, s)
					return
				}
				last = s
				c.RoundTrips()
				c.Next(local)
				c.Count(Accepted)
				c.HandleReply(nil, local)
				if local-asked > 1_000_000 {
					asked = local
					c.AppendRequest(nil, local) // it gets lost
				}
			}
		})
	}
	w.every(100*ms, w.ping)
	w.every(sec, func() { c.Reset(0) })
	w.every(100*us, func() {
		now.Store(w.local())
		runtime.Gosched()
	})
	for seconds := 0; seconds < 4 || reads.Load() < 10_000 && seconds < 1000; seconds++ {
		w.run(sec)
	}
	done.Store(true)
	wg.Wait()
	t.Logf("%d reads of the present", reads.Load())
	if reads.Load() < 10_000 {
		t.Error("too few")
	}
}

// TestSettings: a negative interval is refused.
func TestSettings(t *testing.T) {
	c, err := NewClock(Config{SyncInterval: -1})
	if c != nil || err == nil || err.Error() != "ping: SyncInterval is negative: -1ns" {
		t.Error(err)
	}
	c, err = NewClock(Config{})
	if c == nil || err != nil {
		t.Error(err)
	}
}

func TestVerdictString(t *testing.T) {
	check(t, Impossible.String(), "impossible", "the last one")
	check(t, verdicts.String(), "invalid", "one more")
}

// TestAllocations: reading and answering take no memory.
func TestAllocations(t *testing.T) {
	w := newWorld(new(Clock))
	w.keepPinging()
	w.run(sec)
	dst := make([]byte, 0, ReplySize)
	request := w.c.AppendRequest(nil, w.local())
	check(t, testing.AllocsPerRun(100, func() {
		w.c.RemoteTime(w.local())
		w.c.LocalTime(w.local())
		w.c.ErrorBound(w.local())
		w.c.Skew()
		w.c.MinimumOneWayDelay()
		w.c.MinimumDelayToPeer()
		w.c.Snapshot(w.local())
		w.c.Next(w.local())
		w.c.HandleReply([]byte{1}, w.local())
		AppendReply(dst, request, 0, 1, 2)
	}), 0, "allocations")
}

// TestNonces: no nonce twice, and every bit of it varies.
func TestNonces(t *testing.T) {
	var c Clock
	seen := map[uint64]bool{}
	ones := uint64(0)
	zeros := uint64(0)
	for range 1000 {
		nonce := binary.LittleEndian.Uint64(c.AppendRequest(nil, 0)[RequestSize-8:])
		seen[nonce] = true
		ones |= nonce
		zeros |= ^nonce
	}
	check(t, len(seen), 1000, "different ones")
	check(t, ones, math.MaxUint64, "bits that were 1")
	check(t, zeros, math.MaxUint64, "bits that were 0")
}
