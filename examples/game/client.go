// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"maps"
	"net/netip"
	"time"

	"timesync/examples/seal"
	"timesync/tick"
)

const (
	tickLength = time.Second / ticksPerSecond

	// The first datagrams may be slow ones, and what the clocks are set by is then wrong by
	// half of that. They are corrected by 5 %, which is hardly seen; from 100 ms on they are
	// set. So they are within a tick after (100 - 17) / 50 = 1.7 s.
	slewPPM       = 50_000
	hardThreshold = 100 * time.Millisecond

	// kept is how many ticks a player and the server remember: more than any round trip.
	kept = 2 * ticksPerSecond

	// holds is for how many ticks a player holds the same buttons.
	holds = 15
)

// playerSide is a player: it predicts its own figure, and shows the
// others in server time. It is played by chance.
type playerSide struct {
	*node
	id    byte
	end   *seal.End
	ticks *tick.Client

	// Guarded by node.mu.
	sentAt time.Time // when the last datagram was sent
	held   buttons   // now
	me     figure    // at the newest tick
	newest tick.Tick
	past   map[tick.Tick]buttons // what was held, until then
	states map[tick.Tick]state   // what the server said
	latest tick.Tick             // of states
}

func newPlayer(n *node, key [32]byte, id byte) *playerSide {
	p := &playerSide{node: n, id: id, end: connection(key, id, 0)}
	n.record(&p.end.Link, n.who)
	p.forget()
	p.ticks, _ = tick.NewClient(tick.ClientConfig{ // nothing that it refuses
		Config:        tick.Config{Rate: tick.Hz(ticksPerSecond), Clock: n.clock.Now},
		Handlers:      tick.Handlers{Tick: p.tick, Event: p.event},
		SlewPPM:       slewPPM,
		HardThreshold: hardThreshold,
	}, &p.end.Link)
	return p
}

// forget forgets a game, for the next.
func (p *playerSide) forget() {
	p.past, p.newest = map[tick.Tick]buttons{}, 0
	p.states, p.latest = map[tick.Tick]state{}, 0
}

// knock sends while there are no ticks to send at: clocks are compared by datagrams.
func (p *playerSide) knock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.sentAt) > 2*tickLength {
		p.send(encode(input{}))
	}
}

func (p *playerSide) send(message []byte) {
	p.sentAt = time.Now()
	p.write(p.end.Seal([]byte{p.id}, message, p.clock.Now()), p.server)
}

func (p *playerSide) event(e tick.Event) {
	p.told(e)
	if e.Kind == tick.EventEpochChanged {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.forget()
	}
}

// take takes a datagram of the server.
func (p *playerSide) take(b []byte, from netip.AddrPort, recvUsec uint64) {
	payload, _, _, _ := p.end.Open(b, from, recvUsec) // none of what is refused
	m, welcome, err := decode[state](payload)
	if err != nil {
		return
	}
	var w tick.Welcome
	if w.UnmarshalBinary(welcome) == nil {
		_ = p.ticks.OnWelcome(w, recvUsec) // one that was overtaken changes nothing
	}
	if !p.ticks.AcceptState(m.Epoch, m.Tick, recvUsec) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.states[m.Tick] = m
	if m.Tick > p.latest {
		p.latest = m.Tick
		p.correct(m.Tick, m.Figures[p.id])
	}
}

// correct goes on from where the server says that the own figure was after tick n, with what was
// held since.
func (p *playerSide) correct(n tick.Tick, at figure) {
	_, predicted := p.past[n]
	for n++; n <= p.newest; n++ {
		at = at.move(p.past[n])
	}
	if predicted && at != p.me {
		p.counts.Corrected++
	}
	p.me = at
}

// tick plays a predicted tick at once, sends the input for it, and shows the others in
// server time.
func (p *playerSide) tick(s tick.Update) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ran(s.Tick)
	if s.Tick%holds == 0 {
		p.held = buttons(p.rng.IntN(4))
	}
	p.me, p.newest = p.me.move(p.held), s.Tick
	p.past[s.Tick] = p.held

	p.sendInput(s)
	if _, ok := p.seen(s.ServerTime); ok {
		p.counts.Shown++
	} else if s.ServerTime.Tick() >= p.latest {
		p.counts.Frozen++
	}
	maps.DeleteFunc(p.past, func(n tick.Tick, _ buttons) bool { return n < s.Tick-kept })
	maps.DeleteFunc(p.states, func(n tick.Tick, _ state) bool { return n < s.Tick-kept })
}

// sendInput sends what is held in a tick and in those before.
func (p *playerSide) sendInput(s tick.Update) {
	m := input{Newest: s.Tick}
	m.Epoch, _ = p.ticks.Epoch()
	for i := range m.Held {
		m.Held[i] = p.past[s.Tick-tick.Tick(i)]
	}
	message := encode(m)
	if hello, ok := p.ticks.Hello(); ok {
		message, _ = hello.AppendBinary(message)
	}
	p.send(message)
}

// seen returns where the figures were at a time: between the states before and after.
func (p *playerSide) seen(at tick.Time) (f [maxPlayers]figure, ok bool) {
	before := at.Tick()
	for _, ok := p.states[before]; !ok; _, ok = p.states[before] {
		if before--; before < at.Tick()-kept {
			return f, false
		}
	}
	after := at.Tick() + 1
	for _, ok := p.states[after]; !ok; _, ok = p.states[after] {
		if after++; after > p.latest {
			return p.states[before].Figures, false // frozen
		}
	}
	part := (float64(at.Tick()-before) + at.Fraction()) / float64(after-before)
	for i, a := range p.states[before].Figures {
		f[i] = a + figure(float64(p.states[after].Figures[i]-a)*part)
	}
	return f, true
}

func (p *playerSide) report() {
	p.mu.Lock()
	defer p.mu.Unlock()
	timing, c := "not in sync", p.counts
	if t, ok := p.ticks.Timing(); ok {
		timing = fmt.Sprintf("lead %.1f ms, %.2f %% late", t.Lead.Seconds()*1e3, 100*t.LateInputs)
	}
	p.say("%v; %s; %d corrected, %d shown, %d frozen",
		p.ledger.ticks, timing, c.Corrected, c.Shown, c.Frozen)
}
