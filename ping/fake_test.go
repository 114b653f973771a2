// What the tests share: a server, a path and clocks that a test sets.

package ping

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
)

var (
	seedFlag = flag.Uint64("seed", 1, "seed of the random worlds")
	worlds   = testkit.Count("worlds",
		"drawn worlds for the error bound, half as many for clock steps", 300, 1000, 10_000)
)

// random returns a generator and prints its seed.
func random(t testing.TB) *rand.Rand {
	t.Logf("seed %d", *seedFlag)
	return rand.New(rand.NewPCG(*seedFlag, 6))
}

// play plays so many drawn worlds, until one fails.
func play(t *testing.T, worlds int, world func(r *rand.Rand)) {
	t.Helper()
	r := random(t)
	for i := range worlds {
		seed := r.Uint64()
		world(rand.New(rand.NewPCG(seed, 0)))
		if t.Failed() {
			t.Fatalf("world %d of %d, seed %#x", i, worlds, seed)
		}
	}
}

// check fails if a test got something else than it wants.
func check[T comparable](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %+v, want %+v", fmt.Sprintf(format, args...), got, want)
	}
}

const (
	us, ms, sec = time.Microsecond, time.Millisecond, time.Second

	usMs  = int64(1000) // microseconds in a millisecond
	usSec = int64(1_000_000)
)

// world is a client and a server on a network, in true time. Times are int64
// microseconds; the client's clock counts true time from base on, the server's
// differs by offset and runs ppb faster, less what suspends and steps took away.
type world struct {
	events *simnet.World
	t      int64 // true time now
	base   uint64
	offset uint64
	ppb    int64
	jump   int64 // what steps added to remote minus local
	coarse int64 // the server's clock advances by so much at once, or 0

	up, down func() int64 // delays of the next packets
	lost     func() bool  // whether the next packet is lost
	hold     int64
	waits    func() int64 // how long the next reply waits in the program, or lost

	c     *Clock
	heard func(exchange) // of each reply that arrives
	loops bool           // keepPinging was called
}

// lost is the wait of what never arrives.
const lost = math.MinInt64

// exchange is one whose reply has arrived: when the request was sent, in true time, and what became
// of it.
type exchange struct {
	Exchange
	sent    int64
	verdict Verdict
}

// magnitude returns |v|, also of the least integer.
func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

func constant(us int64) func() int64 { return func() int64 { return us } }

func exponential(r *rand.Rand, base, mean int64) func() int64 {
	return func() int64 { return base + int64(r.ExpFloat64()*float64(mean)) }
}

// newWorld is a world with odd offsets in which both ways take 30 ms.
func newWorld(c *Clock) *world {
	return &world{
		events: simnet.NewWorld(0),
		base:   1 << 40,
		offset: 0xfedc_ba98_7654_3210,
		up:     constant(30 * usMs),
		down:   constant(30 * usMs),
		lost:   func() bool { return false },
		waits:  constant(0),
		c:      c,
		heard:  func(exchange) {},
	}
}

func (w *world) local() uint64 { return w.base + uint64(w.t) }

func (w *world) remote() uint64 {
	return w.local() + w.offset + uint64(w.jump+w.t*w.ppb/1_000_000_000)
}

func (w *world) after(d int64, do func()) {
	w.events.At(duration(w.t+d), func() {
		w.t = w.events.Now().Microseconds()
		do()
	})
}

func (w *world) run(d time.Duration) {
	until := w.t + d.Microseconds()
	w.events.Run(duration(until))
	w.t = until
}

// ping sends one request now.
func (w *world) ping() {
	x := exchange{Exchange: Exchange{T1: w.local()}, sent: w.t}
	request := w.c.AppendRequest(nil, x.T1)
	if w.lost() {
		return
	}
	w.after(w.up(), func() {
		x.T2 = w.remote()
		if w.coarse > 0 { // package clock rounds times of receipt up
			x.T2 += uint64(w.coarse) - x.T2%uint64(w.coarse)
		}
		w.after(w.hold, func() {
			x.T3 = w.remote()
			if w.coarse > 0 {
				x.T3 -= x.T3 % uint64(w.coarse)
			}
			reply, ok := AppendReply(nil, request, w.c.session, x.T2, x.T3)
			if !ok || w.lost() {
				return
			}
			wait := w.waits()
			down := w.down()
			if wait == lost {
				return
			}
			w.after(down+wait, func() {
				x.T4 = w.local() - uint64(wait)
				x.verdict = w.c.HandleReply(reply, x.T4)
				w.heard(x)
				if w.loops { // it may be time sooner than it was
					w.after(w.c.Next(w.local()).Microseconds()+1, w.pingIfDue)
				}
			})
		})
	})
}

// keepPinging is what a client's loop does.
func (w *world) keepPinging() {
	w.loops = true
	w.pingIfDue()
	w.after(max(w.c.Next(w.local()).Microseconds(), 1), w.keepPinging)
}

func (w *world) pingIfDue() {
	if w.c.Next(w.local()) == 0 {
		w.ping()
	}
}

// every calls do every d from now on.
func (w *world) every(d time.Duration, do func()) {
	do()
	w.after(d.Microseconds(), func() { w.every(d, do) })
}

// errorUsec returns the reading minus the truth. It is called too often for t.Helper, which looks
// at the stack: that was a fifth of the time of these tests.
func (w *world) errorUsec(t testing.TB) int64 {
	got, ok := w.c.RemoteTime(w.local())
	if !ok {
		t.Fatalf("not synchronized at %d us", w.t)
	}
	return int64(got - w.remote())
}

func (w *world) snapshot(t testing.TB) timesync.Snapshot {
	s, ok := w.c.Snapshot(w.local())
	if !ok {
		t.Fatalf("not synchronized at %d us", w.t)
	}
	return s
}

// watch checks every 7 ms that the truth is within the bound and that readings do not go back
// without a step. It returns where it collects the errors.
func (w *world) watch(t testing.TB) *watcher {
	m := &watcher{last: noSnapshot}
	w.every(7*ms, func() { m.look(t, w) })
	return m
}

// noSnapshot is one that no other follows.
var noSnapshot = timesync.Snapshot{Steps: math.MaxUint32}

type watcher struct {
	errors []int64
	last   timesync.Snapshot
}

func (m *watcher) look(t testing.TB, w *world) {
	t.Helper()
	s, ok := w.c.Snapshot(w.local())
	if !ok {
		return
	}
	e := int64(s.RemoteUsec - w.remote())
	if bound := s.ErrorBound.Microseconds(); magnitude(e) > uint64(bound) {
		t.Fatalf("at %d us: error %d us exceeds the bound of %d us", w.t, e, bound)
	}
	if s.Steps == m.last.Steps && int64(s.RemoteUsec-m.last.RemoteUsec) < 0 {
		t.Fatalf("at %d us: went back by %d us without a step", w.t, m.last.RemoteUsec-s.RemoteUsec)
	}
	m.errors = append(m.errors, e)
	m.last = s
}
