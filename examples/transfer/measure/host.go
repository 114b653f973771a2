// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"timesync/examples/internal/lab"
)

// What runs inside of the namespaces. All processes are on one machine, so they read one
// clock, and delays are true.

const (
	gamePort  = ":7001"
	gameEvery = time.Second / 60
	gameBytes = 100
)

// must ends the process if there is an error.
func must[T any](value T, err error) T {
	lab.Exit(err)
	return value
}

// ping sends the game's datagrams.
func ping(host string) {
	conn := must(net.Dial("udp4", host+gamePort))
	for b := make([]byte, gameBytes); ; time.Sleep(gameEvery) {
		binary.LittleEndian.PutUint64(b, uint64(time.Now().UnixNano()))
		conn.Write(b) // the network may be full
	}
}

// pong prints the delay of each in milliseconds.
func pong() {
	conn := must(net.ListenPacket("udp4", gamePort))
	for b := make([]byte, gameBytes); ; {
		if _, _, err := conn.ReadFrom(b); err == nil {
			fmt.Printf("%.4f\n", float64(time.Now().UnixNano()-int64(binary.LittleEndian.Uint64(b)))/1e6)
		}
	}
}

// sink takes a connection and prints how many bytes came since its start, each quarter of a second.
func sink(port string) {
	listener := must(net.Listen("tcp4", ":"+port))
	conn := must(listener.Accept())
	total, last := 0, time.Now()
	for b := make([]byte, 1<<16); ; {
		if total += must(conn.Read(b)); time.Since(last) > time.Second/4 {
			fmt.Println(total)
			last = time.Now()
		}
	}
}
