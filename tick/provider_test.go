// A Provider steers all clocks; a faulty one breaks nothing that the package promises.

package tick

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// chaos is a Provider that does anything.
type chaos struct {
	rng   *rand.Rand
	calls int
}

func (c *chaos) InitializeClient(s *Steering) { c.AdvanceTime(s) }

func (c *chaos) AdvanceTime(s *Steering) bool {
	c.calls++
	for _, k := range s.clocks() {
		switch c.rng.IntN(8) {
		case 0:
			k.At = time.Duration(number(c.rng))
		case 1:
			k.At += time.Duration(number(c.rng) % int64(sec))
		}
		if c.rng.IntN(4) == 0 {
			k.Pace = Pace{number(c.rng), time.Duration(number(c.rng)), number(c.rng)}
		}
		k.Target = time.Duration(number(c.rng))
		k.Late = c.rng.IntN(2) == 0
		k.Measured = c.rng.IntN(2) == 0
	}
	return c.rng.IntN(4) != 0
}

// Whatever a Provider decides, on a server or a client: each tick runs once and in order or an
// event says why not, no clock goes back without an event for readers behind and ahead, and with
// NeverBack none does at all.
func TestFaultyProvider(t *testing.T) {
	base := newRand(t).Uint64()
	ticks := uint64(0)
	backs := 0
	provider := &chaos{}
	for seed := range uint64(300) {
		m := newModel(base+seed, nil, provider).play(t, 200)
		ticks += m.clientLog.ran
		backs += m.clientLog.backs
	}
	if ticks == 0 || backs == 0 || provider.calls < 10_000 {
		t.Errorf("%d ticks, %d events that may set a clock back, %d calls: "+
			"the provider is too kind", ticks, backs, provider.calls)
	}
}

// scripted is a Provider that does what the function says.
type scripted func(s *Steering) bool

func (p *scripted) InitializeClient(s *Steering) { (*p)(s) }

func (p *scripted) AdvanceTime(s *Steering) bool { return (*p)(s) }

// A client begins where its Provider says, goes at the Pace that it says 20 ms after the Advance,
// and is set where it says: that is one EventStepped, and the clocks that it leaves alone go on.
func TestProviderDecides(t *testing.T) {
	var p scripted = func(s *Steering) bool {
		s.PredictedTime.At = s.SharedTime.Target + sec // in AdvanceTime that counts with false only
		return true
	}
	c, _, r := newClient(ClientConfig{Config: Config{Provider: &p}})
	c.Advance(0)
	at, _ := c.PredictedTime(0)
	check(t, at.Duration(), time.Hour+sec, "it begins at")
	p = func(s *Steering) bool {
		s.PredictedTime.Pace = Pace{SkewPPB: -500_000_000}
		s.ServerTime.Pace = Pace{Slew: ms(10), SlewPPM: 100_000}
		return true
	}
	c.Advance(100_000)
	a, _ := c.Snapshot(120_000)
	b, _ := c.Snapshot(320_000)
	went := [3]time.Duration{shared: ms(200), server: ms(210), predicted: ms(100)}
	if a.PredictedTime.Duration() != time.Hour+ms(1120) || b.since(a) != went {
		t.Errorf("%v, then %v", a, b)
	}
	told := Steering{}
	p = func(s *Steering) bool {
		told = *s
		s.PredictedTime.At += 3 * sec
		return false
	}
	before, _ := c.Snapshot(320_000)
	c.Advance(320_000)
	after, _ := c.Snapshot(320_000)
	went = [3]time.Duration{predicted: ms(2990)} // at the new pace from now on
	check(t, after.since(before), went, "a step")
	check(t, told.SharedTime.Target, time.Hour+ms(340), "told")
	check(t, told.ServerTime.Target, time.Hour+ms(290)-Hz(60).Duration(1), "told")
	r.told(t, "set", "[synced stepped by 2.99s, ticks 216067 to 216251 skipped]")
}

// A server's Provider moves its ticks, and what it announces.
func TestProviderOfServer(t *testing.T) {
	var r recorder
	jump := time.Duration(0)
	var p scripted = func(s *Steering) bool {
		for _, c := range s.clocks() {
			check(t, c.Target, c.At, "the target")
			c.At += jump
		}
		return jump == 0
	}
	s := mustServer(r.server(ServerConfig{Config: Config{Provider: &p}}))
	s.Start(1_000_000)
	s.Advance(2_000_000)
	jump = sec
	s.Advance(2_000_000)
	if w, _ := s.Announce(1, 2_000_000); w.OriginUsec != 0 || w.Tick != 120 {
		t.Errorf("%+v", w)
	}
	r.told(t, "a jump", "[synced ticks 0 to 0 skipped stepped by 1s, ticks 9 to 119 skipped]")
}

// AfterSync is called for each update of the remote clock, by what it was, and for nothing else:
// neither for what its skew says nor for a rounded reading, a Welcome, or the time that it is not
// known.
func TestAfterSync(t *testing.T) {
	c, remote, r := newClient(ClientConfig{})
	remote.ppm = 100
	now := uint64(0)
	first := c.welcomes.last.Welcome
	for i, by := range []time.Duration{0, 0, 2 * us, 3 * us, 0, ms(1), 0, -ms(300), 0} {
		remote.shift(us + by)
		remote.lost = i == 4
		c.Advance(now)
		must(t, c.OnWelcome(first.at(now), now))
		now += 10_000
	}
	check(t, fmt.Sprint(r.updates), "[0s 3µs 1ms -300ms]", "updates")
	r.updates = nil
	must(t, c.Follow(&fakeRemote{offset: remote.offset, delay: ms(50), ppm: 100}))
	must(t, c.OnWelcome(first.at(now), now))
	c.Advance(now)
	check(t, fmt.Sprint(r.updates), "[0s]", "another clock")
}

// The share of inputs that come too late stays under LateShare, and the lead is the shorter the
// more may be late.
func TestLateShare(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	rng := newRand(t)
	jitter := func() time.Duration { return time.Duration(rng.ExpFloat64() * float64(ms(10))) }
	for i, shares := range [][]float64{{0.002, 0.01, 0.05, 0.3}, {0.01, 0.05, 0.3}} {
		states, before := i == 1, time.Hour // inputs, then states
		for _, share := range shares {
			w := newWay(t, ClientConfig{LateShare: share})
			w.jitter = jitter
			w.state = states
			if states {
				w.every = 17_000
			}
			run := func(d time.Duration) {
				for end := w.now + usec(d); w.now < end; w.run(ms(17)) {
					w.down = ms(30) + jitter()
				}
			}
			run(30 * sec)
			w.inTime, w.late, w.states, w.lateStates = 0, 0, 0, 0
			run(2 * time.Minute)
			timing := w.timing()
			late := w.late
			all := w.late + w.inTime
			told := timing.LateInputs
			length := timing.Lead
			if states {
				late = w.lateStates
				all = w.states
				told = timing.LateStates
				length = timing.Delay
			}
			got := float64(late) / float64(all)
			if got > share || length >= before || math.Abs(told-got) > got/2+0.0005 {
				t.Errorf("states %v, LateShare %v: %.4f are late, told is %.4f, "+
					"the lead or delay %v, before %v", states, share, got, told, length, before)
			}
			before = length
		}
	}
	check(t, mustClient(ClientConfig{}, &fakeRemote{}).conf.LateShare, 0.01, "by default")
}
