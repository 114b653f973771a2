// SPDX-License-Identifier: BSD-3-Clause

// Package rxtime reads datagrams together with the times at which the kernel received them.
//
// A program that reads the clock after reading a datagram counts the wait for a processor as
// delay. That is tens of microseconds on an idle machine, and milliseconds while all processors
// are busy. On Linux the kernel notes when each datagram arrives (SO_TIMESTAMPNS). On other
// systems a Conn returns the time after the read.
//
// Pass the receive time to ReadHeader of a link.Link, or to a timesync.TimeSynchronizer:
//
//	conn := rxtime.NewConn(udp)
//	n, from, receivedUsec, err := conn.ReadFrom(buf)
//	// ... once the datagram is proven to come from the peer:
//	sync.OnAuthenticatedDatagramTimestamp(stamp, receivedUsec)
//
// Receive times are readings of package clock, so stamp what you send with clock.Now. A Conn
// without the kernel's times uses clock.Received.
//
// If your program must read the socket itself, with ReadMsgUDP or in batches, Received returns the
// receive time of each datagram.
//
// The package has no send times: reading the clock just before the write is as good.
package rxtime

import (
	"net"
	"net/netip"
	"time"

	"timesync/clock"
)

// ControlSize is the size, in bytes, of a buffer for control messages that has room for the
// receive time. Linux puts the receive time first. Messages of other options that do not fit are
// cut off.
const ControlSize = 64 // the largest message with a stamp has 32

// Conn reads datagrams and their receive times from a UDP socket. Use the socket itself to write,
// to set deadlines and to close.
//
// A Conn is not a net.PacketConn and does not embed the socket. Libraries would look for more
// methods, such as SyscallConn, and bypass it.
//
// One goroutine at a time may call ReadFrom or Received. If several read the same socket, give
// each its own Conn. Make one with NewConn: the zero Conn returns net.ErrClosed.
type Conn struct {
	udp    *net.UDPConn
	kernel bool
	age    ager
}

// NewConn asks the kernel to note when udp receives datagrams. If the kernel refuses, or udp is
// nil or closed, Kernel returns false. From then on, read with ReadFrom, or read yourself and pass
// the control messages to Received. Other reads get the datagrams without their times.
//
// On the first such socket of the machine, Linux starts a few milliseconds later. Datagrams that
// arrive before then have the time of their read.
func NewConn(udp *net.UDPConn) *Conn {
	kernel := udp != nil && enable(udp)
	return &Conn{udp, kernel, newAger(together(wallNow, clock.Received))}
}

// Kernel reports whether the kernel notes receive times. The result never changes. Any goroutine
// may call Kernel.
func (c *Conn) Kernel() bool { return c.kernel }

// ReadFrom waits for a datagram and copies it to b, as net.UDPConn.ReadFromUDPAddrPort does. A
// datagram that is longer than b is cut or refused as there. receivedUsec is when the datagram was
// received: see Received. ReadFrom does not allocate.
//
// The errors are those of package net; without a socket it is net.ErrClosed. With an error, n is
// 0, from is not valid, and receivedUsec has no meaning.
func (c *Conn) ReadFrom(b []byte) (n int, from netip.AddrPort, receivedUsec uint64, err error) {
	if c.udp == nil {
		return 0, from, 0, net.ErrClosed
	}
	if !c.kernel {
		n, from, err = c.udp.ReadFromUDPAddrPort(b)
		return n, from, clock.Received(), err
	}
	var control [ControlSize]byte
	n, length, _, from, err := c.udp.ReadMsgUDPAddrPort(b, control[:])
	if err != nil { // then n is -1, and from 0.0.0.0:0
		return 0, netip.AddrPort{}, 0, err
	}
	return n, from, c.Received(control[:length]), nil
}

// Received returns when a datagram that you read yourself was received, in microseconds on the
// clock of package clock. control holds the control messages that were read with it, by
// net.UDPConn.ReadMsgUDP, recvmsg, or ReadBatch of golang.org/x/net. Their buffer needs
// ControlSize bytes.
//
// Call Received once for each datagram, right after the read. For a batch, call it before you do
// anything else with the batch. Received does not allocate.
//
// The kernel's times are right to 5 us, and later only if the program is interrupted each of four
// times that it reads its clocks. Received returns the time of the call instead if
//
//   - there is no time among the messages,
//   - the time lies in the future or more than 1 s back, or
//   - the wall clock, with which the kernel notes times, was set in the last second.
//
// A step of the wall clock by less than 1 ms is not noticed. Datagrams that wait during the step
// are off by as much.
func (c *Conn) Received(control []byte) (receivedUsec uint64) {
	stamp, ok := kernelStamp(control)
	if !ok {
		return clock.Received()
	}
	wall, now := together(wallNow, clock.Received)
	return c.age.received(stamp, wall, now)
}

// wallNow returns the wall clock, in nanoseconds since 1970.
func wallNow() int64 { return time.Now().UnixNano() }
