// Package inputs measures whether the inputs of players come in time: how many come after their
// tick has run, and how far ahead of the server a client plays for that. A client and a server
// exchange a datagram each tick, over a link of package sim, by the rule of package tick or one
// of those in package rivals.
package inputs

import (
	"fmt"
	"time"

	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
	"timesync/tick"
)

const (
	rate   = 60                   // ticks a second
	frame  = 2 * time.Millisecond // between two calls of Advance on both sides
	resent = 3                    // in how many datagrams each input travels
	from   = 10 * time.Second     // inputs count from here on
	second = time.Second
)

// World is where it is measured: A is the client, which may be asleep, and B the server.
type World struct {
	sim.Scenario
	// Steady says that jitter and delay stay as they are from the beginning on.
	Steady bool
	// Change is when the path, or the server, becomes another for good; 0 is never. RoundTrip is
	// that of the path from then on.
	Change, RoundTrip time.Duration
	// Slow says that the server runs nine ticks in the time of ten for 20 s before the change.
	Slow bool
}

// Result is what a rule makes of a world.
type Result struct {
	Inputs, Late int // of those that came, sent from 10 s on
	// mean of predicted time over the server's and the delay of the path, from 10 s on
	Lead time.Duration
	// After a change: how long until the last three inputs in a row that are late, how many are
	// late within 2 s, and how long until the lead is no more than 10 ms above that before.
	Until, Excess time.Duration
	Lost          int
	Unreported    int // ticks that ran twice, or were left out, and no event of package tick says so
}

// Share returns the share of late inputs.
func (r Result) Share() float64 { return float64(r.Late) / float64(max(r.Inputs, 1)) }

// String returns share and lead.
func (r Result) String() string {
	return fmt.Sprintf("%.2f %% of %d late with a lead of %.1f ms",
		100*r.Share(), r.Inputs, r.Lead.Seconds()*1e3)
}

// play is a run.
type play struct {
	w          World
	world      *simnet.World
	hub, spoke *simnet.Node
	up, down   *simnet.Link
	asleep     []simnet.Window
	server     *tick.Server
	rule       Rule
	result     Result

	last    tick.Tick // that the server has run
	knocked time.Duration
	first   tick.Tick // that the client has played
	came    map[tick.Tick]bool
	sentAt  map[tick.Tick]time.Duration
	row     int
	leads   []lead
}

// lead is how far ahead of the server the client is, beyond the delay.
type lead struct {
	at      time.Duration
	seconds float64
}

// run lets a method play, as it is turned.
func (m *Method) run(w World, seed uint64, knob float64) Result {
	p := &play{
		w:      w,
		world:  simnet.NewWorld(seed),
		came:   map[tick.Tick]bool{},
		sentAt: map[tick.Tick]time.Duration{},
	}
	if w.Off != nil {
		p.asleep = w.Off(seed)
	}
	p.hub = p.world.Node("hub", simnet.NewClock(w.B(seed), seed))
	p.spoke = p.world.Node("spoke", simnet.NewClock(w.A(seed), seed+1))
	p.up, p.down = w.AB(seed), w.BA(seed)
	p.server, _ = tick.NewServer(tick.ServerConfig{
		Config:   tick.Config{Rate: tick.Hz(rate), MaxTicks: 1},
		Handlers: tick.Handlers{Tick: p.ran},
	})
	p.rule = m.New(p.server, knob)
	p.server.Start(p.hub.NowUsec())
	rng := p.world.Rand("frames")
	p.world.At(time.Duration(rng.Int64N(int64(frame))), p.serve)
	p.world.Every(frame, time.Duration(rng.Int64N(int64(second/rate))), p.play)
	p.world.Run(w.Duration)
	return p.finish()
}

// serve is a frame of the server, in which it has time for a tick.
func (p *play) serve() {
	p.server.Advance(p.hub.NowUsec())
	wait := frame
	if now := p.world.Now(); p.w.Slow && now >= p.w.Change-20*second && now < p.w.Change {
		wait = second * 10 / 9 / rate
	}
	p.world.At(p.world.Now()+wait, p.serve)
}

func (p *play) ran(s tick.Update) {
	p.last = s.Tick
	arrives := p.rule.Tick(s.Tick, p.hub.NowUsec())
	p.world.Pass(p.down, p.world.Rand("hub>spoke"), func() {
		if !p.sleeps() {
			arrives(p.spoke.NowUsec())
		}
	})
}

func (p *play) sleeps() bool { return simnet.Within(p.asleep, p.world.Now()) }

// play is a frame of the client.
func (p *play) play() {
	if p.sleeps() {
		return
	}
	at, played, ok := p.rule.Frame(p.spoke.NowUsec())
	if !ok {
		if now := p.world.Now(); now-p.knocked >= second/rate { // so that it becomes known
			p.knocked = now
			p.send(-1 << 62)
		}
		return
	}
	p.measure(at)
	for _, n := range played {
		if len(p.sentAt) == 0 {
			p.first = n
		}
		if _, again := p.sentAt[n]; !again {
			p.sentAt[n] = p.world.Now()
		}
		p.send(n)
	}
}

// send sends the inputs up to a tick.
func (p *play) send(newest tick.Tick) {
	arrives := p.rule.Send(p.spoke.NowUsec())
	p.world.Pass(p.up, p.world.Rand("spoke>hub"), func() {
		first := max(newest-resent+1, p.first)
		for n := first; n <= newest; n++ {
			if at, ok := p.sentAt[n]; ok && !p.came[n] {
				p.came[n] = true
				p.judge(at, n <= p.last)
			}
		}
		arrives(first, newest, p.hub.NowUsec())
	})
}

// measure notes the lead.
func (p *play) measure(at float64) {
	now := p.hub.NowUsec()
	is, _ := p.server.SharedTime(now)
	game := is.Duration().Seconds()
	if debt := p.server.Stats().Debt; debt > 0 {
		game = min(game, (tick.Hz(rate).Duration(is.Tick() - debt + 1)).Seconds())
	}
	p.leads = append(p.leads,
		lead{p.world.Now(), at/rate - game - p.up.BaseAt(p.world.Now()).Seconds()})
}

// lead returns the mean lead of some time, in seconds.
func (p *play) lead(from, to time.Duration) float64 {
	sum, n := 0.0, 0
	for _, l := range p.leads {
		if l.at >= from && l.at < to {
			sum, n = sum+l.seconds, n+1
		}
	}
	return sum / float64(max(n, 1))
}

// judge counts an input that was sent at some time.
func (p *play) judge(at time.Duration, late bool) {
	if at >= from {
		p.result.Inputs++
	}
	if !late {
		p.row = 0
		return
	}
	p.row++
	if at >= from {
		p.result.Late++
	}
	if after := at - p.w.Change; p.w.Change > 0 && after >= 0 {
		if p.row >= 3 {
			p.result.Until = max(after, p.result.Until)
		}
		if after < 2*second {
			p.result.Lost++
		}
	}
}

func (p *play) finish() Result {
	r := p.result
	r.Lead = time.Duration(p.lead(from, p.w.Duration) * float64(second))
	if o, ok := p.rule.(*ours); ok {
		r.Unreported = o.unreported
	}
	if p.w.Change > 0 {
		const half = second / 2
		before := p.lead(p.w.Change-10*half, p.w.Change)
		for at := p.w.Change; at < p.w.Duration; at += half {
			if p.lead(at, at+half) > before+0.010 {
				r.Excess = at + half - p.w.Change
			}
		}
	}
	return r
}
