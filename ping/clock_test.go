// These tests prove how the clock behaves: its schedule, what it takes and refuses, what it
// reads between replies, and what it does with extreme figures.

package ping

import (
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"timesync"
)

// How a Clock asks, adjusts, reads and is read: schedule, corrections, skew, readers, extremes.

type source struct{ name, text string }

// sources returns the package's files without tests.
func sources(t *testing.T) (all []source) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, source{name, string(b)})
	}
	if len(all) < 3 {
		t.Fatalf("found only %d files", len(all))
	}
	return all
}

// TestWorkedExample is the article's: the client is at 10 s when the server is at
// 60 s, and each way takes 5 s. The reply says 65; when it comes, at client time 20,
// the server is at 70.
func TestWorkedExample(t *testing.T) {
	for _, rule := range rules {
		c := &Clock{conf: Config{Rule: rule.rule}}
		request := c.AppendRequest(nil, 10_000_000)
		reply, _ := AppendReply(nil, request, 0, 65_000_000, 65_000_000)
		if v := c.HandleReply(reply, 20_000_000); v != Synced {
			t.Fatalf("%s: %v", rule.name, v)
		}
		if got, ok := c.RemoteTime(20_000_000); got != 70_000_000 || !ok {
			t.Errorf("%s: %d us at client time 20 s, want 70 s", rule.name, got)
		}
		// "From here on out, the server and client stay near-perfectly synced, with
		// no further network traffic required", but the listing never advanced.
		if got, _ := c.RemoteTime(80_000_000); got != 130_000_000 {
			t.Errorf("%s: %d us a minute later, want 130 s", rule.name, got)
		}
		s, _ := c.Snapshot(20_000_000)
		if s.MinimumOneWayDelay != 5*time.Second || s.OffsetUsec != 50_000_000 || s.ErrorBound < 5*time.Second || s.ErrorBound > 5010*time.Millisecond {
			t.Errorf("%s: %+v", rule.name, s)
		}
	}
}

// TestSchedule: 8 fast requests, then one per interval, and fast again after a
// step.
func TestSchedule(t *testing.T) {
	for _, x := range []struct {
		interval time.Duration
		want     string
	}{
		{0, "[100 100 100 100 100 100 100 250 250 250]"},
		{5 * time.Second, "[100 100 100 100 100 100 100 5000 5000 5000]"},
		{20 * time.Millisecond, "[20 20 20 20 20 20 20 20 20 20]"},
	} {
		c := &Clock{conf: Config{SyncInterval: x.interval}}
		now := uint64(math.MaxUint64 - 300_000) // across the wrap
		gaps := func() string {
			var all []int64
			for len(all) < 10 {
				if c.Next(now) != 0 && c.asked == 0 {
					t.Fatal("a new clock has to wait")
				}
				c.AppendRequest(nil, now)
				gap := c.Next(now)
				if c.Next(now+1000) != max(gap-time.Millisecond, 0) || c.Next(now+uint64(gap.Microseconds())) != 0 {
					t.Fatalf("Next is not when it said, after %v", gap)
				}
				all = append(all, gap.Milliseconds())
				now += uint64(gap.Microseconds())
			}
			return fmt.Sprint(all)
		}
		if got := gaps(); got != x.want {
			t.Errorf("interval %v: gaps %s ms, want %s", x.interval, got, x.want)
		}
		c.Reset(1)
		if c.Next(now) != 0 {
			t.Error("has to wait after Reset")
		}
		if got := gaps(); got != x.want {
			t.Errorf("interval %v: gaps after Reset %s ms, want %s", x.interval, got, x.want)
		}
	}
	w := newWorld(new(Clock))
	w.keepPinging(nil)
	w.run(5 * time.Second)
	w.jump = 3 * usSec
	w.run(time.Second)
	if w.c.Next(w.local()) > fastInterval || w.c.fast == fastRequests {
		t.Errorf("a second after a step: next in %v", w.c.Next(w.local()))
	}
}

