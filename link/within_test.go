// These tests prove what README says of Snapshot.Within: while it is nil the peer's clock is
// known to the tolerable error, from the first second on, after silences, steps and restarts.
// And how often one event counts. Wait returns with the datagram that makes it nil, not before
// and not later, and says why it gave up; those tests run in bubbles, in which time passes
// when all goroutines wait.
package link_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"timesync"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
	"timesync/link"
)

// told is what Within said at end A, and for how long, and for how long it was nil
// and wrong at either.
type told struct {
	said        map[error]time.Duration
	wrong, late time.Duration // late is when it last was, since the beginning
}

// until plays on and returns what Within says of a tolerable error.
func (w *wire) until(at, tolerable time.Duration) *told {
	t := &told{said: map[error]time.Duration{}}
	begun := w.now
	w.asked = func(side int) {
		s, off, ok := w.look(side)
		err := s.Within(tolerable)
		if side == 0 {
			t.said[err] += askEvery
		}
		if err == nil && (!ok || off > float64(tolerable.Microseconds())) {
			t.wrong += askEvery
			t.late = w.now - begun
		}
	}
	w.run(at)
	return t
}

func TestWithin(t *testing.T) {
	const start, event, after = 16 * time.Second, 36 * time.Second, 30 * time.Second
	const noticed = 2100 * time.Millisecond // Within promises about 3 s
	const sec, minute = time.Second, time.Minute
	wasSet := timesync.ErrStepped
	events := []struct {
		name     string
		silent   time.Duration // from the event on nothing arrives for so long
		side     int           // whose clock is set then
		step     time.Duration
		restarts bool          // and the end starts anew
		wrong    time.Duration // so long after that at most it was nil and wrong
		reason   error         // which is to be said, if any
	}{
		{"silence of 2 min", 2 * minute, 0, 0, false, 0, timesync.ErrSilent},
		{"step of 200 ms", 0, 1, 200 * time.Millisecond, false, noticed, wasSet},
		{"step of -10 s", 0, 0, -10 * time.Second, false, noticed, wasSet},
		{"peer suspended for 2 min", 2 * minute, 1, -2 * minute, false, sec, wasSet},
		// 47 s are 20 s in the ring of offsets.
		{"peer suspended for 47 s", 47 * sec, 1, -47 * sec, false, sec, wasSet},
		{"peer suspended for a minute", minute, 1, -minute, false, sec, wasSet},
		{"clock set by a minute", 0, 0, minute, false, noticed, wasSet},
		{"own machine suspended for 2 min", 2 * minute, 0, -2 * minute, false, sec, wasSet},
		// The peer's clock is unknown for some datagrams.
		{"peer restarted", 0, 1, 7 * time.Hour, true, sec, nil},
	}
	for _, delay := range []time.Duration{20 * time.Microsecond, 50 * time.Millisecond} {
		for _, e := range events {
			for seed := range testkit.Sized[uint64](2, 10, 10) {
				over := event + e.silent
				rates := [2]float64{60, 60}
				jitter := delay/20 + 20*time.Microsecond
				w := newWire(seed, rates, jitter, e.side, over, e.step)
				for side := range w.out { // unequal, as ways are
					w.out[side].Base = simnet.Fixed(delay * time.Duration(11-2*side) / 10)
					w.out[side].Loss = simnet.Silence(simnet.Window{From: event, To: over})
				}
				tolerable := delay*6/5 + 200*time.Microsecond

				x := w.until(start, tolerable)
				unknown := x.said[timesync.ErrUnsynchronized]
				if x.wrong > 0 || x.said[nil] < 14*time.Second || unknown > time.Second {
					t.Errorf("seed %d, %v each way: the start: %+v", seed, delay, x)
				}

				w.run(event)
				x = w.until(over, tolerable)
				if x.said[nil] > 16*time.Second || x.wrong > 0 {
					t.Errorf("seed %d, %v each way, during %s: %+v", seed, delay, e.name, x)
				}

				if e.restarts {
					w.links[e.side].Reset()
				}
				x = w.until(over+after, tolerable)
				if x.late > e.wrong || x.said[e.reason] == 0 || x.said[nil] == 0 {
					t.Errorf("seed %d, %v each way, %s: %+v", seed, delay, e.name, x)
				}
			}
		}
	}
}

