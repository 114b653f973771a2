// These tests prove, over loopback, what the kernel's stamps are worth.

package rxtime

import (
	"encoding/binary"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"timesync/clock"
	"timesync/internal/stat"
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

// Which receive time is used. Every datagram is judged by both.
const (
	kernelTime = iota
	timeAfterRead
)

// end is one of two peers, each in a process of its own: in a single one, the goroutine
// that sends and the one that receives get their turns together.
type end struct {
	udp   *net.UDPConn
	ppm   uint64
	start uint64 // true time at which its clock was right

	mu    sync.Mutex
	to    netip.AddrPort
	links [2]link.Link // by which receive time
	found *measured
}

// measured is in microseconds, by which receive time.
type measured struct {
	delays [2][]int64 // of the datagrams received
	errors [2][]int64 // of the offset, their sizes, from the first answer on
}

func newEnd(t *testing.T, to netip.AddrPort, ppm uint64, found *measured) (e *end, at netip.AddrPort) {
	e = &end{ppm: ppm, to: to, start: trueTime(clock.Now()), found: found}
	e.udp, at = open(t)
	e.udp.SetReadDeadline(time.Now().Add(tableConn))
	return e, at
}

// trueTime returns the true time of a reading of package clock, in microseconds. Both processes have
// the same.
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
	e.udp.WriteToUDPAddrPort(binary.LittleEndian.AppendUint64(b, sent), e.to)
}

// receive takes the true times at which a datagram might have been received.
func (e *end) receive(b []byte, times [2]uint64, from netip.AddrPort) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.to = from
	sent := binary.LittleEndian.Uint64(b[len(b)-8:])
	truth := times[timeAfterRead] // the other end's clock, where that of this one is ahead
	for i, received := range times {
		b, _, _, _ = e.links[i].Open(b, e.clock(received))
		e.found.delays[i] = append(e.found.delays[i], int64(received-sent))
		if remote, ok := e.links[i].RemoteTime(e.clock(truth)); ok {
			size := max(int64(remote-truth), int64(truth-remote))
			e.found.errors[i] = append(e.found.errors[i], size)
		}
	}
}

// run sends and receives until the deadline, beside goroutines that never pause.
func (e *end) run(t *testing.T, busy int) {
	c := NewConn(e.udp)
	if !c.Kernel() {
		t.Skip("the kernel gives no times here")
	}
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
		n, from, received, err := c.ReadFrom(b[:])
		now := clock.Received()
		if err != nil {
			return
		}
		e.receive(b[:n], [2]uint64{trueTime(received), trueTime(now)}, from)
	}
}

// TestTable: each datagram is received once and judged twice, by the kernel's time and
// by the time after the read, with two synchronizers at each end.
//
//	go test ./rxtime -run TestTable -v -table
func TestTable(t *testing.T) {
	if to, err := netip.ParseAddrPort(os.Getenv(peerAddress)); err == nil { // this is the other process
		e, _ := newEnd(t, to, 0, new(measured))
		e.run(t, 0)
		return
	}
	if !*table {
		t.Skip("takes 27 s: -table")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	fmt.Printf("microseconds, median / p99; a datagram each way every %v\n", tableEvery)
	fmt.Println("busy  one-way delay  offset error  receive time")
	for _, busy := range []int{0, 2, 4} {
		var found measured
		for range tableConns {
			connect(t, busy, &found)
		}
		for i, name := range []string{kernelTime: "the kernel's", timeAfterRead: "after the read"} {
			if len(found.errors[i]) == 0 {
				t.Fatalf("%d busy, receive time %s: never synchronized", busy, name)
			}
			fmt.Printf("%-5d %-14s %-13s %s\n", busy, cell(found.delays[i]), cell(found.errors[i]), name)
		}
		with, without := p99(found.errors[kernelTime]), p99(found.errors[timeAfterRead])
		if busy == 2 && with*10 > without {
			t.Errorf("p99 of the error %d us with kernel times, want a tenth of %d", with, without)
		}
	}
}

// connect measures one connection to another process and adds to found.
func connect(t *testing.T, busy int, found *measured) {
	e, at := newEnd(t, netip.AddrPort{}, tablePPM, found)
	peer := exec.Command(os.Args[0], "-test.run=^TestTable$")
	peer.Env = append(os.Environ(), peerAddress+"="+at.String())
	must(t, peer.Start())
	defer peer.Wait()
	defer peer.Process.Kill()
	e.run(t, busy)
}

func p99(v []int64) int64 { return stat.Quantile(v, 0.99) }

func cell(v []int64) string { return fmt.Sprintf("%d / %d", stat.Quantile(v, 0.5), p99(v)) }
