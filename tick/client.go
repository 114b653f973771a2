// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"math"
	"slices"
	"time"
)

// RemoteClock is the server's clock as a client knows it. A *timesync.TimeSynchronizer
// is one as it is, and so are a *link.Link and a *ping.Clock. Its methods are called from the goroutine
// that advances the client, possibly while another one feeds it; they must not call
// the client. ok is false while an answer is not known.
//
// A RemoteClock that also has a method
//
//	MinimumDelayToPeer() (delay time.Duration, ok bool)
//
// says how long the fastest datagrams to the server take of late; see MinimumOneWayDelay for
// those from it. Added to RemoteTime it gives when the fastest one that is sent now arrives at
// the server. A TimeSynchronizer and a Link have it. Without it a client takes both ways to be
// equally long, until the server tells it when its inputs arrive: see Server.Received. A way that
// becomes longer is believed late by both, after seconds to minutes, and at once by what the server
// tells.
type RemoteClock interface {
	// RemoteTime returns what the server's clock shows when the local clock shows
	// localUsec, both in microseconds. It may be off by a multiple of 67,108,864 us, as that
	// of a TimeSynchronizer without an Anchor is.
	RemoteTime(localUsec uint64) (remoteUsec uint64, ok bool)
	// MinimumOneWayDelay returns the shortest time of late that a datagram from the server
	// takes, by RemoteTime. Subtracted from RemoteTime it gives the stamp of the fastest one
	// that arrives now, and that was measured: it does not rest on the assumption that the two
	// ways take equally long. RemoteTime alone does.
	MinimumOneWayDelay() (delay time.Duration, ok bool)
	// Skew returns the rate of the server's clock minus that of the local clock, in
	// parts per million, if it is known to within about 25.
	Skew() (ppm float64, ok bool)
	// ErrorBound returns how far RemoteTime can be off at localUsec while no clock is
	// set, however unequal the two ways are. It is asked if there is a SyncBound.
	ErrorBound(localUsec uint64) (bound time.Duration, ok bool)
}

// toPeer is what a RemoteClock may know besides.
type toPeer interface {
	MinimumDelayToPeer() (delay time.Duration, ok bool)
}

const (
	// ringUsec is what a TimeSynchronizer without an Anchor cannot tell from nothing:
	// 2^23 units of 8 us, 67.1 s.
	ringUsec = 1 << 26
	// welcomeSilence is how long the Welcomes of a server are believed to go on: three
	// of one a second. Then any other is believed.
	welcomeSilence = 3 * time.Second
	// welcomeGap is a second from one Welcome to the next, and what one may be late.
	// After it, one of an earlier epoch is believed if the remote clock agrees.
	welcomeGap = 1200 * time.Millisecond
	// welcomeFresh is how long the last Welcome says what the server's clock shows; it
	// is welcomeSilence of a server that has repeated it. Meanwhile, and when an epoch
	// begins, the remote clock must agree with it: it may show welcomeAhead less. And it may
	// show more, by how long the Welcome travelled: the minimum one-way delay, which is 16 s
	// at most, and up to welcomeLate in queues. It does not agree
	// while it is still that of the server before, or already that of the next, or
	// has noticed one half of a step. A client that has run no ticks yet has no server
	// before: the first Welcome may be very late.
	welcomeFresh     = time.Second
	welcomeAhead     = time.Second
	welcomeLate      = 2 * time.Second
	maxDelay         = 16 * time.Second
	firstWelcomeLate = 30 * time.Second
)

