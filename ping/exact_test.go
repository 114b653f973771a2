// These tests prove the figures of single steps, each on both sides of its limit.

package ping

import (
	"cmp"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"timesync"
)

// Exact values: what the worlds of the other tests would forgive.

// answer makes an exchange with the given four timestamps.
func answer(c *Clock, t1, t2, t3, t4 uint64) Verdict {
	request := c.AppendRequest(nil, t1)
	reply, _ := AppendReply(nil, request, c.session, t2, t3)
	return c.HandleReply(reply, t4)
}

// TestUnsynchronized: before the first exchange and after Reset all answers are zero
// and not ok.
func TestUnsynchronized(t *testing.T) {
	c := new(Clock)
	nothing := func(when string) {
		t.Helper()
		remote, ok := c.RemoteTime(7)
		bound, okBound := c.ErrorBound(7)
		delay, okDelay := c.MinimumOneWayDelay()
		skew, okSkew := c.Skew()
		s, okSnapshot := c.Snapshot(7)
		if ok || okBound || okDelay || okSkew || okSnapshot || remote != 0 || bound != 0 || delay != 0 || skew != 0 || s != (timesync.Snapshot{}) {
			t.Errorf("%s: %d %v, %v %v, %v %v, %v %v, %+v %v", when, remote, ok, bound, okBound, delay, okDelay, skew, okSkew, s, okSnapshot)
		}
	}
	nothing("at first")
	w := newWorld(c)
	w.keepPinging()
	w.run(time.Minute)
	if s := w.snapshot(t); s.Steps != 0 || c.Count(Synced) != 1 || c.Count(Accepted) < 200 {
		t.Errorf("%+v, %d synced, %d accepted", s, c.Count(Synced), c.Count(Accepted))
	}
	c.Reset(1)
	nothing("after Reset")
	for v := range verdicts {
		if c.Count(v) != 0 {
			t.Errorf("after Reset: %d %v", c.Count(v), v)
		}
	}
	c.Reset(1) // of a clock that knows nothing: nothing jumps
	w.run(time.Second)
	if s := w.snapshot(t); s.Steps != 1 || c.Count(Synced) != 1 {
		t.Errorf("a reading after Reset is no step: %+v, %d synced", s, c.Count(Synced))
	}
}

// TestSnapshot: all values of a clock that has heard two exchanges, of the second of
// which a way took 2 us longer.
func TestSnapshot(t *testing.T) {
	c := new(Clock)
	if v := answer(c, 1000, 51_030, 51_040, 1070); v != Synced {
		t.Fatal(v)
	}
	want := timesync.Snapshot{RemoteUsec: 51_070, OffsetUsec: 50_000, ErrorBound: 32 * time.Microsecond, MinimumOneWayDelay: 30 * time.Microsecond, SkewError: 600, MinimumDelayToPeer: 30 * time.Microsecond}
	if got, _ := c.Snapshot(1070); got != want {
		t.Errorf("after one exchange %+v, want %+v", got, want)
	}
	// 600 ppm either way, rounded down, from the middle of the exchange.
	for _, x := range []struct{ at, us uint64 }{{1035, 32}, {1000, 32}, {1035 + 1666, 32}, {1035 + 1667, 33}, {1_001_037, 632}, {1036 - 5000 + 1<<63<<1, 34}, {1034 - 5000 + 1<<63<<1, 35}} {
		if got, _ := c.ErrorBound(x.at); got != time.Duration(x.us)*time.Microsecond {
			t.Errorf("bound at %d: %v, want %d us", x.at, got, x.us)
		}
	}
	// The past reads the same way from the first exchange on.
	if got, _ := c.RemoteTime(500); got != 50_500 {
		t.Errorf("the past reads %d, want 50500", got)
	}
	// The second says least doubt, as it is younger, and reads 1 us more; its round trip is
	// odd, so its bound is 32 us and 2 for rounding.
	answer(c, 101_000, 151_032, 151_042, 101_073)
	want = timesync.Snapshot{RemoteUsec: 151_583, OffsetUsec: 50_000, ErrorBound: 35 * time.Microsecond, MinimumOneWayDelay: 30 * time.Microsecond,
		Jitter: 500 * time.Nanosecond, JitterKnown: true, Age: 510 * time.Microsecond, Undisturbed: 100_513 * time.Microsecond, SkewError: 600, MinimumDelayToPeer: 30 * time.Microsecond}
	if got, _ := c.Snapshot(101_583); got != want {
		t.Errorf("after two exchanges %+v, want %+v", got, want)
	}
	// No age is negative, as none is in the core.
	if got, _ := c.Snapshot(1<<64 - 16_000_000); got.Age != 0 || got.Undisturbed != 0 {
		t.Errorf("before the first exchange: heard %v ago, undisturbed %v", got.Age, got.Undisturbed)
	}
	if delay, ok := c.MinimumOneWayDelay(); delay != want.MinimumOneWayDelay || !ok {
		t.Errorf("delay %v, %v", delay, ok)
	}
}

