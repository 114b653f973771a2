// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"time"
	"timesync/internal/sim"
)

const crossPort = 7100

// cross sends bursts of packets at random moments: those of a Poisson process. A burst has
// 1 to 20 packets of 1,200 bytes.
func cross(ctx context.Context, spaces [2]string, side int, share float64, seed uint64) error {
	const payload, header, longest = 1200, 14 + 20 + 8, 20     // Ethernet, IPv4, UDP
	conn, err := open(spaces[side], sim.Side(side), crossPort) // nobody reads it: what it has no room for is dropped
	if err != nil {
		return err
	}
	defer conn.Close()
	random := rand.New(rand.NewPCG(seed, uint64(side)))
	bits := float64(longest+1) / 2 * (payload + header) * 8
	gap := bits / (share * linkRate) * float64(time.Second)
	b := make([]byte, payload)
	peer := netip.AddrPortFrom(linkHosts[1-side], crossPort)
	for next := time.Now(); ctx.Err() == nil; {
		next = next.Add(time.Duration(random.ExpFloat64() * gap))
		time.Sleep(time.Until(next))
		for range 1 + random.IntN(longest) {
			conn.WriteToUDPAddrPort(b, peer)
		}
	}
	return nil
}
