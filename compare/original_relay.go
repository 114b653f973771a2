// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"time"
)

// relayPath is what a relay does to the datagrams of one direction. No datagram overtakes
// another.
type relayPath struct {
	base   time.Duration
	mean   time.Duration // of an exponential jitter
	hold   time.Duration // for how long a jitter stays what it was drawn; 0 draws anew each time
	bundle time.Duration // datagrams leave at multiples of it; 0 at once
}

// due returns when a datagram leaves that came at a time since the start. State is what the
// last one left: when the jitter was drawn, the jitter, and when it went.
func (p relayPath) due(r *rand.Rand, at time.Duration, state *[3]time.Duration) time.Duration {
	if p.hold == 0 || at >= state[0]+p.hold {
		state[0], state[1] = at, time.Duration(r.ExpFloat64()*float64(p.mean))
	}
	leaves := at + p.base + state[1]
	if p.bundle > 0 {
		leaves = (leaves + p.bundle - 1) / p.bundle * p.bundle
	}
	state[2] = max(leaves, state[2])
	return state[2]
}

// relay passes on what arrives at one port of the loopback interface to another, until stop
// is called.
func (p relayPath) relay(from, to int, seed uint64) (stop func() error, err error) {
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: from})
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
			udp.WriteToUDPAddrPort(w.b, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(to)))
		}
	}()
	go func() {
		defer close(queue)
		random, start := rand.New(rand.NewPCG(seed, 'r')), time.Now()
		var state [3]time.Duration
		for {
			b := make([]byte, 64)
			n, err := udp.Read(b)
			if err != nil {
				return
			}
			queue <- waiting{b[:n], start.Add(p.due(random, time.Since(start), &state))}
		}
	}()
	return udp.Close, nil
}
