// SPDX-License-Identifier: BSD-3-Clause

package timesync

import (
	"errors"
	"math"
	"strconv"
)

// ErrLength is what the UnmarshalBinary methods return if the data is not
// exactly as long as the wire form.
var ErrLength = errors.New("timesync: data has the wrong length")

// The helpers below are the package's ring arithmetic; ts24.go has that of deltas and offsets.
// bits is the width of the ring; bits of a and b above it are ignored. The counters' Read and Put
// begin with the last byte, so that the compiler checks the bounds once.

// wrap returns the low bits of v as a signed number in [-half, half).
func wrap(v uint64, bits uint) int64 { return int64(v<<(64-bits)) >> (64 - bits) }

// ringLess orders a and b by the shorter way round. Exactly half a ring apart there
// is no shorter way; then the smaller number comes first, so that exactly one of <,
// ==, > holds for every pair. The smaller number is the one without the top bit.
func ringLess(a, b uint32, bits uint) bool {
	return int64((a-b)&(1<<bits-1)) >= 1<<(bits-1)+int64(a>>(bits-1)&1)
}

// ringCompare is ringLess as a number: -1, 0 or +1.
func ringCompare(a, b uint32, bits uint) int {
	switch {
	case (a-b)&(1<<bits-1) == 0:
		return 0
	case ringLess(a, b, bits):
		return -1
	}
	return 1
}

// ringExpand returns the number nearest to recent whose low bits are those of
// small, modulo 2^64: from half a ring behind recent to half a ring less one
// ahead, so a tie goes to the past.
func ringExpand(recent, small uint64, bits uint) uint64 {
	return recent + uint64(wrap(small-recent, bits))
}

// ringExpandBiased is ringExpand with the accepted interval moved into the past
// by bias. A bias of half a ring or more would exclude recent itself, so bias is
// limited to [-half, half).
func ringExpandBiased(recent, small uint64, bits uint, bias int64) uint64 {
	half := int64(1) << (bits - 1)
	return ringExpand(recent-uint64(min(max(bias, -half), half-1)), small, bits)
}

// ring returns v the shorter way round a ring of 2^bits.
func ring(v float64, bits uint) float64 {
	full := float64(uint64(1) << bits)
	if v >= -full/2 && v < full/2 {
		return v
	}
	return v - full*math.Floor(v/full+1./2)
}

// unmarshal sets c to what read makes of data, or returns ErrLength if those are not size bytes.
func unmarshal[C any](c *C, data []byte, size int, read func(b []byte) C) error {
	if len(data) != size {
		return ErrLength
	}
	*c = read(data)
	return nil
}

// Counter16 is a position on a ring of 2^16: it counts from 0 to 65535 and
// wraps. Its wire form is two bytes, little-endian.
type Counter16 uint16

// NewCounter16 returns the low 16 bits of v.
func NewCounter16(v uint64) Counter16 { return Counter16(v) }

// ReadCounter16 reads the first 2 bytes of b. It panics if there are fewer.
func ReadCounter16(b []byte) Counter16 { return Counter16(b[1])<<8 | Counter16(b[0]) }

// Put writes c to the first 2 bytes of b. It panics if there are fewer.
func (c Counter16) Put(b []byte) { b[1], b[0] = byte(c>>8), byte(c) }

// Add returns c+d modulo 2^16.
func (c Counter16) Add(d Counter16) Counter16 { return c + d }

// Sub returns c-d modulo 2^16. For a signed result see Distance.
func (c Counter16) Sub(d Counter16) Counter16 { return c - d }

// Inc returns c+1 modulo 2^16.
func (c Counter16) Inc() Counter16 { return c + 1 }

// Dec returns c-1 modulo 2^16.
func (c Counter16) Dec() Counter16 { return c - 1 }

// Distance returns c minus from the shorter way round the ring: from -32768 to
// 32767.
func (c Counter16) Distance(from Counter16) int32 { return int32(wrap(uint64(c-from), 16)) }

// Compare returns -1 if c comes before o the shorter way round the ring, 0 if they
// are equal, and +1 if c comes after o. Exactly half a ring apart the smaller number
// comes first.
func (c Counter16) Compare(o Counter16) int { return ringCompare(uint32(c), uint32(o), 16) }

// Less reports whether c.Compare(o) < 0.
func (c Counter16) Less(o Counter16) bool { return ringLess(uint32(c), uint32(o), 16) }