// Client is the game time and the ticks of a client, which follows a server. NewClient
// makes one.
//
// Any goroutine may call any method at any time. Handlers are called by the goroutine
// that is in Advance, Step or Run, and one such call at a time does something.
// Shared, Server, Predicted, Snapshot, Epoch, Fraction and Accept take no lock.
//
// Times are readings of the local clock in microseconds, the same that the remote
// clock is given. Its value is free and may wrap; it should be monotonic and must not
// be slewed or set on purpose, as that of package clock. Pass clock.Received for the time
// of receipt, clock.Now for all others. It need not run while the machine sleeps.
type Client struct {
	loop
	conf     ClientConfig
	remote   RemoteClock
	steering steering
	adapt    adaptation
	fastest  [3]time.Duration // where the remote clock puts the fastest arrivals, at the last Advance
	goal     time.Duration    // of the predicted clock, then

	welcome    arrived   // the last one that is believed, from the server of the remote clock
	repeated   bool      // it was not the first of its epoch and connection
	earlier    arrived   // one of an earlier epoch since then, which may be believed yet
	entered    bool      // now.epoch is an epoch, perhaps that of the server before
	over       [4]uint64 // epochs that were left last: a delayed Welcome may be of one
	serverUsec uint64    // what the server's clock read last, by the Welcome or the remote clock
	serverAt   uint64    // when the local clock read this

	frozen     bool   // the client has entered a paused epoch, and pauses with its server
	resumed    bool   // there was a Resume
	resumeAt   uint64 // when the local clock read so much
	resumeUsec uint64 // and the server's clock this, at the last Resume
}

// arrived is a Welcome that has come, or none.
type arrived struct {
	Welcome
	ok     bool   // there is one
	atUsec uint64 // when it came
}

// age returns for how long it has been there, negative if nowUsec is before it.
func (a arrived) age(nowUsec uint64) time.Duration {
	return time.Duration(max(min(int64(nowUsec-a.atUsec), maxAhead), -maxAhead)) * time.Microsecond
}

// serverNow returns what the server's clock reads at nowUsec if it came without delay.
func (a arrived) serverNow(nowUsec uint64) uint64 { return a.serverUsec() + (nowUsec - a.atUsec) }

// fits reports whether a remote clock that shows remoteUsec at nowUsec is the one that
// it tells of, if it came late by so much at most.
func (a arrived) fits(remoteUsec, nowUsec uint64, late time.Duration) bool {
	ahead := int64(remoteUsec - a.serverNow(nowUsec))
	return -welcomeAhead.Microseconds() <= ahead && ahead <= late.Microseconds()
}

// NewClient returns a client that follows a remote clock, stopped. The error says what
// is wrong with cfg, or that remote is nil.
func NewClient(cfg ClientConfig, remote RemoteClock) (*Client, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if err := checkRemote(remote); err != nil {
		return nil, err
	}
	c := &Client{conf: cfg, remote: remote, steering: newSteering(cfg)}
	c.loop.init(c, cfg.Config, cfg.Handlers)
	return c, nil
}

func (c *Client) begin() {}

func (c *Client) end() {
	c.welcome, c.earlier, c.entered, c.over = arrived{}, arrived{}, false, [4]uint64{}
	c.frozen, c.resumed = false, false
	c.adapt = adaptation{}
}

// paused notes a Pause or a Resume.
func (c *Client) paused() {
	c.frozen, c.adapt.rebase = false, true
	if !c.now.paused {
		c.resumed, c.resumeAt, c.resumeUsec = true, c.atUsec, c.serverUsec+(c.atUsec-c.serverAt)
	}
}

// Follow lets the client follow another remote clock: a fresh synchronizer for a new
// connection, to the same server or to another. The clocks run on until the first
// Welcome of that server. If it is of the present epoch they are corrected as after
// any silence, and otherwise, be the epoch later or earlier, the client enters it. The
// error says that remote is nil.
func (c *Client) Follow(remote RemoteClock) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := checkRemote(remote); err != nil {
		return err
	}
	c.remote, c.welcome.ok, c.earlier.ok = remote, false, false
	c.adapt.restart()
	return nil
}

// SetBuffers changes the buffers, as for another platform; see ClientConfig. A change
// is slewed, stepped if it is large, and left alone while a clock is within DeadBand
// of its new place. The error says that one is longer than an hour.
func (c *Client) SetBuffers(client, server time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := checkBuffers(client, server); err != nil {
		return err
	}
	c.conf.ClientBuffer, c.conf.ServerBuffer = client, server
	return nil
}

