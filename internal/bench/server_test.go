// This benchmark measures what a datagram costs a server, beside its sockets.
package bench

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"timesync"
)

// BenchmarkServer: 10,000 peers behind one socket on 127.0.0.1. A datagram is a number,
// a stamp, a report and 50 bytes; the server takes it and answers it. The peers are in
// this process too, so that every stamp can be checked. %sync is the synchronizers'
// share of the server's time, %sync-recv that of receiving alone. All else is two
// system calls: there is no encryption and no game.
func BenchmarkServer(b *testing.B) {
	const peers, burst, size = 10_000, 64, 4 + 3 + 3 + 50
	server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Skip(err)
	}
	defer server.Close()
	client, err := net.DialUDP("udp4", nil, server.LocalAddr().(*net.UDPAddr))
	if err != nil {
		b.Skip(err)
	}
	defer client.Close()

	// All peers have been here for a minute.
	rng := rand.New(rand.NewPCG(8, 8))
	feeds := newStreams(1)
	jitter := feeds[0].Jitter
	syncs, offsets := make([]timesync.TimeSynchronizer, peers), make([]uint64, peers)
	start := timesync.NowUsec() + 1<<40
	clock := func() uint64 { return timesync.NowUsec() + 1<<40 }
	const loopback = 50 // us, roughly
	for i := range syncs {
		offsets[i] = rng.Uint64()
		for k := range uint64(60 * 60) {
			at := start - 60e6 + k*16_667 + uint64(i)
			syncs[i].OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(at+offsets[i]), at+loopback+uint64(jitter[rng.Uint32N(Jitters)])/8)
			if k%120 == 5 {
				syncs[i].OnPeerMinDeltaTS24(timesync.LocalTimeToDatagramTS24(loopback+offsets[i]), at)
			}
		}
	}

	type arrival struct {
		peer uint32
		datagram
		report timesync.Counter24
	}
	buf, arrivals := make([]byte, size), make([]arrival, burst)
	var sent, replied [burst]uint64
	var receive, synchronize, answer time.Duration
	n, late := 0, 0
	for b.Loop() {
		for i := range burst {
			peer := rng.Uint32N(peers)
			sent[i] = clock()
			binary.LittleEndian.PutUint32(buf, peer)
			timesync.LocalTimeToDatagramTS24(sent[i] + offsets[peer]).Put(buf[4:])
			timesync.LocalTimeToDatagramTS24(loopback + offsets[peer]).Put(buf[7:])
			if _, err := client.Write(buf); err != nil {
				b.Fatal(err)
			}
		}
		deadline := time.Now().Add(5 * time.Second)
		if err := errors.Join(server.SetReadDeadline(deadline), client.SetReadDeadline(deadline)); err != nil {
			b.Fatal(err)
		}
		var from netip.AddrPort
		t0 := time.Now()
		for i := range burst {
			k, addr, err := server.ReadFromUDPAddrPort(buf)
			now := clock()
			from = addr
			if err != nil || k != size {
				b.Fatal(k, err)
			}
			arrivals[i] = arrival{binary.LittleEndian.Uint32(buf), datagram{timesync.ReadCounter24(buf[4:]), now}, timesync.ReadCounter24(buf[7:])}
		}
		t1 := time.Now()
		for i := range arrivals {
			a := &arrivals[i]
			owd, ok := syncs[a.peer].OnAuthenticatedDatagramTimestamp(a.ts24, a.recv)
			if !ok || owd < 0 {
				b.Fatal("not synchronized")
			}
			n++
			if n%120 == 0 {
				syncs[a.peer].OnPeerMinDeltaTS24(a.report, a.recv)
			}
		}
		t2 := time.Now()
		for i := range arrivals {
			a := &arrivals[i]
			replied[i] = clock()
			timesync.LocalTimeToDatagramTS24(replied[i]).Put(buf[4:])
			if report, ok := syncs[a.peer].MinDeltaTS24(replied[i]); ok {
				report.Put(buf[7:])
			}
			if _, err := server.WriteToUDPAddrPort(buf, from); err != nil {
				b.Fatal(err)
			}
		}
		t3 := time.Now()
		receive, synchronize, answer = receive+t1.Sub(t0), synchronize+t2.Sub(t1), answer+t3.Sub(t2)
		for i, a := range arrivals {
			if _, err := client.Read(buf); err != nil {
				b.Fatal(err)
			}
			if ts := timesync.ReadCounter24(buf[4:]); ts.Expand(replied[i]>>3) != replied[i]>>3 {
				b.Fatalf("answer %d: stamp %v, sent at %#x", i, ts, replied[i])
			}
			// The stamp says when it was sent, the synchronizer what it was then.
			if want := sent[i] + offsets[a.peer]; a.ts24.Expand(want>>3) != want>>3&(1<<61-1) {
				b.Fatalf("peer %d: stamp %v, sent at %#x", a.peer, a.ts24, want)
			}
			truth := a.recv + offsets[a.peer]
			if remote, ok := syncs[a.peer].RemoteTime(a.recv); !ok || off(remote, truth) < -5000 || off(remote, truth) > 5000 {
				late++
			}
		}
	}
	if late*100 > n {
		b.Errorf("%d of %d remote times are over 5 ms off", late, n)
	}
	b.ReportMetric(float64(receive)/float64(n), "recv-ns")
	b.ReportMetric(float64(answer)/float64(n), "answer-ns")
	b.ReportMetric(float64(synchronize)/float64(n), "sync-ns")
	b.ReportMetric(100*float64(synchronize)/float64(synchronize+receive), "%sync-recv")
	b.ReportMetric(100*float64(synchronize)/float64(synchronize+receive+answer), "%sync")
	b.ReportMetric(float64(synchronize+receive+answer)/float64(n), "ns/op")
}
