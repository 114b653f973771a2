// SPDX-License-Identifier: BSD-3-Clause

package session

import (
	"encoding/binary"
	"math"
	"time"
)

// line is session time over a clock, and what it can be off by. Growths are parts in 10^9
// of the time that has passed since at.
type line struct {
	at, usec              uint64 // us: session time is usec when the clock reads at
	rate                  int64  // of session time minus that of the clock, parts in 10^9
	bound, growth         int64  // us: of the distance from the founder's clock
	hostBound, hostGrowth int64  // us: of that from the session time of the host
}

// read returns the line when its clock reads usec.
func (l *line) read(usec uint64) Reading {
	passed := int64(usec - l.at)
	return Reading{
		Usec:      l.usec + uint64(passed+share(passed, l.rate)),
		Bound:     widen(0, grown(l.bound, l.growth, passed)),
		HostBound: widen(0, grown(l.hostBound, l.hostGrowth, passed)),
	}
}

// from returns the same line from usec on.
func (l *line) from(usec uint64) line {
	now := l.read(usec)
	return line{usec, now.Usec, l.rate, micros(now.Bound), l.growth, micros(now.HostBound), l.hostGrowth}
}

// announcement is the line of a host, over the host's clock. What it says of a host's distance from itself is 0.
type announcement struct {
	generation uint64
	line
}

const (
	version         = 1
	announcementLen = 1 + 3*8 + 3*4
	// A generation that is later cannot be: see maxAhead.
	maxGeneration = math.MaxInt64
)

// append appends the bytes of the announcement of a line.
func (l *line) append(dst []byte, generation uint64) []byte {
	dst = append(dst, version)
	for _, v := range [...]uint64{generation, l.at, l.usec} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	for _, v := range [...]int64{l.rate, l.bound, l.growth} {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(min(v, math.MaxUint32)))
	}
	return dst
}

// parse reads an announcement. ok is false if the bytes are none, or its values cannot be.
func parse(b []byte) (a announcement, ok bool) {
	if len(b) != announcementLen || b[0] != version {
		return announcement{}, false
	}
	u32, u64 := binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
	a = announcement{u64(b[1:]), line{
		at: u64(b[9:]), usec: u64(b[17:]),
		rate: int64(int32(u32(b[25:]))), bound: int64(u32(b[29:])), growth: int64(u32(b[33:])),
	}}
	return a, a.generation > 0 && a.generation <= maxGeneration && magnitude(a.rate) <= maxRatePPB
}

// maxBound is the widest bound, in microseconds: 71 minutes, which an announcement can say.
const maxBound = math.MaxUint32

// grown returns a bound after so many microseconds, either way, rounded up.
func grown(bound, growth, passed int64) int64 {
	if growth == 0 {
		return bound
	}
	const most = 1e15 // us: in 31 years the least growth that a member adds exceeds maxBound
	return min(bound+share(min(magnitude(passed), most), growth)+1, maxBound)
}

// share returns the given parts in 10^9 of v, rounded toward zero.
func share(v, parts int64) int64 {
	const billion = 1_000_000_000
	return v/billion*parts + v%billion*parts/billion
}

// widen returns a bound that is wider by so many microseconds.
func widen(bound time.Duration, usec int64) time.Duration {
	return time.Duration(min(micros(bound)+min(usec, maxBound), maxBound)) * time.Microsecond
}

// micros returns a bound in microseconds, rounded up.
func micros(bound time.Duration) int64 {
	bound = min(max(bound, 0), maxBound*time.Microsecond)
	return int64((bound + time.Microsecond - 1) / time.Microsecond)
}

// ppb returns a rate of so many parts per million in parts in 10^9, or unknown if it is none.
func ppb(ppm float64, unknown int64) int64 {
	if math.IsNaN(ppm) {
		return unknown
	}
	return int64(math.Round(min(max(ppm*1000, -maxSkewPPB), maxSkewPPB)))
}

// magnitude returns |v|; of the least integer the greatest.
func magnitude(v int64) int64 { return max(v, -max(v, -math.MaxInt64)) }
