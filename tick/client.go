// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"cmp"
	"time"
)

// Client is the game time and the ticks of a client, which follows a server. NewClient
// makes one.
//
// Any goroutine may call any method at any time. Handlers are called by the goroutine
// that is in Advance, AdvanceOne or Run, and one such call at a time does something.
// SharedTime, ServerTime, PredictedTime, Snapshot, Epoch, Fraction and Accept take no lock.
//
// Times are readings of the local clock in microseconds, the same that the remote
// clock is given. Its value is free and may wrap; it should be monotonic and must not
// be slewed or set on purpose, as that of package clock. Pass clock.Received for the time
// of receipt, clock.Now for all others. It need not run while the machine sleeps.
type Client struct {
	loop
	readers
	conf     ClientConfig
	welcomes welcomes // what the server says of its game time
	remote   remote   // what its clock shows
	buffers  buffers  // how far the clocks are to be apart
	heard    vitals   // when the server was heard last
	frozen   bool     // the client has entered a paused epoch, and pauses with its server
	entered  uint64   // when the clocks began, reading of the local clock
	steered  uint64   // the last Advance outside of a pause, so
	counts   uint64   // from when on the arrival of a state says something of the path
	// since when nothing but the error bound is in the way of the first synchronization
	wide vitals

	// Where clocks should have been at the last Advance: the predicted clock, and both without
	// buffers, by the remote clock.
	goal, fastestFrom, fastestTo time.Duration
}

// hang is how long an Advance may take to come, in a slow frame. After more, the program hung.
const hang = 250 * time.Millisecond

// NewClient returns a client that follows a remote clock, stopped. The error says what
// is wrong with cfg, or that remote is nil.
func NewClient(cfg ClientConfig, remote RemoteClock) (*Client, error) {
	c := &Client{}
	if err := cmp.Or(cfg.complete(), c.remote.follow(remote)); err != nil {
		return nil, err
	}
	cfg.Provider = cmp.Or[Provider](cfg.Provider, &clientProvider{ClientConfig: cfg})
	c.conf, c.neverBack = cfg, cfg.NeverBack
	c.loop.init(c, &c.readers, cfg.Config, cfg.Handlers)
	return c, nil
}

func (c *Client) begin() {
	c.welcomes, c.buffers, c.heard, c.frozen = welcomes{}, buffers{}, vitals{}, false
	c.wide = vitals{}
}

// paused notes a Pause or a Resume.
func (c *Client) paused() {
	c.frozen, c.buffers.rebase = false, true
	clear(c.buffers.sent) // the first of them came in the pause, of which the server tells nothing
	c.welcomes.resumed, c.welcomes.resumeAt = true, reading{c.remote.near.at(c.atUsec), c.atUsec}
}

func (c *Client) setBack(byUsec uint64) {
	for _, at := range []*uint64{
		&c.welcomes.last.atUsec, &c.welcomes.earlier.atUsec, &c.welcomes.resumeAt.atUsec,
		&c.remote.near.atUsec, &c.remote.said.atUsec,
		&c.buffers.refAt, &c.buffers.ahead.atUsec, &c.buffers.behind.atUsec, &c.buffers.hitch.began, &c.buffers.hitch.ended,
		&c.heard.atUsec, &c.entered, &c.steered, &c.counts, &c.wide.atUsec,
	} {
		*at -= byUsec
	}
}

// Follow lets the client follow another remote clock: a fresh synchronizer for a new connection,
// to the same server or to another. The clocks run on until the first Welcome of that server. If
// its epoch is the present one, they are corrected as after any silence. Any other epoch, later or
// earlier, replaces the present one. The error says that remote is nil.
func (c *Client) Follow(remote RemoteClock) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.remote.follow(remote); err != nil {
		return err
	}
	// until track knows the other clock, nothing counts
	c.buffers = buffers{rebase: true}
	c.welcomes.last.ok, c.welcomes.earlier.ok = false, false // but which epochs are over is known
	return nil
}

