// SPDX-License-Identifier: BSD-3-Clause

package js

import (
	"fmt"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"timesync/internal/badnet"
	"timesync/internal/testkit"
	"timesync/link"
)

// goAhead is what the Go end's clock is ahead of the time of day, which both processes read, us.
const goAhead = 1 << 41

func goClock() uint64 { return uint64(time.Now().UnixMicro()) + goAhead }

// live is a Go end on a real socket, which answers each datagram.
type live struct {
	link atomic.Pointer[link.Link]
	conn *net.UDPConn
}

// serve answers until the socket is closed.
func (l *live) serve() {
	buf := make([]byte, 2048)
	for {
		n, from, err := l.conn.ReadFromUDPAddrPort(buf)
		now := goClock()
		if err != nil {
			return
		}
		l.link.Load().ReadHeader(buf[:n], now)
		l.conn.WriteToUDPAddrPort(l.link.Load().AppendHeader(nil, goClock()), from)
	}
}

// right reads a line of a JavaScript end, and says whether both know the time, within their bounds
// and 1 ms, and how well.
func (l *live) right(line string) (said string, right bool) {
	var wall, now, remote uint64
	var bounds [2]float64
	n, _ := fmt.Sscan(line, &wall, &now, &remote, &bounds[0])
	s, ok := l.link.Load().Snapshot(wall + goAhead)
	bounds[1], right = float64(s.ErrorBound.Microseconds()), ok && n == 4
	for i, off := range []uint64{remote - wall - goAhead, s.RemoteUsec - now} {
		err := math.Abs(float64(int64(off)))
		said += fmt.Sprintf("; off by %.0f us, bound %.1f ms", err, bounds[i]/1e3)
		const rounded = 1000 // the time of day, by JavaScript
		right = right && err < 25_000 && err <= bounds[i]+rounded
	}
	return said, right
}

// TestThroughRelay: the same at 60 a second on real sockets, through the relay of the examples.
// What the machine does to them is not judged; TestBesideGo has the figures.
func TestThroughRelay(t *testing.T) {
	t.Parallel()
	l := &live{conn: badnet.Loopback()}
	t.Cleanup(func() { l.conn.Close() })
	path := badnet.Config{
		Delay:  10 * time.Millisecond,
		Jitter: 10 * time.Millisecond,
		Loss:   2,
		Seed:   48_600_000,
	}
	r := badnet.New(path, badnet.Addr(l.conn))
	t.Cleanup(r.Close)
	javascript := newJSEnd(t) // it ends before the relay does, which would refuse what it sends
	l.link.Store(new(link.Link))
	go l.serve()
	for _, happens := range []string{
		fmt.Sprintf("dial %d 60", r.Addr().Port()),
		"set 2000000",
		"Go starts anew",
		"new",
		"set -1000000000",
	} {
		if happens == "Go starts anew" {
			l.link.Store(new(link.Link))
		} else {
			javascript.tell("%s", happens)
			testkit.Must(t, javascript.in.Flush())
		}
		for start, row := time.Now(), 0; row < 10; row++ { // right so often in a row
			if !javascript.out.Scan() {
				t.Fatal("Node has stopped")
			}
			said, right := l.right(javascript.out.Text())
			switch {
			case !right && time.Since(start) > time.Minute:
				t.Fatalf("%s: after a minute%s", happens, said)
			case !right:
				row = -1
			}
		}
	}
}