// TestNext: 8 requests at most 100 ms apart, then one per interval. At the longest interval, too, and
// when the local clock goes back: by up to an interval, nothing is asked twice; by more, it was set.
func TestNext(t *testing.T) {
	const second = 1_000_000
	for _, x := range []struct {
		interval time.Duration
		now      int64
		want     time.Duration
	}{
		{0, 0, 250 * ms}, {20 * ms, 0, 20 * ms}, {time.Second, 0, time.Second}, {time.Second, second / 4, 750 * ms}, {time.Second, second, 0}, {time.Second, 5 * second, 0},
		{time.Second, -1, time.Second}, {time.Second, -second, time.Second}, {time.Second, -second - 1, 0}, {time.Second, math.MinInt64, 0},
		{math.MaxInt64, 0, math.MaxInt64}, {math.MaxInt64, -second, math.MaxInt64}, {math.MaxInt64, second, math.MaxInt64 - time.Second},
	} {
		c := &Clock{conf: Config{SyncInterval: x.interval}}
		if c.Next(0) != 0 {
			t.Error("the first request waits")
		}
		for i := range fastRequests {
			if i > 0 && c.Next(1<<40) != min(cmp.Or(x.interval, DefaultSyncInterval), 100*ms) {
				t.Errorf("interval %v: after %d requests the next in %v", x.interval, i, c.Next(1<<40))
			}
			c.AppendRequest(nil, 1<<40)
		}
		if got := c.Next(1<<40 + uint64(x.now)); got != x.want {
			t.Errorf("interval %v, %d us later: %v, want %v", x.interval, x.now, got, x.want)
		}
	}
}

// TestMeasure: the limits of what is believed, to the microsecond.
func TestMeasure(t *testing.T) {
	for _, x := range []struct {
		name           string
		t1, t2, t3, t4 uint64
		want           sample
		verdict        Verdict
	}{
		{"at once", 5, 9, 9, 5, sample{5, 4, 0, 2}, Accepted},
		{"60 us", 100, 530, 540, 170, sample{135, 400, 60, 32}, Accepted},
		{"odd", 100, 530, 540, 171, sample{135, 400, 61, 33}, Accepted},
		{"before it was sent", 100, 530, 530, 99, sample{}, Impossible},
		{"ten seconds", 0, 5_000_000, 5_000_000, 10_000_000, sample{5_000_000, 0, 10_000_000, 5_003_002}, Accepted},
		{"and more", 0, 5_000_000, 5_000_000, 10_000_001, sample{}, TooLate},
		{"held as long as the clocks can disagree", 0, 0, 1_000_602, 1_000_000, sample{500_000, 301, 0, 302}, Accepted},
		{"and longer", 0, 0, 1_000_603, 1_000_000, sample{}, Impossible},
		{"answered before it was asked", 0, 500_000, 500_000 - coarseUsec - 1, 1_000_000, sample{}, Impossible},
		{"a wrap of both clocks", math.MaxUint64 - 9, math.MaxUint64 - 19, 0, 30, sample{10, math.MaxUint64 - 19, 20, 12}, Accepted},
	} {
		if got, v := measure(x.t1, x.t2, x.t3, x.t4); v != x.verdict || v == Accepted && got != x.want {
			t.Errorf("%s: %+v, %v, want %+v, %v", x.name, got, v, x.want, x.verdict)
		}
	}
}

