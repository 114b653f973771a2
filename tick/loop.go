package tick

import (
	"context"
	"log"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"timesync"
)

// Loop is the clocks and the tick loop of one peer (NetworkTimeSystem, NetworkTime).
// NewServer or NewClient makes one.
//
// One goroutine at a time may call Advance, Step, Run and Frame, and handlers are
// called by it. All other methods may be called by any goroutine at any time; Shared,
// Server, Predicted, Fraction, Accept and Announce take no lock.
//
// Times are readings of the local clock in microseconds. Its value is free and may
// wrap; it should be monotonic and must not be slewed or set on purpose, as
// timesync.NowUsec. A client must give the clock that its remote clock is given.
type Loop struct {
	cfg    Config
	remote RemoteClock // nil on a server
	skew   interface{ Skew() (float64, bool) }
	bound  interface {
		ErrorBound(uint64) (time.Duration, bool)
	}
	snap              atomic.Pointer[snapshot] // what readers see; nil while the clocks are not known
	next              atomic.Int64             // the tick to run next
	refused, oldEpoch atomic.Uint64
	frame             Clocks // see Frame

	mu       sync.Mutex       // guards what follows; not held while handlers run
	now      snapshot         // the clocks at the last Advance
	moved    [3]time.Duration // by how much they moved then, steps apart
	pins     [3]time.Duration // what the last tick saw of them
	started  bool
	inited   bool // the clocks are known
	busy     bool // Advance is running
	run      int  // number of the Start; each Stop ends one
	synced   bool
	isSynced chan struct{} // closed when synced
	events   []Event       // not yet reported
	stats    Stats
	peers    map[uint64]bool // server: who has sent a Hello

	welcome  Welcome // client: the last one
	welcomed bool
	near     uint64 // client: what the remote clock read
	nearAt   uint64 // when the local clock read this
}

// Which clock, in snapshot.lines.
const (
	shared = iota
	server
	predicted
)

// snapshot is the clocks as lines over the local clock.
type snapshot struct {
	at      uint64 // where the lines start, reading of the local clock
	skewPPB int64
	lines   [3]line
	paused  bool
	rate    Rate
	epoch   uint32
}

type line struct {
	base time.Duration // game time at its start
	slew Slew
}

// maxAhead, in microseconds, bounds how far a line is followed: 73 years. With it,
// sums do not overflow.
const maxAhead = maxStart / 1000

// read returns a clock at nowUsec. A time before the start counts as the start, so
// that a reader who took the time just before an Advance does not see time go back.
func (s *snapshot) read(i int, nowUsec uint64) time.Duration {
	l := &s.lines[i]
	usec := int64(nowUsec - s.at)
	if usec <= 0 || s.paused {
		return l.base
	}
	ns := min(usec, maxAhead) * 1000
	forward := time.Duration(ns + share(ns, s.skewPPB))
	if left := l.slew.Left; left != 0 {
		slewed := min(time.Duration(share(ns, l.slew.PPM*1000)), max(left, -left))
		if left < 0 {
			slewed = -slewed
		}
		forward = max(forward+slewed, 0)
	}
	return min(l.base+forward, 2*maxStart)
}

// share returns the given parts in 10^9 of ns, ns >= 0, rounded toward zero.
func share(ns, ppb int64) int64 {
	if ns < math.MaxInt64/billion {
		return ns * ppb / billion
	}
	return ns/billion*ppb + ns%billion*ppb/billion
}

// NewServer returns the loop of a server or host, stopped. It panics if the
// configuration is not valid.
func NewServer(cfg Config) *Loop {
	if cfg.Provider == nil {
		cfg.Provider = ServerProvider{}
	}
	return newLoop(cfg, nil)
}

// NewClient returns the loop of a client that follows a remote clock, stopped. It
// panics if the configuration is not valid or remote is nil.
func NewClient(cfg Config, remote RemoteClock) *Loop {
	if remote == nil {
		panic("tick: NewClient without a remote clock")
	}
	if cfg.Provider == nil {
		cfg.Provider = &ClientProvider{}
	}
	return newLoop(cfg, remote)
}

