// SPDX-License-Identifier: BSD-3-Clause

// Voice sends sound from one end to another, which plays each frame a fixed time after it was
// captured. The frames are fake; when they are played is real, and judged by true time.
//
// Both ends run here, with clocks that disagree by a known amount and a bad network between
// them. Meanwhile the end that plays is stopped for 2 s, as a process is, and later starts anew.
// What plays is examples/voice/playout, what seals examples/internal/seal: copy both.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"time"

	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
)

type config struct {
	program.Flags
	latency time.Duration
	faults  bool
}

func main() { program.Main(run) }

// run is main with its surroundings as arguments. It returns the exit status: 0, 1 if nothing
// was played or something was played late, 2 for wrong flags.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	if err != nil {
		return program.Status("voice", err, stderr)
	}
	r, err := demo(ctx, c)
	if err != nil {
		fmt.Fprintln(stderr, "voice:", err)
		return 1
	}
	if c.JSON {
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		err = out.Encode(r)
	} else {
		err = r.print(stdout, c)
	}
	if err == nil {
		err = r.check()
	}
	if err != nil {
		fmt.Fprintln(stderr, "voice:", err)
		return 1
	}
	return 0
}

// The network of the demo: each datagram takes 15 to 25 ms.
const (
	pathDelay  = 8333 * time.Microsecond
	pathJitter = 16667 * time.Microsecond
)

// parse prints the help if that is wanted.
func parse(args []string, stderr io.Writer) (c config, err error) {
	c.Network = relay.Config{Delay: pathDelay, Jitter: pathJitter, Loss: 1}
	c.For, c.Skew = 20*time.Second, 50
	f := flag.NewFlagSet("voice", flag.ContinueOnError)
	f.DurationVar(&c.For, "for", c.For, "how long to run")
	f.Float64Var(&c.Skew, "skew", c.Skew, "how much faster the clock that captures runs than the one that plays, in `ppm`")
	f.BoolVar(&c.JSON, "json", c.JSON, "print JSON")
	f.DurationVar(&c.latency, "latency", 80*time.Millisecond, "from capture to play; 0: by itself, from the arrivals")
	f.BoolVar(&c.faults, "faults", true, "stop the end that plays for 2 s, and start it anew later")
	c.Network.Flags(f)
	given, err := program.Parse(f, "usage: voice [flags]", args, stderr)
	if err != nil {
		return c, err
	}
	if least := 4 * settling; c.For < least {
		return c, fmt.Errorf("-for %v: must be at least %v", c.For, least)
	}
	return c, c.Check(given, nil, nil)
}
