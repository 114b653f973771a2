// SPDX-License-Identifier: BSD-3-Clause

// Package game is what the server and the page agree on: how the platform moves, and what
// the two say to each other.
package game

import (
	"encoding/binary"
	"errors"
	"math"
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
	Epoch   uint64
	Tick    tick.Tick
	Late    uint32 // inputs of the receiver that came after their tick, so far
	Figures map[uint32]Figure
}

// The first byte of a message says what it is. A message of package ping starts with 0x70
// or 0x71.
const (
	KindInput   = 'i'
	KindState   = 's'
	KindHello   = 'h' // followed by a tick.Hello
	KindWelcome = 'w' // followed by a tick.Welcome
)

// ErrMessage says that bytes are not the message that they should be.
var ErrMessage = errors.New("game: malformed message")

const (
	figureLen = 8
	inputLen  = 1 + 16 + figureLen
	stateLen  = 1 + 16 + 4
	playerLen = 4 + figureLen
)

func appendFigure(b []byte, f Figure) []byte {
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f.X))
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(f.Height))
}

// readFigure reads a figure that stands where figures can.
func readFigure(b []byte) (Figure, bool) {
	f := Figure{
		math.Float32frombits(binary.LittleEndian.Uint32(b)),
		math.Float32frombits(binary.LittleEndian.Uint32(b[4:])),
	}
	return f, f.X >= 0 && f.X <= Width && f.Height >= 0 && f.Height <= Top // and no NaN
}

// Append appends the message.
func (m Input) Append(b []byte) []byte {
	b = append(b, KindInput)
	b = binary.LittleEndian.AppendUint64(b, m.Epoch)
	b = binary.LittleEndian.AppendUint64(b, uint64(m.Tick))
	return appendFigure(b, m.Figure)
}

// ReadInput reads the message that Append made.
func ReadInput(b []byte) (m Input, err error) {
	if len(b) != inputLen || b[0] != KindInput {
		return Input{}, ErrMessage
	}
	m.Epoch = binary.LittleEndian.Uint64(b[1:])
	m.Tick = tick.Tick(binary.LittleEndian.Uint64(b[9:]))
	var ok bool
	if m.Figure, ok = readFigure(b[17:]); !ok {
		return Input{}, ErrMessage
	}
	return m, nil
}

// Append appends the message.
func (m State) Append(b []byte) []byte {
	b = append(b, KindState)
	b = binary.LittleEndian.AppendUint64(b, m.Epoch)
	b = binary.LittleEndian.AppendUint64(b, uint64(m.Tick))
	b = binary.LittleEndian.AppendUint32(b, m.Late)
	for player, f := range m.Figures {
		b = binary.LittleEndian.AppendUint32(b, player)
		b = appendFigure(b, f)
	}
	return b
}

// ReadState reads the message that Append made.
func ReadState(b []byte) (m State, err error) {
	if len(b) < stateLen || b[0] != KindState || (len(b)-stateLen)%playerLen != 0 {
		return State{}, ErrMessage
	}
	m.Epoch = binary.LittleEndian.Uint64(b[1:])
	m.Tick = tick.Tick(binary.LittleEndian.Uint64(b[9:]))
	m.Late = binary.LittleEndian.Uint32(b[17:])
	m.Figures = map[uint32]Figure{}
	for b = b[stateLen:]; len(b) > 0; b = b[playerLen:] {
		f, ok := readFigure(b[4:])
		if !ok {
			return State{}, ErrMessage
		}
		m.Figures[binary.LittleEndian.Uint32(b)] = f
	}
	return m, nil
}
