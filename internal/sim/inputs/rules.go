package inputs

import (
	"cmp"
	"math"
	"time"

	"timesync/internal/sim/rivals"
	"timesync/link"
	"timesync/tick"
)

// Rule is both ends of a way to find out which tick to play. Times are readings of the clock of
// the end that is asked.
type Rule interface {
	// Frame advances the client, and returns its predicted time in ticks, and which ticks it plays
	// in this frame.
	Frame(nowUsec uint64) (at float64, played []tick.Tick, ok bool)
	// Send lets the client send a datagram, and returns what the server does when it arrives with the
	// inputs of some ticks.
	Send(nowUsec uint64) func(first, newest tick.Tick, nowUsec uint64)
	// Tick lets the server send the state for the tick that it has just run, and returns what the
	// client does when that arrives.
	Tick(n tick.Tick, nowUsec uint64) func(nowUsec uint64)
}

// Method is a rule with what its users can turn, the knob: more of it is a longer lead. It is the
// share of inputs in time, in octaves above all but 1 %; TargetCommandSlack in ticks;
// jitter_margin in ticks.
type Method struct {
	Name    string
	Default float64
	New     func(s *tick.Server, knob float64) Rule
}

// Methods are what is compared, package tick first.
var Methods = []Method{
	{"timesync", 0, func(s *tick.Server, knob float64) Rule {
		return newOurs(s, math.Exp2(-knob)/100)
	}},
	{"Netcode for Entities", 2, func(_ *tick.Server, knob float64) Rule {
		client := &rivals.NetcodeForEntities{Rate: rate, Slack: knob}
		return &netcode{client: client, player: player{client: client}}
	}},
	{"lightyear", 1, func(_ *tick.Server, knob float64) Rule {
		client := &rivals.Lightyear{Rate: rate, Margin: knob}
		return &lightyear{client: client, player: player{client: client}}
	}},
}

// At returns what a method makes of some seeds of a world, as it is turned: of the times the
// longest, and of the leads the mean.
func (m *Method) At(w World, seeds int, knob float64) (sum Result) {
	for seed := range seeds {
		r := m.run(w, uint64(seed)+1, knob)
		sum.Inputs, sum.Late, sum.Lost = sum.Inputs+r.Inputs, sum.Late+r.Late, max(sum.Lost, r.Lost)
		sum.Lead += r.Lead / time.Duration(seeds)
		sum.Until, sum.Excess = max(sum.Until, r.Until), max(sum.Excess, r.Excess)
		sum.Unreported += r.Unreported
	}
	return sum
}

const peer = 1

// ours is package tick over package link, with a Welcome a second, and with the next state after an
// input that came late.
type ours struct {
	server          *tick.Server
	client          *tick.Client
	atClient, atHub link.Link
	announced       uint64
	late            bool        // an input since then
	played          []tick.Tick // in this frame

	next       tick.Tick // what has to follow
	running    bool      // a tick has run
	told       bool      // an event came since
	unreported int       // breaks of the order before which no event came
}

func newOurs(s *tick.Server, lateShare float64) *ours {
	o := &ours{server: s}
	o.client, _ = tick.NewClient(tick.ClientConfig{
		Config:    tick.Config{Rate: tick.Hz(rate)},
		Handlers:  tick.Handlers{Tick: o.ran, Event: func(tick.Event) { o.told = true }},
		LateShare: lateShare,
	}, &o.atClient)
	return o
}

// ran takes a tick that runs. Whether an event names the right ticks, the tests of package tick
// prove.
func (o *ours) ran(s tick.Update) {
	if o.running && s.Tick != o.next && !o.told {
		o.unreported++
	}
	o.next = s.Tick + 1
	o.running = true
	o.told = false
	o.played = append(o.played, s.Tick)
}

func (o *ours) Frame(nowUsec uint64) (float64, []tick.Tick, bool) {
	o.played = o.played[:0]
	o.client.Start(nowUsec)
	o.client.Advance(nowUsec)
	at, ok := o.client.PredictedTime(nowUsec)
	return at.Duration().Seconds() * rate, o.played, ok
}

// player plays the ticks of a predicted time.
type player struct {
	client interface {
		Frame(sinceLast time.Duration)
		Predicted() (ticks float64, ok bool)
	}
	last   uint64 // the frame before
	next   int64
	played []tick.Tick
}

