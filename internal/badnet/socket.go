// SPDX-License-Identifier: BSD-3-Clause

package badnet

import (
	"fmt"
	"net"
	"net/netip"
)

// Loopback opens a socket at a free port of the loopback interface. It panics on a machine that
// has none, as httptest.NewServer does.
func Loopback() *net.UDPConn {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		panic(fmt.Sprintf("no socket on loopback: %v", err))
	}
	return conn
}

// Addr is where a socket is.
func Addr(conn *net.UDPConn) netip.AddrPort { return conn.LocalAddr().(*net.UDPAddr).AddrPort() }
