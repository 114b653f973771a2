// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/netip"
	"sync"
	"time"

	"timesync/clock"
	"timesync/examples/seal"
	"timesync/internal/program"
)

const (
	// ahead is the time from pairing two peers to their instant. It is several times the delay to
	// a peer, so that the peer hears of the instant in time even if some datagrams are lost.
	ahead = 500 * time.Millisecond

	// within is the largest error bound of a peer's clock. The bound is at least half the round
	// trip to the peer. True errors are far smaller.
	within = 250 * time.Millisecond

	// settling is how long a peer must have been here before it meets another. In the first
	// seconds clocks are known to milliseconds, later to tenths of one. Peers that wait in a lobby
	// do not notice.
	settling = 3_000_000 // us

	gone = 5_000_000 // us: a peer that is silent for longer is forgotten

	// fresh is the longest silence of a peer that may meet another, us. It is shorter than
	// settling, so a peer that restarts cannot meet its former self.
	fresh = 1_000_000

	maxClients = 1000 // so that nobody can fill the server's memory
)

// server tells pairs of peers where and when to meet.
type server struct {
	*program.Socket
	key [32]byte
	tcp net.Listener

	mu       sync.Mutex
	settling int64 // us
	clients  map[netip.AddrPort]*client
	tcps     map[net.Conn]string // connections and their tokens; empty: none yet
}

// client is a peer as the server knows it.
type client struct {
	join
	end   *seal.End
	from  netip.AddrPort
	since uint64 // when it joined
	heard uint64
	other *client
	role  uint64 // the direction for seal.New
	at    uint64 // local time of the instant
}

func newServer(key [32]byte, at netip.AddrPort) (*server, error) {
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	// TCP uses the same port.
	tcp, err := net.Listen("tcp", udp.LocalAddr().String())
	if err != nil {
		udp.Close()
		return nil, err
	}
	s := &server{
		Socket: program.NewSocket(udp, program.Machine), key: key, settling: settling, tcp: tcp,
		clients: map[netip.AddrPort]*client{}, tcps: map[net.Conn]string{},
	}
	context.AfterFunc(s.Ctx, func() { tcp.Close() })
	s.Go(func() { seal.Receive(s, s.take) })
	s.Go(s.accept)
	return s, nil
}

// accept accepts TCP connections.
func (s *server) accept() {
	for s.Ctx.Err() == nil {
		if conn, err := s.tcp.Accept(); err == nil {
			s.Go(func() { s.note(conn) })
		} else {
			time.Sleep(time.Millisecond) // too many connections are open
		}
	}
}

// note keeps a TCP connection and its token until the peer closes it. Meanwhile the NAT keeps the
// port.
func (s *server) note(conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(s.Ctx, func() { conn.Close() })()
	if !s.keep(conn) {
		return
	}
	var token [tokenLen]byte
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(conn, token[:]); err == nil {
		s.mu.Lock()
		// otherwise somebody repeats a token that they saw
		if said := string(token[:]); !s.port(said).IsValid() {
			s.tcps[conn] = said
		}
		s.mu.Unlock()
		conn.SetDeadline(time.Now().Add(waiting + gone*time.Microsecond))
		conn.Read(token[:])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tcps, conn)
}

// keep remembers a TCP connection. If there are too many, it first closes one that no peer has
// claimed: anybody can open those without the key.
func (s *server) keep(conn net.Conn) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tcps) >= maxClients {
		claimed := map[string]bool{}
		for _, c := range s.clients {
			claimed[c.Token] = true
		}
		for other, token := range s.tcps {
			if token == "" || !claimed[token] {
				delete(s.tcps, other)
				other.Close()
				break
			}
		}
	}
	if len(s.tcps) >= maxClients {
		return false
	}
	s.tcps[conn] = ""
	return true
}

// port returns the address of the peer whose TCP connection has the token.
func (s *server) port(token string) (from netip.AddrPort) {
	for conn, said := range s.tcps {
		if said == token && token != "" {
			from = unmapped(conn.RemoteAddr().(*net.TCPAddr).AddrPort())
		}
	}
	return from
}

// take takes a datagram and answers it, so that the peer keeps time, too.
func (s *server) take(datagram []byte, from netip.AddrPort, recvUsec uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from = unmapped(from)
	c := s.clients[from]
	known := c != nil
	if !known {
		s.forget(recvUsec)
		c = &client{end: seal.New(s.key, 1), from: from, since: recvUsec, heard: recvUsec}
	}
	d, answer, err := c.end.Take(datagram, from, recvUsec, 0)
	if err == seal.ErrForged {
		return // without remembering the sender
	}
	if !known && len(s.clients) >= maxClients && !s.forgetUnproven() {
		return
	}
	s.clients[from] = c
	if answer != nil {
		s.Write(answer, from)
	}
	if err != nil || json.Unmarshal(d.Payload, &c.join) != nil {
		return
	}
	c.heard = recvUsec
	s.Write(c.end.Seal(nil, s.meeting(c, clock.Now()), clock.Now()), from)
}

// meeting returns the payload for a peer. It is empty until the other peer is there and both
// clocks are known.
func (s *server) meeting(c *client, nowUsec uint64) []byte {
	if c.other == nil && !s.pair(c, nowUsec) {
		return nil
	}
	instant, err := c.end.Link.ProposeInstant(nowUsec, c.at, within)
	// the peer was not heard in time: late rather than never
	if late := int64(nowUsec - c.at); late > 0 && late < gone {
		var ok bool
		if instant, ok = c.end.Link.ToRemoteTime23(c.at); !ok {
			return nil
		}
	} else if err != nil {
		return nil // the instant is long past, or a clock was set
	}
	to := c.other.from
	if c.Token != "" {
		to = s.port(c.other.Token)
	}
	return encode(meeting{c.role, instant, to})
}

// pair looks for another peer in the room.
func (s *server) pair(c *client, nowUsec uint64) (found bool) {
	at := nowUsec + uint64(ahead.Microseconds())
	ready := func(c *client) bool {
		_, err := c.end.Link.ProposeInstant(nowUsec, at, within)
		return err == nil && int64(nowUsec-c.since) >= s.settling && int64(nowUsec-c.heard) <= fresh
	}
	for _, o := range s.clients {
		if o != c && o.Room == c.Room && o.other == nil && ready(c) && ready(o) {
			c.other, o.other, o.role, c.at, o.at = o, c, 1, at, at
			return true
		}
	}
	return false
}

// forget forgets the peers that have gone.
func (s *server) forget(nowUsec uint64) {
	maps.DeleteFunc(s.clients, func(_ netip.AddrPort, c *client) bool {
		return int64(nowUsec-c.heard) > gone
	})
}

// forgetUnproven forgets one peer that has not proven itself. It may be a recording from a forged
// address.
func (s *server) forgetUnproven() (ok bool) {
	for from, c := range s.clients {
		if c.end.Peer().Session == 0 {
			delete(s.clients, from)
			return true
		}
	}
	return false
}

// unmapped converts an IPv4 address in IPv6 form, as a socket for both returns it, to IPv4.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
