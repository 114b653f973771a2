// SPDX-License-Identifier: BSD-3-Clause

package program

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"timesync/clock"
)

// begun is when true time begins: at the start of the process.
var begun = clock.Now()

// Elapsed converts a reading of package clock to true time.
func Elapsed(usec uint64) time.Duration { return time.Duration(usec-begun) * time.Microsecond }

// True returns true time: the time since the process started.
func True() time.Duration { return Elapsed(clock.Now()) }

// Clock is the simulated clock of one end. Its reading is a function of true time, in microseconds
// from any start. So the true offset between two Clocks of one process is known.
type Clock struct {
	Start uint64  // its reading at true time 0, us
	PPM   float64 // how much faster than true time it runs, parts per million
}

// Now reads the clock.
func (c Clock) Now() uint64 { return c.Reads(clock.Now()) }

// Received reads the clock for a datagram that has just been received. Like clock.Received, it
// rounds up.
func (c Clock) Received() uint64 { return c.Reads(clock.Received()) }

// Reads converts a reading of package clock to a reading of this clock.
func (c Clock) Reads(usec uint64) uint64 { return c.At(Elapsed(usec).Microseconds()) }

// At returns the reading at a true time, in microseconds.
func (c Clock) At(trueUsec int64) uint64 {
	return c.Start + uint64(trueUsec+int64(float64(trueUsec)*c.PPM/1e6))
}

// True returns the true time, in microseconds, at which the clock reads localUsec. It is right to
// 1 us.
func (c Clock) True(localUsec uint64) (trueUsec int64) {
	passed := int64(localUsec - c.Start)
	return passed - int64(float64(passed)*c.PPM/(1e6+c.PPM))
}

// Open opens the socket of an end that listens at one address or dials another; one of the two is
// empty. It returns the address to send to, which is not valid if the end listens.
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
