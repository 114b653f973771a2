// What the tests share that run ours and other methods on identical packets.

package simtest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"timesync"
	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
)

const (
	us  = time.Microsecond
	ms  = time.Millisecond
	sec = time.Second
)

// duel is two synchronizers that exchange datagrams in a world in which a test
// controls what sim.Run does not: computers that restart, datagrams that come out of
// the order of their receive times, forged stamps. Everything depends on the seed.
type duel struct {
	seed    uint64
	until   time.Duration
	now     time.Duration // true time
	ends    [2]duelEnd
	reports time.Duration // time between reports; 0 is TimeSync's advice
	poll    time.Duration // time between questions to each end
	askAt   [2]time.Duration
	changes []simnet.Window // when a clock jumps, or runs at another rate
	swaps   float64         // share of the datagrams that are handed over after the next one
	sim.Happenings
	planned []planned // in the order of time; the last is never

	// deliver hands over a datagram that arrived at a side, as take does.
	deliver func(side int, d datagram, localUsec uint64)
	// onQuery gets what an end says about the other's clock: at regular times and, unless sparse,
	// after each datagram.
	onQuery func(q *query)
	sparse  bool
}

// planned is what a test lets happen at a true time.
type planned struct {
	at      time.Duration
	happens func()
}

// duelEnd is one of the two computers.
type duelEnd struct {
	clock  simnet.ClockSpec
	rate   float64       // datagrams a second
	base   time.Duration // of the way to the other, without any queue
	routes []simnet.RouteStep
	delays []simnet.Delay
	losses []simnet.Loss
	out    simnet.Link     // what else there is to say of that way
	off    []simnet.Window // when the computer sleeps

	s        subject
	c        simnet.Clock
	link     *rand.Rand
	phase    *rand.Rand // nil sends at equal distances
	period   time.Duration
	late     time.Duration // of the next datagram, as from a program's loop
	sendAt   time.Duration
	inbox    []datagram    // in the order of their arrival; the last never arrives
	held     []datagram    // one that waits for the next one
	born     time.Duration // when s began
	reportAt time.Duration
	heard    bool
	stale    bool          // the clocks are not what any datagram could tell
	faster   int64         // by which datagrams seem to be since then, us
	era      time.Duration // a datagram sent at that time tells
}

// datagram is one under way.
type datagram struct {
	sent, at      time.Duration
	local         uint64 // the time of its receipt, once it waits
	stamp, report timesync.Counter24
	reports       bool
}

func newDuel(seed uint64, until time.Duration) *duel {
	d := &duel{
		seed:    seed,
		until:   until,
		poll:    100 * ms,
		planned: []planned{{at: forever}},
	}
	d.deliver = d.take
	return d
}

// query is one question to an end.
type query struct {
	side  int
	at    time.Duration
	local uint64
	ok    bool
	err   float64 // microseconds, modulo 67.1 s; infinite without an answer
	bound float64 // microseconds; the same
	// since is how long ago the last clock change was over: a step, a suspend, a restart
	// or a slew of either clock. 0 while there is one, forever before the first.
	since time.Duration
	// stale: a clock jumped and no datagram sent after that has arrived here, or only
	// such as queued for longer than they seem faster. Nobody can know of the jump.
	stale bool
	s     *subject
}

// in describes the question, and the world in which it was asked.
func (q *query) in(d *duel) string {
	return fmt.Sprintf("seed %d: %c at %v is off by %.0f us, bound %.0f us%v",
		d.seed, 'A'+rune(q.side), q.at, q.err, q.bound, d)
}

func (d *duel) run() {
	w := simnet.NewWorld(d.seed)
	for side := range d.ends {
		e := &d.ends[side]
		name := string(rune('A' + side))
		e.c = simnet.NewClock(e.clock, w.Rand("clock "+name).Uint64())
		e.link = w.Rand("link " + name)
		e.phase = w.Rand("phase " + name)
		e.build()
		e.inbox = []datagram{{at: forever}}
		e.period = time.Duration(float64(sec) / e.rate)
		e.plan(time.Duration(e.phase.Float64() * float64(e.period)))
		d.askAt[side] = simnet.Resumes(e.off, time.Duration(e.phase.Float64()*float64(d.poll)))
	}
	d.goOn(d.until)
}

// build builds the way to the other end from what is said of it.
func (e *duelEnd) build() {
	path := simnet.Route(e.base, e.routes...)
	least := e.base / 20
	e.out.Base = func(t time.Duration) time.Duration { return max(path(t), least) }
	e.out.Delay = simnet.Sum(e.delays...)
	e.out.Loss = simnet.AnyLoss(e.losses...)
}

// goOn plays what happens up to and including the true time until.
func (d *duel) goOn(until time.Duration) {
	a, b := &d.ends[0], &d.ends[1]
	for {
		next := min(
			d.planned[0].at,
			a.inbox[0].at,
			b.inbox[0].at,
			a.sendAt,
			b.sendAt,
			d.askAt[0],
			d.askAt[1],
		)
		if next > until {
			return
		}
		d.now = next
		switch next {
		case d.planned[0].at:
			happens := d.planned[0].happens
			d.planned = d.planned[1:]
			happens()
		case a.inbox[0].at:
			d.arrive(0)
		case b.inbox[0].at:
			d.arrive(1)
		case a.sendAt:
			d.send(0)
		case b.sendAt:
			d.send(1)
		case d.askAt[0]:
			d.ask(0)
		default:
			d.ask(1)
		}
	}
}

