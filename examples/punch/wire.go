// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"errors"
	"net/netip"

	"timesync"
)

// What a payload between server and peers is. Between the peers there is none: link's
// headers are all they exchange.
//
//	join  token 16 bytes, room: a peer waits there; the token names it on its TCP connection
//	meet  role 1 byte, instant 3 bytes, UDP address, TCP address, each as its length in a byte
//	      and AddrPort.MarshalBinary; the instant is a TS23, the receiver's time
type token [16]byte

const maxRoom = 100 // bytes

var errMalformed = errors.New("malformed message")

func appendJoin(b []byte, t token, room string) []byte { return append(append(b, t[:]...), room...) }

func readJoin(b []byte) (t token, room string, err error) {
	if len(b) <= len(t) || len(b) > len(t)+maxRoom {
		return t, "", errMalformed
	}
	copy(t[:], b)
	return t, string(b[len(t):]), nil
}

// meeting is what the server tells a peer of the other.
type meeting struct {
	role     uint64 // direction of seal: 0 calls, 1 answers
	instant  timesync.Counter23
	udp, tcp netip.AddrPort
}

func (m *meeting) append(b []byte) []byte {
	b, _ = m.instant.AppendBinary(append(b, byte(m.role))) // which never fails
	for _, a := range []netip.AddrPort{m.udp, m.tcp} {
		address, _ := a.MarshalBinary() // which never fails
		b = append(append(b, byte(len(address))), address...)
	}
	return b
}

func readMeeting(b []byte) (m meeting, err error) {
	if len(b) < 4 || b[0] > 1 {
		return m, errMalformed
	}
	m.role, m.instant = uint64(b[0]), timesync.ReadCounter23(b[1:])
	b = b[4:]
	for _, a := range []*netip.AddrPort{&m.udp, &m.tcp} {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return m, errMalformed
		}
		end := 1 + int(b[0])
		if err := a.UnmarshalBinary(b[1:end]); err != nil {
			return m, errMalformed
		}
		b = b[end:]
	}
	if len(b) > 0 || !m.udp.IsValid() {
		return m, errMalformed
	}
	return m, nil
}
