// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/binary"
	"math"
	"time"

	"timesync/tick"
)

// world is what the server and the page agree on. The page is told.
type world struct {
	Top   float64 `json:"top"`   // how high the platform goes, metres
	Rise  float64 `json:"rise"`  // how long that takes, seconds
	Width float64 `json:"width"` // of the platform, metres
	Speed float64 `json:"speed"` // at which players walk, metres a second
}

// theWorld has a platform of 1.5 m/s: the quarter of a second by which two clocks differ is plain
// to see.
var theWorld = world{Top: 3, Rise: 2, Width: 4, Speed: 2}

// platform returns how high the platform is at a game time, in metres. It goes up and down.
func platform(at time.Duration) float64 {
	cycle := 2 * theWorld.Rise
	phase := math.Mod(at.Seconds(), cycle)
	if phase < 0 {
		phase += cycle
	}
	return theWorld.Top * (1 - math.Abs(phase/theWorld.Rise-1))
}

// The first byte of a message says what it is. 1 and 2 are those of package tick, 0x70 and 0x71
// those of package ping.
const (
	kindInput = 0x10
	kindState = 0x11
)

// figure is where somebody stands on the platform, or was meant to.
type figure struct {
	X, Height float32 // metres, X from the left end of the platform
}

// stands reports whether a figure is where figures can be.
func (f figure) stands() bool {
	inX := f.X >= 0 && float64(f.X) <= theWorld.Width // false for a NaN
	return inX && f.Height >= 0 && float64(f.Height) <= theWorld.Top
}

// input is what a page sends for each tick: where its player is.
type input struct {
	Epoch  uint64
	Tick   tick.Tick
	Figure figure
}

// readInput reads the message of a page: 25 bytes, little-endian.
func readInput(b []byte) (in input, ok bool) {
	if len(b) != 1+binary.Size(in) || b[0] != kindInput {
		return in, false
	}
	_, _ = binary.Decode(b[1:], binary.LittleEndian, &in) // it has the right size
	return in, in.Figure.stands()
}

// npc is the player number of the figure that the server moves. Tabs count from 1.
const npc = 0

// player is one of those on the platform.
type player struct {
	Number uint32
	Figure figure
}

// stateHead is what a state begins with. The players follow, 12 bytes each.
type stateHead struct {
	Epoch uint64
	Tick  tick.Tick
	You   uint32 // the number of the player who gets it
	// Delay is how long the last datagram of that player was on its way, microseconds; -1 if that
	// is not known.
	Delay int32
}

// appendState appends the message that says where everybody is at a tick, little-endian.
func appendState(b []byte, head stateHead, players []player) []byte {
	b = append(b, kindState)
	b, _ = binary.Append(b, binary.LittleEndian, head) // neither fails: the sizes are fixed
	b, _ = binary.Append(b, binary.LittleEndian, players)
	return b
}