// TestStepsOfOne: a clock that is set counts as more steps the more jitter there is, most within
// 3 s. Of 100 datagrams two are lost.
func TestStepsOfOne(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	const at, worlds = 30 * time.Second, 100
	for _, c := range []struct {
		jitter time.Duration
		most   uint32 // steps at 99 of 100 ends
	}{
		{time.Millisecond, 3},
		{3 * time.Millisecond, 4},
		{10 * time.Millisecond, 7},
	} {
		var counts [20]int
		ends, beyond, late := 0, 0, 0
		last := time.Duration(0)
		steps := []time.Duration{
			5 * time.Second,
			-5 * time.Second,
			200 * time.Millisecond,
			83 * time.Minute,
		}
		for _, step := range steps {
			for seed := range uint64(worlds) {
				w := newWire(seed, [2]float64{50, 50}, c.jitter, int(seed%2), at, step)
				var before, now [2]uint32
				var changed [2]time.Duration // since the clock was set
				for side := range w.out {
					w.out[side].Loss = simnet.Bernoulli(0.02)
				}
				w.asked = func(side int) {
					s, _, _ := w.look(side)
					if w.now < at {
						before[side] = s.Steps
					} else if s.Steps != now[side] {
						changed[side] = w.now - at
					}
					now[side] = s.Steps
				}
				w.run(at + 20*time.Second)
				for side := range now {
					n := now[side] - before[side]
					ends++
					if n < 1 || n >= uint32(len(counts)) {
						t.Fatalf("seed %d: a clock set by %v is %d steps at end %d",
							seed, step, n, side)
					}
					counts[n]++
					if n > c.most {
						beyond++
					}
					last = max(last, changed[side])
					if changed[side] > 3*time.Second {
						late++
					}
				}
			}
		}
		t.Logf("jitter %v: ends by steps from 0 on: %v; "+
			"at %d of %d later than 3 s, the last %v after the clock was set",
			c.jitter, counts, late, ends, last)
		if beyond*100 > ends || late*10 > ends || last > timesync.SettleTime {
			t.Errorf("jitter %v: %d of %d ends have more than %d steps, "+
				"%d have one later than 3 s, the last after %v",
				c.jitter, beyond, ends, c.most, late, last)
		}
	}
}

func TestWait(t *testing.T) {
	cases := map[time.Duration]bool{
		time.Hour:             true,
		25 * time.Millisecond: true,
		time.Millisecond:      false,
	}
	for tolerable, enough := range cases {
		synctest.Test(t, func(t *testing.T) {
			var a, b link.Link
			ctx, cancel := context.WithCancel(t.Context())
			soon, stop := context.WithTimeout(ctx, time.Minute)
			defer stop()
			err := a.Wait(soon, time.Hour)
			gaveUp := errors.Is(err, context.DeadlineExceeded)
			if !gaveUp || !errors.Is(err, timesync.ErrUnsynchronized) {
				t.Errorf("without a peer: %v", err)
			}
			answers := make(chan error, 2)
			for range cap(answers) {
				go func() { answers <- a.Wait(ctx, tolerable) }()
			}
			now := uint64(1 << 40)
			want := 0
			for range 100 {
				came := now + 20_000
				// A datagram each way.
				now = talk(&a, &b, now, 1e9, 20*time.Millisecond, time.Microsecond)
				synctest.Wait()
				s, _ := a.Snapshot(came)
				if s.Within(tolerable) == nil {
					want = cap(answers)
				}
				if len(answers) != want {
					t.Fatalf("tolerable %v: %d have returned, want %d, at %v",
						tolerable, len(answers), want, s)
				}
			}
			cancel()
			for range cap(answers) {
				err := <-answers
				gaveUp := errors.Is(err, context.Canceled) && errors.Is(err, timesync.ErrWide)
				if enough != (err == nil) || enough == gaveUp {
					t.Errorf("a bound of 20 ms, tolerable %v: %v", tolerable, err)
				}
			}
			if err := a.Wait(t.Context(), time.Hour); err != nil {
				t.Errorf("what is known well enough is waited for: %v", err)
			}
		})
	}
}

