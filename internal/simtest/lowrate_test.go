// These tests prove what remains of the accuracy at a few datagrams a second, and at one a
// minute.

package simtest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"timesync"
	"timesync/internal/long"
	"timesync/internal/sim"
)

// lowRateWorld is a path of 2 or 20 ms each way with exponential jitter of up to 0.4 ms,
// 1 to 20 datagrams a second and clocks 50 to 150 ppm apart. Nothing else happens.
func lowRateWorld(seed uint64) *duel {
	r := newRand(seed, 'l')
	d := newDuel(seed, 120*sec)
	ppm := (50 + 100*r.Float64()) * float64(1-2*r.IntN(2))
	base := []time.Duration{2 * ms, 20 * ms}[r.IntN(2)]
	jitter := time.Duration(r.Float64() * float64(400*us))
	rate := math.Pow(20, r.Float64())
	for side := range d.ends {
		if side == 1 && r.IntN(3) == 0 {
			rate = math.Pow(20, r.Float64())
		}
		d.ends[side].rate = rate
		d.ends[side].clock = sim.ClockSpec{OffsetUsec: r.Uint64(), SkewPPM: ppm * (0.5 - float64(side))}
		d.ends[side].out = &sim.Link{Base: sim.Fixed(base), Delay: sim.Exp(jitter)}
		d.happens(0, "start", "%c sends %.1f/s, %+.0f ppm, %v and %v", 'A'+rune(side), rate, d.ends[side].clock.SkewPPM, base, jitter)
	}
	return d
}

// TestLowRates plays clean worlds with few datagrams. What waits for a number of them,
// not for time, fails here.
func TestLowRates(t *testing.T) {
	n := long.Sized(100, 400, 1500)
	m := newMusts(t)
	ends := errors(eachSeed(n, func(i uint64) float64 {
		d := lowRateWorld(*seedFirst + i + 1)
		last, beyond := [2]float64{math.Inf(1), math.Inf(1)}, 0.0
		d.onQuery = func(q *query) {
			if last[q.side] = math.Abs(q.err); q.ok {
				beyond = max(beyond, q.excess())
			}
		}
		d.run()
		if beyond > 0 {
			m.fail("low rates: error beyond the bound", "seed %d: by %.0f us%v", d.seed, beyond, d)
		}
		return max(last[0], last[1])
	}))
	m.judge(fmt.Sprintf("of %d worlds, off by more than 1 ms after 120 s", n), float64(ends.above(1000)), 0, 0)
	m.note("  the furthest, us", ends.most())
}

// oneAMinute returns worlds in which a datagram a minute flows each way.
func oneAMinute() (all []sim.Scenario) {
	for _, name := range []string{"ideal", "wander", "smalljitter", "mediumjitter", "asympath"} {
		sc := sim.ScenarioNamed(name)
		// Before 3 minutes there may be no datagram with a report.
		sc.Duration, sc.Warmup, sc.RateAB, sc.RateBA, sc.PollRate = 1800*sec, 180*sec, 1/60., 1/60., 1
		all = append(all, sc)
	}
	return all
}

// TestOneAMinute compares with the original where a datagram a minute flows each way. A
// datagram that queued less than the gate counts when the next one comes, so ours lags by
// up to a minute in the first three: by no more than a fifth.
func TestOneAMinute(t *testing.T) {
	m := newMusts(t)
	for _, sc := range oneAMinute() {
		r := measure(sc, scorePairs, long.Sized(6, 24, 24))
		original, ours := &r[0], &r[1]
		m.judge(sc.Name+": p99 over the original's", ours.poll.p99()/original.poll.p99(), 1.2, 1)
		m.note("  median", ours.poll.median()/original.poll.median())
		m.judge("  polls without an answer", float64(ours.missed), float64(original.missed), 0)
	}
}

// quietWorld plays an end that sends when something changes, after gaps of 20 s and more, and one
// that answers at once. No clock is set, and no datagram is late. It returns how far the worst answer of
// either end was beyond its bound, in microseconds, and how many answers there were.
func quietWorld(seed uint64) (beyond float64, answers int) {
	r := newRand(seed, 'q')
	var ends [2]timesync.TimeSynchronizer
	var zero [2]uint64
	var rate, way [2]float64
	for side := range ends {
		zero[side], rate[side], way[side] = r.Uint64(), 1+(r.Float64()-.5)*100e-6, .0005+.02*r.Float64()
	}
	local := func(side int, at float64) uint64 { return zero[side] + uint64(int64(at*rate[side]*1e6)) }
	send := func(from int, at float64) {
		stamp := timesync.LocalTimeToDatagramTS24(local(from, at))
		report, ok := ends[from].MinDeltaTS24(local(from, at))
		to, at := 1-from, at+way[from]
		ends[to].OnAuthenticatedDatagramTimestamp(stamp, local(to, at))
		if ok {
			ends[to].OnPeerMinDeltaTS24(report, local(to, at))
		}
	}
	mean := 10 + 170*r.Float64()
	for at := 1.0; at < 3600; at += 20 + r.ExpFloat64()*mean {
		send(0, at)
		send(1, at+way[0]+.001)
		for side := range ends {
			for _, later := range []float64{.1, 1, 10} {
				now := at + later
				s, ok := ends[side].Snapshot(local(side, now))
				if !ok {
					continue
				}
				e := s.OffsetUsec - int64(local(1-side, now)-local(side, now))
				e = e << 38 >> 38 // without an Anchor it is known modulo 2^26 us
				beyond, answers = max(beyond, math.Abs(float64(e))-float64(s.ErrorBound.Microseconds())-1), answers+1
			}
		}
	}
	return beyond, answers
}

// TestQuietPeer: the first reports of a peer that hears little may tell floors of minutes ago. Whether it is
// an original is not known then, and the bound holds for both.
func TestQuietPeer(t *testing.T) {
	n, wrong, answers := long.Sized(200, 2000, 10000), 0, 0
	for seed := range uint64(n) {
		beyond, n := quietWorld(*seedFirst + seed)
		if answers += n; beyond > 0 {
			t.Errorf("seed %d: an answer is %.0f us beyond its bound", *seedFirst+seed, beyond)
			wrong++
		}
	}
	t.Logf("-seed.first %d, %d worlds, %d answers: beyond the bound in %d", *seedFirst, n, answers, wrong)
}
