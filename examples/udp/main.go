// SPDX-License-Identifier: BSD-3-Clause

// Udp prints for 10 s, each second, how far off two peers have each other's clock, and what bound
// they give; then a table of all errors, and of what an attacker got through. The two are
// connected by real UDP sockets.
//
// Without -listen or -dial it runs both peers in this process, with a bad network
// and an attacker between them and clocks that disagree by a known amount, and says
// how far off they were. With -listen on one machine and -dial on another it is one
// of two real peers.
//
// Datagrams are sealed by examples/seal, which is one file to copy. To see how that and package
// link are called, read peer.go and live.go; demo.go and judge.go are for the demo.
package main

import (
	"context"
	"flag"
	"io"
	"time"

	"timesync/internal/program"
)

type config struct {
	program.Flags
	record string // folder; empty: none
	json   bool
}

func main() { program.Main(run) }

var run = program.New("udp", usage, (*config).flags, (*config).check, play)

const usage = `usage: udp [flags]                two peers here, and a bad network between them
       udp -listen ADDR -key KEY  one peer here ...
       udp -dial ADDR -key KEY    ... and the other elsewhere`

func (c *config) flags(f *flag.FlagSet) {
	c.Add(f, 10*time.Second)
	f.BoolVar(&c.json, "json", false, "print what is known each second as JSON")
	f.StringVar(&c.record, "record", "", "record what the clocks are told in this `folder`, a file for each end")
}

// check refuses what cannot be meant.
func (c *config) check(f *flag.FlagSet) error {
	return c.Check(f, []string{"seed"}, []string{"json"})
}

// play runs one peer, or the demo of both.
func play(ctx context.Context, c config, stdout, _ io.Writer) error {
	if c.Alone() {
		return live(ctx, c, stdout)
	}
	return demo(ctx, c, stdout)
}
