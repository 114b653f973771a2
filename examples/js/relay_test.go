// SPDX-License-Identifier: BSD-3-Clause

package js

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
	"timesync/link"
)

// live is a JavaScript end and a Go end on real sockets, with the relay between them.
type live struct {
	t          *testing.T
	name       string
	javascript *jsEnd
	link       atomic.Pointer[link.Link] // the Go end's
	peer       atomic.Pointer[netip.AddrPort]
}

// goAhead is what the Go end's clock is ahead of the time of day, which both processes read, us.
const goAhead = 1 << 41

func goClock() uint64 { return uint64(time.Now().UnixMicro()) + goAhead }

// right waits until both ends know the time: within their bounds and 5 ms, 10 times in a row.
func (l *live) right(when string) {
	l.t.Helper()
	const patience, truth = 60 * time.Second, 5000 // us: two processes read the time of day, and may be stopped between
	said := ""
	good := func(end string, remote, is uint64, bound float64) bool {
		off := math.Abs(float64(int64(remote - is)))
		said += fmt.Sprintf("; %s is off by %.0f us, its bound %.1f ms", end, off, bound/1e3)
		return off <= bound+truth && off < 25_000
	}
	for start, row := time.Now(), 0; row < 10; row++ {
		if time.Since(start) > patience || !l.javascript.out.Scan() {
			l.t.Fatalf("%s, %s: after %v%s", l.name, when, time.Since(start), said)
		}
		var wall, now, remote uint64
		var bound float64
		n, _ := fmt.Sscan(l.javascript.out.Text(), &wall, &now, &remote, &bound)
		s, ok := l.link.Load().Snapshot(wall + goAhead)
		said = ""
		js := good("JavaScript", remote, wall+goAhead, bound)
		if goes := good("Go", s.RemoteUsec, now, float64(s.ErrorBound.Microseconds())); n != 4 || !js || !ok || !goes {
			row = -1
		}
	}
	l.t.Logf("%s, %s%s", l.name, when, said)
}

// relayed starts both ends, which send rate datagrams a second through the relay until the test is over.
func relayed(t *testing.T, rate int) *live {
	l := &live{t: t, name: fmt.Sprintf("%d/s", rate), javascript: newJSEnd(t)}
	l.link.Store(new(link.Link))
	conn := relay.Loopback()
	t.Cleanup(func() { conn.Close() })
	r := relay.New(relay.Config{Delay: 10 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 2, Seed: 48_600_000}, relay.Addr(conn))
	t.Cleanup(r.Close)
	go l.receive(conn)
	go program.Every(t.Context().Done(), time.Second/time.Duration(rate), func() {
		if peer := l.peer.Load(); peer != nil {
			conn.WriteToUDPAddrPort(l.link.Load().AppendHeader(nil, goClock()), *peer)
		}
	})
	l.javascript.tell("dial %d %d", r.Addr().Port(), rate)
	return l
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
		l.peer.Store(&from)
		l.link.Load().Open(buf[:n], now)
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
			l := relayed(t, rate)
			l.right("at the start")
			l.javascript.tell("set 2000000")
			l.right("after JavaScript's clock was set ahead by 2 s")
			l.link.Store(new(link.Link))
			l.right("after Go started anew")
			l.javascript.tell("new")
			l.right("after JavaScript started anew")
			l.javascript.tell("set -1000000000")
			l.right("after JavaScript's clock was set back by 1000 s")
		})
	}
}
