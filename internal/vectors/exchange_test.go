// These tests prove what one exchange of datagrams makes of a timestamp: how far it may lie
// from the original's and from the truth.
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
)

// wrapped returns a-b the shorter way round on a ring of 2^bits microseconds.
func wrapped(a, b uint64, bits uint) int64 { return int64((a-b)<<(64-bits)) >> (64 - bits) }

// TestGoldenToRemote checks single exchanges. The original's result lies up to 18 us early and 7 us late of the truth;
// ours must be within the sum of both bounds of it.
func TestGoldenToRemote(t *testing.T) {
	for _, v := range Rows(t, "to_remote.csv") {
		recv, ts24, report, local, minOWD, rt23, rt16, nextTS24, nextRecv, nextOWD := v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9]
		if report == 0 {
			continue // to ours it says that the peer has heard nothing
		}
		var s timesync.TimeSynchronizer
		s.OnAuthenticatedDatagramTimestamp(timesync.NewCounter24(ts24), recv)
		s.OnPeerMinDeltaTS24(timesync.NewCounter24(report), recv)
		got23, ok23 := s.ToRemoteTime23(local)
		got16, ok16 := s.ToRemoteTime16(local)
		delay, _ := s.MinimumOneWayDelay()
		owd, _ := s.OnAuthenticatedDatagramTimestamp(timesync.NewCounter24(nextTS24), nextRecv)
		d23, d16 := wrapped(uint64(got23)<<3, rt23<<3, 26), wrapped(uint64(got16)<<9, rt16<<9, 25)
		if !ok23 || !ok16 || d23 < -8 || d23 > 16 || d16 < -512 || d16 > 1024 {
			t.Errorf("%v: ToRemoteTime23 and 16 are %d and %d us from the original's", v, d23, d16)
		}
		if minOWD == 0 {
			continue // the original says 0 for over 33.55 s
		}
		d, next := delay.Microseconds()-int64(minOWD), owd.Microseconds()-int64(nextOWD)
		if d < -8 || d > 8 || (next < -16 || next > 16) && nextRecv-recv <= 10_000_000 {
			t.Errorf("%v: minimum one-way delay %v, next one-way delay %v", v, delay, owd)
		}
	}
}

// TestRoundTripError states what the roundings add. After an exchange without noise and with
// equal delays, a timestamp of 23 bits comes back at most 9 us wrong around zero, one of 16
// bits at most 260 us. After a single datagram each way it is 13 us at most: two stamps, each
// cut to a unit of 8 us, and a report, whose quality costs a unit, leave the offset
// open by as much, and the timestamp itself adds half a unit.
func TestRoundTripError(t *testing.T) {
	type result struct {
		worst, n int64
		sum      float64
	}
	add := func(r *result, e int64) {
		r.worst, r.n, r.sum = max(r.worst, e, -e), r.n+1, r.sum+float64(e)
	}
	check := func(what string, r result, worst int64, mean float64) {
		if r.worst > worst || math.Abs(r.sum/float64(r.n)) > mean {
			t.Errorf("%s: max %d us, mean %.2f us; limits %d and %.1f", what, r.worst, r.sum/float64(r.n), worst, mean)
		}
	}
	// exchange lets A stamp an event after datagrams each way, sent at the times
	// fromA and fromB of A's clock, and returns by how much B reads it wrongly.
	exchange := func(offset, delay uint64, fromA, fromB []uint64, meant uint64) (e23, e16 int64) {
		var a, b timesync.TimeSynchronizer
		for i := range fromA {
			b.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(fromA[i]), fromA[i]+offset+delay)
			a.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(fromB[i]+offset), fromB[i]+delay)
		}
		report, _ := b.MinDeltaTS24(meant + offset)
		a.OnPeerMinDeltaTS24(report, meant)
		ts23, ok23 := a.ToRemoteTime23(meant)
		ts16, ok16 := a.ToRemoteTime16(meant)
		if !ok23 || !ok16 {
			t.Fatal("not synchronized")
		}
		there := meant + offset
		return int64(timesync.FromLocalTime23(there+delay, ts23) - there), int64(timesync.FromLocalTime16(there+delay, ts16) - there)
	}

	var one23, many23, many16 result
	for i := range uint64(3 << 16) { // every phase of every time in its unit, every quality
		offset, delay, a, b, meant := i&15+i>>16<<3, i>>4&7, i>>7&7, i>>10&7, i>>13&7
		e23, _ := exchange(offset, delay, []uint64{1<<20 + a}, []uint64{1<<20 + b}, 1<<21+meant)
		add(&one23, e23)
	}
	check("TS23, 1 datagram each way", one23, 13, 0.5)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 4000 {
		base, fromA, fromB := rng.Uint64(), make([]uint64, 32), make([]uint64, 32)
		for i := range fromA {
			fromA[i] = base + uint64(i)*20_000 + rng.Uint64N(64)
			fromB[i] = fromA[i] + 10_000 + rng.Uint64N(64)
		}
		e23, e16 := exchange(rng.Uint64(), rng.Uint64N(100_000), fromA, fromB, base+1_000_000+rng.Uint64N(1000))
		add(&many23, e23)
		add(&many16, e16)
	}
	check("TS23, 32 datagrams each way", many23, 9, 0.5)
	check("TS16, 32 datagrams each way", many16, 260, 16)

	text := documentation(t)
	for _, said := range []string{
		fmt.Sprintf("as a TS23 is read within %d us", many23.worst),
		fmt.Sprintf("as a TS16 within %d us", many16.worst),
		fmt.Sprintf("one datagram each way it is %d us for a TS23", one23.worst),
	} {
		if !strings.Contains(text, said) {
			t.Errorf("doc.go does not say: %s", said)
		}
	}
}

// documentation returns the comment of doc.go as one line.
func documentation(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../doc.go")
	must(t, err)
	return strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\n//", "\n")), " ")
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
