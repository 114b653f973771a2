// SPDX-License-Identifier: BSD-3-Clause

package session

import (
	"encoding/binary"
	"math"
	"time"
)

// line is session time as a straight line over a clock, with its bounds. Rates and growths are
// parts in 10^9; growths count the time since at.
type line struct {
	at         uint64 // us: a reading of the clock
	usec       uint64 // us: the session time then
	rate       int64  // rate of session time minus that of the clock
	bound      int64  // us: how far it can be from the founder's clock at at
	growth     int64  // of bound
	hostBound  int64  // us: how far it can be from the host's session time at at
	hostGrowth int64  // of hostBound
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

// from returns the same line, beginning at usec.
func (l *line) from(usec uint64) line {
	now := l.read(usec)
	return line{
		at:         usec,
		usec:       now.Usec,
		rate:       l.rate,
		bound:      micros(now.Bound),
		growth:     l.growth,
		hostBound:  micros(now.HostBound),
		hostGrowth: l.hostGrowth,
	}
}

// announcement is a host's line over its own clock. Its hostBound and hostGrowth are 0.
type announcement struct {
	generation uint64
	line
}

const (
	version         = 1
	announcementLen = 1 + 3*8 + 3*4
	maxGeneration   = math.MaxInt64
)

// append appends a line's announcement to dst.
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

// parse reads an announcement. ok is false for other bytes and for impossible values.
func parse(b []byte) (a announcement, ok bool) {
	if len(b) != announcementLen || b[0] != version {
		return announcement{}, false
	}
	u32 := binary.LittleEndian.Uint32
	u64 := binary.LittleEndian.Uint64
	a.generation = u64(b[1:])
	a.at = u64(b[9:])
	a.usec = u64(b[17:])
	a.rate = int64(int32(u32(b[25:])))
	a.bound = int64(u32(b[29:]))
	a.growth = int64(u32(b[33:]))
	ok = a.generation > 0 && a.generation <= maxGeneration && magnitude(a.rate) <= maxRatePPB
	return a, ok
}

// maxBound is the widest bound that an announcement can hold, in microseconds: 71 minutes.
const maxBound = math.MaxUint32

// grown returns a bound in microseconds that has grown for passed microseconds, rounded up. A time
// before the line's beginning counts as one after it.
func grown(bound, growth, passed int64) int64 {
	if growth == 0 {
		return bound
	}
	const most = 1e15 // us: in 31 years even the least growth exceeds maxBound
	return min(bound+share(min(magnitude(passed), most), growth)+1, maxBound)
}

// share returns the given parts in 10^9 of v, rounded toward zero.
func share(v, parts int64) int64 {
	const billion = 1_000_000_000
	return v/billion*parts + v%billion*parts/billion
}

// widen returns a bound that is usec microseconds wider.
func widen(bound time.Duration, usec int64) time.Duration {
	return time.Duration(min(micros(bound)+min(usec, maxBound), maxBound)) * time.Microsecond
}

// micros returns a bound in microseconds, rounded up.
func micros(bound time.Duration) int64 {
	bound = min(max(bound, 0), maxBound*time.Microsecond)
	return int64((bound + time.Microsecond - 1) / time.Microsecond)
}

// ppb converts parts per million to parts in 10^9. It returns unknown for NaN.
func ppb(ppm float64, unknown int64) int64 {
	if math.IsNaN(ppm) {
		return unknown
	}
	return int64(math.Round(min(max(ppm*1000, -maxSkewPPB), maxSkewPPB)))
}

// magnitude returns |v|, and the greatest integer for the least one.
func magnitude(v int64) int64 { return max(v, -max(v, -math.MaxInt64)) }
