// SPDX-License-Identifier: BSD-3-Clause

// Command quic prints for 50 s, line by line, a table of how well a server and two clients know
// each other's clock over QUIC, idle and under load. README.md explains it.
//
// What a program of yours needs is in timesync.go and examples/channel/channel.go. world.go is
// what is measured here.
//
//	cd examples/quic && go run .
package main

import "timesync/examples/channel/channelbench"

func main() { channelbench.Main("quic", "stream", connect) }
