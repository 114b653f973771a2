// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that both ends know each other's clock over DTLS, whatever a network does, and
// nobody else's. That a datagram that cannot be sent takes no report with it, TestTooLong of
// examples/quic proves for all channels.
package main

import (
	"context"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/pion/dtls/v3"

	"timesync"
	"timesync/examples/channel/channelbench"
	"timesync/internal/badnet"
	"timesync/internal/program"
	"timesync/internal/testkit"
)

func TestBench(t *testing.T) { channelbench.Test(t, connect) }

const patience = time.Minute // a test that takes longer hangs

func shared(key string) []dtls.Option {
	return SharedKey("test", func([]byte) ([]byte, error) { return []byte(key), nil })
}

// ahead is how much more the server's clock shows than the client's, us.
const ahead = 1 << 40

func serverUsec() uint64 { return timesync.NowUsec() + ahead }

// server accepts until the test ends, or stop is called, and echoes what comes. accepted gets each
// new peer.
func server(
	t *testing.T, options []dtls.Option,
) (at netip.AddrPort, accepted chan *Peer, stop func()) {
	t.Helper()
	listener, err := Listen("127.0.0.1:0", options)
	testkit.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	accepted = make(chan *Peer, 10)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				p, err := NewPeer(ctx, conn.(*dtls.Conn), serverUsec)
				if err != nil {
					return
				}
				defer p.Close()
				accepted <- p
				for r, err := p.Receive(); err == nil; r, err = p.Receive() {
					_ = p.Send(r.Payload, serverUsec())
				}
			}()
		}
	}()
	stop = func() { cancel(); listener.Close() }
	t.Cleanup(stop)
	return listener.Addr().(*net.UDPAddr).AddrPort(), accepted, stop
}

func dial(t *testing.T, at netip.AddrPort, options []dtls.Option) (*Peer, error) {
	t.Helper()
	conn, err := Dial(at.String(), options)
	testkit.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return NewPeer(t.Context(), conn, timesync.NowUsec)
}

func client(t *testing.T, at netip.AddrPort, options []dtls.Option) *Peer {
	t.Helper()
	p, err := dial(t, at, options)
	testkit.Must(t, err)
	return p
}

// right fails unless the peer knows the clock of the other end as well as it says.
func right(t *testing.T, p *Peer, truth int64) {
	t.Helper()
	s, ok := p.Snapshot(p.ReceivedUsec())
	if !ok {
		t.Fatal("not synchronized")
	}
	off := time.Duration(s.OffsetUsec-truth) * time.Microsecond
	if off.Abs() > s.ErrorBound+time.Microsecond {
		t.Errorf("the offset is off by %v, more than %v", off, s.ErrorBound)
	}
}

// agree sends numbered datagrams, about one a millisecond, until enough have come back, none
// twice. Then the new client and the server know each other's clock.
func agree(t *testing.T, p *Peer, accepted chan *Peer, enough int) {
	t.Helper()
	done := make(chan struct{})
	defer close(done)
	go func() {
		for n := uint64(0); ; n++ {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
				_ = p.Send(binary.LittleEndian.AppendUint64(nil, n), timesync.NowUsec())
			}
		}
	}()
	came := map[uint64]bool{}
	for range enough {
		r, err := p.Receive()
		testkit.Must(t, err)
		n := binary.LittleEndian.Uint64(r.Payload)
		if came[n] {
			t.Errorf("datagram %d came twice", n)
		}
		came[n] = true
	}
	right(t, p, ahead)
	right(t, <-accepted, -ahead)
}

// TestNetwork: a network that loses 10 %, reorders 10 %, and injects replays, forgeries and
// stumps, does no harm, and no datagram comes twice.
func TestNetwork(t *testing.T) {
	const seed = 5151
	at, accepted, _ := server(t, shared("the key"))
	r := badnet.New(badnet.Config{
		Delay:   2 * time.Millisecond,
		Jitter:  time.Millisecond,
		Loss:    10,
		Reorder: 10,
		Seed:    seed,
	}, at)
	defer r.Close()
	p := client(t, r.Addr(), shared("the key"))
	r.Attack.Store(true)
	agree(t, p, accepted, 1000)
	for _, way := range []badnet.Way{badnet.ToServer, badnet.ToClient} {
		for _, kind := range []badnet.Kind{badnet.Forged, badnet.Replayed, badnet.Cut} {
			if r.Injected(way, kind) == 0 {
				t.Errorf("way %v: nothing of kind %v was injected", way, kind)
			}
		}
	}
}