// TestSetBehindLongerPath: 23 s after one way became longer a clock is set, so that this way seems
// shorter again, by nearly as much. The other way seems longer by as much: the round trip is what
// it was, so it is no path. That is seen in most cases.
func TestSetBehindLongerPath(t *testing.T) {
	t.Skip("open since both ways are of one type: " +
		"such a step passes for the path until the asymmetry has decayed")
	const ms = time.Millisecond
	const longerAt, setAt, settles = 90 * time.Second, 113 * time.Second, 15 * time.Second
	for _, step := range []time.Duration{-40 * ms, -47 * ms, -54 * ms} {
		wrong := 0
		for seed := range uint64(10) {
			w := newWire(48_100_000+seed, [2]float64{20, 20}, 2*ms, 1, setAt, step)
			longer := simnet.RouteStep{At: longerAt, Change: 55 * ms}
			w.out[0].Base = simnet.Route(20*ms, longer)
			var worst [2]float64
			w.asked = func(side int) {
				if _, off, _ := w.look(side); w.now > setAt+settles {
					worst[side] = max(worst[side], off)
				}
			}
			w.run(setAt + settles + time.Minute)
			if max(worst[0], worst[1]) > 5000 {
				wrong++
				t.Logf("seed %d, set by %v: the ends are off by %.0f us", seed, step, worst)
			}
		}
		if wrong > 2 {
			t.Errorf("set by %v: %d of 10 worlds are wrong", step, wrong)
		}
	}
}

// noStep plays sessions without jitter of their own in which no clock is set. It fails if for more
// than a share of the times from a time on at which both ends are asked Within is an error.
func noStep(t *testing.T, what string, most float64, seed uint64, sessions int, rate float64,
	from, until time.Duration, way func(out *[2]*simnet.Link)) {
	t.Helper()
	said, asked := 0, 0
	for i := range uint64(sessions) {
		w := newWire(seed+i, [2]float64{rate, rate}, 0, 0, 0, 0)
		way(&w.out)
		w.asked = func(side int) {
			if s, _, _ := w.look(side); w.now > from {
				asked++
				if s.Within(time.Second) != nil {
					said++
				}
			}
		}
		w.run(until)
	}
	share := float64(said) / float64(asked)
	t.Logf("%s: a clock seems to be set %.2f %% of the times", what, 100*share)
	if share > most {
		t.Errorf("more than %.2f %%", 100*most)
	}
}

// TestSilenceIsNoStep: the temperature moves the rates during a silence of minutes or hours. That
// is no clock that was set: Within is nil again at once, in most cases.
func TestSilenceIsNoStep(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	const from, after = 5 * time.Minute, 10 * time.Second
	for _, lasts := range []time.Duration{20 * time.Minute, time.Hour, 3 * time.Hour} {
		over := from + lasts
		silence := func(out *[2]*simnet.Link) {
			for _, way := range out {
				way.Delay = simnet.Exp(2 * time.Millisecond)
				way.Loss = simnet.Silence(simnet.Window{From: from, To: over})
			}
		}
		what := "after " + lasts.String()
		until := over + after
		noStep(t, what, 0.25, 48_110_000, 20, 10, until-2*askEvery, until, silence)
	}
}

// TestJitterIsNoStep: on short paths datagrams of half a second share their jitter. A rise that
// lasts for two of them is told to the peer, and taken back. No clock was set.
func TestJitterIsNoStep(t *testing.T) {
	const from, until = time.Minute, 10 * time.Minute
	for _, rate := range []float64{4, 20} {
		what := fmt.Sprint(rate, " a second")
		noStep(t, what, 0.05, 48_120_000, 8, rate, from, until, func(out *[2]*simnet.Link) {
			for _, way := range out {
				way.Base = simnet.Fixed(time.Millisecond)
				way.Delay = simnet.Shared(500*time.Millisecond, simnet.Exp(5*time.Millisecond))
			}
		})
	}
}

// TestDrainIsNoStep: one way has a queue for 5 min. Neither its swaying nor its end
// is a clock that was set.
func TestDrainIsNoStep(t *testing.T) {
	const from, lasts = 100 * time.Second, 5 * time.Minute
	const until = from + lasts + 30*time.Second
	queue := func(most, rate float64, height time.Duration) {
		what := "a queue of " + height.String()
		jitter := simnet.Exp(time.Millisecond)
		noStep(t, what, most, 48_130_000, 12, rate, time.Minute, until, func(out *[2]*simnet.Link) {
			out[0].Delay = simnet.Sum(jitter, simnet.StandingQueue(from, lasts, height))
			out[1].Delay = jitter
		})
	}
	queue(0.03, 4, 100*time.Millisecond)
	queue(0.002, 60, 20*time.Millisecond)
}
