// SPDX-License-Identifier: BSD-3-Clause

// Udp keeps the clocks of two peers together over real UDP sockets.
//
// Without -listen or -dial it runs both peers in this process, with a bad network
// and an attacker between them and clocks that disagree by a known amount, and says
// how far off they were. With -listen on one machine and -dial on another it is one
// of two real peers.
//
// Datagrams are sealed by examples/internal/seal, which is one file to copy.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"time"

	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
)

type config struct {
	program.Flags
	sync   string
	rate   float64       // datagrams a second, each way
	at     time.Duration // agree on instants so far ahead; 0: none
	record string        // file; peer B's of the demo has peerSuffix
}

// peerSuffix is behind the name of the file of peer B.
const peerSuffix = ".b"

// anywhere is a free port.
var anywhere netip.AddrPort

func main() { program.Main(run) }

// run is main with its surroundings as arguments. It returns the exit status: 0, 1
// if the clocks were never synchronized or a datagram got through that must not
// have, 2 for wrong flags.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	if err != nil {
		return program.Status("udp", err, stderr)
	}
	if c.Alone() {
		err = live(ctx, c, stdout)
	} else {
		err = demo(ctx, c, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "udp:", err)
		return 1
	}
	return 0
}

const usage = `usage: udp [flags]                two peers here, and a bad network between them
       udp -listen ADDR -key KEY  one peer here ...
       udp -dial ADDR -key KEY    ... and the other elsewhere`

// parse prints the help if that is wanted.
func parse(args []string, stderr io.Writer) (c config, err error) {
	c.Network = relay.Config{Delay: 30 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 1, Reorder: 2}
	c.For, c.Skew = 10*time.Second, 50
	f := flag.NewFlagSet("udp", flag.ContinueOnError)
	c.Add(f)
	f.Float64Var(&c.rate, "rate", 60, "`datagrams` a second each way, up to 1000")
	f.StringVar(&c.sync, "sync", "datagram", "`how` to agree on time: datagram or ping")
	f.DurationVar(&c.at, "at", 0, "also agree on instants so far ahead, and let both peers act at them")
	f.StringVar(&c.record, "record", "", "record what the clocks are told into this `file`; without -listen and -dial, that of peer B into file"+peerSuffix)
	f.Lookup("skew").Usage += ";\nwith -listen and -dial: than this machine's, to try it; 0 unless given"
	given, err := program.Parse(f, usage, args, stderr)
	if err == nil {
		err = c.check(given)
	}
	return c, err
}

// check refuses what cannot be meant. The comparisons are written so that they
// refuse NaN too.
func (c *config) check(given map[string]bool) error {
	switch {
	case c.sync != "datagram" && c.sync != "ping":
		return fmt.Errorf("-sync %q: must be datagram or ping", c.sync)
	case !(c.rate > 0 && c.rate <= 1000):
		return fmt.Errorf("-rate %v: must be above 0 and at most 1000", c.rate)
	}
	if err := checkAhead(c.at); err != nil {
		return fmt.Errorf("-at %w", err)
	}
	if err := c.Check(given, []string{"seed", "at"}, nil); err != nil {
		return err
	}
	if c.Alone() && !given["skew"] {
		c.Skew = 0
	}
	// The first is proposed once the start is over.
	if least := settling + c.at + time.Second; c.at > 0 && c.For < least {
		return fmt.Errorf("-at %v: needs -for %v or more", c.at, least)
	}
	return nil
}
