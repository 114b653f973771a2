// The test in this file proves that two links heal whatever is done to them: clocks that are
// set, ends that start anew, silences, datagrams that are held up and sends that fail, in
// random order, wherever their clocks are.
package link

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"timesync/internal/testkit"
)

var (
	modelRuns = testkit.Count("model.runs", "sequences of TestModel", 200, 2000, 10_000)
	modelSeed = flag.Uint64("model.seed", 1, "the first one's seed")
)

const (
	second = 1_000_000   // us
	healed = 26 * second // how long after an event all must be right, while datagrams flow
)

// flying is a datagram under way.
type flying struct {
	at   uint64 // true time of arrival, us
	data []byte
}

// modelEnd is an end and its clock.
type modelEnd struct {
	*Link
	set uint64 // the clock minus true time at true time 0, us
	ppm int64

	local, remote uint64 // of the last reading
	steps         uint32 // then
	read          bool
}

// model is a world of two ends. Times are true ones in microseconds unless named otherwise.
type model struct {
	t      testing.TB
	seed   uint64
	rng    *rand.Rand
	now    uint64
	every  uint64 // us: each end sends every so often
	ends   [2]*modelEnd
	flight [2][]flying // to each end
	// The path, by the end that sends.
	delay, jitter [2]uint64
	loss          [2]float64
	held          [2]uint64
	lastHeld      uint64 // when the last of those that were held up arrives
	failing       bool
	log           []string // what was done, for whoever has to find the fault
}

func newModel(t testing.TB, seed uint64) *model {
	m := &model{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), now: 1e12, every: 50_000}
	for i := range m.ends {
		m.ends[i] = &modelEnd{Link: new(Link), set: m.rng.Uint64(), ppm: m.rng.Int64N(101) - 50}
		m.delay[i] = 500 + m.rng.Uint64N(80_000)
		m.jitter[i] = 1 + m.rng.Uint64N(15_000)
		m.loss[i] = m.rng.Float64() * 0.1
	}
	return m
}

// clock returns what the clock of end i shows.
func (m *model) clock(i int, now uint64) uint64 {
	e := m.ends[i]
	return e.set + now + uint64(int64(now)*e.ppm/1_000_000)
}

// run lets datagrams flow for so long.
func (m *model) run(usec uint64) {
	for until := m.now + usec; m.now < until; m.now += m.every {
		for i := range m.ends {
			m.deliver(i)
			m.send(i)
			m.look(i)
		}
	}
}

func (m *model) send(i int) {
	at := m.now + uint64(i)*m.every/2 // in turn
	datagram := m.ends[i].AppendHeader(nil, m.clock(i, at))
	if m.failing {
		m.ends[i].SendFailed()
		return
	}
	if m.rng.Float64() < m.loss[i] {
		return
	}
	arrives := at + m.delay[i] + m.rng.Uint64N(m.jitter[i]) + m.held[i]
	m.flight[1-i] = append(m.flight[1-i], flying{arrives, datagram})
}

// deliver hands over what has arrived at end i, in the order in which it did.
func (m *model) deliver(i int) {
	e := m.ends[i]
	slices.SortStableFunc(m.flight[i], func(a, b flying) int { return cmp.Compare(a.at, b.at) })
	for len(m.flight[i]) > 0 && m.flight[i][0].at <= m.now {
		f := m.flight[i][0]
		m.flight[i] = m.flight[i][1:]
		if _, _, _, err := e.Open(f.data, m.clock(i, f.at)); err != nil {
			m.fail("a datagram of %d bytes: %v", len(f.data), err)
		}
	}
}

// look demands that the remote time goes forward, unless a step is counted or this end's own
// clock was set.
func (m *model) look(i int) {
	e := m.ends[i]
	local := m.clock(i, m.now)
	s, ok := e.Snapshot(local)
	if back := int64(s.RemoteUsec - e.remote); ok && e.read && int64(local-e.local) > 0 && back < 0 && s.Steps == e.steps {
		m.fail("end %d: the remote time goes back by %d us, and no step is counted", i, -back)
	}
	e.local, e.remote, e.steps, e.read = local, s.RemoteUsec, s.Steps, ok
}

