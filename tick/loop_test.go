package tick

import (
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeRemote is a remote clock that is known exactly.
type fakeRemote struct {
	offset int64 // remote minus local, microseconds
	delay  time.Duration
	ppm    float64 // what Skew says
	bound  time.Duration
	lost   bool
}

func (f *fakeRemote) RemoteTime(localUsec, _ uint64) (uint64, bool) {
	return localUsec + uint64(f.offset), !f.lost
}
func (f *fakeRemote) MinimumOneWayDelay() (time.Duration, bool) { return f.delay, !f.lost }
func (f *fakeRemote) Skew() (float64, bool)                     { return f.ppm, !f.lost }
func (f *fakeRemote) ErrorBound(uint64) (time.Duration, bool)   { return f.bound, !f.lost }
func (f *fakeRemote) shift(d time.Duration)                     { f.offset += d.Microseconds() }

// recorder keeps what a loop does.
type recorder struct {
	ticks  []Tick
	events []Event
}

func (r *recorder) config(cfg Config) Config {
	cfg.Tick = func(s Step) { r.ticks = append(r.ticks, s.Tick) }
	cfg.Event = func(e Event) { r.events = append(r.events, e) }
	return cfg
}

func (r *recorder) of(k Kind) (found []Event) {
	for _, e := range r.events {
		if e.Kind == k {
			found = append(found, e)
		}
	}
	return found
}

// check checks that the ticks recorded since the first one are consecutive but for
// what the events announce.
func (r *recorder) check(t *testing.T) {
	t.Helper()
	skipped := map[Tick]bool{}
	again := map[Tick]bool{}
	for _, e := range r.events {
		if e.Kind != Stepped && e.Kind != Stalled && e.Kind != Skipped {
			continue
		}
		for n := e.First; n <= e.Last; n++ {
			if e.Again {
				again[n] = true
			} else {
				skipped[n] = true
			}
		}
	}
	for i := 1; i < len(r.ticks); i++ {
		a, b := r.ticks[i-1], r.ticks[i]
		for n := a + 1; n < b; n++ {
			if !skipped[n] {
				t.Fatalf("tick %d was dropped unreported between %d and %d", n, a, b)
			}
		}
		for n := b; n <= a; n++ {
			if !again[n] {
				t.Fatalf("tick %d follows %d unannounced", b, a)
			}
		}
	}
}

// newClient returns a started client at local time 0 whose server reads origin plus
// game at that time.
func newClient(cfg Config, remote *fakeRemote, game time.Duration) *Loop {
	const origin = 1 << 63
	remote.offset = math.MinInt64 + game.Microseconds() // wraps: origin + game
	l := NewClient(cfg, remote)
	l.Start(0)
	err := l.OnWelcome(Welcome{Epoch: 1, Rate: cfg.Rate.orDefault(), OriginUsec: origin, Tick: cfg.Rate.Ticks(game)}, 0)
	if err != nil {
		panic(err)
	}
	return l
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func usec(d time.Duration) uint64 { return uint64(d.Microseconds()) }

var long = flag.Bool("long", false, "run 90 days tick by tick (2 minutes)")

// AT02: 90 days at 60 Hz in random frames of 1 to 100 ms: every tick once and in
// order, and no drift. Without -long only the first and the last hour have such
// frames; between them the loop stalls again and again, and what it says it skipped
// counts as run.
func TestAT02_NinetyDays(t *testing.T) {
	rng := newRand(t)
	hour := time.Hour
	if testing.Short() {
		hour = 10 * time.Minute
	}
	var expected, skipped Tick
	l := NewServer(Config{
		CatchUp: RunAll,
		Tick: func(s Step) {
			if s.Tick != expected {
				t.Fatalf("tick %d, want %d", s.Tick, expected)
			}
			expected++
		},
		Event: func(e Event) {
			if e.Kind == Synced {
				return
			}
			if e.Kind != Stalled || e.First != expected {
				t.Fatalf("%v, want tick %d", e, expected)
			}
			skipped += e.Last - e.First + 1
			expected = e.Last + 1
		},
	})
	const length = 90 * 24 * time.Hour
	start := rng.Uint64()
	now, end := start, start+usec(length)
	l.Start(now)
	frames := 0
	for now != end {
		frame := 1000 + rng.Uint64N(99_000)
		if !*long && now-start > usec(hour) && end-now > usec(hour) {
			frame += rng.Uint64N(usec(hour))
		}
		now += min(frame, end-now)
		l.Advance(now)
		frames++
	}
	want := Hz(60).Ticks(length)
	if expected != want+1 { // tick 0 is one of them
		t.Fatalf("the last tick is %d, want %d", expected-1, want)
	}
	got, _ := l.Shared(now)
	if got.Compare(Hz(60).Time(want, 0)) != 0 || got.Time() != length {
		t.Fatalf("after %v the clock shows %v", length, got)
	}
	t.Logf("90 days, %d frames, last tick %d, %d run, %d reported as skipped, drift 0", frames, want, expected-skipped, skipped)
}

// AT12: a remote clock that nobody filtered jitters by +-30 ms for 10 minutes. (How
// often the slew changes its sign is seen in TestAT12_Network.)
func TestAT12_Raw(t *testing.T) {
	rng := newRand(t)
	remote := &fakeRemote{delay: ms(50)}
	l := newClient(Config{}, remote, time.Hour)
	truth := remote.offset
	var last [3]time.Duration
	var speedMin, speedMax = 2.0, 0.0
	const minutes = 10
	for sec := range minutes * 60 {
		for f := range 60 {
			now := uint64(sec)*1_000_000 + uint64(f)*16_667
			if f%6 == 0 { // as often as pings answer
				remote.offset = truth + rng.Int64N(60_001) - 30_000
			}
			l.Advance(now)
			for i, get := range []func(uint64) (Time, bool){l.Shared, l.Server, l.Predicted} {
				at := now + rng.Uint64N(16_000)
				a, _ := get(now)
				b, _ := get(at)
				if a.Time() < last[i] || b.Time() < a.Time() {
					t.Fatalf("clock %d went back at %d s", i, sec)
				}
				last[i] = a.Time()
				if at > now+1000 {
					speed := float64(b.Sub(a)) / float64(at-now) / 1000
					speedMin, speedMax = min(speedMin, speed), max(speedMax, speed)
				}
				last[i] = b.Time()
			}
		}
	}
	if speedMin < 0.99-1e-6 || speedMax > 1.01+1e-6 {
		t.Errorf("speed between %.6f and %.6f", speedMin, speedMax)
	}
	if l.Stats().Steps != 0 {
		t.Errorf("%d steps", l.Stats().Steps)
	}
	// Exactly 1 at zero error.
	remote.offset = truth
	now := uint64(minutes * 60_000_000)
	for range 60 * 60 {
		now += 16_667
		l.Advance(now)
	}
	for _, get := range []func(uint64) (Time, bool){l.Shared, l.Server, l.Predicted} {
		a, _ := get(now)
		b, _ := get(now + 10_000_000)
		if b.Sub(a) != 10*time.Second {
			t.Errorf("at rest 10 s take %v", b.Sub(a))
		}
	}
	t.Logf("speed %.4f to %.4f, exactly 1 at rest", speedMin, speedMax)
}

// spy shows the pace that a provider set.
type spy struct {
	Provider
	pace  Pace
	slews int
}

func (s *spy) Advance(c *Clocks, t Target) (Pace, bool) {
	p, ok := s.Provider.Advance(c, t)
	s.pace = p
	if p.Predicted.PPM != 0 {
		s.slews++
	}
	return p, ok
}

// AT13: the offset steps by +3 s: one Stepped with the exact ticks; no tick twice.
func TestAT13_StepForward(t *testing.T) {
	var r recorder
	remote := &fakeRemote{delay: ms(50)}
	l := newClient(r.config(Config{}), remote, time.Hour)
	now := uint64(0)
	for ; now < 1_000_000; now += 10_000 {
		l.Advance(now)
	}
	remote.shift(3 * time.Second)
	for ; now < 2_000_000; now += 10_000 {
		l.Advance(now)
	}
	steps := r.of(Stepped)
	if len(steps) != 1 || steps[0].By != 3*time.Second || steps[0].Last-steps[0].First+1 != 180 {
		t.Fatalf("steps: %v", steps)
	}
	if len(r.of(Stalled))+len(r.of(Skipped)) != 0 || l.Stats().Skipped != 180 || l.Stats().Steps != 1 {
		t.Errorf("events %v, stats %+v", r.events, l.Stats())
	}
	r.check(t)
	if !slices.IsSorted(r.ticks) {
		t.Error("ticks out of order")
	}
	t.Logf("%v", steps[0])
}

// Stepping back is announced with the ticks that run again.
func TestStepBack(t *testing.T) {
	var r recorder
	remote := &fakeRemote{delay: ms(50)}
	l := newClient(r.config(Config{}), remote, time.Hour)
	now := uint64(0)
	for ; now < 4_000_000; now += 10_000 {
		l.Advance(now)
	}
	remote.shift(-3 * time.Second)
	for ; now < 8_000_000; now += 10_000 {
		l.Advance(now)
	}
	steps := r.of(Stepped)
	// 180 ticks lie in 3 s; the tick that would have become due just now never ran.
	if n := len(steps); n != 1 || steps[0].By != -3*time.Second || steps[0].Last-steps[0].First+1 < 179 || steps[0].Last-steps[0].First+1 > 180 {
		t.Fatalf("steps: %v", steps)
	}
	r.check(t)
	seen := map[Tick]int{}
	for _, n := range r.ticks {
		seen[n]++
	}
	for n := steps[0].First; n <= steps[0].Last; n++ {
		if seen[n] != 2 {
			t.Fatalf("tick %d ran %d times", n, seen[n])
		}
	}
}

// AT14: a step of -3 s under NeverBack: the clocks hold, no tick repeats, and after
// 3 s all is well.
func TestAT14_NeverBack(t *testing.T) {
	var r recorder
	remote := &fakeRemote{delay: ms(50)}
	l := newClient(r.config(Config{Provider: &ClientProvider{NeverBack: true}}), remote, time.Hour)
	now, last := uint64(0), time.Duration(0)
	converged := uint64(0)
	const step = 2_000_000
	for ; now < 10_000_000; now += 10_000 {
		if now == step {
			remote.shift(-3 * time.Second)
		}
		l.Advance(now)
		p, _ := l.Predicted(now + 5000)
		if p.Time() < last {
			t.Fatalf("time went back at %d", now)
		}
		last = p.Time()
		p, _ = l.Predicted(now)
		want := time.Hour + time.Duration(now)*time.Microsecond + ms(50) + Hz(60).Duration(2)
		if now >= step {
			want -= 3 * time.Second
		}
		if converged == 0 && now > step && p.Time() == want {
			converged = now - step
		}
		if converged != 0 && p.Time() != want {
			t.Fatalf("left the target again at %d", now)
		}
	}
	if converged == 0 || converged > 3_010_000 {
		t.Errorf("converged after %d us, want 3 s and a frame at most", converged)
	}
	if len(r.of(Stepped)) != 0 {
		t.Errorf("events %v", r.events)
	}
	for i := 1; i < len(r.ticks); i++ {
		if r.ticks[i] != r.ticks[i-1]+1 {
			t.Fatalf("tick %d follows %d", r.ticks[i], r.ticks[i-1])
		}
	}
	t.Logf("at the target %.2f s after the step", float64(converged)/1e6)
}

// When the delay grows at once, predicted time steps forward and server time, under
// NeverBack, stands still.
func TestNeverBackDelay(t *testing.T) {
	var r recorder
	remote := &fakeRemote{delay: ms(50)}
	l := newClient(r.config(Config{Provider: &ClientProvider{NeverBack: true}}), remote, time.Hour)
	l.Advance(0)
	before, _ := l.Server(0)
	remote.delay += ms(300)
	for now := uint64(0); now < 290_000; now += 10_000 {
		l.Advance(now)
		if s, _ := l.Server(now); s != before {
			t.Fatalf("server time %v after %v", s, before)
		}
	}
	l.Advance(310_000)
	l.Advance(320_000)
	a, _ := l.Shared(320_000)
	b, _ := l.Server(320_000)
	c, _ := l.Predicted(320_000)
	if a.Sub(b) != ms(350)+Hz(60).Duration(1) || c.Sub(a) != ms(350)+Hz(60).Duration(2) {
		t.Errorf("clocks %v %v %v", a, b, c)
	}
	if e := r.of(Stepped); len(e) != 1 || e[0].By != ms(300) {
		t.Errorf("events %v", r.events)
	}
	r.check(t)
}

// AT15: what a stall of 10 s does under each policy.
func TestAT15_CatchUp(t *testing.T) {
	for _, tt := range []struct {
		name    string
		cfg     Config
		first   int // ticks of the first Advance after the stall
		most    int // of any
		skipped uint64
		kind    Kind
	}{
		{"Keep", Config{CatchUp: Keep, StallThreshold: -1}, 8, 8, 0, 0},
		{"Drop", Config{CatchUp: Drop, StallThreshold: -1}, 8, 8, 592, Skipped},
		{"Jump", Config{CatchUp: Jump, StallThreshold: -1}, 1, 1, 599, Skipped},
		{"RunAll", Config{CatchUp: RunAll, StallThreshold: -1}, 600, 600, 0, 0},
		{"stall", Config{}, 1, 1, 599, Stalled},
		{"stall/RunAll", Config{CatchUp: RunAll}, 1, 1, 599, Stalled},
		{"Keep bounded by the threshold", Config{StallThreshold: 9999 * time.Millisecond}, 1, 1, 599, Stalled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r recorder
			l := NewServer(r.config(tt.cfg))
			l.Start(0)
			now := uint64(0)
			for ; now <= 1_000_000; now += 10_000 {
				l.Advance(now)
			}
			now = 11_000_000
			got := l.Advance(now)
			debt := l.Stats().Debt
			if got != tt.first || l.Stats().Skipped != tt.skipped {
				t.Errorf("%d ticks in the first frame, %d skipped; want %d, %d", got, l.Stats().Skipped, tt.first, tt.skipped)
			}
			if want := Tick(600 - tt.first - int(tt.skipped)); debt != want {
				t.Errorf("debt %d, want %d", debt, want)
			}
			for ; now < 25_000_000; now += 10_000 {
				if n := l.Advance(now); n > tt.most {
					t.Fatalf("%d ticks in a frame", n)
				}
			}
			r.check(t)
			if last := r.ticks[len(r.ticks)-1]; last != Hz(60).Ticks(time.Duration(now-10_000)*time.Microsecond) {
				t.Errorf("still behind at tick %d", last)
			}
			if tt.kind != 0 {
				e := r.of(tt.kind)
				if len(e) != 1 || uint64(e[0].Last-e[0].First+1) != tt.skipped || tt.kind == Stalled && e[0].By != 10*time.Second {
					t.Errorf("events %v", r.events)
				}
			}
		})
	}
}

// AT15, second half: a tick costs 1.5 times its length.
func TestAT15_Overload(t *testing.T) {
	for _, policy := range []CatchUp{Keep, Drop, Jump} {
		var r recorder
		now := uint64(0)
		cfg := r.config(Config{CatchUp: policy})
		count := cfg.Tick
		cfg.Tick = func(s Step) { count(s); now += 25_000 }
		l := NewServer(cfg)
		l.Start(0)
		most, debt := 0, Tick(0)
		for now < 60_000_000 {
			now += 100
			most = max(most, l.Advance(now))
			debt = max(debt, l.Stats().Debt)
		}
		r.check(t)
		ran, skipped := l.Stats().Ticks, l.Stats().Skipped
		if most > 8 || debt > 60 {
			t.Errorf("policy %d: up to %d ticks in a frame and %d due", policy, most, debt)
		}
		if uint64(r.ticks[len(r.ticks)-1]) != ran+skipped-1 {
			t.Errorf("policy %d: %d run + %d skipped do not make tick %d", policy, ran, skipped, r.ticks[len(r.ticks)-1])
		}
		t.Logf("policy %d in 60 s: %d ticks run, %d skipped and reported, at most %d in a frame and %d due", policy, ran, skipped, most, debt)
	}
}

// AT16: no wall clock: nothing in the package reads one. (A wall-clock step has
// nothing to act on.)
func TestAT16_NoWallClock(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	parsed := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed++
		tree, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "NewTicker", "Tick"}, s.Sel.Name) {
					t.Errorf("%s uses time.%s", f.Name(), s.Sel.Name)
				}
			}
			return true
		})
	}
	if parsed < 4 {
		t.Errorf("only %d files looked at", parsed)
	}
}

