// These tests prove the figures of single steps, each on both sides of its limit.

package ping

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"timesync"
)

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
		local, okLocal := c.LocalTime(7)
		bound, okBound := c.ErrorBound(7)
		delay, okDelay := c.MinimumOneWayDelay()
		p20, p50, p80, okTrips := c.RoundTrips()
		skew, okSkew := c.Skew()
		s, okSnapshot := c.Snapshot(7)
		check(t, [...]bool{ok, okLocal, okBound, okDelay, okTrips, okSkew, okSnapshot}, [7]bool{}, "%s: ok", when)
		check(t, [...]any{remote, local, skew, s}, [...]any{uint64(0), uint64(0), 0.0, timesync.Snapshot{}}, "%s", when)
		check(t, [...]time.Duration{bound, delay, p20, p50, p80}, [5]time.Duration{}, "%s", when)
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
		check(t, c.Count(v), 0, "after Reset: %v", v)
	}
	reply, _ := AppendReply(nil, c.AppendRequest(nil, 0), 1, 1, 1)
	c.Reset(1) // of a clock that knows nothing: nothing jumps
	check(t, c.HandleReply(reply, 1), UnknownRequest, "a reply across Reset to the same session")
	w.run(sec)
	check(t, w.snapshot(t).Steps, 1, "a reading after Reset is a step: steps")
	check(t, c.Count(Synced), 1, "synced after Reset")
}

// TestSnapshot: all values of a clock that has heard two exchanges, of the second of
// which a way took 2 us longer.
func TestSnapshot(t *testing.T) {
	c := new(Clock)
	check(t, answer(c, 1000, 51_030, 51_040, 1070), Synced, "the first exchange")
	want := timesync.Snapshot{RemoteUsec: 51_070, OffsetUsec: 50_000, ErrorBound: 32 * us, MinimumOneWayDelay: 30 * us, SkewError: 600, MinimumDelayToPeer: 30 * us}
	got, _ := c.Snapshot(1070)
	check(t, got, want, "after one exchange")
	// 600 ppm either way, rounded down, from the middle of the exchange.
	for _, x := range []struct{ at, want int64 }{{1035, 32}, {1000, 32}, {1035 + 1666, 32}, {1035 + 1667, 33}, {1_001_037, 632}, {1036 - 5000, 34}, {1034 - 5000, 35}} {
		bound, _ := c.ErrorBound(uint64(x.at))
		check(t, bound, duration(x.want), "bound at %d", x.at)
	}
	// The past reads the same way from the first exchange on.
	past, _ := c.RemoteTime(500)
	check(t, past, 50_500, "the past")
	// The second says least doubt, as it is younger, and reads 1 us more; its round trip is
	// odd, so its bound is 32 us and 2 for rounding.
	answer(c, 101_000, 151_032, 151_042, 101_073)
	want = timesync.Snapshot{RemoteUsec: 151_583, OffsetUsec: 50_000, ErrorBound: 35 * us, MinimumOneWayDelay: 30 * us,
		Jitter: 500 * time.Nanosecond, JitterKnown: true, Age: 510 * us, Undisturbed: 100_513 * us, SkewError: 600, MinimumDelayToPeer: 30 * us}
	got, _ = c.Snapshot(101_583)
	check(t, got, want, "after two exchanges")
	// No age is negative, as none is in the core.
	got, _ = c.Snapshot(1<<64 - 16_000_000)
	check(t, max(got.Age, got.Undisturbed), 0, "before the first exchange: ages")
	delay, _ := c.MinimumOneWayDelay()
	check(t, delay, want.MinimumOneWayDelay, "delay")
}

// next checks that the next request is due after want, or up to a sixteenth of the interval less.
func next(t *testing.T, c *Clock, now uint64, want, interval time.Duration) {
	t.Helper()
	if got := c.Next(now); got > want || got < max(want-interval/16, 0) {
		t.Errorf("%d us, %d requests: the next in %v, want %v or a little less", now, c.asked, got, want)
	}
}

