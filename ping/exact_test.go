// These tests prove the figures of single steps, each on both sides of its limit.

package ping

import (
	"math"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim/rivals"
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
		got := [...]any{local, p20 + p50 + p80, skew, s}
		want := [...]any{uint64(0), 0 * sec, 0.0, timesync.Snapshot{}}
		check(t, got, want, "%s", when)
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
	if _, ok := c.Skew(); ok || c.Count(Accepted)+c.Count(Stepped) < 6 {
		t.Errorf("a second after Reset the skew is known, %v, or requests are not quick: %d",
			ok, c.Count(Accepted))
	}
	check(t, c.Count(Synced), 1, "synced after Reset")
}

// TestSnapshot: what the first exchange tells is exact but for the 8 us of stamps and reports. A
// group of faster ones is what counts from then on. A bound is half the round trip, and what
// rates and the report of a peer that may be an original leave open: at most 0.6 ms, and 600 ppm
// of the time since the start.
func TestSnapshot(t *testing.T) {
	const rounding = 25 // us: of stamps and reports, both ways
	r := random(t)
	for range 1000 {
		c := new(Clock)
		at := r.Uint64()
		ahead := r.Uint64()
		trip := 1000 + r.Int64N(100*usMs)
		hold := r.Int64N(100 * usMs)
		shows := func(when string, now uint64, trip int64) {
			t.Helper()
			s, ok := c.Snapshot(now)
			off := int64(s.RemoteUsec - now - ahead)
			half := trip / 2
			check(t, ok, true, "%s: ok", when)
			check(t, s.OffsetUsec, int64(s.RemoteUsec-now), "%s: the offset", when)
			if magnitude(off) > rounding {
				t.Errorf("%s: %d us off", when, off)
			}
			for _, delay := range []time.Duration{s.MinimumOneWayDelay, s.MinimumDelayToPeer} {
				if magnitude(delay.Microseconds()-half) > 2*rounding {
					t.Errorf("%s: a delay of %v, half a round trip is %d us", when, delay, half)
				}
			}
			most := half + 600 + int64(now-at)*6/10_000
			if bound := s.ErrorBound.Microseconds(); bound < half || bound > most {
				t.Errorf("%s: a bound of %d us, half a round trip is %d us", when, bound, half)
			}
			stepped := s.Steps != 0 || s.StepSeen
			doubtful := s.Unchecked || s.Ambiguous
			if stepped || doubtful || s.Age != 0 || s.Hops != 0 {
				t.Errorf("%s: %+v", when, s)
			}
			check(t, s.Within(s.ErrorBound), nil, "%s: Within", when)
		}
		exchange := func(t1 uint64, trip int64) (t4 uint64) {
			t2 := t1 + ahead + uint64(trip/2)
			t4 = t1 + uint64(trip+hold)
			answer(c, t1, t2, t2+uint64(hold), t4)
			return t4
		}
		now := exchange(at, trip)
		shows("after one exchange", now, trip)
		faster := trip * 3 / 4
		for range groupSize {
			now = exchange(now+100*uint64(usMs), faster)
		}
		shows("after a group of faster ones", now, faster)
	}
}

