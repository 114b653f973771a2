// Each tick runs once and in order, or is reported; readers see no clock go back.

package tick

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What a long frame does under each policy. A stall is longer than the threshold; it skips all
// ticks but the last, if there are any.
func TestCatchUp(t *testing.T) {
	patient := func(c CatchUp) Config { return Config{CatchUp: c, StallThreshold: -1} }
	hasty := Config{StallThreshold: ms(50)}
	drop := Config{CatchUp: CatchUpDrop}
	for _, tt := range []struct {
		rate  uint32
		cfg   Config
		frame time.Duration // after a second of short ones
		most  int           // ticks of that Advance, and of any after it
		want  string        // events after the first
	}{
		{60, patient(CatchUpKeep), 10 * sec, 8, ""},
		{60, patient(CatchUpDrop), 10 * sec, 8, " ticks 61 to 652 skipped"},
		{60, patient(CatchUpJump), 10 * sec, 1, " ticks 61 to 659 skipped"},
		{60, patient(CatchUpRunAll), 10 * sec, 600, ""},
		{1000, patient(CatchUpRunAll), 11 * sec, runAllMost, " ticks 1001 to 2000 skipped"},
		{60, Config{}, 10 * sec, 1, " stalled for 10s, ticks 61 to 659 skipped"},
		{60, Config{CatchUp: CatchUpRunAll}, 10 * sec, 1, " stalled for 10s, ticks 61 to 659 skipped"},
		{60, Config{CatchUp: CatchUpJump}, ms(134), 8, ""}, // as many as may be run
		{100, drop, ms(90), 8, " ticks 101 to 101 skipped"},
		{100, drop, sec, 8, " ticks 101 to 192 skipped"},
		{100, drop, sec + us, 1, " stalled for 1.000001s, ticks 101 to 199 skipped"},
		{100, hasty, ms(50), 5, ""},
		{100, hasty, ms(50) + us, 1, " stalled for 50.001ms, ticks 101 to 104 skipped"},
		{10, hasty, ms(60), 1, " stalled for 60ms"},
	} {
		var r recorder
		tt.cfg.Rate = Hz(tt.rate)
		l := startServer(r.server(ServerConfig{Config: tt.cfg}))
		now := uint64(0)
		for ; now <= 1_000_000; now += 10_000 {
			l.Advance(now)
		}
		check(t, l.Stats().Skipped, 0, "%+v: skipped", tt)
		now = 1_000_000 + usec(tt.frame)
		due := tt.cfg.Rate.Ticks(sec+tt.frame) - Tick(tt.rate)
		got := l.Advance(now)
		stats := l.Stats()
		check(t, got, min(tt.most, int(due)), "%+v: ticks in the frame", tt)
		accounted := Tick(got) + Tick(stats.Skipped) + stats.Debt
		check(t, accounted, due, "%+v: ticks that were due: %+v", tt, stats)
		check(t, stats.Stalls, uint64(len(r.of(EventStalled))), "%+v: stalls", tt)
		for ; now < 25_000_000; now += 10_000 {
			if n := l.Advance(now); n > tt.most {
				t.Fatalf("%+v: %d ticks in a frame", tt, n)
			}
		}
		last := tt.cfg.Rate.Ticks(time.Duration(now-10_000) * us)
		check(t, r.next-1, last, "%+v: the last tick", tt)
		r.told(t, tt, "[synced"+tt.want+"]")
	}
}

