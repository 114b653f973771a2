// These tests prove, over loopback, what the kernel's stamps are worth.

package rxtime

import (
	"encoding/binary"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"timesync/clock"
	"timesync/internal/testkit"
	"timesync/link"
)

var table = flag.Bool("table", false, "measure what kernel times are worth, in 27 s, and print it")

const (
	tableConns  = 3 // each row: the start of a connection is the hard part, and luck
	tableConn   = 3 * sec
	tableEvery  = 16 * ms       // a datagram each way
	tablePPM    = 40            // how much faster the clock of the measured end runs
	peerAddress = "RXTIME_PEER" // in the environment of the other process
)

// end is one of two peers, each in a process of its own: in a single one, the goroutine
// that sends and the one that receives get their turns together.
type end struct {
	conn  *Conn
	ppm   uint64
	start uint64 // true time at which its clock was right

	mu    sync.Mutex
	to    netip.AddrPort
	links [2]link.Link
	found *[2]judged
}

// judged is what is found with one of two times of receipt, the kernel's and that after the read.
// Every datagram is judged by both.
type judged struct {
	delays []int64 // of the datagrams received, us
	errors []int64 // of the offset, us, from the first answer on
}

// trueTime returns the true time of a reading of package clock, in microseconds. Both processes
// have the same.
func trueTime(usec uint64) uint64 { return uint64(clock.Time(usec).UnixMicro()) }

// clock is what this end's clock reads at true time, from start on.
func (e *end) clock(trueUsec uint64) uint64 {
	return trueUsec + (trueUsec-e.start)*e.ppm/1_000_000
}

// send sends the headers of both links, and the true time.
func (e *end) send() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.to.IsValid() {
		return
	}
	var b []byte
	sent := trueTime(clock.Now())
	for i := range e.links {
		b = e.links[i].AppendHeader(b, e.clock(sent))
	}
	e.conn.udp.WriteToUDPAddrPort(binary.LittleEndian.AppendUint64(b, sent), e.to)
}

// receive takes the true times at which a datagram might have been received.
func (e *end) receive(b []byte, from netip.AddrPort, times ...uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.to = from
	sent := binary.LittleEndian.Uint64(b[len(b)-8:])
	truth := times[1]
	for i, received := range times {
		by := &e.found[i]
		b, _, _, _ = e.links[i].ReadHeader(b, e.clock(received))
		by.delays = append(by.delays, int64(received-sent))
		if remote, ok := e.links[i].RemoteTime(e.clock(truth)); ok {
			by.errors = append(by.errors, int64(remote-truth))
		}
	}
}

// run sends and receives for a while, beside goroutines that never pause.
func (e *end) run(busy int) {
	e.conn.udp.SetReadDeadline(time.Now().Add(tableConn))
	var stop atomic.Bool
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer stop.Store(true)
	for range busy {
		tasks.Go(func() {
			for !stop.Load() {
			}
		})
	}
	tasks.Go(func() {
		for ; !stop.Load(); time.Sleep(tableEvery) {
			e.send()
		}
	})
	for {
		var b [64]byte
		n, from, received, err := e.conn.ReadFrom(b[:])
		now := clock.Received()
		if err != nil {
			return
		}
		e.receive(b[:n], from, trueTime(received), trueTime(now))
	}
}

// TestTable: each datagram is received once and judged twice, by the kernel's time and
// by the time after the read, with two synchronizers at each end.
//
//	go test ./clock/rxtime -run TestTable -v -table
func TestTable(t *testing.T) {
	// this is the other process
	if to, err := netip.ParseAddrPort(os.Getenv(peerAddress)); err == nil {
		udp, _ := open(t)
		(&end{conn: NewConn(udp), to: to, found: new([2]judged)}).run(0)
		return
	}
	if !*table {
		t.Skip("takes 27 s: -table")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	fmt.Printf("microseconds, median / p99; a datagram each way every %v\n", tableEvery)
	fmt.Println("busy  one-way delay  offset error  receive time")
	for _, busy := range []int{0, 2, 4} {
		var found [2]judged
		for range tableConns {
			connect(t, busy, &found)
		}
		var p99 [2]int64
		for i, name := range []string{"the kernel's", "after the read"} {
			delay := testkit.SpreadOf(found[i].delays)
			off := testkit.SpreadOf(found[i].errors)
			if off.Samples == 0 {
				t.Fatalf("%d busy, receive time %s: never synchronized", busy, name)
			}
			fmt.Printf("%-5d %5d / %-6d  %4d / %-6d %s\n",
				busy, delay.Median, delay.P99, off.Median, off.P99, name)
			p99[i] = off.P99
		}
		if busy == 2 && p99[0]*10 > p99[1] {
			t.Errorf("p99 of the error %d us with kernel times, want a tenth of %d", p99[0], p99[1])
		}
	}
}

// connect measures one connection to another process and adds to found.
func connect(t *testing.T, busy int, found *[2]judged) {
	udp, at := open(t)
	e := &end{conn: NewConn(udp), ppm: tablePPM, start: trueTime(clock.Now()), found: found}
	if !e.conn.Kernel() {
		t.Skip("the kernel gives no times here")
	}
	peer := exec.Command(os.Args[0], "-test.run=^TestTable$")
	peer.Env = append(os.Environ(), peerAddress+"="+at.String())
	must(t, peer.Start())
	defer peer.Wait()
	defer peer.Process.Kill()
	e.run(busy)
}