// OnWelcome takes the server's Welcome, which arrived at nowUsec. It must come from
// the server for certain (authenticated): it sets the game's time. The first one lets
// a client start. One of another epoch makes it start again, unpaused, when the remote
// clock agrees with it; see the section on restarts. A client that starts while the server
// is paused pauses with it.
//
// Errors: ErrMessage; ErrEpoch while the client is stopped, and for a Welcome that was overtaken
// by a later one or is of an epoch that is over or earlier, unless nothing else has come for
// 3 s. One of an earlier epoch, if the client was never in it, can be believed by a later
// Advance. While very many events wait for an Advance, a Welcome that would add to them is
// ignored, and counted in Stats.EventsLost; the server repeats it.
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
	c.hear(&c.adapt.last, 0, nowUsec)
	came := arrived{w, true, nowUsec}
	if c.welcome.ok && c.welcome.age(nowUsec) < welcomeSilence {
		over := slices.Contains(c.over[:], w.Epoch) && w.Epoch != c.welcome.Epoch
		if !over && w.Epoch < c.welcome.Epoch {
			c.earlier = came
		}
		if over || w.before(c.welcome.Welcome) {
			c.oldEpoch.Add(1)
			return ErrEpoch
		}
	}
	if len(c.events) >= maxEvents-1 && (w.Epoch != c.now.epoch || !w.Rate.equal(c.now.rate)) { // which are two events
		c.stats.EventsLost++
		return nil
	}
	c.believe(came)
	return nil
}

// believe takes a Welcome.
func (c *Client) believe(w arrived) {
	if c.entered && w.Epoch != c.now.epoch {
		c.leave(w.Epoch)
	}
	c.repeated = c.welcome.ok && w.Epoch == c.welcome.Epoch
	known := c.entered && w.Epoch == c.welcome.Epoch && w.Rate.equal(c.welcome.Rate)
	c.welcome, c.earlier, c.entered, c.now.epoch = w, arrived{}, true, w.Epoch
	c.serverUsec, c.serverAt = w.serverUsec(), w.atUsec
	c.learn(&w.inputs)
	if !known && !w.Rate.equal(c.now.rate) {
		e := Event{Kind: EventRateMismatch, Rate: w.Rate, Last: -1}
		if c.conf.OnMismatch == MismatchAdjust {
			c.setRate(&e)
		}
		c.report(e)
	}
	if c.frozen && !w.Paused {
		c.frozen = false
		c.reach(w.atUsec)
		c.setPaused(false)
		c.publish()
	}
}

// leave ends the present epoch.
func (c *Client) leave(next uint64) {
	c.report(Event{Kind: EventEpochChanged, Epoch: next})
	copy(c.over[1:], c.over[:])
	c.over[0] = c.now.epoch
	c.inited, c.now.paused, c.frozen, c.resumed = false, false, false, false
	c.adapt.restart()
	c.unsync()
	c.snap.Store(nil)
}

// setRate takes the rate of e: the time stays, the ticks are counted anew. It puts into e which
// numbers come again, or are left out.
func (c *Client) setRate(e *Event) {
	c.now.rate = e.Rate
	c.adapt.sent, c.adapt.states = nil, arrivals{} // they are of other ticks
	old, next := Tick(c.next.Load()), firstFrom(e.Rate.time(c.at[predicted]))
	c.setNext(next)
	if c.inited {
		c.publish()
	}
	if c.stats.Ticks == 0 {
		return // enter will say where to begin
	}
	if e.First, e.Last, e.Again = min(old, next), max(old, next)-1, next < old; !e.Again {
		c.stats.Skipped += uint64(next - old)
	}
}

// Hello returns the message to send to the server. ok is false before the client is
// synchronized, and when the server's Welcome says that it has heard it. Send it with
// each datagram, or some times a second, while ok is true.
func (c *Client) Hello() (h Hello, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Hello{c.now.epoch, c.now.rate}, c.synced && !(c.welcome.ok && c.welcome.Heard)
}

