// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"errors"
	"time"

	"github.com/quic-go/quic-go"

	"timesync/link"
)

// Peer is one end of a QUIC connection with datagrams, and what it knows of the other
// end's clock. Each connection has a new one.
type Peer struct {
	link.Link
	conn    *quic.Conn
	nowUsec func() uint64 // any monotonic clock in microseconds, such as timesync.NowUsec
}

var errReplayable = errors.New("the connection began with 0-RTT data, which can be replayed: it keeps no time")

// NewPeer waits for the handshake, and refuses a connection with 0-RTT data: an attacker
// can replay that, and the receiver cannot tell which datagrams it was.
func NewPeer(conn *quic.Conn, nowUsec func() uint64) (*Peer, error) {
	select {
	case <-conn.HandshakeComplete():
	case <-conn.Context().Done():
		return nil, context.Cause(conn.Context())
	}
	if conn.ConnectionState().Used0RTT {
		return nil, errReplayable
	}
	return &Peer{conn: conn, nowUsec: nowUsec}, nil
}

// Send stamps a payload with sentUsec, the clock now, and sends both in a DATAGRAM frame.
func (p *Peer) Send(payload []byte, sentUsec uint64) error {
	return p.conn.SendDatagram(append(p.AppendHeader(nil, sentUsec), payload...))
}

// Receive waits for a datagram, and returns its payload, when it came on our clock, and its
// one-way delay, which is 0 while the other clock is unknown.
func (p *Peer) Receive(ctx context.Context) (payload []byte, receivedUsec uint64, owd time.Duration, err error) {
	datagram, err := p.conn.ReceiveDatagram(ctx) // authenticated, and each at most once
	if err != nil {
		return nil, 0, 0, err
	}
	receivedUsec = p.nowUsec()
	payload, owd, err = p.Open(datagram, receivedUsec)
	return payload, receivedUsec, owd, err
}
