// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/binary"

	"timesync/tick"
)

// The game: figures between two walls, each moved by two buttons. Both sides compute it
// with integers, so that what a player predicts is what the server will say.

const (
	ticksPerSecond = 60
	maxPlayers     = 8
	stride         = 80     // mm a tick: 4.8 m/s
	yard           = 10_000 // mm from the middle to each wall

	// resent is in how many datagrams each input travels. One of 50 is lost or held back
	// for too long; that it happens to four in a row is not to be expected.
	resent = 4
)

// buttons are those that are held down during a tick.
type buttons uint8

const (
	left buttons = 1 << iota
	right
)

// figure is where a player stands, in mm from the middle.
type figure int32

// move returns where a figure is after a tick.
func (f figure) move(b buttons) figure {
	if b&left != 0 {
		f -= stride
	}
	if b&right != 0 {
		f += stride
	}
	return min(max(f, -yard), yard)
}

// input is what a player sends at each tick, and before it knows the ticks, too. Perhaps a
// tick.Hello follows.
type input struct {
	Epoch  uint64          // 0: no ticks yet
	Newest tick.Tick       // predicted
	Held   [resent]buttons // in ticks Newest, Newest-1, ...
}

// state is what the server sends at each tick. Perhaps a tick.Welcome follows.
type state struct {
	Epoch   uint64
	Tick    tick.Tick
	Figures [maxPlayers]figure // after that tick
}

// encode returns a message, to which another may be appended.
func encode[T input | state](m T) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, m) // of fixed size: cannot fail
	return b
}

// decode reads a message, and returns what follows it.
func decode[T input | state](b []byte) (m T, follows []byte, err error) {
	n, err := binary.Decode(b, binary.LittleEndian, &m)
	return m, b[n:], err
}
