// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"cmp"
	"time"
)

// Client is the game time and the ticks of a client, which follows a server. NewClient
// makes one.
//
// Any goroutine may call any method at any time. Handlers run in the goroutine that calls Advance,
// AdvanceOne or Run. Of several calls at a time one does the work, and the others do nothing.
// SharedTime, ServerTime, PredictedTime, Snapshot, Epoch, Fraction and Accept take no lock.
//
// Times are readings of the local clock in microseconds, the same that the remote clock is given.
// They may start anywhere and wrap. The clock should be monotonic, such as that of package clock;
// do not slew or set it on purpose. Pass clock.Received for the time of receipt, clock.Now for all
// others. The clock need not run while the machine sleeps.
type Client struct {
	loop
	readers
	conf     ClientConfig
	welcomes welcomes // what the server says of its game time
	remote   remote   // what its clock shows
	buffers  buffers  // how far apart the clocks must be
	heard    vitals   // when the server was heard last
	tooWide  tooWide
	frozen   bool // the client has entered a paused epoch, and pauses with its server

	// Readings of the local clock, us.
	entered    uint64 // when the clocks began
	steered    uint64 // the last Advance outside of a pause
	countsFrom uint64 // from when on the arrival of a state says something of the path

	// Game times of the last Advance.
	goal        time.Duration // where the predicted clock should have been
	fastestFrom time.Duration // where the server clock should have been, without a buffer
	fastestTo   time.Duration // and the predicted clock
}

// tooWide is the time in which only the error bound keeps a client from its first
// synchronization.
type tooWide struct {
	waits    bool   // the bound alone is missing
	reported bool   // by EventTooWide
	since    uint64 // local time, us
}

// A frame that takes longer than hang is not slow: the program hung.
const hang = 250 * time.Millisecond

// NewClient returns a client that follows a remote clock, stopped. The error says what
// is wrong with cfg, or that remote is nil.
func NewClient(cfg ClientConfig, remote RemoteClock) (*Client, error) {
	c := &Client{}
	if err := cmp.Or(cfg.complete(), c.remote.follow(remote)); err != nil {
		return nil, err
	}
	cfg.Provider = cmp.Or[Provider](cfg.Provider, &clientProvider{ClientConfig: cfg})
	c.conf = cfg
	c.neverBack = cfg.NeverBack
	c.loop.init(c, &c.readers, cfg.Config, cfg.Handlers)
	return c, nil
}

func (g *Client) begin() {
	g.welcomes = welcomes{}
	g.buffers = buffers{}
	g.heard = vitals{}
	g.frozen = false
	g.tooWide = tooWide{}
}

// paused notes a Pause or a Resume.
func (g *Client) paused() {
	g.frozen = false
	g.buffers.rebase = true
	clear(g.buffers.sent) // of inputs that came in a pause the server says nothing
	g.welcomes.resumed = true
	g.welcomes.resumeAt = reading{g.remote.near.at(g.atUsec), g.atUsec}
}

func (g *Client) setBack(byUsec uint64) {
	for _, at := range []*uint64{
		&g.welcomes.last.atUsec, &g.welcomes.earlier.atUsec, &g.welcomes.resumeAt.atUsec,
		&g.remote.near.atUsec, &g.remote.said.atUsec,
		&g.buffers.refAt, &g.buffers.ahead.atUsec, &g.buffers.behind.atUsec,
		&g.buffers.hitch.began, &g.buffers.hitch.ended,
		&g.heard.atUsec, &g.entered, &g.steered, &g.countsFrom, &g.tooWide.since,
	} {
		*at -= byUsec
	}
}

// Follow lets the client follow another remote clock: a fresh synchronizer for a new connection,
// to the same server or to another. The clocks run on until the first Welcome of that server. If
// its epoch is the present one, they are corrected as after any silence. Any other epoch, later or
// earlier, replaces the present one. A stopped client follows it from the next Start on. The error
// says that remote is nil.
func (g *Client) Follow(remote RemoteClock) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.remote.follow(remote); err != nil {
		return err
	}
	g.buffers = buffers{rebase: true} // until track knows the other clock, nothing counts
	// The old Welcomes no longer count, but it is still known which epochs are over.
	g.welcomes.last.ok = false
	g.welcomes.earlier.ok = false
	return nil
}

