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
)

// arrivals says by how much the inputs of a peer for its last ticks came before those ticks
// ran, or after. The zero value says nothing.
type arrivals struct {
	newest Tick
	ticks  int                  // how many ticks it tells of: newest and those before
	units  [arrivalsKept]uint16 // of tick newest-i: in earlyUnit, plus bias, or 0 if none has come
}

// bias is what units add to what they tell: 2^15. So 0 stands for none, as the least int16 does on
// the wire.
const bias = -math.MinInt16

// add enters the input for tick n. It returns false if there is one, or the tick is too old.
func (a *arrivals) add(n Tick, early time.Duration) bool {
	if a.ticks == 0 || n-a.newest >= arrivalsKept {
		*a = arrivals{newest: n}
	}
	if ahead := n - a.newest; ahead > 0 {
		copy(a.units[ahead:], a.units[:])
		clear(a.units[:ahead])
		a.newest = n
		a.ticks = min(a.ticks+int(ahead), arrivalsKept)
	}
	at := a.newest - n
	if at < 0 || at >= arrivalsKept || a.units[at] != 0 {
		return false
	}
	units := mulDiv(int64(early), 1, uint64(earlyUnit), false)
	a.units[at] = uint16(min(max(units+bias, 1), math.MaxUint16))
	a.ticks = max(a.ticks, int(at)+1)
	return true
}

// early returns by how much the input for tick newest-i came early, negative for late. ok is
// false if none has come.
func (a *arrivals) early(i int) (d time.Duration, ok bool) {
	return time.Duration(int(a.units[i])-bias) * earlyUnit, a.units[i] != 0
}

// append appends it in bytes, if it says anything: newest 8, the number of ticks 1, and 2 for each
// of them.
func (a *arrivals) append(b []byte) []byte {
	if a.ticks == 0 {
		return b
	}
	b = append(binary.LittleEndian.AppendUint64(b, uint64(a.newest)), byte(a.ticks))
	for _, u := range a.units[:a.ticks] {
		b = binary.LittleEndian.AppendUint16(b, u-bias)
	}
	return b
}

// read reads what append has written. From any other bytes it makes arrivals that append writes
// differently: by that UnmarshalBinary refuses them.
func (a *arrivals) read(b []byte) {
	if len(b) < 9 {
		return
	}
	*a = arrivals{newest: Tick(binary.LittleEndian.Uint64(b)), ticks: min(int(b[8]), arrivalsKept)}
	for i := range min(a.ticks, (len(b)-9)/2) {
		a.units[i] = binary.LittleEndian.Uint16(b[9+2*i:]) + bias
	}
}
