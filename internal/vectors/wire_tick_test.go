// SPDX-License-Identifier: BSD-3-Clause

package vectors

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"slices"
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

// tickPeers are servers and clients, and what they said.
type tickPeers struct {
	t      *testing.T
	client *tick.Client
	clock  *wireClock
	lines  []tickLine
}

// start starts a server at a time of its clock.
func (p *tickPeers) start(epoch uint64, rate tick.Rate, now uint64) *tick.Server {
	s, err := tick.NewServer(tick.ServerConfig{Config: tick.Config{Rate: rate}, Epoch: epoch})
	must(p.t, err)
	s.Start(now)
	return s
}

// follow begins a client, which takes the server's rate.
func (p *tickPeers) follow(now uint64) {
	p.clock = &wireClock{}
	var err error
	p.client, err = tick.NewClient(tick.ClientConfig{Config: tick.Config{OnMismatch: tick.MismatchAdjust}}, p.clock)
	must(p.t, err)
	p.client.Start(now)
	p.lines = append(p.lines, tickLine{Event: "follow", Now: now})
}

// welcome returns what a server says at a time of its clock.
func (p *tickPeers) welcome(s *tick.Server, player, now uint64) tick.Welcome {
	s.Advance(now)
	w, _ := s.Announce(player, now)
	return w
}

// hear lets the client take a Welcome, and returns what it says.
func (p *tickPeers) hear(w tick.Welcome, now uint64) (h tick.Hello) {
	b, _ := w.AppendBinary(nil)
	l := tickLine{Event: "client", Hex: hex.EncodeToString(b), Now: now, Unknown: !p.clock.known}
	l.Refused = p.client.OnWelcome(w, now) != nil
	if l.Refused {
		p.lines = append(p.lines, l)
		return h
	}
	p.client.Advance(now)
	h, ok := p.client.Hello()
	if ok {
		hello, _ := h.AppendBinary(nil)
		l.Hello = hex.EncodeToString(hello)
	}
	if c, ok := p.client.Snapshot(now); ok && p.clock.known {
		for _, t := range []tick.Time{c.ServerTime, c.SharedTime, c.PredictedTime} {
			l.Ticks = append(l.Ticks, fmt.Sprint(int64(t.Tick())))
		}
	}
	p.lines = append(p.lines, l)
	return h
}

// tickPlay returns what servers and clients say: the handshake, restarts, a pause, and inputs.
func tickPlay(t *testing.T) []tickLine {
	const player, delay, ms = 1, 20_000, 1000
	at := func(n uint64) uint64 { return n*50*ms + 8_333 } // in the middle of a tick
	p := tickPeers{t: t}
	old := p.start(70, tick.Rate{}, tickAhead-second)
	s := p.start(77, tick.Rate{}, tickAhead)
	p.follow(0)
	hear := func(s *tick.Server, n uint64) tick.Hello {
		return p.hear(p.welcome(s, player, at(n)+tickAhead-delay), at(n))
	}
	hear(s, 2) // the clock is not known
	p.clock.known = true
	hear(s, 4)
	hello := hear(s, 6) // the first ones are lost
	must(t, s.OnHello(player, hello))
	hear(s, 8)
	late := p.welcome(s, player, at(10)+tickAhead-delay)
	hear(s, 12)
	p.hear(late, at(13)) // it was overtaken
	hear(old, 14)        // of an earlier epoch
	hear(s, 16)          // and on
	s2 := p.start(78, tick.Rate{Num: 30, Den: 1}, tickAhead+second)
	hear(s2, 30)  // started anew, at another rate
	hear(old, 44) // too soon: others may come yet
	hear(s2, 48)
	hear(old, 110) // nothing else for 3 s
	s2.Pause(at(120) + tickAhead)
	p.follow(at(121))
	p.clock.known = true
	hear(s2, 130) // joins a server that is paused
	hear(s2, 150)

	// Inputs at a server, and what it says of them.
	const zero = 7_000_000_000
	s = p.start(5, tick.Rate{Num: 60, Den: 1}, zero)
	p.lines = append(p.lines, tickLine{Event: "start", Epoch: 5, Num: 60, Den: 1, Now: zero})
	input := func(n tick.Tick, early int64) { // us before the tick starts
		now := uint64(int64(zero) + tick.Rate{Num: 60, Den: 1}.Duration(n).Microseconds() - early)
		s.Advance(now)
		ok, isLate := s.AcceptInput(player, 5, n, now)
		if ok == isLate {
			t.Errorf("input for tick %d: %v, %v", n, ok, isLate)
		}
		p.lines = append(p.lines, tickLine{Event: "input", Tick: int64(n), Now: now, Late: isLate})
	}
	announce := func(now uint64) {
		b, _ := p.welcome(s, player, now).AppendBinary(nil)
		p.lines = append(p.lines, tickLine{Event: "announce", Hex: hex.EncodeToString(b), Now: now}.inputs(b))
	}
	announce(zero + 10*ms) // none yet
	input(20, 33_350)
	input(21, 12_345)
	input(21, 11_000) // again: only the first counts
	announce(zero + 345*ms)
	input(23, -5_050) // late
	input(24, 20)     // not a unit
	input(25, -20)    // hardly late
	announce(zero + 500*ms)
	input(70, 10_000)
	announce(zero + 1200*ms)
	input(300, 900_000) // so long after that the others are forgotten
	announce(zero + 4200*ms)
	for n := range tick.Tick(70) { // 64 at most
		input(301+n, 10_000+int64(n)*100)
	}
	announce(zero + 6300*ms)
	return p.lines
}

