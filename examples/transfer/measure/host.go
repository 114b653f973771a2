// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

package main

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"net"
	"os"
	"syscall"
	"time"

	"timesync/examples/internal/lab"
)

// What runs inside of the namespaces. All processes are on one machine, so they read one
// clock, and delays are true.

const (
	tcpPort   = ":7100"
	gamePort  = ":7001"
	gameEvery = time.Second / 60
	gameBytes = 100
)

// roles are what this program may be in a namespace. Those that receive print lines of JSON.
var roles = map[string]func(args []string){"ping": ping, "pong": pong, "sink": sink, "source": source}

// must ends the process if there is an error.
func must[T any](value T, err error) T {
	lab.Exit(err)
	return value
}

// line is what a receiver says: the delay of a datagram, or how many bytes have come so far, as a
// transfer does, too.
type line struct{ Ms, Bytes float64 }

func say(l line) { lab.Exit(json.NewEncoder(os.Stdout).Encode(l)) }

// ping sends the game's datagrams.
func ping([]string) {
	conn := must(net.Dial("udp4", hostB+gamePort))
	for b := make([]byte, gameBytes); ; time.Sleep(gameEvery) {
		binary.LittleEndian.PutUint64(b, uint64(time.Now().UnixNano()))
		conn.Write(b) // the network may be full
	}
}

// pong prints the delay of each.
func pong([]string) {
	conn := must(net.ListenPacket("udp4", gamePort))
	for b := make([]byte, gameBytes); ; {
		if _, _, err := conn.ReadFrom(b); err == nil {
			say(line{Ms: float64(time.Now().UnixNano()-int64(binary.LittleEndian.Uint64(b))) / 1e6})
		}
	}
}

// sink takes a connection and prints how many bytes came since its start, each quarter of a second.
func sink([]string) {
	listener := must(net.Listen("tcp4", tcpPort))
	conn := must(listener.Accept())
	total, last := 0, time.Now()
	for b := make([]byte, 1<<16); ; {
		if total += must(conn.Read(b)); time.Since(last) > time.Second/4 {
			say(line{Bytes: float64(total)})
			last = time.Now()
		}
	}
}

// source sends as much as TCP can by a congestion control.
func source(cc []string) {
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		failed := raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptString(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CONGESTION, cc[0])
		})
		return cmp.Or(failed, err)
	}}
	conn := must(dialer.Dial("tcp4", hostB+tcpPort))
	for b := make([]byte, 1<<16); ; {
		must(conn.Write(b))
	}
}
