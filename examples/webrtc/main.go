// SPDX-License-Identifier: BSD-3-Clause

// Command webrtc keeps time over WebRTC: a server and two clients whose clocks differ stamp
// the messages of an unreliable data channel, and a table says how well they know each
// other's clock, idle and under load. What timesync needs of a program with WebRTC is in
// timesync.go.
package main

import "timesync/examples/channel/channelbench"

func main() { channelbench.Main("webrtc", "bulk channel", connect) }