// TestNext: 8 requests at most 100 ms apart, 60 at most 1 s apart unless 8 were answered, then one per interval. At the longest interval, too, and
// when the local clock goes back: by up to an interval, nothing is asked twice; by more, it was set.
func TestNext(t *testing.T) {
	const second = 1_000_000
	for _, x := range []struct {
		interval time.Duration
		now      int64
		want     time.Duration
	}{
		{0, 0, 250 * ms}, {20 * ms, 0, 20 * ms}, {sec, 0, sec}, {sec, second / 4, 750 * ms}, {sec, second, 0}, {sec, 5 * second, 0},
		{sec, -1, sec}, {sec, -second, sec}, {sec, -second - 1, 0}, {sec, math.MinInt64, 0},
		{math.MaxInt64, 0, math.MaxInt64}, {math.MaxInt64, -second, math.MaxInt64}, {math.MaxInt64, second, math.MaxInt64 - sec},
	} {
		c := &Clock{conf: Config{SyncInterval: x.interval}}
		want := time.Duration(0)
		interval := cmp.Or(x.interval, DefaultSyncInterval)
		for range fastRequests {
			next(t, c, 1<<40, want, want)
			c.AppendRequest(nil, 1<<40)
			want = min(interval, 100*ms)
		}
		for range againRequests { // while too few are answered, each a second at most
			next(t, c, 1<<40, min(interval, sec), min(interval, sec))
			c.AppendRequest(nil, 1<<40)
		}
		next(t, c, 1<<40+uint64(x.now), x.want, interval)
		c.fast, c.window = fastRequests, make([]sample, fastRequests)
		next(t, c, 1<<40+uint64(x.now), x.want, interval)
	}
}

// TestHangAtStart: a server that hangs for the first 5 s is known well some seconds later, also where the next request
// is due in ten minutes.
func TestHangAtStart(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := newWorld(&Clock{conf: Config{SyncInterval: 10 * time.Minute}})
		w.lost = func() bool { return lost && w.t < 5*usSec }
		w.up = func() int64 { return max(5*usSec-w.t, 30*usMs) }
		w.keepPinging()
		w.run(7 * sec)
		if s := w.snapshot(t); s.ErrorBound > 100*ms {
			t.Errorf("lost %v: after 7 s %+v", lost, s)
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
		{"at once", 5, 9, 9, 5, sample{5, 4, 0, 2, 0}, Accepted},
		{"60 us", 100, 530, 540, 170, sample{135, 400, 60, 32, 0}, Accepted},
		{"odd", 100, 530, 540, 171, sample{135, 400, 61, 33, 0}, Accepted},
		{"answered before it was asked", 100, 540, 530, 170, sample{135, 400, 80, 42, 10}, Accepted},
		{"ten seconds", 0, 5_000_000, 5_000_000, 10_000_000, sample{5_000_000, 0, 10_000_000, 5_003_002, 0}, Accepted},
		{"held as long as the clocks can disagree", 0, 0, 1_000_602, 1_000_000, sample{500_000, 301, 0, 302, 0}, Accepted},
		{"and longer", 0, 0, 1_000_603, 1_000_000, sample{}, Impossible},
		{"a wrap of both clocks", math.MaxUint64 - 9, math.MaxUint64 - 19, 0, 30, sample{10, math.MaxUint64 - 19, 20, 12, 0}, Accepted},
	} {
		got, v := measure(x.t1, x.t2, x.t3, x.t4)
		check(t, v, x.verdict, "%s", x.name)
		check(t, got, x.want, "%s", x.name)
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
		want := published{before: before.after, after: segment{now + settleUsec, 1000 + settleUsec, 0, x.want}, from: now + settleUsec}
		check(t, *next, want, "one in %d, %d samples, error %d us", x.steps, x.samples, x.e)
		for _, begun := range []int64{-settleUsec, 0, settleUsec - 1} {
			next := before
			next.from = now - uint64(begun)
			again := next
			c.slew(&next, s, now)
			check(t, next, again, "%d us after the last correction began", begun)
		}
		next.from = now + settleUsec + 1 // the local clock was set back
		c.slew(next, s, now)
		check(t, next.from, now+settleUsec, "a clock that was set back does not wait")
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
		check(t, p.notBefore(x.now), x.want, "%#x", x.now)
	}
	c := new(Clock)
	answer(c, 0, 500_000, 500_000, 1_000_000)
	answer(c, 100, 500_000, 500_000, 900_000)
	check(t, c.known.Load().heard, 1_000_000, "a reply of before: heard at")
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
			s := sample{at: at, offset: uint64(x.offset), half: 40}
			check(t, p.admits(s), x.want, "skew %d, offset %d", skew, x.offset)
		}
	}
}

