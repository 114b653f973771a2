// SPDX-License-Identifier: BSD-3-Clause

package vectors

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"testing"
	"time"

	"timesync/tick"
)

// tickLine is a line of tick.jsonl.
type tickLine struct {
	// welcome, hello: a message; tick: arithmetic. Of a server: start, input, announce. Of a client:
	// follow, client.
	Event  string `json:"event"`
	Hex    string `json:"hex,omitempty"`
	Error  bool   `json:"error,omitempty"` // it is to be refused
	Epoch  uint64 `json:"epoch,omitempty,string"`
	Num    uint32 `json:"num,omitempty"`
	Den    uint32 `json:"den,omitempty"`
	Origin uint64 `json:"origin,omitempty,string"`
	Tick   int64  `json:"tick,omitempty,string"`
	Heard  bool   `json:"heard,omitempty"`
	Paused bool   `json:"paused,omitempty"`
	Start  int64  `json:"start,omitempty,string"` // of tick: when the tick starts, ns of game time

	// Of a welcome with inputs, and announce: by how many units of 0.1 ms those of the ticks newest,
	// newest-1, ... came early, none: null.
	Newest int64    `json:"newest,omitempty,string"`
	Early  []*int16 `json:"early,omitempty"`

	// Now is, of start, input and announce, the server's clock, us, and of follow and client the
	// client's. Late: the tick of the input has begun. Unknown: the client does not know the server's
	// clock yet.
	Now     uint64 `json:"now,omitempty,string"`
	Late    bool   `json:"late,omitempty"`
	Unknown bool   `json:"unknown,omitempty"`
	Refused bool   `json:"refused,omitempty"` // of client: the Welcome does not count

	// Of client: what it says after the Welcome in hex, or nothing; and the ticks of its three clocks
	// now, if it knows them: what to show of others, now, what to play.
	Hello string   `json:"hello,omitempty"`
	Ticks []string `json:"ticks,omitempty"`
}

// read returns a welcome, hello or tick line with what its bytes or numbers say.
func (l tickLine) read() tickLine {
	b := unhex(l.Hex)
	switch l.Event {
	case "welcome":
		var w tick.Welcome
		if w.UnmarshalBinary(b) != nil {
			return tickLine{Event: l.Event, Hex: l.Hex, Error: true}
		}
		return tickLine{Event: l.Event, Hex: l.Hex, Epoch: w.Epoch, Num: w.Rate.Num, Den: w.Rate.Den,
			Origin: w.OriginUsec, Tick: int64(w.Tick), Heard: w.Heard, Paused: w.Paused}.inputs(b)
	case "hello":
		var h tick.Hello
		if h.UnmarshalBinary(b) != nil {
			return tickLine{Event: l.Event, Hex: l.Hex, Error: true}
		}
		return tickLine{Event: l.Event, Hex: l.Hex, Epoch: h.Epoch, Num: h.Rate.Num, Den: h.Rate.Den}
	case "tick":
		l.Start = int64(tick.Rate{Num: l.Num, Den: l.Den}.Duration(tick.Tick(l.Tick)))
	}
	return l
}

// inputs adds what a Welcome says of inputs, which package tick keeps to itself.
func (l tickLine) inputs(b []byte) tickLine {
	if len(b) > 34 {
		l.Newest = int64(binary.LittleEndian.Uint64(b[34:]))
		for rest := b[43:]; len(rest) > 0; rest = rest[2:] {
			early := int16(binary.LittleEndian.Uint16(rest))
			l.Early = append(l.Early, &early)
			if early == math.MinInt16 {
				l.Early[len(l.Early)-1] = nil
			}
		}
	}
	return l
}

// wireClock is a remote clock that is 5000 s ahead, and 20 ms away either way.
type wireClock struct{ known bool }

const tickAhead = 5000 * second

func (c *wireClock) RemoteTime(usec uint64) (uint64, bool)     { return usec + tickAhead, c.known }
func (c *wireClock) MinimumOneWayDelay() (time.Duration, bool) { return 20 * time.Millisecond, c.known }
func (c *wireClock) Skew() (float64, bool)                     { return 0, c.known }
func (c *wireClock) ErrorBound(uint64) (bound time.Duration, ok bool) {
	return 20 * time.Millisecond, c.known
}

// tickEnds are the server and the client that the lines are about.
type tickEnds struct {
	t      *testing.T
	epoch  uint64
	server *tick.Server
	client *tick.Client
	clock  wireClock
}

// play returns a line with what package tick makes of it.
func (p *tickEnds) play(l tickLine) tickLine {
	const player = 1
	var err error
	switch l.Event {
	default:
		l = l.read()
	case "follow":
		p.clock = wireClock{}
		p.client, err = tick.NewClient(tick.ClientConfig{Config: tick.Config{OnMismatch: tick.MismatchAdjust}}, &p.clock)
		must(p.t, err)
		p.client.Start(l.Now)
	case "client":
		l = p.hear(l)
	case "start":
		config := tick.Config{Rate: tick.Rate{Num: l.Num, Den: l.Den}}
		p.server, err = tick.NewServer(tick.ServerConfig{Config: config, Epoch: l.Epoch})
		must(p.t, err)
		p.server.Start(l.Now)
		p.epoch = l.Epoch
	case "input":
		p.server.Advance(l.Now)
		ok, late := p.server.AcceptInput(player, p.epoch, tick.Tick(l.Tick), l.Now)
		if l.Late = late; ok == late {
			p.t.Errorf("input for tick %d: %v, %v", l.Tick, ok, late)
		}
	case "announce":
		p.server.Advance(l.Now)
		w, _ := p.server.Announce(player, l.Now)
		b, _ := w.AppendBinary(nil)
		l = tickLine{Event: l.Event, Hex: hex.EncodeToString(b), Now: l.Now}.inputs(b)
	}
	return l
}

// hear lets the client take a Welcome, and returns the line with what it says.
func (p *tickEnds) hear(l tickLine) tickLine {
	var w tick.Welcome
	must(p.t, w.UnmarshalBinary(unhex(l.Hex)))
	p.clock.known = !l.Unknown
	l.Refused, l.Hello, l.Ticks = p.client.OnWelcome(w, l.Now) != nil, "", nil
	if l.Refused {
		return l
	}
	p.client.Advance(l.Now)
	if h, ok := p.client.Hello(); ok {
		hello, _ := h.AppendBinary(nil)
		l.Hello = hex.EncodeToString(hello)
	}
	if c, ok := p.client.Snapshot(l.Now); ok && p.clock.known {
		for _, t := range []tick.Time{c.ServerTime, c.SharedTime, c.PredictedTime} {
			l.Ticks = append(l.Ticks, fmt.Sprint(int64(t.Tick())))
		}
	}
	return l
}

// TestWireTick: the messages, the arithmetic of ticks, the handshake, and what a server says of inputs.
func TestWireTick(t *testing.T) {
	ends := tickEnds{t: t}
	for i, l := range checkWire(t, "tick.jsonl", ends.play) {
		if l.Event == "tick" {
			r := tick.Rate{Num: l.Num, Den: l.Den}
			if at := time.Duration(l.Start); r.Ticks(at) != tick.Tick(l.Tick) || r.Ticks(at-1) != tick.Tick(l.Tick-1) {
				t.Errorf("line %d: at %v it is tick %d", i+1, at, r.Ticks(at))
			}
		}
	}
}
