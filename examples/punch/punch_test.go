// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that two peers of a room find each other on loopback, with and without
// the instant, and that neither server nor peer can be led astray by what strangers send.
// Connecting through NATs is measured by measure.sh.
package main

import (
	"bytes"
	"encoding/json"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"timesync/clock"
	"timesync/examples/seal"
	"timesync/internal/program/programtest"
	"timesync/internal/testkit"
	"timesync/link"
)

var testKey = [32]byte{1, 2, 3}

func startServer(t *testing.T) (*server, netip.AddrPort) {
	t.Helper()
	s, err := newServer(testKey, netip.MustParseAddrPort("127.0.0.1:0"))
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	s.mu.Lock()
	s.settling = 0 // tested by TestLate
	s.mu.Unlock()
	return s, s.UDP.LocalAddr().(*net.UDPAddr).AddrPort()
}

// TestMeeting: two peers of a room meet. What comes from somebody without the key is not
// remembered.
func TestMeeting(t *testing.T) {
	t.Parallel()
	for _, c := range []config{{}, {random: true}, {random: true, ready: 100 * time.Millisecond}} {
		s, at := startServer(t)
		stranger, err := net.Dial("udp", at.String())
		testkit.Must(t, err)
		defer stranger.Close()
		for _, b := range [][]byte{
			nil,
			{1},
			make([]byte, 100),
			seal.New([32]byte{9}, 0).Seal(nil, make([]byte, 20), 0),
		} {
			stranger.Write(b)
		}
		var peers []*peer
		var running sync.WaitGroup
		for _, room := range []string{"x", "x", "y", "y"} {
			c.key, c.room, c.giveUp = testKey, room, 10*time.Second
			p, err := newPeer(c, at)
			testkit.Must(t, err)
			defer p.Close()
			peers = append(peers, p)
			running.Go(func() { _ = p.run(t.Context()) }) // whether it went well, the result says
		}
		running.Wait()
		for i, p := range peers {
			r := p.found()
			if !r.OK || r.FirstUnix == 0 {
				t.Errorf("%+v, peer %d: %+v", c, i, r)
			}
			if sum := r.OffsetUsec + peers[i^1].found().OffsetUsec; sum > 100_000 || sum < -100_000 {
				t.Errorf("%+v: the peers' offsets add to %d us", c, sum)
			}
		}
		s.mu.Lock()
		// By now it has read what the stranger sent.
		if len(s.clients) != len(peers) {
			t.Errorf("the server remembers %d", len(s.clients))
		}
		s.mu.Unlock()
	}
}

// room is a server and its clients in virtual time, with paths of 10 ms.
type room struct {
	server
	far map[*client]*link.Link
}

func newRoom() *room {
	return &room{
		server{clients: map[netip.AddrPort]*client{}, tcps: map[net.Conn]string{}, settling: settling},
		map[*client]*link.Link{},
	}
}

// enter makes a client that is heard from nowUsec on, at a port.
func (r *room) enter(port uint16, nowUsec uint64) *client {
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), port)
	c := &client{
		end:   seal.New(testKey, 1),
		from:  at,
		join:  join{Room: "x"},
		since: nowUsec,
		heard: nowUsec,
	}
	r.clients[at], r.far[c] = c, new(link.Link)
	return c
}

// talk lets a client send to the server, which answers if that arrives, and returns what it is
// told.
func (r *room) talk(c *client, nowUsec uint64, answered bool) (m meeting, told bool) {
	c.heard = nowUsec
	c.end.Link.ReadHeader(r.far[c].AppendHeader(nil, nowUsec), nowUsec+10_000)
	answer := r.meeting(c, nowUsec)
	header := c.end.Link.AppendHeader(nil, nowUsec)
	if !answered {
		return meeting{}, false
	}
	r.far[c].ReadHeader(header, nowUsec+10_000)
	return m, json.Unmarshal(answer, &m) == nil
}

// TestGhost: a peer that restarts from another port does not meet what it was before, which is
// forgotten.
func TestGhost(t *testing.T) {
	r := newRoom()
	old := r.enter(1000, 1e6)
	var anew, other *client
	for now := uint64(1e6); now < 16e6; now += 20_000 {
		switch now {
		case 6.5e6:
			anew = r.enter(1001, now)
		case 10e6:
			other = r.enter(2000, now)
		}
		if r.forget(now); now < 6e6 {
			r.talk(old, now, true)
		}
		for _, c := range []*client{anew, other} {
			if c != nil {
				r.talk(c, now, true)
			}
		}
	}
	if anew.other != other || other.other != anew || len(r.clients) != 2 {
		t.Errorf("the one that started anew meets %+v, the other %+v, of %d",
			anew.other, other.other, len(r.clients))
	}
}

