// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"

	"github.com/quic-go/quic-go"

	"timesync/examples/channel"
	"timesync/examples/internal/channelbench"
	"timesync/examples/internal/program"
)

const (
	protocol = "timesync-example" // both ends of QUIC must name one
	chunk    = 64 << 10           // bytes of bulk in a write
)

// connect is a channelbench.Connect: a server on loopback, and its clients.
func connect(ctx context.Context, r *channelbench.Run) error {
	listener, clientTLS, err := listen()
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	for _, clock := range channelbench.ClientClocks {
		client, server, err := join(ctx, listener, clientTLS, clock.Received, channelbench.ServerClock.Received)
		if err != nil {
			return err
		}
		run(ctx, r, client, r.Client(&client.Peer, clock), r.Up, r.Down)
		run(ctx, r, server, r.Server(&server.Peer, clock), r.Down, r.Up)
	}
	return nil
}

var config = &quic.Config{EnableDatagrams: true}

// listen starts a server, and returns what its clients trust.
func listen() (*quic.Listener, *tls.Config, error) {
	serverTLS, clientTLS, err := certificate()
	if err != nil {
		return nil, nil, err
	}
	listener, err := quic.ListenAddr("127.0.0.1:0", serverTLS, config)
	return listener, clientTLS, err
}

// join connects a client to a server, both with a clock for times of receipt.
func join(ctx context.Context, listener *quic.Listener, trusts *tls.Config, clientUsec, serverUsec func() uint64) (client, server *Peer, err error) {
	dialled, err := quic.DialAddr(ctx, listener.Addr().String(), trusts, config)
	if err != nil {
		return nil, nil, err
	}
	if client, err = NewPeer(dialled, clientUsec); err != nil {
		return nil, nil, err
	}
	accepted, err := listener.Accept(ctx)
	if err != nil {
		return nil, nil, err
	}
	server, err = NewPeer(accepted, serverUsec)
	return client, server, err
}

// run receives at one end, and moves bulk, until ctx is done: the end of the connection is no failure then.
func run(ctx context.Context, r *channelbench.Run, p *Peer, e *channelbench.End, fill, drain bool) {
	receive := func() (channel.Received, error) { return p.Receive(ctx) }
	e.Serve(ctx, receive, func() error { return p.conn.CloseWithError(0, "measured") })
	if fill {
		r.Go(func() error { return pour(ctx, p.conn) })
	}
	if drain {
		r.Go(func() error { return swallow(ctx, p.conn, r) })
	}
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
