package jitter_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
	"unsafe"

	"timesync/jitter"
)

const ms = time.Millisecond

// source sends things at an even rate, which take 30 ms and a drawn time of 3 ms on the mean.
type source struct {
	*rand.Rand
	interval time.Duration
	sent     time.Duration // the next one
	longer   time.Duration // by how much the path is longer
}

func newSource(seed uint64, interval time.Duration) *source {
	return &source{Rand: rand.New(rand.NewPCG(seed, 74)), interval: interval}
}

func (s *source) delay() time.Duration {
	return 30*ms + s.longer + time.Duration(s.ExpFloat64()*float64(3*ms))
}

// feed lets n things arrive, and returns how many were late.
func (s *source) feed(e *jitter.Estimator, n int) (late int) {
	for range n {
		delay := s.delay()
		if wait, ok := e.Wait(); ok && delay > wait {
			late++
		}
		e.Add(s.sent, s.sent+delay)
		s.sent += s.interval
	}
	return late
}

func wait(t *testing.T, e *jitter.Estimator) time.Duration {
	t.Helper()
	wait, ok := e.Wait()
	if !ok {
		t.Fatal("nothing is known")
	}
	return wait
}

// check fails if two values differ by more than a limit.
func check(t *testing.T, got, want, limit time.Duration, format string, args ...any) {
	t.Helper()
	if (got - want).Abs() > limit {
		t.Errorf("%s: %v, want %v", fmt.Sprintf(format, args...), got, want)
	}
}

// TestShares: as many come late as are asked for, to within a third. Zero, NaN and what is below
// zero are one in a hundred; other values are cut off at the ends.
func TestShares(t *testing.T) {
	for _, tt := range []struct{ share, means float64 }{
		{0, 0.01},
		{-1, 0.01},
		{math.NaN(), 0.01},
		{math.Inf(-1), 0.01},
		{0.01, 0.01},
		{0.05, 0.05},
		{0.1, 0.1},
		{0.5, 0.5},
		{1, 0.5},
		{math.Inf(1), 0.5},
		{0.001, 0.001},
		{1e-9, 0.001},
	} {
		e := jitter.Estimator{Share: tt.share}
		s := newSource(1, 16*ms)
		n := int(2000 / tt.means)
		s.feed(&e, n/10)
		if late := float64(s.feed(&e, n)) / float64(n); math.Abs(late-tt.means) > tt.means/3 {
			t.Errorf("a share of %v: %.4f are late, want %v", tt.share, late, tt.means)
		}
	}
}

// TestFirst: nothing is known before the first arrival. The second one is judged by the first,
// and after a few the longest is allowed for.
func TestFirst(t *testing.T) {
	var e jitter.Estimator
	if _, ok := e.Wait(); ok || e.Interval() != 0 {
		t.Error("something is known at first")
	}
	e.Add(0, 50*ms)
	check(t, wait(t, &e), 50*ms, ms, "after the first")
	for i, delay := range []time.Duration{40, 60, 45, 55, 40} {
		sent := time.Duration(i+1) * 100 * ms
		e.Add(sent, sent+delay*ms)
	}
	check(t, wait(t, &e), 62*ms, 4*ms, "after six")
}

// TestIntervals: the interval of sending is known at each rate, also where some are lost.
func TestIntervals(t *testing.T) {
	for _, rate := range []int{1, 10, 20, 30, 60, 200} {
		var e jitter.Estimator
		interval := time.Second / time.Duration(rate)
		s := newSource(uint64(rate), interval)
		for range 100 {
			s.feed(&e, 2)
			s.sent += interval // each third is lost
		}
		check(t, e.Interval(), interval, 0, "%d a second", rate)
	}
}

