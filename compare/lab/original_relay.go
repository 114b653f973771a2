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

// relay passes on what arrives at one port of the loopback interface to another, as late as a
// link in which nothing overtakes says, until stop is called.
func relay(link *sim.Link, from, to int, seed uint64) (stop func() error, err error) {
	udp, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(loopback(from)))
	if err != nil {
		return nil, err
	}
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
	return udp.Close, nil
}