// steer lets the clocks follow the remote clock, and run on when it is not known.
func (c *Client) steer() bool {
	c.watch(&c.adapt.last, 0)
	c.reconsider()
	t, known := c.target()
	if !known && c.synced {
		c.unsync()
		c.stats.Losses++
		c.report(Event{Kind: EventLost})
	}
	if known && !c.inited {
		c.enter(t)
	}
	if !c.inited {
		return false
	}
	if known && !c.synced {
		c.sync()
	}
	if known && !c.frozen && c.tells() {
		c.correct(t)
	}
	return true
}

// tells reports whether the last Welcome says where game time is now. In a pause of the server it
// does not: nobody knows when that will end. And one that was sent before our own Resume may
// be from before the pause; if no other comes for welcomeSilence, it counts.
func (c *Client) tells() bool {
	doubted := c.resumed && c.atUsec-c.resumeAt < uint64(welcomeSilence.Microseconds())
	return !c.welcome.Paused && !(doubted && int64(c.welcome.serverUsec()-c.resumeUsec) < 0)
}

// reconsider believes a Welcome of an earlier epoch when those of the present one have
// stopped and the remote clock agrees with it: the server was started again after its
// wall clock had been set back.
func (c *Client) reconsider() {
	now := c.atUsec
	if !c.earlier.ok || c.welcome.age(now) < welcomeGap {
		return
	}
	if remote, ok := c.remoteTime(c.earlier.serverNow(now)); ok && c.earlier.fits(remote, now, c.travel(c.earlier.Welcome)) {
		c.believe(c.earlier)
	}
}

// target returns where the clocks should be.
func (c *Client) target() (t target, ok bool) {
	if !c.welcome.ok {
		return target{}, false
	}
	now := c.atUsec
	remote, ok := c.remoteTime(c.serverUsec + (now - c.serverAt))
	from, to, okDelays := c.delays()
	game := int64(remote - c.welcome.OriginUsec)
	if !ok || !okDelays || game < -maxAhead || game > maxAhead || !c.agrees(remote) || !c.trusts(now) {
		return target{}, false
	}
	c.serverUsec, c.serverAt = remote, now
	if ppm, known := c.remote.Skew(); known && !math.IsNaN(ppm) && !c.conf.HardOnly {
		t.skewPPB = int64(math.Round(min(max(ppm*1000, -maxSkewPPB), maxSkewPPB)))
	}
	at := time.Duration(game) * time.Microsecond
	if c.welcome.Paused {
		at = c.welcome.Rate.Duration(c.welcome.Tick)
	}
	t.at[shared] = at
	t.at[server], t.at[predicted] = c.goals(at, from, to, t.skewPPB)
	c.fastest, c.goal = [3]time.Duration{at, at - from, at + to}, t.at[predicted]
	return t, true
}

// delays returns how long the fastest datagrams take from the server and to it.
func (c *Client) delays() (from, to time.Duration, ok bool) {
	from, ok = c.remote.MinimumOneWayDelay()
	to = from
	if r, knows := c.remote.(toPeer); ok && knows {
		to, ok = r.MinimumDelayToPeer()
	}
	return from, to, ok && min(from, to) >= 0 && max(from, to) <= time.Hour
}

// remoteTime returns what the server's clock shows now, by the remote clock: of the
// readings that are a multiple of ringUsec apart, the one nearest to expected.
func (c *Client) remoteTime(expected uint64) (remoteUsec uint64, ok bool) {
	remote, ok := c.remote.RemoteTime(c.atUsec)
	_, ahead := floorDiv(int64(remote-expected)+ringUsec/2, ringUsec)
	return expected + uint64(ahead-ringUsec/2), ok
}

