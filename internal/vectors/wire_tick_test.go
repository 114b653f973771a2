package vectors

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"testing"

	"timesync"
	"timesync/tick"
)

// tickLine is a line of tick.jsonl.
type tickLine struct {
	Event  string   `json:"event"`
	Hex    string   `json:"hex,omitempty"`
	Error  string   `json:"error,omitempty"`
	Epoch  uint64   `json:"epoch,omitempty,string"`
	Num    uint32   `json:"num,omitempty"`
	Den    uint32   `json:"den,omitempty"`
	Origin uint64   `json:"origin,omitempty,string"`
	Tick   int64    `json:"tick,omitempty,string"`
	Heard  bool     `json:"heard,omitempty"`
	Paused bool     `json:"paused,omitempty"`
	Debt   uint64   `json:"debt,omitempty,string"`
	Start  int64    `json:"start,omitempty,string"`
	Newest int64    `json:"newest,omitempty,string"`
	Early  []*int16 `json:"early,omitempty"`

	// the server's clock; of follow and client the client's
	Now     uint64   `json:"now,omitempty,string"`
	Late    bool     `json:"late,omitempty"`
	Unknown bool     `json:"unknown,omitempty"`
	Refused bool     `json:"refused,omitempty"`
	Hello   string   `json:"hello,omitempty"`
	Ticks   []string `json:"ticks,omitempty"`
}

// tickErrors are the names of errors in the lines.
var tickErrors = map[error]string{nil: "", tick.ErrMessage: "malformed", tick.ErrVersion: "version"}

// inputs returns what a Welcome says of inputs, which package tick keeps to itself.
func inputs(b []byte) (newest int64, early []*int16) {
	if len(b) <= 36 {
		return 0, nil
	}
	for rest := b[45:]; len(rest) > 0; rest = rest[2:] {
		e := int16(binary.LittleEndian.Uint16(rest))
		if early = append(early, &e); e == math.MinInt16 {
			early[len(early)-1] = nil
		}
	}
	return int64(binary.LittleEndian.Uint64(b[36:])), early
}

// tickEnds are the server and the client that the lines are about.
type tickEnds struct {
	t      *testing.T
	server *tick.Server
	client *tick.Client
	clock  *timesync.TimeSynchronizer // the client's view of the server's
}

// play returns a line with what package tick makes of it.
func (p *tickEnds) play(l tickLine) tickLine {
	const player = 1
	var err error
	switch b := unhex(l.Hex); l.Event {
	case "welcome":
		var w tick.Welcome
		if l.Error = tickErrors[w.UnmarshalBinary(b)]; l.Error == "" {
			l.Newest, l.Early = inputs(b)
		}
		l.Epoch, l.Num, l.Den, l.Origin = w.Epoch, w.Rate.Num, w.Rate.Den, w.OriginUsec
		l.Tick, l.Heard, l.Paused, l.Debt = int64(w.Tick), w.Heard, w.Paused, uint64(w.Debt)
	case "hello":
		var h tick.Hello
		l.Error = tickErrors[h.UnmarshalBinary(b)]
		l.Epoch, l.Num, l.Den = h.Epoch, h.Rate.Num, h.Rate.Den
	case "tick":
		r, n := tick.Rate{Num: l.Num, Den: l.Den}, tick.Tick(l.Tick)
		at := r.Duration(n)
		if l.Start = int64(at); r.Ticks(at) != n || r.Ticks(at-1) != n-1 {
			p.t.Errorf("%+v: at %v it is tick %d", l, at, r.Ticks(at))
		}
	case "follow":
		p.clock = new(timesync.TimeSynchronizer)
		p.client, err = tick.NewClient(
			tick.ClientConfig{Config: tick.Config{OnMismatch: tick.MismatchAdjust}}, p.clock,
		)
		must(p.t, err)
		p.client.Start(l.Now)
	case "client":
		l = p.hear(l)
	case "start":
		config := tick.Config{Rate: tick.Rate{Num: l.Num, Den: l.Den}}
		p.server, err = tick.NewServer(tick.ServerConfig{Config: config, Epoch: l.Epoch})
		must(p.t, err)
		p.server.Start(l.Now)
	case "input":
		p.server.Advance(l.Now)
		epoch, _ := p.server.Epoch()
		ok, late := p.server.AcceptInput(player, epoch, tick.Tick(l.Tick), l.Now)
		if l.Late = late; ok == late {
			p.t.Errorf("input for tick %d: %v, %v", l.Tick, ok, late)
		}
	case "announce":
		p.server.Advance(l.Now)
		w, _ := p.server.Announce(player, l.Now)
		b, _ = w.AppendBinary(nil)
		l.Hex = hex.EncodeToString(b)
		l.Newest, l.Early = inputs(b)
		l.Debt = uint64(w.Debt)
	}
	return l
}

// hear lets the client take a Welcome, and returns the line with what it says.
func (p *tickEnds) hear(l tickLine) tickLine {
	// the remote clock is 5000 s ahead, and 20 ms away either way
	if !l.Unknown && !p.clock.IsSynchronized() {
		const ahead, delay = 5000 * second, 20_000
		p.clock.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(l.Now+ahead-delay),
			l.Now)
		p.clock.OnPeerMinDeltaTS24(timesync.LocalTimeToDatagramTS24(ahead+delay), l.Now)
		p.clock.Anchor(l.Now, l.Now+ahead)
	}
	var w tick.Welcome
	must(p.t, w.UnmarshalBinary(unhex(l.Hex)))
	l.Refused, l.Hello, l.Ticks = p.client.OnWelcome(w, l.Now) != nil, "", nil
	if l.Refused {
		return l
	}
	p.client.Advance(l.Now)
	if h, ok := p.client.Hello(); ok {
		hello, _ := h.AppendBinary(nil)
		l.Hello = hex.EncodeToString(hello)
	}
	if c, ok := p.client.Snapshot(l.Now); ok && p.clock.IsSynchronized() {
		for _, t := range []tick.Time{c.ServerTime, c.SharedTime, c.PredictedTime} {
			l.Ticks = append(l.Ticks, fmt.Sprint(int64(t.Tick())))
		}
	}
	return l
}

// TestWireTick: the messages, the arithmetic of ticks, the handshake, and what a server says of
// inputs.
func TestWireTick(t *testing.T) {
	wire(t, "tick.jsonl", (&tickEnds{t: t}).play)
}