// TestSlewShares: each correction takes one AdjustSteps-th, rounded away from zero, 20 ms
// after the reply, and none is begun before the last one has lasted for 20 ms.
func TestSlewShares(t *testing.T) {
	const now = 1 << 40
	for _, x := range []struct {
		steps, samples int
		e, want        int64
	}{
		{0, 64, 0, 0}, {0, 64, 1, 1}, {0, 64, -1, -1}, {0, 64, 8, 1}, {0, 64, -8, -1}, {0, 64, 9, 2}, {0, 64, -9, -2},
		{3, 64, 10, 4}, {3, 2, 10, 5}, {0, 1, 10, 10}, {1, 64, -10, -10},
	} {
		c := &Clock{conf: Config{AdjustSteps: x.steps}, window: make([]sample, x.samples)}
		next := &published{after: segment{at: now - 1000}}
		next.before, next.from = next.after, now-settleUsec
		before := *next
		s := sample{at: now, offset: uint64(x.e) - (now - 1000)}
		c.slew(next, s, now)
		want := segment{now + settleUsec, 1000 + settleUsec, 0, x.want}
		if next.after != want || next.before != before.after || next.from != now+settleUsec {
			t.Errorf("one in %d, %d samples, error %d us: %+v, want %+v", x.steps, x.samples, x.e, next, want)
		}
		for _, begun := range []int64{-settleUsec, 0, settleUsec - 1} {
			next := before
			next.from = now - uint64(begun)
			again := next
			if c.slew(&next, s, now); next != again {
				t.Errorf("corrected %d us after the last correction began", begun)
			}
		}
		next.from = now + settleUsec + 1 // the local clock was set back
		if c.slew(next, s, now); next.from != now+settleUsec {
			t.Error("a clock that was set back waits")
		}
	}
}

// TestNotBefore: a reply that was handed over late does not change the present, up to
// the age at which replies are refused.
func TestNotBefore(t *testing.T) {
	p := &published{heard: 5}
	for _, x := range []struct{ now, want uint64 }{
		{5, 5}, {6, 6}, {1 << 62, 1 << 62}, {4, 5}, {lateUsec + 6, lateUsec + 6},
		{5 - lateUsec + 1<<63<<1, 5}, {4 - lateUsec + 1<<63<<1, 4 - lateUsec + 1<<63<<1},
	} {
		if got := p.notBefore(x.now); got != x.want {
			t.Errorf("%#x became %#x, want %#x", x.now, got, x.want)
		}
	}
	c := new(Clock)
	answer(c, 0, 500_000, 500_000, 1_000_000)
	answer(c, 100, 500_000, 500_000, 900_000)
	if heard := c.known.Load().heard; heard != 1_000_000 {
		t.Errorf("a reply of before changes what is read from %d on", heard)
	}
}

// TestAdmitsExactly: bounds that touch can both be true.
func TestAdmitsExactly(t *testing.T) {
	for _, skew := range []int64{0, maxSkew / 2} {
		p := &published{best: sample{at: 0, offset: 1000, half: 30}, skew: skew}
		const at = 1_000_000 // 600 us of rates, and the skew
		drifted, slack := scale(at, skew), scale(at, maxSkew+skew)
		for _, x := range []struct {
			offset int64
			want   bool
		}{
			{1000 + drifted, true}, {1000 + drifted + 70 + slack, true}, {1000 + drifted + 71 + slack, false},
			{1000 + drifted - 70 - slack, true}, {1000 + drifted - 71 - slack, false},
		} {
			if got := p.admits(sample{at: at, offset: uint64(x.offset), half: 40}); got != x.want {
				t.Errorf("skew %d, offset %d: %v, want %v", skew, x.offset, got, x.want)
			}
		}
	}
}