// TestWireTick: the messages, the arithmetic of ticks, and the handshake.
func TestWireTick(t *testing.T) {
	play := tickPlay(t)
	if *update {
		var lines []tickLine
		add := func(event string, b []byte) {
			lines = append(lines, tickLine{Event: event, Hex: hex.EncodeToString(b)}.read())
		}
		rates := []tick.Rate{{Num: 60, Den: 1}, {Num: 30, Den: 1}, {Num: 60000, Den: 1001}, {Num: 1, Den: 7}, {Num: 1_000_000_000, Den: 1}, {Num: 20, Den: 3}}
		for i, r := range rates {
			w := tick.Welcome{Epoch: 1<<uint(10*i) + 5, Rate: r, OriginUsec: 1<<63 - uint64(i), Tick: tick.Tick(1000*i - 2000), Heard: i%2 == 1, Paused: i%3 == 2}
			b, _ := w.AppendBinary(nil)
			add("welcome", b)
			h, _ := tick.Hello{Epoch: w.Epoch, Rate: r}.AppendBinary(nil)
			add("hello", h)
			for n := range b {
				add("welcome", b[:n])
			}
			add("welcome", append(b, 0))
			add("hello", h[:16])
			add("hello", append(h, 0))
			inputs := append(slices.Clone(b), 9, 0, 0, 0, 0, 0, 0, 0, 2, 5, 0, 0, 0x80)
			inputs[33] |= 4
			add("welcome", inputs)
			add("welcome", inputs[:len(inputs)-1])
			for _, n := range []int{0, 1, 3, 64, 65, 255} { // times, with room for each
				many := append(inputs[:43:43], make([]byte, 2*n)...)
				many[42] = byte(n)
				add("welcome", many)
			}
			add("welcome", inputs[:42])
			changed := func(at int, to ...byte) {
				c := slices.Clone(b)
				copy(c[at:], to)
				add("welcome", c)
			}
			changed(0, 1)
			changed(0, 3)
			changed(33, 8)
			changed(33, 4)
			changed(8, 0x80)
			changed(32, 0x7f)
			changed(9, 0x01, 0x94, 0x35, 0x77, 2, 0, 0, 0) // one more than 10^9 ticks a second
			changed(9, 0x00, 0x94, 0x35, 0x77, 2, 0, 0, 0) // just so many
			changed(1, make([]byte, 8)...)                 // no epoch
			changed(9, make([]byte, 4)...)                 // no rate
			changed(13, make([]byte, 4)...)
			for _, n := range []int64{0, 1, 2, 3, 59, 60, 61, -1, -60, 1_000_003, -7_654_321} {
				lines = append(lines, tickLine{Event: "tick", Num: r.Num, Den: r.Den, Tick: n}.read())
			}
		}
		writeWire(t, "tick.jsonl", append(lines, play...))
	}
	refused := 0
	for i, l := range readWire[tickLine](t, "tick.jsonl") {
		got := l.read()
		if len(play) > 0 && l.Event == play[0].Event {
			got, play = play[0], play[1:]
		}
		if !reflect.DeepEqual(got, l) {
			t.Errorf("line %d: %+v, want %+v", i+1, got, l)
		}
		if l.Event == "tick" {
			r := tick.Rate{Num: l.Num, Den: l.Den}
			if at := time.Duration(l.Start); r.Ticks(at) != tick.Tick(l.Tick) || r.Ticks(at-1) != tick.Tick(l.Tick-1) {
				t.Errorf("line %d: at %v it is tick %d", i+1, at, r.Ticks(at))
			}
		}
		if l.Error {
			refused++
		}
	}
	if refused < 100 || len(play) > 0 {
		t.Errorf("%d refused, %d lines of servers and clients are missing", refused, len(play))
	}
}
