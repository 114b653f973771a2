// SPDX-License-Identifier: BSD-3-Clause

package record

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/bits"
	"time"

	"timesync"
)

// docs/RECORDING.md describes the format for those who read it with something else.

// magic begins a recording. Its last byte is the version of the format.
const magic = "tsrecord\x01"

// A block begins with a head: the length of the events in bytes, the checksum of all that
// follows it, the number of the block, and the time of day in milliseconds.
const (
	headLength = 0
	headSum    = headLength + 2
	headNumber = headSum + 4
	headWall   = headNumber + 4
	headLen    = headWall + 6

	// blockLen bounds a block. At 60 datagrams a second, a second needs 0.4 kB of it, so
	// an io.Writer may hang for 10 s before anything is dropped.
	blockLen = 4096
	// eventLen is more than the longest event, which is an answer of 119 bytes.
	eventLen = 128
)

// crcTable is that of CRC-32C, for which processors have an instruction.
var crcTable = crc32.MakeTable(crc32.Castagnoli)

// The first byte of an event. If its two low bits are less than other, it is a datagram
// that differs little from the last one: they say how many bytes the change of the delta has,
// less one. The next two bits are how many bytes the change of the step has, besides the
// four bits on top.
const (
	other     = 3 // in the two low bits; the kind is above them
	kindShift = 2
	lowBits   = 4  // of the change of the step, in the first byte
	deltaBits = 24 // of the change of the delta, at most
)

// last is what the next event is told relative to. Each block starts with the zero value.
type last struct {
	recv  uint64 // local time, us, of the last datagram
	stamp uint32 // of that datagram
	step  int32  // units from the stamp before to that stamp
}

// block is a block that is being filled.
type block struct {
	last
	b []byte
}

// begin starts a block in a buffer of blockLen bytes.
func (b *block) begin(buf []byte) { *b = block{b: buf[:headLen]} }

func (b *block) empty() bool { return len(b.b) == headLen }
func (b *block) full() bool  { return len(b.b) > blockLen-eventLen }

// datagram appends a datagram. b must not be full.
func (b *block) datagram(stamp uint32, recv uint64) {
	step := int32((stamp-b.stamp)<<8) >> 8 // the shorter way round the ring of stamps
	change := int64(recv-b.recv) - int64(step)*unit
	if b.recv == 0 || change < -1<<(deltaBits-1) || change >= 1<<(deltaBits-1) {
		b.far(stamp, recv)
		return
	}
	turn := zigzag(step - b.step)
	delta := zigzag(int32(change))
	turnLen, deltaLen := byteLen(turn>>lowBits), max(byteLen(delta), 1)
	n := len(b.b)
	free := b.b[n : n+1+8]
	free[0] = byte(deltaLen-1) | byte(turnLen)<<2 | byte(turn<<(8-lowBits))
	binary.LittleEndian.PutUint32(free[1:], turn>>lowBits)
	binary.LittleEndian.PutUint32(free[1+turnLen:], delta)
	b.b = b.b[:n+1+turnLen+deltaLen]
	b.recv, b.stamp, b.step = recv, stamp, step
}

// unit is that of a stamp in microseconds.
const unit = 8

// far appends a datagram that is told in full.
func (b *block) far(stamp uint32, recv uint64) {
	b.kind(Datagram)
	b.b = append(b.b, byte(stamp), byte(stamp>>8), byte(stamp>>16))
	b.b = binary.LittleEndian.AppendUint64(b.b, recv)
	b.last = last{recv: recv, stamp: stamp}
}

func (b *block) kind(k Kind) { b.b = append(b.b, other|byte(k)<<kindShift) }

// when appends a local time, relative to the last datagram.
func (b *block) when(localUsec uint64) { b.b = binary.AppendVarint(b.b, int64(localUsec-b.recv)) }

func (b *block) report(minDelta uint32, recvUsec uint64) {
	b.kind(Report)
	b.b = append(b.b, byte(minDelta), byte(minDelta>>8), byte(minDelta>>16))
	b.when(recvUsec)
}

func (b *block) anchor(localUsec, remoteUsec uint64) {
	b.kind(Anchor)
	b.when(localUsec)
	b.b = binary.LittleEndian.AppendUint64(b.b, remoteUsec)
}

// flagDisturbed is in the flags of an answer.
const flagDisturbed = 1 << 0

// unknownJitter is what an answer says for a jitter that is not known. A known one is less.
const unknownJitter = time.Second