// check demands that both ends know what datagrams can show, the truth but for half of what the ways differ
// by, and that the truth is inside of the bound.
func (m *model) check() {
	for i, e := range m.ends {
		s, ok := e.Snapshot(m.clock(i, m.now))
		wrong := int64(s.RemoteUsec - m.clock(1-i, m.now))
		shown, margin := int64(m.delay[i]-m.delay[1-i])/2, 2*int64(max(m.jitter[0], m.jitter[1]))+5000
		if off := wrong - shown; !ok || max(off, -off) > margin {
			m.fail("end %d is %d us off what datagrams show, more than %d, ok %v", i, off, margin, ok)
		}
		if bound := s.ErrorBound.Microseconds(); max(wrong, -wrong) > bound+2 {
			m.fail("end %d is %d us off the truth, more than its bound, %d", i, wrong, bound)
		}
	}
}

func (m *model) fail(format string, args ...any) {
	m.t.Helper()
	m.t.Errorf("seed %d, %.1f s: %s\nafter %q", m.seed, float64(m.now-1e12)/second, fmt.Sprintf(format, args...), m.log)
}

func (m *model) did(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf("%.1f s: ", float64(m.now-1e12)/second)+fmt.Sprintf(format, args...))
}

// step draws by how much a clock is set or starts elsewhere, at least: often by what the
// stamps wrap after.
func (m *model) step(least uint64) (usec uint64) {
	switch m.rng.IntN(4) {
	case 0:
		usec = (1 + m.rng.Uint64N(5)) << 26 // 67.1 s
	case 1:
		usec = least + m.rng.Uint64N(100_000)
	case 2:
		usec = least + m.rng.Uint64N(200*second)
	default:
		usec = m.rng.Uint64() >> 1
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
		step := m.step(150_000)
		m.did("end %d is set by %d us", i, int64(step))
		e.set += step
	case 1:
		m.startAnew(i, m.step(0))
		// Those of a former start, or for it, are refused some day by whatever seals them.
		for j := range m.flight {
			m.flight[j] = slices.DeleteFunc(m.flight[j], func(f flying) bool { return f.at > m.now+second })
		}
	case 2:
		m.did("end %d is reset", i)
		e.Reset()
	case 3:
		m.run(15 * second) // a clock that was set meanwhile is up to package timesync
		lost := m.loss[i]
		silence := m.rng.Uint64N(160 * second)
		m.did("end %d is not heard for %d us", i, silence)
		m.loss[i] = 1
		m.run(silence)
		m.loss[i] = lost
	case 4:
		m.held[i] = m.rng.Uint64N(30 * second) // longer ones look early, since the stamps wrap
		m.lastHeld = max(m.lastHeld, m.now+second+m.held[i])
		m.did("what end %d sends for 0.5 s is held up by %d us", i, m.held[i])
		m.run(second / 2)
		m.held[i] = 0
	case 5:
		silence := m.rng.Uint64N(20 * second)
		m.did("all sends fail for %d us", silence)
		m.failing = true
		m.run(silence)
		m.failing = false
	}
}

func (m *model) startAnew(i int, step uint64) {
	m.did("end %d starts anew, %d us ahead of before", i, int64(step))
	m.ends[i].Link, m.ends[i].read = new(Link), false
	m.ends[i].set += step
}

// TestModel: healed after each event, however many come before they are over. More:
//
//	go test ./link -run TestModel -model.runs 100000 -model.seed 12345
func TestModel(t *testing.T) {
	for seed := *modelSeed; seed < *modelSeed+uint64(modelRuns()); seed++ {
		m := newModel(t, seed)
		m.run(second + m.rng.Uint64N(10*second)) // a start is over after some round trips
		for range 1 + m.rng.IntN(3) {
			m.event()
			m.run(second + m.rng.Uint64N(2*second))
		}
		m.run(max(m.lastHeld, m.now) - m.now)
		m.run(healed)
		m.check()
	}
}
