// SPDX-License-Identifier: BSD-3-Clause

// Partner is a Go peer to try a peer in another language with: package link on plain UDP. It
// prints the headers of the first datagrams in and out, byte by byte, and then once a second what
// it knows of your clock. It answers whoever sent last, 20 times a second.
//
// Nothing is encrypted, so it listens on this machine only. docs/WIRE.md describes what it speaks.
//
//	go run ./js/partner
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"timesync/clock"
	"timesync/internal/program"
	"timesync/link"
)

const (
	sendEvery  = 50 * time.Millisecond
	printEvery = time.Second
	shown      = 10                    // headers that are printed
	tolerance  = 30 * time.Millisecond // what the printed verdict is about
)

type config struct {
	listen string
}

const usage = "usage: partner [flags]"

func main() { program.Main(program.New("partner", usage, (*config).flags, (*config).check, run)) }

func (c *config) flags(f *flag.FlagSet) {
	f.StringVar(&c.listen, "listen", "127.0.0.1:9700", "loopback `address` to listen on")
}

func (c *config) check(f *flag.FlagSet) error { return program.Arguments(f, 0) }

func run(ctx context.Context, c config, stdout, _ io.Writer) error {
	conn, _, err := program.Open(c.listen, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	if !conn.LocalAddr().(*net.UDPAddr).IP.IsLoopback() {
		return fmt.Errorf("%v is not of this machine only", conn.LocalAddr())
	}
	fmt.Fprintln(stdout, "listening on", conn.LocalAddr())
	p := partner{conn: conn, out: stdout}
	return p.serve(ctx)
}

// partner is an end of a link with whoever sent last.
type partner struct {
	link    link.Link
	conn    *net.UDPConn
	out     io.Writer
	peer    netip.AddrPort // not valid until somebody has sent
	headers int            // printed so far
	printed time.Time      // when the last line about the clock was
}

// serve receives and sends until ctx is done.
func (p *partner) serve(ctx context.Context) error {
	next := time.Now()
	for ctx.Err() == nil {
		p.conn.SetReadDeadline(next)
		err := p.receive()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			next = time.Now().Add(sendEvery)
			p.send()
		} else if err != nil {
			return err
		}
	}
	return nil
}

// receive takes a datagram and prints its header, or why it was refused.
func (p *partner) receive() error {
	var buf [2048]byte
	n, from, err := p.conn.ReadFromUDPAddrPort(buf[:])
	received := clock.Received()
	if err != nil {
		return err
	}
	payload, delay, known, err := p.link.ReadHeader(buf[:n], received)
	if err != nil {
		p.show("in", buf[:n], err.Error())
		return nil
	}
	p.peer = from
	header := buf[:n-len(payload)]
	p.show("in", header, fmt.Sprintf("payload %q, delay %v, known %v", payload, delay, known))
	return nil
}

// send sends a datagram, if anybody is there, and prints once a second what is known.
func (p *partner) send() {
	if !p.peer.IsValid() {
		return
	}
	now := clock.Now()
	header := p.link.AppendHeader(nil, now)
	datagram := append(header, "go"...)
	if _, err := p.conn.WriteToUDPAddrPort(datagram, p.peer); err != nil {
		p.link.SendFailed()
		return
	}
	p.show("out", header, "")
	if time.Since(p.printed) >= printEvery {
		p.printed = time.Now()
		p.report(now)
	}
}

// show prints a header, unless enough were printed.
func (p *partner) show(way string, header []byte, rest string) {
	if p.headers == shown {
		return
	}
	p.headers++
	fmt.Fprintf(p.out, "%-3s % x  %s\n", way, header, rest)
}

// report prints what is known of the peer's clock.
func (p *partner) report(now uint64) {
	snapshot, _ := p.link.Snapshot(now)
	reliable := "yes"
	if err := snapshot.Within(tolerance); err != nil {
		reliable = "no, " + err.Error()
	}
	heard, _ := p.link.SinceHeard(now)
	fmt.Fprintf(p.out, "%v; to be relied on to %v: %s; heard %v ago\n",
		snapshot, tolerance, reliable, heard)
}
