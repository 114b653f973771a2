// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"time"

	"timesync/compare/play"
	"timesync/internal/sim"
)

// oursEnd is an end of this package in a session.
type oursEnd struct {
	*liveEnd
	udp *net.UDPConn
	mu  sync.Mutex
	est sim.Estimator
	due time.Time // the next report
}

// runOurs runs an end of this package, which sends as the C++ peer does.
func (e *liveEnd) runOurs(ctx context.Context, c *liveCase, lasting time.Duration) error {
	udp, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(loopback(e.port)))
	if err != nil {
		return err
	}
	defer udp.Close()
	o := &oursEnd{liveEnd: e, udp: udp, est: play.MethodNamed(play.Ours).Make()}
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
		if n != liveDatagram {
			continue
		}
		o.mu.Lock()
		o.est.OnDatagram(get24(b[:]), at)
		if b[3] != 0 {
			o.est.OnPeerMinDelta(get24(b[4:]), at)
		}
		o.mu.Unlock()
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
	var b [liveDatagram]byte
	now := monotonic()
	if delta, ok := o.est.MinDelta(o.clock(now)); ok && time.Now().After(o.due) {
		o.due = time.Now().Add(sim.ReportEvery(time.Duration(now-o.begin) * us))
		b[3] = 1
		put24(b[4:], delta)
	}
	put24(b[:], sim.Stamp(o.clock(monotonic())))
	o.udp.WriteToUDPAddrPort(b[:], loopback(o.to))
}

func get24(b []byte) uint32 { return uint32(binary.BigEndian.Uint16(b))<<8 | uint32(b[2]) }

func put24(b []byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }
