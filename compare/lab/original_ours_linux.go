// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"net"
	"sync"
	"time"

	"timesync/internal/sim"
)

// runOurs runs an end of this package, which sends as the C++ peer does.
func (e *liveEnd) runOurs(ctx context.Context, c *liveCase, lasting time.Duration) error {
	var err error
	if e.udp, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(loopback(e.port))); err != nil {
		return err
	}
	defer e.udp.Close()
	go e.receive()
	lasts, stop := context.WithTimeout(ctx, lasting)
	defer stop()
	var asking sync.WaitGroup
	asking.Go(func() { every(lasts, linkAsk, e.ask) })
	every(lasts, c.every, func() {
		for i := range c.frame {
			time.Sleep(time.Duration(min(i, 1)) * c.gap)
			e.send()
		}
	})
	asking.Wait()
	return ctx.Err()
}

// receive takes datagrams until the socket is closed.
func (e *liveEnd) receive() {
	var b [64]byte
	for {
		n, err := e.udp.Read(b[:])
		at := e.clock(monotonic())
		if err != nil {
			return
		}
		if n == liveDatagram {
			e.mu.Lock()
			sim.OpenDatagram(&e.est.Sync, b[:n], at)
			e.mu.Unlock()
		}
	}
}

func (e *liveEnd) ask() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := monotonic()
	if remote, ok := e.est.RemoteTime(e.clock(now), e.peer.clock(now)); ok {
		e.answered(now, remote)
	}
}

// send sends a datagram, with a report if it is due.
func (e *liveEnd) send() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := monotonic()
	b := sim.StartDatagram(&e.est.Sync, e.clock(now))
	if due := time.Now().After(e.due); due && b[3] == 1 {
		e.due = time.Now().Add(sim.ReportEvery(time.Duration(now-e.begin) * us))
	} else {
		b[3] = 0
	}
	e.udp.WriteToUDPAddrPort(b, loopback(e.to))
}