// TestLate: nobody meets anybody before the clocks are known well, and then they do. A peer that
// nothing reaches from before the instant is told is told of the other afterwards: that one tries
// for 10 s.
func TestLate(t *testing.T) {
	r := newRoom()
	one, two := r.enter(1000, 1e6), r.enter(2000, 1e6)
	var paired, told uint64
	for now := uint64(1e6); now < 10e6 && told == 0; now += 20_000 {
		if paired == 0 || now < one.at { // afterwards it sends to the other
			r.talk(one, now, true)
		}
		if one.other != nil && paired == 0 {
			paired = now
			if now < 1e6+settling || one.other != two || two.other != one || one.at != two.at ||
				one.role == two.role {
				t.Errorf("after %d us: %+v, %+v", now, one, two)
			}
		}
		if m, ok := r.talk(two, now, paired == 0 || now > paired+600_000); ok {
			told = now
			// The clocks agree, and are known to a fraction of a millisecond.
			at, _ := link.AcceptInstant(now, m.Instant)
			if off := int64(at - one.at); max(off, -off) > 1000 || m.To != one.from {
				t.Errorf("told to meet %v at %d us, not %v at %d us", m.To, at, one.from, one.at)
			}
		}
	}
	if paired == 0 || told < one.at || told > one.at+1e6 {
		t.Errorf("paired at %d us for %d, told at %d", paired, one.at, told)
	}
}

// ends fails if something does not end.
func ends(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { do(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal(what, "hangs")
	}
}

// TestDeaf: the other peer reads its TCP connection no longer, which holds up nothing for long. A
// TCP connection that comes about while the peer closes is closed, too.
func TestDeaf(t *testing.T) {
	_, at := startServer(t)
	l, err := net.Listen("tcp4", "127.0.0.1:0") // reads none
	testkit.Must(t, err)
	defer l.Close()
	p, err := newPeer(config{key: testKey, room: "x", tcp: true, giveUp: time.Second}, at)
	testkit.Must(t, err)
	out, err := net.Dial("tcp4", l.Addr().String())
	testkit.Must(t, err)
	defer out.Close()
	p.mu.Lock()
	p.out = out
	ends(t, "writing", func() {
		for range 1000 {
			p.tell(make([]byte, 60_000))
		}
	})
	p.mu.Unlock()
	ends(t, "close", func() { p.Close() })
	late, err := p.dialTCP(l.Addr().(*net.TCPAddr).AddrPort(), p.giveUp)
	testkit.Must(t, err)
	ends(t, "the late connection", func() { p.frames(late) })
}

// TestStrangers: who has no key can open TCP connections, but not more than so many, and none
// outlives the server. A recording that is sent from very many forged addresses keeps nobody out.
func TestStrangers(t *testing.T) {
	s, _ := startServer(t)
	s.mu.Lock()
	for range maxClients {
		client, server := net.Pipe()
		defer client.Close()
		s.tcps[server] = ""
	}
	s.mu.Unlock()
	var stop sync.WaitGroup
	for range 20 {
		if conn, err := net.Dial("tcp4", s.tcp.Addr().String()); err == nil {
			stop.Go(func() { conn.Read([]byte{0}); conn.Close() }) // until the server closes it
		}
	}
	recorded := seal.New(testKey, 0).Seal(nil, encode(join{"1", "x"}), 5)
	now := clock.Now()
	for i := range 2 * maxClients {
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, byte(i >> 8), byte(i)}), 9)
		s.take(bytes.Clone(recorded), from, now)
	}
	genuine, from := seal.New(testKey, 0), netip.MustParseAddrPort("127.0.0.1:9")
	for range 5 {
		now += 20_000
		s.take(genuine.Seal(nil, encode(join{"2", "x"}), now), from, now)
		s.mu.Lock()
		if c := s.clients[from]; c != nil {
			genuine.Open(c.end.Seal(nil, nil, now), from, now)
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	if s.clients[from] == nil || len(s.clients) > maxClients || len(s.tcps) > maxClients {
		t.Errorf("%d clients, %d TCP connections; the genuine one: %v",
			len(s.clients), len(s.tcps), s.clients[from])
	}
	s.mu.Unlock()
	ends(t, "close", func() { s.Close() })
	ends(t, "a connection", stop.Wait)
}

func TestFlags(t *testing.T) {
	key := "-key " + strings.Repeat("00", 32)
	programtest.Flags(t, "punch", run, map[string]string{
		"":                              "-serve or -server",
		"-serve :0 -server x:1":         "-serve or -server",
		"-serve :0":                     "64 hex digits",
		"-serve :0 -key 12":             "64 hex digits",
		"-server x:1 -room= " + key:     "-room",
		"-server x:1 -ready -1s " + key: "-ready",
		"-server x:1 " + key + " x":     "after the flags",
	})
}
