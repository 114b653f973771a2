// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that nobody without the key ends a handshake or a connection with forged
// datagrams, whether they come from another address, or from the right one just before each
// genuine datagram. Whoever is on the path can also drop datagrams, and so prevent a handshake: a
// forged hello does the same.
package main

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"timesync"
	"timesync/internal/badnet"
	"timesync/internal/testkit"
)

// What records are called, and messages of a handshake.
const (
	typeChangeCipher = 20
	typeAlert        = 21
	typeData         = 23

	clientHelloMessage = 1
	helloVerifyRequest = 3
	finishedMessage    = 20
)

// record makes one of DTLS 1.2.
func record(kind byte, epoch uint16, body ...byte) []byte {
	b := []byte{kind, 0xfe, 0xfd}
	b = binary.BigEndian.AppendUint16(b, epoch)
	b = append(b, 0, 0, 0, 0, 0, 9) // a counter
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	return append(b, body...)
}

// plainMessage makes a record with a message of a handshake that is in one piece.
func plainMessage(message byte, body ...byte) []byte {
	size := []byte{0, 0, byte(len(body))}
	head := []byte{message}
	head = append(head, size...)
	head = append(head, 0, 0) // the number of the message
	head = append(head, 0, 0, 0)
	head = append(head, size...)
	return record(typeHandshake, 0, append(head, body...)...)
}

// forgery is a kind of datagram that anybody can make who sees a genuine one.
type forgery struct {
	name string
	make func(genuine []byte) []byte
	// handshake says that it is a message of a handshake that is not encrypted. Both ends must
	// take those, so from the right address it may prevent one.
	handshake bool
}

// always makes the same datagram.
func always(b []byte) func([]byte) []byte { return func([]byte) []byte { return b } }

var forgeries = []forgery{
	{"a fatal alert", always(record(typeAlert, 0, 2, 40)), false},
	{"an alert that closes", always(record(typeAlert, 0, 1, 0)), false},
	{"an alert that claims to be encrypted", always(record(typeAlert, 1, 2, 40)), false},
	{"data", always(record(typeData, 0, 1, 2, 3)), false},
	{"data that claim to be encrypted", always(record(typeData, 1, make([]byte, 40)...)), false},
	{"a change of ciphers", always(record(typeChangeCipher, 0, 1)), false},
	{"a wrong change of ciphers", always(record(typeChangeCipher, 0, 2, 2)), false},
	{"an unknown type", always(record(99, 0, 1, 2, 3)), false},
	{"an epoch to come", always(record(typeData, 0xffff, make([]byte, 40)...)), false},
	{"a client's hello", always(plainMessage(clientHelloMessage, make([]byte, 60)...)), true},
	{"a request for a cookie",
		always(plainMessage(helloVerifyRequest, 0xfe, 0xfd, 4, 1, 2, 3, 4)), true},
	{"a server's hello", always(plainMessage(serverHello, make([]byte, 60)...)), true},
	{"the end of a handshake", always(plainMessage(finishedMessage, make([]byte, 12)...)), true},
	{"a piece of a long message", func([]byte) []byte {
		b := plainMessage(serverHello, make([]byte, 60)...)
		b[recordHead+1] = 0xff // of 16 MB
		return b
	}, true},
	{"a record longer than its datagram", func([]byte) []byte {
		b := record(typeData, 1, make([]byte, 40)...)
		b[recordHead-2] = 0xff
		return b
	}, false},
	{"a genuine one, changed", func(genuine []byte) []byte {
		b := bytes.Clone(genuine)
		b[len(b)-1] ^= 1
		return b
	}, true},
	{"a genuine one, cut short", func(genuine []byte) []byte {
		return genuine[:len(genuine)-1]
	}, true},
}