// AT16: the client sleeps for 30 s and its clock with it: one Stepped on the first
// news of the server.
func TestAT16_Suspend(t *testing.T) {
	var r recorder
	remote := &fakeRemote{delay: ms(20)}
	l := newClient(r.config(Config{}), remote, time.Hour)
	now := uint64(0)
	for ; now < 1_000_000; now += 10_000 {
		l.Advance(now)
	}
	remote.shift(30 * time.Second) // the first reply shows it
	for ; now < 2_000_000; now += 10_000 {
		l.Advance(now)
	}
	steps := r.of(Stepped)
	if len(steps) != 1 || steps[0].By != 30*time.Second || steps[0].Last-steps[0].First+1 != 1800 || len(r.events) != 2 {
		t.Errorf("events %v", r.events)
	}
	r.check(t)
	got, _ := l.Shared(now)
	if want := time.Hour + 30*time.Second + 2*time.Second; got.Time() != want {
		t.Errorf("the shared clock shows %v, want %v", got.Time(), want)
	}
}

// AT17: joining after 30 days: no catch-up, and Synced only when the bound is met.
func TestAT17_LateJoin(t *testing.T) {
	var r recorder
	remote := &fakeRemote{delay: ms(50), bound: ms(500)}
	const up = 30 * 24 * time.Hour
	l := newClient(r.config(Config{SyncBound: ms(60)}), remote, up)
	done := make(chan error)
	go func() { done <- l.WaitSynced(context.Background()) }()
	now := uint64(0)
	for ; now < 3_000_000; now += 10_000 {
		remote.bound -= ms(5)
		if n := l.Advance(now); n > 1 {
			t.Fatalf("%d ticks at once", n)
		}
		if got := len(r.of(Synced)) == 1; got != (remote.bound <= ms(60)) {
			t.Fatalf("synced %v at a bound of %v", got, remote.bound)
		}
		if _, ok := l.Shared(now); ok != (remote.bound <= ms(60)) {
			t.Fatalf("reading ok %v at a bound of %v", ok, remote.bound)
		}
		remote.bound = max(remote.bound, ms(40))
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	at := r.of(Synced)[0].AtUsec
	first := Hz(60).Time(r.ticks[0], 0).FixedTime()
	predicted := up + time.Duration(at)*time.Microsecond + ms(50) + Hz(60).Duration(2)
	if d := first - predicted; d < 0 || d > Hz(60).Duration(1) {
		t.Errorf("first tick %d starts %v after predicted time at sync", r.ticks[0], d)
	}
	if s := l.Stats(); s.Skipped != 0 || s.Steps != 0 || len(r.events) != 1 {
		t.Errorf("%+v %v", s, r.events)
	}
	r.check(t)
	// Lost at twice the bound, synced again below it; the ticks go on.
	remote.bound = ms(119)
	l.Advance(now)
	if len(r.events) != 1 {
		t.Errorf("events %v at less than twice the bound", r.events)
	}
	remote.bound = ms(121)
	l.Advance(now)
	remote.bound = ms(119)
	l.Advance(now + 10_000)
	remote.bound = ms(60)
	l.Advance(now + 20_000)
	kinds := fmt.Sprint(r.events)
	if kinds != "[synced lost synced]" || l.Stats().Losses != 1 {
		t.Errorf("events %v", kinds)
	}
	r.check(t)
	t.Logf("first tick %d, %v after sync; bound %v", r.ticks[0], first-predicted, ms(60))
}

// AT18: stop and start leave nothing behind.
func TestAT18_Restart(t *testing.T) {
	var first string
	var r recorder
	remote := &fakeRemote{}
	c := NewClient(r.config(Config{}), remote)
	s := NewServer(Config{Epoch: 7})
	for i := range 10 {
		r = recorder{}
		s.Start(100)
		now := uint64(100)
		remote.delay, remote.lost = ms(30), true
		c.Start(now)
		c.Start(now + 5) // a second Start does nothing
		if n := c.Advance(now); n != 0 || len(r.events) != 0 {
			t.Fatalf("start %d: %d ticks and %v before the handshake", i, n, r.events)
		}
		w, ok := s.Announce(now)
		if !ok || w.Epoch != 7+uint32(i) || w.Tick != 0 || w.OriginUsec != now {
			t.Fatalf("start %d: announced %+v", i, w)
		}
		if err := c.OnWelcome(w, now); err != nil {
			t.Fatal(err)
		}
		remote.lost, remote.offset = false, 0
		for range 200 {
			now += 7000
			s.Advance(now)
			c.Advance(now)
			if err := s.OnHello(5, c.Hello()); err != nil {
				t.Fatal(err)
			}
		}
		trace := fmt.Sprint(r.ticks, r.events, c.Stats(), s.Stats())
		trace = strings.ReplaceAll(trace, fmt.Sprintf("epoch %d", w.Epoch), "")
		if i == 0 {
			first = trace
		}
		if trace != first {
			t.Fatalf("start %d differs:\n%s\n%s", i, trace, first)
		}
		c.Stop()
		s.Stop()
		c.Stop()
		if n := c.Advance(now + 1_000_000); n != 0 || s.Advance(now+1_000_000) != 0 {
			t.Fatal("ticks after Stop")
		}
		if _, ok := c.Shared(now); ok {
			t.Fatal("a reading after Stop")
		}
		if _, ok := s.Announce(now); ok {
			t.Fatal("a Welcome after Stop")
		}
	}
	if len(r.ticks) < 80 {
		t.Errorf("only %d ticks", len(r.ticks))
	}
}

// Stop, Pause and a rate change from inside of handlers take effect at once.
func TestStopInHandler(t *testing.T) {
	var l *Loop
	var log []string
	after := func(name string) func(Step) {
		return func(s Step) { log = append(log, fmt.Sprint(name, s.Tick)) }
	}
	cfg := Config{
		BeforeLoop: func() { log = append(log, "<") }, AfterLoop: func() { log = append(log, ">") },
		BeforeTick: after("b"), AfterTick: after("a"),
		Tick: func(s Step) {
			log = append(log, fmt.Sprint("t", s.Tick))
			if s.Tick == 2 {
				l.Pause(50_000)
			}
			if s.Tick == 4 {
				l.Stop()
			}
		},
	}
	l = NewServer(cfg)
	l.Start(0)
	l.Advance(0)
	l.Advance(100_000) // ticks 1 to 6 are due
	l.Advance(150_000)
	l.Resume(200_000)
	l.Advance(200_000)
	l.Advance(300_000)
	want := "[< b0 t0 a0 > < b1 t1 a1 b2 t2 a2 > < b3 t3 a3 b4 t4 a4 >]"
	if got := fmt.Sprint(log); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A loop that a handler stops and starts again does not go on with the old frame.
func TestRestartInHandler(t *testing.T) {
	var l *Loop
	var ran []Tick
	l = NewServer(Config{Tick: func(s Step) {
		ran = append(ran, s.Tick)
		if s.Tick == 2 {
			l.Stop()
			l.Start(100_000)
		}
	}})
	l.Start(0)
	l.Advance(0)
	l.Advance(100_000)
	l.Advance(120_000)
	if got := fmt.Sprint(ran); got != "[0 1 2 0 1]" {
		t.Errorf("ran %v", got)
	}
}

// ringRemote knows the remote clock modulo 67.1 s, as the core does.
type ringRemote struct{ fakeRemote }

func (r *ringRemote) RemoteTime(localUsec, near uint64) (uint64, bool) {
	exact := localUsec + uint64(r.offset)
	return near + uint64(int64((exact-near)<<38)>>38), true
}

// The Welcome's tick says which of the readings that are 67.1 s apart is meant, and
// the loop keeps track.
func TestModulo(t *testing.T) {
	remote := &ringRemote{fakeRemote{offset: 123_456_789_000, delay: ms(50)}}
	var r recorder
	l := NewClient(r.config(Config{StallThreshold: -1, CatchUp: Jump}), remote)
	l.Start(0)
	const up = time.Hour // server's clock at local time 0 is an hour after its origin
	w := Welcome{Rate: Hz(60), OriginUsec: uint64(remote.offset) - usec(up), Tick: Hz(60).Ticks(up - 20*time.Second)}
	if err := l.OnWelcome(w, 0); err != nil { // 20 s late
		t.Fatal(err)
	}
	for _, now := range []uint64{0, 10_000_000, 60_000_000, 120_000_000, 120_010_000, 500_000_000, 540_000_000, 2_000_000_000} {
		l.Advance(now)
		if g, ok := l.Shared(now); !ok || g.Time() != up+time.Duration(now)*time.Microsecond {
			t.Errorf("at %d us shared time is %v", now, g.Time())
		}
	}
	if len(r.of(Stepped)) != 0 {
		t.Errorf("events %v", r.events)
	}
	for i := range 5 { // steps that the remote clock can tell, but not their sum
		remote.shift(20 * time.Second)
		now := 2_000_000_000 + uint64(i)*10_000
		l.Advance(now)
		if g, _ := l.Shared(now); g.Time() != up+time.Duration(now)*time.Microsecond+time.Duration(i+1)*20*time.Second {
			t.Errorf("after step %d shared time is %v", i, g.Time())
		}
	}
}

// The origin that a server announces is exact for any first tick.
func TestFirstTick(t *testing.T) {
	for first := range Tick(10) {
		s := NewServer(Config{FirstTick: first})
		s.Start(1_000_000)
		s.Advance(1_500_000)
		w, _ := s.Announce(1_700_000)
		g, _ := s.Shared(1_700_000)
		if want := time.Duration(1_700_000-w.OriginUsec) * time.Microsecond; g.Time() != want || w.Tick != g.Tick() {
			t.Errorf("first tick %d: %v, by the origin %v", first, g.Time(), want)
		}
		if g.Time() < Hz(60).Duration(first)+ms(700) {
			t.Errorf("first tick %d: %v", first, g.Time())
		}
	}
}

// Waiting for the first synchronization is not a stall.
func TestFirstAdvance(t *testing.T) {
	var r recorder
	l := newClient(r.config(Config{}), &fakeRemote{delay: ms(50)}, time.Hour)
	l.Advance(5_000_000)
	l.Advance(5_016_000)
	if got := fmt.Sprint(r.events); got != "[synced]" {
		t.Errorf("events %v", got)
	}
}

// AT19: the host migrates.
func TestAT19_Migration(t *testing.T) {
	var r recorder
	remote := &fakeRemote{delay: ms(50)}
	l := newClient(r.config(Config{}), remote, time.Hour)
	now := uint64(0)
	run := func(d time.Duration) {
		for end := now + usec(d); now < end; now += 10_000 {
			l.Advance(now)
		}
	}
	run(time.Second)
	shared, _ := l.Shared(now)
	old, _ := l.Shared(now)
	// The new host has another clock, and goes on a second earlier.
	host := NewServer(Config{Epoch: 2, FirstTick: shared.Tick() - 60})
	const hostOffset = 5_000_000_000
	host.Start(now + hostOffset)
	w, _ := host.Announce(now + hostOffset)
	remote.lost = true
	if err := l.OnWelcome(w, now); err != nil {
		t.Fatal(err)
	}
	ran := len(r.ticks)
	run(ms(100)) // until the new clock is known nothing ticks
	if _, ok := l.Shared(now); ok || len(r.ticks) != ran {
		t.Error("ticks between the epochs")
	}
	remote.lost, remote.offset = false, hostOffset
	run(time.Second)
	kinds := fmt.Sprint(r.events)
	steps := r.of(Stepped)
	if len(steps) != 1 || steps[0].By > -900*time.Millisecond || !strings.HasPrefix(kinds, "[synced epoch 2 stepped by -") || !strings.HasSuffix(kinds, " synced]") {
		t.Errorf("events %v", r.events)
	}
	r.check(t)
	got, _ := l.Shared(now)
	want, _ := host.Shared(now + hostOffset)
	if got.Compare(want) != 0 {
		t.Errorf("shared time %v, the host has %v", got, want)
	}
	// Old-epoch messages are ignored and counted.
	before := *l.snap.Load()
	if err := l.OnWelcome(Welcome{Epoch: 1, Rate: Hz(60), Tick: old.Tick()}, now); err != ErrEpoch {
		t.Errorf("old Welcome: %v", err)
	}
	if l.Accept(1, got.Tick(), now) {
		t.Error("a message of the old epoch was accepted")
	}
	if !l.Accept(2, got.Tick(), now) {
		t.Error("a message of the new epoch was refused")
	}
	overtaken := w
	overtaken.Tick--
	if err := l.OnWelcome(overtaken, now); err != ErrEpoch {
		t.Errorf("overtaken Welcome: %v", err)
	}
	if n := l.Stats().OldEpoch; n != 3 {
		t.Errorf("%d messages of an old epoch counted", n)
	}
	if err := host.OnHello(1, Hello{Epoch: 1, Rate: Hz(60)}); err != ErrEpoch {
		t.Errorf("old Hello: %v", err)
	}
	l.Advance(now)
	if after := *l.snap.Load(); after.epoch != before.epoch || after.lines[predicted].base < before.lines[predicted].base {
		t.Error("the old Welcome had an effect")
	}
	t.Log(kinds)
}

// AT20: a client at 24 and a server at 36 ticks a second.
func TestAT20_RateMismatch(t *testing.T) {
	for _, action := range []Action{Warn, Disconnect, Adjust, Signal} {
		var cr, sr recorder
		var logged []string
		logf := func(f string, a ...any) { logged = append(logged, fmt.Sprintf(f, a...)) }
		remote := &fakeRemote{delay: ms(20)}
		c := NewClient(cr.config(Config{Rate: Hz(24), OnMismatch: action, Logf: logf}), remote)
		s := NewServer(sr.config(Config{Rate: Hz(36), OnMismatch: action, Logf: logf}))
		s.Start(0)
		c.Start(0)
		now := uint64(0)
		for ; now < 100_000_000; now += 20_000 {
			s.Advance(now)
		}
		w, _ := s.Announce(now)
		if err := c.OnWelcome(Welcome{Epoch: w.Epoch, Rate: Hz(24), OriginUsec: w.OriginUsec, Tick: Hz(24).Ticks(100 * time.Second)}, now); err != nil {
			t.Fatal(err)
		}
		for range 100 { // first at its own rate, to see Adjust while it runs
			now += 20_000
			c.Advance(now)
			s.Advance(now)
		}
		before, _ := c.Predicted(now)
		nextBefore := Hz(24).Duration(Tick(c.next.Load()))
		w, _ = s.Announce(now)
		if err := c.OnWelcome(w, now); err != nil {
			t.Fatal(err)
		}
		after, _ := c.Predicted(now)
		if d := after.Sub(before); d != 0 {
			t.Errorf("action %d moved time by %v", action, d)
		}
		cr.ticks = nil
		for range 100 {
			now += 20_000
			c.Advance(now)
			s.Advance(now)
		}
		err := s.OnHello(1386785595, Hello{Rate: Hz(24)})
		s.Advance(now)
		mc, ms := cr.of(RateMismatch), sr.of(RateMismatch)
		if len(mc) != 1 || !mc[0].Rate.Equal(Hz(36)) || len(ms) != 1 || !ms[0].Rate.Equal(Hz(24)) || ms[0].Peer != 1386785595 {
			t.Errorf("action %d: reported %v and %v", action, mc, ms)
		}
		switch got, _ := c.Predicted(now); action {
		case Adjust:
			if !got.Rate().Equal(Hz(36)) || !c.Hello().Rate.Equal(Hz(36)) {
				t.Errorf("the rate is %v", got.Rate())
			}
			first := Hz(36).Duration(cr.ticks[0])
			if d := first - nextBefore; d < -Hz(24).Duration(1) || d > Hz(36).Duration(1) {
				t.Errorf("the tick after the change starts %v after the one that was due", d)
			}
			if n := len(cr.ticks); n < 71 || n > 73 {
				t.Errorf("%d ticks in 2 s", n)
			}
			cr.check(t)
		default:
			if !got.Rate().Equal(Hz(24)) {
				t.Errorf("action %d: the rate is %v", action, got.Rate())
			}
			cr.check(t)
		}
		if (action == Disconnect) != (err == ErrRate) || action != Disconnect && err != nil {
			t.Errorf("action %d: OnHello returned %v", action, err)
		}
		if (action == Disconnect) != (len(sr.of(ClientSynced)) == 0) {
			t.Errorf("action %d: %v", action, sr.events)
		}
		if (action == Warn) != (len(logged) == 2) {
			t.Errorf("action %d logged %q", action, logged)
		}
		if action == Warn && logged[1] != "tick: tick rate 24/s of peer 1386785595 differs" {
			t.Errorf("logged %q", logged)
		}
	}
}

// ClientSynced comes once per peer, on the server only.
func TestClientSyncedOnce(t *testing.T) {
	var r recorder
	s := NewServer(r.config(Config{}))
	if err := s.OnHello(1, Hello{}); err != ErrEpoch {
		t.Errorf("before Start: %v", err)
	}
	s.Start(0)
	for range 3 {
		for peer := range uint64(4) {
			if err := s.OnHello(peer, Hello{}); err != nil {
				t.Fatal(err)
			}
		}
		s.Advance(0)
	}
	if got := fmt.Sprint(r.events); got != "[synced peer 0 synced peer 1 synced peer 2 synced peer 3 synced]" {
		t.Errorf("events %v", got)
	}
	s.Forget(2)
	_ = s.OnHello(2, Hello{})
	s.Advance(0)
	if n := len(r.of(ClientSynced)); n != 5 {
		t.Errorf("%d reports after a peer came again", n)
	}
	if err := s.OnWelcome(Welcome{}, 0); err != ErrRole {
		t.Errorf("Welcome to a server: %v", err)
	}
	if err := s.OnHello(9, Hello{Rate: Rate{0, 1}}); err != ErrMessage {
		t.Errorf("bad rate: %v", err)
	}
	c := newClient(Config{}, &fakeRemote{}, 0)
	c.Advance(0)
	if w, ok := c.Announce(0); ok {
		t.Errorf("a client announces %+v", w)
	}
	if err := c.OnHello(1, Hello{}); err != ErrRole {
		t.Errorf("Hello to a client: %v", err)
	}
}

// AT22: a loopback path of no delay at all.
func TestAT22_ZeroRTT(t *testing.T) {
	remote := &fakeRemote{}
	l := newClient(Config{}, remote, 0)
	for now := uint64(0); now < 1_000_000; now += 10_000 {
		l.Advance(now)
		p, _ := l.Predicted(now)
		s, _ := l.Server(now)
		g, _ := l.Shared(now)
		if p.Sub(s) < Hz(60).Duration(1) || p.Tick() <= s.Tick() || p.Sub(g) != Hz(60).Duration(2) || g.Sub(s) != Hz(60).Duration(1) {
			t.Fatalf("server %v, shared %v, predicted %v", s, g, p)
		}
	}
	if f := l.Fraction(1_000_000); !(f >= 0 && f <= 1) {
		t.Errorf("fraction %v", f)
	}
}

// AT23: pauses.
func TestAT23_Pause(t *testing.T) {
	for _, joint := range []bool{true, false} {
		var cr, sr recorder
		remote := &fakeRemote{delay: ms(50)}
		c := NewClient(cr.config(Config{}), remote)
		s := NewServer(sr.config(Config{}))
		s.Start(0)
		c.Start(0)
		w, _ := s.Announce(0)
		if err := c.OnWelcome(w, 0); err != nil {
			t.Fatal(err)
		}
		now := uint64(0)
		run := func(d time.Duration) {
			for end := now + usec(d); now < end; now += 10_000 {
				s.Advance(now)
				c.Advance(now)
			}
		}
		run(2 * time.Second)
		c.Pause(now)
		if joint {
			s.Pause(now)
		}
		frozen, _ := c.Predicted(now)
		cn, sn := len(cr.ticks), len(sr.ticks)
		run(5 * time.Second)
		if p, _ := c.Predicted(now); p.Compare(frozen) != 0 || len(cr.ticks) != cn {
			t.Errorf("joint %v: the pause moved time from %v to %v and ran %d ticks", joint, frozen, p, len(cr.ticks)-cn)
		}
		if joint {
			s.Resume(now)
			w, _ = s.Announce(now)
			if err := c.OnWelcome(w, now); err != nil {
				t.Fatal(err)
			}
		}
		c.Resume(now)
		run(2 * time.Second)
		if joint {
			if cr.ticks[cn] != cr.ticks[cn-1]+1 || sr.ticks[sn] != sr.ticks[sn-1]+1 {
				t.Errorf("ticks %d and %d around the pause", cr.ticks[cn-1], cr.ticks[cn])
			}
			if len(cr.events) != 1 || len(sr.events) != 1 {
				t.Errorf("events %v, %v", cr.events, sr.events)
			}
			a, _ := c.Shared(now)
			b, _ := s.Shared(now)
			if a.Compare(b) != 0 || a.Time() != 4*time.Second {
				t.Errorf("shared %v, server %v", a, b)
			}
		} else if e := cr.of(Stepped); len(e) != 1 || e[0].By != 5*time.Second || len(cr.events) != 2 {
			t.Errorf("events %v", cr.events)
		}
		cr.check(t)
		sr.check(t)
	}
}

// AT23, rhythm mode: exactly the local clock, up to the hard threshold.
func TestAT23_HardOnly(t *testing.T) {
	var r recorder
	remote := &fakeRemote{delay: ms(50), ppm: 80}
	l := newClient(r.config(Config{Provider: &ClientProvider{HardOnly: true}}), remote, time.Hour)
	l.Advance(0)
	start := [3]Time{}
	gets := []func(uint64) (Time, bool){l.Shared, l.Server, l.Predicted}
	for i, get := range gets {
		start[i], _ = get(0)
	}
	now := uint64(0)
	for ; now < 100_000_000; now += 10_000 {
		if now%1_000_000 == 0 {
			remote.offset += 2000 // the server runs 2000 ppm faster: 200 ms after 100 s
		}
		l.Advance(now)
		for i, get := range gets {
			got, _ := get(now)
			if d := got.Sub(start[i]); len(r.of(Stepped)) == 0 && d != time.Duration(now)*time.Microsecond {
				t.Fatalf("clock %d ran %v in %d us", i, d, now)
			}
		}
	}
	if n := len(r.of(Stepped)); n != 0 {
		t.Fatalf("%d steps below the threshold", n)
	}
	remote.offset += 2000
	l.Advance(now)
	if e := r.of(Stepped); len(e) != 1 || e[0].By != ms(202) {
		t.Errorf("events %v", r.events)
	}
	r.check(t)
}

// AT24: ticks far off are refused, and the ends of int64 do no harm.
func TestAT24_Window(t *testing.T) {
	l := NewServer(Config{Epoch: 3, FirstTick: 1000})
	l.Start(0)
	now := uint64(1_000_000)
	l.Advance(now) // tick 1060
	for _, tt := range []struct {
		n    Tick
		want bool
	}{
		{1060, true}, {1060 + 64, true}, {1060 + 65, false}, {1060 - 256, true}, {1060 - 257, false},
		{31060, false}, {0, false}, {-1, false}, {math.MaxInt64, false}, {math.MinInt64, false},
	} {
		if got := l.Accept(3, tt.n, now); got != tt.want {
			t.Errorf("tick %d at 1060: %v", tt.n, got)
		}
	}
	if n := l.Stats().Refused; n != 7 {
		t.Errorf("%d counted", n)
	}
	c := newClient(Config{}, &fakeRemote{}, 0)
	for _, n := range []Tick{math.MaxInt64, math.MinInt64, 1 << 60, -1 << 60} {
		if err := c.OnWelcome(Welcome{Epoch: 2, Rate: Hz(60), Tick: n}, 0); err != ErrMessage {
			t.Errorf("Welcome at tick %d: %v", n, err)
		}
	}
	for _, n := range []Tick{math.MaxInt64, math.MinInt64} {
		s := NewServer(Config{FirstTick: n, CatchUp: Jump})
		s.Start(5)
		for _, at := range []uint64{5, 6, 1 << 40, 1 << 62, math.MaxUint64, 0, 4} {
			s.Advance(at)
			s.Accept(0, n, at)
			_, _ = s.Announce(at)
		}
	}
}

// AT25: one writer, eight readers; run with -race.
func TestAT25_Readers(t *testing.T) {
	remote := &fakeRemote{delay: ms(50)}
	l := newClient(Config{}, remote, time.Hour)
	l.Advance(0)
	var clock atomic.Uint64
	var wg sync.WaitGroup
	var stop atomic.Bool
	var reads [8]atomic.Int64
	for i := range reads {
		wg.Go(func() {
			var last [3]time.Duration
			for !stop.Load() {
				now := clock.Load()
				for k, get := range []func(uint64) (Time, bool){l.Shared, l.Server, l.Predicted} {
					x, ok := get(now)
					if !ok || x.Time() < last[k] {
						t.Errorf("clock %d read %v after %v", k, x.Time(), last[k])
						return
					}
					last[k] = x.Time()
				}
				l.Fraction(now)
				l.Accept(1, 216_000, now)
				reads[i].Add(1)
				runtime.Gosched() // more readers than processors
			}
		})
	}
	rng := rand.New(rand.NewPCG(25, 0))
	advances, sum := 0, int64(0)
	enough := func() bool { // every reader has seen something of it
		sum = 0
		least := int64(math.MaxInt64)
		for i := range reads {
			n := reads[i].Load()
			sum, least = sum+n, min(least, n)
		}
		return advances > 1000 && least > 200
	}
	for now := uint64(0); !enough() && !t.Failed(); advances++ {
		now += 1000 + rng.Uint64N(20_000)
		remote.offset += rng.Int64N(2001) - 1000
		clock.Store(now) // readers may be ahead of the Advance
		l.Advance(now)
		runtime.Gosched()
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d readings beside %d advances", 3*sum, advances)
}

func TestReadsDoNotAllocate(t *testing.T) {
	l := newClient(Config{}, &fakeRemote{delay: ms(50)}, time.Hour)
	l.Advance(0)
	now := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += 17
		_, _ = l.Shared(now)
		_, _ = l.Server(now)
		_, _ = l.Predicted(now)
		l.Fraction(now)
		l.Accept(1, 216_000, now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Clocks are pinned to the tick, also when several pass in one frame in which the
// clocks do not go alike.
func TestPinned(t *testing.T) {
	remote := &fakeRemote{delay: ms(50)}
	var l *Loop
	var steps []Step
	cfg := Config{Provider: &ClientProvider{SlewPPM: 500_000, DeadBand: 1}}
	cfg.Tick = func(s Step) {
		steps = append(steps, s)
		if l.Frame() != s.Clocks {
			t.Errorf("Frame is %v in a tick at %v", l.Frame(), s.Clocks)
		}
	}
	l = newClient(cfg, remote, time.Hour)
	l.Advance(0)
	l.SetBuffers(ms(60), ms(100)) // predicted hurries, the server clock slows down
	l.Advance(1000)
	p0, _ := l.Predicted(1000)
	s0, _ := l.Server(1000)
	n := l.Advance(101_000)
	p1, _ := l.Predicted(101_000)
	s1, _ := l.Server(101_000)
	if n < 5 || l.Frame().Predicted.Compare(p1) != 0 {
		t.Fatalf("%d ticks; Frame %v after the loop, want %v", n, l.Frame().Predicted, p1)
	}
	if p1.Sub(p0) < ms(120) || s1.Sub(s0) > ms(80) {
		t.Fatalf("predicted moved %v, server %v: no test", p1.Sub(p0), s1.Sub(s0))
	}
	for _, s := range steps[len(steps)-n:] {
		if s.Predicted != Hz(60).Time(s.Tick, 0) || s.Delta != s.Predicted.FixedDelta() {
			t.Errorf("tick %d has predicted time %v, length %v", s.Tick, s.Predicted, s.Delta)
		}
		share := float64(s.Predicted.Sub(p0)) / float64(p1.Sub(p0))
		want := float64(s0.Time()) + share*float64(s1.Sub(s0))
		if d := math.Abs(float64(s.Server.Time()) - want); d > 2 {
			t.Errorf("tick %d: the server clock is %v ns off the line", s.Tick, d)
		}
	}
}

// Pinned clocks do not go back either, with ticks left over from earlier frames in
// which the clocks did not go alike.
func TestPinnedDebt(t *testing.T) {
	remote := &fakeRemote{delay: ms(50)}
	var last Clocks
	ticks := 0
	l := newClient(Config{
		Provider: &ClientProvider{SlewPPM: 500_000, DeadBand: 1},
		MaxTicks: 4,
		Tick: func(s Step) {
			if ticks++; s.Server.Before(last.Server) || s.Shared.Before(last.Shared) || !s.Predicted.After(last.Predicted) {
				t.Errorf("tick %d: %v after %v", s.Tick, s.Clocks, last)
			}
			last = s.Clocks
		},
	}, remote, time.Hour)
	l.Advance(0)
	l.SetBuffers(ms(200), ms(190))
	for now := uint64(1000); now < 1_000_000; now += 100_000 {
		l.Advance(now)
	}
	l.SetBuffers(ms(1), ms(1)) // predicted slows down, server time hurries
	for now := uint64(1_001_000); now < 2_000_000; now += 100_000 {
		l.Advance(now)
	}
	if ticks < 70 || l.Stats().Debt < 5 || l.Stats().Steps != 0 {
		t.Errorf("%d ticks, %+v", ticks, l.Stats())
	}
}

// Standing still is not going back when the server's clock is the slower one.
func TestHoldWithSkew(t *testing.T) {
	remote := &fakeRemote{delay: ms(50), ppm: -500}
	l := newClient(Config{Provider: &ClientProvider{NeverBack: true}}, remote, time.Hour)
	l.Advance(0)
	remote.shift(-time.Second)
	l.Advance(1000)
	a, _ := l.Shared(1000)
	b, _ := l.Shared(501_000)
	if a != b {
		t.Errorf("%v after %v", b, a)
	}
}

func TestStep(t *testing.T) {
	var r recorder
	l := NewServer(r.config(Config{}))
	l.Start(0)
	rng := newRand(t)
	for i := range 6000 { // physics steps of 1/60 s, called with 4 ms of jitter
		now := uint64(i)*1_000_000/60 + 8000 + rng.Uint64N(4000)
		if n := l.Step(now); n != 1 {
			t.Fatalf("step %d ran %d ticks", i, n)
		}
	}
	r.check(t)
	base := uint64(100_000_000)
	if n := l.Step(base); n != 1 { // early by less than a tick
		t.Errorf("%d ticks when on time", n)
	}
	if n := l.Step(base + 1); n != 1 {
		t.Errorf("%d ticks when early by less than one", n)
	}
	if n := l.Step(base + 2); n != 0 {
		t.Errorf("%d ticks when early by more than one", n)
	}
	if n := l.Step(base + 100_000); n != 5 {
		t.Errorf("%d ticks when late by 5", n)
	}
	r.check(t)
}

func TestFraction(t *testing.T) {
	l := NewServer(Config{Rate: Hz(50)})
	if f := l.Fraction(0); f != 0 {
		t.Errorf("%v before Start", f)
	}
	l.Start(0)
	l.Advance(0)
	for at, want := range map[uint64]float64{0: 0, 5000: 0.25, 15_000: 0.75, 20_000: 1, 50_000: 1} {
		if f := l.Fraction(at); math.Abs(f-want) > 1e-9 {
			t.Errorf("at %d us: %v, want %v", at, f, want)
		}
	}
}

// Feed-forward: with the skew known, an hour at 100 ppm needs no slewing, and a
// minute without news costs nothing. (AT08 for the part of this package.)
func TestAT08_Skew(t *testing.T) {
	for _, ppm := range []float64{100, -100} {
		remote := &fakeRemote{delay: ms(50), ppm: ppm + 1} // known to 1 ppm
		provider := &spy{Provider: &ClientProvider{}}
		var r recorder
		l := newClient(r.config(Config{Provider: provider}), remote, time.Hour)
		start := remote.offset
		worst := time.Duration(0)
		for now := uint64(0); now < 600_000_000; now += 16_667 {
			remote.offset = start + int64(float64(now)*ppm*1e-6)
			remote.lost = now > 500_000_000 && now < 560_000_000
			l.Advance(now)
			g, _ := l.Shared(now)
			truth := time.Hour + time.Duration(float64(now)*1000*(1+ppm*1e-6))
			worst = max(worst, (g.Time() - truth).Abs())
		}
		if provider.slews != 0 || l.Stats().Steps != 0 {
			t.Errorf("%v ppm: %d slews of the predicted clock, %d steps", ppm, provider.slews, l.Stats().Steps)
		}
		if worst > time.Millisecond {
			t.Errorf("%v ppm: error up to %v", ppm, worst)
		}
		if got := fmt.Sprint(r.events); got != "[synced lost synced]" {
			t.Errorf("events %v", got)
		}
		t.Logf("%v ppm: error up to %v, 60 s without news included; no slew", ppm, worst)
	}
	for _, ppm := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e300} {
		l := newClient(Config{}, &fakeRemote{ppm: ppm}, 0)
		l.Advance(0)
		a, _ := l.Shared(0)
		b, _ := l.Shared(1_000_000)
		if d := b.Sub(a); d < 999*time.Millisecond || d > 1001*time.Millisecond {
			t.Errorf("with a skew of %v a second takes %v", ppm, d)
		}
	}
}

// sampleProvider is the example of the Network Time System's document.
type sampleProvider struct{}

func (sampleProvider) Init(c *Clocks, _ Target) { c.Predicted = c.Server.Add(ms(100)) }
func (sampleProvider) Advance(*Clocks, Target) (Pace, bool) {
	return Pace{}, true
}

func TestCustomProvider(t *testing.T) {
	remote := &fakeRemote{delay: ms(50)}
	l := newClient(Config{Provider: sampleProvider{}}, remote, time.Hour)
	for now := uint64(0); now < 1_000_000; now += 10_000 {
		l.Advance(now)
		p, _ := l.Predicted(now)
		s, _ := l.Server(now)
		if p.Sub(s) != ms(100) || s.Time() != time.Hour+time.Duration(now)*time.Microsecond {
			t.Fatalf("server %v, predicted %v", s.Time(), p.Time())
		}
	}
}

// On a client the ServerProvider starts at the approval tick and follows nothing.
func TestServerProviderOnClient(t *testing.T) {
	remote := &fakeRemote{delay: ms(50)}
	l := newClient(Config{Provider: ServerProvider{}}, remote, time.Hour)
	l.Advance(0)
	remote.shift(time.Minute)
	l.Advance(1_000_000)
	want := time.Hour + time.Second
	if c := l.Frame(); c.Server.Time() != want || c.Predicted != c.Server || c.Shared != c.Server {
		t.Errorf("clocks %v, want %v", c, want)
	}
}

func TestEventString(t *testing.T) {
	for e, want := range map[Event]string{
		{Kind: Synced}:                                          "synced",
		{Kind: ClientSynced, Peer: 7}:                           "peer 7 synced",
		{Kind: Stepped, By: ms(500), First: 3, Last: 9}:         "stepped by 500ms, ticks 3 to 9 skipped",
		{Kind: Stepped, By: -1, First: 3, Last: 9, Again: true}: "stepped by -1ns, ticks 3 to 9 run again",
		{Kind: Stalled, By: time.Second, First: 3, Last: 9}:     "stalled for 1s, ticks 3 to 9 skipped",
		{Kind: Skipped, First: 3, Last: 9}:                      "ticks 3 to 9 skipped",
		{Kind: Lost}:                                            "lost",
		{Kind: RateMismatch, Rate: Hz(36), Peer: 7}:             "tick rate 36/s of peer 7 differs",
		{Kind: EpochChanged, Epoch: 4}:                          "epoch 4",
		{}:                                                      "event 0",
	} {
		if got := e.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// SetBuffers: small changes are slewed, large ones stepped, and a server has none.
func TestSetBuffers(t *testing.T) {
	var r recorder
	remote := &fakeRemote{delay: ms(50)}
	l := newClient(r.config(Config{}), remote, time.Hour)
	l.Advance(0)
	l.SetBuffers(ms(50), ms(100))
	now := uint64(0)
	for ; now < 20_000_000; now += 10_000 {
		l.Advance(now)
	}
	p, _ := l.Predicted(now)
	s, _ := l.Server(now)
	if p.Sub(s) != ms(250) || len(r.of(Stepped)) != 0 {
		t.Errorf("predicted is %v ahead of server; %v", p.Sub(s), r.events)
	}
	l.SetBuffers(0, ms(1000))
	l.Advance(now)
	if e := r.of(Stepped); len(e) != 1 || e[0].By != ms(900) {
		t.Errorf("events %v", r.events)
	}
	h := NewServer(Config{ClientBuffer: ms(100), ServerBuffer: ms(100)})
	h.Start(0)
	a, _ := h.Shared(1000)
	b, _ := h.Server(1000)
	c, _ := h.Predicted(1000)
	if a != b || b != c {
		t.Errorf("clocks of a host: %v %v %v", a, b, c)
	}
}

// Run keeps absolute deadlines: late ticks do not delay later ones. In a bubble
// with its own time, without sleeping.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		clock := func() uint64 { return uint64(time.Since(begin).Microseconds()) }
		var r recorder
		var late time.Duration
		cfg := r.config(Config{Clock: clock})
		record := cfg.Tick
		cfg.Tick = func(s Step) {
			record(s)
			late = max(late, time.Since(begin)-s.Predicted.Time())
			if s.Tick%100 == 50 {
				time.Sleep(ms(40)) // a slow tick
			} else {
				time.Sleep(ms(3))
			}
		}
		s := NewServer(cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+ms(1))
		defer cancel()
		if err := s.Run(ctx); err != context.DeadlineExceeded {
			t.Errorf("Run returned %v", err)
		}
		r.check(t)
		if len(r.ticks) != 601 || len(r.events) != 1 {
			t.Errorf("%d ticks in 10 s; %v", len(r.ticks), r.events)
		}
		if late > ms(41) {
			t.Errorf("a tick was late by %v", late)
		}
		if _, ok := s.Shared(0); ok {
			t.Error("still running")
		}

		// A client starts when its server is known, and Stop ends Run.
		remote := &fakeRemote{delay: ms(20), lost: true}
		c := NewClient(Config{Clock: clock}, remote)
		done := make(chan error)
		go func() { done <- c.Run(t.Context()) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if err := c.OnWelcome(Welcome{Rate: Hz(60)}, clock()); err != nil {
			t.Fatal(err)
		}
		short, cancelShort := context.WithTimeout(t.Context(), time.Second)
		defer cancelShort()
		if err := c.WaitSynced(short); err != context.DeadlineExceeded {
			t.Errorf("WaitSynced returned %v", err)
		}
		synctest.Wait()
		remote.lost = false
		if err := c.WaitSynced(t.Context()); err != nil {
			t.Error(err)
		}
		c.Pause(clock())
		time.Sleep(time.Second)
		c.Stop()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v after Stop", err)
		}
	})
}

func TestMisusePanics(t *testing.T) {
	for name, f := range map[string]func(){
		"no remote":  func() { NewClient(Config{}, nil) },
		"bad rate":   func() { NewServer(Config{Rate: Rate{1, 0}}) },
		"bad ticks":  func() { NewServer(Config{MaxTicks: -1}) },
		"bad window": func() { NewServer(Config{Past: -1}) },
		"reentrant": func() {
			var l *Loop
			l = NewServer(Config{Tick: func(Step) { l.Advance(1) }})
			l.Start(0)
			l.Advance(0)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// A call with an earlier time counts as the last one.
func TestBackwards(t *testing.T) {
	var r recorder
	l := NewServer(r.config(Config{MaxTicks: 100}))
	l.Start(1_000_000)
	l.Advance(2_000_000)
	before, _ := l.Shared(2_000_000)
	n := len(r.ticks)
	l.Advance(1_500_000)
	if got, _ := l.Shared(1_500_000); got != before || l.Stats().Backwards != 1 {
		t.Errorf("time %v after %v, %d counted", got, before, l.Stats().Backwards)
	}
	for _, back := range []uint64{1, 1_000_000, 12_000_000_000_000_000, 1 << 62} {
		if got, _ := l.Shared(2_000_000 - back); got != before {
			t.Errorf("%d us before, time is %v", back, got)
		}
	}
	l.Advance(2_000_000)
	if len(r.ticks) != n {
		t.Errorf("%d ticks after time went back", len(r.ticks)-n)
	}
	r.check(t)
}

func BenchmarkRead(b *testing.B) {
	for _, bb := range []struct {
		name    string
		rate    Rate
		slewing bool
	}{{"60", Hz(60), false}, {"60/slewing", Hz(60), true}, {"60000_1001", Rate{60000, 1001}, false}} {
		l := newClient(Config{Rate: bb.rate}, &fakeRemote{delay: ms(50), ppm: 50}, 1000*time.Hour)
		l.Advance(0)
		if bb.slewing {
			l.SetBuffers(ms(100), ms(100))
			l.Advance(1)
		}
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			now := uint64(1)
			for b.Loop() {
				now += 7
				_, _ = l.Predicted(now)
			}
		})
	}
}

func BenchmarkReadParallel(b *testing.B) {
	l := newClient(Config{}, &fakeRemote{delay: ms(50)}, time.Hour)
	l.Advance(0)
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		now := uint64(0)
		for pb.Next() {
			now += 7
			_, _ = l.Predicted(now)
		}
	})
}

func BenchmarkAdvance(b *testing.B) {
	l := newClient(Config{Tick: func(Step) {}}, &fakeRemote{delay: ms(50)}, time.Hour)
	b.ReportAllocs()
	now := uint64(0)
	for b.Loop() {
		now += 16_667
		l.Advance(now)
	}
}

func BenchmarkTimeNow(b *testing.B) { // the baseline
	for b.Loop() {
		_ = time.Now()
	}
}
