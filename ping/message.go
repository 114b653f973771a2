// SPDX-License-Identifier: BSD-3-Clause

package ping

import "encoding/binary"

// The two messages, little-endian. Both have a fixed length, so that they can
// travel alone or inside another message. The nonce is opaque to the server.
//
//	request  kind 0x70 | session 4 | nonce 8
//	reply    kind 0x71 | session 4 | nonce 8 | received 8 | sent 8
//
// The client's own two timestamps stay at home: it remembers when it sent which
// nonce, so no reply can lie about them.
const (
	// RequestSize is the length of a request in bytes.
	RequestSize = 1 + 4 + 8
	// ReplySize is the length of a reply in bytes.
	ReplySize = RequestSize + 8 + 8

	kindRequest = 0x70
	kindReply   = 0x71
)

// AppendReply is the whole server: it appends to dst the answer to a request and returns the longer
// slice. recvUsec is the server's clock when the request arrived, and sendUsec its clock now, both
// in microseconds. The time between them does not count as delay, so a reply may wait for a game
// tick. session is the number that the client gave Clock.Reset, or 0. ok is false, and dst
// unchanged, if request is not a request of this session.
//
// The server keeps nothing about its clients. It may be called from any goroutine.
// A reply is longer than its request by 16 bytes: over datagrams, answer only
// clients whose address is proven.
func AppendReply(
	dst, request []byte, session uint32, recvUsec, sendUsec uint64,
) (b []byte, ok bool) {
	if len(request) != RequestSize || request[0] != kindRequest || sessionOf(request) != session {
		return dst, false
	}
	dst = append(append(dst, kindReply), request[1:]...)
	dst = binary.LittleEndian.AppendUint64(dst, recvUsec)
	return binary.LittleEndian.AppendUint64(dst, sendUsec), true
}

func sessionOf(message []byte) uint32 { return binary.LittleEndian.Uint32(message[1:]) }
