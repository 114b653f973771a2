// These tests prove what remains of the accuracy at a few datagrams a second, and at one a
// minute.

package simtest

import (
	"fmt"
	"testing"
	"time"

	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
)

// lowRateWorld is a path of 2 or 20 ms each way with exponential jitter of up to 0.4 ms,
// 1 to 20 datagrams a second and clocks 50 to 150 ppm apart. Nothing else happens.
func lowRateWorld(seed uint64) *duel {
	d := newDuel(seed, 120*sec)
	r := simnet.Dice{R: newRand(seed, 'l')}
	ppm := r.Between(50, 150) * r.Sign()
	bases := []time.Duration{2 * ms, 20 * ms}
	base := bases[r.R.IntN(len(bases))]
	jitter := r.Span(0, 400*us)
	rate := r.LogBetween(1, 20)
	for side := range d.ends {
		if side == 1 && r.R.IntN(3) == 0 {
			rate = r.LogBetween(1, 20)
		}
		clock := simnet.ClockSpec{
			OffsetUsec: r.R.Uint64(),
			SkewPPM:    ppm * (0.5 - float64(side)),
		}
		d.ends[side] = duelEnd{
			rate:   rate,
			base:   base,
			clock:  clock,
			delays: []simnet.Delay{simnet.Exp(jitter)},
		}
		d.Happens(0, "start", "%c sends %.1f/s, %+.0f ppm, %v and %v",
			'A'+rune(side), rate, clock.SkewPPM, base, jitter)
	}
	return d
}

// TestLowRates plays clean worlds with few datagrams. What waits for a number of them,
// not for time, fails here.
func TestLowRates(t *testing.T) {
	n := testkit.Sized(100, 400, 1500)
	m := newMusts(t)
	ends := errors(eachSeed(n, func(i uint64) float64 {
		d := lowRateWorld(*seedFirst + i + 1)
		v := judge(d, 0, 0, 0)
		if v.beyond > 0 {
			m.fail("low rates: error beyond the bound", "%s", v.worst)
		}
		return max(v.last[0], v.last[1])
	}))
	m.judge(fmt.Sprintf("of %d worlds, off by more than 1 ms after 120 s", n),
		float64(ends.above(1000)), 0, 0)
	m.note("  the furthest, us", ends.most())
}

// oneAMinute returns worlds in which a datagram a minute flows each way.
func oneAMinute() (all []sim.Scenario) {
	for _, name := range []string{"ideal", "wander", "smalljitter", "mediumjitter", "asympath"} {
		sc := sim.ScenarioNamed(name)
		sc.Duration = 1800 * sec
		sc.Warmup = 180 * sec // before that there may be no datagram with a report
		sc.RateAB = 1 / 60.
		sc.RateBA = 1 / 60.
		sc.PollRate = 1
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
		r := measure(sc, scorePairs, testkit.Sized(6, 24, 24))
		original, ours := &r[0], &r[1]
		m.judge(sc.Name+": p99 over the original's", ours.poll.p99()/original.poll.p99(), 1.2, 1)
		m.note("  median", ours.poll.median()/original.poll.median())
		m.judge("  polls without an answer", float64(ours.missed), float64(original.missed), 0)
	}
}

// TestQuietPeer: the first reports of a peer that hears little may tell floors of minutes ago.
// Whether it is an original is not known then, and the bound holds for both. A sends when something
// changes, after gaps of 20 s and more, and B answers at once. No clock is set, and no datagram is
// late.
func TestQuietPeer(t *testing.T) {
	m := newMusts(t)
	answers := eachSeed(testkit.Sized(200, 2000, 10000), func(seed uint64) (answers float64) {
		p := newPeers(newRand(*seedFirst+seed, 'q'))
		p.reports = 1 // each datagram has a report
		p.poll = 5 * sec
		mean := p.Between(10e6, 180e6)
		for side := range p.ends {
			p.ways[side].jitter = 0
			p.ends[side].period = forever / 2
		}
		p.ends[sim.B].sendAt = forever
		p.deliver = func(side int, d datagram, local uint64) {
			p.take(side, d, local)
			wait := 1000.
			if side == int(sim.A) {
				wait = 20e6 + p.R.ExpFloat64()*mean
			}
			p.ends[side].sendAt = p.now + usecs(wait)
		}
		p.onQuery = func(q *query) {
			if !q.ok {
				return
			}
			answers++
			if q.excess() > 0 {
				m.fail("quiet peers: error beyond the bound",
					"seed %d, %c at %v: %.0f us, bound %.0f us",
					seed, 'A'+rune(q.side), p.now, q.err, q.bound)
			}
		}
		p.goOn(3600 * sec)
		return answers
	})
	m.note(fmt.Sprintf("quiet peers: answers, mean of %d worlds", len(answers)),
		errors(answers).mean())
}