func newLoop(cfg Config, remote RemoteClock) *Loop {
	if !cfg.Rate.Valid() || cfg.MaxTicks < 0 || cfg.Past < 0 || cfg.Future < 0 {
		panic("tick: invalid Config")
	}
	if cfg.Clock == nil {
		cfg.Clock = timesync.NowUsec
	}
	if cfg.Logf == nil {
		cfg.Logf = log.Printf
	}
	l := &Loop{cfg: cfg, remote: remote, isSynced: make(chan struct{})}
	l.skew, _ = remote.(interface{ Skew() (float64, bool) })
	l.bound, _ = remote.(interface {
		ErrorBound(uint64) (time.Duration, bool)
	})
	l.clear()
	l.now.epoch = cfg.Epoch
	return l
}

// clear sets what a Start finds.
func (l *Loop) clear() {
	l.now = snapshot{rate: l.cfg.Rate.orDefault(), epoch: l.now.epoch}
	l.moved = [3]time.Duration{}
	l.started, l.inited, l.welcomed, l.welcome = false, false, false, Welcome{}
	l.peers, l.events = map[uint64]bool{}, nil
	l.unsync()
}

func (l *Loop) unsync() {
	if l.synced {
		l.synced, l.isSynced = false, make(chan struct{})
	}
}

// Start starts the clocks and the loop: on a server at once, at FirstTick, on a
// client when the first Welcome and the remote clock are there; the first tick is
// then the next one that begins, whatever went before. It does nothing if the loop is
// started.
func (l *Loop) Start(nowUsec uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started {
		return
	}
	l.started, l.stats, l.now.at = true, Stats{}, nowUsec
	l.refused.Store(0)
	l.oldEpoch.Store(0)
	if l.remote != nil {
		return
	}
	first := l.now.rate.Duration(l.cfg.FirstTick)
	if _, part := floorDiv(int64(first), 1000); part != 0 {
		first += time.Duration(1000 - part) // a whole microsecond, for OriginUsec
	}
	for i := range l.now.lines {
		l.now.lines[i].base = min(max(first, -maxStart), maxStart)
		l.pins[i] = math.MinInt64
	}
	l.inited = true
	l.setNext(l.now.rate.Ticks(l.now.lines[predicted].base))
	l.sync()
	l.publish()
}

// Stop stops the loop at once, also from inside of a handler, and forgets the server
// and the peers. A server that is started again is in the next epoch. It does nothing
// if the loop is stopped.
func (l *Loop) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started {
		return
	}
	if l.remote == nil {
		l.now.epoch++
	}
	l.run++
	l.clear()
	l.snap.Store(nil)
}

// Pause stops the clocks and the ticks. All peers should pause at the same time, or
// the others step when this one resumes.
func (l *Loop) Pause(nowUsec uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inited && !l.now.paused {
		l.move(nowUsec)
		l.now.paused = true
		l.publish()
	}
}

// Resume ends a pause: the clocks go on where they were. If the server paused for
// equally long, give a client the server's new Welcome before; it then ticks on as if
// nothing had been, and otherwise it steps.
func (l *Loop) Resume(nowUsec uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now.paused {
		l.move(nowUsec)
		l.now.paused = false
		l.publish()
	}
}

// SetBuffers changes the buffers of a client, as for another platform; see Config. A
// change is slewed, stepped if it is large, and left alone while a clock is within the
// provider's DeadBand of its new target.
func (l *Loop) SetBuffers(client, server time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg.ClientBuffer, l.cfg.ServerBuffer = client, server
}

// WaitSynced waits until the loop is synchronized with the server, a server until it
// is started, or returns the error of ctx. Another goroutine must advance the loop.
func (l *Loop) WaitSynced(ctx context.Context) error {
	l.mu.Lock()
	done := l.isSynced
	l.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Shared returns the shared clock at nowUsec; for the others see Server and
// Predicted. ok is false while it is not known. For increasing nowUsec it goes back
// only where Stepped, EpochChanged or Start is between. It takes no lock and does not
// allocate.
func (l *Loop) Shared(nowUsec uint64) (t Time, ok bool) { return l.clock(shared, nowUsec) }

// Server returns the server clock, like Shared.
func (l *Loop) Server(nowUsec uint64) (t Time, ok bool) { return l.clock(server, nowUsec) }

// Predicted returns the predicted clock, like Shared.
func (l *Loop) Predicted(nowUsec uint64) (t Time, ok bool) { return l.clock(predicted, nowUsec) }

func (l *Loop) clock(i int, nowUsec uint64) (Time, bool) {
	s := l.snap.Load()
	if s == nil {
		return Time{}, false
	}
	return s.rate.time(s.read(i, nowUsec)), true
}

// Fraction returns how far predicted time is from the start of the last tick that ran
// to the start of the next, in [0, 1], for interpolation between their results
// (tick_factor).
func (l *Loop) Fraction(nowUsec uint64) float64 {
	s := l.snap.Load()
	if s == nil {
		return 0
	}
	last := s.rate.Time(Tick(l.next.Load())-1, 0)
	past := s.read(predicted, nowUsec) - last.Time()
	return min(max(float64(past)/float64(last.FixedDelta()), 0), 1)
}

// Frame returns the clocks of the tick that is running, and between ticks those of
// the last Advance: they stay as they are during a frame. Only the goroutine that
// advances the loop may call it.
func (l *Loop) Frame() Clocks { return l.frame }

// Stats returns the counts.
func (l *Loop) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Refused, s.OldEpoch = l.refused.Load(), l.oldEpoch.Load()
	if l.inited {
		s.Debt = max(l.now.rate.Ticks(l.now.lines[predicted].base)-Tick(l.next.Load())+1, 0)
	}
	return s
}

