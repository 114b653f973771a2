// Ten properties that the tests of other engines hold, in our words: Unity's NetworkTime and time
// system, netfox's tick loop, lightyear's timelines, Mirror's snapshot interpolation.

package tick

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Unity, NetworkTime: time that is advanced in many small steps is the same as in one large one,
// at the same tick and offset.
func TestEngineTimeAdvances(t *testing.T) {
	for _, r := range []Rate{Hz(10), Hz(30), Hz(60), {60000, 1001}} {
		at := r.At(0, 0)
		for step := range 10_000 {
			at = at.Add(7 * ms(1))
			want := r.At(0, time.Duration(step+1)*7*ms(1))
			if at != want {
				t.Fatalf("%v: %v after %d steps, want %v", r, at, step+1, want)
			}
		}
	}
}

// Unity, NetworkTime: the tick of a time is the last one that has started, also of negative
// times, and from a tick to its time and back nothing is lost.
func TestEngineTickOfTime(t *testing.T) {
	ticks := []Tick{-1_000_003, -31, -1, 0, 1, 7, 31, 8192, 15_361, 16_381, 10_000_000}
	for _, r := range []Rate{Hz(24), Hz(30), Hz(60), Hz(64), Hz(128), {60000, 1001}} {
		for _, n := range ticks {
			start := r.Duration(n)
			check(t, r.Ticks(start), n, "%v: at the start of tick %d", r, n)
			check(t, r.Ticks(start-1), n-1, "%v: just before tick %d", r, n)
			check(t, r.At(n, 0).Fraction(), 0, "%v: the fraction at the start of tick %d", r, n)
		}
	}
}

// Unity, NetworkTime: adding a span and taking it away again is nothing; offsets of more than a
// tick carry.
func TestEngineTimeArithmetic(t *testing.T) {
	r := Hz(30)
	for _, d := range []time.Duration{-time.Hour, -ms(40), -1, 0, 1, ms(40), time.Hour} {
		at := r.At(100, ms(5))
		check(t, at.Add(d).Add(-d), at, "%v there and back", d)
		check(t, at.Add(d).Sub(at), d, "the difference after %v", d)
		check(t, r.At(100, ms(5)+d), at.Add(d), "the offset of %v carries", d)
	}
}

// Unity, NetworkTickSystem: whatever the frames are, each tick is run once, in order, as many as
// the time has.
func TestEngineTicksOfFrames(t *testing.T) {
	random := newRand(t)
	for range 20 {
		var r recorder
		s := startServer(r.server(ServerConfig{Config: Config{Rate: Hz(30)}}))
		now := uint64(0)
		for range 1000 {
			now += 1000 + random.Uint64N(99_000)
			s.Advance(now)
		}
		r.told(t, "frames of 1 to 100 ms", "[synced]")
		check(t, Tick(r.ran), Hz(30).Ticks(time.Duration(now)*us)+1, "ticks in %d us", now)
	}
}

// Unity, NetworkTimeSystem: on a steady network the client's clocks keep their distances to the
// server's time, and nothing is reset. A jump of its server's clock resets them once.
func TestEngineSteadyNetwork(t *testing.T) {
	w := newWay(t, ClientConfig{})
	w.run(10 * sec)
	before := w.timing()
	for range 60 {
		w.run(sec)
		got := w.timing()
		if (got.Lead-before.Lead).Abs() > ms(2) || (got.Delay-before.Delay).Abs() > ms(2) {
			t.Fatalf("%+v, before %+v", got, before)
		}
	}
	w.rec.told(t, "steady", "[synced]")
	w.ahead += 1_000_000 // the client's clock jumps, and its remote clock knows
	w.remote.shift(-sec)
	w.run(10 * sec)
	check(t, len(w.rec.of(EventStepped)), 1, "steps")
	ours, _ := w.client.SharedTime(w.now + w.ahead)
	theirs, _ := w.server.SharedTime(w.now)
	check(t, ours.Sub(theirs), 0, "apart")
}

// netfox, NetworkTime: a loop has its brackets around it and around each tick, and a frame
// without ticks has none.
func TestEngineLoopOrder(t *testing.T) {
	var calls []string
	note := func(what string) { calls = append(calls, what) }
	s := startServer(ServerConfig{Handlers: Handlers{
		BeforeLoop: func() { note("before_loop") },
		BeforeTick: func(u Update) { note(fmt.Sprint("before ", u.Tick)) },
		Tick:       func(u Update) { note(fmt.Sprint("on ", u.Tick)) },
		AfterTick:  func(u Update) { note(fmt.Sprint("after ", u.Tick)) },
		AfterLoop:  func() { note("after_loop") },
	}})
	s.Advance(20_000)
	s.Advance(21_000)
	want := "before_loop, before 0, on 0, after 0, before 1, on 1, after 1, after_loop"
	check(t, strings.Join(calls, ", "), want, "the calls")
}