// TestErrorBoundSaturates: no sum of a bound and a distance becomes negative.
func TestErrorBoundSaturates(t *testing.T) {
	const most = math.MaxInt64 / 1000 * 1000
	for _, offset := range []uint64{1<<63 - 1, 1 << 63, 1<<63 + 1, 1 << 62} {
		p := &published{best: sample{half: math.MaxInt64 / 4 * 3}}
		p.after.remote, p.before.remote = offset, offset
		if got := p.errorBound(0); got != most {
			t.Errorf("offset %#x: %d, want %d", offset, got, int64(most))
		}
	}
	p := &published{best: sample{half: 30, offset: 5}}
	p.after.remote, p.before.remote = 12, 12
	if got := p.errorBound(0); got != 37*time.Microsecond {
		t.Errorf("%v, want 37us", got)
	}
}

// TestDuration: whole microseconds, and the largest durations for what does not fit.
func TestDuration(t *testing.T) {
	const most = math.MaxInt64 / 1000
	for _, x := range []struct{ us, want int64 }{
		{0, 0}, {1, 1000}, {-1, -1000}, {most, most * 1000}, {most + 1, most * 1000}, {math.MaxInt64, most * 1000},
		{-most, -most * 1000}, {-most - 1, -most * 1000}, {math.MinInt64, -most * 1000},
	} {
		if got := duration(x.us); int64(got) != x.want {
			t.Errorf("%d us: %d ns, want %d", x.us, got, x.want)
		}
	}
	for _, x := range []struct {
		v    int64
		want uint64
	}{{0, 0}, {1, 1}, {-1, 1}, {math.MaxInt64, 1<<63 - 1}, {math.MinInt64, 1 << 63}} {
		if got := magnitude(x.v); got != x.want {
			t.Errorf("|%d| = %d", x.v, got)
		}
	}
}

// TestPending: replies to the last 64 requests are known, older ones are not; and
// a reply overtakes the requests before it, no others, although the local clock was set
// back before each of them.
func TestPending(t *testing.T) {
	c := new(Clock)
	var replies [][]byte
	for i := range uint64(64 + 1) {
		reply, _ := AppendReply(nil, c.AppendRequest(nil, 64-i), 0, i, i)
		replies = append(replies, reply)
	}
	for _, x := range []struct {
		i    int
		want Verdict
	}{{0, UnknownRequest}, {2, Synced}, {1, Overtaken}, {1, Overtaken}, {2, Duplicate}, {64, Accepted}, {3, Overtaken}, {63, Overtaken}, {64, Duplicate}} {
		if v := c.HandleReply(replies[x.i], 100); v != x.want {
			t.Errorf("reply %d: %v, want %v", x.i, v, x.want)
		}
	}
	// A nonce of zero is one as any other; a place of the ring that was never used has none.
	c = new(Clock)
	c.AppendRequest(nil, 0)
	if v := c.HandleReply(appendReply(nil, message{}), 1); v != UnknownRequest {
		t.Errorf("a reply to no request: %v", v)
	}
}

// points feeds a drift with one exchange a bucket: the offset and round trip of each.
func points(bucket uint64, all ...[2]int64) *drift {
	var d drift
	for i, p := range all {
		d.add(sample{at: uint64(i) * bucket, offset: uint64(p[0]), trip: p[1]})
	}
	return &d
}