// Advance advances the clocks to nowUsec and runs the ticks that have become due
// (AdvanceNetworkTime): those that start at or before predicted time, each once and
// in order, see Config.MaxTicks. It returns how many. Call it in every frame.
func (l *Loop) Advance(nowUsec uint64) (ticks int) { return l.advance(nowUsec, false) }

// Step is Advance for a physics engine that steps at the tick rate by a clock of its
// own (sync_to_physics): call it in every physics step instead. It runs one tick, also
// if that is early by less than a tick; none if it is earlier; and if the loop is a
// tick or more behind, those ticks too.
func (l *Loop) Step(nowUsec uint64) (ticks int) { return l.advance(nowUsec, true) }

func (l *Loop) advance(nowUsec uint64, single bool) (ticks int) {
	l.mu.Lock()
	if l.busy {
		l.mu.Unlock()
		panic("tick: Advance called by a handler or from two goroutines")
	}
	l.busy = true
	due := l.due(nowUsec, single)
	run, events := l.run, l.events
	l.events = nil
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.busy = false
		l.mu.Unlock()
	}()
	for _, e := range events {
		if e.Kind == RateMismatch && l.cfg.OnMismatch == Warn {
			l.cfg.Logf("tick: %v", e)
		}
		if l.cfg.Event != nil {
			l.cfg.Event(e)
		}
	}
	if due == 0 {
		return 0
	}
	frame := l.frame
	if l.cfg.BeforeLoop != nil {
		l.cfg.BeforeLoop()
	}
	for ; due > 0; due-- {
		s, ok := l.begin(run)
		if !ok {
			break
		}
		ticks++
		l.frame = s.Clocks
		for _, f := range [...]func(Step){l.cfg.BeforeTick, l.cfg.Tick, l.cfg.AfterTick} {
			if f != nil {
				f(s)
			}
		}
	}
	l.frame = frame
	if l.cfg.AfterLoop != nil {
		l.cfg.AfterLoop()
	}
	return ticks
}

// begin takes the next tick, unless a handler has stopped or paused the loop.
func (l *Loop) begin(run int) (Step, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run != run || !l.inited || l.now.paused {
		return Step{}, false
	}
	r, n := l.now.rate, Tick(l.next.Add(1)-1)
	l.stats.Ticks++
	s := Step{Tick: n, Delta: r.Time(n, 0).FixedDelta()}
	back := l.now.lines[predicted].base - r.Duration(n)
	for i, c := range s.list() {
		*c = r.time(l.pinned(i, back))
	}
	s.Predicted = r.Time(n, 0)
	return s, true
}

// pinned returns what a clock read when predicted time was back earlier: within the
// last frame both moved evenly, and before it they are taken to go alike, but not so
// that a tick would see less than the one before. (The Network Time System takes them
// to go alike always, and in whole ticks.)
func (l *Loop) pinned(i int, back time.Duration) time.Duration {
	frame := l.moved[predicted]
	if 0 < back && back < frame {
		back = mulDiv(back, l.moved[i], frame)
	}
	l.pins[i] = max(l.now.lines[i].base-back, l.pins[i])
	return l.pins[i]
}

