// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that one socket serves very many peers, that restarts of
// them leave nothing behind, and that no two goroutines get into each other's way.
package link

import (
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"timesync/clock"
)

var (
	loadPeers = flag.Int("load.peers", 300, "peers of TestLoad")
	loadTime  = flag.Duration("load.time", 2*time.Second, "how long TestLoad lasts")
)

const (
	loadHeader = 8                     // bytes: which peer, and for how many times it restarted
	loadFlight = 128                   // datagrams under way that a socket's buffer surely holds
	loadPause  = 20 * time.Millisecond // a peer sends at most so often
)

// loadEnd is one end of one connection.
type loadEnd struct {
	Link
	restarts uint32
	ahead    uint64 // its clock minus that of the process, us
}

func (e *loadEnd) clock() uint64 { return clock.Now() + e.ahead }

// load is a server with one socket, and its peers, which share another.
type load struct {
	t              *testing.T
	server, client net.PacketConn
	ends           [2][]atomic.Pointer[loadEnd] // the server's and the peers', by the peer
	flight         chan struct{}                // a token for each datagram that is not answered
	answers        atomic.Int64
	wrong          atomic.Int64
	done           chan struct{}
	wg             sync.WaitGroup
}

func newLoad(t *testing.T, peers int) *load {
	l := &load{t: t, flight: make(chan struct{}, loadFlight), done: make(chan struct{})}
	for _, c := range []*net.PacketConn{&l.server, &l.client} {
		var err error
		if *c, err = net.ListenPacket("udp4", "127.0.0.1:0"); err != nil {
			t.Skipf("NOT TESTED under load: no UDP on this system: %v", err)
		}
	}
	for side := range l.ends {
		l.ends[side] = make([]atomic.Pointer[loadEnd], peers)
	}
	l.restart(1)
	return l
}

// restart gives every so many peer a new connection, and another clock.
func (l *load) restart(every int) {
	for i := 0; i < len(l.ends[1]); i += every {
		e := &loadEnd{ahead: rand.Uint64()}
		if old := l.ends[1][i].Load(); old != nil {
			e.restarts = old.restarts + 1
		}
		l.ends[1][i].Store(e)
	}
}

// write sends a datagram of a peer's, or the answer to it.
func (l *load) write(from net.PacketConn, to net.Addr, e *loadEnd, peer uint32, buf []byte) []byte {
	buf = binary.LittleEndian.AppendUint32(buf[:0], peer)
	buf = binary.LittleEndian.AppendUint32(buf, e.restarts)
	buf = e.AppendHeader(buf, e.clock())
	from.WriteTo(buf, to) // may be lost
	return buf
}

// send lets the peers send, one after the other.
func (l *load) send() {
	defer l.wg.Done()
	var buf []byte
	patience := time.NewTicker(loadPause)
	defer patience.Stop()
	for {
		for i := range l.ends[1] {
			select {
			case l.flight <- struct{}{}:
			case <-patience.C: // one was lost
			case <-l.done:
				return
			}
			buf = l.write(l.client, l.server.LocalAddr(), l.ends[1][i].Load(), uint32(i), buf)
		}
		<-patience.C
	}
}

// receive takes what arrives at a side until its socket is closed, and lets the server answer.
func (l *load) receive(side int, conn net.PacketConn) {
	defer l.wg.Done()
	var in [loadHeader + MaxHeader]byte
	var buf []byte
	for {
		n, from, err := conn.ReadFrom(in[:])
		now := clock.Received()
		if err != nil {
			return
		}
		if side == 1 {
			l.answers.Add(1)
			select {
			case <-l.flight:
			default:
			}
		}
		peer, restarts := binary.LittleEndian.Uint32(in[:]), binary.LittleEndian.Uint32(in[4:])
		e := l.ends[side][peer].Load()
		if side == 0 && (e == nil || e.restarts != restarts) {
			e = &loadEnd{restarts: restarts, ahead: 1 << 40}
			l.ends[0][peer].Store(e)
		}
		if e.restarts != restarts {
			continue // of a connection that is no more
		}
		if _, _, _, err := e.Open(in[loadHeader:n], now+e.ahead); err != nil {
			l.t.Errorf("peer %d: %v", peer, err)
		}
		if side == 0 {
			buf = l.write(l.server, from, e, peer, buf)
		}
	}
}

// read asks any end for anything, as programs do meanwhile.
func (l *load) read() {
	defer l.wg.Done()
	for {
		select {
		case <-l.done:
			return
		default:
			for range 100 {
				l.check(rand.IntN(len(l.ends[0])))
			}
			time.Sleep(time.Millisecond) // others want the processor, too
		}
	}
}

