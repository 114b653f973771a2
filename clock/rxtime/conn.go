// SPDX-License-Identifier: BSD-3-Clause

// Package rxtime reads datagrams with the times at which the kernel received them.
//
// A program that reads the clock after it has read a datagram counts the time until it was
// scheduled as delay. That is tens of microseconds on an idle machine, and milliseconds while all
// processors are busy. On Linux the kernel notes when each datagram arrives (SO_TIMESTAMPNS).
// Elsewhere a Conn works too, with the time after the read.
//
// Pass the receive time to ReadHeader of a link.Link, or to a timesync.TimeSynchronizer:
//
//	conn := rxtime.NewConn(udp)
//	n, from, receivedUsec, err := conn.ReadFrom(buf)
//	// ... once the datagram is proven to come from the peer:
//	sync.OnAuthenticatedDatagramTimestamp(stamp, receivedUsec)
//
// Its clock is that of package clock, so stamp what you send with clock.Now. Without the kernel's
// time, the time of receipt is clock.Received.
//
// If a program must read the socket itself, with ReadMsgUDP or in batches, Received returns the
// time of each datagram.
//
// The package has no times of sending: reading the clock just before the write is as good.
package rxtime

import (
	"net"
	"net/netip"
	"time"

	"timesync/clock"
)

// ControlSize is how many bytes of control messages a read needs room for, so that the
// receive time is among them. Linux puts it before those of other options, which are cut
// off if they do not fit.
const ControlSize = 64 // the largest message with a stamp has 32

// Conn reads from a UDP socket, or says when a datagram that you read yourself was received. Use
// the socket itself to write, to set deadlines and to close.
//
// A Conn is not a net.PacketConn and does not embed the socket: libraries would look for more
// methods, such as SyscallConn, and read past it.
//
// One goroutine at a time may call ReadFrom or Received. If several read the same socket, each
// makes a Conn of its own. The zero Conn returns net.ErrClosed; use NewConn.
type Conn struct {
	udp    *net.UDPConn
	kernel bool
	age    ager
}

// NewConn asks the kernel to note when udp receives datagrams. If the kernel does not, or udp is
// nil or closed, Kernel returns false. From then on, read with ReadFrom, or pass the control
// messages of what you read yourself to Received. Other reads get the same datagrams without
// their times.
//
// If this is the first such socket of the machine, Linux begins a few milliseconds later. A
// datagram that came before has the time of its read.
func NewConn(udp *net.UDPConn) *Conn {
	kernel := udp != nil && enable(udp)
	return &Conn{udp, kernel, newAger(time.Now().UnixNano(), clock.Received())}
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
		return n, from, clock.Received(), err
	}
	var control [ControlSize]byte
	n, length, _, from, err := c.udp.ReadMsgUDPAddrPort(b, control[:])
	if err != nil { // then n is -1, and from 0.0.0.0:0
		return 0, netip.AddrPort{}, 0, err
	}
	return n, from, c.Received(control[:length]), nil
}

// Received returns when a datagram was received, in microseconds on the clock of
// package clock. control are the control messages that were read with it: by
// net.UDPConn.ReadMsgUDP, recvmsg, or ReadBatch of golang.org/x/net. Call it once for each
// datagram, right after the read; for a batch, before you do anything else with the batch. The
// buffer for control messages needs ControlSize bytes. Received does not allocate.
//
// The kernel's times are right to 2 us. Received returns the time of the call instead if there is
// no time among the messages, if that time seems to lie in the future or more than 1 s back, or
// if the wall clock, in which the kernel notes times, was set in the last second. A step of the
// wall clock of less than 1 ms is not noticed: the times of datagrams that wait meanwhile contain
// it.
func (c *Conn) Received(control []byte) (receivedUsec uint64) {
	// In this order: to be interrupted in between makes the receive time late, which
	// looks like any delay. An early one would pass for a better path.
	wall := time.Now().UnixNano()
	now := clock.Received()
	stamp, ok := kernelStamp(control)
	if !ok {
		return now
	}
	return c.age.received(stamp, wall, now)
}
