// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	random "math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"timesync/clock"
	"timesync/examples/seal"
	"timesync/internal/program"
	"timesync/link"
)

const (
	every   = 20 * time.Millisecond  // between two datagrams, to the server or to the peer
	waiting = 30 * time.Second       // for another peer to come
	retry   = 200 * time.Millisecond // after a TCP connection was refused
	// for how long a TCP peer may read nothing once the buffers are full
	deaf   = time.Second
	linger = time.Second // for how long -once goes on, so that the other peer hears us
)

// result is the outcome. -once prints it.
type result struct {
	OK   bool           `json:"ok"` // the peer was heard, and its clock is known
	Peer netip.AddrPort `json:"peer"`
	// From hearing of the peer until hearing it.
	Milliseconds float64 `json:"ms"`
	// When the first packet left, and when it should have left, on the wall clock.
	FirstUnix   int64 `json:"first_ns"`
	PlannedUnix int64 `json:"planned_ns"`
	OffsetUsec  int64 `json:"offset_us"` // of the peer's clock
}

// peer is one of two. The connections to the server and to the other peer share a socket, because
// the other peer knows only the NAT's port for that socket.
type peer struct {
	config
	*program.Socket
	server netip.AddrPort
	here   *seal.End // the connection to the server
	token  string

	mu      sync.Mutex
	knownAt time.Time
	there   *seal.End // the connection to the other peer; nil: not known yet
	out     net.Conn  // TCP to the other peer; nil: UDP
	at      uint64    // local time of the instant
	fired   bool
	result  result
	met     chan struct{} // closed once the other peer is known
	heard   chan struct{} // closed once the other peer was heard, and its clock is known
}

func newPeer(c config, server netip.AddrPort) (*peer, error) {
	udp, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return nil, err
	}
	p := &peer{
		config: c,
		Socket: program.NewSocket(udp, program.Machine),
		server: unmapped(server),
		here:   seal.New(c.key, 0),
		met:    make(chan struct{}), heard: make(chan struct{}),
	}
	p.Go(func() { seal.Receive(p, p.take) })
	return p, nil
}

// dialTCP opens a TCP connection from the port of our UDP socket. It is closed with that socket.
func (p *peer) dialTCP(to netip.AddrPort, most time.Duration) (net.Conn, error) {
	local := &net.TCPAddr{Port: p.UDP.LocalAddr().(*net.UDPAddr).Port}
	dialer := net.Dialer{LocalAddr: local, Control: reuse, Timeout: most}
	conn, err := dialer.Dial("tcp4", to.String())
	if err == nil {
		context.AfterFunc(p.Ctx, func() { conn.Close() })
	}
	return conn, err
}

// run joins the room and connects to the other peer there.
func (p *peer) run(ctx context.Context) error {
	if p.tcp {
		// The server sees the port that the NAT gives to our TCP port, which has the number of our
		// UDP port.
		registered, err := p.dialTCP(p.server, 5*time.Second)
		if err != nil {
			return err
		}
		p.token = rand.Text()
		io.WriteString(registered, p.token)
	}
	p.Every(every, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.send()
	})
	if err := await(ctx, p.met, waiting, "nobody else came"); err != nil {
		return err
	}
	if p.random {
		program.Sleep(ctx, time.Duration(random.Float64()*float64(p.ready)))
	} else if !program.Wait(p.left, ctx.Done()) {
		return ctx.Err()
	}
	p.fire()
	return await(ctx, p.heard, p.giveUp, "no connection")
}

// found returns the outcome so far.
func (p *peer) found() result {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.result
}

// await waits until a channel is closed. Otherwise the error says what is missing.
func await(ctx context.Context, c chan struct{}, most time.Duration, missing string) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", missing, ctx.Err())
	case <-time.After(most):
		return fmt.Errorf("%s within %v", missing, most)
	}
}

// left returns the time until the instant. The server's next datagram may move the instant a
// little.
func (p *peer) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(int64(p.at-clock.Now())) * time.Microsecond
}

