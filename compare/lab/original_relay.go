// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

package main

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"timesync/internal/sim"
)

// loopback is a port of the loopback interface.
func loopback(port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
}

// relay passes on what arrives at a socket to a port of the loopback interface, as late as a
// link in which nothing overtakes says, until the socket is closed.
func relay(link *sim.Link, udp *net.UDPConn, to int, seed uint64) {
	type waiting struct {
		b  []byte
		at time.Time
	}
	const room = 4096 // datagrams: of 4800 a second in 0.2 s, and more
	queue := make(chan waiting, room)
	go func() {
		for w := range queue {
			time.Sleep(time.Until(w.at))
			udp.WriteToUDPAddrPort(w.b, loopback(to))
		}
	}()
	go func() {
		defer close(queue)
		random, start := rand.New(rand.NewPCG(seed, 'r')), time.Now()
		for {
			b := make([]byte, 64)
			n, err := udp.Read(b)
			if err != nil {
				return
			}
			for _, at := range link.Arrivals(random, time.Since(start)) {
				queue <- waiting{b[:n], start.Add(at)}
			}
		}
	}()
}