// SetBuffers changes the buffers, for instance for another platform; see ClientConfig. A small
// change is slewed, a large one is a step. A clock that is within DeadBand of its new place stays.
// The error says that a buffer is longer than an hour.
func (c *Client) SetBuffers(client, server time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	conf := c.conf
	conf.ClientBuffer, conf.ServerBuffer = client, server
	err := conf.complete()
	if err == nil {
		c.conf = conf
	}
	return err
}

// OnWelcome takes the server's Welcome, which arrived at nowUsec. It must be authenticated, since
// it sets the game's time. The first one starts the client. One of another epoch starts it again,
// unpaused, when the remote clock agrees with it; see the section on restarts. A client that
// starts while the server is paused pauses with it.
//
// The error is ErrMessage, or ErrEpoch. ErrEpoch is returned while the client is stopped, for a
// Welcome that a later one overtook, and for an epoch that is over or earlier, unless nothing else
// has come for 3 s. A later Advance may still believe an earlier epoch in which the client never
// was. While very many events wait for an Advance, a Welcome that would add to them is ignored,
// and counted in Stats.EventsLost; the server repeats it.
func (c *Client) OnWelcome(w Welcome, nowUsec uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !w.plausible() {
		return ErrMessage
	}
	if !c.started {
		c.early.Add(1)
		return ErrEpoch
	}
	c.hear(&c.heard, 0, nowUsec)
	came := arrived{w, true, nowUsec}
	if c.welcomes.refuses(came) {
		c.oldEpoch.Add(1)
		return ErrEpoch
	}
	// which are two events
	if len(c.events) >= maxEvents-1 && (w.Epoch != c.now.epoch || !w.Rate.equal(c.now.rate)) {
		c.stats.EventsLost++
		return nil
	}
	c.believe(came)
	return nil
}

// believe takes a Welcome.
func (c *Client) believe(w arrived) {
	if c.now.epoch != 0 && w.Epoch != c.now.epoch {
		c.leave(w.Epoch)
	}
	told := w.Epoch == c.welcomes.last.Epoch && w.Rate.equal(c.welcomes.last.Rate)
	if !c.buffers.rebase && c.welcomes.overlooked(w.Welcome, c.conf.HardThreshold) {
		// states since then came late, but no path is longer
		c.buffers.behind, c.buffers.rebase = follower{}, true
	}
	c.welcomes.repeated = c.welcomes.last.ok && w.Epoch == c.welcomes.last.Epoch
	c.welcomes.last, c.welcomes.earlier = w, arrived{}
	c.now.epoch, c.remote.near = w.Epoch, w.reading()
	c.buffers.hitch.told(w.Welcome, w.atUsec)
	if w.inputs.ticks > 0 && c.now.known {
		c.buffers.inputsArrived(&w.inputs, c.atUsec)
	}
	if !told && !w.Rate.equal(c.now.rate) {
		c.meetRate(w.Rate)
	}
	if c.frozen && !w.Paused {
		c.frozen = false
		c.setPaused(w.atUsec, false)
	}
}

// leave ends the present epoch.
func (c *Client) leave(next uint64) {
	c.report(Event{Kind: EventEpochChanged, Epoch: next})
	c.welcomes.leave(c.now.epoch)
	c.buffers = buffers{}
	c.now.known, c.now.paused, c.frozen = false, false, false
	c.unsync()
	c.snap.Store(&snapshot{})
}

// meetRate reports that the server has another rate, and takes it if that is configured: the time
// stays, the ticks are counted anew.
func (c *Client) meetRate(r Rate) {
	e := Event{Kind: EventRateMismatch, Rate: r, Last: -1}
	if c.conf.OnMismatch != MismatchAdjust || r.above(c.cfg.MaxRate) {
		c.report(e)
		return
	}
	c.now.rate = r
	// they are of other ticks
	c.buffers.sent, c.buffers.states, c.buffers.hitch = nil, arrivals{}, hitch{}
	if c.now.known {
		c.publish()
	}
	if c.stats.Ticks == 0 { // so none is left out
		c.setNextTick(c.firstTick())
	}
	c.renumber(c.firstTick(), e)
}