// TestWho: a server with a certificate, and a client that trusts its issuer; and who has another
// name, issuer or key than the other end wants.
func TestWho(t *testing.T) {
	certificate, roots := program.Certificate()
	at, accepted, _ := server(t, Certified(certificate))
	agree(t, client(t, at, Trusting("localhost", roots)), accepted, 50)
	keyed, _, _ := server(t, shared("the key"))
	for name, other := range map[string]struct {
		at      netip.AddrPort
		options []dtls.Option
	}{
		"name":   {at, Trusting("example.org", roots)},
		"issuer": {at, Trusting("localhost", x509.NewCertPool())},
		"key":    {keyed, shared("another key")},
	} {
		if _, err := dial(t, other.at, other.options); err == nil {
			t.Errorf("another %s: there is a connection", name)
		}
	}
}

// TestRestarts: a client that crashed dials anew and gets a new peer; a server that crashed says
// nothing, so the client gives it up after 3 s, and finds the next one at the address that it
// knows. Nothing of the old clock is left.
func TestRestarts(t *testing.T) {
	at, accepted, stop := server(t, shared("the key"))
	client(t, at, shared("the key")) // crashes: it never says anything again
	first := <-accepted
	agree(t, client(t, at, shared("the key")), accepted, 50)
	if _, known := first.Snapshot(0); known {
		t.Error("the peer of the dead client knows a clock")
	}

	wire := badnet.New(badnet.Config{Seed: 1}, at)
	defer wire.Close()
	p := client(t, wire.Addr(), shared("the key"))
	agree(t, p, accepted, 50)
	// What the server's peers say from now on is lost, as if they had not been able to say it.
	nobody := badnet.Loopback()
	defer nobody.Close()
	wire.Move(badnet.Addr(nobody))
	var err error
	for ; err == nil; _, err = p.Receive() { // what was still under way
	}
	if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a server that says nothing any more: %v, want a timeout", err)
	}
	p.Close()
	stop()
	at, accepted, _ = server(t, shared("the key"))
	wire.Move(at)
	p = client(t, wire.Addr(), shared("the key"))
	if _, known := p.Snapshot(0); known {
		t.Error("a new peer knows a clock at once")
	}
	agree(t, p, accepted, 50)
}

// TestForgedHellos: many beginnings of handshakes from forged addresses take bounded memory, and
// honest clients get in meanwhile. It prints the goroutines at most.
func TestForgedHellos(t *testing.T) {
	forged := 100_000
	if testing.Short() {
		forged = 10_000
	}
	at, accepted, _ := server(t, shared("key"))
	hello := clientHello(t)
	before := runtime.NumGoroutine()
	most := 0
	// A handshake may take over 5 s on a busy machine, and then a client dials again.
	honest := func() {
		var p *Peer
		testkit.Eventually(t, "an honest client gets in", func() (is bool) {
			var err error
			p, err = dial(t, at, shared("key"))
			return err == nil
		})
		agree(t, p, accepted, 20)
	}
	to := net.UDPAddrFromAddrPort(at)
	for sent := 0; sent < forged; {
		// The kernel lets a socket use each address of 127/8: that is as good as a forged one.
		from := net.IPv4(127, 1, byte(sent>>16), byte(sent>>8))
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: from})
		testkit.Must(t, err)
		_, _ = conn.WriteToUDP(hello, to)
		conn.Close()
		sent++
		if sent%(forged/4) == 0 {
			most = max(most, runtime.NumGoroutine()-before)
			honest()
		}
	}
	t.Logf("%d forged hellos: at most %d goroutines more", forged, most)
	if limit := 6*mostUnproven + 500; most > limit {
		t.Errorf("%d goroutines more, %d allowed", most, limit)
	}
}

// clientHello returns the first datagram of a client.
func clientHello(t *testing.T) []byte {
	t.Helper()
	nobody := badnet.Loopback()
	defer nobody.Close()
	conn, err := Dial(nobody.LocalAddr().String(), shared("key"))
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _ = NewPeer(ctx, conn, timesync.NowUsec) }()
	b := make([]byte, longest)
	testkit.Must(t, nobody.SetReadDeadline(time.Now().Add(patience)))
	n, err := nobody.Read(b)
	testkit.Must(t, err)
	return b[:n]
}
