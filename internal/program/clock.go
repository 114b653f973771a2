// SPDX-License-Identifier: BSD-3-Clause

package program

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"timesync/clock"
)

// begun is where true time begins: when the process does.
var begun = clock.Now()

// Elapsed returns the true time of a reading of package clock.
func Elapsed(usec uint64) time.Duration { return time.Duration(usec-begun) * time.Microsecond }

// True returns true time: that since the process began.
func True() time.Duration { return Elapsed(clock.Now()) }

// Clock is the clock of one end. What it reads is a function of true time, in microseconds
// from any moment on, so in one process the truth about two of them is known.
type Clock struct {
	Start uint64  // its reading at true time 0, us
	PPM   float64 // how much faster than true time it runs, parts per million
}

// Now reads the clock.
func (c Clock) Now() uint64 { return c.Reads(clock.Now()) }

// Received reads the clock for a datagram that has just been received: rounded up, as that of
// package clock.
func (c Clock) Received() uint64 { return c.Reads(clock.Received()) }

// Reads returns its reading at a reading of package clock.
func (c Clock) Reads(usec uint64) uint64 { return c.At(Elapsed(usec).Microseconds()) }

// At returns the reading at true time.
func (c Clock) At(trueUsec int64) uint64 {
	return c.Start + uint64(trueUsec+int64(float64(trueUsec)*c.PPM/1e6))
}

// True returns the true time at which the clock reads localUsec, to 1 us.
func (c Clock) True(localUsec uint64) (trueUsec int64) {
	passed := int64(localUsec - c.Start)
	return passed - int64(float64(passed)*c.PPM/(1e6+c.PPM))
}

// Open opens the socket of an end that listens at an address or dials one, and returns where to
// send: an address that is not valid if it listens.
func Open(listen, dial string) (conn *net.UDPConn, to netip.AddrPort, err error) {
	at, err := net.ResolveUDPAddr("udp", listen+dial) // one of them is empty
	if err != nil {
		return nil, to, err
	}
	if dial != "" {
		if at.IP == nil || at.Port == 0 {
			return nil, to, fmt.Errorf("-dial %s: want HOST:PORT", dial)
		}
		to, at = at.AddrPort(), nil
	}
	conn, err = net.ListenUDP("udp", at)
	return conn, to, err
}
