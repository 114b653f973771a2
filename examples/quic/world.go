// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"

	"github.com/quic-go/quic-go"

	"timesync/examples/internal/channelbench"
	"timesync/examples/internal/program"
)

const (
	protocol = "timesync-example" // both ends of QUIC must name one
	chunk    = 64 << 10           // bytes of bulk in a write
)

// connect is a channelbench.Connect: a server on loopback, and its clients.
func connect(ctx context.Context, r *channelbench.Run) error {
	serverTLS, clientTLS, err := certificate()
	if err != nil {
		return err
	}
	config := &quic.Config{EnableDatagrams: true}
	listener, err := quic.ListenAddr("127.0.0.1:0", serverTLS, config)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	for _, clock := range channelbench.ClientClocks {
		conn, err := quic.DialAddr(ctx, listener.Addr().String(), clientTLS, config)
		if err != nil {
			return err
		}
		client, err := NewPeer(conn, clock.Received)
		if err != nil {
			return err
		}
		accepted, err := listener.Accept(ctx)
		if err != nil {
			return err
		}
		server, err := NewPeer(accepted, channelbench.ServerClock.Received)
		if err != nil {
			return err
		}
		run(ctx, r, client, r.Client(&client.Link, clock), r.Up, r.Down)
		run(ctx, r, server, r.Server(&server.Link, clock), r.Down, r.Up)
	}
	return nil
}

// run sends and receives at one end until ctx is done: the end of the connection is no failure then.
func run(ctx context.Context, r *channelbench.Run, p *Peer, e *channelbench.End, fill, drain bool) {
	r.Go(func() error { return e.Send(ctx, p.Send) })
	r.Go(func() error {
		for {
			d, err := p.Receive(ctx)
			if err != nil {
				return err
			}
			e.Judge(d.Payload, d.At, d.Delay, d.Known)
		}
	})
	if fill {
		r.Go(func() error { return pour(ctx, p.conn) })
	}
	if drain {
		r.Go(func() error { return swallow(ctx, p.conn, r) })
	}
	r.Go(func() error {
		<-ctx.Done()
		return p.conn.CloseWithError(0, "measured")
	})
}

// pour fills a stream as fast as it takes bytes.
func pour(ctx context.Context, conn *quic.Conn) error {
	stream, err := conn.OpenUniStreamSync(ctx)
	if err != nil {
		return err
	}
	for b := make([]byte, chunk); ; {
		if _, err := stream.Write(b); err != nil {
			return err
		}
	}
}

// swallow reads what the other end pours.
func swallow(ctx context.Context, conn *quic.Conn, to io.Writer) error {
	stream, err := conn.AcceptUniStream(ctx)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(to, stream, make([]byte, chunk))
	return errors.Join(err, errors.New("the stream of bulk has ended"))
}

// certificate makes one for the server, and a client that trusts no other.
func certificate() (server, client *tls.Config, err error) {
	own, roots, err := program.Certificate()
	server = &tls.Config{Certificates: []tls.Certificate{own}, NextProtos: []string{protocol}}
	return server, &tls.Config{RootCAs: roots, NextProtos: []string{protocol}}, err
}
