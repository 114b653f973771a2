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

// State says where players stand at a tick: all, as the server says, or one, as its page does, whatever its number is.
type State struct {
	Epoch   uint64
	Tick    tick.Tick
	Players []Player
}

// Player is a figure in a State.
type Player struct {
	Number uint32
	Figure
}

// The first byte of a message says what it is. A message of package ping starts with 0x70
// or 0x71.
const (
	KindState   = 's'
	KindHello   = 'h' // followed by a tick.Hello
	KindWelcome = 'w' // followed by a tick.Welcome
)

// stands reports whether a figure is where figures can be.
func (f Figure) stands() bool {
	return f.X >= 0 && f.X <= Width && f.Height >= 0 && f.Height <= Top // and no NaN
}

// Append appends the message, in little-endian.
func (m State) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(append(b, KindState), m.Epoch)
	b = binary.LittleEndian.AppendUint64(b, uint64(m.Tick))
	// It never fails for a fixed size.
	b, _ = binary.Append(b, binary.LittleEndian, m.Players)
	return b
}

// ReadState reads the message that Append made.
func ReadState(b []byte) (m State, ok bool) {
	b, ok = bytes.CutPrefix(b, []byte{KindState})
	if !ok || len(b) < 16 {
		return m, false
	}
	m.Epoch, m.Tick = binary.LittleEndian.Uint64(b), tick.Tick(binary.LittleEndian.Uint64(b[8:]))
	b = b[16:]
	m.Players = make([]Player, len(b)/binary.Size(Player{}))
	n, _ := binary.Decode(b, binary.LittleEndian, m.Players)
	return m, n == len(b) && !slices.ContainsFunc(m.Players, func(p Player) bool { return !p.stands() })
}
