// SPDX-License-Identifier: BSD-3-Clause

package record

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/bits"
	"time"

	"timesync"
)

// The format, for readers in any language. This is version 1.
//
// Integers are little-endian. A varint is that of encoding/binary and of Protocol Buffers: 7 bits
// a byte, the lowest first. An svarint is a signed number v, written as the varint of 2v, or of
// -2v-1 if v is negative.
//
// A file is magic and then blocks until the end. Each block can be read without the others:
//
//	2 bytes  length of the events in bytes
//	4        CRC-32C (Castagnoli) of all that follows it in the block
//	4        number of the block: 0, 1, 2, ... A gap shows how many were dropped
//	6        time of day at the end of the block, in ms since 1970
//	         events
//
// An event begins with one byte. If its two low bits are not both set, the event is a datagram,
// written as its difference from the one before it in the block:
//
//	bits 0, 1   n - 1: n is how many bytes of change follow
//	bits 2, 3   m: how many bytes of turn follow, before those of change
//	bits 4 - 7  the four low bits of turn
//
// A step is the difference of two consecutive stamps in units of 8 us, the shorter way round their
// ring of 2^24. The step before the first one is 0. turn is 2v, or -2v-1 for a negative v, where v
// is the change of the step. change is the same for v, the time between the two receipts in us,
// minus 8 times the step.
//
// If both low bits are set, the six bits above are the kind:
//
//	0  a datagram in full; the step is 0 again   3 bytes stamp, 8 bytes time of receipt in us
//	1  a report                                  3 bytes MinDelta, svarint time of receipt
//	2  an anchor                                 svarint local time, 8 bytes remote clock in us
//	3  Reset
//	4  an answer: what the synchronizer knew     see below
//
// An svarint time is in us, after the receipt of the datagram before it in the block, or after 0
// if there is none. An answer consists of
//
//	1 byte, the length of the rest
//	svarint local time
//	varint datagrams, varint congested buckets
//	if the offset was known:
//	  svarint offset in us
//	  svarints in ns: error bound, minimum one-way delay, floor scatter (1 s while unknown),
//	    age of the last report, time since a clock was set
//	  8 bytes, the skew in ppm as a float64
//	  varint steps
//	  since 2026-11-23:
//	    svarint minimum delay to the peer in ns
//	    1 byte of flags: bit 0 a clock was set since the first datagram, bit 1 what is known is
//	      unchecked since a silence, bit 2 the multiple of 67.1 s is in doubt (1 and 2 since
//	      2026-11-28)
//	    8 bytes, how far off the skew may be, in ppm as a float64
//	  since 2026-11-28, svarints in ns: jitter of RFC 3550, age at which the peer counts as silent
//
// A later version may add bytes at the end of an answer: skip them. Any other kind makes the block
// malformed. A reader stops at the first block that is cut off, has a wrong checksum or is
// malformed. All blocks before it are good.

// magic begins a recording. Its last byte is the version of the format.
const magic = "tsrecord\x01"

// The head of a block.
const (
	headLength = 0
	headSum    = headLength + 2
	headNumber = headSum + 4
	headWall   = headNumber + 4
	headLen    = headWall + 6

	// blockLen is the longest block. At 60 datagrams a second, a second takes 0.4 kB. So an
	// io.Writer may hang for 10 s before anything is dropped.
	blockLen = 4096
	// eventLen is more than the longest event, an answer of 138 bytes.
	eventLen = 150
)

// crcTable is for CRC-32C, for which processors have an instruction.
var crcTable = crc32.MakeTable(crc32.Castagnoli)

// The first byte of an event.
const (
	other     = 3 // the two low bits, if the event is no difference
	kindShift = 2
	lowBits   = 4  // of the change of the step
	deltaBits = 24 // the most that a change of the delta has
)

// last is the datagram to which the next event is relative. Each block starts with the zero value.
type last struct {
	recv  uint64 // its receive time, us
	stamp uint32 // its stamp
	step  int32  // from the stamp before to its stamp, in units of a stamp
}

// coder writes the events of a block, or reads them. One description of each kind of event serves
// both. A method with a value as its argument writes the value, or ignores it and returns what it
// reads.
type coder struct {
	last
	b     []byte
	reads bool
	bad   bool // an event is malformed or cut short, although the block's checksum is right
}

