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
	conn     *quic.Conn
	received func() uint64 // the clock for times of receipt
}

var errReplayable = errors.New("the connection began with 0-RTT data, which can be replayed: it keeps no time")

// NewPeer waits for the handshake, and refuses a connection with 0-RTT data: an attacker
// can replay that, and the receiver cannot tell which datagrams it was. received is the clock for
// times of receipt: clock.Received, or any in microseconds.
func NewPeer(conn *quic.Conn, received func() uint64) (*Peer, error) {
	select {
	case <-conn.HandshakeComplete():
	case <-conn.Context().Done():
		return nil, context.Cause(conn.Context())
	}
	if conn.ConnectionState().Used0RTT {
		return nil, errReplayable
	}
	return &Peer{conn: conn, received: received}, nil
}

// Send stamps a payload with sentUsec, the clock now, and sends both in a DATAGRAM frame. It
// must leave link.MaxHeader bytes of the frame.
func (p *Peer) Send(payload []byte, sentUsec uint64) error {
	err := p.conn.SendDatagram(append(p.AppendHeader(nil, sentUsec), payload...))
	if err != nil {
		p.SendFailed()
	}
	return err
}

// Received is a datagram that has come.
type Received struct {
	Payload []byte
	At      uint64        // when it came, on our clock, us
	Delay   time.Duration // its one-way delay, if Known
	Known   bool          // the other clock is
}

// Receive waits for a datagram. One that has no right header is passed over: the connection
// is none the worse for it. An error is the end of the connection, or of ctx.
func (p *Peer) Receive(ctx context.Context) (r Received, err error) {
	for {
		datagram, err := p.conn.ReceiveDatagram(ctx) // authenticated, and each at most once
		if err != nil {
			return Received{}, err
		}
		r.At = p.received()
		if r.Payload, r.Delay, r.Known, err = p.Open(datagram, r.At); err == nil {
			return r, nil
		}
	}
}
