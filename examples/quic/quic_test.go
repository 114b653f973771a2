// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that both ends know each other's clock over real QUIC, within the bounds
// that they state, that no datagram of a connection with 0-RTT data is believed, and that a
// datagram without a right header does no harm.
package main

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"timesync/clock"
	"timesync/clock/rtptime"
	"timesync/examples/channel/channelbench"
	"timesync/internal/testkit"
)

func TestBench(t *testing.T) { channelbench.Test(t, connect) }

// timeout ends a test that hangs.
func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestZeroRTT sends a datagram as 0-RTT data. The server gets it, and has no way to see
// that it might be a replay: so neither end makes a Peer of the connection. The race
// detector objects to quic-go here (github.com/quic-go/quic-go/issues/4303).
func TestZeroRTT(t *testing.T) {
	ctx := timeout(t)
	config := &quic.Config{EnableDatagrams: true, Allow0RTT: true}
	listener, clientTLS, err := listen(config)
	testkit.Must(t, err)
	defer listener.Close()
	clientTLS.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for i, want := range []error{nil, errReplayable} { // the second connection resumes the first
		client, err := quic.DialAddrEarly(ctx, listener.Addr().String(), clientTLS, config)
		testkit.Must(t, err)
		testkit.Must(t, client.SendDatagram([]byte("early")))
		server, err := listener.Accept(ctx)
		testkit.Must(t, err)
		got, err := server.ReceiveDatagram(ctx)
		if err != nil || string(got) != "early" {
			t.Fatalf("%q, %v", got, err)
		}
		for name, conn := range map[string]*quic.Conn{"client": client, "server": server} {
			if _, err := NewPeer(conn, clock.Received); err != want {
				t.Errorf("connection %d, %s: %v, want %v", i+1, name, err, want)
			}
		}
		// The ticket for the next connection precedes what comes after the handshake.
		testkit.Must(t, server.SendDatagram(got))
		_, err = client.ReceiveDatagram(ctx)
		testkit.Must(t, err)
		client.CloseWithError(0, "")
	}
}

// TestBadHeader: what is refused is passed over, and the next datagram is read.
func TestBadHeader(t *testing.T) {
	ctx := timeout(t)
	client, server := pair(t, ctx)
	now := clock.Now()
	if err := client.conn.SendDatagram([]byte("none")); err != nil { // 'n' has reserved flags
		t.Fatal(err)
	}
	testkit.Must(t, client.Send([]byte("payload"), now))
	got, err := server.Receive(ctx)
	if err != nil || string(got.Payload) != "payload" || got.At < now || got.Known {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestTooLong: the report in the header of a datagram that does not fit is not lost.
func TestTooLong(t *testing.T) {
	ctx := timeout(t)
	client, server := pair(t, ctx)
	testkit.Must(t, server.Send(nil, clock.Now()))
	if _, err := client.Receive(ctx); err != nil { // so it has something to report
		t.Fatal(err)
	}
	if err := client.Send(make([]byte, 1<<16), clock.Now()); err == nil {
		t.Fatal("a datagram of 64 KB was sent")
	}
	testkit.Must(t, client.Send(nil, clock.Now()))
	_, err := server.Receive(ctx)
	if s, known := server.Snapshot(clock.Now()); err != nil || !known {
		t.Errorf("%v, %v: the report was lost", s, err)
	}
}

// TestCaptureTime: a frame that says when it was captured, as RTP does, says so on the receiver's
// clock.
func TestCaptureTime(t *testing.T) {
	ctx := timeout(t)
	camera, viewer := pair(t, ctx) // of one clock, which neither knows
	for known := false; !known; {
		testkit.Must(t, viewer.Send(nil, clock.Now()))
		_, err := camera.Receive(ctx)
		testkit.Must(t, err)
		testkit.Must(t, camera.Send(nil, clock.Now()))
		got, err := viewer.Receive(ctx)
		testkit.Must(t, err)
		_, known = viewer.Snapshot(got.At)
	}
	captured := clock.Now() - 20_000
	frame, err := rtptime.CaptureTime{Captured: rtptime.FromUsec(captured)}.AppendBinary(nil)
	testkit.Must(t, err)
	testkit.Must(t, camera.Send(frame, clock.Now()))
	got, err := viewer.Receive(ctx)
	testkit.Must(t, err)
	read, err := rtptime.ReadCaptureTime(got.Payload)
	testkit.Must(t, err)
	s, _ := viewer.Snapshot(got.At)
	off := time.Duration(int64(read.LocalUsec(s)-captured)) * time.Microsecond
	if off.Abs() > s.ErrorBound {
		t.Errorf("captured at %d, read %v off, bound %v", captured, off, s.ErrorBound)
	}
}

// pair is two peers on one clock.
func pair(t *testing.T, ctx context.Context) (client, server *Peer) {
	listener, clientTLS, err := listen(config)
	testkit.Must(t, err)
	t.Cleanup(func() { listener.Close() })
	client, server, err = join(ctx, listener, clientTLS, clock.Received, clock.Received)
	testkit.Must(t, err)
	t.Cleanup(func() { client.conn.CloseWithError(0, "") })
	return client, server
}