// netfox, NetworkTime: the tick factor goes evenly from 0 at a tick to 1 at the next, so that
// what is drawn moves evenly.
func TestEngineTickFactor(t *testing.T) {
	s := startServer(ServerConfig{Config: Config{Rate: Hz(10)}})
	for now := uint64(0); now < 1_000_000; now += 10_000 {
		s.Advance(now)
		want := float64(now%100_000) / 100_000
		if got := s.Fraction(now); got < want-1e-6 || got > want+1e-6 {
			t.Fatalf("at %d us the factor is %v, want %v", now, got, want)
		}
	}
}

// netfox, NetworkTime: a loop that is started twice runs each tick once, one that is stopped
// none, and one that is started again begins anew.
func TestEngineStartStop(t *testing.T) {
	ran := 0
	s := startServer(ServerConfig{Handlers: Handlers{Tick: func(Update) { ran++ }}})
	s.Start(0)
	s.Advance(100_000)
	check(t, ran, 7, "started twice")
	s.Stop()
	s.Stop()
	s.Advance(200_000)
	check(t, ran, 7, "stopped")
	s.Start(10_000_000)
	s.Advance(10_100_000)
	check(t, ran, 14, "started again")
}

// lightyear, InputTimeline: when an input arrives, the server has not yet run its tick, and the
// client is not further ahead than the path and the jitter take. That is so again within seconds
// after the round trip has grown or shrunk. While it is approached, the client's time runs at
// most a quarter faster or slower.
func TestEngineInputTimeline(t *testing.T) {
	w := newWay(t, ClientConfig{})
	w.run(10 * sec)
	for _, up := range []time.Duration{ms(30), ms(100), ms(20), ms(60)} {
		w.up = up
		w.run(2 * sec)
		last, _ := w.client.PredictedTime(w.now)
		for range 300 {
			w.run(ms(20))
			now, _ := w.client.PredictedTime(w.now)
			if d := now.Sub(last); d < ms(15)-ms(1) || d > ms(25)+ms(1) {
				t.Fatalf("the client goes on by %v in 20 ms", d)
			}
			last = now
		}
		late := w.late
		inTime := w.inTime
		w.run(10 * sec)
		if w.late > late || w.inTime < inTime+590 {
			t.Errorf("%v to the server: %d late, %d in time", up, w.late-late, w.inTime-inTime)
		}
		if lead := w.timing().Lead; lead > up+ms(10) {
			t.Errorf("%v to the server: the lead is %v", up, lead)
		}
	}
}

// lightyear, a peer's ticks: one of the far future, or the far past, is refused, so that nothing
// is kept for it.
func TestEngineFarTicks(t *testing.T) {
	s := startServer(ServerConfig{Epoch: 1})
	s.Advance(500_000)
	for n, want := range map[Tick]bool{
		30:      true,
		60:      true,
		30_000:  false,
		1 << 62: false,
		-30_000: false,
	} {
		check(t, s.Accept(1, n, 500_000), want, "tick %d is accepted", n)
	}
}

// Mirror, snapshot interpolation: states that come twice, late and out of order never let what is
// shown go back, and what is shown lies between the two states around its time.
func TestEngineSnapshots(t *testing.T) {
	random := newRand(t)
	var states States[float64]
	h := newHost(7, 2, 1000, 16_000)
	last := -1.0
	shown := 0
	h.shown = func(at, _ Time) {
		before, after, blend, ok := states.Around(at)
		if !ok {
			return
		}
		value := before + (after-before)*blend
		if value < last {
			t.Fatalf("%v is shown after %v", value, last)
		}
		last = value
		if after > before {
			shown++
			if d := value - at.Duration().Seconds(); d < -1e-6 || d > 1e-6 {
				t.Fatalf("at %v s %v is shown", at.Duration().Seconds(), value)
			}
		}
	}
	h.longer = func(uint64) uint64 { return random.Uint64N(20) * 1000 } // some overtake others
	for range 20_000 {
		arrive := h.states[h.now]
		h.run(h.now + 1000)
		for _, n := range append(arrive, arrive...) {
			states.Put(n, Hz(60).Duration(n).Seconds())
		}
	}
	if shown < 1000 {
		t.Errorf("in %d frames something is between two states", shown)
	}
}
