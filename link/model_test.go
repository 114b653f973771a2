// The test in this file proves that two links heal whatever is done to them: clocks that are
// set, ends that start anew, silences, datagrams that are held up and sends that fail, in
// random order, wherever their clocks are.
package link

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
)

var (
	modelRuns = testkit.Count("model.runs", "sequences of TestModel", 200, 1000, 10_000)
	modelSeed = flag.Uint64("model.seed", 1, "the first one's seed")
)

const (
	second = time.Second
	healed = 26 * second // how long after an event all must be right, while datagrams flow
)

// modelEnd is an end and its clock.
type modelEnd struct {
	*Link
	clock *simnet.ManualClock

	local, remote uint64 // of the last reading
	steps         uint32 // then
	read          bool
}

// model is a world of two ends.
type model struct {
	*simnet.World
	t    testing.TB
	seed uint64
	rng  *rand.Rand
	ends [2]*modelEnd
	// The path, by the end that sends.
	delay, jitter [2]time.Duration
	loss          [2]float64
	held          [2]time.Duration
	lastHeld      time.Duration // when the last of those that were held up arrives
	failing       bool
	starts        []time.Duration // when an end started anew
	log           []string        // what was done, for whoever has to find the fault
}

// newModel draws one. Each end sends so often, in turn.
func newModel(t testing.TB, seed uint64, every time.Duration) *model {
	m := &model{
		World: simnet.NewWorld(seed),
		t:     t,
		seed:  seed,
		rng:   rand.New(rand.NewPCG(seed, 8)),
	}
	d := simnet.Dice{R: m.rng}
	for i := range m.ends {
		clock := simnet.NewManualClock(m.rng.Uint64(), d.Between(-50, 50))
		m.ends[i] = &modelEnd{Link: new(Link), clock: clock}
		m.delay[i] = d.Span(500*time.Microsecond, 80*time.Millisecond)
		m.jitter[i] = d.Span(0, 15*time.Millisecond)
		m.loss[i] = d.Between(0, 0.1)
		out := &simnet.Link{
			Base: func(time.Duration) time.Duration { return m.delay[i] },
			Delay: func(r *rand.Rand, t time.Duration) time.Duration {
				return m.held[i] + simnet.Uniform(0, m.jitter[i])(r, t)
			},
			Loss: func(r *rand.Rand, _ time.Duration) bool { return r.Float64() < m.loss[i] },
		}
		m.Every(every, time.Duration(i)*every/2, func() {
			m.send(i, out)
			m.look(i)
		})
	}
	return m
}

// clock returns what the clock of end i shows.
func (m *model) clock(i int) uint64 { return m.ends[i].clock.Usec(m.Now()) }

// run lets datagrams flow for so long.
func (m *model) run(lasting time.Duration) { m.Run(m.Now() + lasting) }

// draw draws a span that is shorter than most.
func (m *model) draw(most time.Duration) time.Duration {
	return time.Duration(m.rng.Int64N(int64(most)))
}

func (m *model) send(i int, out *simnet.Link) {
	sent := m.Now()
	datagram := m.ends[i].AppendHeader(nil, m.clock(i))
	if m.failing {
		m.ends[i].SendFailed()
		return
	}
	m.Pass(out, m.rng, func() {
		// Those of a former start, or for it, are refused some day by whatever seals them.
		old := func(start time.Duration) bool { return sent < start && m.Now() > start+second }
		if slices.ContainsFunc(m.starts, old) {
			return
		}
		if _, _, _, err := m.ends[1-i].ReadHeader(datagram, m.clock(1-i)); err != nil {
			m.fail("a datagram of %d bytes: %v", len(datagram), err)
		}
	})
}

// look demands that the remote time goes forward, unless a step is counted or this end's own
// clock was set.
func (m *model) look(i int) {
	e := m.ends[i]
	local := m.clock(i)
	s, ok := e.Snapshot(local)
	forward := int64(local-e.local) > 0
	back := int64(s.RemoteUsec - e.remote)
	if ok && e.read && forward && back < 0 && s.Steps == e.steps {
		m.fail("end %d: the remote time goes back by %d us, and no step is counted", i, -back)
	}
	e.local = local
	e.remote = s.RemoteUsec
	e.steps = s.Steps
	e.read = ok
}