// Frame plays the ticks that are due: those since the frame before, unless the time was set.
func (p *player) Frame(nowUsec uint64) (float64, []tick.Tick, bool) {
	p.client.Frame(time.Duration(nowUsec-cmp.Or(p.last, nowUsec)) * time.Microsecond)
	p.last = nowUsec
	at, ok := p.client.Predicted()
	if !ok {
		return 0, nil, false
	}
	newest := int64(math.Floor(at))
	if off := newest - p.next; off < -10 || off > 10 {
		p.next = newest
	}
	p.played = p.played[:0]
	for ; p.next <= newest; p.next++ {
		p.played = append(p.played, tick.Tick(p.next))
	}
	return at, p.played, true
}

func (o *ours) Send(nowUsec uint64) func(first, newest tick.Tick, nowUsec uint64) {
	b := o.atClient.AppendHeader(nil, nowUsec)
	return func(first, newest tick.Tick, nowUsec uint64) {
		_, _, _, _ = o.atHub.ReadHeader(b, nowUsec)
		epoch, _ := o.server.Epoch()
		for n := first; n <= newest; n++ {
			ok, _ := o.server.AcceptInput(peer, epoch, n, nowUsec)
			o.late = o.late || !ok
		}
	}
}

func (o *ours) Tick(n tick.Tick, nowUsec uint64) func(nowUsec uint64) {
	b := o.atHub.AppendHeader(nil, nowUsec)
	if nowUsec-o.announced >= 1_000_000 || o.late {
		o.announced, o.late = nowUsec, false
		w, _ := o.server.Announce(peer, nowUsec)
		b, _ = w.AppendBinary(b)
	}
	return func(nowUsec uint64) {
		payload, _, _, _ := o.atClient.ReadHeader(b, nowUsec)
		var w tick.Welcome
		if w.UnmarshalBinary(payload) == nil {
			_ = o.client.OnWelcome(w, nowUsec) // one that was overtaken changes nothing
		}
		epoch, _ := o.client.Epoch()
		o.client.AcceptState(epoch, n, nowUsec)
	}
}

// echo is a client's stamp that the server sends back, less the time that it had it.
type echo struct{ sent, came uint64 }

func (e *echo) take(sent, nowUsec uint64) (fresh bool) {
	if fresh = sent > e.sent; fresh {
		*e = echo{sent, nowUsec}
	}
	return fresh
}

// roundTrip is what the client finds out now if the server has sent that back at a time.
func (e echo) roundTrip(back, nowUsec uint64) time.Duration {
	return time.Duration(nowUsec-e.sent-(back-e.came)) * time.Microsecond
}

// netcode is Netcode for Entities.
type netcode struct {
	client *rivals.NetcodeForEntities
	age    rivals.CommandAge
	player
	newest tick.Tick
	echo   echo
}

func (n *netcode) Send(sent uint64) func(first, newest tick.Tick, nowUsec uint64) {
	return func(_, newest tick.Tick, nowUsec uint64) {
		n.echo.take(sent, nowUsec)
		n.newest = max(n.newest, newest)
	}
}

func (n *netcode) Tick(at tick.Tick, back uint64) func(nowUsec uint64) {
	age, e := 0, n.echo
	if n.newest > 0 {
		age = n.age.Tick(int64(at), int64(n.newest))
	}
	return func(nowUsec uint64) {
		if e.sent != 0 {
			n.client.Snapshot(int64(at), age, e.roundTrip(back, nowUsec))
		}
	}
}

// lightyear is lightyear.
type lightyear struct {
	client *rivals.Lightyear
	player
	echo   echo
	fresh  bool // it was not sent back yet
	pinged uint64
}

func (l *lightyear) Send(nowUsec uint64) func(first, newest tick.Tick, nowUsec uint64) {
	ping := uint64(0)
	if nowUsec-l.pinged >= uint64(l.client.PingEvery().Microseconds()) {
		l.pinged, ping = nowUsec, nowUsec
	}
	return func(_, _ tick.Tick, nowUsec uint64) { l.fresh = l.echo.take(ping, nowUsec) || l.fresh }
}

func (l *lightyear) Tick(n tick.Tick, back uint64) func(nowUsec uint64) {
	e, pong := l.echo, l.fresh
	l.fresh = false
	return func(nowUsec uint64) {
		if pong {
			l.client.Pong(e.roundTrip(back, nowUsec))
		}
		l.client.Packet(int64(n))
	}
}
