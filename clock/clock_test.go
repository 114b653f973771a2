// These tests prove that the clock never goes back, that times of receipt are never too early, and
// that its step is found whatever the clock.

package clock

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"timesync"
	"timesync/internal/testkit"
)

const us, ms, sec = time.Microsecond, time.Millisecond, time.Second

// check fails if a test got something else than it wants.
func check[T comparable](t *testing.T, got, want T, format string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", fmt.Sprintf(format, args...), got, want)
	}
}

// neverBack fails if a goroutine that reads later reads less. Each has a number.
func neverBack(t *testing.T, name string, goroutines int, read func(goroutine uint64) uint64) {
	t.Helper()
	var latest atomic.Uint64
	var all sync.WaitGroup
	for g := range uint64(goroutines) {
		all.Go(func() {
			for range 20_000 {
				before := latest.Load()
				now := read(g)
				if now < before {
					t.Errorf("%s returned %d after %d", name, now, before)
					return
				}
				for before < now && !latest.CompareAndSwap(before, now) {
					before = latest.Load()
				}
			}
		})
	}
	all.Wait()
}

// TestNeverBack: and a reading does not allocate.
func TestNeverBack(t *testing.T) {
	for name, read := range map[string]func() uint64{"Now": Now, "Received": Received} {
		neverBack(t, name, 2*runtime.GOMAXPROCS(0), func(uint64) uint64 { return read() })
		check(t, testing.AllocsPerRun(100, func() { read() }), 0, "%s: allocations", name)
	}
}

// TestNow: it is in microseconds, and Received is later by the step.
func TestNow(t *testing.T) {
	before := Now()
	went := time.Now()
	time.Sleep(20 * ms)
	passed := Now() - before
	gone := time.Since(went)
	if passed < 20_000-16_000 || time.Duration(passed)*us > gone+sec {
		t.Errorf("%d us passed, %v on Go's clock", passed, gone)
	}
	t.Logf("step %v", Step())
	if runtime.GOOS != "js" && runtime.GOOS != "wasip1" && (Step() <= 0 || Step() > 100*us) {
		t.Errorf("step %v: all systems have a finer clock", Step())
	}
	late := uint64(Step().Microseconds() + 2)
	for range 1000 {
		before := Now()
		received := Received()
		after := Now()
		if received < before || received > after+late {
			t.Fatalf("received at %d, read from %d to %d, step %v", received, before, after, Step())
		}
	}
}

// stepping is a clock that advances in steps, and jitters them if jitter is not nil. Each reading
// takes cost, and now and then, as other programs run, much longer.
type stepping struct {
	now, step, cost time.Duration
	jitter          *rand.Rand
	busy            *rand.Rand
	at              time.Duration // the step that threshold is of
	threshold       time.Duration
}

func (s *stepping) read() time.Duration {
	s.now += s.cost
	if s.busy != nil && s.busy.Int64N(int64(10*ms)) < int64(s.cost) { // 100 times a second
		s.now += time.Duration(s.busy.Int64N(int64(4 * ms)))
	}
	return s.shows()
}

// shows returns what the clock shows at s.now.
func (s *stepping) shows() time.Duration {
	down := s.now - s.now%s.step
	if s.jitter != nil {
		if down != s.at {
			s.at = down
			s.threshold = time.Duration(s.jitter.Int64N(int64(s.step)))
		}
		if s.now-down >= s.threshold {
			down += s.step
		}
	}
	return down
}

// TestMeasure: the step of a clock is found, and whether it is jittered. On a machine so busy that
// it stops the program 100 times a second, for up to 4 ms each, that fails a few times.
func TestMeasure(t *testing.T) {
	const seed = 46_100_000
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, step := range []time.Duration{100, 5 * us, 20 * us, 100 * us, ms, 15_600 * us} {
		for _, cost := range []time.Duration{300, 1500} {
			for _, jittered := range []bool{false, true} {
				if jittered && (step < 16*cost || step > 2*ms) {
					continue // too few readings in a step, or steps in 0.1 s
				}
				measured(t, r, step, cost, jittered, false)
				measured(t, r, step, cost, jittered, true)
			}
		}
	}
	// A clock that is too coarse for many looks costs at most two of its steps.
	s := stepping{step: 100 * ms, cost: 100}
	if got := measure(s.read); got != s.step || s.now > 250*ms {
		t.Errorf("step %v: measured %v in %v", s.step, got, s.now)
	}
	check(t, measure(func() time.Duration { return 5 }), 0, "a clock that stands still")
}

// measured fails if it is not found by how much readings of such a clock may lag behind.
func measured(t *testing.T, r *rand.Rand, step, cost time.Duration, jittered, busy bool) {
	// if a reading takes longer than a step, it differs by whole steps
	lag := max(step, cost/step*step)
	if jittered {
		lag *= 2
	}
	runs := testkit.Sized(10, 40, 40)
	wrong := 0
	for range runs {
		s := stepping{now: time.Duration(r.Int64N(1e12)), step: step, cost: cost}
		if busy {
			s.busy = rand.New(rand.NewPCG(r.Uint64(), 1))
		}
		if jittered {
			s.jitter = rand.New(rand.NewPCG(r.Uint64(), 2))
		}
		if got := measure(s.read); got < lag || got >= lag*3/2 || step > cost && got != lag {
			wrong++
		}
	}
	if wrong > runs/10 || wrong > 0 && !busy {
		t.Errorf("step %v, cost %v, jittered %v, busy %v: %d of %d wrong",
			step, cost, jittered, busy, wrong, runs)
	}
}

