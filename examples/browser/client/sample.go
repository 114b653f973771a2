// SPDX-License-Identifier: BSD-3-Clause

package client

import (
	"fmt"
	"time"

	"timesync/tick"
)

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

// watch says when a reading of the server's clock was allowed to jump: a clock was set, or the
// page connected anew.
func (c *Client) watch(now uint64) {
	if s, ok := c.link.Snapshot(now); ok && s.Steps != c.linkSteps {
		c.linkSteps = s.Steps
		c.say("stamps: the reading of the server's clock jumped")
	}
	if s, ok := c.ping.Snapshot(now); ok && s.Steps != c.pingSteps {
		c.pingSteps = s.Steps
		c.say("ping: the reading of the server's clock jumped")
	}
}

// Reading is how well the server's clock is known in one way. All are microseconds.
type Reading struct {
	OK    bool
	Error float64 // what the client takes the server's clock for, minus that clock
	Bound float64 // how large the error can be, as far as the client knows
	Delay float64 // one way: of the last datagram, or half of the mean round trip of 8 exchanges
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
	now := c.local(raw) + c.step/2 // so old a reading is on average
	truth := unixUsec - float64(c.unixAtZero)
	if snap, ok := c.link.Snapshot(now); ok && c.stamped {
		s.Stamps = Reading{true, float64(snap.RemoteUsec) - truth, us(snap.ErrorBound), us(c.delay), float64(snap.Steps)}
	}
	if snap, ok := c.ping.Snapshot(now); ok {
		s.Ping = Reading{true, float64(snap.RemoteUsec) - truth, us(snap.ErrorBound), us(snap.MinimumOneWayDelay + snap.Jitter), float64(snap.Steps)}
	}
	return s
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
