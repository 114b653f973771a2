// SPDX-License-Identifier: BSD-3-Clause

package rivals

import (
	"math"
	"time"
)

// Lightyear is how lightyear finds the tick to predict, without input delay (crates/core/sync
// at 03c79316: ping/estimator.rs, timeline/remote.rs, timeline/sync.rs and timeline/input.rs):
// the server's tick from the ticks in its packets and half of the smoothed round trip, that
// again, four times the jitter and three ticks; up to 10 % faster or slower when it is a tick
// off three times in a row, and set when it is ten ticks off. A ping every 100 ms.
type Lightyear struct {
	Rate   float64 // ticks a second
	Margin float64 // jitter_margin, ticks; the default there is 1

	rtt, deviation float64 // smoothed, seconds
	pings          int

	remote, offset float64 // the server's time by the own clock, and what is added; ticks
	newest         int64
	known, packet  bool

	at     float64
	speed  float64
	synced bool
	ahead  bool // the sign of the last error
	errors int  // in a row
}

// PingEvery is how often it asks.
func (l *Lightyear) PingEvery() time.Duration { return 100 * time.Millisecond }

// Pong takes a round trip, without the time that the server had it.
func (l *Lightyear) Pong(rtt time.Duration) {
	s := rtt.Seconds()
	if l.pings++; l.pings > 2 {
		most := min(l.rtt+3*l.deviation, 3*l.rtt, l.rtt+0.5)
		s = min(s, max(most, 1.2*l.rtt))
	}
	if l.pings == 1 {
		l.rtt, l.deviation = s, s/2
		return
	}
	off := math.Abs(s - l.rtt)
	l.rtt += (s - l.rtt) / 12
	l.deviation += (off - l.deviation) / 6
}

func (l *Lightyear) jitter() float64 { return l.deviation / 2 }

// Packet takes a packet of the server with its tick.
func (l *Lightyear) Packet(tick int64) {
	if l.pings < 3 || l.known && tick < l.newest {
		return
	}
	l.packet, l.newest = true, tick
	raw := float64(tick) + l.rtt/2*l.Rate - l.remote
	if !l.known {
		l.known, l.offset = true, raw
		return
	}
	slowest := math.Floor(l.jitter() * 1000)
	alpha := 0.10 - min(max((slowest-1)/9, 0), 1)*0.08
	l.offset += (raw - l.offset) * alpha
}

// Frame lets time pass.
func (l *Lightyear) Frame(d time.Duration) {
	ticks := d.Seconds() * l.Rate
	l.remote += ticks
	if l.speed == 0 {
		l.speed = 1
	}
	l.at += ticks * l.speed
	if l.packet {
		l.packet = false
		l.follow(l.remote + l.offset + (l.rtt/2+4*l.jitter())*l.Rate + l.Margin + 2)
	}
}

func (l *Lightyear) follow(goal float64) {
	err := l.at - goal
	if !l.synced || math.Abs(err) > 10 {
		l.at, l.synced, l.errors = goal, true, 0
		return
	}
	was := l.ahead
	l.ahead = err > 0
	l.errors++
	if math.Abs(err) <= 1 {
		l.errors = 0
	}
	if l.ahead != was || l.errors < 3 {
		l.speed += (1 - l.speed) / 10
		return
	}
	l.speed = 1 + 0.1*math.Abs(err)/10
	if l.ahead {
		l.speed = 1 / l.speed
	}
}

// Predicted returns the time to predict, in ticks.
func (l *Lightyear) Predicted() (ticks float64, ok bool) { return l.at, l.synced }
