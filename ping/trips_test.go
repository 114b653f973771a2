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
	var trips []time.Duration
	ahead := uint64(5_000_000)
	for i := range uint64(300) {
		if i == 150 {
			ahead += 60_000_000
			trips = nil
		}
		now, hold := 1_000_000+i*100_000, uint64(r.IntN(5000))
		trip := uint64(20_000 + r.IntN(20)*1000)
		trips = append(trips, time.Duration(trip)*us)
		answer(c, now, now+ahead+trip/2, now+ahead+trip/2+hold, now+trip+hold)
		last := slices.Sorted(slices.Values(trips[max(0, len(trips)-DefaultSamples):]))
		p20, p50, p80, _ := c.RoundTrips()
		for percent, got := range map[int]time.Duration{20: p20, 50: p50, 80: p80} {
			first, _ := slices.BinarySearch(last, got)
			under, _ := slices.BinarySearch(last, got+1)
			if 100*under < percent*len(last) || 100*first >= percent*len(last) {
				t.Fatalf("after %d exchanges of %v: %d %% is %v", len(trips), last, percent, got)
			}
		}
	}
}
