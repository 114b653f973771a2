// These tests prove that the network is as bad as it is told to be. That the attacker injects what
// he says, the tests of cmd/owd and examples/dtls prove.
package badnet_test

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"timesync/internal/badnet"
	"timesync/internal/testkit"
)

const ms = time.Millisecond

// pass sends a datagram from a socket to an address, and returns what arrives at another, from
// where and after what time.
func pass(
	t *testing.T, from *net.UDPConn, data string, to netip.AddrPort, at *net.UDPConn,
) (came string, sender netip.AddrPort, took time.Duration) {
	t.Helper()
	start := time.Now()
	buf := make([]byte, 2048)
	at.SetReadDeadline(start.Add(20 * time.Second))
	_, err := from.WriteToUDPAddrPort([]byte(data), to)
	testkit.Must(t, err)
	n, sender, err := at.ReadFromUDPAddrPort(buf)
	testkit.Must(t, err)
	return string(buf[:n]), sender, time.Since(start)
}

// TestDelays: no datagram is early, and each way has its own delay.
func TestDelays(t *testing.T) {
	t.Parallel()
	server, client := badnet.Loopback(), badnet.Loopback()
	defer server.Close()
	defer client.Close()
	r := badnet.New(badnet.Config{
		Delay:  10 * ms,
		Jitter: 10 * ms,
		Up:     badnet.Extra{By: 40 * ms},
		Down:   badnet.Extra{By: 80 * ms},
		Seed:   1,
	}, badnet.Addr(server))
	defer r.Close()
	there, back := time.Hour, time.Hour
	for range 10 {
		data, from, took := pass(t, client, "there", r.Addr(), server)
		there = min(there, took)
		data, from, took = pass(t, server, data+" and back", from, client)
		back = min(back, took)
		if data != "there and back" || from != r.Addr() {
			t.Fatalf("got %q from %v", data, from)
		}
	}
	// A loaded machine makes ten in a row late by 20 ms only if it is very busy.
	if there < 54*ms || there > 74*ms || back < 94*ms || back > 114*ms {
		t.Errorf("there takes at least %v, want 54 ms; back %v, want 94 ms", there, back)
	}
}

// TestOrder: what is held back is overtaken, and comes.
func TestOrder(t *testing.T) {
	server, client := badnet.Loopback(), badnet.Loopback()
	defer server.Close()
	defer client.Close()
	r := badnet.New(badnet.Config{Reorder: 100, Seed: 2}, badnet.Addr(server))
	defer r.Close()
	server.SetReadDeadline(time.Now().Add(20 * time.Second))
	came := make([]byte, 20)
	for i := range byte(20) {
		client.WriteToUDPAddrPort([]byte{i}, r.Addr())
	}
	for i := range came {
		_, err := server.Read(came[i : i+1])
		testkit.Must(t, err)
	}
	if slices.IsSorted(came) {
		t.Errorf("%d come as they were sent", came)
	}
}

// TestDraw counts what is lost and what is held back, so that others overtake.
func TestDraw(t *testing.T) {
	const sent = 4000
	c := badnet.Config{Delay: 50 * ms, Jitter: 10 * ms, Loss: 20, Reorder: 10}
	rng := rand.New(rand.NewPCG(2, 0))
	lost, held := 0, 0
	for range sent {
		delay, gone := c.Draw(rng)
		if gone {
			lost++
		}
		if delay > 60*ms {
			held++
		}
		if delay < 54*ms || delay > 105*ms {
			t.Errorf("one takes %v", delay)
		}
	}
	percent := func(n int) float64 { return 100 * float64(n) / sent }
	if p := percent(lost); p < 18 || p > 22 {
		t.Errorf("%.1f %% are lost, want 20", p)
	}
	if p := percent(held); p < 8 || p > 12 {
		t.Errorf("%.1f %% are held back, want 10", p)
	}
}