// TestDriftDoubt: a slope is believed when its doubt is under 25 ppm, which is half of
// what the two exchanges were slower than the quickest, and 20 us for reading clocks;
// and that of the least doubt.
func TestDriftDoubt(t *testing.T) {
	const span = bucketUsec // 25 ppm of it are 200 us
	same := points(span, [2]int64{0, 9}, [2]int64{0, 9})
	same.add(sample{at: 0, trip: 1}) // the quickest of its bucket, at the time of the first
	same.add(sample{at: 2*span + 1})
	for _, x := range []struct {
		name string
		d    *drift
		want float64
		ok   bool
	}{
		{"two at the same time", same, 0, false},
		{"no pair", points(span, [2]int64{0, 0}, [2]int64{80, 0}), 0, false},
		{"10 ppm", points(span, [2]int64{0, 0}, [2]int64{80, 0}, [2]int64{999, 0}), 10, true},
		{"-10 ppm, slower by 358 us", points(span, [2]int64{0, 7358}, [2]int64{-80, 7000}, [2]int64{999, 0}), -10, true},
		{"the other slower by 358 us", points(span, [2]int64{0, 7000}, [2]int64{80, 7358}, [2]int64{999, 0}), 10, true},
		{"slower by 362 us", points(span, [2]int64{0, 362}, [2]int64{80, 0}, [2]int64{999, 0}), 0, false},
		{"both slower by 180 us", points(span, [2]int64{0, 180}, [2]int64{0, 0}, [2]int64{40, 180}, [2]int64{}, [2]int64{}), 0, true},
		{"the longest span of equals", points(span, [2]int64{0, 0}, [2]int64{60, 0}, [2]int64{160, 0}, [2]int64{999, 0}), 10, true},
		{"the quicker pair of equal spans", points(span, [2]int64{80, 300}, [2]int64{80, 0}, [2]int64{240, 0}, [2]int64{999, 0}), 20, true},
		{"a bucket is 8 s", points(span-1, [2]int64{0, 0}, [2]int64{80, 0}, [2]int64{0, 0}, [2]int64{0, 0}), 0, false},
	} {
		if got := inPPM(x.d.skew); x.d.known != x.ok || math.Abs(got-x.want) > 0.001 {
			t.Errorf("%s: %.3f ppm, %v, want %.3f, %v", x.name, got, x.d.known, x.want, x.ok)
		}
	}
}

// TestDriftMemory: 16 buckets of 8 s are kept, the latest ones.
func TestDriftMemory(t *testing.T) {
	d := points(bucketUsec, make([][2]int64, 32)...) // the last one is open
	if d.n != 16 || len(d.points) != 16 {
		t.Fatalf("%d points of %d", d.n, len(d.points))
	}
	for i, p := range d.points {
		if want := uint64(15+i) * bucketUsec; p.at != want {
			t.Errorf("point %d is at %d, want %d", i, p.at, want)
		}
	}
}

// TestDriftAfterMonths: a slope is right until it is more than can be calculated with.
func TestDriftAfterMonths(t *testing.T) {
	const span = 100 * 86_400_000_000 // 100 days
	for _, x := range []struct {
		moved int64
		ok    bool
	}{{1<<31 - 1, true}, {1 - 1<<31, true}, {1 << 31, false}, {-1 << 31, false}, {1<<32 - 1, false}} {
		d := points(span, [2]int64{0, 0}, [2]int64{x.moved, 0}, [2]int64{})
		if got, want := inPPM(d.skew), float64(x.moved)*1e6/span; d.known != x.ok || x.ok && math.Abs(got-want) > 0.001 {
			t.Errorf("moved by %d us in 100 days: %.3f ppm, %v, want %.3f, %v", x.moved, got, d.known, want, x.ok)
		}
	}
}

