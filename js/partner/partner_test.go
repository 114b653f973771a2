// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"timesync/clock"
	"timesync/internal/badnet"
	"timesync/internal/testkit"
	"timesync/link"
)

// ahead is what the peer's clock is ahead of the partner's, us.
const ahead = 7_000_000_000

// TestServe: a peer that sends to the program soon knows its clock, and is known. A datagram that
// is none is printed with what is wrong.
func TestServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	conn, peer := badnet.Loopback(), badnet.Loopback()
	defer conn.Close()
	defer peer.Close()
	var out testkit.Output
	p := partner{conn: conn, out: &out}
	ended := make(chan error, 1)
	go func() { ended <- p.serve(ctx) }()

	to := badnet.Addr(conn)
	peer.WriteToUDPAddrPort([]byte{1}, to)
	var l link.Link
	testkit.Eventually(t, "the peer's clock is known", func() bool {
		datagram := append(l.AppendHeader(nil, clock.Now()+ahead), "hello"...)
		peer.WriteToUDPAddrPort(datagram, to)
		receive(t, peer, &l)
		return strings.Contains(out.String(), "relied on to 30ms: yes")
	})
	const tolerated = 1_000_000 // us: the machine may be busy
	s, ok := l.Snapshot(clock.Now() + ahead)
	if off := s.OffsetUsec + ahead; !ok || off > tolerated || off < -tolerated {
		t.Errorf("%v: the peer should know that the program's clock is 7000 s behind", s)
	}
	for _, want := range []string{"too few bytes", "in ", "out ", `payload "hello"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not printed: %s", want, out.String())
		}
	}
	stop()
	testkit.Must(t, <-ended)
}

// receive takes a datagram of the partner's, if one comes soon.
func receive(t *testing.T, peer *net.UDPConn, l *link.Link) {
	t.Helper()
	buf := make([]byte, 2048)
	peer.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	n, err := peer.Read(buf)
	if err != nil {
		return // none has come
	}
	payload, _, _, err := l.ReadHeader(buf[:n], clock.Received()+ahead)
	if err != nil || string(payload) != "go" {
		t.Fatalf("%q, %v", payload, err)
	}
}
