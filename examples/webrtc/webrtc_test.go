// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that both ends know each other's clock over a real data channel, within
// the bounds that they state, and that the channel is what the stamps need. That a message without
// a right header does no harm, TestBadHeader of examples/quic proves for all channels.
package main

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/pion/transport/v5/stdnet"
	"github.com/pion/webrtc/v4"

	"timesync/examples/channel/channelbench"
	"timesync/internal/testkit"
)

func TestBench(t *testing.T) { channelbench.Test(t, connect) }

// TestUnreliable: reliable or ordered messages would be late, and look like a longer path.
func TestUnreliable(t *testing.T) {
	api, err := loopback()
	testkit.Must(t, err)
	conn, err := api.NewPeerConnection(webrtc.Configuration{})
	testkit.Must(t, err)
	defer conn.Close()
	options := Unreliable()
	channel, err := conn.CreateDataChannel("timed", &options)
	testkit.Must(t, err)
	if again := channel.MaxRetransmits(); channel.Ordered() || again == nil || *again != 0 {
		t.Errorf("ordered: %v, sent again: %v", channel.Ordered(), again)
	}
}

// TestGuard: of what arrives on a connection's socket, alerts that are not encrypted are dropped,
// and STUN messages, handshakes and encrypted records pass.
func TestGuard(t *testing.T) {
	network, err := stdnet.NewNet()
	testkit.Must(t, err)
	conn, err := guardedNet{network}.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	testkit.Must(t, err)
	defer conn.Close()
	sender, err := net.DialUDP("udp4", nil, conn.LocalAddr().(*net.UDPAddr))
	testkit.Must(t, err)
	defer sender.Close()
	alert := []byte{21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 99, 0, 2, 2, 40}
	encrypted := slices.Clone(alert)
	encrypted[4] = 1 // its epoch
	handshake := slices.Clone(alert)
	handshake[0] = 22
	stun := make([]byte, 20)
	for _, datagram := range [][]byte{stun, alert, handshake, alert, encrypted, alert, stun} {
		_, err := sender.Write(datagram)
		testkit.Must(t, err)
	}
	testkit.Must(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	var b [100]byte
	for i, want := range [][]byte{stun, handshake, encrypted, stun} {
		n, _, err := conn.ReadFrom(b[:])
		testkit.Must(t, err)
		if !slices.Equal(b[:n], want) {
			t.Errorf("datagram %d is % x, want % x", i, b[:n], want)
		}
	}
}
