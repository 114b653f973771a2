// SPDX-License-Identifier: BSD-3-Clause

// Command dtls prints for 50 s, line by line, a table of how well a server and two clients know
// each other's clock over DTLS, idle and under load. README.md explains it.
//
// What a program of yours needs is in timesync.go, guard.go and examples/channel/channel.go.
// world.go is what is measured here.
//
//	cd examples/dtls && go run .
package main

import "timesync/examples/channel/channelbench"

func main() { channelbench.Main("dtls", "datagrams", connect) }