// TestRounding: a reading is never late, and a time of receipt never early, by more than the step.
// A jittered clock is compared with one that is a step ahead.
func TestRounding(t *testing.T) {
	const seed = 46_200_000
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, step := range []time.Duration{1, 100, 999, 5 * us, 100 * us, ms, 15_600 * us} {
		for _, jittered := range []bool{false, true} {
			s := stepping{step: step}
			lag, ahead := step, time.Duration(0)
			if jittered {
				s.jitter = rand.New(rand.NewPCG(seed, uint64(step)))
				lag = 2 * step
				ahead = step
			}
			for range 2000 {
				s.now += time.Duration(r.Int64N(int64(3*step) + 1000))
				true := origin + s.now + ahead // ns
				now := time.Duration(reading(s.shows())) * us
				received := time.Duration(received(s.shows(), lag)) * us
				if now > true || now <= true-lag-us || received < true || received >= true+lag+us {
					t.Fatalf("%v, jittered %v: %v before, and received %v after",
						s, jittered, true-now, received-true)
				}
			}
		}
	}
}

// TestRange: a reading is a time.Duration, never goes below 0, and never beyond the longest one.
func TestRange(t *testing.T) {
	const year = 365.25 * 24 * time.Hour
	for _, elapsed := range []time.Duration{
		math.MinInt64 / 2, -51 * year, -50 * year, -27 * year, 0, 1, 242 * year,
	} {
		got := reading(elapsed)
		check(t, time.Duration(got)*us, max(origin+elapsed, 0).Truncate(us), "after %v", elapsed)
	}
	const last = math.MaxInt64 / 1000 // us
	check(t, reading(243*year), last, "after 243 years")
	check(t, At(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)), last, "in the year 9999")
	// Windows compares two clocks at each call.
	if apart := Time(math.MaxUint64).Sub(Time(last)).Abs(); apart > time.Second {
		t.Errorf("the largest reading is %v from the last one", apart)
	}
	if now := time.Duration(Now()) * us; now < origin || now > origin+year {
		t.Errorf("the clock shows %v", now)
	}
}

// TestAt: a time.Time becomes a reading, and a reading a time.Time. Windows' time.Time has steps
// of 15.6 ms.
func TestAt(t *testing.T) {
	before := Now()
	then := time.Now()
	after := Now()
	if runtime.GOOS == "windows" {
		before -= 50_000
		after += 1_000_000
	}
	got := At(then)
	if got < before || got > after {
		t.Errorf("At says %d, read between %d and %d", got, before, after)
	}
	if back := At(then.Add(-time.Hour)); got-back > 3_601_000_000 || got-back < 3_599_000_000 {
		t.Errorf("an hour before, it says %d us less", got-back)
	}
	if d := Time(got).Sub(then); d > sec || d < -50*ms {
		t.Errorf("Time of At is %v later", d)
	}
	for usec := got; usec > 1 && runtime.GOOS != "windows"; usec /= 2 { // exact elsewhere
		check(t, At(Time(usec)), usec, "At of Time")
	}
}

// TestBubble: in a bubble of testing/synctest, which begins in the year 2000, the clock is that of
// the bubble, on every system.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := Now()
		time.Sleep(time.Hour)
		check(t, Now()-first, 3_600_000_000, "an hour, in us")
		check(t, At(time.Now()), Now(), "At")
		check(t, time.Until(Time(Now())).Truncate(us), 0, "from now to Time of Now")
	})
}

// TestNanoseconds: the product of ticks and a second does not overflow, whatever the frequency.
func TestNanoseconds(t *testing.T) {
	const seed = 46_300_000
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	edge := []uint64{1, 2, 999, 1000, 1193182, 3579545, 1e7, 1e9,
		1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, math.MaxUint64, 0}
	second := big.NewInt(1e9)
	most := big.NewInt(math.MaxInt64)
	for i := range 200_000 {
		ticks := r.Uint64() >> r.IntN(64)
		frequency := r.Uint64()>>r.IntN(64) | 1
		if i < len(edge)*(len(edge)-1) {
			ticks = edge[i%len(edge)]
			frequency = edge[i/len(edge)]
		}
		want := new(big.Int).SetUint64(ticks)
		want.Mul(want, second).Div(want, new(big.Int).SetUint64(frequency))
		if want.Cmp(most) > 0 {
			want = most
		}
		got := nanoseconds(ticks, frequency)
		check(t, got, time.Duration(want.Int64()), "%d ticks at %d Hz", ticks, frequency)
	}
	check(t, nanoseconds(5, 0), math.MaxInt64, "no frequency") // no such counter; but no panic
}

// TestCounter: what two processors read a tick apart does not let the time go back, nor does a
// counter that was set back, nor one that wraps.
func TestCounter(t *testing.T) {
	for _, first := range []uint64{0, 1000, math.MaxUint64 - 500} {
		c := counter{frequency: 1e7, first: first}
		check(t, c.elapsed(first-1), 0, "first %d, before it", first)
		most := uint64(0)
		for _, ticks := range []uint64{0, 10, 9, 11, 1000, 999, 0, 1001} {
			most = max(most, ticks)
			want := time.Duration(most) * 100
			check(t, c.elapsed(first+ticks), want, "first %d, after %d ticks", first, ticks)
		}
	}
	c := counter{frequency: 1e7}
	var ticks atomic.Uint64
	neverBack(t, "the counter", 4, func(g uint64) uint64 {
		return uint64(c.elapsed(1 + ticks.Add(1) - g%2))
	})
}

// TestOneOrigin: the core's clock, which has no package below it, is the same one.
func TestOneOrigin(t *testing.T) {
	// us: packages are initialized one after the other; a century is what was wrong
	const apart = 100_000
	if d := int64(Now() - timesync.NowUsec()); d < -apart || d > apart {
		t.Errorf("package clock is %d us ahead of NowUsec", d)
	}
}
