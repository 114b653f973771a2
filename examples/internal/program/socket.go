// SPDX-License-Identifier: BSD-3-Clause

package program

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"timesync/link"
	"timesync/rxtime"
)

// Socket is what each end has: a socket, with times of receipt on the end's clock, and what runs until it is closed.
type Socket struct {
	UDP   *net.UDPConn
	Rx    Reader          // reads UDP, with the kernel's receive times, where it has them
	Ctx   context.Context // until Close
	stop  context.CancelFunc
	tasks sync.WaitGroup
	ends  []func() error // of recordings
}

// Machine is package clock, for an end without another clock.
func Machine(usec uint64) uint64 { return usec }

// NewSocket makes one of a socket, and of a clock as Clock.Reads.
func NewSocket(udp *net.UDPConn, reads func(usec uint64) uint64) *Socket {
	s := &Socket{UDP: udp, Rx: Reader{Conn: rxtime.NewConn(udp), Reads: reads}}
	s.Ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Go runs what ends when Ctx is done and the socket closed.
func (s *Socket) Go(do func()) { s.tasks.Go(do) }

// Every does something again and again until Close.
func (s *Socket) Every(period time.Duration, do func()) {
	s.Go(func() { Every(s.Ctx.Done(), period, do) })
}

// Record records a link as the function Record does, until End.
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

// Close ends all at once: nobody is told.
func (s *Socket) Close() {
	s.stop()
	s.UDP.Close()
	s.tasks.Wait()
}

// End is Close, and ends the recordings.
func (s *Socket) End() (err error) {
	s.Close()
	for _, end := range s.ends {
		err = errors.Join(err, end())
	}
	return err
}
