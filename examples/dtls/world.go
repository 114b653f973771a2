// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/pion/dtls/v3"

	"timesync/examples/channel/channelbench"
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
		client, server := r.Ends(clock)
		r.Go(func() error {
			conn, err := listener.Accept()
			if err != nil {
				return err
			}
			return run(ctx, conn.(*dtls.Conn), server)
		})
		conn, err := Dial(listener.Addr().String(), options)
		if err != nil {
			return err
		}
		if err := run(ctx, conn, client); err != nil {
			return err
		}
	}
	return nil
}

// run lets an end of a connection send, receive and pour until ctx is done.
func run(ctx context.Context, conn *dtls.Conn, e *channelbench.End) error {
	p, err := NewPeer(ctx, conn, e.Clock.Now)
	if err != nil {
		return err
	}
	e.Peer = &p.Peer
	e.Serve(ctx, p.Receive, p.Close)
	if e.Fill {
		e.Every(ctx, time.Millisecond, func() (err error) {
			for range batch {
				err = errors.Join(err, p.Send(make([]byte, bulk), p.ReceivedUsec()))
			}
			return err
		})
	}
	return nil
}
