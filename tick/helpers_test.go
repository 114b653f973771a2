// What the tests share: a remote clock, a recorder of ticks and events, short forms.

package tick

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"timesync"
	"timesync/link"
)

// fakeRemote is a remote clock that is known exactly.
type fakeRemote struct {
	offset int64 // remote minus local, microseconds
	delay  time.Duration
	ppm    float64 // what Skew says
	bound  time.Duration
	lost   bool

	noDelay bool          // the time is known, but not the delay from the server
	noWay   bool          // the delay to the server is not known
	to      time.Duration // the delay to the server; 0 is as long as from it
}

func (f *fakeRemote) RemoteTime(localUsec uint64) (uint64, bool) {
	return localUsec + uint64(f.offset), !f.lost
}
func (f *fakeRemote) MinimumOneWayDelay() (time.Duration, bool) {
	return f.delay, !f.lost && !f.noDelay
}
func (f *fakeRemote) MinimumDelayToPeer() (time.Duration, bool) {
	return cmp.Or(f.to, f.delay), !f.noWay
}
func (f *fakeRemote) Skew() (float64, bool)                   { return f.ppm, !f.lost }
func (f *fakeRemote) ErrorBound(uint64) (time.Duration, bool) { return f.bound, !f.lost }
func (f *fakeRemote) shift(d time.Duration)                   { f.offset += d.Microseconds() }

// ledger checks that each tick runs once and in order, but for what events say.
type ledger struct {
	next         Tick // the one that is due
	begun        bool
	ran, skipped uint64
	wrong        string // the first thing that is
	backs        int    // how many events there were that let a clock go back
	epochs       int    // of them, those that let it even with NeverBack
	last         Clocks // what the last tick was told
	lastBacks    int    // backs at the last tick
	neverBack    bool
	entering     bool // another epoch: its clocks are not known yet
}

func (l *ledger) fail(format string, args ...any) {
	l.wrong = cmp.Or(l.wrong, fmt.Sprintf(format, args...))
}

// start begins anew, as a Start does.
func (l *ledger) start() {
	*l = ledger{wrong: l.wrong, backs: l.backs + 1, epochs: l.epochs + 1, neverBack: l.neverBack}
}

func (l *ledger) tick(s Update) {
	at := s.PredictedTime
	if l.begun && s.Tick != l.next || at != at.rate.At(s.Tick, 0) || s.Delta <= 0 {
		l.fail("tick %d runs at %v, %v long, %d is due", s.Tick, at, s.Delta, l.next)
	}
	if l.begun && l.backs == l.lastBacks && s.back(l.last) {
		l.fail("tick %d is told %v after %v", s.Tick, s.Clocks, l.last)
	}
	l.last = s.Clocks
	l.lastBacks = l.backs
	l.next = s.Tick + 1
	l.begun = true
	l.ran++
}

func (l *ledger) event(e Event) {
	switch e.Kind {
	case EventStepped:
		l.backs++
		if l.neverBack && e.Again && !l.entering {
			l.fail("%v under NeverBack", e)
		}
	case EventEpochChanged:
		l.backs++
		l.epochs++
		l.entering = true
		return
	case EventSynced:
		l.entering = false
		return
	case EventRateMismatch:
		l.lastBacks = -1 // the ticks are others, and AdvanceOne may have run the last one early
	case EventStalled, EventSkipped:
	default:
		return
	}
	if e.First > e.Last {
		return
	}
	first := e.First
	after := e.Last + 1
	if e.Again {
		first, after = after, first
	} else {
		l.skipped += uint64(after - first)
	}
	if l.begun && first != l.next {
		l.fail("%v, %d is due", e, l.next)
	}
	l.next = after
}

func (l *ledger) handlers() Handlers {
	ran := uint64(0)
	return Handlers{
		Tick:       l.tick,
		Event:      l.event,
		BeforeLoop: func() { ran = l.ran },
		AfterLoop: func() {
			if l.ran == ran {
				l.fail("a loop without a tick")
			}
		},
	}
}

// witness is a ledger that also reads the clocks at times that never go back.
type witness struct {
	ledger
	readers []reader
	seen    int // of the events that may let a clock go back, when they read
}

// reader reads behind the present, at it, or ahead.
type reader struct {
	off   int64 // us, its time minus the present one
	read  Clocks
	known bool
}

