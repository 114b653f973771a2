// SPDX-License-Identifier: BSD-3-Clause

// Package rxtime reads datagrams with the times at which the kernel received them.
//
// A program that reads the clock after it has read a datagram counts the time until it
// was scheduled as delay: tens of microseconds on an idle machine, milliseconds while
// all processors are busy. On Linux the kernel notes when each datagram arrives
// (SO_TIMESTAMPNS). Elsewhere a Conn works too, with the time after the read.
//
// A receive time goes where timesync asks for one:
//
//	conn := rxtime.NewConn(udp)
//	n, from, receivedUsec, err := conn.ReadFrom(buf)
//	// ... and once the datagram has proven to be the peer's:
//	sync.OnAuthenticatedDatagramTimestamp(stamp, receivedUsec)
//
// Its clock is that of timesync.NowUsec, so stamp what you send with NowUsec.
//
// A program that has to read the socket itself, with ReadMsgUDP or in batches, asks
// Received for the time of each datagram.
//
// There are no times of sending: reading the clock just before the write is as good.
package rxtime

import (
	"net"
	"net/netip"
	"time"

	"timesync"
)

// ControlSize is how many bytes of control messages a read needs room for, so that the
// receive time is among them. Linux puts it before those of other options, which are cut
// off if they do not fit.
const ControlSize = 64 // the largest message with a stamp has 32

// Conn reads from a UDP socket, or says when what others read was received. Writing,
// deadlines and closing stay with the socket.
//
// It is no net.PacketConn, and does not embed the socket, on purpose: libraries that
// are given one look for more methods, such as SyscallConn, and read past it.
//
// One goroutine at a time may call ReadFrom or Received. Where several read the same
// socket, each makes a Conn of its own. The zero Conn reads nothing; use NewConn.
type Conn struct {
	udp    *net.UDPConn
	kernel bool
	age    ager
}

// NewConn asks the kernel to note when udp receives datagrams. If it does not, or udp
// is nil or closed, Kernel says so. From then on, read with ReadFrom, or give Received the
// control messages of what you read yourself: other reads get the same datagrams, but no
// times.
//
// Linux begins a few milliseconds later if this is the first such socket of the
// machine, and takes the time of the read for what came before.
func NewConn(udp *net.UDPConn) *Conn {
	c := &Conn{udp: udp, kernel: udp != nil && enable(udp)}
	c.age.start(time.Now().UnixNano(), timesync.NowUsec())
	return c
}

// Kernel reports whether the receive times are the kernel's. It never changes, and any
// goroutine may call it.
func (c *Conn) Kernel() bool { return c.kernel }

// ReadFrom waits for a datagram and copies it to b, as net.UDPConn.ReadFromUDPAddrPort
// does. Its errors are those of package net, with 0 bytes and no sender; a datagram that is
// longer than b is cut or refused as there. receivedUsec is when it was received, see
// Received; with an error it has no meaning. ReadFrom does not allocate. Without a socket
// the error is net.ErrClosed.
func (c *Conn) ReadFrom(b []byte) (n int, from netip.AddrPort, receivedUsec uint64, err error) {
	if c.udp == nil {
		return 0, from, 0, net.ErrClosed
	}
	if !c.kernel {
		n, from, err = c.udp.ReadFromUDPAddrPort(b)
		return n, from, timesync.NowUsec(), err
	}
	var control [ControlSize]byte
	n, length, _, from, err := c.udp.ReadMsgUDPAddrPort(b, control[:])
	if err != nil { // then n is -1, and from 0.0.0.0:0
		return 0, netip.AddrPort{}, 0, err
	}
	return n, from, c.Received(control[:length]), nil
}

// Received returns when a datagram was received, in microseconds on the clock of
// timesync.NowUsec, given the control messages that were read with it: from
// net.UDPConn.ReadMsgUDP, recvmsg, or ReadBatch of golang.org/x/net. Call it once for each
// datagram, right after the read, for a batch before anything else is done with it. The
// buffer for control messages needs ControlSize bytes. It does not allocate.
//
// The kernel's times are right to 2 us. A single one is replaced by the time of the call
// if there is none among the messages, if it seems to lie in the future or more than 1 s
// back, or if the wall clock, in which the kernel notes times, was set in the last second.
// A step of less than 1 ms is not noticed, and is in the times of what waits meanwhile.
func (c *Conn) Received(control []byte) (receivedUsec uint64) {
	// In this order: to be interrupted in between makes the receive time late, which
	// looks like any delay. An early one would pass for a better path.
	wall := time.Now().UnixNano()
	now := timesync.NowUsec()
	stamp, ok := kernelStamp(control)
	if !ok {
		return now
	}
	return c.age.received(stamp, wall, now)
}
