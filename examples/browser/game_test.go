// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that the server takes no input that cannot be, and says where everybody is.

package main

import (
	"encoding/hex"
	"math"
	"testing"
	"time"
)

func TestPlatform(t *testing.T) {
	for at, want := range map[time.Duration]float64{
		0:                0,
		time.Second:      1.5,
		2 * time.Second:  3,
		3 * time.Second:  1.5,
		4 * time.Second:  0,
		41 * time.Second: 1.5,
		-time.Second:     1.5,
		math.MinInt64:    platform(math.MinInt64),
		math.MaxInt64:    platform(math.MaxInt64),
	} {
		if got := platform(at); got != want || got < 0 || got > theWorld.Top {
			t.Errorf("after %v at %v m, want %v", at, got, want)
		}
	}
}

// rightInput is epoch 5, tick -3, X 1 and height 2.
const rightInput = "10" + "0500000000000000" + "fdffffffffffffff" + "0000803f" + "00000040"

func unhex(t *testing.T, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReadInput(t *testing.T) {
	right := unhex(t, rightInput)
	want := input{Epoch: 5, Tick: -3, Figure: figure{X: 1, Height: 2}}
	if got, ok := readInput(right); !ok || got != want {
		t.Errorf("read %+v, %v, want %+v", got, ok, want)
	}
	for n := range len(right) + 2 {
		b := append(right, 0)[:n]
		if _, ok := readInput(b); ok != (n == len(right)) {
			t.Errorf("%d bytes of it: %v", n, ok)
		}
	}
	for name, xAndHeight := range map[string]string{
		"NaN":       "0000c07f" + "00000000",
		"infinite":  "00000000" + "0000807f",
		"left of 0": "000080bf" + "00000000",
		"too high":  "00000000" + "00008040",
	} {
		b := unhex(t, rightInput[:34]+xAndHeight)
		if _, ok := readInput(b); ok {
			t.Errorf("a figure is let in that is %s", name)
		}
	}
}

func TestAppendState(t *testing.T) {
	head := stateHead{Epoch: 5, Tick: -3, You: 7, Delay: -1}
	players := []player{{7, figure{1, 2}}, {npc, figure{2, 0}}}
	got := hex.EncodeToString(appendState(nil, head, players))
	const want = "11" + "0500000000000000" + "fdffffffffffffff" + "07000000" + "ffffffff" +
		"07000000" + "0000803f" + "00000040" + "00000000" + "00000040" + "00000000"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
