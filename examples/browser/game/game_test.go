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

// What was appended is read, and nothing that is shorter or longer, or stands elsewhere.
func TestMessages(t *testing.T) {
	state := State{1 << 62, -3, []Player{{NPC, Figure{1, 2}}, {5, Figure{3, 0}}}}
	b := state.Append(nil)
	if got, ok := ReadState(b); !ok || !reflect.DeepEqual(got, state) {
		t.Errorf("read %v, %v, want %v", got, ok, state)
	}
	nobody, one := len(State{}.Append(nil)), len(state.Append(nil))-len(State{Players: state.Players[:1]}.Append(nil))
	for n := range len(b) + 1 {
		if m, ok := ReadState(append(b, 0)[:n]); ok != (n >= nobody && (n-nobody)%one == 0) {
			t.Errorf("%d bytes of it are %v, %v", n, m, ok)
		}
	}
	for _, wrong := range []Figure{{float32(math.NaN()), 0}, {0, float32(math.Inf(1))}, {-1, 0}, {0, Top + 1}} {
		if _, ok := ReadState(State{Players: []Player{{1, wrong}}}.Append(nil)); ok {
			t.Errorf("a figure at %v is let in", wrong)
		}
	}
}