// TestErrorBoundSaturates: no sum of a bound and a distance becomes negative.
func TestErrorBoundSaturates(t *testing.T) {
	const most = math.MaxInt64 / 1000 * 1000
	for _, offset := range []uint64{1<<63 - 1, 1 << 63, 1<<63 + 1, 1 << 62} {
		clock := segment{remote: offset}
		p := &published{best: sample{half: math.MaxInt64 / 4 * 3}, before: clock, after: clock}
		check(t, p.errorBound(0), most, "offset %#x", offset)
	}
}

// TestDuration: whole microseconds, and the largest durations for what does not fit.
func TestDuration(t *testing.T) {
	const most = math.MaxInt64 / 1000
	for _, x := range []struct{ us, want int64 }{
		{0, 0}, {1, 1000}, {-1, -1000}, {most, most * 1000}, {most + 1, most * 1000}, {math.MaxInt64, most * 1000},
		{-most, -most * 1000}, {-most - 1, -most * 1000}, {math.MinInt64, -most * 1000},
	} {
		check(t, duration(x.us), time.Duration(x.want), "%d us", x.us)
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
		check(t, c.HandleReply(replies[x.i], 100), x.want, "reply %d", x.i)
	}
	// A nonce of zero is one as any other; a place of the ring that was never used has none.
	c = new(Clock)
	c.AppendRequest(nil, 0)
	check(t, c.HandleReply(appendReply(nil, message{}), 1), UnknownRequest, "a reply to no request")
}

// point is an exchange that a drift is fed with.
type point struct{ offset, trip int64 }

// points feeds a drift with one exchange a bucket.
func points(bucket uint64, all ...point) *drift {
	var d drift
	for i, p := range all {
		d.add(sample{at: uint64(i) * bucket, offset: uint64(p.offset), trip: p.trip})
	}
	return &d
}

// slope fails if a drift is not known to be so many ppm; NaN stands for not known.
func (d *drift) slope(t *testing.T, want float64, format string, args ...any) {
	t.Helper()
	if got := inPPM(d.skew); d.known == math.IsNaN(want) || math.Abs(got-want) > 0.001 {
		t.Errorf("%s: %.3f ppm, %v, want %.3f", fmt.Sprintf(format, args...), got, d.known, want)
	}
}

// TestDriftDoubt: a slope is believed when its doubt is under 25 ppm, which is half of
// what the two exchanges were slower than the quickest, and 20 us for reading clocks;
// and that of the least doubt.
func TestDriftDoubt(t *testing.T) {
	const span = bucketUsec // 25 ppm of it are 200 us
	unknown := math.NaN()
	for _, x := range []struct {
		name   string
		points []point
		want   float64
	}{
		{"no pair", []point{{0, 0}, {80, 0}}, unknown},
		{"10 ppm", []point{{0, 0}, {80, 0}, {999, 0}}, 10},
		{"-10 ppm, slower by 358 us", []point{{0, 7358}, {-80, 7000}, {999, 0}}, -10},
		{"the other slower by 358 us", []point{{0, 7000}, {80, 7358}, {999, 0}}, 10},
		{"slower by 362 us", []point{{0, 362}, {80, 0}, {999, 0}}, unknown},
		{"both slower by 180 us", []point{{0, 180}, {0, 0}, {40, 180}, {}, {}}, 0},
		{"the longest span of equals", []point{{0, 0}, {60, 0}, {160, 0}, {999, 0}}, 10},
		{"the quicker pair of equal spans", []point{{80, 300}, {80, 0}, {240, 0}, {999, 0}}, 20},
	} {
		points(span, x.points...).slope(t, x.want, "%s", x.name)
	}
	points(span-1, point{}, point{80, 0}, point{}, point{}).slope(t, unknown, "a bucket is 8 s")
	same := points(span, point{0, 9}, point{0, 9})
	same.add(sample{at: 0, trip: 1}) // the quickest of its bucket, at the time of the first
	same.add(sample{at: 2*span + 1})
	same.slope(t, unknown, "two at the same time")
}

