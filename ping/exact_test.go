// These tests prove the figures of single steps, each on both sides of its limit.

package ping

import (
	"cmp"
	"math"
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
		local, okLocal := c.LocalTime(7)
		p20, p50, p80, okTrips := c.RoundTrips()
		skew, okSkew := c.Skew()
		s, okSnapshot := c.Snapshot(7)
		check(t, [...]bool{okLocal, okTrips, okSkew, okSnapshot}, [4]bool{}, "%s: ok", when)
		check(t, [...]any{local, p20 + p50 + p80, skew, s}, [...]any{uint64(0), 0 * sec, 0.0, timesync.Snapshot{}}, "%s", when)
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
	if _, ok := c.Skew(); ok || c.Count(Accepted) < 6 {
		t.Errorf("a second after Reset the skew is known, %v, or requests are not quick: %d", ok, c.Count(Accepted))
	}
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

// TestLocalTime: it is the first local time at which RemoteTime reaches a reading, while a
// correction is under way and long before and after it.
func TestLocalTime(t *testing.T) {
	rng := random(t)
	for range 20000 {
		at := rng.Uint64()
		skew := func() int64 { return rng.Int64N(2*maxSkew) - maxSkew }
		p, from := &published{before: segment{at, rng.Uint64(), skew(), 0}}, at+uint64(rng.IntN(20_000))
		p.after = segment{from, p.before.read(from), skew(), rng.Int64N(400_000) - 200_000}
		c := new(Clock)
		c.known.Store(p)
		x := int64(rng.ExpFloat64() * 1e6)
		if rng.IntN(4) == 0 {
			x = rng.Int64N(1<<42) - 1<<41
		}
		from = p.read(at + uint64(x))
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

// TestRoundTrips: the percentiles are the smallest round trips that 20, 50 and 80 percent of the
// last 64 exchanges do not exceed; exchanges before a clock was set do not count.
func TestRoundTrips(t *testing.T) {
	for _, x := range []struct{ since, p20, p50, p80 int64 }{{1, 100, 100, 100}, {2, 100, 100, 101}, {5, 100, 102, 103}, {6, 101, 102, 104}, {64, 112, 131, 151}, {70, 118, 137, 157}} {
		c := new(Clock)
		for i := range 10 + x.since {
			ahead, trip := uint64(0), uint64(900)
			if i >= 10 { // the server's clock was set
				ahead, trip = 60_000_000, 100+uint64(i-10)
			}
			now, hold := uint64(i+1)*100_000, uint64(i)*7
			answer(c, now, now+ahead+trip/2, now+ahead+trip/2+hold, now+trip+hold)
		}
		p20, p50, p80, _ := c.RoundTrips()
		check(t, [...]time.Duration{p20, p50, p80}, [...]time.Duration{duration(x.p20), duration(x.p50), duration(x.p80)}, "after %d", x.since)
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

// point is an exchange that a drift is fed with.
type point struct{ offset, trip int64 }

// points feeds a drift with one exchange every so often.
func points(every uint64, all ...point) *drift {
	var d drift
	for i, p := range all {
		d.add(sample{at: uint64(i) * every, offset: uint64(p.offset), trip: p.trip})
	}
	return &d
}

// TestDrift: a slope is believed when its doubt is under 25 ppm, which is half of
// what the two exchanges were slower than the quickest, and 20 us for reading clocks;
// and that of the least doubt. A slope across a step is none; what queues and rates explain is no step.
func TestDrift(t *testing.T) {
	const span, months = bucketUsec, 100 * 86_400_000_000 // 25 ppm of a span are 200 us
	const rates = 4799 + stampUsec                        // us: what 600 ppm make of a span, and the reading of clocks
	unknown := math.NaN()
	for _, x := range []struct {
		name   string
		every  uint64
		points []point
		want   float64 // ppm
	}{
		{"no pair", span, []point{{0, 0}, {80, 0}}, unknown},
		{"10 ppm", span, []point{{0, 0}, {80, 0}, {999, 0}}, 10},
		{"-10 ppm, slower by 358 us", span, []point{{0, 7358}, {-80, 7000}, {999, 0}}, -10},
		{"the other slower by 358 us", span, []point{{0, 7000}, {80, 7358}, {999, 0}}, 10},
		{"slower by 362 us", span, []point{{0, 362}, {80, 0}, {999, 0}}, unknown},
		{"both slower by 180 us", span, []point{{0, 180}, {0, 0}, {40, 180}, {}, {}}, 0},
		{"the longest span of equals", span, []point{{0, 0}, {60, 0}, {160, 0}, {999, 0}}, 10},
		{"the quicker pair of equal spans", span, []point{{80, 300}, {80, 0}, {240, 0}, {999, 0}}, 20},
		{"a bucket is 8 s", span - 1, []point{{}, {80, 0}, {}, {}}, unknown},
		{"after a step", span, []point{{}, {80, 0}, {160, 0}, {90_240, 0}, {90_320, 0}}, 10},
		{"some time after a step", span, []point{{}, {80, 0}, {160, 0}, {90_240, 0}, {90_320, 0}, {90_480, 0}, {}}, 15},
		{"as rates explain", span, []point{{}, {rates, 0}, {}}, 600},
		{"a step forward", span, []point{{}, {rates + 1, 0}, {}}, unknown},
		{"as rates explain, back", span, []point{{}, {-rates, 0}, {}}, -600},
		{"a step back", span, []point{{}, {-rates - 1, 0}, {}}, unknown},
		{"as two queues explain", span, []point{{}, {0, 100}, {rates + 100, 100}, {}}, (rates + 100) * 1e6 / (2 * span)},
		{"a queue and a step", span, []point{{}, {}, {rates + 51, 100}, {}}, 0},
		{"a queue before and a step", span, []point{{}, {0, 100}, {rates + 51, 0}, {}}, 0},
		{"as much as can be calculated with", months, []point{{}, {1<<31 - 1, 0}, {}}, (1<<31 - 1) * 1e6 / months},
		{"and back", months, []point{{}, {1 - 1<<31, 0}, {}}, (1 - 1<<31) * 1e6 / months},
		{"more than can be calculated with", months, []point{{}, {1 << 31, 0}, {}}, unknown},
		{"and back", months, []point{{}, {-1 << 31, 0}, {}}, unknown},
		{"much more", months, []point{{}, {1<<32 - 1, 0}, {}}, unknown},
	} {
		d := points(x.every, x.points...)
		if got := inPPM(d.skew); d.known == math.IsNaN(x.want) || math.Abs(got-x.want) > 0.001 {
			t.Errorf("%s: %.3f ppm, %v, want %.3f", x.name, got, d.known, x.want)
		}
	}
	same := points(span, point{0, 9}, point{0, 9})
	same.add(sample{at: 0, trip: 1}) // the quickest of its bucket, at the time of the first
	same.add(sample{at: 2*span + 1})
	check(t, same.known, false, "two at the same time: known")
	long := points(span, make([]point, 32)...) // the last one is open
	for i, p := range long.quick[:bucketMax] {
		check(t, p.at, uint64(15+i)*span, "of 16, point %d is at", i)
	}
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

// TestAfterSet: a clock that was set is not corrected for the 20 ms after that; and quick requests follow.
func TestAfterSet(t *testing.T) {
	const now = 1_000_000
	c := &Clock{conf: Config{Rule: Latest, AdjustSteps: 1}}
	for _, x := range []struct {
		local, remote, reads uint64 // 500 us after the client asks, of its clock; and what that reads 1 s later
		set                  bool
		steps                uint32
	}{
		{0, 0, 0, false, 0}, {10_000, 10_200, 0, false, 0}, // within 20 ms of the first one
		{100_000, 300_000, 200_000, true, 0}, // 200 ms ahead, but not more: slewed
		{200_000, 700_000, 500_000, true, 1},
		{210_000, 710_200, 500_000, false, 1}, // within 20 ms of the step
		{230_000, 730_200, 500_200, false, 1},
	} {
		answer(c, now+x.local, x.remote+500, x.remote+500, now+x.local+1000)
		s, _ := c.Snapshot(now + x.local + 1000)
		check(t, s.Disturbed, x.steps > 0 || x.set, "at %d: a clock was set", x.local)
		check(t, s.Disturbed && s.Undisturbed == 0, x.set, "at %d: just now", x.local)
		check(t, c.fast == 0 || !x.set, true, "at %d: quick requests", x.local)
		check(t, s.Steps, x.steps, "at %d: steps", x.local)
		later, _ := c.RemoteTime(10 * now)
		check(t, later, 9*now+x.reads, "at %d: reading later", x.local)
	}
	check(t, c.drift.begin, now+200_500, "the skew is measured from")
}

// TestSlewShares: each correction takes one AdjustSteps-th, rounded away from zero, 20 ms
// after the reply, and none is begun before the last one has lasted for 20 ms.
func TestSlewShares(t *testing.T) {
	const now = 1 << 40
	for _, x := range []struct {
		steps, samples int
		begun, e, want int64 // want 0: nothing begins
	}{
		{0, 64, settleUsec, 1, 1}, {0, 64, settleUsec, -1, -1}, {0, 64, settleUsec, 8, 1}, {0, 64, settleUsec, -8, -1},
		{0, 64, settleUsec, 9, 2}, {0, 64, settleUsec, -9, -2}, {3, 64, settleUsec, 10, 4}, {3, 2, settleUsec, 10, 5},
		{0, 1, settleUsec, 10, 10}, {1, 64, settleUsec, -10, -10},
		{1, 64, settleUsec - 1, 10, 0}, {1, 64, 0, 10, 0}, {1, 64, -settleUsec, 10, 0},
		{1, 64, -settleUsec - 1, 10, 10}, // the local clock was set back
	} {
		c := &Clock{conf: Config{AdjustSteps: x.steps}, window: make([]sample, x.samples)}
		begun := segment{at: now - uint64(x.begun)}
		next := published{before: begun, after: begun}
		want := next
		if x.want != 0 {
			want = published{before: begun, after: segment{now + settleUsec, uint64(x.begun) + settleUsec, 0, x.want}}
		}
		c.slew(&next, sample{at: now, offset: uint64(x.e) - begun.at}, now)
		check(t, next, want, "%+v", x)
	}
}

// TestBounds: bounds that touch can both be true, and no sum of a bound and a distance becomes negative.
func TestBounds(t *testing.T) {
	const at = 1_000_000 // 600 us of rates, and the skew
	for _, skew := range []int64{0, maxSkew / 2} {
		p := &published{best: sample{at: 0, offset: 1000, half: 30}, skew: skew}
		most := 70 + scale(at, maxSkew+skew)
		for apart, want := range map[int64]bool{0: true, most: true, most + 1: false, -most: true, -most - 1: false} {
			s := sample{at: at, offset: uint64(1000 + scale(at, skew) + apart), half: 40}
			check(t, p.admits(s), want, "skew %d, %d us apart", skew, apart)
		}
	}
	for _, offset := range []uint64{1<<63 - 1, 1 << 63, 1<<63 + 1, 1 << 62} {
		clock := segment{remote: offset}
		p := &published{best: sample{half: math.MaxInt64 / 4 * 3}, before: clock, after: clock}
		check(t, p.errorBound(0), math.MaxInt64/1000*1000, "offset %#x", offset)
	}
}
