// SPDX-License-Identifier: BSD-3-Clause

// Owd measures one-way delays between two machines whose clocks nobody has synchronized, and says
// how far off they may be: half the round trip, since nobody can measure how unequal the two ways
// are.
//
//	owd -newkey          prints a key; set it as TIMESYNC_KEY on both machines
//	owd -listen :9000    answers callers
//	owd HOST:9000        calls, and prints a line a second: delays each way, loss, offset, skew
//	owd                  shows two peers and a bad network in this process
//
// It exits with 0 if something came, with 1 if nothing did, and with 2 for wrong flags.
//
// Datagrams are sealed by examples/seal. To measure in a program of your own, start from
// conversation.go, meter.go, histogram.go and wire.go.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"time"

	"timesync/internal/badnet"
	"timesync/internal/program"
)

type config struct {
	newKey   bool
	listen   string
	host     string // with its port
	interval time.Duration
	count    int
	size     int
	lasting  time.Duration // 0: until interrupted
	json     bool
	record   string // folder; empty: none
	skew     float64
	network  badnet.Config // of the demo
	key      [32]byte
}

func main() { program.Main(run) }

var run = program.New("owd", usage, (*config).flags, (*config).check, play)

// demoOnly are the flags of the simulated network.
var demoOnly = []string{"jitter", "loss", "up", "down", "seed"}

const usage = `usage: owd                      demo: two peers and a bad network
       owd -newkey              print a key; set it as ` + program.KeyVariable + ` on both machines
       owd -listen ADDR         answer callers ...
       owd [flags] HOST:PORT    ... and call`

// flags adds the flags.
func (c *config) flags(f *flag.FlagSet) {
	c.network = badnet.Config{
		Delay:   30 * time.Millisecond,
		Jitter:  10 * time.Millisecond,
		Loss:    1,
		Reorder: 2,
	}
	f.BoolVar(&c.newKey, "newkey", false, "print a fresh key")
	f.StringVar(&c.listen, "listen", "", "answer callers at this `address`, such as :9000")
	f.DurationVar(&c.interval, "interval", defaultInterval,
		"time between two datagrams, each way; 1ms to 10s")
	f.IntVar(&c.count, "count", 0, "end after this many `datagrams`; 0: no limit")
	sizes := fmt.Sprintf("`bytes` of payload, each way; %d to %d", shortestPayload, longestPayload)
	f.IntVar(&c.size, "size", shortestPayload, sizes)
	f.DurationVar(&c.lasting, "for", 0,
		"how long to run; 0: until interrupted; the demo runs for 10s")
	f.BoolVar(&c.json, "json", false, "print one JSON object a line")
	f.StringVar(&c.record, "record", "", "write recordings into this `folder`, for lab/view")
	f.Float64Var(&c.skew, "skew", 0,
		"for a trial, let this machine's clock run faster by this many `ppm`;\n"+
			"in the demo the default is 50 ppm between the two clocks")
	c.network.Flags(f)
	for _, name := range demoOnly {
		f.Lookup(name).Usage = "demo: " + f.Lookup(name).Usage
	}
}

// check refuses what cannot be meant, and reads the key.
func (c *config) check(f *flag.FlagSet) (err error) {
	c.host = f.Arg(0)
	live := c.listen != "" || c.host != ""
	switch {
	case f.NArg() > 1 || f.NArg() == 1 && c.listen != "":
		return errors.New("want flags, then either HOST:PORT or -listen; pass the key in $" +
			program.KeyVariable)
	case c.newKey && (live || f.NFlag() > 1):
		return errors.New("-newkey: want no other flag and no argument")
	case program.Given(f, "listen") && c.listen == "":
		return errors.New("-listen: the address is empty")
	case c.interval < shortestInterval || c.interval > longestInterval:
		return fmt.Errorf("-interval %v: must be from %v to %v",
			c.interval, shortestInterval, longestInterval)
	case c.size < shortestPayload || c.size > longestPayload:
		return fmt.Errorf("-size %d: must be from %d to %d",
			c.size, shortestPayload, longestPayload)
	case c.count < 0:
		return fmt.Errorf("-count %d: must not be negative", c.count)
	case c.lasting < 0:
		return fmt.Errorf("-for %v: must not be negative", c.lasting)
	case !(math.Abs(c.skew) <= 1000):
		const say = "-skew %v: must be from -1000 to 1000 ppm; real clocks stay within 200"
		return fmt.Errorf(say, c.skew)
	}
	if err := c.network.Check(); err != nil {
		return err
	}
	if !live {
		return c.checkDemo(f)
	}
	const why = "only in the demo: there the network is simulated and true time is known"
	if err := program.Refuse(f, why, demoOnly...); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(c.host); c.host != "" && err != nil {
		return errNoPort(c.host)
	}
	if c.listen != "" {
		err := program.Refuse(f, "the caller decides that", "interval", "count", "size")
		if err != nil {
			return err
		}
	}
	c.key, err = readKey()
	return err
}

// checkDemo fills in what the demo draws.
func (c *config) checkDemo(f *flag.FlagSet) error {
	if !program.Given(f, "for") {
		c.lasting = 10 * time.Second
	}
	if !program.Given(f, "skew") {
		c.skew = 50
	}
	rand.Read(c.key[:])
	return program.Refuse(f, "only with -listen or HOST:PORT", "interval", "count", "size", "json")
}

// readKey reads the key from the environment: arguments can be seen by everybody on the machine.
func readKey() (key [32]byte, err error) {
	if os.Getenv(program.KeyVariable) == "" {
		const say = "no key: run owd -newkey once, and set what it prints as %s on both machines"
		return key, fmt.Errorf(say, program.KeyVariable)
	}
	key, err = program.Key("")
	if err != nil {
		return key, fmt.Errorf("%s: want 64 hex digits, as owd -newkey prints them",
			program.KeyVariable)
	}
	return key, nil
}

// play does what the flags say.
func play(ctx context.Context, c config, stdout, stderr io.Writer) error {
	if c.lasting > 0 {
		limited, stop := context.WithTimeout(ctx, c.lasting)
		defer stop()
		ctx = limited
	}
	switch {
	case c.newKey:
		var key [32]byte
		rand.Read(key[:])
		_, err := fmt.Fprintf(stdout, "%x\n", key)
		return err
	case c.listen != "":
		return listen(ctx, c, stdout, stderr)
	case c.host != "":
		return call(ctx, c, stdout, stderr)
	default:
		return demo(ctx, c, stdout)
	}
}