// SetBuffers changes the buffers, for instance for another platform; see ClientConfig. A small
// change is slewed, a large one is a step. A clock that is within DeadBand of its new place stays.
// The error says that a buffer is longer than an hour.
func (g *Client) SetBuffers(client, server time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	conf := g.conf
	conf.ClientBuffer = client
	conf.ServerBuffer = server
	if err := conf.complete(); err != nil {
		return err
	}
	g.conf = conf
	return nil
}

// OnWelcome takes the server's Welcome, which arrived at nowUsec. It must be authenticated, since
// it sets the game's time. The first one starts the client. One of another epoch starts it again,
// unpaused, when the remote clock agrees with it; see the section on restarts. A client that
// starts while the server is paused pauses with it.
//
// The error is ErrMessage, or ErrEpoch. ErrEpoch is returned while the client is stopped, for a
// Welcome that a later one overtook, and for an epoch that is over or earlier, unless nothing else
// has come for 3 s. Ignore it: it is normal at a join and after a hang. A later Advance may still
// believe an earlier epoch in which the client never was. While very many events wait for an
// Advance, a Welcome that would add to them is ignored, and counted in Stats.EventsLost; the server
// repeats it.
func (g *Client) OnWelcome(w Welcome, nowUsec uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !w.plausible() {
		return ErrMessage
	}
	if !g.started {
		g.early.Add(1)
		return ErrEpoch
	}
	g.hear(&g.heard, 0, nowUsec)
	came := arrived{w, true, nowUsec}
	if g.welcomes.refuses(came) {
		g.oldEpoch.Add(1)
		return ErrEpoch
	}
	// Another epoch and another rate are an event each.
	addsEvents := w.Epoch != g.now.epoch || !w.Rate.equal(g.now.rate)
	if addsEvents && len(g.events) >= maxEvents-1 {
		g.stats.EventsLost++
		return nil
	}
	g.believe(came)
	return nil
}

// believe takes a Welcome.
func (g *Client) believe(w arrived) {
	if g.now.epoch != 0 && w.Epoch != g.now.epoch {
		g.leave(w.Epoch)
	}
	told := w.Epoch == g.welcomes.last.Epoch && w.Rate.equal(g.welcomes.last.Rate)
	if !g.buffers.rebase && g.welcomes.overlooked(w.Welcome, g.conf.HardThreshold) {
		g.buffers.behind = follower{} // states came late because of the pause, not of the path
		g.buffers.rebase = true
	}
	g.welcomes.repeated = g.welcomes.last.ok && w.Epoch == g.welcomes.last.Epoch
	g.welcomes.last = w
	g.welcomes.earlier = arrived{}
	g.now.epoch = w.Epoch
	g.remote.near = w.reading()
	g.buffers.hitch.told(w.Welcome, w.atUsec)
	if w.inputs.ticks > 0 && g.now.known {
		g.buffers.inputsArrived(&w.inputs, g.atUsec)
	}
	if !told && !w.Rate.equal(g.now.rate) {
		g.meetRate(w.Rate)
	}
	if g.frozen && !w.Paused {
		g.frozen = false
		g.setPaused(w.atUsec, false)
	}
}

// leave ends the present epoch.
func (g *Client) leave(next uint64) {
	g.report(Event{Kind: EventEpochChanged, Epoch: next})
	g.welcomes.leave(g.now.epoch)
	g.buffers = buffers{}
	g.now.known = false
	g.now.paused = false
	g.frozen = false
	g.unsync()
	g.snap.Store(&snapshot{})
}

// meetRate reports that the server has another rate, and takes it if that is configured: the time
// stays, the ticks are counted anew.
func (g *Client) meetRate(r Rate) {
	e := Event{Kind: EventRateMismatch, Rate: r, Last: -1}
	if g.conf.OnMismatch != MismatchAdjust || r.above(g.cfg.MaxRate) {
		g.report(e)
		return
	}
	g.now.rate = r
	// What is known of ticks is of other ticks than those from now on.
	g.buffers.sent = nil
	g.buffers.states = arrivals{}
	g.buffers.hitch = hitch{}
	if g.now.known {
		g.publish()
	}
	if g.stats.Ticks == 0 { // so none is left out
		g.setNextTick(g.firstTick())
	}
	g.renumber(g.firstTick(), e)
}

// Hello returns the message to send to the server. ok is false before the client is
// synchronized, and when the server's Welcome says that it has heard it. Send it with
// each datagram, or some times a second, while ok is true.
func (g *Client) Hello() (h Hello, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	isHeard := g.welcomes.last.ok && g.welcomes.last.Heard
	return Hello{g.now.epoch, g.now.rate}, g.synced && !isHeard
}

