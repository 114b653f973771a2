// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"net"
	"slices"
	"sync"

	"github.com/pion/dtls/v3"
	dtlsnet "github.com/pion/dtls/v3/pkg/net"
	"github.com/pion/transport/v5/udp"

	"timesync/examples/channel"
)

// A record of a handshake begins so; the byte behind its head says which message it holds.
const (
	typeHandshake = 22
	recordHead    = 13
	serverHello   = 2
)

// guard drops what does not come from the peer, and what nobody has authenticated and would end the
// connection, such as an alert that is not encrypted.
type guard struct {
	net.PacketConn
	// peer is the only address that datagrams may come from. It is nil for a listener's connections,
	// which have one peer anyway.
	peer *net.UDPAddr
	// proven is called when the peer has shown that it receives at its address. A client's is nil.
	proven func()
}

// ReadFrom implements net.PacketConn.
func (g *guard) ReadFrom(b []byte) (n int, from net.Addr, err error) {
	for {
		n, from, err = g.PacketConn.ReadFrom(b)
		if err != nil || g.isPeer(from) && channel.AdmitsDTLS(b[:n]) {
			return n, from, err
		}
	}
}

// WriteTo implements net.PacketConn. A server says hello only after the client has sent back a
// cookie that went to its address.
func (g *guard) WriteTo(b []byte, to net.Addr) (int, error) {
	saysHello := len(b) > recordHead && b[0] == typeHandshake && b[recordHead] == serverHello
	if saysHello && g.proven != nil {
		g.proven()
	}
	return g.PacketConn.WriteTo(b, to)
}

// Close implements net.PacketConn.
func (g *guard) Close() error {
	if g.proven != nil {
		g.proven()
	}
	return g.PacketConn.Close()
}

func (g *guard) isPeer(from net.Addr) bool {
	if g.peer == nil {
		return true
	}
	udp, ok := from.(*net.UDPAddr)
	return ok && udp.Port == g.peer.Port && udp.IP.Equal(g.peer.IP)
}

// mostUnproven is how many clients may have begun a handshake and not yet shown that they receive
// at their address. Each takes 4 goroutines and 34 kB, so all of them 35 MB. A flood of 10,000
// forged beginnings a second leaves an honest client 0.1 s for its answer.
const mostUnproven = 1024

// guards is a listener whose connections are guarded. If too many clients are unproven, the one
// that began first is given up: whoever forges addresses never answers, and honest clients answer
// after a round trip.
type guards struct {
	dtlsnet.PacketListener
	mu       sync.Mutex
	unproven []*guard // the oldest first
}

// Accept implements dtlsnet.PacketListener.
func (s *guards) Accept() (net.PacketConn, net.Addr, error) {
	conn, from, err := s.PacketListener.Accept()
	if err != nil {
		return nil, nil, err
	}
	g := &guard{PacketConn: conn}
	g.proven = func() { s.forget(g) }
	if oldest := s.begin(g); oldest != nil {
		_ = oldest.Close()
	}
	return g, from, nil
}

// begin notes an unproven client and returns the one that has to go for it, or nil.
func (s *guards) begin(g *guard) (oldest *guard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unproven) == mostUnproven {
		oldest = s.unproven[0]
		s.unproven = slices.Delete(s.unproven, 0, 1)
	}
	s.unproven = append(s.unproven, g)
	return oldest
}

// forget removes a client that is proven or gone.
func (s *guards) forget(g *guard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.unproven, g); i >= 0 {
		s.unproven = slices.Delete(s.unproven, i, i+1)
	}
}

// Listen waits for clients. What it accepts are *dtls.Conn, for NewPeer.
func Listen(address string, options []dtls.Option) (net.Listener, error) {
	at, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	isHandshake := func(b []byte) bool { return len(b) > recordHead && b[0] == typeHandshake }
	config := udp.ListenConfig{AcceptFilter: isHandshake}
	inner, err := config.Listen("udp", at)
	if err != nil {
		return nil, err
	}
	guarded := &guards{PacketListener: dtlsnet.PacketListenerFromListener(inner)}
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
	if at.IP == nil {
		at.IP = net.IPv4(127, 0, 0, 1) // as an address without a host means
	}
	conn, err := net.ListenUDP("udp", nil)
	if err != nil {
		return nil, err
	}
	c, err := dtls.ClientWithOptions(&guard{PacketConn: conn, peer: at}, at,
		of[dtls.ClientOption](options)...)
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
