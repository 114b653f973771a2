// SPDX-License-Identifier: BSD-3-Clause

// Relay shows how old the frames of a camera are when they reach a viewer behind a forwarder, and
// how far off that may be. No two of the three have the same clock. The forwarder knows the
// camera's and the viewer the forwarder's; with each frame the forwarder sends its view of the
// camera's clock, 55 bytes, and the viewer puts both together (timesync.Snapshot.Then).
//
// All three run here, with a bad network on both legs. Meanwhile the forwarder starts anew, and the
// camera's clock is set.
//
// What is worth a copy is in ends.go, and how the three use it in legs.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
)

type config struct{ program.Flags }

func main() { program.Main(run) }

var run = program.New("relay", "usage: relay [flags]", (*config).flags, (*config).check, play)

func (c *config) flags(f *flag.FlagSet) {
	c.Network = relay.Config{Delay: 30 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 1, Reorder: 2}
	f.DurationVar(&c.For, "for", 45*time.Second, "how long to run")
	c.Network.Flags(f)
}

// check refuses what cannot be meant.
func (c *config) check(f *flag.FlagSet) error {
	if c.For < 5*proof {
		return fmt.Errorf("-for %v: must be at least %v", c.For, 5*proof)
	}
	return c.Check(f, nil, nil)
}

// play runs the demo, and says how it went.
func play(ctx context.Context, c config, stdout, _ io.Writer) error {
	r, err := demo(ctx, c)
	if err != nil {
		return err
	}
	r.print(stdout, c)
	return r.check()
}
