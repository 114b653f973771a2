// SPDX-License-Identifier: BSD-3-Clause

// Command dtls keeps time over DTLS: a server and two clients whose clocks differ stamp their
// datagrams, and a table says how well they know each other's clock, idle and under load. What
// timesync needs of a program with DTLS is in timesync.go.
package main

import "timesync/examples/channel/channelbench"

func main() { channelbench.Main("dtls", "datagrams", connect) }
