package ping

import (
	"slices"
	"testing"
	"time"
)

// TestRoundTrips: the percentiles are the smallest round trips that 20, 50 and 80 percent of the
// last 64 exchanges do not exceed; exchanges before a clock was set do not count.
func TestRoundTrips(t *testing.T) {
	r := random(t)
	c := new(Clock)
	if a, b, d, ok := c.RoundTrips(); ok || a != 0 || b != 0 || d != 0 {
		t.Errorf("before the first exchange %v, %v, %v, %v", a, b, d, ok)
	}
	var trips []int64
	ahead := uint64(5_000_000)
	for i := range uint64(300) {
		if i == 150 {
			ahead += 60_000_000
			trips = nil
		}
		now, hold := 1_000_000+i*100_000, uint64(r.IntN(5000))
		trip := uint64(20_000 + r.IntN(20)*1000)
		trips = append(trips, int64(trip))
		answer(c, now, now+ahead+trip/2, now+ahead+trip/2+hold, now+trip+hold)
		last := slices.Clone(trips[max(0, len(trips)-DefaultSamples):])
		slices.Sort(last)
		p20, p50, p80, ok := c.RoundTrips()
		for percent, got := range map[int]time.Duration{20: p20, 50: p50, 80: p80} {
			under := func(limit time.Duration) (n int) {
				for _, v := range last {
					if time.Duration(v)*time.Microsecond <= limit {
						n++
					}
				}
				return n
			}
			if !ok || 100*under(got) < percent*len(last) || 100*under(got-time.Microsecond) >= percent*len(last) {
				t.Fatalf("after %d exchanges of %v us: %d %% is %v, %v", len(trips), last, percent, got, ok)
			}
		}
	}
	c.Reset(1)
	if _, _, _, ok := c.RoundTrips(); ok {
		t.Error("known after Reset")
	}
}