// Expand returns the value nearest to recent whose low 16 bits are c, modulo
// 2^64: from 32768 behind recent to 32767 ahead; a tie goes to the past.
func (c Counter16) Expand(recent uint64) uint64 { return ringExpand(recent, uint64(c), 16) }

// ExpandBiased is Expand with the interval of results moved into the past by bias:
// from 32768+bias behind recent to 32767-bias ahead. bias is limited to -32768 to
// 32767, so that recent is always inside.
func (c Counter16) ExpandBiased(recent uint64, bias int64) uint64 {
	return ringExpandBiased(recent, uint64(c), 16, bias)
}

// AppendBinary appends the 2 bytes of c to b. The error is always nil.
func (c Counter16) AppendBinary(b []byte) ([]byte, error) {
	return append(b, byte(c), byte(c>>8)), nil
}

// MarshalBinary returns the 2 bytes of c. The error is always nil.
func (c Counter16) MarshalBinary() ([]byte, error) { return c.AppendBinary(nil) }

// UnmarshalBinary sets c to the counter whose wire form is data. It returns
// ErrLength, and does not change c, unless data is 2 bytes long.
func (c *Counter16) UnmarshalBinary(data []byte) error {
	return unmarshal(c, data, 2, ReadCounter16)
}

// String returns c in decimal.
func (c Counter16) String() string { return strconv.FormatUint(uint64(c), 10) }

// Counter23 is a position on a ring of 2^23: it counts from 0 to 8388607 and
// wraps. Its wire form is three bytes, little-endian.
//
// The 24th bit of its three bytes belongs to the application: reading ignores it,
// and writing sets it to zero. NewCounter23 makes a Counter23 of a number. A conversion
// such as Counter23(v) may leave bits above the low 23: all methods ignore those, but ==,
// map keys and %d do not.
type Counter23 uint32

// NewCounter23 returns the low 23 bits of v.
func NewCounter23(v uint64) Counter23 { return Counter23(v) & 0x7fffff }

// ReadCounter23 reads the first 3 bytes of b. It panics if there are fewer.
func ReadCounter23(b []byte) Counter23 { return NewCounter23(uint64(ReadCounter24(b))) }

// Put writes c to the first 3 bytes of b. It panics if there are fewer.
func (c Counter23) Put(b []byte) { Counter24(c & 0x7fffff).Put(b) }

// Add returns c+d modulo 2^23.
func (c Counter23) Add(d Counter23) Counter23 { return (c + d) & 0x7fffff }

// Sub returns c-d modulo 2^23. For a signed result see Distance.
func (c Counter23) Sub(d Counter23) Counter23 { return (c - d) & 0x7fffff }

// Inc returns c+1 modulo 2^23.
func (c Counter23) Inc() Counter23 { return (c + 1) & 0x7fffff }

// Dec returns c-1 modulo 2^23.
func (c Counter23) Dec() Counter23 { return (c - 1) & 0x7fffff }

// Distance returns c minus from the shorter way round the ring: from -4194304 to
// 4194303.
func (c Counter23) Distance(from Counter23) int32 { return int32(wrap(uint64(c-from), 23)) }

// Compare returns -1 if c comes before o the shorter way round the ring, 0 if they
// are equal, and +1 if c comes after o. Exactly half a ring apart the smaller number
// comes first.
func (c Counter23) Compare(o Counter23) int { return ringCompare(uint32(c), uint32(o), 23) }

// Less reports whether c.Compare(o) < 0.
func (c Counter23) Less(o Counter23) bool { return ringLess(uint32(c), uint32(o), 23) }

// Expand returns the value nearest to recent whose low 23 bits are c, modulo
// 2^64: from 4194304 behind recent to 4194303 ahead; a tie goes to the past.
func (c Counter23) Expand(recent uint64) uint64 { return ringExpand(recent, uint64(c), 23) }

// ExpandBiased is Expand with the interval of results moved into the past by bias:
// from 4194304+bias behind recent to 4194303-bias ahead. bias is limited to -4194304 to
// 4194303, so that recent is always inside.
func (c Counter23) ExpandBiased(recent uint64, bias int64) uint64 {
	return ringExpandBiased(recent, uint64(c), 23, bias)
}

