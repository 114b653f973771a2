// This test proves that sound over drawn paths is heard in time about as well as by the best
// latency that somebody could have chosen who knew the path in advance, with corrections that
// nobody hears.
package listening

import (
	"flag"
	"testing"
	"time"

	"timesync/internal/testkit"
)

var (
	first = flag.Uint64("listening.first", 1, "the first seed of the paths")
	seeds = flag.Uint64("listening.seeds", 1, "how many seeds each kind has")
)

// limits are what holds in each kind of path, whatever the seed.
var limits = map[string]struct {
	played, inTime float64 // shares, at least
	ratio          float64 // of the latency to the best fixed one, at most
	gaps           float64 // a minute, at most
}{
	"Wi-Fi power save":    {0.999, 0.955, 1.13, 6},
	"bufferbloat":         {0.999, 0.95, 1, 25},
	"handover":            {0.98, 0.88, 1, 8},
	"loss and reordering": {0.995, 0.985, 1.08, 15},
}

func TestHour(t *testing.T) {
	lasting := testkit.Sized(10*time.Minute, time.Hour, time.Hour)
	for _, kind := range Kinds {
		limit := limits[kind]
		for seed := *first; seed < *first+*seeds; seed++ {
			for _, ppm := range []float64{100, -100} {
				r, err := Judge(Config{
					Kind:       kind,
					Seed:       seed,
					Lasting:    lasting,
					CapturePPM: ppm,
					PlayPPM:    -ppm,
				})
				testkit.Must(t, err)
				t.Logf("%s, seed %d, %v ppm: %v", kind, seed, ppm, r)
				ratio := float64(r.Latency) / float64(r.FixedLatency)
				few := r.Played < limit.played || r.InTime < limit.inTime
				if few || ratio > limit.ratio || r.Gaps > limit.gaps {
					t.Errorf("%s, seed %d, %v ppm: %v; want %+v", kind, seed, ppm, r, limit)
				}
				if r.LargestOff > 0.02 || r.LongestAt2 > 0 {
					t.Errorf("%s, seed %d, %v ppm: pitch: %v", kind, seed, ppm, r)
				}
			}
		}
	}
}