// look checks what must hold at any time, and returns the first thing that is wrong.
func (w *witness) look(l *loop, now uint64) (wrong string) {
	backs := w.backs
	if w.neverBack {
		backs = w.epochs
	}
	for i := range w.readers {
		r := &w.readers[i]
		at := now + uint64(r.off)
		c, ok := l.reads.Snapshot(at)
		var each Clocks
		each.SharedTime, _ = l.reads.SharedTime(at)
		each.ServerTime, _ = l.reads.ServerTime(at)
		each.PredictedTime, _ = l.reads.PredictedTime(at)
		if c != each {
			w.fail("Snapshot is %v, one by one the clocks read %v", c, each)
		}
		if ok && r.known && w.seen == backs && c.back(r.read) {
			w.fail("%v goes back to %v without an event, for a reader %d us ahead",
				r.read, c, r.off)
		}
		r.read, r.known = c, ok
	}
	w.seen = backs
	if n := len(l.now.courses[predicted]); n > 25 {
		w.fail("%d pieces are kept", n)
	}
	s := l.Stats()
	if l.started && (s.Ticks != w.ran || s.Skipped != w.skipped && len(l.events) == 0) {
		w.fail("%+v, but %d ran and %d were skipped", s, w.ran, w.skipped)
	}
	return w.wrong
}

// recorder is a ledger that keeps what a server or client does.
type recorder struct {
	ledger
	infos    []Update        // of the ticks
	updates  []time.Duration // of AfterSync
	events   []Event
	silences []Event // EventSilent and EventHeard, which are not among the others
}

func (r *recorder) handlers() Handlers {
	return Handlers{
		Tick: func(s Update) {
			r.ledger.tick(s)
			r.infos = append(r.infos, s)
		},
		AfterSync: func(by time.Duration) { r.updates = append(r.updates, by) },
		Event: func(e Event) {
			r.ledger.event(e)
			if e.Kind == EventSilent || e.Kind == EventHeard {
				r.silences = append(r.silences, e)
			} else {
				r.events = append(r.events, e)
			}
		},
	}
}

func (r *recorder) server(cfg ServerConfig) ServerConfig {
	cfg.Handlers = r.handlers()
	return cfg
}

func (r *recorder) client(cfg ClientConfig) ClientConfig {
	cfg.Handlers = r.handlers()
	return cfg
}

func (r *recorder) of(k EventKind) []Event {
	return slices.DeleteFunc(slices.Clone(r.events), func(e Event) bool { return e.Kind != k })
}

// check checks that each tick ran once and in order, but for what events said.
func (r *recorder) check(t *testing.T) {
	t.Helper()
	if r.wrong != "" {
		t.Fatal(r.wrong)
	}
}

// told is check, and checks what all events said.
func (r *recorder) told(t *testing.T, where any, want string) {
	t.Helper()
	if got := fmt.Sprint(r.events); got != want {
		t.Errorf("%v: the events are %.500s, want %s", where, got, want)
	}
	r.check(t)
}

// made returns what was made without an error.
func made[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func mustServer(cfg ServerConfig) *Server { return made(NewServer(cfg)) }

func mustClient(cfg ClientConfig, remote RemoteClock) *Client {
	return made(NewClient(cfg, remote))
}

// startServer returns a server that is started at local time 0.
func startServer(cfg ServerConfig) *Server {
	s := mustServer(cfg)
	s.Start(0)
	return s
}

// startClient returns a client that is started at local time 0.
func startClient(cfg ClientConfig, remote RemoteClock) *Client {
	c := mustClient(cfg, remote)
	c.Start(0)
	return c
}

// newClient returns a started client at local time 0 whose server reads origin plus an hour at that
// time, the game time, and is 50 ms away.
func newClient(cfg ClientConfig) (l *Client, remote *fakeRemote, r *recorder) {
	const origin = 1 << 63
	remote = &fakeRemote{delay: ms(50)}
	r = &recorder{}
	remote.offset = math.MinInt64 + time.Hour.Microseconds() // wraps: origin + an hour
	l = startClient(r.client(cfg), remote)
	w := Welcome{
		Epoch:      1,
		Rate:       cfg.Rate.orDefault(),
		OriginUsec: origin,
		Tick:       cfg.Rate.Ticks(time.Hour),
	}
	_ = l.OnWelcome(w, 0)
	return l, remote, r
}

// advance advances l each 10 ms until the local time end, and returns that.
func advance(l *Client, now, end uint64) uint64 {
	for ; now < end; now += 10_000 {
		l.Advance(now)
	}
	return now
}

// check fails if a test got something else than it wants.
func check[T comparable](t *testing.T, got, want T, format string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", fmt.Sprintf(format, args...), got, want)
	}
}

// must ends the test if something fails that is to work.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// back reports whether a clock is behind where it was.
func (c Clocks) back(was Clocks) bool {
	d := c.since(was)
	return min(d[0], d[1], d[2]) < 0
}

// since returns how far each clock has gone.
func (c Clocks) since(was Clocks) [3]time.Duration {
	return [3]time.Duration{
		c.SharedTime.Sub(was.SharedTime),
		c.ServerTime.Sub(was.ServerTime),
		c.PredictedTime.Sub(was.PredictedTime),
	}
}

const us, sec = time.Microsecond, time.Second

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func usec(d time.Duration) uint64 { return uint64(d.Microseconds()) }

var (
	_ toPeer = (*timesync.TimeSynchronizer)(nil)
	_ toPeer = (*link.Link)(nil)
)