// TestLevelShift: a slope across a step is none; what queues and rates explain is no
// step. After it, the skew that was known stays until there is a new one.
func TestLevelShift(t *testing.T) {
	rates := scale(bucketUsec, maxSkew) // 4.8 ms
	for _, x := range []struct {
		name  string
		moved int64
		trips [2]int64
		ok    bool
	}{
		{"rates", rates + stampUsec, [2]int64{0, 0}, true},
		{"a step forward", rates + stampUsec + 1, [2]int64{0, 0}, false},
		{"rates back", -rates - stampUsec, [2]int64{0, 0}, true},
		{"a step back", -rates - stampUsec - 1, [2]int64{0, 0}, false},
		{"a queue", rates + stampUsec + 50, [2]int64{0, 100}, true},
		{"a queue before", rates + stampUsec + 50, [2]int64{100, 0}, true},
		{"a queue and a step", rates + stampUsec + 51, [2]int64{0, 100}, false},
		{"two queues", rates + stampUsec + 100, [2]int64{100, 100}, true},
	} {
		// A third exchange, without a queue, says how quick the line is.
		d := points(bucketUsec, [2]int64{0, 0}, [2]int64{0, x.trips[0]}, [2]int64{x.moved, x.trips[1]}, [2]int64{})
		if got := len(d.sinceStep(0)) == 3; got != x.ok {
			t.Errorf("%s: one line %v, want %v", x.name, got, x.ok)
		}
	}
	d := points(bucketUsec, [2]int64{0, 0}, [2]int64{80, 0}, [2]int64{160, 0}, [2]int64{90_240, 0}, [2]int64{90_320, 0})
	if got := inPPM(d.skew); !d.known || math.Abs(got-10) > 0.001 || len(d.sinceStep(0)) != 1 {
		t.Errorf("after a step %.3f ppm, %v, %d points", got, d.known, len(d.sinceStep(0)))
	}
	d.add(sample{at: 5 * bucketUsec, offset: 90_480})
	d.add(sample{at: 6 * bucketUsec})
	if got := inPPM(d.skew); math.Abs(got-15) > 0.001 {
		t.Errorf("some time after a step %.3f ppm, want 15", got)
	}
}

// TestThreshold: a clock that is off by the threshold is slewed, by more it jumps.
func TestThreshold(t *testing.T) {
	for threshold, limit := range map[time.Duration]int64{0: 200_000, time.Millisecond: 1000} {
		for e, want := range map[int64]Verdict{limit: Accepted, limit + 1: Stepped, -limit: Accepted, -limit - 1: Stepped} {
			c := &Clock{conf: Config{RecalibrateThreshold: threshold}, window: []sample{{offset: uint64(e)}}}
			old, next := new(published), new(published)
			v := c.move(next, old, 50_000)
			if got := int64(next.read(50_000)) - 50_000; v != want || got != e*int64(c.steps) || (v == Stepped) != (c.steps == 1) {
				t.Errorf("threshold %v, error %d us: %v, moved by %d us at once, %d steps", threshold, e, v, got, c.steps)
			}
		}
	}
}

// TestAfterSet: a clock that was set, for the first time or again, is not corrected for
// the 20 ms after that; and 8 quick requests follow what contradicts.
func TestAfterSet(t *testing.T) {
	const now = 1_000_000
	c := &Clock{conf: Config{Rule: Latest, AdjustSteps: 1}}
	answer(c, now, 500, 500, now+1000) // 500 us either way
	answer(c, now+10_000, 10_700, 10_700, now+11_000)
	if got, _ := c.RemoteTime(2 * now); got != now {
		t.Errorf("corrected by %d us within 20 ms of the first exchange", int64(got-now))
	}
	answer(c, now+100_000, 300_500, 300_500, now+101_000) // 200 ms ahead, but not more: slewed
	if s, _ := c.Snapshot(now + 101_000); s.Undisturbed != 0 || !s.Disturbed || s.Steps != 0 || c.fast != 0 {
		t.Errorf("slewed: %+v, %d quick requests", s, c.fast)
	}
	answer(c, now+200_000, 700_500, 700_500, now+201_000)
	if s, _ := c.Snapshot(now + 201_000); s.Undisturbed != 0 || !s.Disturbed || s.Steps != 1 || c.fast != 0 {
		t.Errorf("stepped: %+v, %d quick requests", s, c.fast)
	}
	if c.drift.begin != now+200_500 {
		t.Errorf("the skew is measured across a step, from %d us before it", now+200_500-c.drift.begin)
	}
	answer(c, now+210_000, 710_700, 710_700, now+211_000)
	if got, _ := c.RemoteTime(2 * now); got != now+500_000 {
		t.Errorf("corrected by %d us within 20 ms of a step", int64(got-now-500_000))
	}
	answer(c, now+230_000, 730_700, 730_700, now+231_000)
	if got, _ := c.RemoteTime(2 * now); got != now+500_200 {
		t.Errorf("corrected by %d us after that, want 200", int64(got-now-500_000))
	}
}

