// SPDX-License-Identifier: BSD-3-Clause

package rivals

import (
	"math"
	"time"
)

// NetcodeForEntities is how Unity's Netcode for Entities finds the tick to predict
// (NetworkTimeSystem, with ServerCommandAge and TargetCommandSlack; from its manual, "Time
// synchronization", and the public source of the package com.unity.netcode): the server
// smooths how old the newest command is at each tick; the client goes up to 10 % faster or
// slower until that is the slack, leaving out what it has corrected within a round trip; when
// it is 10 ticks off it jumps to the last snapshot, the round trip and the slack.
type NetcodeForEntities struct {
	Rate  float64 // ticks a second
	Slack float64 // TargetCommandSlack, ticks; whole ones there, 2 by default

	rtt      float64 // smoothed by eighths, milliseconds
	snapshot int64   // the newest one received
	estimate int64   // what should be the newest one by now
	age      int     // of it, ticks in 256
	command  int     // ServerCommandAge, ticks in 256
	adjusted [64]float64
	slot     int
	at       float64
	began    bool
}

// Snapshot takes a snapshot of the server for a tick, with the smoothed age of the newest
// command, and the round trip that it shows.
func (n *NetcodeForEntities) Snapshot(tick int64, commandAge int, rtt time.Duration) {
	ms := float64(rtt.Milliseconds())
	if n.rtt == 0 {
		n.rtt = ms
	}
	n.rtt = (7*n.rtt + ms) / 8
	if tick <= n.snapshot {
		return
	}
	n.snapshot, n.command = tick, commandAge
	if !n.began {
		n.began, n.estimate = true, n.snapshot
		n.at = n.ahead()
		return
	}
	n.age = (n.age*7 + int(n.estimate-n.snapshot)<<8) / 8
	// The slots of the ticks between begin anew.
	for size := len(n.adjusted); n.slot != int(n.snapshot)%size; {
		n.slot = (n.slot + 1) % size
		n.adjusted[n.slot] = 0
	}
}

// ahead returns where to begin.
func (n *NetcodeForEntities) ahead() float64 {
	return float64(n.estimate) + n.Slack + math.Ceil(min(n.rtt, 500)*n.Rate/1000)
}

// Frame lets time pass.
func (n *NetcodeForEntities) Frame(d time.Duration) {
	if !n.began {
		return
	}
	ticks := d.Seconds() * n.Rate
	whole, part := math.Modf(ticks)
	n.estimate += int64(whole)
	n.age -= int(math.Round(part * 256)) // rounded down there, where a frame is a tick
	delta := n.age >> 8
	if delta < 0 {
		delta++
	}
	n.estimate -= int64(delta)
	n.age -= delta << 8

	late := float64(n.command)/256 + n.Slack
	inRoundTrip := min(int(min(n.rtt, 500)*n.Rate/1000), len(n.adjusted))
	for i := range inRoundTrip {
		late -= n.adjusted[(len(n.adjusted)+n.slot-i)%len(n.adjusted)]
	}
	if math.Abs(late) >= 10 {
		if late = n.ahead() - n.at - ticks; math.Abs(late) > 10 {
			n.at, n.adjusted = n.ahead(), [64]float64{}
			return
		}
	}
	scale := min(max(1+0.1*late, 0.9), 1.1)
	n.at += ticks * scale
	n.adjusted[n.slot] += ticks * (scale - 1)
}

// Predicted returns the time to predict, in ticks.
func (n *NetcodeForEntities) Predicted() (ticks float64, ok bool) { return n.at, n.began }

// CommandAge is what the server of NetcodeForEntities tells a client.
type CommandAge struct{ age int }

// Tick takes the tick that the server runs and the newest one of which it has a command, and
// returns the smoothed age, in ticks in 256.
func (c *CommandAge) Tick(current, newest int64) int {
	c.age = (c.age*7 + int(current-newest)*256) / 8
	return c.age
}
