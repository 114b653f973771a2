// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"net"

	"github.com/pion/transport/v5"
	"github.com/pion/transport/v5/stdnet"

	"timesync/examples/channel"
)

// guardedNet is the network of this machine, without DTLS records that anybody could have forged:
// one alert that is not encrypted would end a connection.
type guardedNet struct{ *stdnet.Net }

// ListenUDP implements transport.Net.
func (n guardedNet) ListenUDP(network string, at *net.UDPAddr) (transport.UDPConn, error) {
	conn, err := n.Net.ListenUDP(network, at)
	if err != nil {
		return nil, err
	}
	return guardedConn{conn}, nil
}

// guardedConn is a socket on which STUN and DTLS arrive. The first byte tells which: those of DTLS
// records are 20 to 63 (RFC 7983), and those of STUN messages 0 to 3.
type guardedConn struct{ transport.UDPConn }

// ReadFrom implements net.PacketConn.
func (c guardedConn) ReadFrom(b []byte) (n int, from net.Addr, err error) {
	for {
		n, from, err = c.UDPConn.ReadFrom(b)
		isDTLS := n > 0 && b[0] >= 20 && b[0] <= 63
		if err != nil || !isDTLS || channel.AdmitsDTLS(b[:n]) {
			return n, from, err
		}
	}
}
