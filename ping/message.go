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

// message is a request, or a reply with the server's two timestamps.
type message struct {
	session    uint32
	nonce      uint64
	recv, sent uint64 // server clock, microseconds; zero in a request
}

// readMessage reads a message of one kind that fills b.
func readMessage(b []byte, kind byte) (m message, ok bool) {
	size := RequestSize
	if kind == kindReply {
		size = ReplySize
	}
	if len(b) != size || b[0] != kind {
		return message{}, false
	}
	m.session = binary.LittleEndian.Uint32(b[1:])
	m.nonce = binary.LittleEndian.Uint64(b[5:])
	if kind == kindReply {
		m.recv = binary.LittleEndian.Uint64(b[13:])
		m.sent = binary.LittleEndian.Uint64(b[21:])
	}
	return m, true
}

// AppendReply is the whole server: it appends to dst the answer to a request and
// returns the longer slice. recvUsec is the server's clock when the request
// arrived and sendUsec its clock now, both in microseconds; the time between them
// does not count as delay, so a reply may wait for a game tick. ok is false, and
// dst unchanged, if request is not a request of this session.
//
// The server keeps nothing about its clients. It may be called from any goroutine.
// A reply is longer than its request by 16 bytes: over datagrams, answer only
// clients whose address is proven.
func AppendReply(dst, request []byte, session uint32, recvUsec, sendUsec uint64) (b []byte, ok bool) {
	m, ok := readMessage(request, kindRequest)
	if !ok || m.session != session {
		return dst, false
	}
	dst = append(append(dst, kindReply), request[1:]...)
	dst = binary.LittleEndian.AppendUint64(dst, recvUsec)
	return binary.LittleEndian.AppendUint64(dst, sendUsec), true
}
