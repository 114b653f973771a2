// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that the messages of the game read back, on every platform.

package game

import (
	"math"
	"reflect"
	"testing"
	"time"
)

func TestPlatform(t *testing.T) {
	for at, want := range map[time.Duration]float64{
		0: 0, time.Second: 1.5, 2 * time.Second: 3, 3 * time.Second: 1.5, 4 * time.Second: 0, 41 * time.Second: 1.5,
		-time.Second: 1.5, math.MinInt64: Platform(math.MinInt64), math.MaxInt64: Platform(math.MaxInt64),
	} {
		if got := Platform(at); got != want || got < 0 || got > Top {
			t.Errorf("after %v at %v m, want %v", at, got, want)
		}
	}
}

// What was appended is read, and nothing that is one byte shorter or longer.
func TestMessages(t *testing.T) {
	in := Input{Epoch: 1 << 62, Tick: -3, Figure: Figure{1, 2}}
	b := in.Append(nil)
	if got, ok := ReadInput(b); !ok || got != in {
		t.Errorf("read %v, %v, want %v", got, ok, in)
	}
	state := State{Head{Epoch: 7, Tick: 9}, []Player{{NPC, Figure{1, 2}}, {5, Figure{3, 0}}}}
	s := state.Append(nil)
	if got, ok := ReadState(s); !ok || !reflect.DeepEqual(got, state) {
		t.Errorf("read %v, %v, want %v", got, ok, state)
	}
	for n := range b {
		if _, ok := ReadInput(b[:n]); ok {
			t.Errorf("%d bytes of an input are one", n)
		}
	}
	if _, ok := ReadInput(append(b, 0)); ok {
		t.Error("a byte more is ignored")
	}
	if _, ok := ReadState(s[:len(s)-1]); ok {
		t.Error("a state that is cut off is one")
	}
	if _, ok := ReadState(State{}.Append(nil)); !ok {
		t.Error("a state of nobody is none")
	}
	for _, wrong := range []Figure{{float32(math.NaN()), 0}, {0, float32(math.Inf(1))}, {-1, 0}, {0, Top + 1}} {
		if _, ok := ReadInput(Input{Figure: wrong}.Append(nil)); ok {
			t.Errorf("a figure at %v is let in", wrong)
		}
		if _, ok := ReadState(State{Players: []Player{{1, wrong}}}.Append(nil)); ok {
			t.Errorf("a figure at %v is let in", wrong)
		}
	}
}