// agrees reports whether a remote clock that shows remoteUsec now can be that of the
// server that sent the last Welcome.
func (c *Client) agrees(remoteUsec uint64) bool {
	fresh := welcomeFresh
	if c.repeated {
		fresh = welcomeSilence
	}
	now := c.atUsec
	if c.inited && c.welcome.age(now) >= fresh {
		return true
	}
	late := c.travel(c.welcome.Welcome)
	if !c.inited && c.stats.Ticks == 0 {
		late = max(late, firstWelcomeLate)
	}
	return c.welcome.fits(remoteUsec, now, late)
}

// travel returns for how long a Welcome may have been under way since the start of the tick
// that it names.
func (c *Client) travel(w Welcome) time.Duration {
	delay, _ := c.remote.MinimumOneWayDelay()
	return satAdd(welcomeLate+max(min(delay, maxDelay), 0), w.Rate.Duration(1))
}

// trusts reports whether the remote clock is known well enough.
func (c *Client) trusts(nowUsec uint64) bool {
	if c.conf.SyncBound == 0 {
		return true
	}
	bound, ok := c.remote.ErrorBound(nowUsec)
	if c.synced {
		bound /= 2
	}
	return ok && bound <= c.conf.SyncBound
}

// enter starts the clocks of an epoch. Ticks that have run in the one before make it
// a step.
func (c *Client) enter(t target) {
	old := c.at[predicted]
	c.frozen, c.now.paused = c.welcome.Paused, c.welcome.Paused
	for i, at := range t.at {
		c.set(i, at, t.skewPPB)
		c.now.courses[i][0].still = c.frozen // nobody has read it yet
	}
	c.steering.forget()
	c.inited = true
	if c.stats.Ticks > 0 {
		c.step(old)
	} else {
		c.setNext(firstFrom(c.now.rate.time(t.at[predicted])))
	}
}

// correct slews or steps the clocks. A slew begins after the grace, and is to be right then.
func (c *Client) correct(t target) {
	if c.adapt.ahead.jump {
		c.adapt.ahead.jump = false
		c.hurry(t)
	}
	old := c.at[predicted]
	var now, goal [3]time.Duration
	for i := range goal {
		now[i] = c.now.read(i, c.atUsec+grace)
		goal[i] = t.at[i] + time.Duration(grace*1000+share(grace*1000, t.skewPPB))
	}
	c.steering.adapts = [3]bool{server: c.adapt.behind.told && c.conf.ClientBuffer == 0, predicted: c.adapt.ahead.told && c.conf.ServerBuffer == 0}
	c.steering.stands = c.adapt.behind.jump && !c.conf.HardOnly
	c.adapt.behind.jump = false
	slews, step := c.steering.correct(&now, goal)
	if !step {
		for i, s := range slews {
			c.now.courses[i].correct(c.atUsec, t.skewPPB, s)
		}
		return
	}
	for i, at := range t.at {
		if now[i] == goal[i] && (at >= c.at[i] || !c.conf.NeverBack) { // others keep their course
			c.set(i, at, t.skewPPB)
		}
	}
	c.step(old)
}

// hurry sets the predicted clock forward, since inputs are late in a row. The ticks between run at
// once if an Advance may run so many, and are skipped otherwise.
func (c *Client) hurry(t target) {
	old := c.at[predicted]
	if t.at[predicted] <= old || c.conf.HardOnly || c.conf.ServerBuffer != 0 {
		return
	}
	c.set(predicted, t.at[predicted], t.skewPPB)
	next := Tick(c.next.Load())
	if c.now.rate.Ticks(c.at[predicted])-next >= Tick(orDefault(c.conf.MaxTicks, defaultMaxTicks)) {
		c.step(old)
	} else {
		c.stats.Steps++
		c.report(Event{Kind: EventStepped, By: c.at[predicted] - old, First: next, Last: next - 1})
	}
	c.adapt.jumped = Tick(c.next.Load())
}

// firstFrom returns the first tick that starts at or after t.
func firstFrom(t Time) Tick {
	if t.offset > 0 {
		return t.Tick() + 1
	}
	return t.Tick()
}
