// SPDX-License-Identifier: BSD-3-Clause

// Command webrtc keeps time over WebRTC: a server and two clients whose clocks differ stamp
// their messages on an unreliable data channel, and a table says how well they know each other's clock, idle and
// under load. What timesync needs of a program with WebRTC is in timesync.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"timesync/examples/internal/bench"
)

func main() {
	length := flag.Duration("for", 10*time.Second, "how long to measure under each load")
	asJSON := flag.Bool("json", false, "print JSON")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := bench.Table(ctx, os.Stdout, *asJSON, bench.Loads("bulk channel"), *length, connect); err != nil {
		fmt.Fprintln(os.Stderr, "webrtc:", err)
		os.Exit(1)
	}
}
