// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/json"
	"net/netip"

	"timesync"
)

// What a payload between server and peers is, as JSON. Between the peers there is none: link's
// headers are all they exchange.

const (
	tokenLen = 26 // of what names a peer on its TCP connection
	maxRoom  = 100
)

// join is what a peer says that waits in a room.
type join struct{ Token, Room string }

// meeting is what the server tells a peer of the other.
type meeting struct {
	Answers  bool               // one of the two calls, and one answers
	Instant  timesync.Counter23 // a TS23, the receiver's time
	UDP, TCP netip.AddrPort
}

// encode returns a message; one that cannot be encoded does not exist.
func encode(message any) []byte {
	b, _ := json.Marshal(message)
	return b
}
