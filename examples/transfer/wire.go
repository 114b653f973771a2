// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/binary"
	"errors"

	"timesync/examples/transfer/ledbat"
)

// What a payload is, in its first byte. Integers are little-endian.
//
//	game   filler: a datagram of the game
//	offer  size 8 bytes, SHA-256 32 bytes, name: the sender wants to send, or to know how it went
//	have   first 4 bytes, map: the receiver has all chunks before first; bit i of the map: and
//	       first+i
//	data   number 4 bytes, chunk 4 bytes, bytes: number is that of the datagram, chunk of its
//	       place in the file
//	ack    number 4 bytes, delay 3 bytes, map 8 bytes: the datagram arrived, its delay, and
//	       bit i of the map: so did the one with number-1-i
//	over   text: the other end is done; with a text it failed
const (
	kindGame = iota
	kindOffer
	kindHave
	kindData
	kindAck
	kindOver
)

const (
	// chunkLen is how much of the file is in a datagram: with the headers of data, link and
	// seal it has at most ledbat.Segment bytes.
	chunkLen = 1120

	gameLen = 40   // bytes: a small game's update
	mapLen  = 1000 // bytes of the map in have: more than can be under way out of order
	textLen = 400  // bytes of an error, at most
)

var errMalformed = errors.New("malformed message") // authentic, so another version of the program

// offer is what is to be sent.
type offer struct {
	size uint64
	sum  [32]byte
	name string // empty: test data, of which the receiver keeps nothing
}

func (o *offer) chunks() uint32 { return uint32((o.size + chunkLen - 1) / chunkLen) }

// length returns how many bytes a chunk has.
func (o *offer) length(chunk uint32) int {
	return int(min(o.size-uint64(chunk)*chunkLen, chunkLen))
}

// without returns how many bytes there are while so many chunks are missing.
func (o *offer) without(missing int) uint64 {
	if missing == 0 {
		return o.size
	}
	return uint64(int(o.chunks())-missing) * chunkLen
}

func (o *offer) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(append(b, kindOffer), o.size)
	return append(append(b, o.sum[:]...), o.name...)
}

// maxSize is the longest file: both ends keep a byte for each chunk in memory, 90 MB then.
const maxSize = 100_000_000_000

func readOffer(b []byte) (o offer, err error) {
	if len(b) < 40 {
		return o, errMalformed
	}
	o.size, o.name = binary.LittleEndian.Uint64(b), string(b[40:])
	copy(o.sum[:], b[8:])
	if o.size > maxSize {
		return o, errMalformed
	}
	return o, nil
}

// data is a datagram with a part of the file.
type data struct {
	number, chunk uint32
	bytes         []byte
}

func (d *data) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(append(b, kindData), d.number)
	return append(binary.LittleEndian.AppendUint32(b, d.chunk), d.bytes...)
}

func readData(b []byte) (d data, err error) {
	if len(b) < 8 {
		return d, errMalformed
	}
	return data{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), b[8:]}, nil
}

// ack says that data arrived.
type ack struct {
	number uint32
	delay  ledbat.Delay
	before uint64 // bit i: number-1-i, too
}

func (a *ack) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(append(b, kindAck), a.number)
	return binary.LittleEndian.AppendUint64(a.delay.Append(b), a.before)
}

func readAck(b []byte) (a ack, err error) {
	if len(b) != 15 {
		return a, errMalformed
	}
	return ack{binary.LittleEndian.Uint32(b), ledbat.ReadDelay(b[4:]), binary.LittleEndian.Uint64(b[7:])}, nil
}

// appendHave appends a have message: which chunks are there.
func appendHave(b []byte, had []bool) []byte {
	first := 0
	for first < len(had) && had[first] {
		first++
	}
	b = binary.LittleEndian.AppendUint32(append(b, kindHave), uint32(first))
	rest := had[first:]
	for i := 0; i < min(len(rest), 8*mapLen); i += 8 {
		var bits byte
		for j, is := range rest[i:min(i+8, len(rest))] {
			if is {
				bits |= 1 << j
			}
		}
		b = append(b, bits)
	}
	return b
}

// readHave marks the chunks that a have message names.
func readHave(b []byte, had []bool) error {
	if len(b) < 4 || len(b) > 4+mapLen {
		return errMalformed
	}
	if uint64(binary.LittleEndian.Uint32(b)) > uint64(len(had)) {
		return errMalformed
	}
	first := int(binary.LittleEndian.Uint32(b))
	for i := range first {
		had[i] = true
	}
	for i := range min(8*len(b[4:]), len(had)-first) {
		if b[4+i/8]>>(i%8)&1 != 0 {
			had[first+i] = true
		}
	}
	return nil
}

// appendOver appends that it is over; the text is empty if all went well.
func appendOver(b []byte, text string) []byte {
	return append(append(b, kindOver), text[:min(len(text), textLen)]...)
}