// TestDriftMemory: 16 buckets of 8 s are kept, the latest ones.
func TestDriftMemory(t *testing.T) {
	d := points(bucketUsec, make([]point, 32)...) // the last one is open
	check(t, d.n, 16, "points")
	for i, p := range d.points {
		check(t, p.at, uint64(15+i)*bucketUsec, "point %d is at", i)
	}
}

// TestDriftAfterMonths: a slope is right until it is more than can be calculated with.
func TestDriftAfterMonths(t *testing.T) {
	const span = 100 * 86_400_000_000 // 100 days
	for _, moved := range []int64{1<<31 - 1, 1 - 1<<31, 1 << 31, -1 << 31, 1<<32 - 1} {
		want := float64(moved) * 1e6 / span
		if moved >= 1<<31 || moved <= -1<<31 {
			want = math.NaN()
		}
		points(span, point{}, point{moved, 0}, point{}).slope(t, want, "moved by %d us in 100 days", moved)
	}
}

// TestLevelShift: a slope across a step is none; what queues and rates explain is no
// step. After it, the skew that was known stays until there is a new one.
func TestLevelShift(t *testing.T) {
	rates := scale(bucketUsec, maxSkew) // 4.8 ms
	for _, x := range []struct {
		name  string
		moved int64
		a, b  int64 // the round trips before and after
		ok    bool
	}{
		{"rates", rates + stampUsec, 0, 0, true},
		{"a step forward", rates + stampUsec + 1, 0, 0, false},
		{"rates back", -rates - stampUsec, 0, 0, true},
		{"a step back", -rates - stampUsec - 1, 0, 0, false},
		{"a queue", rates + stampUsec + 50, 0, 100, true},
		{"a queue before", rates + stampUsec + 50, 100, 0, true},
		{"a queue and a step", rates + stampUsec + 51, 0, 100, false},
		{"two queues", rates + stampUsec + 100, 100, 100, true},
	} {
		// A third exchange, without a queue, says how quick the line is.
		d := points(bucketUsec, point{}, point{0, x.a}, point{x.moved, x.b}, point{})
		check(t, len(d.sinceStep(0)) == 3, x.ok, "%s: one line", x.name)
	}
	d := points(bucketUsec, point{}, point{80, 0}, point{160, 0}, point{90_240, 0}, point{90_320, 0})
	d.slope(t, 10, "after a step")
	check(t, len(d.sinceStep(0)), 1, "points after a step")
	d.add(sample{at: 5 * bucketUsec, offset: 90_480})
	d.add(sample{at: 6 * bucketUsec})
	d.slope(t, 15, "some time after a step")
}

// TestThreshold: a clock that is off by the threshold is slewed, by more it jumps.
func TestThreshold(t *testing.T) {
	for threshold, limit := range map[time.Duration]int64{0: 200_000, ms: 1000} {
		for e, want := range map[int64]Verdict{limit: Accepted, limit + 1: Stepped, -limit: Accepted, -limit - 1: Stepped} {
			c := &Clock{conf: Config{RecalibrateThreshold: threshold}, window: []sample{{offset: uint64(e)}}}
			old, next := new(published), &published{best: c.window[0]}
			check(t, c.move(next, old, 50_000), want, "%d us", e)
			check(t, c.steps == 1, want == Stepped, "%d us: a step", e)
			check(t, next.read(50_000), 50_000+uint64(e)*uint64(c.steps), "%d us: reading", e)
		}
	}
}