// TestAdjust: each reply takes one AdjustSteps-th of the error; over
// RecalibrateThreshold the clock jumps; and between, nothing goes back and no speed
// exceeds 1/16.
func TestAdjust(t *testing.T) {
	for _, x := range []struct {
		threshold time.Duration
		jump      int64
		steps     int
		want      []int64 // error after each of the next replies
		stepped   bool
	}{
		{0, 160 * usMs, 1, []int64{0, 0}, false},
		{0, 160 * usMs, 8, []int64{0, 0}, false}, // provable by the bounds: what was before is void
		{0, -201 * usMs, 8, []int64{0, 0}, true},
		{time.Second, -201 * usMs, 8, []int64{0}, false},
		{10 * time.Millisecond, 16 * usMs, 4, []int64{0}, true},
		{0, 16 * usMs, 4, []int64{-12 * usMs, -9 * usMs}, false}, // within the bounds
		{0, -16 * usMs, 2, []int64{8 * usMs, 4 * usMs}, false},
	} {
		c := &Clock{conf: Config{SyncInterval: 4 * time.Second, Rule: Latest, AdjustSteps: x.steps, RecalibrateThreshold: x.threshold}}
		w := newWorld(c)
		w.keepPinging(nil)
		w.run(30 * time.Second)
		before := w.snapshot(t)
		w.t = w.events[0].at - usMs // just before the next request
		w.jump = x.jump
		last := w.snapshot(t)
		w.every(time.Millisecond, func() {
			s := w.snapshot(t)
			if d := int64(s.RemoteUsec - last.RemoteUsec); s.Steps == last.Steps && (d < 900 || d > 1100) {
				if d != 0 { // the same instant
					t.Fatalf("jump %d: %d us in a millisecond", x.jump, d)
				}
			}
			last = s
		})
		for i, want := range x.want {
			w.run(4 * time.Second)
			if e := w.errorUsec(t); magnitude(e-want) > 5 {
				t.Errorf("threshold %v, jump %d us, steps %d: error %d us after reply %d, want %d", x.threshold, x.jump, x.steps, e, i+1, want)
			}
		}
		if got := w.snapshot(t); (got.Steps == before.Steps+1) != x.stepped || x.stepped && magnitude(got.OffsetUsec-before.OffsetUsec-x.jump) > 5 {
			t.Errorf("threshold %v, jump %d us: %d steps, offset moved by %d us", x.threshold, x.jump, got.Steps-before.Steps, got.OffsetUsec-before.OffsetUsec)
		}
	}
}

// TestReceiveTimeGoesBack: a reply stamped a second ago, after a later one, does not
// change the present at once, though the rule has left the clock alone until then.
func TestReceiveTimeGoesBack(t *testing.T) {
	pick := -1
	c := &Clock{conf: Config{Rule: func([]Sample) int { return pick }, AdjustSteps: 1}}
	w := newWorld(c)
	w.keepPinging(nil)
	w.run(10 * time.Second)
	w.events = nil
	now := c.known.Load().heard
	w.t -= usSec
	request := c.AppendRequest(nil, w.local())
	reply, _ := AppendReply(nil, request, 0, w.remote()-50*1000, w.remote()-50*1000)
	before, _ := c.RemoteTime(now)
	pick = len(c.window) // the new one
	if v := c.HandleReply(reply, w.local()+100_000); v != Accepted {
		t.Fatal(v)
	}
	after, _ := c.RemoteTime(now)
	later, _ := c.RemoteTime(now + 5_000_000)
	if after != before || later == before+5_000_000 {
		t.Errorf("the present changed by %d us, five seconds later by %d us", after-before, later-before-5_000_000)
	}
}

// TestSkewFollows: through jitter, and when the skew changes; and a clock that runs
// away is believed only so far.
func TestSkewFollows(t *testing.T) {
	r := random(t)
	worst := 0.0
	for range 10 {
		w := newWorld(new(Clock))
		w.up, w.down = exponential(r, 20*usMs, 3*usMs), exponential(r, 20*usMs, 3*usMs)
		for _, ppm := range []int64{50, -50} {
			w.jump += w.t * (w.ppb - ppm*1000) / 1_000_000_000 // no step
			w.ppb = ppm * 1000
			if w.t == 0 {
				w.keepPinging(nil)
			}
			w.run(5 * time.Minute)
			got, ok := w.c.Skew()
			worst = max(worst, math.Abs(got-float64(ppm)))
			if !ok {
				t.Fatal("skew not known")
			}
		}
	}
	t.Logf("worst error of the skew %.1f ppm", worst)
	if worst > 12 {
		t.Errorf("skew off by %.1f ppm", worst)
	}
	w := newWorld(new(Clock))
	w.ppb = 602_000 // as much more than 600 ppm as the reading of clocks may hide
	w.keepPinging(nil)
	w.run(time.Minute)
	if got, ok := w.c.Skew(); !ok || got > maxSkewPPM || got < maxSkewPPM-0.001 {
		t.Errorf("602 ppm: skew %.3f, %v", got, ok)
	}
}

