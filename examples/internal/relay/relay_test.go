// The tests prove that the network is as bad as it is told to be, and that the attacker
// injects what he says.
package relay

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"
)

const patience = 20 * time.Second

// ends is a server and a client with a relay between them.
type ends struct {
	relay          *Relay
	server, client *net.UDPConn
}

func open(t *testing.T, c Config) *ends {
	t.Helper()
	server := socket(t)
	r := New(c, Addr(server))
	t.Cleanup(r.Close)
	return &ends{r, server, socket(t)}
}

func socket(t *testing.T) *net.UDPConn {
	t.Helper()
	conn := Loopback()
	conn.SetReadDeadline(time.Now().Add(patience))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// pass sends a datagram to an address, and returns what arrives at another socket, and from where.
func pass(t *testing.T, from *net.UDPConn, data string, to netip.AddrPort, at *net.UDPConn) (string, netip.AddrPort) {
	t.Helper()
	if _, err := from.WriteToUDPAddrPort([]byte(data), to); err != nil {
		t.Fatal(err)
	}
	return read(t, at)
}

func read(t *testing.T, conn *net.UDPConn) (string, netip.AddrPort) {
	t.Helper()
	buf := make([]byte, 2048)
	n, from, err := conn.ReadFromUDPAddrPort(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n]), from
}

// TestDelays: no datagram is early, and each way has its own delay.
func TestDelays(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	e := open(t, Config{Delay: 10 * ms, Jitter: 10 * ms, Up: Extra{By: 40 * ms}, Down: Extra{By: 80 * ms}, Seed: 1})
	there, back := time.Hour, time.Hour
	for range 10 {
		start := time.Now()
		data, from := pass(t, e.client, "there", e.relay.Addr(), e.server)
		turned := time.Now()
		data, from = pass(t, e.server, data+" and back", from, e.client)
		there, back = min(there, turned.Sub(start)), min(back, time.Since(turned))
		if data != "there and back" || from != e.relay.Addr() {
			t.Fatalf("got %q from %v", data, from)
		}
	}
	// A loaded machine makes ten in a row late by 20 ms only if it is very busy.
	if there < 54*ms || there > 74*ms || back < 94*ms || back > 114*ms {
		t.Errorf("there takes at least %v, want 54 ms; back %v, want 94 ms", there, back)
	}
}

// TestLossAndOrder counts what arrives and what is overtaken.
func TestLossAndOrder(t *testing.T) {
	t.Parallel()
	const sent = 4000
	e := open(t, Config{Delay: time.Millisecond, Loss: 20, Reorder: 10, Seed: 2})
	go func() {
		for i := range uint32(sent) {
			e.client.WriteToUDPAddrPort(binary.LittleEndian.AppendUint32(nil, i), e.relay.Addr())
			time.Sleep(100 * time.Microsecond) // so that no buffer overflows
		}
		time.Sleep(100 * time.Millisecond)
		e.client.WriteToUDPAddrPort([]byte("over"), Addr(e.server)) // not through the relay, which might lose it
	}()
	received, overtaken, newest := 0, 0, uint32(0)
	for data, _ := read(t, e.server); data != "over"; data, _ = read(t, e.server) {
		n := binary.LittleEndian.Uint32([]byte(data))
		received++
		if n < newest {
			overtaken++
		}
		newest = max(newest, n)
	}
	if received < sent*70/100 || received > sent*90/100 {
		t.Errorf("%d of %d arrive, want 80 %%", received, sent)
	}
	if overtaken < received*5/100 || overtaken > received*15/100 {
		t.Errorf("%d of %d are overtaken, want 10 %%", overtaken, received)
	}
}

// TestAttack: each kind is injected, is what it is called, and is counted.
func TestAttack(t *testing.T) {
	t.Parallel()
	e := open(t, Config{Delay: time.Millisecond, Seed: 3})
	const recording, genuine, sent = "of another session", "a true datagram", 1000
	e.relay.Recordings[ToServer] = []byte(recording)
	e.relay.Attack.Store(true)
	var arrived []string
	for range sent { // one by one, so that no buffer overflows
		data, _ := pass(t, e.client, genuine, e.relay.Addr(), e.server)
		arrived = append(arrived, data)
	}
	e.relay.mu.Lock()
	injected := e.relay.turn
	e.relay.mu.Unlock()
	for range injected {
		data, _ := read(t, e.server)
		arrived = append(arrived, data)
	}
	seen := [kinds]int{Replayed: -sent}
	for _, data := range arrived {
		switch {
		case data == genuine:
			seen[Replayed]++
		case data == recording:
			seen[Recorded]++
		case len(data) < len(genuine):
			seen[Cut]++
		default:
			seen[Forged]++
		}
	}
	for kind := Forged; kind < kinds; kind++ {
		if n := e.relay.Injected(ToServer, kind); n == 0 || n != seen[kind] {
			t.Errorf("kind %d: %d injected, %d seen", kind, n, seen[kind])
		}
		if n := e.relay.Injected(ToClient, kind); n != 0 {
			t.Errorf("kind %d: %d went back", kind, n)
		}
	}
}
