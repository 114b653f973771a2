// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"maps"
	"sync"
	"time"

	"timesync/examples/browser/game"
	"timesync/tick"
)

// room is the game on the server: the platform, a figure that walks by itself, and a
// player for each tab.
type room struct {
	clock func() uint64                  // the server's clock, us
	send  func(to *seat, message []byte) // must not block

	mu    sync.Mutex
	game  *tick.Server
	hz    uint32             // its rate
	end   context.CancelFunc // ends its ticks
	seats map[uint32]*seat
	last  uint32 // player number
}

// seat is where a player sits. Its fields belong to the room.
type seat struct {
	player uint32
	figure game.Figure
	inputs map[tick.Tick]game.Figure // by the tick for which they were sent
	late   uint32                    // inputs that came after their tick
	owner  *visitor
}

// newRoom starts a game.
func newRoom(clock func() uint64, send func(*seat, []byte)) *room {
	r := &room{clock: clock, send: send, seats: map[uint32]*seat{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start(defaultRate, 0)
	return r
}

const (
	// defaultRate is how many ticks a second there are at first; minRate and maxRate are
	// the ends of the slider.
	defaultRate = 60
	minRate     = 10
	maxRate     = 120
)

// start starts the ticks at a game time. mu is held.
func (r *room) start(hz uint32, at time.Duration) {
	config := tick.Config{Rate: tick.Hz(hz), Clock: r.clock}
	var server *tick.Server
	server, _ = tick.NewServer(tick.ServerConfig{ // nothing in it comes from outside but the rate, which setRate checks
		Config:    config,
		FirstTick: config.Rate.Ticks(at),
		Handlers:  tick.Handlers{Tick: func(s tick.Info) { r.tick(server, s) }},
	})
	ctx, cancel := context.WithCancel(context.Background())
	server.Start(r.clock())
	go server.Run(ctx)
	r.game, r.hz, r.end = server, hz, cancel
}

// close ends the game.
func (r *room) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end()
}

// setRate changes the tick rate for everybody. Game time goes on, in a new epoch.
func (r *room) setRate(hz uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hz == r.hz || hz < minRate || hz > maxRate {
		return
	}
	now, _ := r.game.SharedTime(r.clock())
	r.end()
	r.start(hz, now.Duration())
	for _, s := range r.seats {
		clear(s.inputs)
		r.welcome(s)
	}
}

// join gives a visitor a seat, and greets it.
func (r *room) join(v *visitor) *seat {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	s := &seat{
		player: r.last,
		owner:  v,
		inputs: map[tick.Tick]game.Figure{},
		figure: game.Figure{X: float32(game.Start(r.last))},
	}
	r.seats[s.player] = s
	return s
}

// leave takes the seat away.
func (r *room) leave(s *seat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seats, s.player)
	r.game.Forget(uint64(s.player))
}

// greet sends a seat the Welcome that it needs to begin.
func (r *room) greet(s *seat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.welcome(s)
}

// welcome is greet with mu held.
func (r *room) welcome(s *seat) {
	if w, ok := r.game.Announce(uint64(s.player), r.clock()); ok {
		b, _ := w.AppendBinary([]byte{game.KindWelcome}) // which never fails
		r.send(s, b)
	}
}

// tick moves everybody and tells everybody.
func (r *room) tick(server *tick.Server, s tick.Info) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if server != r.game {
		return // the rate was just changed
	}
	epoch, _ := server.Epoch()
	at := s.SharedTime.Duration()
	state := game.State{Epoch: epoch, Tick: s.Tick, Figures: map[uint32]game.Figure{game.NPC: npc(at)}}
	for _, seat := range r.seats {
		if f, ok := seat.inputs[s.Tick]; ok {
			seat.figure = f
		}
		maps.DeleteFunc(seat.inputs, func(n tick.Tick, _ game.Figure) bool { return n <= s.Tick })
		state.Figures[seat.player] = seat.figure
	}
	for _, seat := range r.seats {
		state.Late = seat.late
		r.send(seat, state.Append(nil))
		if s.Tick%tick.Tick(r.hz) == 0 { // once a second
			r.welcome(seat)
		}
	}
}

// npc returns where the server's figure is: it walks to and fro in the right quarter.
func npc(at time.Duration) game.Figure {
	x := game.Width * (0.75 + 0.2*game.Platform(at/3)/game.Top)
	return game.Figure{X: float32(x), Height: float32(game.Platform(at))}
}

// receive takes a message of the game.
func (r *room) receive(s *seat, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(b) == 0 {
		return // a datagram that only carries a stamp
	}
	switch b[0] {
	case game.KindHello:
		var hello tick.Hello
		if hello.UnmarshalBinary(b[1:]) == nil {
			_ = r.game.OnHello(uint64(s.player), hello) // one of another epoch comes again
		}
	case game.KindInput:
		m, err := game.ReadInput(b)
		if err != nil {
			return
		}
		ok, late := r.game.AcceptInput(uint64(s.player), m.Epoch, m.Tick, r.clock())
		if late {
			s.late++
		}
		if ok {
			s.inputs[m.Tick] = m.Figure
		}
	}
}

// rate returns how many ticks a second there are.
func (r *room) rate() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hz
}
