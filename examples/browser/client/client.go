// SPDX-License-Identifier: BSD-3-Clause

// Package client is what the page does, without the browser: it keeps time by stamps or by
// ping, plays the game in that time, and says what to draw. All of it is called by one
// goroutine; the browser has but one.
package client

import (
	"fmt"
	"maps"
	"math"
	"time"

	"timesync/examples/browser/game"
	"timesync/link"
	"timesync/ping"
	"timesync/tick"
)

// Network is how the client sends.
type Network struct {
	Datagram func(b []byte) // over WebTransport
	Message  func(b []byte) // over the WebSocket
}

const (
	// keptTicks of states are kept, for what the server clock shows: 4 s at 60 a second.
	keptTicks = 256
	// idle is how long after the last datagram one is sent that carries a stamp alone: two
	// ticks at 60 a second.
	idle = 32_000 // us
	// stall is the time without a call from which on ticks are skipped. It is longer than
	// the second between two calls in a tab in the background.
	stall = 2 * time.Second
)

// Client is one page. Times named raw are readings of the browser's clock, in
// microseconds. The local clock is that, unless the user sets it.
type Client struct {
	raw func() uint64
	net Network

	ahead  uint64 // local clock minus raw
	asleep uint64 // how long the machine sleeps, us; 0 when awake
	wakeAt uint64 // raw

	player     uint32
	unixAtZero int64 // of the server's clock
	connected  bool
	stamped    bool       // over WebTransport
	link       *link.Link // of this connection
	delay      time.Duration
	sentAt     uint64 // local: the last datagram
	ping       ping.Clock

	game   *tick.Client
	rate   tick.Rate
	states map[tick.Tick]game.State
	epoch  uint64 // of the states
	late   uint32
	x, was float64 // where the player is, and was a tick ago
	walk   float64 // -1 left, +1 right

	events    []string
	linkSteps uint32
	pingSteps uint64
}

// New returns a client that is not connected. raw reads the browser's clock.
func New(raw func() uint64, network Network) *Client {
	c := &Client{raw: raw, net: network, link: new(link.Link), states: map[tick.Tick]game.State{}}
	var err error
	c.game, err = tick.NewClient(tick.ClientConfig{
		Config:   tick.Config{OnMismatch: tick.MismatchAdjust, StallThreshold: stall},
		Handlers: tick.Handlers{Tick: c.tick, Event: c.event},
	}, c.link)
	if err != nil {
		panic(err) // a constant configuration
	}
	return c
}

// local returns the local clock.
func (c *Client) local(raw uint64) uint64 { return raw + c.ahead }

// StepClock sets the local clock, as an operating system does that sets its monotonic
// clock, or a browser that is moved to another machine.
func (c *Client) StepClock(by time.Duration) {
	c.ahead += uint64(by.Microseconds())
	c.say("my clock was set by %+v", by)
}

// Suspend lets the machine sleep: its clock stands still, and what comes is lost.
func (c *Client) Suspend(raw uint64, d time.Duration) {
	if c.sleeping(raw) {
		return
	}
	c.asleep, c.wakeAt = uint64(d.Microseconds()), raw+uint64(d.Microseconds())
	c.say("suspended for %v", d)
}

// sleeping reports whether the machine sleeps, and lets it wake up when it is time.
func (c *Client) sleeping(raw uint64) bool {
	if c.asleep == 0 {
		return false
	}
	if int64(raw-c.wakeAt) < 0 {
		return true
	}
	c.ahead -= c.asleep
	c.asleep = 0
	c.say("awake again")
	return false
}

// Greeting is what the server says first.
type Greeting struct {
	Player      uint32
	PingSession uint32
	UnixAtZero  int64 // the time of day when the server's clock was 0, us since 1970
}

// Connect begins a connection. What kept time on the one before is forgotten.
func (c *Client) Connect(g Greeting, stamped bool) {
	c.player, c.unixAtZero, c.stamped = g.Player, g.UnixAtZero, stamped
	c.connected, c.late = true, 0
	c.x = game.Start(g.Player)
	c.was = c.x
	c.link, c.linkSteps, c.delay = new(link.Link), 0, 0
	c.ping.Reset(g.PingSession)
	var remote tick.RemoteClock = c.link
	if !stamped {
		remote = &c.ping
	}
	if err := c.game.Follow(remote); err != nil {
		panic(err) // remote is not nil
	}
	c.game.Start(c.local(c.raw()))
	c.say("connected as player %d, %s", g.Player, map[bool]string{true: "stamps over WebTransport", false: "ping over WebSocket"}[stamped])
}