// begin starts a block in a buffer of blockLen bytes.
func (c *coder) begin(buf []byte) { *c = coder{b: buf[:headLen]} }

func (c *coder) empty() bool { return len(c.b) == headLen }
func (c *coder) full() bool  { return len(c.b) > blockLen-eventLen }

// number is an integer of n bytes, at most 8. It is 0 if fewer are left.
func (c *coder) number(v uint64, n int) uint64 {
	if !c.reads {
		c.b = binary.LittleEndian.AppendUint64(c.b, v)
		c.b = c.b[:len(c.b)-8+n]
		return v
	}
	var b [8]byte
	copy(b[:n], c.take(n))
	return binary.LittleEndian.Uint64(b[:])
}

// take returns the next n bytes, or none if fewer are left.
func (c *coder) take(n int) (b []byte) {
	c.bad = c.bad || n < 0 || n > len(c.b)
	if !c.bad {
		b = c.b[:n]
		c.b = c.b[n:]
	}
	return b
}

func (c *coder) uvarint(v uint64) uint64 {
	if !c.reads {
		c.b = binary.AppendUvarint(c.b, v)
		return v
	}
	v, n := binary.Uvarint(c.b)
	c.take(cmp.Or(n, -1)) // 0: cut short
	return v
}

func (c *coder) varint(v int64) int64 { return unzigzag(c.uvarint(zigzag(v))) }

func (c *coder) duration(d *time.Duration) { *d = time.Duration(c.varint(int64(*d))) }

func (c *coder) float(v float64) float64 {
	return math.Float64frombits(c.number(math.Float64bits(v), 8))
}

// when is a local time. It is written relative to the last datagram.
func (c *coder) when(usec uint64) uint64 { return c.recv + uint64(c.varint(int64(usec-c.recv))) }

