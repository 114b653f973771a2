// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"net"
	"sync"
	"time"

	"timesync/internal/sim"
)

// oursEnd is an end of this package in a session.
type oursEnd struct {
	*liveEnd
	udp *net.UDPConn
	mu  sync.Mutex
	est sim.Core
	due time.Time // the next report
}

// runOurs runs an end of this package, which sends as the C++ peer does.
func (e *liveEnd) runOurs(ctx context.Context, c *liveCase, lasting time.Duration) error {
	udp, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(loopback(e.port)))
	if err != nil {
		return err
	}
	defer udp.Close()
	o := &oursEnd{liveEnd: e, udp: udp}
	go o.receive()
	lasts, stop := context.WithTimeout(ctx, lasting)
	defer stop()
	var asking sync.WaitGroup
	asking.Go(func() { every(lasts, linkAsk, o.ask) })
	every(lasts, c.every, func() {
		for i := range c.frame {
			time.Sleep(time.Duration(min(i, 1)) * c.gap)
			o.send()
		}
	})
	asking.Wait()
	return ctx.Err()
}

// receive takes datagrams until the socket is closed.
func (o *oursEnd) receive() {
	var b [64]byte
	for {
		n, err := o.udp.Read(b[:])
		at := o.clock(monotonic())
		if err != nil {
			return
		}
		if n == liveDatagram {
			o.mu.Lock()
			sim.OpenDatagram(&o.est.Sync, b[:n], at)
			o.mu.Unlock()
		}
	}
}

func (o *oursEnd) ask() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := monotonic()
	if remote, ok := o.est.RemoteTime(o.clock(now), o.peer.clock(now)); ok {
		o.answered(now, remote)
	}
}

// send sends a datagram, with a report if it is due.
func (o *oursEnd) send() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := monotonic()
	b := sim.StartDatagram(&o.est.Sync, o.clock(now))
	if due := time.Now().After(o.due); due && b[3] == 1 {
		o.due = time.Now().Add(sim.ReportEvery(time.Duration(now-o.begin) * us))
	} else {
		b[3] = 0
	}
	o.udp.WriteToUDPAddrPort(b, loopback(o.to))
}