// check asks both ends of a connection for the other's clock, and reports whether they know
// it. What they say must be inside of their bound.
func (l *load) check(peer int) (known bool) {
	known = true
	for side := range l.ends {
		e, o := l.ends[side][peer].Load(), l.ends[1-side][peer].Load()
		if e == nil || o == nil || e.restarts != o.restarts {
			return false
		}
		now := e.clock()
		s, ok := e.Snapshot(now)
		known = known && ok
		off := int64(s.RemoteUsec - now - (o.ahead - e.ahead))
		if ok && max(off, -off) > s.ErrorBound.Microseconds()+2 { // each is cut to a microsecond
			l.wrong.Add(1)
		}
	}
	return known
}

// unknown returns how many connections have an end that does not know the other's clock.
func (l *load) unknown() (n int) {
	for i := range l.ends[0] {
		if !l.check(i) {
			n++
		}
	}
	return n
}

// live lets time pass until all are synchronized, but at least as long as d.
func (l *load) live(what string, d time.Duration) {
	begin := time.Now()
	time.Sleep(d)
	for l.unknown() > 0 && time.Since(begin) < d+time.Minute {
		time.Sleep(loadPause)
	}
	l.t.Logf("%s: after %.1f s %d of %d peers do not know the time; %d round trips", what, time.Since(begin).Seconds(), l.unknown(), len(l.ends[1]), l.answers.Load())
	if n := l.unknown(); n > 0 {
		l.t.Errorf("%s: %d peers do not know the time", what, n)
	}
}

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestLoad runs a server with very many peers on one socket, and restarts half of them
// again and again. The full load:
//
//	go test -race ./link -run TestLoad -v -load.peers 10000 -load.time 30s
func TestLoad(t *testing.T) {
	goroutines, empty := runtime.NumGoroutine(), heap()
	l := newLoad(t, *loadPeers)
	l.wg.Add(5)
	go l.send()
	go l.receive(0, l.server)
	go l.receive(1, l.client)
	go l.read()
	go l.read()

	l.live("at first", *loadTime/4)
	full := heap()
	for range 3 {
		l.restart(2)
		l.live("after half of them restarted", *loadTime/4)
	}
	after := heap()
	close(l.done)
	time.Sleep(loadPause)
	l.server.Close()
	l.client.Close()
	l.wg.Wait()
	if n := l.wrong.Load(); n > 0 {
		t.Errorf("%d answers beyond their bound", n)
	}
	const slack = 1 << 20 // of the runtime and the test itself
	if after > full+full/10+slack {
		t.Errorf("after restarts %d bytes are in use, before them %d", after, full)
	}
	peers := len(l.ends[1])
	l.ends = [2][]atomic.Pointer[loadEnd]{}
	if rest := heap(); rest > empty+slack {
		t.Errorf("when all is over %d bytes are in use, before all %d", rest, empty)
	}
	for until := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines && time.Now().Before(until); {
		time.Sleep(loadPause)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, before all %d", n, goroutines)
	}
	t.Logf("%d bytes for each peer, both ends", (full-empty)/int64(peers))
}

// TestGoroutines: any goroutine may call anything. Two send, two receive, four read.
func TestGoroutines(t *testing.T) {
	var a, b Link
	var clock atomic.Uint64
	var wg sync.WaitGroup
	datagrams := make(chan []byte, 16)
	for range 2 {
		wg.Go(func() {
			for range 2000 {
				now := clock.Add(5000)
				b.Open(a.AppendHeader(nil, now), now)
				datagrams <- b.AppendHeader(nil, now)
			}
		})
		wg.Go(func() {
			for range 2000 {
				a.Open(<-datagrams, clock.Load())
			}
		})
		for _, l := range []*Link{&a, &b} {
			wg.Go(func() {
				for range 2000 {
					now := clock.Load()
					l.RemoteTime(now)
					l.ToRemoteTime23(now)
					l.ToRemoteTime16(now)
					l.Snapshot(now)
					l.ErrorBound(now)
					l.Skew()
					l.Stats()
					l.MinimumOneWayDelay()
					l.IsSynchronized()
					runtime.Gosched()
				}
			})
		}
	}
	wg.Wait()
	now := clock.Load()
	remote, ok := a.RemoteTime(now)
	if d := int64(remote - now); !ok || max(d, -d) > second {
		t.Errorf("one clock for both ends, but %d us apart, ok %v", d, ok)
	}
}

const second = 1_000_000 // us