// AppendBinary appends the 3 bytes of c to b. The error is always nil.
func (c Counter23) AppendBinary(b []byte) ([]byte, error) {
	return Counter24(c & 0x7fffff).AppendBinary(b)
}

// MarshalBinary returns the 3 bytes of c. The error is always nil.
func (c Counter23) MarshalBinary() ([]byte, error) { return c.AppendBinary(nil) }

// UnmarshalBinary sets c to the counter whose wire form is data. It returns
// ErrLength, and does not change c, unless data is 3 bytes long.
func (c *Counter23) UnmarshalBinary(data []byte) error {
	return unmarshal(c, data, 3, ReadCounter23)
}

// String returns c in decimal.
func (c Counter23) String() string { return strconv.FormatUint(uint64(c&0x7fffff), 10) }

// Counter24 is a position on a ring of 2^24: it counts from 0 to 16777215 and
// wraps. Its wire form is three bytes, little-endian.
//
// NewCounter24 makes a Counter24 of a number. A conversion such as Counter24(v) may leave bits
// above the low 24: all methods ignore those, but ==, map keys and %d do not.
type Counter24 uint32

// NewCounter24 returns the low 24 bits of v.
func NewCounter24(v uint64) Counter24 { return Counter24(v) & 0xffffff }

// ReadCounter24 reads the first 3 bytes of b. It panics if there are fewer.
func ReadCounter24(b []byte) Counter24 {
	return Counter24(b[2])<<16 | Counter24(b[1])<<8 | Counter24(b[0])
}

// Put writes c to the first 3 bytes of b. It panics if there are fewer.
func (c Counter24) Put(b []byte) { b[2], b[1], b[0] = byte(c>>16), byte(c>>8), byte(c) }

// Add returns c+d modulo 2^24.
func (c Counter24) Add(d Counter24) Counter24 { return (c + d) & 0xffffff }

// Sub returns c-d modulo 2^24. For a signed result see Distance.
func (c Counter24) Sub(d Counter24) Counter24 { return (c - d) & 0xffffff }

// Inc returns c+1 modulo 2^24.
func (c Counter24) Inc() Counter24 { return (c + 1) & 0xffffff }

// Dec returns c-1 modulo 2^24.
func (c Counter24) Dec() Counter24 { return (c - 1) & 0xffffff }

// Distance returns c minus from the shorter way round the ring: from -8388608 to
// 8388607.
func (c Counter24) Distance(from Counter24) int32 { return int32(wrap(uint64(c-from), 24)) }

// Compare returns -1 if c comes before o the shorter way round the ring, 0 if they
// are equal, and +1 if c comes after o. Exactly half a ring apart the smaller number
// comes first.
func (c Counter24) Compare(o Counter24) int { return ringCompare(uint32(c), uint32(o), 24) }

// Less reports whether c.Compare(o) < 0.
func (c Counter24) Less(o Counter24) bool { return ringLess(uint32(c), uint32(o), 24) }

// Expand returns the value nearest to recent whose low 24 bits are c, modulo
// 2^64: from 8388608 behind recent to 8388607 ahead; a tie goes to the past.
func (c Counter24) Expand(recent uint64) uint64 { return ringExpand(recent, uint64(c), 24) }

// ExpandBiased is Expand with the interval of results moved into the past by bias:
// from 8388608+bias behind recent to 8388607-bias ahead. bias is limited to -8388608 to
// 8388607, so that recent is always inside.
func (c Counter24) ExpandBiased(recent uint64, bias int64) uint64 {
	return ringExpandBiased(recent, uint64(c), 24, bias)
}

// AppendBinary appends the 3 bytes of c to b. The error is always nil.
func (c Counter24) AppendBinary(b []byte) ([]byte, error) {
	return append(b, byte(c), byte(c>>8), byte(c>>16)), nil
}

// MarshalBinary returns the 3 bytes of c. The error is always nil.
func (c Counter24) MarshalBinary() ([]byte, error) { return c.AppendBinary(nil) }

// UnmarshalBinary sets c to the counter whose wire form is data. It returns
// ErrLength, and does not change c, unless data is 3 bytes long.
func (c *Counter24) UnmarshalBinary(data []byte) error {
	return unmarshal(c, data, 3, ReadCounter24)
}

// String returns c in decimal.
func (c Counter24) String() string { return strconv.FormatUint(uint64(c&0xffffff), 10) }
