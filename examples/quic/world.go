// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"

	"github.com/quic-go/quic-go"

	"timesync/examples/channel"
	"timesync/examples/channel/channelbench"
	"timesync/internal/program"
)

const chunk = 64 << 10 // bytes of bulk in a write

var (
	config    = &quic.Config{EnableDatagrams: true}
	protocols = []string{"timesync-example"} // both ends of QUIC must name one
)

// connect is a channelbench.Connect: a server on loopback, and its clients.
func connect(ctx context.Context, r *channelbench.Run) error {
	listener, trusts, err := listen(config)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	for _, clock := range channelbench.ClientClocks {
		client, server := r.Ends(clock)
		dialled, accepted, err := join(ctx, listener, trusts, client.Clock.Received,
			server.Clock.Received)
		if err != nil {
			return err
		}
		run(ctx, dialled, client)
		run(ctx, accepted, server)
	}
	return nil
}

// listen starts a server, and returns what its clients trust: its certificate and no other.
func listen(config *quic.Config) (*quic.EarlyListener, *tls.Config, error) {
	own, roots := program.Certificate()
	serves := &tls.Config{Certificates: []tls.Certificate{own}, NextProtos: protocols}
	listener, err := quic.ListenAddrEarly("127.0.0.1:0", serves, config)
	return listener, &tls.Config{RootCAs: roots, NextProtos: protocols}, err
}

// join connects a client to a server, both with a clock for times of receipt.
func join(
	ctx context.Context, listener *quic.EarlyListener, trusts *tls.Config,
	clientUsec, serverUsec func() uint64,
) (client, server *Peer, err error) {
	dialled, err := quic.DialAddr(ctx, listener.Addr().String(), trusts, config)
	if err != nil {
		return nil, nil, err
	}
	accepted, err := listener.Accept(ctx)
	if err != nil {
		return nil, nil, err
	}
	client, err1 := NewPeer(dialled, clientUsec)
	server, err2 := NewPeer(accepted, serverUsec)
	return client, server, errors.Join(err1, err2)
}

// run receives at one end, and moves bulk, until ctx is done: the end of the connection is no
// failure then.
func run(ctx context.Context, p *Peer, e *channelbench.End) {
	e.Peer = &p.Peer
	receive := func() (channel.Received, error) { return p.Receive(ctx) }
	e.Serve(ctx, receive, func() error { return p.conn.CloseWithError(0, "measured") })
	e.Go(func() error { return swallow(ctx, p.conn, e) })
	if e.Fill {
		e.Go(func() error { return pour(ctx, p.conn) })
	}
}

// pour fills a stream as fast as it takes bytes.
func pour(ctx context.Context, conn *quic.Conn) error {
	stream, err := conn.OpenUniStreamSync(ctx)
	for b := make([]byte, chunk); err == nil; {
		_, err = stream.Write(b)
	}
	return err
}

// swallow reads what the other end pours.
func swallow(ctx context.Context, conn *quic.Conn, to io.Writer) error {
	stream, err := conn.AcceptUniStream(ctx)
	if err == nil {
		_, err = io.CopyBuffer(to, stream, make([]byte, chunk))
	}
	return err
}
