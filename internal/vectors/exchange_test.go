// These tests prove what one exchange of datagrams makes of a timestamp: how far it may lie
// from the truth.
package vectors

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"timesync"
	"timesync/internal/testkit"
)

// TestRoundTripError states what the roundings add. After an exchange without noise and with
// equal delays, a timestamp of 23 bits comes back at most 7 us wrong around zero, one of 16
// bits at most 258 us. After a single datagram each way it is 11 us at most: two stamps, each
// cut to a unit of 8 us, and a report, whose remainder by 3 costs a unit, leave the offset
// open by as much, and the timestamp itself adds half a unit.
func TestRoundTripError(t *testing.T) {
	doc, err := os.ReadFile("../../doc.go")
	must(t, err)
	text := strings.Join(strings.Fields(strings.ReplaceAll(string(doc), "\n//", "\n")), " ")
	check := func(what string, errs []int64, worst int64, mean float64, said string) {
		sum := 0.0
		for _, e := range errs {
			sum += float64(e)
		}
		most, mid := testkit.SpreadOf(errs).Max, sum/float64(len(errs))
		if most > worst || math.Abs(mid) > mean || !strings.Contains(text, fmt.Sprintf(said, most)) {
			t.Errorf("%s: max %d us, mean %.2f us; limits %d and %.1f; doc.go should say so",
				what, most, mid, worst, mean)
		}
	}
	// exchange lets A stamp an event after datagrams each way, sent at the times
	// fromA and fromB of A's clock, and returns by how much B reads it wrongly.
	exchange := func(offset, delay uint64, fromA, fromB []uint64, meant uint64) (e23, e16 int64) {
		var a, b timesync.TimeSynchronizer
		for i := range fromA {
			b.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(fromA[i]),
				fromA[i]+offset+delay)
			a.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(fromB[i]+offset),
				fromB[i]+delay)
		}
		report, _ := b.MinDeltaTS24(meant + offset)
		a.OnPeerMinDeltaTS24(report, meant)
		ts23, ok23 := a.ToRemoteTime23(meant)
		ts16, ok16 := a.ToRemoteTime16(meant)
		if !ok23 || !ok16 {
			t.Fatal("not synchronized")
		}
		there := meant + offset
		return int64(timesync.FromLocalTime23(there+delay, ts23) - there),
			int64(timesync.FromLocalTime16(there+delay, ts16) - there)
	}

	var one23, many23, many16 []int64
	for i := range uint64(3 << 16) { // every phase of every time in its unit, every quality
		offset, delay, a, b, meant := i&15+i>>16<<3, i>>4&7, i>>7&7, i>>10&7, i>>13&7
		e23, _ := exchange(offset, delay, []uint64{1<<20 + a}, []uint64{1<<20 + b}, 1<<21+meant)
		one23 = append(one23, e23)
	}
	check("TS23, 1 datagram each way", one23, 13, 0.5, "one datagram each way it is %d us for a TS23")
	rng := rand.New(rand.NewPCG(1, 1))
	for range 4000 {
		base, fromA, fromB := rng.Uint64(), make([]uint64, 32), make([]uint64, 32)
		for i := range fromA {
			fromA[i] = base + uint64(i)*20_000 + rng.Uint64N(64)
			fromB[i] = fromA[i] + 10_000 + rng.Uint64N(64)
		}
		e23, e16 := exchange(rng.Uint64(), rng.Uint64N(100_000), fromA, fromB,
			base+1_000_000+rng.Uint64N(1000))
		many23, many16 = append(many23, e23), append(many16, e16)
	}
	check("TS23, 32 datagrams each way", many23, 9, 0.5, "as a TS23 is read within %d us")
	check("TS16, 32 datagrams each way", many16, 260, 16, "as a TS16 within %d us")
}

// TestBoundOfEarlyReport: since a report that came before the first datagram, the clocks may have
// drifted apart, two crystals by 100 ppm.
func TestBoundOfEarlyReport(t *testing.T) {
	var bounds [2]time.Duration
	for i, waited := range []uint64{0, 1_000_000} {
		var s timesync.TimeSynchronizer
		now := 1<<40 + waited
		s.OnPeerMinDeltaTS24(1000, 1<<40)
		s.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(now-8000), now)
		bounds[i], _ = s.ErrorBound(now)
	}
	if grown := bounds[1] - bounds[0]; bounds[0] < 8*time.Millisecond || grown < 100*time.Microsecond {
		t.Errorf("bound %v, after 1 s %v", bounds[0], bounds[1])
	}
}