// answer appends an answer, after its length: a later version may say more.
func (b *block) answer(localUsec uint64, a *Answer) {
	b.kind(Answered)
	at := len(b.b)
	b.b = append(b.b, 0)
	b.when(localUsec)
	b.b = binary.AppendUvarint(b.b, a.Stats.Datagrams)
	b.b = binary.AppendUvarint(b.b, uint64(a.Stats.LateBuckets))
	if a.OK {
		s := &a.Snapshot
		jitter := s.Jitter
		if !s.JitterKnown {
			jitter = unknownJitter
		}
		b.b = binary.AppendVarint(b.b, s.OffsetUsec)
		for _, d := range [...]time.Duration{s.ErrorBound, s.MinimumOneWayDelay, jitter, s.Age, s.Undisturbed} {
			b.b = binary.AppendVarint(b.b, int64(d))
		}
		b.b = binary.LittleEndian.AppendUint64(b.b, math.Float64bits(s.Skew))
		b.b = binary.AppendUvarint(b.b, uint64(s.Steps))
		b.b = binary.AppendVarint(b.b, int64(s.MinimumDelayToPeer))
		flags := byte(0)
		if s.Disturbed {
			flags = flagDisturbed
		}
		b.b = binary.LittleEndian.AppendUint64(append(b.b, flags), math.Float64bits(s.SkewError))
	}
	b.b[at] = byte(len(b.b) - at - 1)
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

func zigzag(v int32) uint32   { return uint32(v<<1 ^ v>>31) }
func unzigzag(v uint32) int32 { return int32(v>>1) ^ -int32(v&1) }

// byteLen returns how many bytes v needs, 0 for 0.
func byteLen(v uint32) int { return (bits.Len32(v) + 7) / 8 }

// events takes the events of a block apart.
type events struct {
	last
	b   []byte
	bad bool // an event is none, or cut short: the block's checksum was made for it
}

// number takes an integer of n bytes, 8 at most; 0 if there are fewer.
func (e *events) number(n int) uint64 {
	var v [8]byte
	if e.bad = e.bad || len(e.b) < n; e.bad {
		return 0
	}
	copy(v[:], e.b[:n])
	e.b = e.b[n:]
	return binary.LittleEndian.Uint64(v[:])
}

func (e *events) varint() int64 {
	v, n := binary.Varint(e.b)
	e.skip(n)
	return v
}

func (e *events) uvarint() uint64 {
	v, n := binary.Uvarint(e.b)
	e.skip(n)
	return v
}

// skip skips a varint of n bytes, if there is one.
func (e *events) skip(n int) {
	if e.bad = e.bad || n <= 0; !e.bad {
		e.b = e.b[n:]
	}
}

func (e *events) when() uint64 { return e.recv + uint64(e.varint()) }

// next returns the next event; there must be one.
func (e *events) next() (x Event) {
	head := byte(e.number(1))
	if head&other != other {
		e.near(head)
	} else {
		x.Kind = Kind(head >> kindShift)
		e.rest(&x)
	}
	if x.Kind == Datagram {
		x.Counter, x.LocalUsec = timesync.Counter24(e.stamp), e.recv
	}
	return x
}

// near takes a datagram that differs little from the last one.
func (e *events) near(head byte) {
	turn := uint32(e.number(int(head >> 2 & 3)))
	delta := uint32(e.number(int(head&other) + 1))
	e.step += unzigzag(turn<<lowBits | uint32(head>>(8-lowBits)))
	e.stamp = (e.stamp + uint32(e.step)) & (1<<24 - 1)
	e.recv += uint64(int64(e.step)*unit + int64(unzigzag(delta)))
}

// rest takes what follows the kind of an event.
func (e *events) rest(x *Event) {
	switch x.Kind {
	case Datagram:
		e.last = last{stamp: uint32(e.number(3)), recv: e.number(8)}
	case Report:
		x.Counter, x.LocalUsec = timesync.Counter24(e.number(3)), e.when()
	case Anchor:
		x.LocalUsec, x.RemoteUsec = e.when(), e.number(8)
	case Reset:
	case Answered:
		e.answer(x)
	default:
		e.bad = true
	}
}

// answer takes an answer. What a later version says behind it is skipped.
func (e *events) answer(x *Event) {
	n := int(e.number(1))
	if e.bad = e.bad || len(e.b) < n; e.bad {
		return
	}
	in := events{last: e.last, b: e.b[:n]}
	e.b = e.b[n:]
	x.LocalUsec = in.when()
	x.Answer.Stats = timesync.Stats{Datagrams: in.uvarint(), LateBuckets: uint32(in.uvarint())}
	if x.Answer.OK = len(in.b) > 0; x.Answer.OK {
		in.snapshot(&x.Answer.Snapshot, x.LocalUsec)
	}
	e.bad = in.bad
}

// snapshot takes what an answer says if the clock of the peer is known.
func (e *events) snapshot(s *timesync.Snapshot, localUsec uint64) {
	s.OffsetUsec = e.varint()
	s.RemoteUsec = localUsec + uint64(s.OffsetUsec)
	for _, d := range [...]*time.Duration{&s.ErrorBound, &s.MinimumOneWayDelay, &s.Jitter, &s.Age, &s.Undisturbed} {
		*d = time.Duration(e.varint())
	}
	if s.JitterKnown = s.Jitter < unknownJitter; !s.JitterKnown {
		s.Jitter = 0
	}
	s.Skew, s.Steps = math.Float64frombits(e.number(8)), uint32(e.uvarint())
	if len(e.b) == 0 { // recordings of before 2026-11-23 end here
		s.SkewError = math.Inf(1)
		return
	}
	s.MinimumDelayToPeer = time.Duration(e.varint())
	s.Disturbed = e.number(1)&flagDisturbed != 0
	s.SkewError = math.Float64frombits(e.number(8))
}