// Hello returns the message to send to the server. ok is false before the client is
// synchronized, and when the server's Welcome says that it has heard it. Send it with
// each datagram, or some times a second, while ok is true.
func (c *Client) Hello() (h Hello, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Hello{c.now.epoch, c.now.rate}, c.synced && !(c.welcomes.last.ok && c.welcomes.last.Heard)
}

// AcceptState is Accept for the state of tick n. If ClientBuffer is zero, it also learns when
// states come, so that the server clock stays far enough behind that the state after the one that
// it shows has come, too. Only the first state of a tick counts. It also notes that the server is
// alive, see EventSilent. It takes a lock.
//
// A state that comes 0.25 s or more after the last Advance, or within 0.25 s of such a late
// Advance, says nothing of the path: it may have waited on this machine while the program hung.
func (c *Client) AcceptState(epoch uint64, n Tick, nowUsec uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.Accept(epoch, n, nowUsec) {
		return false
	}
	c.hear(&c.heard, 0, nowUsec)
	if !c.now.paused {
		waited := elapsed(c.steered, nowUsec) > hang || int64(nowUsec-c.counts) < 0
		c.buffers.stateArrived(n, c.now.rate.Duration(n), c.now.read(server, nowUsec), waited, nowUsec)
	}
	return true
}

// ran notes when the input for a tick is sent.
func (c *Client) ran(n Tick) { c.buffers.inputSent(n, c.now.rate.Duration(n), c.atUsec) }

// steer lets the clocks follow the remote clock, and run on when it is not known.
func (c *Client) steer() {
	if c.now.known && elapsed(c.steered, c.atUsec) > hang {
		c.counts = c.atUsec + uint64(hang.Microseconds())
	}
	c.steered = c.atUsec
	c.watch(&c.heard, 0)
	c.reconsider()
	known := c.aim()
	switch {
	case !known && c.synced:
		c.unsync()
		c.stats.Losses++
		c.report(Event{Kind: EventLost})
	case known && !c.synced:
		if !c.now.known {
			c.enter()
		}
		c.sync()
	}
	if known && c.welcomes.tells(c.atUsec) {
		c.drive()
		c.buffers.driven(c.nextTick())
	}
}

// reconsider believes a Welcome of an earlier epoch when those of the present one have
// stopped and the remote clock agrees with it: the server was started again after its
// wall clock had been set back.
func (c *Client) reconsider() {
	now, w := c.atUsec, c.welcomes.earlier
	if !w.ok || elapsed(c.welcomes.last.atUsec, now) < welcomeGap {
		return
	}
	delay, _ := c.remote.clock.MinimumOneWayDelay()
	if r, ok := c.remote.read(w.reading(), now); ok && w.fits(r, delay, 0) {
		c.believe(w)
	}
}

// aim finds where the clocks should be, the targets in steering. known says whether it has.
func (c *Client) aim() (known bool) {
	w, now := &c.welcomes, c.atUsec
	if !w.last.ok {
		return false
	}
	r, ok := c.remote.read(c.remote.near, now)
	from, to, okDelays := c.remote.delays()
	game, most := int64(r.usec-w.last.OriginUsec), c.conf.SyncBound
	bound, bounded := c.remote.clock.ErrorBound(now)
	if c.synced {
		most = satAdd(most, most)
	}
	if !ok || !okDelays || game < -maxAhead || game > maxAhead ||
		!w.agrees(r, from, c.now.known, c.stats.Ticks == 0) {
		return false
	}
	if most > 0 && !(bounded && bound <= most) {
		c.tooWide(bound)
		return false
	}
	if by, updated := c.remote.note(r); updated && c.on.AfterSync != nil {
		c.report(Event{Kind: eventUpdated, By: by})
	}
	if c.now.known && !w.tells(now) {
		c.buffers.rebase = true // where game time will go on, nobody knows
		return true
	}
	at := time.Duration(game) * time.Microsecond
	if w.last.Paused {
		at = w.last.Rate.Duration(w.last.Tick)
	}
	c.target(at, at-from, at+to)
	return true
}