// TestAfterSet: a clock that was set, for the first time or again, is not corrected for
// the 20 ms after that; and 8 quick requests follow what contradicts.
func TestAfterSet(t *testing.T) {
	const now = 1_000_000
	c := &Clock{conf: Config{Rule: Latest, AdjustSteps: 1}}
	// exchange makes an exchange, 500 us either way.
	exchange := func(local, remote uint64) { answer(c, now+local, remote+500, remote+500, now+local+1000) }
	reads := func(want uint64, when string) {
		t.Helper()
		got, _ := c.RemoteTime(2 * now)
		check(t, got, want, "the reading %s", when)
	}
	disturbed := func(local uint64, steps uint32) {
		t.Helper()
		s, _ := c.Snapshot(now + local + 1000)
		if s.Undisturbed != 0 || !s.Disturbed || s.Steps != steps || c.fast != 0 {
			t.Errorf("%+v, %d quick requests, want %d steps", s, c.fast, steps)
		}
	}
	exchange(0, 0)
	exchange(10_000, 10_200)
	reads(now, "within 20 ms of the first exchange")
	exchange(100_000, 300_000) // 200 ms ahead, but not more: slewed
	disturbed(100_000, 0)
	exchange(200_000, 700_000)
	disturbed(200_000, 1)
	check(t, c.drift.begin, now+200_500, "the skew is measured from")
	exchange(210_000, 710_200)
	reads(now+500_000, "within 20 ms of a step")
	exchange(230_000, 730_200)
	reads(now+500_200, "after that")
}

// TestLocalTime: it is the first local time at which RemoteTime reaches a reading, while a
// correction is under way and long before and after it.
func TestLocalTime(t *testing.T) {
	rng := random(t)
	for range 20000 {
		at := rng.Uint64()
		skew := func() int64 { return rng.Int64N(2*maxSkew) - maxSkew }
		p := &published{from: at + uint64(rng.IntN(20_000)), before: segment{at, rng.Uint64(), skew(), 0}}
		p.after = segment{p.from, p.before.read(p.from), skew(), rng.Int64N(400_000) - 200_000}
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
				t.Fatalf("%+v: at %d us: reads %d us more, 1 us before %d", p, x, d, before)
			}
			last = int64(local - at)
		}
	}
}

// TestCoarseClocks: where clocks advance in steps, times of receipt are rounded up and times of
// sending down. A server then seems to answer before it was asked; the exchange counts all the same,
// and its bound holds.
func TestCoarseClocks(t *testing.T) {
	r := random(t)
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

// TestRoundTrips: the percentiles are the smallest round trips that 20, 50 and 80 percent of the
// last 64 exchanges do not exceed; exchanges before a clock was set do not count.
func TestRoundTrips(t *testing.T) {
	r := random(t)
	c := new(Clock)
	var trips []time.Duration
	ahead := uint64(5_000_000)
	for i := range uint64(300) {
		if i == 150 {
			ahead += 60_000_000
			trips = nil
		}
		now, hold := 1_000_000+i*100_000, uint64(r.IntN(5000))
		trip := uint64(20_000 + r.IntN(20)*1000)
		trips = append(trips, duration(int64(trip)))
		answer(c, now, now+ahead+trip/2, now+ahead+trip/2+hold, now+trip+hold)
		last := slices.Sorted(slices.Values(trips[max(0, len(trips)-DefaultSamples):]))
		p20, p50, p80, _ := c.RoundTrips()
		for percent, got := range map[int]time.Duration{20: p20, 50: p50, 80: p80} {
			first, _ := slices.BinarySearch(last, got)
			under, _ := slices.BinarySearch(last, got+1)
			if 100*under < percent*len(last) || 100*first >= percent*len(last) {
				t.Fatalf("after %d exchanges of %v: %d %% is %v", len(trips), last, percent, got)
			}
		}
	}
}
