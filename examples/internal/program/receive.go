// SPDX-License-Identifier: BSD-3-Clause

package program

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"timesync/rxtime"
)

// Receive calls take for every datagram, with the time at which it was received, on the clock
// of timesync.NowUsec. It returns when the socket is closed.
func Receive(rx *rxtime.Conn, take func(datagram []byte, from netip.AddrPort, receivedUsec uint64)) {
	buf := make([]byte, 2048) // more than a datagram on its way through networks has
	for {
		n, from, receivedUsec, err := rx.ReadFrom(buf)
		switch {
		case err == nil:
			take(buf[:n], from, receivedUsec)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(time.Millisecond) // Windows reports here that the peer's port is closed
		}
	}
}
