// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bytes"
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
	ctx   context.Context // ends the game
	clock func() uint64   // the server's clock, us

	mu    sync.Mutex
	game  *tick.Server
	hz    uint32              // its rate
	end   context.CancelFunc  // ends its ticks
	seats map[uint32]*visitor // by player
	last  uint32              // player number
}

// newRoom starts a game.
func newRoom(ctx context.Context, clock func() uint64) *room {
	r := &room{ctx: ctx, clock: clock, seats: map[uint32]*visitor{}}
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
	// Nothing in it comes from outside but the rate, which setRate checks.
	server, _ = tick.NewServer(tick.ServerConfig{
		Config:    config,
		FirstTick: config.Rate.Ticks(at),
		Handlers:  tick.Handlers{Tick: func(s tick.Info) { r.tick(server, s) }},
	})
	ctx, cancel := context.WithCancel(r.ctx)
	server.Start(r.clock())
	go server.Run(ctx)
	r.game, r.hz, r.end = server, hz, cancel
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
	for _, v := range r.seats {
		clear(v.inputs)
		r.welcome(v)
	}
}

// join gives a visitor a seat, and greets it.
func (r *room) join(v *visitor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	v.player, v.figure.X = r.last, float32(game.Start(r.last))
	r.seats[v.player] = v
	r.welcome(v)
}

// leave takes the seat away.
func (r *room) leave(v *visitor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seats, v.player)
	r.game.Forget(uint64(v.player))
}

// visitor returns who has a player or nil.
func (r *room) visitor(player uint32) *visitor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seats[player]
}

// greet sends a visitor the Welcome that it needs to begin.
func (r *room) greet(v *visitor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.welcome(v)
}

// welcome is greet with mu held.
func (r *room) welcome(v *visitor) {
	if w, ok := r.game.Announce(uint64(v.player), r.clock()); ok {
		b, _ := w.AppendBinary([]byte{game.KindWelcome}) // which never fails
		v.send(b)
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
	state := game.State{Head: game.Head{Epoch: epoch, Tick: s.Tick}}
	state.Players = []game.Player{{Number: game.NPC, Figure: npc(s.SharedTime.Duration())}}
	for _, v := range r.seats {
		if f, ok := v.inputs[s.Tick]; ok {
			v.figure = f
		}
		maps.DeleteFunc(v.inputs, func(n tick.Tick, _ game.Figure) bool { return n <= s.Tick })
		state.Players = append(state.Players, game.Player{Number: v.player, Figure: v.figure})
	}
	for _, v := range r.seats {
		state.Late = v.late
		v.send(state.Append(nil))
		if s.Tick%tick.Tick(r.hz) == 0 { // once a second
			r.welcome(v)
		}
	}
}

// npc returns where the server's figure is: it walks to and fro in the right quarter.
func npc(at time.Duration) game.Figure {
	x := game.Width * (0.75 + 0.2*game.Platform(at/3)/game.Top)
	return game.Figure{X: float32(x), Height: float32(game.Platform(at))}
}

// receive takes a message of the game, or nothing, of a datagram that only carries a stamp.
func (r *room) receive(v *visitor, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hello, ok := bytes.CutPrefix(b, []byte{game.KindHello}); ok {
		var h tick.Hello
		if h.UnmarshalBinary(hello) == nil {
			_ = r.game.OnHello(uint64(v.player), h) // one of another epoch comes again
		}
	} else if m, ok := game.ReadInput(b); ok {
		inTime, late := r.game.AcceptInput(uint64(v.player), m.Epoch, m.Tick, r.clock())
		if late {
			v.late++
		}
		if inTime {
			v.inputs[m.Tick] = m.Figure
		}
	}
}
