// SPDX-License-Identifier: BSD-3-Clause

package js

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"timesync/examples/internal/relay"
	"timesync/link"
)

// live is a JavaScript end and a Go end on real sockets, with the relay between them.
type live struct {
	t        *testing.T
	name     string
	mu       sync.Mutex
	link     *link.Link // the Go end's
	peer     netip.AddrPort
	js, goes known
}

// known is what an end knows of the other's clock.
type known struct {
	error, bound float64 // us
	ok           bool
	count        int // answers so far
}

// wallUsec is the time of day, which both processes read.
func wallUsec() int64 { return time.Now().UnixMicro() }

// goAhead is what the Go end's clock is ahead of the time of day, us.
const goAhead = 1 << 41

func goClock() uint64 { return uint64(wallUsec()) + goAhead }

// right waits until both ends know the time: within their bounds and 5 ms, 10 times in a row.
func (l *live) right(when string) {
	l.t.Helper()
	const patience, truth = 60 * time.Second, 5000 // us: two processes read the time of day, and may be stopped between
	for start, row, seen := time.Now(), 0, 0; row < 10; time.Sleep(20 * time.Millisecond) {
		l.mu.Lock()
		js, goes := l.js, l.goes
		l.mu.Unlock()
		if time.Since(start) > patience {
			l.t.Fatalf("%s, %s: after %v JavaScript is off by %+v, Go by %+v", l.name, when, patience, js, goes)
		}
		if js.count == seen {
			continue
		}
		seen = js.count
		good := func(k known) bool { return k.ok && k.error <= k.bound+truth && k.error < 25_000 }
		if row++; !good(js) || !good(goes) {
			row = 0
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t.Logf("%s, %s: JavaScript is off by %.0f us, its bound %.1f ms; Go by %.0f us, %.1f ms", l.name, when, l.js.error, l.js.bound/1e3, l.goes.error, l.goes.bound/1e3)
}

// relayed starts both ends, which send rate datagrams a second through the relay until the test is over.
func relayed(t *testing.T, rate int) (l *live, javascript *jsEnd) {
	l = &live{t: t, name: fmt.Sprintf("%d/s", rate), link: new(link.Link)}
	conn, err := relay.Loopback()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r, err := relay.New(relay.Config{Delay: 10 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 2, Seed: 48_600_000}, relay.Addr(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	go l.receive(conn)
	go l.send(conn, time.Second/time.Duration(rate))
	javascript = newJSEnd(t)
	javascript.tell("dial %d %d", r.Addr().Port(), rate)
	go l.hear(javascript)
	return l, javascript
}

// receive passes on what comes to the Go end, until conn is closed.
func (l *live) receive(conn *net.UDPConn) {
	buf := make([]byte, 2048)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		now := goClock()
		if err != nil {
			return
		}
		l.mu.Lock()
		l.peer = from
		l.link.Open(buf[:n], now)
		l.mu.Unlock()
	}
}

// send sends the Go end's datagrams, until the test is over.
func (l *live) send(conn *net.UDPConn, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-l.t.Context().Done():
			return
		case <-tick.C:
		}
		l.mu.Lock()
		if l.peer.IsValid() {
			conn.WriteToUDPAddrPort(l.link.AppendHeader(nil, goClock()), l.peer)
		}
		l.mu.Unlock()
	}
}

// hear notes what the JavaScript end says that it knows, and what the Go end knows then.
func (l *live) hear(javascript *jsEnd) {
	for javascript.out.Scan() {
		var wall int64
		var now, remote uint64
		var js known
		n, _ := fmt.Sscan(javascript.out.Text(), &wall, &now, &remote, &js.bound)
		js.ok, js.error = n == 4, math.Abs(float64(int64(remote-uint64(wall)-goAhead)))
		l.mu.Lock()
		js.count = l.js.count + 1
		s, ok := l.link.Snapshot(uint64(wall) + goAhead)
		l.js = js
		l.goes = known{math.Abs(float64(int64(s.RemoteUsec - now))), float64(s.ErrorBound.Microseconds()), ok, js.count}
		l.mu.Unlock()
	}
}

// TestThroughRelay: the same on real sockets, through the relay of the examples. What the machine
// does to them is not judged; TestBesideGo has the figures.
func TestThroughRelay(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 10 s")
	}
	for _, rate := range []int{60, 4} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			t.Parallel()
			l, javascript := relayed(t, rate)
			l.right("at the start")
			javascript.tell("set 2000000")
			time.Sleep(500 * time.Millisecond)
			l.right("after JavaScript's clock was set ahead by 2 s")
			l.mu.Lock()
			l.link = new(link.Link)
			l.mu.Unlock()
			l.right("after Go started anew")
			javascript.tell("new")
			l.right("after JavaScript started anew")
			javascript.tell("set -1000000000")
			time.Sleep(500 * time.Millisecond)
			l.right("after JavaScript's clock was set back by 1000 s")
		})
	}
}
