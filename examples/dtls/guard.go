// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/binary"
	"net"

	"github.com/pion/dtls/v3"
	dtlsnet "github.com/pion/dtls/v3/pkg/net"
	"github.com/pion/transport/v5/udp"
)

// What a DTLS record begins with: a byte of its type, 2 of the version, 2 of the epoch, 6 of a
// counter, and 2 of the length of the rest. What has epoch 0 is not encrypted.
const (
	typeChangeCipher, typeAlert, typeHandshake, typeData = 20, 21, 22, 23
	epochAt, lengthAt, recordHead                        = 3, 11, 13
)

// guard drops what nobody has authenticated once the peer encrypts: whatever has epoch 0, alerts, data and
// types that nobody knows. Up to v3.1.15 the library ends the connection when such a record comes, so that
// one datagram with a forged address would do. It also does when a record that says that encrypted ones
// follow is wrong, whatever its epoch. Handshakes of epoch 0, and that record, may be sent again, and stay.
type guard struct {
	net.PacketConn
	// encrypted: the peer encrypts. Only the library's one reader uses it.
	encrypted bool
}

// ReadFrom implements net.PacketConn.
func (g *guard) ReadFrom(b []byte) (n int, from net.Addr, err error) {
	for {
		if n, from, err = g.PacketConn.ReadFrom(b); err != nil || g.admits(b[:n]) {
			return n, from, err
		}
	}
}

// admits looks at all records of a datagram.
func (g *guard) admits(b []byte) bool {
	for len(b) >= recordHead {
		epoch := binary.BigEndian.Uint16(b[epochAt:])
		g.encrypted = g.encrypted || epoch > 0
		end := min(recordHead+int(binary.BigEndian.Uint16(b[lengthAt:])), len(b))
		switch {
		case b[0] == typeChangeCipher: // which the library never decrypts
			if epoch > 0 || end != recordHead+1 || b[recordHead] != 1 {
				return false
			}
		case g.encrypted && epoch == 0 && b[0] != typeHandshake:
			return false
		}
		b = b[end:]
	}
	return true
}

// guards is a listener whose connections are guarded.
type guards struct{ dtlsnet.PacketListener }

// Accept implements dtlsnet.PacketListener.
func (g guards) Accept() (net.PacketConn, net.Addr, error) {
	conn, from, err := g.PacketListener.Accept()
	return &guard{PacketConn: conn}, from, err
}

// Listen waits for clients. What it accepts are *dtls.Conn, for NewPeer.
func Listen(address string, options []dtls.Option) (net.Listener, error) {
	at, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	config := udp.ListenConfig{AcceptFilter: func(b []byte) bool { return len(b) > recordHead && b[0] == typeHandshake }}
	inner, err := config.Listen("udp", at)
	if err != nil {
		return nil, err
	}
	guarded := guards{dtlsnet.PacketListenerFromListener(inner)}
	l, err := dtls.NewListenerWithOptions(guarded, of[dtls.ServerOption](options)...)
	if err != nil {
		_ = inner.Close()
	}
	return l, err
}

// Dial begins a connection; NewPeer does the handshake.
func Dial(address string, options []dtls.Option) (*dtls.Conn, error) {
	at, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	conn, err := net.ListenUDP("udp", nil)
	if err != nil {
		return nil, err
	}
	c, err := dtls.ClientWithOptions(&guard{PacketConn: conn}, at, of[dtls.ClientOption](options)...)
	if err != nil {
		_ = conn.Close()
	}
	return c, err
}

// of returns options of both ends as those of one.
func of[T any](options []dtls.Option) (all []T) {
	for _, o := range options {
		all = append(all, o.(T))
	}
	return all
}