// at plans what happens at the true time t.
func (d *duel) at(t time.Duration, happens func()) {
	i, _ := slices.BinarySearchFunc(d.planned, t+1, func(p planned, t time.Duration) int {
		return cmp.Compare(p.at, t)
	})
	d.planned = slices.Insert(d.planned, i, planned{t, happens})
}

// bothDelay lets datagrams queue like that on both ways. delays must keep no state.
func (d *duel) bothDelay(delays ...simnet.Delay) {
	d.ends[0].delays = delays
	d.ends[1].delays = delays
}

// offset returns the remote minus the local clock, microseconds.
func (d *duel) offset(side int) int64 {
	return int64(d.ends[1-side].c.Exact(d.now) - d.ends[side].c.Exact(d.now))
}

func (d *duel) asleep(side int) bool { return simnet.Within(d.ends[side].off, d.now) }

// plan plans the next datagram for the true time at, or when the computer wakes: up to a fifth of a
// period or 2 ms late.
func (e *duelEnd) plan(at time.Duration) {
	if e.phase != nil {
		e.late = time.Duration(e.phase.Float64() * float64(min(e.period/5, 2*ms)))
	}
	e.sendAt = simnet.Resumes(e.off, at) + e.late
}

func (d *duel) send(side int) {
	e, o := &d.ends[side], &d.ends[1-side]
	e.plan(d.now - e.late + e.period)
	if d.asleep(side) {
		return
	}
	local := e.c.Usec(d.now)
	sent := datagram{sent: d.now, stamp: timesync.LocalTimeToDatagramTS24(local)}
	if e.heard && d.now >= e.reportAt {
		e.reportAt = d.now + cmp.Or(d.reports, sim.ReportEvery(d.now-e.born))
		sent.report, sent.reports = e.s.Sync.MinDeltaTS24(local)
	}
	for _, sent.at = range e.out.Arrivals(e.link, d.now) {
		i := len(o.inbox)
		for i > 0 && sent.at < o.inbox[i-1].at {
			i--
		}
		o.inbox = slices.Insert(o.inbox, i, sent)
	}
}

func (d *duel) arrive(side int) {
	e := &d.ends[side]
	first := e.inbox[0]
	e.inbox = e.inbox[1:]
	if d.asleep(side) {
		return
	}
	first.local = e.c.Received(d.now)
	if d.swaps > 0 && e.held == nil && e.phase.Float64() < d.swaps {
		e.held = []datagram{first}
		return
	}
	d.deliver(side, first, first.local)
	held := e.held
	e.held = nil
	for _, h := range held {
		d.deliver(side, h, h.local)
	}
}

// take gives a datagram to the synchronizer.
func (d *duel) take(side int, got datagram, localUsec uint64) {
	if d.asleep(side) {
		return
	}
	e := &d.ends[side]
	e.s.OnDatagram(uint32(got.stamp), localUsec)
	if got.reports {
		e.s.Sync.OnPeerMinDeltaTS24(got.report, localUsec)
	}
	e.heard = true
	if e.stale && got.sent >= e.era && (e.faster <= 0 || d.queued(side, got) < e.faster) {
		e.stale = false
	}
	if !d.sparse {
		d.query(side)
	}
}

// queued returns for how long a datagram queued, us. What coarse clocks add looks the same.
func (d *duel) queued(side int, got datagram) int64 {
	to, from := d.ends[side].c, &d.ends[1-side]
	queued := int64((got.at - got.sent - from.out.BaseAt(got.sent)) / us)
	return queued + int64(got.local-to.Exact(got.at)+from.c.Exact(got.sent)-from.c.Usec(got.sent))
}

func (d *duel) ask(side int) {
	d.askAt[side] = simnet.Resumes(d.ends[side].off, d.now+d.poll)
	if !d.asleep(side) {
		d.query(side)
	}
}

func (d *duel) query(side int) {
	if d.onQuery == nil {
		return
	}
	e := &d.ends[side]
	now := d.now
	q := query{
		side:  side,
		at:    now,
		local: e.c.Usec(now),
		err:   math.Inf(1),
		bound: math.Inf(1),
		stale: e.stale,
		since: d.since(now),
		s:     &e.s,
	}
	truth := d.ends[1-side].c.Exact(now) - (e.c.Exact(now) - q.local) // as in sim.Run
	remote, ok := e.s.RemoteTime(q.local, truth)
	bound, bounded := e.s.Sync.ErrorBound(q.local)
	q.ok = ok && bounded
	if q.ok {
		q.err = float64(int64((remote-truth)<<38) >> 38)
		q.bound = float64(bound) / float64(us)
	}
	d.onQuery(&q)
}

// forever is longer than any world lasts.
const forever time.Duration = math.MaxInt64