// TestDriftExtremes: exchanges at the same time are passed over.
func TestDriftExtremes(t *testing.T) {
	var d drift
	for _, s := range []sample{{at: 0, trip: 9}, {at: 8_000_000, trip: 9}, {at: 0, trip: 1}, {at: 17_000_000, trip: 9}} {
		d.add(s)
	}
	if d.known {
		t.Errorf("a slope of two exchanges at the same time: %d", d.skew)
	}
}

// TestZeroRoundTrip: on loopback a round trip can be nothing, and with a fast server
// even less than what it says it held.
func TestZeroRoundTrip(t *testing.T) {
	w := newWorld(new(Clock))
	w.up, w.down, w.hold, w.ppb = constant(0), constant(0), 40*usMs, 500_000
	w.keepPinging(nil)
	w.watch(t)
	w.run(30 * time.Second)
	if s := w.snapshot(t); s.MinimumOneWayDelay != 0 || w.c.Count(Impossible) != 0 {
		t.Errorf("delay %v, %d refused", s.MinimumOneWayDelay, w.c.Count(Impossible))
	}
}

// TestRead compares segment.read with big integers, over all sorts of values, and
// checks that it never goes back.
func TestRead(t *testing.T) {
	r := random(t)
	n := 200_000
	if testing.Short() {
		n = 20_000
	}
	for range n {
		g := segment{r.Uint64(), r.Uint64(), r.Int64N(2*maxSkew+1) - maxSkew, r.Int64N(1<<r.IntN(50)+1) >> r.IntN(2)}
		if r.IntN(2) == 0 {
			g.slew = -g.slew
		}
		d := r.Int64() >> r.IntN(63)
		if r.IntN(3) == 0 {
			d = int64(magnitude(g.slew)<<slewShift) + r.Int64N(5) - 2 // the end of the slew
		}
		if r.IntN(2) == 0 {
			d = -d
		}
		local := g.at + uint64(d)

		// The reference: slew min(d/16, |slew|) in units of 2^-32, one floor at the end.
		whole := new(big.Int).Mul(big.NewInt(d), big.NewInt(1<<32+g.skew))
		slewed := big.NewInt(0)
		if d > 0 {
			slewed.Mul(big.NewInt(d), big.NewInt(1<<(32-slewShift)))
			if most := new(big.Int).Lsh(new(big.Int).Abs(big.NewInt(g.slew)), 32); slewed.Cmp(most) > 0 {
				slewed = most
			}
			if g.slew < 0 {
				slewed.Neg(slewed)
			}
		}
		whole.Add(whole, slewed).Rsh(whole, 32).Add(whole, new(big.Int).SetUint64(g.remote))
		want := whole.And(whole, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
		if got := g.read(local); got != want {
			t.Fatalf("%+v read %d us later: %d, want %d", g, d, got, want)
		}
		if d < math.MaxInt64 && int64(g.read(local+1)-want) < 0 {
			t.Fatalf("%+v goes back %d us later", g, d)
		}
	}
}

// TestPastStays: what reads from 20 ms before the last reply to 20 ms after it reads the same after
// the next one: a reply handled late does not change what readers have seen, as long as it is
// less than 20 ms late.
func TestPastStays(t *testing.T) {
	r := random(t)
	c := &Clock{conf: Config{Rule: Latest}}
	w := newWorld(c)
	w.up, w.down = exponential(r, usMs, 10*usMs), exponential(r, usMs, 10*usMs)
	w.ppb = 50_000
	changed := 0
	for range 2000 {
		request := c.AppendRequest(nil, w.local())
		w.t += w.up()
		recv := w.remote()
		w.t += w.down()
		reply, _ := AppendReply(nil, request, 0, recv, recv)
		before := c.known.Load()
		c.HandleReply(reply, w.local())
		after := c.known.Load()
		if before == nil || before.steps != after.steps {
			continue
		}
		for ago := range int64(40) {
			at := w.local() + settleUsec - 1 - uint64(ago)*1000
			if before.read(at) != after.read(at) {
				t.Fatalf("reading for %d us changed from %d to %d", at, before.read(at), after.read(at))
			}
		}
		if before.read(w.local()+5*settleUsec) != after.read(w.local()+5*settleUsec) {
			changed++
		}
		w.t += r.Int64N(400) * usMs * r.Int64N(2) // or back to back
	}
	if changed < 300 {
		t.Errorf("only %d replies changed anything", changed)
	}
}

// TestReaders: one goroutine handles replies while 8 read the present; none sees
// the clock go back within one number of steps, nor a torn snapshot.
func TestReaders(t *testing.T) {
	r := random(t)
	c := &Clock{conf: Config{Rule: Latest, AdjustSteps: 2}}
	w := newWorld(c)
	w.up, w.down = exponential(r, 20*usMs, 20*usMs), exponential(r, 20*usMs, 20*usMs)
	var now, reads atomic.Uint64 // now is the local clock that all see
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			last := timesync.Snapshot{Steps: math.MaxUint32}
			for !done.Load() {
				runtime.Gosched() // js/wasm has one thread and does not interrupt it
				local := now.Load()
				s, ok := c.Snapshot(local)
				if !ok || now.Load()-local > 10_000 {
					continue // this goroutine was interrupted: that was not the present
				}
				reads.Add(1)
				if s.Steps == last.Steps && int64(s.RemoteUsec-last.RemoteUsec) < 0 {
					t.Errorf("went back from %d to %d", last.RemoteUsec, s.RemoteUsec)
					return
				}
				if s.ErrorBound <= 0 || s.MinimumOneWayDelay < 20*time.Millisecond || s.OffsetUsec != int64(s.RemoteUsec-local) {
					t.Errorf("torn: %+v", s)
					return
				}
				last = s
				c.RemoteTime(local)
				c.ErrorBound(local)
				c.MinimumOneWayDelay()
				c.Skew()
				c.Count(Accepted)
			}
		})
	}
	w.keepPinging(nil)
	w.every(100*time.Microsecond, func() {
		now.Store(w.local())
		runtime.Gosched()
	})
	for seconds := 0; seconds < 4 || reads.Load() < 10_000 && seconds < 1000; seconds++ {
		w.run(time.Second)
	}
	done.Store(true)
	wg.Wait()
	t.Logf("%d reads of the present", reads.Load())
	if reads.Load() < 10_000 {
		t.Error("too few")
	}
}