// TestLocalTime: it is the first local time at which RemoteTime is what is asked for, or 1 us more,
// in worlds in which the clock is being corrected and set.
func TestLocalTime(t *testing.T) {
	r := random(t)
	for range 20 {
		w := newWorld(&Clock{conf: Config{SyncInterval: 100 * ms}})
		w.base = r.Uint64()
		w.offset = r.Uint64()
		w.ppb = r.Int64N(1_000_001) - 500_000
		w.up = exponential(r, 20*usMs, 3*usMs)
		w.down = exponential(r, 20*usMs, 3*usMs)
		w.keepPinging()
		w.run(sec)
		for n := range 200 {
			if n%50 == 49 {
				w.set(r.IntN(2) == 0, r.Int64N(40*usMs)-20*usMs)
			}
			w.run(time.Duration(r.Int64N(int64(sec / 5))))
			from, _ := w.c.RemoteTime(w.local())
			from += uint64(r.Int64N(2*usSec)-usSec) << r.IntN(20)
			last := uint64(0)
			for i := range uint64(20) {
				local, ok := w.c.LocalTime(from + i)
				at, _ := w.c.RemoteTime(local)
				before, _ := w.c.RemoteTime(local - 1)
				more := int64(at - from - i)
				early := int64(before - from - i)
				if !ok || more < 0 || more > 1 || early >= 0 {
					t.Fatalf("at %d us: %d us more, 1 us before %d", w.t, more, early)
				}
				if i > 0 && int64(local-last) < 0 {
					t.Fatalf("at %d us: a later time is reached %d us sooner", w.t, last-local)
				}
				last = local
			}
		}
	}
}

// next checks that the next request is due after want, or up to a sixteenth of the interval less.
func next(t *testing.T, c *Clock, now uint64, want, interval time.Duration) {
	t.Helper()
	got := c.Next(now)
	if got > want || got < max(want-interval/16, 0) {
		t.Errorf("%d us, %d requests: the next in %v, want %v or a little less",
			now, c.schedule.asked, got, want)
	}
}

// TestRoundTrips: the percentiles are the smallest round trips that 20, 50 and 80 percent of the
// last 64 exchanges do not exceed; exchanges before a clock was set do not count.
func TestRoundTrips(t *testing.T) {
	for _, x := range []struct{ since, p20, p50, p80 int64 }{
		{1, 100, 100, 100},
		{2, 100, 100, 101},
		{5, 100, 102, 103},
		{6, 101, 102, 104},
		{64, 112, 131, 151},
		{70, 118, 137, 157},
	} {
		c := new(Clock)
		for i := range 10 + x.since {
			ahead := uint64(0)
			trip := uint64(900)
			if i >= 10 { // the server's clock was set
				ahead = 60_000_000
				trip = 100 + uint64(i-10)
			}
			now := uint64(i+1) * 100_000
			hold := uint64(i) * 7
			came := now + ahead + trip/2
			answer(c, now, came, came+hold, now+trip+hold)
		}
		p20, p50, p80, _ := c.RoundTrips()
		got := [...]time.Duration{p20, p50, p80}
		want := [...]time.Duration{duration(x.p20), duration(x.p50), duration(x.p80)}
		check(t, got, want, "after %d", x.since)
	}
}

// TestNext: 8 requests 100 ms apart, then one in a 16th of the time since the first reply,
// from a minute on in a 64th, down to one per interval. While nothing is answered it is one a
// second, for a minute. The local clock may go back by an interval, and nothing is asked
// twice; by more, it was set.
func TestNext(t *testing.T) {
	const start, second = 1 << 40, 1_000_000
	c := &Clock{conf: Config{SyncInterval: 5 * sec}}
	ask := func(after time.Duration) {
		c.AppendRequest(nil, c.schedule.last+uint64(after.Microseconds()))
	}
	next(t, c, start, 0, 0)
	c.AppendRequest(nil, start)
	for range groupSize - 1 {
		next(t, c, c.schedule.last, 100*ms, 100*ms)
		ask(100 * ms)
	}
	for range retries {
		next(t, c, c.schedule.last, sec, sec)
		ask(sec)
	}
	next(t, c, c.schedule.last, 5*sec, 5*sec)
	next(t, c, c.schedule.last+2_000_000, 3*sec, 5*sec)
	next(t, c, c.schedule.last+9_000_000, 0, 0)
	next(t, c, c.schedule.last-5_000_000, 5*sec, 5*sec)
	next(t, c, c.schedule.last-5_000_001, 0, 0)
	next(t, c, c.schedule.last+1<<63, 0, 0)
	c.schedule.start(c.schedule.last)
	for known, want := range map[time.Duration]time.Duration{
		0:         100 * ms,
		8 * sec:   500 * ms,
		16 * sec:  sec,
		64 * sec:  sec,
		300 * sec: 300 * sec / 64,
		330 * sec: 5 * sec,
	} {
		c.schedule.since = c.schedule.last - uint64(known.Microseconds())
		next(t, c, c.schedule.last, want, want)
	}
	// A silence is followed by a group.
	c.schedule.since = c.schedule.last - 1000*second
	ask(8*sec - us)
	next(t, c, c.schedule.last, 5*sec, 5*sec)
	ask(8 * sec)
	next(t, c, c.schedule.last, 100*ms, 100*ms)

	forever := &Clock{conf: Config{SyncInterval: math.MaxInt64}}
	forever.schedule = schedule{asked: 1000, group: groupSize}
	next(t, forever, 0, math.MaxInt64, math.MaxInt64)
}

