// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"maps"
	"sync"
	"time"

	"timesync/tick"
)

// rate is how many ticks a second the game has.
const rate = 60

// room is the game on the server: the platform, a figure that walks by itself, and a player for
// each tab.
type room struct {
	clock func() uint64 // the server's clock, us

	mu       sync.Mutex // guards what follows
	game     *tick.Server
	visitors map[uint32]*visitor // by number
	last     uint32              // player number
}

func newRoom(clock func() uint64) *room {
	r := &room{clock: clock, visitors: map[uint32]*visitor{}}
	r.game, _ = tick.NewServer(tick.ServerConfig{ // a constant configuration, and a right one
		Config:   tick.Config{Rate: tick.Hz(rate)},
		Handlers: tick.Handlers{Tick: r.tick},
	})
	r.game.Start(clock())
	return r
}

// advance plays the ticks that are due.
func (r *room) advance() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.game.Advance(r.clock())
}

// join lets a visitor in.
func (r *room) join(v *visitor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	v.number = r.last
	v.figure.X = 0.3 + 0.85*float32(v.number%3) // on the left; the server's figure is on the right
	r.visitors[v.number] = v
}

// leave forgets a visitor.
func (r *room) leave(v *visitor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.visitors, v.number)
	r.game.Forget(uint64(v.number))
}

// tick moves everybody and tells everybody. mu is held.
func (r *room) tick(u tick.Update) {
	epoch, _ := r.game.Epoch()
	players := []player{{npc, patrol(u.SharedTime.Duration())}}
	for _, v := range r.visitors {
		if f, ok := v.inputs[u.Tick]; ok {
			v.figure = f
		}
		maps.DeleteFunc(v.inputs, func(n tick.Tick, _ figure) bool { return n <= u.Tick })
		players = append(players, player{v.number, v.figure})
	}
	for _, v := range r.visitors {
		head := stateHead{Epoch: epoch, Tick: u.Tick, You: v.number, Delay: v.delayUsec}
		v.send(appendState(nil, head, players))
		// Who does not know yet which tick that is, is told each time, and all are while we are
		// behind with our ticks; else once a second, and after inputs that came too late.
		w, _ := r.game.Announce(uint64(v.number), r.clock())
		if v.late || !w.Heard || w.Debt > 0 || u.Tick%rate == 0 {
			b, _ := w.AppendBinary(nil) // which never fails
			v.send(b)
			v.late = false
		}
	}
}

// patrol returns where the server's figure is: it walks to and fro in the right quarter.
func patrol(at time.Duration) figure {
	x := theWorld.Width * (0.75 + 0.2*platform(at/3)/theWorld.Top)
	return figure{X: float32(x), Height: float32(platform(at))}
}

// receive takes a message of the game. It may be empty: a datagram that only carries a stamp.
func (r *room) receive(v *visitor, b []byte, delayUsec int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.delayUsec = delayUsec
	var hello tick.Hello
	if hello.UnmarshalBinary(b) == nil {
		_ = r.game.OnHello(uint64(v.number), hello) // one of another epoch comes again
		return
	}
	in, ok := readInput(b)
	if !ok {
		return
	}
	ok, late := r.game.AcceptInput(uint64(v.number), in.Epoch, in.Tick, r.clock())
	v.late = v.late || late
	if ok {
		v.inputs[in.Tick] = in.Figure
	}
}
