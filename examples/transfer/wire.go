// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
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

	gameLen = 40 // bytes: a small game's update
	// mapLen is how many bytes the map in have has at most: more than can be under way out of order.
	mapLen  = 1000
	textLen = 400 // bytes of an error, at most

	// maxSize is the longest file: each end keeps a byte or two for each chunk in memory, 180 MB then.
	maxSize = 100_000_000_000
)

// errMalformed is of an authentic message, so of another version of the program.
var errMalformed = errors.New("malformed message")

// message makes one of fields that have a size, and what follows them.
func message[T []byte | string](kind byte, fields any, rest T) []byte {
	// It never fails.
	b, _ := binary.Append([]byte{kind}, binary.LittleEndian, fields)
	return append(b, rest...)
}

// read reads the fields behind the kind, and returns what follows them.
func read(b []byte, fields any) (rest []byte, err error) {
	n, err := binary.Decode(b, binary.LittleEndian, fields)
	if err != nil {
		return nil, errMalformed
	}
	return b[n:], nil
}

// over says that it is over; the text is empty if all went well.
func over(text string) []byte { return message(kindOver, []byte(nil), text[:min(len(text), textLen)]) }

// offer is what is to be sent.
type offer struct {
	content
	name string // empty: test data, of which the receiver keeps nothing
}

// content tells files from each other.
type content struct {
	Size uint64
	Sum  [sha256.Size]byte
}

func (o *offer) message() []byte { return message(kindOffer, o.content, o.name) }

func readOffer(b []byte) (o offer, err error) {
	name, err := read(b, &o.content)
	if o.Size > maxSize {
		err = errMalformed
	}
	o.name = string(name)
	return o, err
}

func (o *offer) chunks() int { return int((o.Size + chunkLen - 1) / chunkLen) }

// length returns how many bytes a chunk has.
func (o *offer) length(chunk uint32) int {
	return int(min(o.Size-uint64(chunk)*chunkLen, chunkLen))
}

// data is in front of a part of the file.
type data struct{ Number, Chunk uint32 }

// ack says that data arrived.
type ack struct {
	Number uint32
	Delay  [3]byte // a ledbat.Delay
	Before uint64  // bit i: Number-1-i, too
}

// pieces says which chunks of a file are there.
type pieces struct {
	offer
	had  []bool
	left int // chunks that are missing
}

func newPieces(o offer) pieces { return pieces{o, make([]bool, o.chunks()), o.chunks()} }

// bytes returns about how many there are.
func (p *pieces) bytes() uint64 { return p.Size - min(p.Size, uint64(p.left)*chunkLen) }

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
	return message(kindHave, uint32(first), bits)
}

// readHave returns what a have message names.
func readHave(b []byte, o offer) (pieces, error) {
	p := newPieces(o)
	var first uint32
	bits, err := read(b, &first)
	if err != nil || len(bits) > mapLen || uint64(first) > uint64(len(p.had)) {
		return p, errMalformed
	}
	for chunk := range p.had {
		if i := chunk - int(first); i < 0 || i < 8*len(bits) && bits[i/8]>>(i%8)&1 != 0 {
			p.add(chunk)
		}
	}
	return p, nil
}