// onPath is a relay to the server at an address that sends what forges returns before each
// datagram.
func onPath(t *testing.T, at netip.AddrPort, forges func(genuine []byte) [][]byte) netip.AddrPort {
	front, back := badnet.Loopback(), badnet.Loopback()
	t.Cleanup(func() { front.Close(); back.Close() })
	client := make(chan netip.AddrPort, 1)
	pass := func(to *net.UDPConn, datagram []byte, address netip.AddrPort) {
		for _, forged := range forges(datagram) {
			_, _ = to.WriteToUDPAddrPort(forged, address)
		}
		_, _ = to.WriteToUDPAddrPort(datagram, address)
	}
	go func() { // to the server
		var b [longest]byte
		for first := true; ; first = false {
			n, from, err := front.ReadFromUDPAddrPort(b[:])
			if err != nil {
				return
			}
			if first {
				client <- from
			}
			pass(back, b[:n], at)
		}
	}()
	go func() { // to the client
		var b [longest]byte
		for to := <-client; ; {
			n, _, err := back.ReadFromUDPAddrPort(b[:])
			if err != nil {
				return
			}
			pass(front, b[:n], to)
		}
	}()
	return badnet.Addr(front)
}

// TestForgedOffPath: whoever is at another address and sees nothing ends no handshake.
func TestForgedOffPath(t *testing.T) {
	at, accepted, _ := server(t, shared("key"))
	conn, err := Dial(at.String(), shared("key"))
	testkit.Must(t, err)
	elsewhere, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)})
	testkit.Must(t, err)
	defer elsewhere.Close()
	victim := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: conn.LocalAddr().(*net.UDPAddr).Port}
	genuine := clientHello(t)
	for range 5 { // they are read before the server's answer
		for _, f := range forgeries {
			for _, to := range []*net.UDPAddr{victim, net.UDPAddrFromAddrPort(at)} {
				_, err := elsewhere.WriteToUDP(f.make(genuine), to)
				testkit.Must(t, err)
			}
		}
	}
	p, err := NewPeer(t.Context(), conn, timesync.NowUsec)
	testkit.Must(t, err)
	defer p.Close()
	agree(t, p, accepted, 50)
}

// TestForgedOnPath: whoever sends a forged datagram of any kind before each genuine one, from the
// right address, ends no connection; and no handshake either, unless what he forges is a message
// of it.
func TestForgedOnPath(t *testing.T) {
	for _, f := range forgeries {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			at, accepted, _ := server(t, shared("key"))
			var begun atomic.Bool
			begun.Store(!f.handshake)
			var sent atomic.Int64
			wire := onPath(t, at, func(genuine []byte) [][]byte {
				if !begun.Load() {
					return nil
				}
				sent.Add(1)
				return [][]byte{f.make(genuine)}
			})
			p, err := dial(t, wire, shared("key"))
			testkit.Must(t, err)
			begun.Store(true)
			agree(t, p, accepted, 200)
			if sent.Load() < 200 {
				t.Errorf("only %d forged datagrams were sent", sent.Load())
			}
		})
	}
}

// TestForgedHandshakes: a forged message of a handshake from the right address may prevent it, but
// neither makes an end take a false peer, nor stays: the next handshake succeeds.
func TestForgedHandshakes(t *testing.T) {
	for _, f := range forgeries {
		if !f.handshake {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			at, accepted, _ := server(t, shared("key"))
			var over atomic.Bool
			wire := onPath(t, at, func(genuine []byte) [][]byte {
				if over.Load() {
					return nil
				}
				return [][]byte{f.make(genuine)}
			})
			begin := time.Now()
			p, err := dial(t, wire, shared("key"))
			t.Logf("the handshake under attack: %v after %v", err, time.Since(begin))
			if err == nil {
				agree(t, p, accepted, 50)
				return
			}
			over.Store(true)
			p, err = dial(t, onPath(t, at, func([]byte) [][]byte { return nil }), shared("key"))
			testkit.Must(t, err)
			agree(t, p, accepted, 50)
		})
	}
}
