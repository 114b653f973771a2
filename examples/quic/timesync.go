// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"errors"

	"github.com/quic-go/quic-go"

	"timesync/examples/channel"
)

// Peer is one end of a QUIC connection with datagrams. Each connection has a new one.
type Peer struct {
	channel.Peer
	conn *quic.Conn
}

var errReplayable = errors.New(
	"the connection began with 0-RTT data, which can be replayed: it keeps no time",
)

// NewPeer waits for the handshake, and refuses a connection with 0-RTT data: an attacker
// can replay that, and the receiver cannot tell which datagrams it was. received is the clock
// for times of receipt: clock.Received, or another monotonic one in microseconds.
func NewPeer(conn *quic.Conn, received func() uint64) (*Peer, error) {
	select {
	case <-conn.HandshakeComplete():
	case <-conn.Context().Done():
		return nil, context.Cause(conn.Context())
	}
	if conn.ConnectionState().Used0RTT {
		return nil, errReplayable
	}
	return &Peer{channel.Peer{Write: conn.SendDatagram, ReceivedUsec: received}, conn}, nil
}

// Receive waits for a datagram. One that has no right header is passed over. An error is the end
// of the connection, or of ctx.
func (p *Peer) Receive(ctx context.Context) (channel.Received, error) {
	// What comes is authenticated, and each at most once.
	return p.Next(func() ([]byte, error) { return p.conn.ReceiveDatagram(ctx) })
}
