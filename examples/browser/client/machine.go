// SPDX-License-Identifier: BSD-3-Clause

package client

import (
	"time"
)

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
