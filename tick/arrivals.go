// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"encoding/binary"
	"math"
	"time"
)

const (
	// arrivalsKept is of how many ticks a Welcome says when their inputs came: those of a
	// second at 60 Hz, as long as it is from one Welcome to the next.
	arrivalsKept = 64
	// earlyUnit is what an arrival is rounded down to. Two bytes of it reach to 3.2 s.
	earlyUnit = 100 * time.Microsecond
	// notArrived says that no input for a tick has come.
	notArrived = math.MinInt16
)

// arrivals says by how much the inputs of a peer for its last ticks came before those ticks
// ran, or after. The zero value says nothing.
type arrivals struct {
	newest Tick
	ticks  int                 // how many ticks it tells of: newest and those before
	units  [arrivalsKept]int16 // of tick newest-i, in earlyUnit, negative for late, or notArrived
}

// add enters the input for tick n, unless there is one or the tick is too old.
func (a *arrivals) add(n Tick, early time.Duration) {
	if a.ticks == 0 {
		a.newest = n
	}
	switch ahead := n - a.newest; {
	case ahead >= arrivalsKept:
		*a = arrivals{newest: n}
	case ahead > 0:
		copy(a.units[ahead:], a.units[:])
		for i := range ahead {
			a.units[i] = notArrived
		}
		a.newest, a.ticks = n, min(a.ticks+int(ahead), arrivalsKept)
	case ahead <= -arrivalsKept:
		return
	}
	at := int(a.newest - n)
	for ; a.ticks <= at; a.ticks++ {
		a.units[a.ticks] = notArrived
	}
	if a.units[at] == notArrived {
		units, _ := floorDiv(int64(early), int64(earlyUnit))
		a.units[at] = int16(min(max(units, notArrived+1), math.MaxInt16))
	}
}

// early returns by how much the input for tick newest-i came early, negative for late. ok is
// false if none has come.
func (a *arrivals) early(i int) (d time.Duration, ok bool) {
	return time.Duration(a.units[i]) * earlyUnit, a.units[i] != notArrived
}

// append appends it in bytes, if it says anything: newest 8, the number of ticks 1, and 2 for each
// of them.
func (a *arrivals) append(b []byte) []byte {
	if a.ticks == 0 {
		return b
	}
	b = append(binary.LittleEndian.AppendUint64(b, uint64(a.newest)), byte(a.ticks))
	for _, u := range a.units[:a.ticks] {
		b = binary.LittleEndian.AppendUint16(b, uint16(u))
	}
	return b
}

// read reads all of b. It reports whether that is what append writes.
func (a *arrivals) read(b []byte) bool {
	if len(b) < 9 || b[8] == 0 || b[8] > arrivalsKept || len(b) != 9+2*int(b[8]) {
		return false
	}
	*a = arrivals{newest: Tick(binary.LittleEndian.Uint64(b)), ticks: int(b[8])}
	for i := range a.ticks {
		a.units[i] = int16(binary.LittleEndian.Uint16(b[9+2*i:]))
	}
	return true
}
