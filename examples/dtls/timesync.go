// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"github.com/pion/dtls/v3"

	"timesync/examples/channel"
)

const (
	// window is how far datagrams that others overtook may be behind: 10 s of frames of 200 a second.
	// The library's 64 are too few for those.
	window = 2048
	// quiet is when a peer that says nothing is given up: one that crashed cannot say goodbye.
	quiet = 3 * time.Second
	// handshake is how long one may take: anybody can begin one with a datagram that has a forged
	// address, and until it is given up it takes 4 goroutines and 34 kB.
	handshake = 5 * time.Second
	// again is when a handshake without an answer is sent again, then after twice that, and so on:
	// the library takes 1 s.
	again = 200 * time.Millisecond
	// longest is more bytes than a datagram on its way through networks has.
	longest = 2048
)

var errTooLong = errors.New("dtls: the payload and its header exceed 2048 bytes")

// common is what both ends want, however they know each other.
func common() []dtls.Option {
	return []dtls.Option{dtls.WithFlightInterval(again), dtls.WithReplayProtectionWindow(window),
		dtls.WithExtendedMasterSecret(dtls.RequireExtendedMasterSecret)}
}

// SharedKey are the options of two ends that share a key. It only says who they are: what they send
// is encrypted with keys that they agree on anew each time, so whoever gets the key later cannot
// read recordings. Each client has a key and a name of its own; keys knows them by name.
func SharedKey(name string, keys func(name []byte) (key []byte, err error)) []dtls.Option {
	return append(common(), dtls.WithPSK(keys), dtls.WithPSKIdentityHint([]byte(name)),
		dtls.WithCipherSuites(dtls.TLS_ECDHE_PSK_WITH_AES_128_CBC_SHA256))
}

// Certified are the options of a server with a certificate.
func Certified(certificate tls.Certificate) []dtls.Option {
	return append(common(), dtls.WithCertificates(certificate))
}

// Trusting are the options of a client that knows a server by its name, and who vouches for it. A
// server that has to know its clients must ask them for certificates, too.
func Trusting(name string, roots *x509.CertPool) []dtls.Option {
	return append(common(), dtls.WithServerName(name), dtls.WithRootCAs(roots))
}

// Peer is one end of a DTLS connection. Each connection has a new one.
type Peer struct {
	channel.Peer
	conn *dtls.Conn
	buf  [longest]byte
}

// NewPeer does the handshake, for 5 s or as long as ctx lets it; else it closes conn. A server
// calls it in a goroutine for each connection, or one forged datagram keeps all others out.
// received is the clock for times of receipt: clock.Received, or another monotonic one in
// microseconds.
func NewPeer(ctx context.Context, conn *dtls.Conn, received func() uint64) (*Peer, error) {
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	write := func(datagram []byte) error {
		if len(datagram) > longest {
			return errTooLong // the library would send it, and the peer's Read fail
		}
		_, err := conn.Write(datagram)
		return err
	}
	return &Peer{Peer: channel.Peer{Write: write, ReceivedUsec: received}, conn: conn}, nil
}

// Receive waits for a datagram; its Payload lasts until the next call. One that has no right
// header is passed over. An error is the end of the connection: the peer has closed it, said
// nothing for 3 s, or sent more than 2048 bytes at once, which Send refuses. Then close it, and
// let the client dial again: what was learnt of the clock is over.
func (p *Peer) Receive() (channel.Received, error) {
	// What comes is authenticated, and each at most once.
	return p.Next(func() ([]byte, error) {
		_ = p.conn.SetReadDeadline(time.Now().Add(quiet)) // where it fails, the read does
		n, err := p.conn.Read(p.buf[:])
		return p.buf[:n], err
	})
}

// Close says goodbye.
func (p *Peer) Close() error { return p.conn.Close() }