// TestFastAgain: after a clock step the next requests are 100 ms apart again, at any interval.
func TestFastAgain(t *testing.T) {
	for _, size := range []int64{12 * usMs, 150 * usMs, 3600 * usSec} {
		w := newWorld(&Clock{conf: Config{SyncInterval: 5 * sec}})
		w.keepPinging()
		w.run(5 * time.Minute)
		w.jump += size
		asked := w.c.schedule.asked
		w.run(8 * sec)
		if w.c.schedule.asked < asked+16 {
			t.Errorf("set by %d us: %d requests in 8 s", size, w.c.schedule.asked-asked)
		}
	}
}

// TestExchange: round trip, offset, and which times cannot be those of an exchange.
func TestExchange(t *testing.T) {
	x := Exchange{T1: math.MaxUint64 - 9, T2: 50, T3: 55, T4: 20}
	check(t, x.RoundTrip(), 25*us, "round trip")
	check(t, x.Offset(), 47, "offset")
	for _, x := range []struct {
		Exchange
		want Verdict
	}{
		{Exchange{0, 5, 5, 0}, Accepted},
		{Exchange{1, 5, 5, 0}, Impossible},
		{Exchange{0, 5, 5, lateUsec}, Accepted},
		{Exchange{0, 5, 5, lateUsec + 1}, TooLate},
		{Exchange{0, coarseUsec, 0, 1}, Accepted},
		{Exchange{0, coarseUsec + 1, 0, 1}, Impossible},
		{Exchange{0, 7, 7 + 10_008, 10_000}, Accepted}, // 600 ppm and 2 us
		{Exchange{0, 7, 7 + 10_009, 10_000}, Impossible},
		{Exchange{0, 0, 1 << 63, 1}, Impossible},
	} {
		check(t, x.verdict(), x.want, "%+v", x.Exchange)
	}
}

// TestAllows: an exchange excludes what is more than the bound and 2 us beyond its limits.
func TestAllows(t *testing.T) {
	x := Exchange{T1: 0, T2: 1100, T3: 1100, T4: 200} // from 900 to 1100
	for offset, want := range map[uint64]bool{
		887:          false,
		888:          true,
		1000:         true,
		1112:         true,
		1113:         false,
		1 << 63:      false,
		1<<63 + 1000: false,
	} {
		check(t, x.allows(offset, 10*us), want, "%d", offset)
	}
}

