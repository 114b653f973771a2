// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that the port of the original is compared with what the C++ peer prints,
// and that the relay delays datagrams as a link of internal/sim says.

package main

import (
	"fmt"
	"net"
	"testing"
	"time"

	"timesync/internal/rivals"
	"timesync/internal/sim"
)

// TestOriginalLines: what the port answers, too, is no mismatch; everything else is one, or
// an error.
func TestOriginalLines(t *testing.T) {
	var model, port rivals.Original
	e := &liveEnd{peer: &liveEnd{}}
	stamps := []uint32{1000, 3500, 1<<24 - 1, 5}
	for i, stamp := range stamps {
		at := uint64(100_000 * (i + 1))
		delay := model.Datagram(stamp, at)
		report, _ := model.MinDelta(at)
		if err := e.line(&port, fmt.Sprintf("d %d %d %d %d", stamp, at, delay, report)); err != nil {
			t.Fatal(err)
		}
		model.OnPeerMinDelta(77, at)
		if err := e.line(&port, "r 77"); err != nil {
			t.Fatal(err)
		}
		if err := e.line(&port, fmt.Sprintf("q %d %d %d", at, at, model.Remote23(at))); err != nil {
			t.Fatal(err)
		}
	}
	if e.compared != 3*len(stamps) || e.mismatches != 0 {
		t.Errorf("%d compared, %d differ", e.compared, e.mismatches)
	}
	if err := e.line(&port, "d 1000 900000 1 1"); err != nil || e.mismatches != 1 {
		t.Errorf("a wrong delay: %d differ, %v", e.mismatches, err)
	}
	if err := e.line(&port, "q 900000 900000 4242"); err != nil || e.mismatches != 2 {
		t.Errorf("a wrong reading: %d differ, %v", e.mismatches, err)
	}
	for _, bad := range []string{"", "x 1", "r", "r 1 2", "q 1 2 -3", "d 1 2 3", "d 1 2 3 four"} {
		if e.line(&port, bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestRelay: everything arrives, in order and not before its time.
func TestRelay(t *testing.T) {
	in, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	front, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close()
	const base = 5 * ms
	link := &sim.Link{Base: sim.Fixed(base), Delay: sim.Exp(ms), FIFO: true}
	relay(link, front, in.LocalAddr().(*net.UDPAddr).Port, 1)
	var sent [100]time.Time
	for i := range sent {
		sent[i] = time.Now()
		if _, err := in.WriteTo([]byte{byte(i)}, front.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range sent {
		var b [8]byte
		n, err := in.Read(b[:])
		if err != nil || n != 1 || b[0] != byte(i) {
			t.Fatalf("datagram %d: %v, %v", i, b[:n], err)
		}
		if took := time.Since(sent[i]); took < base {
			t.Fatalf("datagram %d was under way for %v only", i, took)
		}
	}
}
