// These tests prove that the port of the original is compared with what the C++ peer prints,
// and that the relay delays datagrams as a link of internal/sim says.

package main

import (
	"fmt"
	"net"
	"testing"
	"time"

	"timesync/internal/sim/rivals"
	"timesync/internal/sim/simnet"
)

// TestOriginalLines: what the port answers, too, is no mismatch; everything else is one, or
// an error.
func TestOriginalLines(t *testing.T) {
	var model, port rivals.Original
	e := &liveEnd{peer: &liveEnd{}}
	prints := func(mismatches int, format string, values ...any) {
		t.Helper()
		if err := e.line(&port, fmt.Sprintf(format, values...)); err != nil ||
			e.mismatches != mismatches {
			t.Errorf(format+": %d differ, want %d, %v", append(values, e.mismatches, mismatches, err)...)
		}
	}
	for i, stamp := range []uint32{1000, 3500, 1<<24 - 1, 5} {
		at := uint64(100_000 * (i + 1))
		delay := model.Datagram(stamp, at)
		report, _ := model.MinDelta(at)
		model.OnPeerMinDelta(77, at)
		prints(0, "d %d %d %d %d", stamp, at, delay, report)
		prints(0, "r 77")
		prints(0, "q %d %d %d", at, at, model.Remote23(at))
	}
	prints(1, "d 1000 900000 1 1")
	prints(2, "q 900000 900000 4242")
	if e.compared != 3*4+2 {
		t.Errorf("%d compared", e.compared)
	}
	for _, bad := range []string{"", "x 1", "r", "r 1 2", "q 1 2 -3", "d 1 2 3", "d 1 2 3 four"} {
		if e.line(&port, bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestRelay: everything arrives, in order and not before its time.
func TestRelay(t *testing.T) {
	in, front := must(listen(0)), must(listen(0))
	defer in.Close()
	defer front.Close()
	const base = 5 * ms
	link := &simnet.Link{Base: simnet.Fixed(base), Delay: simnet.Exp(ms), FIFO: true}
	go relay(link, front, in.LocalAddr().(*net.UDPAddr).Port, 1)
	var sent [100]time.Time
	for i := range sent {
		sent[i] = time.Now()
		must(in.WriteTo([]byte{byte(i)}, front.LocalAddr()))
	}
	for i := range sent {
		var b [8]byte
		n := must(in.Read(b[:]))
		if took := time.Since(sent[i]); n != 1 || b[0] != byte(i) || took < base {
			t.Fatalf("datagram %d: %v after %v", i, b[:n], took)
		}
	}
}
