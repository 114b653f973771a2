// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net"
	"syscall"
	"time"
)

// What runs inside of the namespaces. All processes are on one machine, so they read one
// clock, and delays are true.

const (
	gamePort  = ":7001"
	gameEvery = time.Second / 60
	gameBytes = 100
)

// ping sends the game's datagrams.
func ping(host string) error {
	conn, err := net.Dial("udp4", host+gamePort)
	if err != nil {
		return err
	}
	for b := make([]byte, gameBytes); ; time.Sleep(gameEvery) {
		binary.LittleEndian.PutUint64(b, uint64(time.Now().UnixNano()))
		conn.Write(b) // the network may be full
	}
}

// pong prints the delay of each in milliseconds.
func pong() error {
	conn, err := net.ListenPacket("udp4", gamePort)
	if err != nil {
		return err
	}
	for b := make([]byte, 2048); ; {
		n, _, err := conn.ReadFrom(b)
		if err != nil {
			return err
		}
		if n == gameBytes {
			fmt.Printf("%.4f\n", float64(time.Now().UnixNano()-int64(binary.LittleEndian.Uint64(b)))/1e6)
		}
	}
}

// sink takes a connection and prints how many bytes came, each quarter of a second.
func sink(port string) error {
	listener, err := net.Listen("tcp4", ":"+port)
	if err != nil {
		return err
	}
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	total, last := 0, time.Now()
	for b := make([]byte, 1<<16); ; {
		n, err := conn.Read(b)
		if err != nil {
			return err
		}
		if total += n; time.Since(last) > time.Second/4 {
			fmt.Println(total)
			total, last = 0, time.Now()
		}
	}
}

// source sends as much as TCP can.
func source(address, cc string) error {
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		failed := raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptString(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CONGESTION, cc)
		})
		return cmp.Or(failed, err)
	}}
	conn, err := dialer.Dial("tcp4", address)
	if err != nil {
		return err
	}
	for b := make([]byte, 1<<16); err == nil; {
		_, err = conn.Write(b)
	}
	return err
}
