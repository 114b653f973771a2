// SPDX-License-Identifier: BSD-3-Clause

// Command quic keeps time over QUIC: a server and two clients whose clocks differ stamp
// their DATAGRAM frames, and a table says how well they know each other's clock, idle and
// under load. What timesync needs of a program with QUIC is in timesync.go.
package main

import "timesync/examples/channel/channelbench"

func main() { channelbench.Main("quic", "stream", connect) }