// AcceptState is Accept for the state of tick n. If ClientBuffer is zero, it also learns when
// states come. The server clock then stays so far behind that the state after the one that it
// shows has come, too. Only the first state of a tick counts. It also notes that the server is
// alive, see EventSilent. It takes a lock.
//
// A state that comes 0.25 s or more after the last Advance, or within 0.25 s of such a late
// Advance, says nothing of the path: it may have waited on this machine while the program hung.
func (g *Client) AcceptState(epoch uint64, n Tick, nowUsec uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.Accept(epoch, n, nowUsec) {
		return false
	}
	g.hear(&g.heard, 0, nowUsec)
	if !g.now.paused {
		waited := elapsed(g.steered, nowUsec) > hang || int64(nowUsec-g.countsFrom) < 0
		starts := g.now.rate.Duration(n)
		shown := g.now.read(server, nowUsec)
		g.buffers.stateArrived(n, starts, shown, waited, nowUsec)
	}
	return true
}

// ran notes when the input for a tick is sent.
func (g *Client) ran(n Tick) { g.buffers.inputSent(n, g.now.rate.Duration(n), g.atUsec) }

// steer lets the clocks follow the remote clock, and run on when it is not known.
func (g *Client) steer() {
	if g.now.known && elapsed(g.steered, g.atUsec) > hang {
		g.countsFrom = g.atUsec + uint64(hang.Microseconds())
	}
	g.steered = g.atUsec
	g.watch(&g.heard, 0)
	g.reconsider()
	known := g.aim()
	switch {
	case !known && g.synced:
		g.unsync()
		g.stats.Losses++
		g.report(Event{Kind: EventLost})
	case known && !g.synced:
		if !g.now.known {
			g.enter()
		}
		g.sync()
	}
	if known && g.welcomes.tells(g.atUsec) {
		g.drive()
		g.buffers.driven(g.nextTick())
	}
}

// reconsider believes a Welcome of an earlier epoch when those of the present one have
// stopped and the remote clock agrees with it: the server was started again after its
// wall clock had been set back.
func (g *Client) reconsider() {
	now := g.atUsec
	w := g.welcomes.earlier
	if !w.ok || elapsed(g.welcomes.last.atUsec, now) < welcomeGap {
		return
	}
	delay, _ := g.remote.clock.MinimumOneWayDelay()
	if r, ok := g.remote.read(w.reading(), now); ok && w.fits(r, delay, 0) {
		g.believe(w)
	}
}

// aim finds where the clocks should be, the targets in steering. known says whether it has.
func (g *Client) aim() (known bool) {
	w := &g.welcomes
	now := g.atUsec
	if !w.last.ok {
		return false
	}
	r, ok := g.remote.read(g.remote.near, now)
	from, to, okDelays := g.remote.delays()
	game := int64(r.usec - w.last.OriginUsec)
	most := g.conf.SyncBound
	bound, bounded := g.remote.clock.ErrorBound(now)
	if g.synced {
		most = satAdd(most, most)
	}
	if !ok || !okDelays || game < -maxAhead || game > maxAhead ||
		!w.agrees(r, from, g.now.known, g.stats.Ticks == 0) {
		return false
	}
	if most > 0 && !(bounded && bound <= most) {
		g.waitForBound(bound)
		return false
	}
	by, updated := g.remote.note(r)
	if updated && g.on.AfterSync != nil {
		g.report(Event{Kind: eventUpdated, By: by})
	}
	if g.now.known && !w.tells(now) {
		g.buffers.rebase = true // where game time will go on, nobody knows
		return true
	}
	at := time.Duration(game) * time.Microsecond
	if w.last.Paused {
		at = w.last.Rate.Duration(w.last.Tick)
	}
	g.target(at, at-from, at+to)
	return true
}

// waitForBound reports once, after silence, that the error bound is all that is missing.
func (g *Client) waitForBound(bound time.Duration) {
	if g.now.known || g.tooWide.reported {
		return
	}
	if !g.tooWide.waits {
		g.tooWide.waits = true
		g.tooWide.since = g.atUsec
	}
	if elapsed(g.tooWide.since, g.atUsec) >= silence && len(g.events) < maxEvents {
		g.tooWide.reported = true
		g.report(Event{Kind: EventTooWide, By: bound, Last: -1})
	}
}

