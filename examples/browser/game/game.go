// SPDX-License-Identifier: BSD-3-Clause

// Package game is what the server and the page agree on: how the platform moves, and what
// the two say to each other.
package game

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"timesync/tick"
)

const (
	// Top is how high the platform goes, in metres, and Rise how long that takes. At 1.5
	// m/s, the quarter of a second by which two clocks differ is plain to see.
	Top  = 3.0
	Rise = 2 * time.Second
	// Width is how wide the platform is, in metres.
	Width = 4.0
	// Speed is how fast a player walks, in metres a second.
	Speed = 2.0
)

// Platform returns how high the platform is at a game time, in metres. It goes up and down.
func Platform(at time.Duration) float64 {
	cycle := (2 * Rise).Seconds()
	phase := math.Mod(at.Seconds(), cycle)
	if phase < 0 {
		phase += cycle
	}
	return Top * (1 - math.Abs(phase/Rise.Seconds()-1))
}

// Start returns where a player stands at first. Players come in on the left; the server's
// figure is on the right.
func Start(player uint32) float64 { return 0.3 + 0.85*float64(player%3) }

// NPC is the player number of the figure that the server moves. Tabs count from 1.
const NPC = 0

// A Figure stands somewhere on the platform, or was meant to.
type Figure struct {
	X, Height float32 // metres, X from the left end of the platform
}

// Input says where its sender's player is at a tick.
type Input struct {
	Epoch uint64
	Tick  tick.Tick
	Figure
}

// State says where everybody is at a tick.
type State struct {
	Head
	Players []Player
}

// Player is a figure in a State.
type Player struct {
	Number uint32
	Figure
}

// Head is what a State begins with.
type Head struct {
	Epoch uint64
	Tick  tick.Tick
}

// The first byte of a message says what it is. A message of package ping starts with 0x70
// or 0x71.
const (
	KindInput   = 'i'
	KindState   = 's'
	KindHello   = 'h' // followed by a tick.Hello
	KindWelcome = 'w' // followed by a tick.Welcome
)

// stands reports whether a figure is where figures can be.
func (f Figure) stands() bool {
	return f.X >= 0 && f.X <= Width && f.Height >= 0 && f.Height <= Top // and no NaN
}

// appendTo appends a message in little-endian.
func appendTo(b []byte, message any) []byte {
	b, _ = binary.Append(b, binary.LittleEndian, message) // which never fails for a fixed size
	return b
}

// cut takes a message off the front of b, if that is long enough.
func cut(b *[]byte, message any) bool {
	n, err := binary.Decode(*b, binary.LittleEndian, message)
	*b = (*b)[n:]
	return err == nil
}

// Append appends the message.
func (m Input) Append(b []byte) []byte { return appendTo(append(b, KindInput), m) }

// ReadInput reads the message that Append made.
func ReadInput(b []byte) (m Input, ok bool) {
	b, ok = bytes.CutPrefix(b, []byte{KindInput})
	ok = ok && cut(&b, &m) && len(b) == 0 && m.stands()
	return m, ok
}

// Append appends the message.
func (m State) Append(b []byte) []byte {
	return appendTo(appendTo(append(b, KindState), m.Head), m.Players)
}

// ReadState reads the message that Append made.
func ReadState(b []byte) (m State, ok bool) {
	b, ok = bytes.CutPrefix(b, []byte{KindState})
	ok = ok && cut(&b, &m.Head)
	m.Players = make([]Player, len(b)/binary.Size(Player{}))
	ok = ok && cut(&b, m.Players) && len(b) == 0
	return m, ok && !slices.ContainsFunc(m.Players, func(p Player) bool { return !p.stands() })
}