// One writer and 8 readers, under the race detector: no reader sees a clock go back, and all that
// announce say the same origin, by times that they read some while before.
func TestReaders(t *testing.T) {
	l, remote, _ := newClient(ClientConfig{})
	s := startServer(ServerConfig{})
	l.Advance(0)
	var clock atomic.Uint64
	var wg sync.WaitGroup
	var left atomic.Int64 // readers that have not seen enough
	for range 8 {
		left.Add(1)
		wg.Go(func() {
			defer left.Add(-1)
			var last Clocks
			for range 1000 {
				now := clock.Load()
				c, ok := l.Snapshot(now)
				l.Fraction(now)
				l.Accept(1, 216_000, now)
				// If it was interrupted, that was no longer the present.
				if clock.Load()-now <= readerMargin {
					if !ok || c.back(last) {
						t.Errorf("read %v after %v", c, last)
						return
					}
					last = c
				}
				runtime.Gosched() // more readers than processors
				want := Hz(60).Ticks(time.Duration(now) * us)
				if w, ok := s.Announce(1, now); !ok || w.OriginUsec != 0 || w.Tick != want {
					t.Errorf("at %d: %+v", now, w)
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(25, 0))
	advances := 0
	for now := uint64(0); left.Load() > 0 || advances < 1000; advances++ {
		now += 1000 + rng.Uint64N(20_000)
		remote.offset += rng.Int64N(2001) - 1000
		clock.Store(now) // readers may be ahead of the Advance
		l.Advance(now)
		s.Advance(now)
		runtime.Gosched()
	}
	wg.Wait()
}

// Clocks are pinned to the tick, also when several pass in one frame in which the
// clocks do not go alike.
func TestPinned(t *testing.T) {
	// They are slewed by up to half a second in a second.
	l, remote, r := newClient(ClientConfig{SlewPPM: 500_000, DeadBand: 1})
	l.Advance(0)
	must(t, l.SetBuffers(ms(60), ms(100))) // predicted hurries, the server clock slows down
	l.Advance(1000)
	l.Advance(1000 + readerMargin) // when the slews begin
	a, _ := l.Snapshot(1000 + readerMargin)
	n := l.Advance(101_000 + readerMargin)
	b, _ := l.Snapshot(101_000 + readerMargin)
	went := b.since(a)
	if n < 5 || went[predicted] < ms(120) || went[server] > ms(80) {
		t.Fatalf("%d ticks, the clocks went %v: no test", n, went)
	}
	for _, s := range r.infos[len(r.infos)-n:] {
		check(t, s.PredictedTime, Hz(60).At(s.Tick, 0), "tick %d", s.Tick)
		check(t, s.Delta, s.PredictedTime.length(), "tick %d: its length", s.Tick)
		share := float64(s.PredictedTime.Sub(a.PredictedTime)) / float64(went[predicted])
		want := float64(a.ServerTime.Duration()) + share*float64(went[server])
		if d := math.Abs(float64(s.ServerTime.Duration()) - want); d > 2 {
			t.Errorf("tick %d: the server clock is %v ns off the line", s.Tick, d)
		}
	}
	// After a step the clocks are taken to have gone alike: what they did before it, each at its
	// own pace, says nothing of the new times.
	remote.shift(sec)
	l.Advance(201_000 + readerMargin)
	c, _ := l.Snapshot(201_000 + readerMargin)
	s := r.infos[len(r.infos)-1]
	check(t, s.PredictedTime.Sub(s.ServerTime), c.PredictedTime.Sub(c.ServerTime),
		"tick %d, after a step", s.Tick)
	check(t, l.Stats().Steps, 1, "steps")
}

func TestFraction(t *testing.T) {
	long := Rate{1, 20_000_000}.At(0, 20_000_000*sec-1)
	check(t, long.Tick() == 0 && long.Fraction() < 1, true, "a tick of 231 days is nearly over")
	l := mustServer(ServerConfig{Config: Config{Rate: Hz(50)}})
	check(t, l.Fraction(0), 0, "before Start")
	l.Start(0)
	l.Advance(0)
	for at, want := range map[uint64]float64{0: 0, 5000: 0.25, 15_000: 0.75, 20_000: 1, 50_000: 1} {
		if f := l.Fraction(at); math.Abs(f-want) > 1e-9 {
			t.Errorf("at %d us: %v, want %v", at, f, want)
		}
	}
}

// Times print as ticks, also before tick 0, clocks in structured logs as what they are, and events
// as sentences. The texts of all other events are compared by told, in all tests.
func TestStrings(t *testing.T) {
	r := Hz(50)
	c := Clocks{
		SharedTime:    r.At(100, 0),
		ServerTime:    r.At(98, ms(10)),
		PredictedTime: r.At(102, ms(5)),
	}
	const logged = "[shared=100.00 server=98.50 predicted=102.25 " +
		"server_ahead_s=-0.03 predicted_ahead_s=0.045]"
	for want, v := range map[string]fmt.Stringer{
		logged:    c.LogValue(),
		"-1.50":   r.At(0, -ms(30)),
		"-1.00":   r.At(0, -ms(20)),
		"-0.50":   r.At(0, -ms(10)),
		"-0.10":   r.At(0, -ms(2)),
		"-0.01":   r.At(0, -1),
		"0.00":    r.At(0, 0),
		"0.50":    r.At(0, ms(10)),
		"event 0": Event{},
	} {
		check(t, v.String(), want, "%#v", v)
	}
}

func TestReadsDoNotAllocate(t *testing.T) {
	l, _, _ := newClient(ClientConfig{})
	l.Advance(0)
	now := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += 17
		_, _ = l.SharedTime(now)
		_, _ = l.ServerTime(now)
		_, _ = l.PredictedTime(now)
		_, _ = l.Snapshot(now)
		_, _ = l.Epoch()
		l.Fraction(now)
		l.Accept(1, 216_000, now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A call with an earlier time counts as the last one.
func TestBackwards(t *testing.T) {
	l := mustServer(ServerConfig{Config: Config{MaxTicks: 100}})
	l.Start(1_000_000)
	for i, tt := range []struct {
		now   uint64
		ticks int
	}{{2_000_000, 61}, {1_500_000, 0}, {2_000_000, 0}, {2_100_000, 6}} {
		check(t, l.Advance(tt.now), tt.ticks, "call %d: ticks", i)
	}
	check(t, l.Stats(), Stats{Ticks: 67, Backwards: 1}, "in all")
	for back, want := range map[uint64]time.Duration{
		500_000:   ms(500),
		3_000_000: -ms(2000),
		1 << 62:   -maxStart / 1000 * 1000,
	} {
		got, _ := l.SharedTime(2_000_000 - back)
		check(t, got.Duration(), want, "%d us before", back)
	}
}
