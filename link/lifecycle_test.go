// This test measures the table of docs/PRODUCTION.md, "Life cycle", row by row:
//
//	go test ./link -run TestLifeCycle -v -life.worlds 200
package link_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
)

var (
	lifeWorlds = testkit.Count("life.worlds",
		"drawn worlds for each row of TestLifeCycle", 10, 40, 200)
	lifeSeed = flag.Uint64("life.seed", 7_201_000, "the first one's seed")
)

// TestLifeCycle: after each event both ends are right again, and say that they may be relied on, in
// a time that the table names. After none of them does an end say so that is wrong by more than its
// bound, but where the table says for how long.
func TestLifeCycle(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	var dice simnet.Dice
	set := func(lo, hi time.Duration) func(s *sleepers) {
		return func(s *sleepers) {
			clock := s.clocks[s.rng.IntN(2)]
			sign := int64(dice.Sign())
			clock.Step(s.Now(), sign*dice.LogSpan(lo, hi).Microseconds())
		}
	}
	sleep := func(end int, lo, hi time.Duration) func(s *sleepers) {
		return func(s *sleepers) { s.sleep(end, dice.Span(lo, hi)) }
	}
	path := func(factor float64) func(s *sleepers) {
		return func(s *sleepers) {
			for end := range s.ways {
				was := s.ways[end].Base(0)
				s.ways[end].Base = simnet.Fixed(time.Duration(float64(was) * factor))
			}
		}
	}
	type limits struct{ right, trusted, wrong time.Duration } // in 19 of 20 worlds
	const sec = time.Second
	for _, row := range []struct {
		name   string
		happen func(s *sleepers)
		at60   limits
		at4    limits
	}{
		{
			name: "the connection starts",
			at60: limits{sec, 300 * ms, 0},
			at4:  limits{2 * sec, 2 * sec, 0},
		},
		{
			name:   "the network changes: ways three times as long",
			happen: path(3),
			at60:   limits{sec, 0, 0},
			at4:    limits{2 * sec, 0, 0},
		},
		{
			name:   "the network changes: ways a third as long",
			happen: path(1. / 3),
			at60:   limits{sec, 16 * sec, 0},
			at4:    limits{2 * sec, 40 * sec, 0},
		},
		{
			name: "the peer's process restarts",
			happen: func(s *sleepers) {
				s.links[1].Reset()
				s.clocks[1].Step(s.Now(), s.rng.Int64())
			},
			at60: limits{sec, sec, sec / 2},
			at4:  limits{3 * sec, 3 * sec, sec},
		},
		{
			name:   "a machine sleeps up to 33 s",
			happen: sleep(1, 16*sec, 33*sec),
			at60:   limits{3 * sec, 18 * sec, 20 * ms},
			at4:    limits{4 * sec, 20 * sec, 300 * ms},
		},
		{
			name:   "a machine sleeps 34 to 600 s",
			happen: sleep(1, 34*sec, 600*sec),
			at60:   limits{5 * sec, 19 * sec, 20 * ms},
			at4:    limits{6 * sec, 22 * sec, 300 * ms},
		},
		{
			name: "a machine sleeps 1 to 600 s, and resets its Link",
			happen: func(s *sleepers) {
				s.sleep(1, dice.LogSpan(sec, 600*sec))
				s.links[1].Reset() // what waited in the socket is dropped
			},
			at60: limits{sec, sec, sec / 2},
			at4:  limits{3 * sec, 3 * sec, sec},
		},
		{
			name: "this process is stopped",
			happen: func(s *sleepers) {
				lasting := dice.Span(16*sec, 300*sec)
				s.sleep(0, lasting)
				s.clocks[0].Step(s.Now(), lasting.Microseconds()) // its clock ran on
			},
			at60: limits{0, sec / 2, 0},
			at4:  limits{sec, 3 * sec, 0},
		},
		{
			name:   "a clock is set",
			happen: set(100*time.Millisecond, 30*sec),
			at60:   limits{3 * sec, 18 * sec, 3 * sec},
			at4:    limits{5 * sec, 20 * sec, 5 * sec},
		},
		{
			name:   "a clock is set by more than 33 s",
			happen: set(34*sec, 24*time.Hour),
			at60:   limits{5 * sec, 20 * sec, 3 * sec},
			at4:    limits{6 * sec, 21 * sec, 5 * sec},
		},
	} {
		for _, rate := range []float64{60, 4} {
			var right, trusted, wrong []float64
			for seed := *lifeSeed; seed < *lifeSeed+uint64(lifeWorlds()); seed++ {
				s := newSleepers(seed, rate)
				dice = simnet.Dice{R: s.rng}
				halfDifference := func() time.Duration { // of the ways: nobody can measure it
					return (s.ways[1].Base(0) - s.ways[0].Base(0)).Abs() / 2
				}
				asymmetry := halfDifference()
				if row.happen != nil {
					s.Run(40*sec + dice.Span(0, sec))
					row.happen(s)
				}
				begun := s.Now()
				var lastWrong, lastOff, lastDoubt time.Duration
				asymmetry = max(asymmetry, halfDifference())
				s.Every(10*time.Millisecond, begun, func() {
					since := s.Now() - begun
					for end := range s.links {
						known, ok := s.links[end].Snapshot(s.usec(end))
						off := time.Duration(int64(known.RemoteUsec-s.usec(1-end))) * us
						trusts, beyond := s.look(end)
						if !ok || off.Abs() > asymmetry+5*time.Millisecond {
							lastOff = since
						}
						if !trusts {
							lastDoubt = since
						}
						if beyond > 0 {
							lastWrong = since
						}
					}
				})
				s.Run(begun + 40*sec)
				right = append(right, lastOff.Seconds())
				trusted = append(trusted, lastDoubt.Seconds())
				wrong = append(wrong, lastWrong.Seconds())
			}
			most := row.at60
			if rate == 4 {
				most = row.at4
			}
			spread := func(s []float64) string {
				return fmt.Sprintf("%.1f / %.1f / %.1f s",
					testkit.Quantile(s, 0.5), testkit.Quantile(s, 0.95), testkit.Quantile(s, 1))
			}
			t.Logf("%s, %g/s: right after %s, trusted after %s, trusted and wrong for %s "+
				"(median, 19 of 20, most)",
				row.name, rate, spread(right), spread(trusted), spread(wrong))
			check := func(what string, got []float64, most time.Duration) {
				late := testkit.Quantile(got, 0.95)
				if late > most.Seconds() {
					t.Errorf("%s, %g/s: %s in 19 of 20 worlds after %.2f s, want %v",
						row.name, rate, what, late, most)
				}
			}
			check("right", right, most.right)
			check("trusted", trusted, most.trusted)
			check("trusted and wrong", wrong, most.wrong)
		}
	}
}
