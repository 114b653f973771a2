// These benchmarks measure what a datagram costs a server of many peers, beside the caches
// and the sockets, and what readers and a writer cost each other.
package bench

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"timesync"
	"timesync/internal/rivals"
)

// assign copies what vet, for its atomics, would not have copied.
func assign[T any](to, from *T) { *to = *from }

// BenchmarkPeers: many peers in one slice, each with 60 datagrams a second that come
// in random order, as they do to a server.
func BenchmarkPeers(b *testing.B) {
	for _, peers := range []int{1000, 10_000, 100_000, 1_000_000} {
		b.Run(strconv.Itoa(peers), func(b *testing.B) {
			if testing.Short() && peers > 100_000 || strconv.IntSize < 64 {
				b.Skip("needs 500 MB")
			}
			// Peers in a steady state: copies of some that got there.
			const models, calls = 64, 4096
			feeds := newStreams(models)
			model, modelBase := make([]timesync.TimeSynchronizer, models), make([]rivals.Original, models)
			for i := range model {
				feeds[i].run(b, &model[i], &modelBase[i], time.Duration(100+i)*time.Second)
			}
			end := feeds[models-1].Now
			for i := range model { // until they all have the same time
				for feeds[i].Now < end {
					feeds[i].both(&model[i], &modelBase[i], feeds[i].next())
				}
			}
			var before, between, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			ours := make([]timesync.TimeSynchronizer, peers)
			runtime.ReadMemStats(&between)
			base := make([]rivals.Original, peers)
			runtime.ReadMemStats(&after)
			for i := range ours {
				assign(&ours[i], &model[i%models])
				assign(&base[i], &modelBase[i%models])
			}
			rng := rand.New(rand.NewPCG(7, 7))
			s := &feeds[0]
			now, sent := end, 0
			batch, who := make([]datagram, calls), make([]uint32, calls)
			d := duel{
				calls: calls,
				prepare: func() {
					for i := range batch {
						sent++
						now = end + uint64(sent)*16_667/uint64(peers)
						who[i] = rng.Uint32N(uint32(peers))
						delay := Delay + uint64(s.Jitter[rng.Uint32N(Jitters)])
						batch[i] = datagram{timesync.LocalTimeToDatagramTS24(s.Remote(now)), now + delay}
					}
				},
				ours: func(int) {
					sum := time.Duration(0)
					for i, d := range batch {
						owd, _ := ours[who[i]].OnAuthenticatedDatagramTimestamp(d.ts24, d.recv)
						sum += owd
					}
					sink += uint64(sum)
				},
				base: func(int) {
					sum := uint32(0)
					for i, d := range batch {
						sum += base[who[i]].Datagram(uint32(d.ts24), d.recv)
					}
					sink += uint64(sum)
				},
			}
			d.bench(b)
			b.ReportMetric(float64(between.HeapAlloc-before.HeapAlloc)/float64(peers), "B/peer")
			b.ReportMetric(float64(after.HeapAlloc-between.HeapAlloc)/float64(peers), "base-B/peer")
			runtime.KeepAlive(ours)
			runtime.KeepAlive(base)
		})
	}
}

// BenchmarkReaders: 8 goroutines read the remote time while one hands in datagrams,
// and a report after each 120.
func BenchmarkReaders(b *testing.B) {
	var ours timesync.TimeSynchronizer
	var base rivals.Original
	s := &newStreams(1)[0]
	s.run(b, &ours, &base, 100*time.Second)
	for _, side := range []struct {
		name     string
		read     func(now uint64) uint64
		datagram func(d datagram)
		report   func(d datagram)
	}{
		{"ours", func(now uint64) uint64 {
			ts, _ := ours.ToRemoteTime23(now)
			return uint64(ts)
		}, func(d datagram) {
			ours.OnAuthenticatedDatagramTimestamp(d.ts24, d.recv)
		}, func(d datagram) {
			ours.OnPeerMinDeltaTS24(d.ts24, d.recv)
		}},
		{"baseline", func(now uint64) uint64 {
			return uint64(base.Remote23(now))
		}, func(d datagram) {
			base.Datagram(uint32(d.ts24), d.recv)
		}, func(d datagram) {
			base.OnPeerMinDelta(uint32(d.ts24), 0)
		}},
	} {
		b.Run(side.name, func(b *testing.B) {
			var done atomic.Bool
			var reads atomic.Uint64
			var wg sync.WaitGroup
			now := s.Now
			for range 8 {
				wg.Go(func() {
					n, sum := uint64(0), uint64(0)
					for !done.Load() {
						for i := range uint64(256) {
							sum += side.read(now + i<<8)
						}
						n += 256
					}
					reads.Add(n)
					atomic.AddUint64(&sink, sum)
				})
			}
			start := time.Now()
			for b.Loop() {
				side.datagram(s.next())
				if s.N%120 == 5 {
					side.report(datagram{s.report(), s.Now + Delay})
				}
			}
			took := time.Since(start)
			done.Store(true)
			wg.Wait()
			b.ReportMetric(float64(took)*float64(runtime.GOMAXPROCS(0))/float64(max(reads.Load(), 1)), "ns/read")
		})
	}
}

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
