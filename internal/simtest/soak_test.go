// The test in this file proves that two peers live on for long, whatever happens to them: in
// one world without a restart of the test, faults of every kind follow each other for days.
package simtest

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"

	"timesync"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
)

var soakDays = flag.Float64("soak.days", 0,
	"simulated days of TestSoak (default 0.25, 0.05 with -short)")

const (
	heardIn = 2500 * ms // by then after a restart the first report has come: they go every 2 s

	// In a month a few ends are beyond the bound after a restart and what comes soon after it,
	// or wait for their bound after a long silence. Percent of those of a kind of fault.
	soakMisses = 0.3
)

// upset is a fault that sets something at an end when it begins; back sets it back.
func upset(lo, hi float64, set func(s *siege, side int) (back func())) func(s *siege) tampering {
	return func(s *siege) tampering {
		s.lasts(lo, hi)
		s.after = set(s, s.R.IntN(2))
		return s.take
	}
}

// atOnce is a fault that is over at once.
func atOnce(happen func(s *siege, side int)) func(s *siege) tampering {
	return func(s *siege) tampering {
		s.to = s.from
		happen(s, s.R.IntN(2))
		return s.take
	}
}

// runs lets the clock of an end run at another rate.
func (s *siege) runs(side int, ppm float64) { s.clocks[side].SetRate(s.now, ppm) }

// soakFaults are harmless where they set no clock, so that the bound holds all the time.
var soakFaults = []attack{
	{name: "clock set", begin: atOnce(func(s *siege, side int) {
		step := s.Sign() * s.LogBetween(1e3, 3600e6)
		s.set(side, int64(step))
	})},
	{name: "clock slewed", begin: upset(1e6, 60e6, func(s *siege, side int) func() {
		ppm := s.clocks[side].PPM()
		s.runs(side, ppm+s.Sign()*s.Between(100, 500))
		return func() { s.runs(side, ppm) }
	})},
	{name: "sleep", begin: upset(1e6, 3600e6, func(s *siege, side int) func() {
		ppm := s.clocks[side].PPM()
		s.runs(side, -1e6)
		s.ends[side].off = []simnet.Window{{From: s.now, To: s.to}}
		return func() { s.runs(side, ppm) }
	})},
	{name: "restart", begin: atOnce(func(s *siege, side int) {
		s.set(side, s.R.Int64())
		s.anew(side, s.R.IntN(2) == 0)
	})},
	{name: "1 or 2 absurd stamps", harmless: true, begin: atOnce(func(s *siege, side int) {
		for range 1 + s.R.IntN(2) {
			absurd := datagram{stamp: timesync.NewCounter24(s.R.Uint64())}
			s.take(side, absurd, s.clocks[side].Usec(s.now))
		}
	})},
	{name: "silence", harmless: true, begin: upset(1e6, 3600e6, func(s *siege, side int) func() {
		return s.loses(side, 1, float64(s.R.IntN(2)))
	})},
	{name: "loss", harmless: true, begin: upset(10e6, 120e6, func(s *siege, side int) func() {
		return s.loses(side, s.Between(0.05, 0.7), s.Between(0, 0.7))
	})},
	{name: "another route", harmless: true, begin: atOnce(func(s *siege, side int) {
		e := &s.ends[side]
		change := usecs(s.Sign() * s.LogBetween(100, 50e3))
		e.base = min(max(e.base+change, ms), 100*ms)
		e.build()
	})},
	{name: "queue", harmless: true, begin: upset(0.2e6, 60e6, func(s *siege, side int) func() {
		s.ways[side].queue = usecs(s.LogBetween(1e3, 300e3))
		return func() { s.ways[side].queue = 0 }
	})},
	{name: "jitter", harmless: true, begin: upset(1e6, 120e6, func(s *siege, side int) func() {
		was := s.ways[side].jitter
		s.ways[side].jitter = usecs(s.LogBetween(1e3, 50e3))
		return func() { s.ways[side].jitter = was }
	})},
	{name: "handed over late", harmless: true, begin: func(s *siege) tampering {
		s.lasts(2e6, 60e6)
		return s.handsOverLate(s.LogBetween(1e3, 0.9e6))
	}},
}

