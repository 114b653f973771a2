// SPDX-License-Identifier: BSD-3-Clause

package program

import (
	"fmt"
	"net"
	"net/netip"

	"timesync/rxtime"
)

// Open opens the socket of an end that listens at an address or dials one, and returns where to
// send: an address that is not valid if it listens.
func Open(listen, dial string) (conn *net.UDPConn, to netip.AddrPort, err error) {
	at, err := net.ResolveUDPAddr("udp", listen+dial) // one of them is empty
	if err != nil {
		return nil, to, err
	}
	if dial != "" {
		if at.IP == nil || at.Port == 0 {
			return nil, to, fmt.Errorf("-dial %s: needs a host and a port", dial)
		}
		to, at = at.AddrPort(), nil
	}
	conn, err = net.ListenUDP("udp", at)
	return conn, to, err
}

// ReceiveTimes says where the receive times of a socket come from.
func ReceiveTimes(c *rxtime.Conn) string {
	if c.Kernel() {
		return "receive times are the kernel's"
	}
	return "receive times are read after the datagram: the kernel gives none here"
}
