// SPDX-License-Identifier: BSD-3-Clause

package client

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"timesync/examples/browser/game"
	"timesync/tick"
)

// keptTicks of states are kept, for what the server clock shows: 4 s at 60 a second.
const keptTicks = 256

// receive takes a message of the game.
func (c *Client) receive(b []byte, raw uint64) {
	if b, ok := bytes.CutPrefix(b, []byte{game.KindWelcome}); ok {
		var w tick.Welcome
		if w.UnmarshalBinary(b) == nil {
			_ = c.game.OnWelcome(w, c.received(raw)) // an overtaken one changes nothing
		}
		return
	}
	state, ok := game.ReadState(b)
	if !ok || !c.game.Accept(state.Epoch, state.Tick, c.received(raw)) {
		return
	}
	if state.Epoch != c.epoch {
		clear(c.states)
		c.epoch = state.Epoch
	}
	c.states[state.Tick] = state
	maps.DeleteFunc(c.states, func(n tick.Tick, _ game.State) bool { return n < state.Tick-keptTicks })
}

// tick plays one tick: the player walks, and stands on the platform as it is in predicted
// time. The server is told.
func (c *Client) tick(s tick.Update) {
	c.was = c.x
	c.x = min(max(c.x+c.walk*game.Speed*s.Delta.Seconds(), 0), game.Width)
	epoch, ok := c.game.Epoch()
	if !ok {
		return
	}
	me := game.Figure{X: float32(c.x), Height: float32(game.Platform(s.PredictedTime.Duration()))}
	c.send(game.State{Epoch: epoch, Tick: s.Tick, Players: []game.Player{{Figure: me}}}.Append(nil))
	if hello, ok := c.game.Hello(); ok {
		b, _ := hello.AppendBinary([]byte{game.KindHello}) // which never fails
		c.send(b)
	}
}

// Walk sets where the player walks: -1 left, 0 nowhere, +1 right.
func (c *Client) Walk(direction float64) { c.walk = direction }

// SetBuffers sets how far the three clocks are apart besides the delays.
func (c *Client) SetBuffers(client, server time.Duration) error {
	const none = -1 // in package tick, zero stands for the default
	return c.game.SetBuffers(cmp.Or(client, none), cmp.Or(server, none))
}

// Frame returns what to draw at raw, as JavaScript is to see it, nil while that is not known. Times are server, shared
// and predicted game time, in seconds, levels how high the platform is at each, in metres. It has the tick rate, which
// share of the inputs came too late, and who is drawn.
func (c *Client) Frame(raw uint64) any {
	now := c.local(raw)
	at, ok := c.game.Snapshot(now)
	if !ok {
		return nil
	}
	var times, levels, drawn []any
	for _, t := range []tick.Time{at.ServerTime, at.SharedTime, at.PredictedTime} {
		times = append(times, t.Duration().Seconds())
		levels = append(levels, game.Platform(t.Duration()))
	}
	draw := func(p game.Player, own bool) {
		drawn = append(drawn, map[string]any{"player": p.Number, "own": own, "x": p.X, "height": p.Height})
	}
	own := c.greeting.Player
	for _, p := range c.seen(at.ServerTime) {
		if p.Number != own {
			draw(p, false)
		}
	}
	x := c.was + (c.x-c.was)*c.game.Fraction(now)
	me := game.Figure{X: float32(x), Height: float32(game.Platform(at.PredictedTime.Duration()))}
	draw(game.Player{Number: own, Figure: me}, true)
	timing, _ := c.game.Timing()
	rate := at.SharedTime.Rate()
	return map[string]any{
		"times": times, "levels": levels, "drawn": drawn,
		"rate": float64(rate.Num) / float64(rate.Den), "late": timing.LateInputs,
	}
}

// seen returns where the others are at a time of the server clock: between the states
// before and after it, of which some may be lost.
func (c *Client) seen(at tick.Time) (between []game.Player) {
	before, after := tick.Tick(math.MinInt64), tick.Tick(math.MaxInt64)
	for n := range c.states {
		if n <= at.Tick() {
			before = max(before, n)
		} else {
			after = min(after, n)
		}
	}
	a, ok1 := c.states[before]
	b, ok2 := c.states[after]
	if !ok1 || !ok2 {
		return a.Players // nothing newer has come: they stand still
	}
	share := float32((float64(at.Tick()-before) + at.Fraction()) / float64(after-before))
	for _, p := range a.Players {
		i := slices.IndexFunc(b.Players, func(q game.Player) bool { return q.Number == p.Number })
		if i >= 0 { // else it has left
			q := b.Players[i]
			p.X, p.Height = p.X+(q.X-p.X)*share, p.Height+(q.Height-p.Height)*share
			between = append(between, p)
		}
	}
	return between
}