// TestManyServers: where each request meets one of several machines, one exchange in five says so,
// or more. The time is that of the machine that answered last. Where they ask often, Within is not
// nil. Nothing is said where a clock is set, once or each minute.
func TestManyServers(t *testing.T) {
	for _, interval := range []time.Duration{0, 5 * sec, time.Minute} {
		for machines := uint64(2); machines <= 5; machines++ {
			r := random(t)
			w := newWorld(&Clock{conf: Config{SyncInterval: interval}})
			w.keepPinging()
			w.heard = func(x exchange) {
				// Each machine's clock is read as it is, not a mean of several.
				if off := w.errorUsec(t); magnitude(off) > 30*uint64(usMs) {
					t.Errorf("%d machines, each %v: %v, and %d us off the last one",
						machines, interval, x.verdict, off)
				}
				w.jump = r.Int64N(int64(machines)) * usSec
			}
			w.run(10 * time.Minute)
			said := w.c.Count(ManyServers)
			used := said + w.c.Count(Stepped) + w.c.Count(Accepted)
			if said*5 < used {
				t.Errorf("%d machines, each %v: said %d times of %d",
					machines, interval, said, used)
			}
			if s := w.snapshot(t); s.Within(s.ErrorBound) == nil && interval == 0 {
				t.Errorf("%d machines, each %v: Within is nil", machines, interval)
			}
			if asked := w.c.schedule.asked; interval != 0 && asked > 2500 {
				t.Errorf("%d machines, each %v: %d requests", machines, interval, asked)
			}
		}
		for _, local := range []bool{false, true} {
			w := newWorld(&Clock{conf: Config{SyncInterval: interval}})
			w.keepPinging()
			size := int64(-7 * usSec)
			for range 20 {
				w.run(time.Minute)
				w.set(local, size)
				size = -size / 2
			}
			check(t, w.c.Count(ManyServers), 0, "set 20 times, each %v, local %v", interval, local)
		}
	}
}

// TestPlainClock: the first exchange sets it; an error is taken away in parts, above the threshold
// at once; and with the same exchanges it agrees with the method that it re-creates.
func TestPlainClock(t *testing.T) {
	p := PlainClock{Rule: Latest, AdjustSteps: 4, RecalibrateThreshold: ms}
	at := func(offset uint64) Exchange {
		return Exchange{T1: 1000, T2: 1000 + offset, T3: 1000 + offset, T4: 1000}
	}
	_, ok := p.RemoteTime(0)
	check(t, ok, false, "known at first")
	p.OnExchange(Exchange{T1: 1})
	for _, x := range []struct{ offset, want uint64 }{
		{5000, 5000},
		{5010, 5005},
		{5011, 5007},
		{5011, 5008},
		{5009, 5009},
		{6009, 5259},
		{6260, 6260},
		{0, 0},
	} {
		p.OnExchange(at(x.offset))
		got, _ := p.RemoteTime(0)
		check(t, got, x.want, "after %d", x.offset)
	}
	w := newWorld(new(Clock))
	r := random(t)
	w.up = exponential(r, 30*usMs, 20*usMs)
	w.down = exponential(r, 30*usMs, 20*usMs)
	once := PlainClock{Rule: Latest}
	sutphin := new(rivals.Sutphin)
	filter := new(PlainClock)
	ntp := new(rivals.NTPFilter)
	looks, unlike := 0, 0
	w.heard = func(x exchange) {
		if len(once.window) == 0 {
			once.OnExchange(x.Exchange)
		}
		sutphin.OnExchange(x.T1, x.T2, x.T3, x.T4)
		filter.OnExchange(x.Exchange)
		ntp.OnExchange(x.T1, x.T2, x.T3, x.T4)
		ours, _ := once.RemoteTime(0)
		theirs, _ := sutphin.RemoteTime(0, 0)
		if int64(ours-theirs) > 1 || int64(ours-theirs) < -1 {
			t.Fatalf("Sutphin: %d, not %d", ours, theirs)
		}
		ours, _ = filter.RemoteTime(0)
		theirs, _ = ntp.RemoteTime(0, 0)
		looks++
		if magnitude(int64(ours-theirs)) > 1 {
			unlike++
		}
	}
	w.every(2*sec, w.ping)
	w.run(10 * time.Minute)
	if looks < 200 || unlike*50 > looks { // the ages differ by the time under way
		t.Errorf("NTP's filter: unlike %d times of %d", unlike, looks)
	}
}
