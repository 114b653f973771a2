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

// Socket is the UDP socket of one end, with receive times on the end's clock, and with goroutines
// that run until it is closed.
type Socket struct {
	UDP   *net.UDPConn
	Reads func(usec uint64) uint64 // the end's clock, as Clock.Reads
	Ctx   context.Context          // it ends with Close
	rx    *rxtime.Conn
	stop  context.CancelFunc
	tasks sync.WaitGroup
	ends  []func() error // of recordings
}

// Machine is the Reads of an end whose clock is package clock.
func Machine(usec uint64) uint64 { return usec }

// NewSocket makes a Socket from a UDP socket and a clock, as Clock.Reads.
func NewSocket(udp *net.UDPConn, reads func(usec uint64) uint64) *Socket {
	s := &Socket{UDP: udp, Reads: reads, rx: rxtime.NewConn(udp)}
	s.Ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// ReadFrom reads a datagram as rxtime.Conn does, with the receive time on the end's clock.
func (s *Socket) ReadFrom(b []byte) (n int, from netip.AddrPort, recvUsec uint64, err error) {
	n, from, recvUsec, err = s.rx.ReadFrom(b)
	return n, from, s.Reads(recvUsec), err
}

// Go runs do in a goroutine. do must return once Ctx is done and the socket is closed.
func (s *Socket) Go(do func()) { s.tasks.Go(do) }

// Every calls do once a period until Close.
func (s *Socket) Every(period time.Duration, do func()) {
	s.Go(func() { Every(s.Ctx.Done(), period, do) })
}

// Record records a link until Close, as the function Record does.
func (s *Socket) Record(l *link.Link, folder, pattern string) error {
	end, err := Record(l, folder, pattern)
	s.ends = append(s.ends, end)
	return err
}

// Write sends a datagram if to is valid. An error counts as a loss.
func (s *Socket) Write(b []byte, to netip.AddrPort) {
	if to.IsValid() {
		_, _ = s.UDP.WriteToUDPAddrPort(b, to)
	}
}

// Close closes the socket, and waits until all goroutines have ended and the recordings are
// written. It sends nothing to the peers.
func (s *Socket) Close() (err error) {
	s.stop()
	s.UDP.Close()
	s.tasks.Wait()
	for _, end := range s.ends {
		err = errors.Join(err, end())
	}
	return err
}
