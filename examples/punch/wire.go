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

// join is what a peer says that waits in a room. The token is empty over UDP.
type join struct{ Token, Room string }

// meeting is what the server tells a peer of the other.
type meeting struct {
	Role    uint64             // as seal.New wants it: one of the two calls, and one answers
	Instant timesync.Counter23 // a TS23, the receiver's time
	To      netip.AddrPort     // not valid: it is not known yet
}

// encode returns a message; one that cannot be encoded does not exist.
func encode(message any) []byte {
	b, _ := json.Marshal(message)
	return b
}