// due advances the clocks and returns how many ticks to run.
func (l *Loop) due(nowUsec uint64, single bool) int {
	if !l.started {
		return 0
	}
	if int64(nowUsec-l.now.at) < 0 {
		l.stats.Backwards++
		nowUsec = l.now.at
	}
	gap := time.Duration(min(nowUsec-l.now.at, maxAhead)) * time.Microsecond
	l.move(nowUsec)
	if l.now.paused {
		l.publish()
		return 0
	}
	target := l.target()
	if !l.inited {
		if !target.Known {
			return 0
		}
		l.init(target)
		gap = 0
	}
	if target.Known && !l.synced {
		l.sync()
	}
	l.steer(target)
	l.publish()
	l.frame = l.clocks()
	return l.plan(gap, single)
}

// move moves the clocks to nowUsec and ends the slews.
func (l *Loop) move(nowUsec uint64) {
	if int64(nowUsec-l.now.at) < 0 {
		return
	}
	var lines [3]line
	for i, old := range l.now.lines {
		lines[i].base = l.now.read(i, nowUsec)
		l.moved[i] = lines[i].base - old.base
	}
	l.now.lines, l.now.at = lines, nowUsec
}

// target returns where the clocks of a client should be.
func (l *Loop) target() (t Target) {
	if l.remote == nil || !l.welcomed {
		return Target{}
	}
	now := l.now.at
	remote, ok := l.remote.RemoteTime(now, l.near+(now-l.nearAt))
	delay, okDelay := l.remote.MinimumOneWayDelay()
	game := int64(remote - l.welcome.OriginUsec)
	ok = ok && okDelay && 0 <= delay && delay <= time.Hour && -maxAhead <= game && game <= maxAhead
	if ok && l.bound != nil && l.cfg.SyncBound > 0 {
		limit := l.cfg.SyncBound
		if l.synced {
			limit *= 2
		}
		bound, known := l.bound.ErrorBound(now)
		ok = known && bound <= limit
	}
	if !ok {
		if l.synced {
			l.unsync()
			l.stats.Losses++
			l.report(Event{Kind: Lost})
		}
		return Target{}
	}
	l.near, l.nearAt = remote, now
	if l.skew != nil {
		if ppm, known := l.skew.Skew(); known && !math.IsNaN(ppm) {
			t.SkewPPB = int64(math.Round(min(max(ppm*1000, -maxSkewPPB), maxSkewPPB)))
		}
	}
	at := l.now.rate.time(time.Duration(game) * time.Microsecond)
	t.Shared = at
	t.Server = at.Add(-delay - buffer(l.cfg.ClientBuffer, l.now.rate.Duration(1)))
	t.Predicted = at.Add(delay + buffer(l.cfg.ServerBuffer, l.now.rate.Duration(2)))
	t.Known = true
	return t
}

func buffer(set, whenZero time.Duration) time.Duration { return max(orDefault(set, whenZero), 0) }

// init lets the provider set the clocks of a client.
func (l *Loop) init(target Target) {
	approval := l.welcome.Rate.Time(l.welcome.Tick, 0).In(l.now.rate)
	c := Clocks{approval, approval, approval}
	l.cfg.Provider.Init(&c, target)
	again := l.stats.Ticks > 0 // a new epoch
	old := l.now.lines[predicted].base
	l.set(&c)
	l.inited = true
	if again {
		l.step(old)
	} else {
		l.setNext(firstFrom(c.Predicted))
	}
}

// steer asks the provider for the pace.
func (l *Loop) steer(target Target) {
	old := l.now.lines[predicted].base
	c := l.clocks()
	pace, ok := l.cfg.Provider.Advance(&c, target)
	if !ok {
		l.set(&c)
		l.step(old)
	}
	l.now.skewPPB = min(max(pace.SkewPPB, -maxSkewPPB), maxSkewPPB)
	for i, s := range [3]Slew{pace.Shared, pace.Server, pace.Predicted} {
		l.now.lines[i].slew = Slew{min(max(s.Left, -maxStart), maxStart), min(max(s.PPM, 0), 1_000_000)}
	}
}

// clocks returns the clocks at the last Advance.
func (l *Loop) clocks() (c Clocks) {
	for i, t := range c.list() {
		*t = l.now.rate.time(l.now.lines[i].base)
	}
	return c
}

// set sets the clocks, which makes the last frame useless for pinned.
func (l *Loop) set(c *Clocks) {
	for i, t := range c.list() {
		l.now.lines[i] = line{base: min(max(t.Time(), -2*maxStart), 2*maxStart)}
		l.pins[i] = math.MinInt64
	}
	l.moved = [3]time.Duration{}
}