// loses lets datagrams from an end and those to it be lost.
func (s *siege) loses(side int, from, to float64) func() {
	s.ways[side].loss = from
	s.ways[1-side].loss = to
	return func() {
		s.ways[0].loss = 0
		s.ways[1].loss = 0
	}
}

// toll is what a kind of fault did: how many ends had a bound that was wrong, or not back in time.
type toll struct{ n, beyond, slow int }

// soak is a world in which faults follow each other, one at a time.
type soak struct {
	*siege
	m      *musts
	calm   [2]float64 // us: the greatest bound of the last 5 s
	misses []string
}

// fault plays one, and the calm after it. Of each end only the first miss of a kind counts.
func (s *soak) fault(x *toll) {
	was := s.calm
	lasting := usecs(s.Between(40e6, 120e6))
	s.calm = [2]float64{}
	s.from = s.now
	s.after = func() {}
	var beyond, slow [2]bool
	miss := func(n *int, once *[2]bool, q *query) {
		if once[q.side] {
			return
		}
		once[q.side] = true
		*n++
		s.misses = append(s.misses, fmt.Sprintf("%v after %s: %s, before it at most %.0f us",
			s.now-s.to, s.attack.name, q.in(s.duel), was[q.side]))
	}
	s.onQuery = func(q *query) {
		since := s.now - s.to // negative while it lasts
		half := float64((s.ends[0].base+s.ends[1].base)/us) / 2
		switch {
		case !q.ok && since <= heardIn:
			return
		case !q.ok:
			s.m.fail("not synchronized", "%v after %s, at %v", since, s.attack.name, s.now)
		case q.beyond() && (s.attack.harmless || since > attackOver):
			miss(&x.beyond, &beyond, q)
		case since > attackOver && q.bound > 2*max(was[q.side], half)+200:
			miss(&x.slow, &slow, q)
		}
		if since > lasting-5*sec {
			s.calm[q.side] = max(s.calm[q.side], q.bound)
		}
	}
	x.n++
	s.besiege()
	s.goOn(s.from)
	s.goOn(s.to + lasting)
}

// TestSoak plays 6 hours of two peers, and a month with -soak.days 30. The bound holds outside of
// the 15 s after a clock was set; no end is without an answer but for the time after a restart in
// which no report could come; and 15 s after each fault the bound is at most twice what it was
// before. Temperature moves the rates of the clocks.
func TestSoak(t *testing.T) {
	days := cmp.Or(*soakDays, testkit.Sized(0.05, 0.25, 0.25))
	m := newMusts(t)
	s := soak{siege: newSiege(*seedFirst + 1), m: m}
	s.victims = [2]bool{true, true}
	var crystal [2]float64
	for side := range s.ends {
		e := &s.ends[side]
		e.base = usecs(s.Between(10e3, 40e3))
		e.period = usecs(1e6 / 60)
		s.ways[side].jitter = ms
		e.build()
		crystal[side] = s.clocks[side].PPM()
	}
	s.goOn(60 * sec)
	tolls := make([]toll, len(soakFaults))
	for s.now < usecs(days*day) {
		for side, ppm := range crystal {
			turn := 2 * math.Pi * float64(s.now/us)
			s.runs(side, ppm+2*math.Sin(turn/day)+0.1*math.Sin(turn/900e6+float64(side)))
		}
		kind := s.R.IntN(len(soakFaults))
		s.attack = &soakFaults[kind]
		s.fault(&tolls[kind])
	}
	for kind, x := range tolls {
		what := fmt.Sprintf("%s, %d times: %% of the ends beyond the bound outside of the windows",
			soakFaults[kind].name, x.n)
		ends := float64(2 * max(x.n, 1))
		m.misses(what, 100*float64(x.beyond)/ends, 0, soakMisses)
		m.misses("  % of the ends whose bound is not back after 15 s",
			100*float64(x.slow)/ends, 0, soakMisses)
	}
	t.Logf("%.2f days, misses\n%s", days, strings.Join(s.misses, "\n"))
}
