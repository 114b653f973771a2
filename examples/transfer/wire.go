// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"slices"

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
	// Bytes of an offer without the name, which tell files from each other.
	sumEnd     = 8 + sha256.Size
	dataHeader = 4 + 4 // bytes of data before those of the file
	ackLen     = 4 + 3 + 8

	// chunkLen is how much of the file is in a datagram: with the headers of data, link and
	// seal it has at most ledbat.Segment bytes.
	chunkLen = 1120

	gameLen = 40 // bytes: a small game's update
	// mapLen is how many bytes the map in have has at most: more than can be under way out of order.
	mapLen  = 1000
	textLen = 400 // bytes of an error, at most

	// maxSize is the longest file: each end keeps a byte or two for each chunk in memory, 180 MB then.
	maxSize = 100_000_000_000
)

var wire = binary.LittleEndian

// errMalformed is of an authentic message, so of another version of the program.
var errMalformed = errors.New("malformed message")

// over says that it is over, and why unless all went well.
func over(err error) []byte {
	text := ""
	if err != io.EOF {
		text = err.Error()
	}
	return append([]byte{kindOver}, text[:min(len(text), textLen)]...)
}

// offer is what is to be sent.
type offer struct {
	size uint64
	sum  [sha256.Size]byte
	name string // empty: test data, of which the receiver keeps nothing
}

func (o *offer) message() []byte {
	b := wire.AppendUint64([]byte{kindOffer}, o.size)
	return append(append(b, o.sum[:]...), o.name...)
}

func readOffer(b []byte) (o offer, err error) {
	if len(b) < sumEnd || wire.Uint64(b) > maxSize {
		return o, errMalformed
	}
	return offer{wire.Uint64(b), [sha256.Size]byte(b[8:]), string(b[sumEnd:])}, nil
}

func (o *offer) chunks() int { return int((o.size + chunkLen - 1) / chunkLen) }

// length returns how many bytes a chunk has.
func (o *offer) length(chunk uint32) int {
	return int(min(o.size-uint64(chunk)*chunkLen, chunkLen))
}

// appendData appends a message with a part of the file.
func appendData(b []byte, number, chunk uint32, part []byte) []byte {
	b = wire.AppendUint32(append(b, kindData), number)
	return append(wire.AppendUint32(b, chunk), part...)
}

// ackMessage says that data arrived.
func ackMessage(number uint32, delay ledbat.Delay, before uint64) []byte {
	b := append(make([]byte, 0, 1+ackLen), kindAck)
	b = delay.Append(wire.AppendUint32(b, number))
	return wire.AppendUint64(b, before)
}

// pieces says which chunks of a file are there.
type pieces struct {
	offer
	had  []bool
	left int // chunks that are missing
}

func newPieces(o offer) pieces { return pieces{o, make([]bool, o.chunks()), o.chunks()} }

// bytes returns about how many there are.
func (p *pieces) bytes() uint64 { return p.size - min(p.size, uint64(p.left)*chunkLen) }

func (p *pieces) add(chunk int) {
	if !p.had[chunk] {
		p.had[chunk] = true
		p.left--
	}
}

// summary makes a have message.
func (p *pieces) summary() []byte {
	first := slices.Index(p.had, false)
	if first < 0 {
		first = len(p.had)
	}
	rest := p.had[first:min(len(p.had), first+8*mapLen)]
	bits := make([]byte, (len(rest)+7)/8)
	for i, had := range rest {
		if had {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return append(wire.AppendUint32([]byte{kindHave}, uint32(first)), bits...)
}

// readHave returns what a have message names.
func readHave(b []byte, o offer) (pieces, error) {
	p := newPieces(o)
	if len(b) < 4 || len(b) > 4+mapLen || uint64(wire.Uint32(b)) > uint64(len(p.had)) {
		return p, errMalformed
	}
	first, bits := int(wire.Uint32(b)), b[4:]
	for chunk := range p.had {
		if i := chunk - first; i < 0 || i < 8*len(bits) && bits[i/8]>>(i%8)&1 != 0 {
			p.add(chunk)
		}
	}
	return p, nil
}