// TestLocalTime: it is the first local time at which RemoteTime reaches a reading, while a
// correction is under way and long before and after it.
func TestLocalTime(t *testing.T) {
	const seed = 20261123
	rng := rand.New(rand.NewPCG(seed, 'l'))
	for range 20000 {
		at := rng.Uint64()
		p := &published{from: at + uint64(rng.IntN(20_000)), before: segment{at: at, remote: rng.Uint64(), skew: rng.Int64N(2*maxSkew) - maxSkew}}
		p.after = segment{at: p.from, remote: p.before.read(p.from), skew: rng.Int64N(2*maxSkew) - maxSkew, slew: rng.Int64N(400_000) - 200_000}
		c := new(Clock)
		c.known.Store(p)
		x := int64(rng.ExpFloat64() * 1e6)
		if rng.IntN(4) == 0 {
			x = rng.Int64N(1<<42) - 1<<41
		}
		from := p.read(at + uint64(x))
		for last, i := int64(math.MinInt64), uint64(0); i < 40; i++ {
			local, ok := c.LocalTime(from + i)
			d, before := int64(p.read(local)-from-i), int64(p.read(local-1)-from-i)
			if !ok || d < 0 || d > 1 || before >= 0 || int64(local-at) < last {
				t.Fatalf("seed %d: %+v: at %d us: reads %d us more, 1 us before %d", seed, p, x, d, before)
			}
			last = int64(local - at)
		}
	}
	if got, ok := new(Clock).LocalTime(5); got != 0 || ok {
		t.Errorf("before anything is known: %d, %v", got, ok)
	}
}

// TestCoarseClocks: where clocks advance in steps, times of receipt are rounded up and times of
// sending down. A server then seems to answer before it was asked; the exchange counts all the same,
// and its bound holds.
func TestCoarseClocks(t *testing.T) {
	const seed = 46_400_000
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	before := 0
	for range 100_000 {
		steps := [2]uint64{1 + r.Uint64N(1<<r.UintN(18)), 1 + r.Uint64N(1<<r.UintN(17))} // client, server
		down := func(usec uint64, side int) uint64 { return usec - usec%steps[side] }
		start, offset := uint64(1<<40)+r.Uint64N(1<<40), r.Uint64N(1<<40)
		asked, hold, back := r.Uint64N(200_000), r.Uint64N(1<<r.UintN(12)), r.Uint64N(200_000)
		t1 := down(start, 0)
		t2 := down(start+offset+asked, 1) + steps[1]
		t3 := down(start+offset+asked+hold, 1)
		t4 := down(start+asked+hold+back, 0) + steps[0]
		if int64(t3-t2) < 0 {
			before++
		}
		s, v := measure(t1, t2, t3, t4)
		if off := int64(s.offset - offset); v != Accepted || off > s.half || off < -s.half {
			t.Fatalf("steps %d: %v, off by %d us, bound %d us", steps, v, off, s.half)
		}
	}
	if before < 1000 {
		t.Errorf("a server seemed to answer before it was asked %d times", before)
	}
}
