// SPDX-License-Identifier: BSD-3-Clause

package program

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"timesync/clock/rxtime"
	"timesync/link"
)

// Socket is what each end has: a socket, with times of receipt on the end's clock, and what runs until it is closed.
type Socket struct {
	UDP   *net.UDPConn
	Reads func(usec uint64) uint64 // its clock, as Clock.Reads
	Ctx   context.Context          // until Close
	rx    *rxtime.Conn
	stop  context.CancelFunc
	tasks sync.WaitGroup
	ends  []func() error // of recordings
}

// Machine is package clock, for an end without another clock.
func Machine(usec uint64) uint64 { return usec }

// NewSocket makes one of a socket, and of a clock as Clock.Reads.
func NewSocket(udp *net.UDPConn, reads func(usec uint64) uint64) *Socket {
	s := &Socket{UDP: udp, Reads: reads, rx: rxtime.NewConn(udp)}
	s.Ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// ReadFrom reads a datagram as that of rxtime.Conn does, but by the socket's clock.
func (s *Socket) ReadFrom(b []byte) (n int, from netip.AddrPort, recvUsec uint64, err error) {
	n, from, recvUsec, err = s.rx.ReadFrom(b)
	return n, from, s.Reads(recvUsec), err
}

// Go runs what ends when Ctx is done and the socket closed.
func (s *Socket) Go(do func()) { s.tasks.Go(do) }

// Every does something again and again until Close.
func (s *Socket) Every(period time.Duration, do func()) {
	s.Go(func() { Every(s.Ctx.Done(), period, do) })
}

// Record records a link as the function Record does, until Close.
func (s *Socket) Record(l *link.Link, folder, pattern string) error {
	end, err := Record(l, folder, pattern)
	s.ends = append(s.ends, end)
	return err
}

// Write sends a datagram, if it is known where to. An error is a loss like any other.
func (s *Socket) Write(b []byte, to netip.AddrPort) {
	if to.IsValid() {
		_, _ = s.UDP.WriteToUDPAddrPort(b, to)
	}
}

// Close ends all at once, and the recordings: nobody is told.
func (s *Socket) Close() (err error) {
	s.stop()
	s.UDP.Close()
	s.tasks.Wait()
	for _, end := range s.ends {
		err = errors.Join(err, end())
	}
	return err
}
