// SPDX-License-Identifier: BSD-3-Clause

// Plain is a partner to try a peer in another language with: package link on plain UDP. It prints
// the headers of the first datagrams in and out, and then each second what it knows of the peer's
// clock. Nothing is encrypted, so it listens on this machine only.
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
	"timesync/internal/badnet"
	"timesync/internal/program"
	"timesync/link"
)

const (
	between = 50 * time.Millisecond // datagrams out
	shown   = 10                    // headers
)

func main() {
	program.Main(program.New("plain", "usage: plain [flags]", flags, check, run))
}

func flags(listen *string, f *flag.FlagSet) {
	f.StringVar(listen, "listen", "127.0.0.1:9700", "loopback `address` to listen on")
}

func check(_ *string, f *flag.FlagSet) error { return program.Arguments(f, 0) }

func run(ctx context.Context, listen string, stdout, _ io.Writer) error {
	conn, _, err := program.Open(listen, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	if !badnet.Addr(conn).Addr().IsLoopback() {
		return fmt.Errorf("%v is not of this machine only", conn.LocalAddr())
	}
	fmt.Fprintln(stdout, "listening on", conn.LocalAddr())
	return serve(ctx, conn, stdout)
}

// serve answers whoever sent last, until ctx is done.
func serve(ctx context.Context, conn *net.UDPConn, out io.Writer) error {
	var (
		peer    link.Link
		address netip.AddrPort
		headers int
		buf     [2048]byte
		spoke   time.Time // when the last line about the clock was printed
	)
	show := func(way string, header []byte, rest any) {
		if headers++; headers <= shown {
			fmt.Fprintf(out, "%-3s % x  %v\n", way, header, rest)
		}
	}
	for next := time.Now(); ctx.Err() == nil; {
		conn.SetReadDeadline(next)
		n, from, err := conn.ReadFromUDPAddrPort(buf[:])
		received := clock.Received()
		if err == nil {
			payload, delay, known, err := peer.Open(buf[:n], received)
			if err != nil {
				show("in", buf[:n], err)
				continue
			}
			address = from
			show("in", buf[:n-len(payload)], fmt.Sprintf("payload %q, delay %v, known %v", payload, delay, known))
			continue
		} else if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		next = time.Now().Add(between)
		if !address.IsValid() {
			continue
		}
		now := clock.Now()
		header := peer.AppendHeader(nil, now)
		if _, err := conn.WriteToUDPAddrPort(append(header, "go"...), address); err != nil {
			peer.SendFailed()
			continue
		}
		show("out", header, "")
		if s, _ := peer.Snapshot(now); time.Since(spoke) >= time.Second {
			spoke = time.Now()
			reliable := "yes"
			if err := s.Within(30 * time.Millisecond); err != nil {
				reliable = "no, " + err.Error()
			}
			ago, _ := peer.Heard(now)
			fmt.Fprintf(out, "%v; to be relied on to 30 ms: %s; heard %v ago\n", s, reliable, ago)
		}
	}
	return nil
}
