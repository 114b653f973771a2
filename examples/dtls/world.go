// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/pion/dtls/v3"

	"timesync/examples/internal/channelbench"
)

// Of bulk, a batch of datagrams each millisecond: 10 MB/s, which no sender slows down.
const bulk, batch = 1000, 10

// connect is a channelbench.Connect: a server on loopback, and its clients.
func connect(ctx context.Context, r *channelbench.Run) error {
	key := []byte(rand.Text())
	options := SharedKey("example", func([]byte) ([]byte, error) { return key, nil })
	listener, err := Listen("127.0.0.1:0", options)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	for _, clock := range channelbench.ClientClocks {
		accepted := make(chan error, 1)
		var server *Peer
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				server, err = NewPeer(ctx, conn.(*dtls.Conn), channelbench.ServerClock.Now)
			}
			accepted <- err
		}()
		conn, err := Dial(listener.Addr().String(), options)
		if err != nil {
			return err
		}
		client, err := NewPeer(ctx, conn, clock.Now)
		if err != nil {
			return err
		}
		if err := <-accepted; err != nil {
			return err
		}
		r.Client(&client.Peer, clock).Serve(ctx, client.Receive, client.Close)
		r.Server(&server.Peer, clock).Serve(ctx, server.Receive, server.Close)
		if r.Up {
			r.Every(ctx, time.Millisecond, client.pour)
		}
		if r.Down {
			r.Every(ctx, time.Millisecond, server.pour)
		}
	}
	return nil
}

// pour sends a batch of bulk.
func (p *Peer) pour() error {
	for range batch {
		if err := p.Send(make([]byte, bulk), p.ReceivedUsec()); err != nil {
			return err
		}
	}
	return nil
}