// TestStops: a stop of the path, or of the program that sends, changes the wait by little, at any
// age and rate; also where the program catches up at 30 frames a second.
func TestStops(t *testing.T) {
	for _, rate := range []int{10, 20, 30, 60, 120} {
		for _, age := range []float64{0.3, 0.7, 1, 2, 4, 30, 200} {
			for _, length := range []time.Duration{300 * ms, 500 * ms, 900 * ms} {
				for _, kind := range []string{"path", "sender", "catching up"} {
					stopped(t, rate, age, length, kind)
				}
			}
		}
	}
}

// stopped plays a stop.
func stopped(t *testing.T, rate int, age float64, length time.Duration, kind string) {
	t.Helper()
	var e jitter.Estimator
	s := newSource(uint64(rate), time.Second/time.Duration(rate))
	s.feed(&e, int(age*float64(rate)))
	before := wait(t, &e)
	begin := s.sent
	type arrival struct{ sent, at time.Duration }
	var held []arrival
	for ; s.sent < begin+length; s.sent += s.interval {
		released := begin + length
		delay := s.delay()
		if kind == "catching up" { // 8 ticks of 60 Hz in each frame
			released += (s.sent - begin) / (133 * ms) * 33 * ms
		} else if kind == "path" {
			delay = time.Duration(len(held)) * ms / 5
		}
		held = append(held, arrival{s.sent, released + delay})
	}
	for len(held) > 0 { // in the order of arrival
		next := 0
		for i, a := range held {
			if a.at < held[next].at {
				next = i
			}
		}
		e.Add(held[next].sent, held[next].at)
		held = append(held[:next], held[next+1:]...)
	}
	s.feed(&e, 2*rate)
	// Of a young session the tail is known by few observations, and grows by itself.
	limit := 10 * ms
	if age < 30 {
		limit = 20 * ms
	}
	if grown := wait(t, &e) - before; grown > limit {
		t.Errorf("%d a second, a stop of the %s of %v after %v s: the wait has grown by %v from %v",
			rate, kind, length, age, grown, before)
	}
}

// TestLongerPath: a path that is longer, also by hours, is followed within half a second, up and
// down.
func TestLongerPath(t *testing.T) {
	for _, rate := range []int{10, 30, 60} {
		for _, longer := range []time.Duration{60 * ms, time.Second, 3 * time.Hour} {
			var e jitter.Estimator
			s := newSource(uint64(rate), time.Second/time.Duration(rate))
			s.feed(&e, 60*rate)
			before := wait(t, &e)
			s.longer = longer
			s.feed(&e, rate/2)
			check(t, wait(t, &e), before+longer, 10*ms, "%d a second, %v longer", rate, longer)
			s.longer = 0
			s.feed(&e, rate/2)
			check(t, wait(t, &e), before, 10*ms, "%d a second, %v shorter again", rate, longer)
		}
	}
}

// TestTimesGoBack: a clock that is set back, the sender's or the receiver's, by anything, is a
// path that changed.
func TestTimesGoBack(t *testing.T) {
	for _, back := range []time.Duration{5 * ms, time.Second, time.Hour, 300 * 24 * time.Hour} {
		var both jitter.Estimator
		s := newSource(3, 16*ms)
		s.feed(&both, 1000)
		before := wait(t, &both)
		s.sent -= back // both clocks
		s.feed(&both, 200)
		check(t, wait(t, &both), before, 5*ms, "both clocks go back by %v", back)
		check(t, both.Interval(), 16*ms, 0, "the interval, both clocks %v back", back)

		e := both
		s.longer = -min(back, 20*time.Hour) // the receiver's
		s.feed(&e, 200)
		check(t, wait(t, &e), before+s.longer, 5*ms, "the receiver's clock goes back by %v", back)
	}
}

// TestAnyTimes: no time is too large or too small.
func TestAnyTimes(t *testing.T) {
	for _, start := range []time.Duration{math.MaxInt64 - 1000*ms, math.MinInt64, -10 * ms} {
		for _, apart := range []time.Duration{0, math.MaxInt64, math.MinInt64} {
			var e jitter.Estimator
			s := newSource(4, 16*ms)
			for range 1000 {
				e.Add(s.sent+start, s.sent+start+apart+s.delay())
				s.sent += s.interval
			}
			check(t, wait(t, &e)-apart, 45*ms, 10*ms, "from %v on, clocks %v apart", start, apart)
		}
	}
}

// TestDuplicates: what comes twice counts once.
func TestDuplicates(t *testing.T) {
	var once, twice jitter.Estimator
	s := newSource(5, 16*ms)
	for range 1000 {
		sent := s.sent
		delay := s.delay()
		once.Add(sent, sent+delay)
		twice.Add(sent, sent+delay)
		twice.Add(sent, sent+delay+10*ms)
		s.sent += s.interval
	}
	check(t, wait(t, &twice), wait(t, &once), 0, "the wait")
}

// TestShift: a clock that was set, and of which the estimator is told, changes nothing but the
// wait by as much.
func TestShift(t *testing.T) {
	var set, same jitter.Estimator
	s := newSource(6, 16*ms)
	o := newSource(6, 16*ms)
	s.feed(&set, 100)
	o.feed(&same, 100)
	for _, by := range []time.Duration{time.Second, -5 * time.Hour} {
		set.Shift(by)
		s.longer += by
		s.feed(&set, 1)
		o.feed(&same, 1)
		check(t, wait(t, &set), wait(t, &same)+s.longer, 0, "the wait, %v later", by)
	}
}

// TestReset: after a Reset nothing is known but the share.
func TestReset(t *testing.T) {
	e := jitter.Estimator{Share: 0.1}
	s := newSource(7, 16*ms)
	s.feed(&e, 1000)
	e.Reset()
	if e != (jitter.Estimator{Share: 0.1}) {
		t.Errorf("something is left: %+v", e)
	}
}

// TestGoroutines: under a mutex several goroutines may use one.
func TestGoroutines(t *testing.T) {
	var e jitter.Estimator
	var mutex sync.Mutex
	var group sync.WaitGroup
	s := newSource(8, 16*ms)
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 1000 {
				mutex.Lock()
				s.feed(&e, 1)
				mutex.Unlock()
			}
		}()
	}
	group.Wait()
	check(t, wait(t, &e), 45*ms, 10*ms, "the wait")
}

// TestSize: an estimator is small, and an arrival allocates nothing.
func TestSize(t *testing.T) {
	if size := unsafe.Sizeof(jitter.Estimator{}); size > 1024 {
		t.Errorf("%d bytes", size)
	}
	var e jitter.Estimator
	s := newSource(9, 16*ms)
	if n := testing.AllocsPerRun(1000, func() { s.feed(&e, 1) }); n != 0 {
		t.Errorf("%v allocations in an arrival", n)
	}
}

// FuzzAdd: whatever has arrived, an estimator is right again when an even stream has arrived for
// a while.
func FuzzAdd(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 2, 3, 200, 90, 10, 255, 0, 7, 7, 7, 7})
	f.Add([]byte("held up, held up, and then a stop, and then a stop again"))
	f.Fuzz(func(t *testing.T, tape []byte) {
		e := jitter.Estimator{Share: 0.1}
		var sent, arrived time.Duration
		for len(tape) >= 3 {
			step := func(b byte) time.Duration { return time.Duration(int8(b)) << (tape[0] % 56) }
			sent += step(tape[1])
			arrived += step(tape[2])
			if tape[0] >= 224 {
				e.Shift(step(tape[1]))
			} else {
				e.Add(sent, arrived)
			}
			tape = tape[3:]
		}
		const usual = 40 * ms
		for range 700 { // more than two halves of the tail, 300, and what may be held up
			arrived += 20 * ms
			e.Add(arrived, arrived+usual)
		}
		if got := wait(t, &e); got < usual || got > usual+ms {
			t.Fatalf("the wait is %v, where all take %v", got, usual)
		}
	})
}
