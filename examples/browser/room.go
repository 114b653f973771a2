// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bytes"
	"maps"
	"sync"
	"time"

	"timesync/examples/browser/game"
	"timesync/tick"
)

// room is the game on the server: the platform, a figure that walks by itself, and a
// player for each tab.
type room struct {
	clock func() uint64 // the server's clock, us

	mu    sync.Mutex // guards what follows
	game  *tick.Server
	hz    uint32              // its rate
	seats map[string]*visitor // by key
	last  uint32              // player number
}

const (
	// defaultRate is how many ticks a second there are at first; minRate and maxRate are
	// the ends of the slider.
	defaultRate = 60
	minRate     = 10
	maxRate     = 120
)

// setRate begins the game, or changes the tick rate for everybody: game time goes on, in a new epoch.
func (r *room) setRate(hz uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hz == r.hz || hz < minRate || hz > maxRate {
		return
	}
	config := tick.ServerConfig{
		Config:   tick.Config{Rate: tick.Hz(hz)},
		Handlers: tick.Handlers{Tick: r.tick},
	}
	if r.game != nil {
		now, _ := r.game.SharedTime(r.clock())
		config.FirstTick = config.Rate.Ticks(now.Duration())
	}
	r.game, _ = tick.NewServer(config) // nothing in it comes from outside but the rate
	r.game.Start(r.clock())
	r.hz = hz
	for _, v := range r.seats {
		clear(v.inputs)
	}
}

// advance plays the ticks that are due.
func (r *room) advance() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.game.Advance(r.clock())
}

// join gives a visitor a seat, and greets it.
func (r *room) join(v *visitor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	v.player, v.figure.X = r.last, float32(game.Start(r.last))
	r.seats[v.key] = v
	v.out.add(v.greet) // before anything else
}

// leave takes the seat away.
func (r *room) leave(v *visitor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seats, v.key)
	r.game.Forget(uint64(v.player))
}

// visitor returns who has a key, or nil.
func (r *room) visitor(key string) *visitor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seats[key]
}

// tick moves everybody and tells everybody. mu is held.
func (r *room) tick(s tick.Update) {
	epoch, _ := r.game.Epoch()
	state := game.State{Epoch: epoch, Tick: s.Tick}
	state.Players = []game.Player{{Number: game.NPC, Figure: npc(s.SharedTime.Duration())}}
	for _, v := range r.seats {
		if f, ok := v.inputs[s.Tick]; ok {
			v.figure = f
		}
		maps.DeleteFunc(v.inputs, func(n tick.Tick, _ game.Figure) bool { return n <= s.Tick })
		state.Players = append(state.Players, game.Player{Number: v.player, Figure: v.figure})
	}
	b := state.Append(nil)
	for _, v := range r.seats {
		v.send(b)
		// Who does not know yet which tick that is, is told each time, and all are while we are behind with
		// our ticks; else once a second.
		w, _ := r.game.Announce(uint64(v.player), r.clock())
		if !w.Heard || w.Debt > 0 || s.Tick%tick.Tick(r.hz) == 0 {
			b, _ := w.AppendBinary([]byte{game.KindWelcome}) // which never fails
			v.send(b)
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
	} else if m, ok := game.ReadState(b); ok && len(m.Players) == 1 {
		if inTime, _ := r.game.AcceptInput(uint64(v.player), m.Epoch, m.Tick, r.clock()); inTime {
			v.inputs[m.Tick] = m.Players[0].Figure
		}
	}
}
