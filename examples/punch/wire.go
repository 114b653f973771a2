// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/json"
	"net/netip"

	"timesync"
)

// Payloads between the server and a peer are these structs, as JSON. The peers exchange only
// link's headers.

const (
	tokenLen = 26 // bytes that name a peer on its TCP connection
	maxRoom  = 100
)

// join is what a peer that waits in a room sends. Token is empty over UDP.
type join struct{ Token, Room string }

// meeting is what the server tells a peer about the other.
type meeting struct {
	Role    uint64             // the direction for seal.New: one of the two calls, one answers
	Instant timesync.Counter23 // a TS23, the receiver's time
	To      netip.AddrPort     // not valid until it is known
}

// encode returns a message as JSON. All messages can be encoded.
func encode(message any) []byte {
	b, _ := json.Marshal(message)
	return b
}
