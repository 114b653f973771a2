// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"timesync/clock"
	"timesync/examples/internal/exampletest"
	"timesync/link"
)

// TestServe: a peer that sends to the program knows its clock soon, is known, and a datagram that is none is named.
func TestServe(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	loopback := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}
	conn, err := net.ListenUDP("udp", loopback)
	exampletest.Must(t, err)
	defer conn.Close()
	var out exampletest.Output
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, conn, &out) }()

	peer, err := net.DialUDP("udp", nil, conn.LocalAddr().(*net.UDPAddr))
	exampletest.Must(t, err)
	defer peer.Close()
	const ahead = 7_000_000_000 // us
	var l link.Link
	buf := make([]byte, 2048)
	peer.Write([]byte{1})
	for !strings.Contains(out.String(), "relied on to 30 ms: yes") {
		peer.Write(append(l.AppendHeader(nil, clock.Now()+ahead), "hello"...))
		peer.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if n, err := peer.Read(buf); err == nil {
			payload, _, _, err := l.Open(buf[:n], clock.Received()+ahead)
			if err != nil || string(payload) != "go" {
				t.Fatalf("%q, %v", payload, err)
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("after 30 s the peer's clock is not known: %s", out.String())
		}
	}
	now := clock.Now()
	if s, ok := l.Snapshot(now + ahead); !ok || s.OffsetUsec > -ahead+1_000_000 || s.OffsetUsec < -ahead-1_000_000 {
		t.Errorf("%v: the peer should know that the program's clock is 7000 s behind", s)
	}
	for _, want := range []string{"too few bytes", "in ", "out ", `payload "hello"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not printed: %s", want, out.String())
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