// since returns for how long nothing has happened to a clock at the true time t.
func (d *duel) since(t time.Duration) time.Duration {
	since := forever
	for _, w := range d.changes {
		if t >= w.From {
			since = min(since, max(t-w.To, 0))
		}
	}
	return since
}

func (d *duel) String() string {
	var s strings.Builder
	for _, e := range d.InOrder() {
		fmt.Fprintf(&s, "\n\t%9.3f s: %s %s", e.At.Seconds(), e.Kind, e.Text)
	}
	return s.String()
}

// clockEvent lets something happen to the clock of an end.
func (d *duel) clockEvent(side int, e simnet.ClockEvent) {
	c := &d.ends[side].clock
	c.Events = append(c.Events, e)
	d.changes = append(d.changes, simnet.Window{From: e.At, To: e.At + e.For})
}

// jump is a clockEvent that no datagram from before it could tell.
func (d *duel) jump(side int, event simnet.ClockEvent) {
	d.clockEvent(side, event)
	each := func(at time.Duration, happens func(e *duelEnd, offset int64)) {
		d.at(at, func() {
			for side := range d.ends {
				happens(&d.ends[side], d.offset(side))
			}
		})
	}
	over := event.At + event.For
	each(event.At-us, func(e *duelEnd, offset int64) {
		if !e.stale {
			e.faster = 0
		}
		e.faster -= offset
	})
	each(event.At, func(e *duelEnd, _ int64) {
		e.stale = true
		e.era = max(e.era, over)
	})
	each(over, func(e *duelEnd, offset int64) { e.faster += offset })
}

// outlier lets a datagram with an absurd stamp arrive at an end.
func (d *duel) outlier(side int, at time.Duration, ts24 uint32) {
	d.at(at, func() {
		if d.asleep(side) {
			return
		}
		e := &d.ends[side]
		e.s.OnDatagram(ts24, e.c.Received(at))
		d.query(side)
	})
}

// step lets the clock of an end jump by size.
func (d *duel) step(side int, at, size time.Duration) {
	d.jump(side, simnet.ClockEvent{At: at, Step: size})
	d.Happens(at, "step", "of %c by %v", 'A'+rune(side), size)
}

// suspend lets an end sleep, with a clock that stands still. The other end sleeps
// with a clock that runs if both is set: the cheap way to sleep for days.
func (d *duel) suspend(side int, at, lasting time.Duration, both bool) {
	d.jump(side, simnet.ClockEvent{At: at, For: lasting, PPM: -1e6})
	w := simnet.Window{From: at, To: at + lasting}
	d.ends[side].off = append(d.ends[side].off, w)
	if both {
		d.ends[1-side].off = append(d.ends[1-side].off, w)
	}
	d.Happens(at, "suspend", "of %c for %v, both asleep %v", 'A'+rune(side), lasting, both)
}

// restart replaces an end by another with its own clock. The other one may forget everything, too.
func (d *duel) restart(side int, at, size time.Duration, reset bool) {
	d.jump(side, simnet.ClockEvent{At: at, Step: size})
	d.at(at, func() { d.anew(side, reset) })
	d.Happens(at, "restart", "of %c, clock off by %v, the other resets %v",
		'A'+rune(side), size, reset)
}

// anew lets an end begin anew, and the other one, too, if it resets.
func (d *duel) anew(side int, reset bool) {
	e := &d.ends[side]
	e.s = subject{}
	e.held = nil
	e.heard = false
	e.born = d.now
	e.reportAt = d.now
	if reset {
		o := &d.ends[1-side]
		o.s.Sync.Reset()
		o.heard = false
		o.born = d.now
		o.reportAt = d.now
	}
}

// slew lets the clock of an end run at another rate for some time.
func (d *duel) slew(side int, at, lasting time.Duration, ppm float64) {
	d.clockEvent(side, simnet.ClockEvent{At: at, For: lasting, PPM: ppm})
	d.Happens(at, "slew", "of %c by %.0f ppm for %v", 'A'+rune(side), ppm, lasting)
}

// route changes the delay of the way from an end.
func (d *duel) route(side int, at, change time.Duration) {
	d.ends[side].routes = append(d.ends[side].routes, simnet.RouteStep{At: at, Change: change})
	d.Happens(at, "route", "from %c by %v", 'A'+rune(side), change)
}

// queue lets others fill a queue on the way from an end.
func (d *duel) queue(side int, at, lasting, height time.Duration) {
	d.ends[side].delays = append(d.ends[side].delays, simnet.StandingQueue(at, lasting, height))
	d.Happens(at, "queue", "from %c of %v for %v", 'A'+rune(side), height, lasting)
}

// silence loses what is sent from an end, or from both.
func (d *duel) silence(side int, at, lasting time.Duration, both bool) {
	loss := simnet.Silence(simnet.Window{From: at, To: at + lasting})
	d.ends[side].losses = append(d.ends[side].losses, loss)
	if both {
		d.ends[1-side].losses = append(d.ends[1-side].losses, loss)
	}
	d.Happens(at, "silence", "from %c for %v, both ways %v", 'A'+rune(side), lasting, both)
}
