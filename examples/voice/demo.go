// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"math/rand/v2"
	"net"
	"time"

	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
)

// stoppedBy is how long the end that plays is stopped.
const stoppedBy = 2 * time.Second

// demo runs both ends and the network between them. After a third of the time the end that plays is
// stopped, and after two thirds it starts anew.
func demo(ctx context.Context, c config) (*result, error) {
	rng := rand.New(rand.NewPCG(c.Network.Seed, 'v'))
	clock := func(ppm float64) program.Clock { return program.Clock{Start: rng.Uint64(), PPM: ppm} }
	var sockets [3]*net.UDPConn // of the end that speaks, and of the one that plays, before and after
	for i := range sockets {
		udp, err := relay.Loopback()
		if err != nil {
			return nil, err
		}
		sockets[i] = udp
	}
	network, err := relay.New(c.Network, relay.Addr(sockets[1]))
	if err != nil {
		return nil, err
	}
	defer network.Close()
	speaks := newSpeaker(c, clock(c.Skew/2), network.Addr())
	plays := newListener(c, clock(-c.Skew/2))
	plays.start(sockets[1])
	begun := speaks.now()
	speaks.start(sockets[0])
	program.Sleep(ctx, c.For/3)

	plays.running.Lock()
	plays.stopped.from = plays.now()
	program.Sleep(ctx, stoppedBy)
	plays.stopped.to = plays.now()
	plays.running.Unlock()
	program.Sleep(ctx, c.For/3-stoppedBy)

	plays.close()
	network.Move(relay.Addr(sockets[1]), relay.Addr(sockets[2]))
	again := newListener(c, clock(-c.Skew/2))
	again.start(sockets[2])
	program.Sleep(ctx, c.For/3)
	speaks.close()
	time.Sleep(c.latency + 100*time.Millisecond) // what is under way is still played
	again.close()
	return judge(speaks, []*listener{plays, again}, begun), nil
}