// target sets the targets, given the shared clock, and the times of which the fastest datagrams
// arrive from the server, and at it.
func (g *Client) target(at, early, late time.Duration) {
	b := &g.buffers
	s := &g.steering
	now := g.atUsec
	skew := g.remote.ppb
	if g.conf.HardOnly {
		skew = 0
	}
	b.track(at, skew, g.conf.HardThreshold, now)
	s.Age = elapsed(g.entered, now)
	s.SharedTime = Steered{Target: at}
	s.ServerTime = Steered{Target: early - max(g.conf.ClientBuffer, 0)}
	s.PredictedTime = Steered{Target: late + max(g.conf.ServerBuffer, 0)}
	share := g.conf.LateShare / 2 // the other half is room for the errors of the clocks
	rate := g.now.rate
	if g.conf.ClientBuffer == 0 {
		behind := b.behind.distance(b.ref-early, rate.Duration(1), b.every, share, now)
		s.ServerTime = Steered{Target: b.ref - behind, Measured: b.behind.tally.all > 0}
		s.ServerTime.Late = b.behind.jumps(g.latest(server) - s.ServerTime.Target)
	}
	if g.conf.ServerBuffer == 0 {
		// A tick is played by the frame after its start, and of more than MaxTicks the oldest are
		// skipped.
		frame := min(g.frames.usual(), rate.Duration(Tick(g.cfg.MaxTicks)))
		ahead := b.ahead.distance(late-b.ref, rate.Duration(2), frame, share, now)
		s.PredictedTime = Steered{Target: b.ref + ahead, Measured: b.ahead.tally.all > 0}
		s.PredictedTime.Late = b.ahead.jumps(s.PredictedTime.Target - g.latest(predicted))
	}
	for _, k := range s.clocks() {
		k.At = k.Target
		k.Pace.SkewPPB = skew
	}
	g.goal = s.PredictedTime.Target
	g.fastestFrom = early
	g.fastestTo = late
}

// enter starts the clocks of an epoch. Ticks that have run in the one before make it
// a step.
func (g *Client) enter() {
	old, s := g.latest(predicted), g.steering // a copy: drive needs it as it is
	g.now.courses = [3]course{}               // the past was another time
	g.frozen = g.welcomes.last.Paused
	g.now.paused = g.welcomes.last.Paused
	g.cfg.Provider.InitializeClient(&s)
	for i, k := range s.clocks() {
		g.set(i, within(k.At), k.Pace.limited())
	}
	g.now.known = true
	g.entered = g.atUsec
	g.countsFrom = g.atUsec
	if g.stats.Ticks > 0 {
		g.step(old, false)
	} else {
		g.setNextTick(g.firstTick())
	}
}

// Timing is how a client sets its clocks, and how well that works. See ClientConfig.
type Timing struct {
	Lead  time.Duration // predicted clock minus shared clock
	Delay time.Duration // shared clock minus server clock

	// ServerBuffer and ClientBuffer are what Lead and Delay have beyond the shortest delays that
	// the remote clock knows. Negative where it overestimates them.
	ServerBuffer, ClientBuffer time.Duration
	// Error is where the predicted clock should be, minus where it is: what is still to be slewed.
	Error time.Duration

	// LateInputs is the share of the last 2000 to 4000 inputs that came too late; 0 if the server
	// tells none.
	LateInputs float64
	// LateStates is the share of the states that came too late to be shown.
	LateStates float64

	// ServerDebt is how many ticks the server was behind, by its last Welcome.
	ServerDebt Tick

	// HeardUsec is the reading of the local clock when the last Welcome or state arrived.
	HeardUsec uint64
	// Silent says that HeardUsec is more than 3 s ago.
	Silent bool
}

// Timing returns how the clocks are set, as of the last Advance. ok is false while they are not
// known.
func (g *Client) Timing() (t Timing, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.now.known {
		return Timing{}, false
	}
	return Timing{
		Lead:         g.latest(predicted) - g.latest(shared),
		Delay:        g.latest(shared) - g.latest(server),
		ServerBuffer: g.latest(predicted) - g.fastestTo,
		ClientBuffer: g.fastestFrom - g.latest(server),
		Error:        g.goal - g.latest(predicted),
		LateInputs:   g.buffers.ahead.tally.share(),
		LateStates:   g.buffers.behind.tally.share(),
		ServerDebt:   g.welcomes.last.Debt,
		HeardUsec:    g.heard.atUsec,
		Silent:       g.heard.silent,
	}, true
}