// TestExtremes: clocks anywhere, steps of any size, settings of any size.
func TestExtremes(t *testing.T) {
	values := []uint64{0, 1, 1<<31 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<63 + 1, math.MaxUint64}
	for _, base := range values {
		for _, offset := range values {
			for _, jump := range values {
				c := &Clock{conf: Config{RecalibrateThreshold: math.MaxInt64, AdjustSteps: math.MaxInt, Samples: 3}}
				if jump%2 == 0 {
					c = new(Clock)
				}
				w := newWorld(c)
				w.base, w.offset = base, offset
				w.keepPinging(nil)
				w.run(2 * time.Second)
				if e := w.errorUsec(t); magnitude(e) > 2 {
					t.Fatalf("base %#x offset %#x: error %d", base, offset, e)
				}
				w.jump = int64(jump)
				w.run(2 * time.Second)
				for _, at := range values {
					c.RemoteTime(at)
					if bound, ok := c.ErrorBound(at); !ok || bound < 0 {
						t.Fatalf("base %#x offset %#x jump %#x: bound %v at %#x", base, offset, jump, bound, at)
					}
					c.Snapshot(at)
				}
				if jump%2 == 0 && magnitude(w.errorUsec(t)) > 2 {
					t.Fatalf("base %#x offset %#x jump %#x: error %d", base, offset, jump, w.errorUsec(t))
				}
			}
		}
	}
}