// Disconnect ends the connection. The clocks run on.
func (c *Client) Disconnect() {
	if c.connected {
		c.connected = false
		c.say("connection lost")
	}
}

// OnDatagram takes a datagram of the WebTransport session, which arrived at raw.
func (c *Client) OnDatagram(b []byte, raw uint64) {
	if !c.connected || c.sleeping(raw) {
		return
	}
	payload, delay, err := c.link.Open(b, c.local(raw))
	if err != nil {
		return
	}
	c.delay = delay
	c.receive(payload, raw)
}

// OnMessage takes a message of the WebSocket, which arrived at raw.
func (c *Client) OnMessage(b []byte, raw uint64) {
	if !c.connected || c.sleeping(raw) {
		return
	}
	if c.ping.HandleReply(b, c.local(raw)) == ping.Malformed {
		c.receive(b, raw)
	}
}

// receive takes a message of the game.
func (c *Client) receive(b []byte, raw uint64) {
	if len(b) == 0 {
		return
	}
	switch b[0] {
	case game.KindWelcome:
		var w tick.Welcome
		if w.UnmarshalBinary(b[1:]) == nil {
			c.rate = w.Rate
			_ = c.game.OnWelcome(w, c.local(raw)) // an overtaken one changes nothing
		}
	case game.KindState:
		state, err := game.ReadState(b)
		if err != nil || !c.game.Accept(state.Epoch, state.Tick, c.local(raw)) {
			return
		}
		if state.Epoch != c.epoch {
			clear(c.states)
			c.epoch = state.Epoch
		}
		c.states[state.Tick] = state
		c.late = max(state.Late, c.late)
		maps.DeleteFunc(c.states, func(n tick.Tick, _ game.State) bool { return n < state.Tick-keptTicks })
	}
}

// Advance does what is due. Call it in every frame, and also when there are none.
func (c *Client) Advance(raw uint64) {
	if c.sleeping(raw) {
		return
	}
	now := c.local(raw)
	c.game.Advance(now)
	if !c.connected {
		return
	}
	if c.ping.Next(now) == 0 {
		c.net.Message(c.ping.AppendRequest(nil, c.local(c.raw())))
	}
	if c.stamped && now-c.sentAt >= idle {
		c.send(nil) // to have something to synchronize by
	}
	c.watch(now)
}

// watch says when a remote clock was set.
func (c *Client) watch(now uint64) {
	if s, ok := c.link.Snapshot(now); ok && s.Steps != c.linkSteps {
		c.linkSteps = s.Steps
		c.say("stamps: the server's clock was set, as seen from here")
	}
	if s, ok := c.ping.Snapshot(now); ok && s.Steps != c.pingSteps {
		if s.LastStep != 0 {
			c.say("ping: the server's clock was set, as seen from here, by %+v", s.LastStep)
		}
		c.pingSteps = s.Steps
	}
}

// send sends a message of the game over what there is.
func (c *Client) send(payload []byte) {
	if !c.connected {
		return
	}
	if !c.stamped {
		c.net.Message(payload)
		return
	}
	b := make([]byte, 0, link.MaxHeader+len(payload))
	c.sentAt = c.local(c.raw())
	c.net.Datagram(append(c.link.AppendHeader(b, c.sentAt), payload...))
}

// tick plays one tick: the player walks, and stands on the platform as it is in predicted
// time. The server is told.
func (c *Client) tick(s tick.Step) {
	c.was = c.x
	c.x = min(max(c.x+c.walk*game.Speed*s.Delta.Seconds(), 0), game.Width)
	epoch, ok := c.game.Epoch()
	if !ok {
		return
	}
	me := game.Figure{X: float32(c.x), Height: float32(game.Platform(s.Predicted.Time()))}
	c.send(game.Input{Epoch: epoch, Tick: s.Tick, Figure: me}.Append(nil))
	if hello, ok := c.game.Hello(); ok {
		b, _ := hello.AppendBinary([]byte{game.KindHello}) // which never fails
		c.send(b)
	}
}

// Walk sets where the player walks: -1 left, 0 nowhere, +1 right.
func (c *Client) Walk(direction float64) {
	if direction >= -1 && direction <= 1 { // and no NaN
		c.walk = direction
	}
}