// misses says of which end it is not so that it knows what datagrams can show, the truth but for
// half of what the ways differ by, and that the truth is inside of its bound. "" is none.
func (m *model) misses() (what string) {
	for i, e := range m.ends {
		s, ok := e.Snapshot(m.clock(i))
		wrong := int64(s.RemoteUsec - m.clock(1-i))
		shown := (m.delay[i] - m.delay[1-i]).Microseconds() / 2
		margin := 2*max(m.jitter[0], m.jitter[1]).Microseconds() + 5000
		if off := wrong - shown; !ok || max(off, -off) > margin {
			what += fmt.Sprintf("end %d is %d us off what datagrams show, more than %d, ok %v; ",
				i, off, margin, ok)
		}
		if bound := s.ErrorBound.Microseconds(); max(wrong, -wrong) > bound+2 {
			what += fmt.Sprintf("end %d is %d us off the truth, more than its bound, %d; ",
				i, wrong, bound)
		}
	}
	return what
}

// in says when and after what something was wrong.
func (m *model) in(text string) string {
	return fmt.Sprintf("seed %d, %.1f s: %s\nafter %q", m.seed, m.Now().Seconds(), text, m.log)
}

func (m *model) fail(format string, args ...any) {
	m.t.Helper()
	m.t.Error(m.in(fmt.Sprintf(format, args...)))
}

func (m *model) did(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	m.log = append(m.log, fmt.Sprintf("%.1f s: %s", m.Now().Seconds(), text))
}

// step draws by how much a clock is set or starts elsewhere, at least, in microseconds: often by
// what the stamps wrap after.
func (m *model) step(least time.Duration) (usec int64) {
	switch m.rng.IntN(4) {
	case 0:
		usec = (1 + m.rng.Int64N(5)) << 26 // 67.1 s
	case 1:
		usec = (least + m.draw(second/10)).Microseconds()
	case 2:
		usec = (least + m.draw(200*second)).Microseconds()
	default:
		usec = m.rng.Int64()
	}
	if m.rng.IntN(2) == 0 {
		return -usec
	}
	return usec
}

// event does something to them.
func (m *model) event() {
	i := m.rng.IntN(2)
	e := m.ends[i]
	e.read = false
	switch m.rng.IntN(6) {
	case 0:
		// Of smaller sets within seconds of another one, of a start or of a silence, one of 1,000
		// is right only after minutes: that is up to package timesync.
		step := m.step(150 * time.Millisecond)
		m.did("end %d is set by %d us", i, step)
		e.clock.Step(m.Now(), step)
	case 1:
		m.startAnew(i, m.step(0))
	case 2:
		m.did("end %d is reset", i)
		e.Reset()
	case 3:
		m.run(15 * second) // a clock that was set meanwhile is up to package timesync
		lost := m.loss[i]
		silence := m.draw(160 * second)
		m.did("end %d is not heard for %v", i, silence)
		m.loss[i] = 1
		m.run(silence)
		m.loss[i] = lost
	case 4:
		m.held[i] = m.draw(30 * second) // longer ones look early, since the stamps wrap
		m.lastHeld = max(m.lastHeld, m.Now()+second+m.held[i])
		m.did("what end %d sends for 0.5 s is held up by %v", i, m.held[i])
		m.run(second / 2)
		m.held[i] = 0
	case 5:
		silence := m.draw(20 * second)
		m.did("all sends fail for %v", silence)
		m.failing = true
		m.run(silence)
		m.failing = false
	}
}

func (m *model) startAnew(i int, step int64) {
	m.did("end %d starts anew, %d us ahead of before", i, step)
	m.ends[i].Link = new(Link)
	m.ends[i].read = false
	m.ends[i].clock.Step(m.Now(), step)
	m.starts = append(m.starts, m.Now())
}

// healedButFor is how many worlds of so many may not be healed in time. Of 38,000 worlds, 20,000
// from seed 20,001 on, 8,000 from 40,001 and 10,000 from 900,001, five were not: several events
// came within seconds, and they were up to 73 ms off.
const healedButFor = 5000

// TestModel: healed after each event, however many come before they are over. More:
//
//	go test ./link -run TestModel -model.runs 100000 -model.seed 12345
func TestModel(t *testing.T) {
	runs := modelRuns()
	missed := 0
	for seed := *modelSeed; seed < *modelSeed+uint64(runs); seed++ {
		m := newModel(t, seed, second/20)
		m.run(second + m.draw(10*second)) // a start is over after some round trips
		for range 1 + m.rng.IntN(3) {
			m.event()
			m.run(second + m.draw(2*second))
		}
		m.Run(m.lastHeld)
		m.run(healed)
		if what := m.misses(); what != "" {
			missed++
			t.Log(m.in(what))
		}
	}
	if missed > 1+runs/healedButFor {
		t.Errorf("%d of %d worlds are not healed", missed, runs)
	}
}
