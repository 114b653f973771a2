// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"timesync/clock"
	"timesync/internal/badnet"
	"timesync/internal/exampletest"
	"timesync/link"
)

// TestServe: a peer that sends to the program knows its clock soon, is known, and a datagram that is none is named.
func TestServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	conn, peer := badnet.Loopback(), badnet.Loopback()
	defer conn.Close()
	defer peer.Close()
	var out exampletest.Output
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, conn, &out) }()

	const ahead = 7_000_000_000 // us
	var l link.Link
	buf := make([]byte, 2048)
	peer.WriteToUDPAddrPort([]byte{1}, badnet.Addr(conn))
	exampletest.Eventually(t, "the peer's clock is known", func() bool {
		peer.WriteToUDPAddrPort(append(l.AppendHeader(nil, clock.Now()+ahead), "hello"...), badnet.Addr(conn))
		peer.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if n, err := peer.Read(buf); err == nil {
			payload, _, _, err := l.Open(buf[:n], clock.Received()+ahead)
			if err != nil || string(payload) != "go" {
				t.Fatalf("%q, %v", payload, err)
			}
		}
		return strings.Contains(out.String(), "relied on to 30 ms: yes")
	})
	if s, ok := l.Snapshot(clock.Now() + ahead); !ok || s.OffsetUsec > -ahead+1_000_000 || s.OffsetUsec < -ahead-1_000_000 {
		t.Errorf("%v: the peer should know that the program's clock is 7000 s behind", s)
	}
	for _, want := range []string{"too few bytes", "in ", "out ", `payload "hello"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not printed: %s", want, out.String())
		}
	}
	stop()
	exampletest.Must(t, <-ended)
}
