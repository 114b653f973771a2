// SPDX-License-Identifier: BSD-3-Clause

// Relay measures how old the frames of a camera are when they reach a viewer behind a forwarder.
// After 45 s it prints the age, its error bound, and its true error.
//
// Each of the three has its own clock. The forwarder knows the camera's, and the viewer knows the
// forwarder's. With each frame the forwarder sends its view of the camera's clock, and the viewer
// combines the two (timesync.Snapshot.Then).
//
// Without flags all three run in this process, with a bad network on both legs. Meanwhile the
// forwarder restarts, and the camera's clock is set. The code to copy is in ends.go. The other
// commands run it on three machines:
//
//	go run ./examples/relay
//	go run ./examples/relay -listen :9000 -viewers :9001 -key HEX
//	go run ./examples/relay -dial FORWARDER:9000 -as camera -key HEX
//	go run ./examples/relay -dial FORWARDER:9001 -key HEX
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"timesync/internal/program"
)

type config struct {
	program.Flags
	viewers string
	as      string
}

func main() { program.Main(run) }

var run = program.New("relay", "usage: relay [flags]", (*config).flags, (*config).check,
	func(ctx context.Context, c config, stdout, stderr io.Writer) error {
		if c.Alone() {
			return alone(ctx, c, stdout, stderr)
		}
		return demo(ctx, c).print(stdout)
	})

func (c *config) flags(f *flag.FlagSet) {
	c.Add(f, 45*time.Second)
	f.StringVar(&c.viewers, "viewers", ":9001",
		"with -listen: the `address` at which the viewer is awaited")
	f.StringVar(&c.as, "as", "viewer", "with -dial: what to be, `camera or viewer`")
}

// check returns an error for wrong flags.
func (c *config) check(f *flag.FlagSet) error {
	switch {
	case c.as != "camera" && c.as != "viewer":
		return fmt.Errorf("-as %s: must be camera or viewer", c.as)
	case !c.Alone() && c.For < 5*proof:
		return fmt.Errorf("-for %v: must be at least %v", c.For, 5*proof)
	}
	return c.Check(f, nil, []string{"as", "viewers", "skew"})
}
