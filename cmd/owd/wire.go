// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/binary"
	"errors"
	"time"

	"timesync/internal/program"
)

// A datagram is the caller's id, which is random for each start, and what package seal makes of a
// message, padded with zeros. The id chooses the key, so several callers with one secret do not
// disturb each other.
const idLen = 8

type id [idLen]byte

// key returns the key of one caller and its listener.
func (i id) key(secret [32]byte) [32]byte {
	return program.SubKey(secret, "owd"+string(i[:]))
}

// message is a payload, with little-endian integers.
type message struct {
	Number   uint64 // of the datagram: 1, 2, ... since the sender's start
	Interval uint32 // us: how often the caller wants both to send; 0 from a listener
	Size     uint32 // bytes: how long the caller wants payloads to be; 0 from a listener
	Second   uint32 // how many seconds the sender has measured; 0: Last means nothing yet
	Last     way    // the sender's last second of the way to it
	Total    way    // all of it
	Shape    shape  // of the delays in Total
}

// The limits of what a caller may want.
const (
	shortestInterval = time.Millisecond
	longestInterval  = 10 * time.Second
	// longestPayload, with 59 bytes of owd and 48 of IPv6 and UDP, makes 1,280, which every IPv6
	// path carries whole.
	longestPayload = 1173
)

var shortestPayload = binary.Size(message{})

// append appends the message, padded to that many bytes.
func (m *message) append(b []byte, size int) []byte {
	start := len(b)
	b, _ = binary.Append(b, binary.LittleEndian, m) // which never fails for a fixed size
	if missing := size - (len(b) - start); missing > 0 {
		b = append(b, make([]byte, missing)...)
	}
	return b
}

var errMessage = errors.New("not a message of owd, or one of another version")

// read reads a message, and cuts what a caller wants to what it may want.
func (m *message) read(b []byte) error {
	if _, err := binary.Decode(b, binary.LittleEndian, m); err != nil || m.Number == 0 {
		return errMessage
	}
	if m.Interval != 0 {
		lowest := uint32(shortestInterval.Microseconds())
		highest := uint32(longestInterval.Microseconds())
		m.Interval = min(max(m.Interval, lowest), highest)
	}
	m.Size = min(m.Size, longestPayload)
	return nil
}