// SetBuffers sets how far the three clocks are apart besides the delays.
func (c *Client) SetBuffers(client, server time.Duration) error {
	return c.game.SetBuffers(orNone(client), orNone(server))
}

// orNone returns what package tick takes for d: there, zero stands for the default.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

func (c *Client) event(e tick.Event) { c.say("game: %v", e) }

// maxEvents lines wait for the page at most.
const maxEvents = 100

func (c *Client) say(format string, args ...any) {
	if len(c.events) < maxEvents {
		c.events = append(c.events, fmt.Sprintf(format, args...))
	}
}

// Events returns what has happened since the last call, in words.
func (c *Client) Events() []string {
	events := c.events
	c.events = nil
	return events
}

// Frame is what to draw.
type Frame struct {
	Ready  bool       // otherwise there is nothing to draw yet
	Times  [3]float64 // server, shared and predicted game time, in seconds
	Levels [3]float64 // how high the platform is at each, in metres
	Tick   tick.Tick  // of predicted time
	Rate   float64    // ticks a second
	Late   uint32     // inputs that came too late
	Drawn  []Drawn
}

// Drawn is a figure.
type Drawn struct {
	Player    uint32
	Own       bool
	X, Height float64 // metres
}

// Frame returns what to draw at raw.
func (c *Client) Frame(raw uint64) Frame {
	now := c.local(raw)
	clocks, ok := c.game.Snapshot(now)
	if !ok || c.sleeping(raw) {
		return Frame{}
	}
	f := Frame{Ready: true, Tick: clocks.Predicted.Tick(), Rate: float64(c.rate.Num) / float64(max(c.rate.Den, 1)), Late: c.late}
	for i, t := range []tick.Time{clocks.Server, clocks.Shared, clocks.Predicted} {
		f.Times[i] = t.Time().Seconds()
		f.Levels[i] = game.Platform(t.Time())
	}
	for player, figure := range c.seen(clocks.Server) {
		if player != c.player {
			f.Drawn = append(f.Drawn, Drawn{player, false, float64(figure.X), float64(figure.Height)})
		}
	}
	x := c.was + (c.x-c.was)*c.game.Fraction(now)
	f.Drawn = append(f.Drawn, Drawn{c.player, true, x, f.Levels[2]})
	return f
}

// seen returns where the others are at a time of the server clock: between the states
// before and after it, of which some may be lost.
func (c *Client) seen(at tick.Time) map[uint32]game.Figure {
	before, after := tick.Tick(math.MinInt64), tick.Tick(math.MaxInt64)
	for n := range c.states {
		if n <= at.Tick() {
			before = max(before, n)
		} else {
			after = min(after, n)
		}
	}
	a, ok1 := c.states[before]
	b, ok2 := c.states[after]
	if !ok1 || !ok2 {
		return a.Figures // nothing newer has come: they stand still
	}
	share := float32((float64(at.Tick()-before) + at.Fraction()) / float64(after-before))
	between := map[uint32]game.Figure{}
	for player, f := range a.Figures {
		g, ok := b.Figures[player]
		if !ok {
			continue // it has left
		}
		between[player] = game.Figure{X: f.X + (g.X-f.X)*share, Height: f.Height + (g.Height-f.Height)*share}
	}
	return between
}

// Reading is how well the server's clock is known in one way. All are microseconds.
type Reading struct {
	OK    bool
	Error float64 // what the client takes the server's clock for, minus that clock
	Bound float64 // how large the error can be, as far as the client knows
	Delay float64 // one way: of the last datagram, or half of the round trip
	Steps float64 // how often the reading was allowed to jump
}

// Sample is a point of the graph.
type Sample struct{ Stamps, Ping Reading }

// Sample returns how well the server's clock is known at raw, when the time of day is
// unixUsec, microseconds since 1970.
func (c *Client) Sample(raw uint64, unixUsec float64) (s Sample) {
	if c.sleeping(raw) {
		return Sample{}
	}
	now := c.local(raw)
	truth := unixUsec - float64(c.unixAtZero)
	if snap, ok := c.link.Snapshot(now); ok && c.stamped {
		s.Stamps = Reading{true, float64(snap.RemoteUsec) - truth, us(snap.ErrorBound), us(c.delay), float64(snap.Steps)}
	}
	if snap, ok := c.ping.Snapshot(now); ok {
		s.Ping = Reading{true, float64(snap.RemoteUsec) - truth, us(snap.ErrorBound), us(snap.RoundTrip) / 2, float64(snap.Steps)}
	}
	return s
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