// fire sends the first packet to the other peer.
func (p *peer) fire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := time.Duration(int64(clock.Now()-p.at)) * time.Microsecond
	p.fired, p.result.FirstUnix = true, time.Now().UnixNano()
	p.result.PlannedUnix = p.result.FirstUnix - late.Nanoseconds()
	if p.tcp {
		p.Go(p.connect)
	} else {
		p.send()
	}
}

// send sends a datagram: to the server until the first packet to the other peer, then to that
// peer, without a payload.
func (p *peer) send() {
	if !p.fired {
		join := p.here.Seal(nil, encode(join{p.token, p.room}), clock.Now())
		p.Write(join, p.server)
	} else if !p.tcp || p.out != nil {
		p.tell(p.there.Seal(nil, nil, clock.Now()))
	}
}

// tell sends the other peer a sealed datagram. Over TCP, its length goes first, in two bytes.
func (p *peer) tell(datagram []byte) {
	if p.out == nil {
		p.Write(datagram, p.result.Peer)
		return
	}
	b := binary.LittleEndian.AppendUint16(nil, uint16(len(datagram)))
	p.out.SetWriteDeadline(time.Now().Add(deaf))
	if _, err := p.out.Write(append(b, datagram...)); err != nil {
		p.out.Close() // after a part of a datagram the other peer can read no more
	}
}

// connect opens the TCP connection. The other peer does so at the same time.
func (p *peer) connect() {
	for ; p.Ctx.Err() == nil; program.Sleep(p.Ctx, retry) {
		if conn, err := p.dialTCP(p.result.Peer, p.giveUp); err == nil {
			p.mu.Lock()
			p.out = conn
			p.mu.Unlock()
			p.frames(conn)
			return
		}
	}
}

// frames reads sealed datagrams from the TCP connection.
func (p *peer) frames(conn net.Conn) {
	from := conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	for {
		var size uint16
		if err := binary.Read(conn, binary.LittleEndian, &size); err != nil {
			return
		}
		b := make([]byte, size)
		if _, err := io.ReadFull(conn, b); err != nil {
			return
		}
		p.take(b, from, clock.Received())
	}
}

// take takes a datagram.
func (p *peer) take(b []byte, from netip.AddrPort, recvUsec uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if from = unmapped(from); from == p.server {
		p.takeServer(b, from, recvUsec)
	} else if p.fired { // an answer before the instant would be unsolicited
		p.takePeer(b, from, recvUsec)
	}
}

// takeServer takes a datagram of the server, which may say whom to meet, and when.
func (p *peer) takeServer(datagram []byte, from netip.AddrPort, recvUsec uint64) {
	payload, _, _, err := p.here.Open(datagram, from, recvUsec)
	var m meeting
	if err != nil || json.Unmarshal(payload, &m) != nil || !m.To.IsValid() {
		return // without a meeting the payload is empty
	}
	at, err := link.AcceptInstant(recvUsec, m.Instant)
	if err != nil && p.there != nil {
		return // the instant has passed, and was known
	}
	if p.at = at; p.there != nil {
		return
	}
	p.knownAt, p.result.Peer = time.Now(), m.To
	// The server could compute this key, too.
	p.there = seal.New(program.SubKey(p.key, "punch: peers in "+p.room), m.Role)
	close(p.met)
}

// takePeer takes a datagram of the other peer.
func (p *peer) takePeer(datagram []byte, from netip.AddrPort, recvUsec uint64) {
	_, answer, err := p.there.Take(datagram, from, recvUsec, 0)
	if answer != nil {
		p.tell(answer)
	}
	if err != nil {
		return
	}
	if p.result.Milliseconds == 0 {
		p.result.Milliseconds = float64(time.Since(p.knownAt)) / 1e6
	}
	if s, ok := p.there.Link.Snapshot(recvUsec); ok && !p.result.OK {
		p.result.OK, p.result.OffsetUsec = true, s.OffsetUsec
		close(p.heard)
	}
}