// step reports that predicted time was set from old to what it is, and goes on with
// the tick that is running now, or after it if that is run already.
func (l *Loop) step(old time.Duration) {
	e := Event{Kind: Stepped, By: l.now.lines[predicted].base - old, First: Tick(l.next.Load())}
	running := l.now.rate.Ticks(l.now.lines[predicted].base)
	e.Last = running - 1
	l.stats.Steps++
	if e.By < 0 && running < e.First-1 {
		e.First, e.Last, e.Again = running+1, e.First-1, true
		l.setNext(e.First)
	} else if e.First <= running {
		l.stats.Skipped += uint64(running - e.First)
		l.setNext(running)
	}
	l.report(e)
}

// plan applies the policies and returns how many ticks to run.
func (l *Loop) plan(gap time.Duration, single bool) int {
	next := Tick(l.next.Load())
	last := l.now.rate.Ticks(l.now.lines[predicted].base)
	if single && next == last+1 {
		last = next
	}
	due := int64(max(last-next+1, 0))
	stall := orDefault(l.cfg.StallThreshold, defaultStall)
	if stall > 0 && gap > stall {
		l.stats.Stalls++
		l.skip(max(due-1, 0), Event{Kind: Stalled, By: gap})
		return int(min(due, 1))
	}
	most := int64(orDefault(l.cfg.MaxTicks, defaultMaxTicks))
	if due <= most || l.cfg.CatchUp == RunAll {
		return int(min(due, math.MaxInt32))
	}
	keep := most
	switch l.cfg.CatchUp {
	case Jump:
		keep = 1
	case Keep:
		if keep = due; stall > 0 {
			keep = max(min(due, int64(l.now.rate.Ticks(stall))), most)
		}
	}
	if keep < due {
		l.skip(due-keep, Event{Kind: Skipped})
	}
	return int(min(keep, most))
}

// skip skips n ticks and reports them with e.
func (l *Loop) skip(n int64, e Event) {
	next := Tick(l.next.Load())
	e.First, e.Last = next, next+Tick(n)-1
	l.stats.Skipped += uint64(n)
	l.setNext(next + Tick(n))
	l.report(e)
}

func (l *Loop) sync() {
	l.synced = true
	close(l.isSynced)
	l.report(Event{Kind: Synced, Epoch: l.now.epoch})
}

func (l *Loop) report(e Event) {
	e.AtUsec = l.now.at
	l.events = append(l.events, e)
}

func (l *Loop) setNext(n Tick) { l.next.Store(int64(n)) }

func (l *Loop) publish() { s := l.now; l.snap.Store(&s) }

// firstFrom returns the first tick that starts at or after t.
func firstFrom(t Time) Tick {
	if t.Offset() > 0 {
		return t.Tick() + 1
	}
	return t.Tick()
}

// mulDiv returns a*b/c for 0 <= a <= c and b >= 0.
func mulDiv(a, b, c time.Duration) time.Duration {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c)) // a <= c, so q <= b: no overflow
	return time.Duration(q)
}

// Run starts the loop and advances it by Config.Clock until ctx ends or the loop is
// stopped, then stops it. It waits for the moment at which the next tick starts, not
// for a time between ticks: a late tick does not delay those that follow. It returns
// the error of ctx, or nil if the loop was stopped.
func (l *Loop) Run(ctx context.Context) error {
	l.Start(l.cfg.Clock())
	defer l.Stop()
	l.mu.Lock()
	run := l.run
	l.mu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		l.Advance(l.cfg.Clock())
		l.mu.Lock()
		stopped := l.run != run
		l.mu.Unlock()
		if stopped {
			return nil
		}
		timer.Reset(l.wait(l.cfg.Clock()))
	}
}

// maxWait is how long Run waits at most, so that it notices what the network changes:
// the first synchronization, a Welcome, a step.
const maxWait = 50 * time.Millisecond

// wait returns how long it is until the next tick starts.
func (l *Loop) wait(nowUsec uint64) time.Duration {
	s := l.snap.Load()
	if s == nil {
		return maxWait / 10
	}
	if s.paused {
		return maxWait
	}
	until := s.rate.Duration(Tick(l.next.Load())) - s.read(predicted, nowUsec)
	return min(max(until+time.Microsecond, 0), maxWait)
}
