// SPDX-License-Identifier: BSD-3-Clause

package client

import (
	"fmt"
	"time"

	"timesync"
)

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

// known returns what is known of the server's clock, by stamps and by ping.
func (c *Client) known(now uint64) (known [2]timesync.Snapshot) {
	known[0], _ = c.link.Snapshot(now)
	known[1], _ = c.ping.Snapshot(now)
	return known
}

// watch says when a reading of the server's clock was allowed to jump: a clock was set, or the
// page connected anew.
func (c *Client) watch(now uint64) {
	for i, s := range c.known(now) {
		if s.ErrorBound > 0 && s.Steps != c.steps[i] {
			c.steps[i] = s.Steps
			c.say("%s: the reading of the server's clock jumped", [2]string{"stamps", "ping"}[i])
		}
	}
}

// Reading is how well the server's clock is known in one way. All are microseconds.
type Reading struct {
	Error float64 // what the client takes the server's clock for, minus that clock
	Bound float64 // how large the error can be, as far as the client knows; 0: it knows nothing
	Delay float64 // one way: of the last datagram, or half of the mean round trip of 8 exchanges
	Steps float64 // how often the reading was allowed to jump
}

// Sample is a point of the graph.
type Sample struct{ Stamps, Ping Reading }

// Sample returns how well the server's clock is known at raw, when the time of day is
// unixUsec, microseconds since 1970.
func (c *Client) Sample(raw uint64, unixUsec float64) Sample {
	if c.sleeping(raw) {
		return Sample{}
	}
	now := c.local(raw) + c.step/2 // so old a reading is on average
	truth := unixUsec - float64(c.unixAtZero)
	reading := func(k timesync.Snapshot, delay time.Duration) Reading {
		return Reading{float64(k.RemoteUsec) - truth, us(k.ErrorBound), us(delay), float64(k.Steps)}
	}
	known := c.known(now)
	ping := known[1]
	return Sample{reading(known[0], c.delay), reading(ping, ping.MinimumOneWayDelay+ping.Jitter)}
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