// TestSettings: what is negative is refused, by name, and all else works.
func TestSettings(t *testing.T) {
	for want, cfg := range map[string]Config{
		"SyncInterval is negative: -1ns":        {SyncInterval: -1},
		"Samples is negative: -1":               {Samples: -1},
		"AdjustSteps is negative: -9":           {AdjustSteps: -9},
		"RecalibrateThreshold is negative: -1s": {RecalibrateThreshold: -time.Second},
	} {
		if c, err := NewClock(cfg); c != nil || err == nil || err.Error() != "ping: "+want {
			t.Errorf("want %q: %v", want, err)
		}
	}
	for _, cfg := range []Config{{}, {SyncInterval: math.MaxInt64, AdjustSteps: math.MaxInt, Samples: 1, RecalibrateThreshold: math.MaxInt64}} {
		c, err := NewClock(cfg)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(c)
		w.ping(nil)
		w.run(time.Second)
		if e := w.errorUsec(t); magnitude(e) > 2 || c.Next(w.local()) < 0 {
			t.Errorf("%+v: error %d us", cfg, e)
		}
	}
}

// TestAnyGoroutine: one goroutine asks, another hands in what comes back, as over TCP, a third
// waits for the next request, and a fourth starts anew now and then. The race detector
// watches; and what is known stays right.
func TestAnyGoroutine(t *testing.T) {
	var c Clock
	var now atomic.Uint64
	const ahead = 1 << 40
	replies := make(chan []byte, 16)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 2000 {
			b, ok := AppendReply(nil, c.AppendRequest(nil, now.Add(1000)), uint32(i/500), now.Load()+ahead, now.Load()+ahead)
			if ok {
				replies <- b
			}
			if i%500 == 499 {
				c.Reset(uint32(i/500) + 1)
			}
		}
		close(replies)
	})
	wg.Go(func() {
		for b := range replies {
			c.HandleReply(b, now.Load())
		}
	})
	for range 2 {
		wg.Go(func() {
			for i := range uint64(2000) {
				c.Next(now.Load())
				c.RemoteTime(now.Load())
				c.Count(Verdict(i) % verdicts)
				runtime.Gosched() // js/wasm has one thread
			}
		})
	}
	wg.Wait()
	reply, _ := AppendReply(nil, c.AppendRequest(nil, now.Load()), 4, now.Load()+ahead, now.Load()+ahead)
	if v := c.HandleReply(reply, now.Load()); v > Stepped {
		t.Errorf("the last reply is %v", v)
	}
	if got, ok := c.RemoteTime(now.Load()); !ok || magnitude(int64(got-now.Load()-ahead)) > 2 {
		t.Errorf("%d, %v, want %d", got, ok, now.Load()+ahead)
	}
}

func TestVerdictString(t *testing.T) {
	seen := map[string]bool{}
	for v := range verdicts {
		if s := v.String(); s == "" || seen[s] {
			t.Errorf("verdict %d is %q", v, s)
		} else {
			seen[s] = true
		}
	}
	if verdicts.String() != "invalid" {
		t.Error(verdicts.String())
	}
}

func TestReadsDoNotAllocate(t *testing.T) {
	w := newWorld(new(Clock))
	w.keepPinging(nil)
	w.run(time.Second)
	if n := testing.AllocsPerRun(100, func() {
		w.c.RemoteTime(w.local())
		w.c.ErrorBound(w.local())
		w.c.Snapshot(w.local())
		w.c.Next(w.local())
		w.c.HandleReply([]byte{1}, w.local())
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What package tick wants of a remote clock, and what it uses where it exists.
var _ interface {
	RemoteTime(localUsec uint64) (remoteUsec uint64, ok bool)
	MinimumOneWayDelay() (delay time.Duration, ok bool)
	MinimumDelayToPeer() (delay time.Duration, ok bool)
	Skew() (ppm float64, ok bool)
	ErrorBound(localUsec uint64) (bound time.Duration, ok bool)
} = (*Clock)(nil)
