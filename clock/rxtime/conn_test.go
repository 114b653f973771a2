// These tests prove that a connection reads what a plain one would, with the kernel's stamps
// where there are some.

package rxtime

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"timesync/clock"
)

const us, ms, sec = time.Microsecond, time.Millisecond, time.Second

// patience is how long a datagram on loopback may take; it is never used up.
const patience = 10 * sec

// open makes a socket on loopback that gives up after patience.
func open(t testing.TB) (*net.UDPConn, netip.AddrPort) {
	t.Helper()
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Skipf("no loopback here: %v", err) // js/wasm, some sandboxes
	}
	t.Cleanup(func() { udp.Close() })
	udp.SetReadDeadline(time.Now().Add(patience))
	return udp, udp.LocalAddr().(*net.UDPAddr).AddrPort()
}

// check fails if a test got something else than it wants.
func check[T comparable](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %+v, want %+v", fmt.Sprintf(format, args...), got, want)
	}
}

// both are the ways to read: as NewConn finds it, and without the kernel.
func both(udp *net.UDPConn) map[string]*Conn {
	return map[string]*Conn{"NewConn": NewConn(udp), "without kernel": {udp: udp}}
}

func write(t testing.TB, udp *net.UDPConn, b []byte, to netip.AddrPort) {
	t.Helper()
	_, err := udp.WriteToUDPAddrPort(b, to)
	must(t, err)
}

// must ends the test if something fails that is to work.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestReadFrom: payload and sender are those of a plain read, also on a socket for IPv4 and IPv6.
// The receive time is between the write and the end of the read.
func TestReadFrom(t *testing.T) {
	udp, err := net.ListenUDP("udp", &net.UDPAddr{})
	if err != nil {
		t.Skip(err)
	}
	defer udp.Close()
	udp.SetReadDeadline(time.Now().Add(patience))
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"),
		udp.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	for name, c := range both(udp) {
		for _, payload := range []string{"", "a", "a datagram that is longer than the buffer"} {
			var buf, plain [20]byte
			sent := clock.Now()
			write(t, udp, []byte(payload), at)
			n, from, received, err := c.ReadFrom(buf[:])
			read := clock.Received()
			write(t, udp, []byte(payload), at)
			wantN, want, wantErr := udp.ReadFromUDPAddrPort(plain[:])
			if typesOf(err) != typesOf(wantErr) ||
				err == nil && (n != wantN || buf != plain || from != want) {
				t.Errorf("%s: got %q from %v, %v; want %q from %v, %v",
					name, buf[:n], from, err, plain, want, wantErr)
			}
			if err == nil && (received < sent || received > read) {
				t.Errorf("%s: sent at %d, received at %d, read at %d", name, sent, received, read)
			}
		}
	}
}

// TestKernel: the time is that of the arrival and not of the read. On loopback it lies
// within the write, but for the few that are handed to another processor, once the
// kernel has begun.
func TestKernel(t *testing.T) {
	udp, at := open(t)
	c := NewConn(udp)
	if !c.Kernel() {
		if runtime.GOOS == "linux" {
			t.Error("Linux does not give its receive times")
		}
		t.Skip("the kernel gives no times here")
	}
	for end := time.Now().Add(patience); ; {
		within := burst(t, c, at)
		if within > burstSize/2 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still only %d of %d were received while they were written", within, burstSize)
		}
	}
}

// burstSize datagrams fit into a receive buffer of any usual size.
const burstSize = 100

// burst writes them all before it reads the first, and returns how many were received
// while they were written.
func burst(t *testing.T, c *Conn, at netip.AddrPort) (within int) {
	var sent, written [burstSize]uint64
	for i := range sent {
		sent[i] = clock.Now()
		write(t, c.udp, []byte{byte(i)}, at)
		written[i] = clock.Now()
	}
	for range sent {
		var b [1]byte
		_, _, received, err := c.ReadFrom(b[:])
		must(t, err)
		i := b[0]
		if received < sent[i] {
			t.Errorf("datagram %d was received %d us before it was sent", i, sent[i]-received)
		}
		if received <= written[i]+2 {
			within++
		}
	}
	return within
}

// typesOf returns the types of an error and of all that it wraps.
func typesOf(err error) (types string) {
	for ; err != nil; err = errors.Unwrap(err) {
		types += fmt.Sprintf("%T ", err)
	}
	return types
}

// TestErrors: a read that fails has no bytes and no sender, and an error as of package net, of the
// same types all the way down. A system that refuses says at the next read of a connected socket
// that the peer's port is closed.
func TestErrors(t *testing.T) {
	gone, at := open(t)
	gone.Close()
	udp, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(at))
	must(t, err)
	conns := both(udp)
	for name, c := range conns {
		// Over, soon over, and refused before.
		for _, wait := range []time.Duration{-time.Hour, ms, sec} {
			fail := func() {
				udp.SetReadDeadline(time.Now().Add(wait))
				if wait == sec {
					udp.Write([]byte("a"))
				}
			}
			fail()
			_, _, want := udp.ReadFromUDPAddrPort(make([]byte, 9))
			fail()
			n, from, _, err := c.ReadFrom(make([]byte, 9))
			if want == nil || n != 0 || from.IsValid() || typesOf(err) != typesOf(want) {
				t.Errorf("%s, a deadline in %v: %d bytes from %v, %v; package net has %v",
					name, wait, n, from, err, want)
			}
		}
	}
	udp.Close()
	none := map[string]*Conn{"zero": {}, "of nil": NewConn(nil), "of closed": NewConn(udp)}
	for name, c := range none {
		check(t, c.Kernel(), false, "%s: has times of the kernel", name)
	}
	maps.Copy(conns, none)
	for name, c := range conns {
		if n, _, _, err := c.ReadFrom(make([]byte, 9)); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: closed: %d bytes, %v", name, n, err)
		}
		before := clock.Now()
		if received := c.Received([]byte{1}); received < before || received > clock.Received() {
			t.Errorf("%s: without a stamp received at %d, called at %d", name, received, before)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	udp, at := open(t)
	b := bytes.Repeat([]byte{1}, 100)
	for name, c := range both(udp) {
		n := testing.AllocsPerRun(1000, func() {
			udp.WriteToUDPAddrPort(b, at)
			_, _, _, err := c.ReadFrom(b)
			must(t, err)
			c.Received(b)
		})
		check(t, n, 0, "%s: allocations", name)
	}
}
