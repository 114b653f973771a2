// This test proves the order of Counter16 for every pair of values that there is.
package vectors

import (
	"flag"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"timesync"
)

var long = flag.Bool("long", false, "try all pairs of 16-bit counters")

// TestCounter16AllPairs walks from a position once round the ring and counts: with -long
// from each, which are all 2^32 pairs.
func TestCounter16AllPairs(t *testing.T) {
	const size, half = 1 << 16, 1 << 15
	stride := 4099
	if *long {
		stride = 1
	}
	start := time.Now()
	var rows atomic.Int64
	var wg sync.WaitGroup
	for worker := range 2 {
		wg.Go(func() {
			for from := worker * stride; from < size; from += 2 * stride {
				b := timesync.Counter16(from)
				at := (from + half) % size
				for d := int32(-half); d < half; d++ {
					a := timesync.Counter16(at)
					if at++; at == size {
						at = 0
					}
					want := 1
					if d < 0 {
						want = -1
					}
					if d == 0 {
						want = 0
					} else if d == -half && a > b {
						want = 1
					}
					if a.Distance(b) != d || a.Compare(b) != want {
						t.Errorf("%#x and %#x: Distance %d, want %d; Compare %d, want %d", a, b, a.Distance(b), d, a.Compare(b), want)
						return
					}
				}
				rows.Add(1)
			}
		})
	}
	wg.Wait()
	pairs := rows.Load() * size
	t.Logf("%d pairs, %.4f of all, in %v", pairs, float64(pairs)/(1<<32), time.Since(start).Round(time.Millisecond))
	if stride == 1 && pairs != 1<<32 && !t.Failed() {
		t.Errorf("%d pairs are missing", 1<<32-pairs)
	}
}