// tooWide reports once, after silence, that the error bound is all that is missing.
func (c *Client) tooWide(bound time.Duration) {
	if c.now.known || c.wide.silent {
		return
	}
	if !c.wide.known {
		c.wide.known, c.wide.atUsec = true, c.atUsec
	}
	if elapsed(c.wide.atUsec, c.atUsec) >= silence && len(c.events) < maxEvents {
		c.wide.silent = true
		c.report(Event{Kind: EventTooWide, By: bound, Last: -1})
	}
}

// target sets the targets, given the shared clock, and the times of which the fastest datagrams
// arrive from the server, and at it.
func (c *Client) target(at, early, late time.Duration) {
	b, s, now, skew := &c.buffers, &c.steering, c.atUsec, c.remote.ppb
	if c.conf.HardOnly {
		skew = 0
	}
	b.track(at, skew, c.conf.HardThreshold, now)
	s.Age = elapsed(c.entered, now)
	s.SharedTime = Steered{Target: at}
	s.ServerTime = Steered{Target: early - max(c.conf.ClientBuffer, 0)}
	s.PredictedTime = Steered{Target: late + max(c.conf.ServerBuffer, 0)}
	share, rate := c.conf.LateShare/2, c.now.rate // with room for what is not known yet
	if c.conf.ClientBuffer == 0 {
		behind := b.behind.distance(b.ref-early, rate.Duration(1), b.every, share, now)
		s.ServerTime = Steered{Target: b.ref - behind, Measured: b.behind.tally.all > 0}
		s.ServerTime.Late = b.behind.jumps(c.latest(server) - s.ServerTime.Target)
	}
	if c.conf.ServerBuffer == 0 {
		// A tick is played by the frame after its start, and of more than MaxTicks the oldest are
		// skipped.
		frame := min(c.frames.usual(), rate.Duration(Tick(c.cfg.MaxTicks)))
		ahead := b.ahead.distance(late-b.ref, rate.Duration(2), frame, share, now)
		s.PredictedTime = Steered{Target: b.ref + ahead, Measured: b.ahead.tally.all > 0}
		s.PredictedTime.Late = b.ahead.jumps(s.PredictedTime.Target - c.latest(predicted))
	}
	for _, k := range s.clocks() {
		k.At, k.Pace.SkewPPB = k.Target, skew
	}
	c.goal, c.fastestFrom, c.fastestTo = s.PredictedTime.Target, early, late
}

// enter starts the clocks of an epoch. Ticks that have run in the one before make it
// a step.
func (c *Client) enter() {
	old, s := c.latest(predicted), c.steering // a copy: drive needs it as it is
	c.now.courses = [3]course{}               // the past was another time
	c.frozen, c.now.paused = c.welcomes.last.Paused, c.welcomes.last.Paused
	c.cfg.Provider.InitializeClient(&s)
	for i, k := range s.clocks() {
		c.set(i, within(k.At), k.Pace.limited())
	}
	c.now.known, c.entered, c.counts = true, c.atUsec, c.atUsec
	if c.stats.Ticks > 0 {
		c.step(old, false)
	} else {
		c.setNextTick(c.firstTick())
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
func (c *Client) Timing() (t Timing, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.now.known {
		return Timing{}, false
	}
	return Timing{
		Lead: c.latest(predicted) - c.latest(shared), Delay: c.latest(shared) - c.latest(server),
		ServerBuffer: c.latest(predicted) - c.fastestTo, ClientBuffer: c.fastestFrom - c.latest(server),
		Error:      c.goal - c.latest(predicted),
		LateInputs: c.buffers.ahead.tally.share(), LateStates: c.buffers.behind.tally.share(),
		ServerDebt: c.welcomes.last.Debt,
		HeardUsec:  c.heard.atUsec,
		Silent:     c.heard.silent,
	}, true
}
