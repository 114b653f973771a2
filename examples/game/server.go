// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"time"

	"timesync/examples/seal"
	"timesync/internal/program"
	"timesync/tick"
)

// connection makes one end of the connection of a player, who calls. Each player has a key of its
// own, so that no player can speak for another.
func connection(key [32]byte, player byte, direction uint64) *seal.End {
	return seal.New(program.SubKey(key, fmt.Sprint("player ", player)), direction)
}

// serverSide is who knows what is true.
type serverSide struct {
	*node
	ticks   *tick.Server
	players [maxPlayers]*player
	figures [maxPlayers]figure
}

// player is one of them as the server knows it.
type player struct {
	id      int
	end     *seal.End
	known   bool      // a datagram came that claims to be its
	session uint32    // of the player's, see seal.Peer; 0: never heard
	first   tick.Tick // that an input was for
	// In the last tick: what is missing is taken to be the same.
	held   buttons
	inputs map[tick.Tick]buttons // for ticks to come, and those that came for the last ones
	behind bool                  // an input came too late, and the player is not told yet
}

// peer is what tick calls a player: by the number that people know.
func peer(i int) uint64 { return uint64(i) + 1 }

// silence is how long a player may be silent and is still sent to.
const silence = 3 * time.Second

func newServer(n *node, key [32]byte) *serverSide {
	s := &serverSide{node: n}
	for i := range s.players {
		s.players[i] = &player{id: i, end: connection(key, byte(i), 1)}
		s.players[i].reset(0)
	}
	s.ticks, _ = tick.NewServer(tick.ServerConfig{ // nothing that it refuses
		Config:   tick.Config{Rate: tick.Hz(ticksPerSecond), Clock: n.clock.Now},
		Handlers: tick.Handlers{Tick: s.tick, Event: s.told},
	})
	return s
}

// take takes a datagram. Its first byte says whose key it claims to be sealed with.
func (s *serverSide) take(b []byte, from netip.AddrPort, recvUsec uint64) {
	if len(b) == 0 || int(b[0]) >= maxPlayers {
		return
	}
	id := int(b[0])
	p := s.players[id]
	if !p.known { // once: its link is not used yet
		p.known = true
		s.record(&p.end.Link, fmt.Sprint("server of player ", peer(id)))
	}
	d, answer, _ := p.end.Take(b[1:], from, recvUsec, 0) // what is refused has no payload
	if answer != nil {
		s.write(answer, from)
	}
	m, hello, err := decode[input](d.Payload)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.Session != p.session {
		s.ticks.Forget(peer(id)) // it has restarted
		p.reset(d.Session)
	}
	var h tick.Hello
	if h.UnmarshalBinary(hello) == nil {
		_ = s.ticks.OnHello(peer(id), h) // one of an old epoch changes nothing
	}
	if m.Epoch != 0 && s.ticks.Accept(m.Epoch, m.Newest, recvUsec) {
		s.enter(p, m, recvUsec)
	}
}

func (p *player) reset(session uint32) {
	*p = player{
		id:      p.id,
		end:     p.end,
		known:   p.known,
		session: session,
		first:   math.MaxInt64,
		inputs:  map[tick.Tick]buttons{},
	}
}

// enter takes the inputs of a datagram, and counts those that come too late. Each travels in
// several.
func (s *serverSide) enter(p *player, m input, recvUsec uint64) {
	p.first = min(p.first, m.Newest)
	for i, held := range m.Held {
		n := m.Newest - tick.Tick(i)
		if n < p.first {
			break
		}
		ok, late := s.ticks.AcceptInput(peer(p.id), m.Epoch, n, recvUsec)
		if _, known := p.inputs[n]; late && !known {
			p.behind = true
			s.counts.Late++
		}
		if ok || late {
			p.inputs[n] = held
		}
	}
}

// tick moves the figures and tells everybody.
func (s *serverSide) tick(t tick.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran(t.Tick)
	for i, p := range s.players {
		if held, ok := p.inputs[t.Tick]; ok {
			p.held = held
			s.counts.InTime++
		}
		maps.DeleteFunc(p.inputs, func(n tick.Tick, _ buttons) bool { return n < t.Tick-kept })
		s.figures[i] = s.figures[i].move(p.held)
	}
	s.send(t.Tick)
}

// send tells everybody where the figures are after tick n, and those who do not know it
// which tick it is.
func (s *serverSide) send(n tick.Tick) {
	epoch, _ := s.ticks.Epoch()
	for i, p := range s.players {
		now, there := s.clock.Now(), p.end.Peer()
		if there.Session == 0 || int64(now-there.HeardUsec) > silence.Microseconds() {
			continue
		}
		message := encode(state{epoch, n, s.figures})
		welcome, _ := s.ticks.Announce(peer(i), now)
		// Once a second in any case, and each time while we are behind with our ticks.
		if !welcome.Heard || p.behind || welcome.Debt > 0 || n%ticksPerSecond == 0 {
			p.behind = false
			message, _ = welcome.AppendBinary(message)
		}
		s.write(p.end.Seal(nil, message, s.clock.Now()), there.Addr)
	}
}

func (s *serverSide) report() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say("%v; inputs: %d in time, %d late", s.ledger.ticks, s.counts.InTime, s.counts.Late)
}