func zigzag(v int64) uint64   { return uint64(v<<1 ^ v>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// append writes an event in full. The block must not be full.
func (c *coder) append(e *Event) {
	c.number(other|uint64(e.Kind)<<kindShift, 1)
	c.rest(e)
}

// unit is the unit of a stamp, us.
const unit = 8

// datagram writes a datagram, as its difference from the last one if that is small. The block must
// not be full.
func (c *coder) datagram(stamp uint32, recv uint64) {
	step := int32((stamp-c.stamp)<<8) >> 8 // the shorter way round the ring of stamps
	change := int64(recv-c.recv) - int64(step)*unit
	if c.recv == 0 || change < -1<<(deltaBits-1) || change >= 1<<(deltaBits-1) {
		c.append(&Event{Kind: Datagram, Counter: timesync.Counter24(stamp), LocalUsec: recv})
		return
	}
	turn := zigzag(int64(step - c.step))
	delta := zigzag(change)
	turnLen := byteLen(turn >> lowBits)
	deltaLen := max(byteLen(delta), 1)
	c.number(uint64(deltaLen-1)|uint64(turnLen)<<2|turn<<(8-lowBits), 1)
	c.number(turn>>lowBits, turnLen)
	c.number(delta, deltaLen)
	c.recv, c.stamp, c.step = recv, stamp, step
}

// byteLen returns how many bytes v needs. It is 0 for 0.
func byteLen(v uint64) int { return (bits.Len64(v) + 7) / 8 }

// next reads the next event. There must be one.
func (c *coder) next() (e Event) {
	head := c.number(0, 1)
	if head&other != other {
		c.near(head)
	} else {
		e.Kind = Kind(head >> kindShift)
		c.rest(&e)
	}
	if e.Kind == Datagram {
		e.Counter = timesync.Counter24(c.stamp)
		e.LocalUsec = c.recv
	}
	return e
}

// near reads a datagram that differs little from the last one.
func (c *coder) near(head uint64) {
	turn := c.number(0, int(head>>2&3))
	delta := c.number(0, int(head&other)+1)
	c.step += int32(unzigzag(turn<<lowBits | head>>(8-lowBits)))
	c.stamp = (c.stamp + uint32(c.step)) & (1<<24 - 1)
	c.recv += uint64(int64(c.step)*unit + unzigzag(delta))
}

// rest is the part of an event behind its kind.
func (c *coder) rest(e *Event) {
	switch e.Kind {
	case Datagram:
		stamp := uint32(c.number(uint64(e.Counter), 3))
		recv := c.number(e.LocalUsec, 8)
		c.last = last{stamp: stamp, recv: recv}
	case Report:
		e.Counter = timesync.Counter24(c.number(uint64(e.Counter), 3))
		e.LocalUsec = c.when(e.LocalUsec)
	case Anchor:
		e.LocalUsec = c.when(e.LocalUsec)
		e.RemoteUsec = c.number(e.RemoteUsec, 8)
	case Reset:
	case Answered:
		c.answer(e)
	default:
		c.bad = true
	}
}

// answer is an answer behind its length. The length lets readers skip fields of later versions.
func (c *coder) answer(e *Event) {
	begin := len(c.b)
	n := int(c.number(0, 1))
	if !c.reads {
		c.known(e)
		c.b[begin] = byte(len(c.b) - begin - 1)
		return
	}
	in := coder{last: c.last, b: c.take(n), reads: true, bad: c.bad}
	in.known(e)
	c.bad = in.bad
}

// The flags of an answer.
const (
	flagStepSeen = 1 << iota
	flagUnchecked
	flagAmbiguous
)

// unknownScatter is written for a FloorScatter that is not known. A known one is smaller.
const unknownScatter = time.Second

// known is the content of an answer. The peer's clock is part of it only if it is known.
func (c *coder) known(e *Event) {
	e.LocalUsec = c.when(e.LocalUsec)
	stats := &e.Answer.Stats
	s := &e.Answer.Snapshot
	stats.Datagrams = c.uvarint(stats.Datagrams)
	stats.QueuedSpans = uint32(c.uvarint(uint64(stats.QueuedSpans)))
	e.Answer.OK = e.Answer.OK || len(c.b) > 0 && c.reads
	if !e.Answer.OK {
		return
	}
	s.OffsetUsec = c.varint(s.OffsetUsec)
	s.RemoteUsec = e.LocalUsec + uint64(s.OffsetUsec)
	if s.FloorScatter == 0 {
		s.FloorScatter = unknownScatter
	}
	for _, d := range [...]*time.Duration{
		&s.ErrorBound, &s.MinimumOneWayDelay, &s.FloorScatter, &s.Age, &s.SinceStep,
	} {
		c.duration(d)
	}
	if s.FloorScatter >= unknownScatter {
		s.FloorScatter = 0
	}
	s.Skew = c.float(s.Skew)
	s.Steps = uint32(c.uvarint(uint64(s.Steps)))
	if c.reads && len(c.b) == 0 { // recordings from before 2026-11-23 end here
		s.SkewError = math.Inf(1)
		return
	}
	c.duration(&s.MinimumDelayToPeer)
	flags := uint64(0)
	for i, is := range [...]bool{s.StepSeen, s.Unchecked, s.Ambiguous} {
		if is {
			flags |= flagStepSeen << i
		}
	}
	flags = c.number(flags, 1)
	s.StepSeen = flags&flagStepSeen != 0
	s.Unchecked = flags&flagUnchecked != 0
	s.Ambiguous = flags&flagAmbiguous != 0
	s.SkewError = c.float(s.SkewError)
	if c.reads && len(c.b) == 0 { // recordings from before 2026-11-28 end here
		return
	}
	c.duration(&s.Jitter)
	c.duration(&s.SilentAfter)
}

// seal writes the head of a block.
func seal(b []byte, number uint32, wall time.Time) {
	binary.LittleEndian.PutUint32(b[headNumber:], number)
	binary.LittleEndian.PutUint16(b[headLength:], uint16(len(b)-headLen))
	ms := uint64(wall.UnixMilli())
	binary.LittleEndian.PutUint32(b[headWall:], uint32(ms))
	binary.LittleEndian.PutUint16(b[headWall+4:], uint16(ms>>32))
	binary.LittleEndian.PutUint32(b[headSum:], crc32.Checksum(b[headNumber:], crcTable))
}
