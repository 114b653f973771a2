// SPDX-License-Identifier: BSD-3-Clause

// Package client is what the page does, without the browser: it keeps time by stamps or by
// ping, plays the game in that time, and says what to draw. All of it is called by one
// goroutine; the browser has but one.
//
// This file keeps time, by a clock that the user can set, and says how well that works; play.go
// plays.
package client

import (
	"fmt"
	"time"

	"timesync"
	"timesync/clock"
	"timesync/examples/browser/game"
	"timesync/link"
	"timesync/ping"
	"timesync/tick"
)

const (
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
	Datagram func(b []byte)    // sends over WebTransport
	Message  func(b []byte)    // sends over the WebSocket
	Event    func(line string) // says what has happened

	raw func() uint64
	// step is by how much raw may lag behind, us, rounded up.
	step uint64

	ahead uint64 // local clock minus raw

	greeting Greeting
	stamped  bool       // over WebTransport
	link     *link.Link // of this connection
	sentAt   uint64     // local: the last datagram
	ping     ping.Clock

	game   *tick.Client
	states map[tick.Tick]game.State
	epoch  uint64  // of the states
	x, was float64 // where the player is, and was a tick ago
	walk   float64 // -1 left, +1 right
}

// New returns a client that is not connected, and needs to be told how to send and speak. raw reads the browser's clock.
func New(raw func() uint64) *Client {
	c := &Client{raw: raw, link: new(link.Link), states: map[tick.Tick]game.State{}}
	c.step = uint64((clock.Step() + time.Microsecond - 1).Microseconds())
	// A constant configuration, and a right one.
	c.game, _ = tick.NewClient(tick.ClientConfig{
		Config:   tick.Config{OnMismatch: tick.MismatchAdjust, StallThreshold: stall},
		Handlers: tick.Handlers{Tick: c.tick, Event: func(e tick.Event) { c.say("game: %v", e) }},
	}, c.link)
	return c
}

// Greeting is what the server says first, as the first message of a WebSocket: what it knows better.
type Greeting struct {
	Player uint32 `json:"player"`
	// UnixAtZero is for the graph of the error alone: the time of day when the server's
	// clock was 0, us since 1970. A page on the same machine reads the same time of day.
	UnixAtZero int64  `json:"unixAtZero"`
	URL        string `json:"url"`  // of the WebTransport session
	Hash       []byte `json:"hash"` // of its certificate
}

// Connect begins a connection. What kept time on the one before is forgotten; from when that ended until now the
// clocks ran on, and what was sent was lost.
func (c *Client) Connect(g Greeting, stamped bool) {
	c.greeting, c.stamped = g, stamped
	c.x = game.Start(g.Player)
	c.was = c.x
	c.link = new(link.Link)
	c.ping.Reset(0)
	var remote tick.RemoteClock = &c.ping
	if stamped {
		remote = c.link
	}
	_ = c.game.Follow(remote) // which fails for nil only
	c.game.Start(c.local(c.raw()))
	c.say("connected as player %d", g.Player)
}

// OnDatagram takes a datagram of the WebTransport session, which arrived at raw.
func (c *Client) OnDatagram(b []byte, raw uint64) {
	if payload, _, _, err := c.link.ReadHeader(b, c.received(raw)); err == nil {
		c.receive(payload, raw)
	}
}

// OnMessage takes a message of the WebSocket, which arrived at raw.
func (c *Client) OnMessage(b []byte, raw uint64) {
	if c.ping.HandleReply(b, c.received(raw)) == ping.Malformed {
		c.receive(b, raw)
	}
}

// Advance does what is due. Call it in every frame, and also when there are none.
func (c *Client) Advance(raw uint64) {
	now := c.local(raw)
	c.game.Advance(now)
	if c.ping.Next(now) == 0 {
		c.Message(c.ping.AppendRequest(nil, c.local(c.raw())))
	}
	if c.stamped && now-c.sentAt >= idle {
		c.send(nil) // to have something to synchronize by
	}
}

// send sends a message of the game over what there is.
func (c *Client) send(payload []byte) {
	if !c.stamped {
		c.Message(payload)
		return
	}
	c.sentAt = c.local(c.raw())
	c.Datagram(append(c.link.AppendHeader(nil, c.sentAt), payload...))
}

// local returns the local clock.
func (c *Client) local(raw uint64) uint64 { return raw + c.ahead }

// received returns the local clock for what has just arrived: rounded up, as by clock.Received.
func (c *Client) received(raw uint64) uint64 { return c.local(raw) + c.step }

// StepClock sets the local clock, as an operating system does that sets its monotonic
// clock, or a browser that is moved to another machine.
func (c *Client) StepClock(by time.Duration) {
	c.ahead += uint64(by.Microseconds())
	c.say("my clock was set by %+v", by)
}

func (c *Client) say(format string, args ...any) { c.Event(fmt.Sprintf(format, args...)) }

// Sample returns how well the server's clock is known at raw, when the time of day is unixUsec, microseconds since
// 1970: by stamps and by ping, as JavaScript is to see it, nil where nothing is known.
func (c *Client) Sample(raw uint64, unixUsec float64) map[string]any {
	now := c.local(raw) + c.step/2 // so old a reading is on average
	truth := unixUsec - float64(c.greeting.UnixAtZero)
	stamped, _ := c.link.Snapshot(now)
	asked, _ := c.ping.Snapshot(now)
	return map[string]any{"stamps": reading(stamped, truth), "ping": reading(asked, truth)}
}

// reading returns what is known of the server's clock, which shows truth. Times are microseconds.
func reading(k timesync.Snapshot, truth float64) any {
	if !k.Known() {
		return nil
	}
	return map[string]any{
		"error": float64(k.RemoteUsec) - truth,
		"bound": us(k.ErrorBound),
		// On average of late: of datagrams, or half of 8 round trips.
		"delay": us(k.MinimumOneWayDelay + k.FloorScatter),
		// How often the reading was allowed to jump.
		"steps": k.Steps,
	}
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
