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
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"timesync/examples/internal/relay"
)

type config struct {
	sync, listen, dial string
	key                [32]byte
	length             time.Duration // 0: until interrupted
	rate               float64       // datagrams a second, each way
	net                relay.Config
	skew               float64       // ppm
	at                 time.Duration // agree on instants so far ahead; 0: none
	json               bool
}

// keyVariable names the environment variable of the key.
const keyVariable = "TIMESYNC_KEY"

// anywhere is a free port.
var anywhere netip.AddrPort

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main with its surroundings as arguments. It returns the exit status: 0, 1
// if the clocks were never synchronized or a datagram got through that must not
// have, 2 for wrong flags.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "udp -h explains the flags\nudp: %v\n", err)
		return 2
	}
	if c.listen != "" || c.dial != "" {
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
func parse(args []string, stderr io.Writer) (config, error) {
	c := config{net: relay.Config{Delay: 30 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 1, Reorder: 2}}
	var key string
	f := flag.NewFlagSet("udp", flag.ContinueOnError)
	f.StringVar(&c.listen, "listen", "", "be the peer that waits, at this `address`, such as :9000")
	f.StringVar(&c.dial, "dial", "", "be the peer that calls the one at this `address`")
	f.StringVar(&key, "key", "", "64 hex digits that both ends share, with -listen and -dial;\n@FILE: read them there; not given: $"+keyVariable)
	f.DurationVar(&c.length, "for", 10*time.Second, "how long to run; with -listen and -dial without end unless given")
	f.Float64Var(&c.rate, "rate", 60, "`datagrams` a second each way, up to 1000")
	c.net.Flags(f)
	f.Float64Var(&c.skew, "skew", 50, "how much faster peer B's clock runs than A's, in `ppm`")
	f.StringVar(&c.sync, "sync", "datagram", "`how` to agree on time: datagram or ping")
	f.DurationVar(&c.at, "at", 0, "also agree on instants so far ahead, and let both peers act at them")
	f.BoolVar(&c.json, "json", false, "print the results as JSON")
	f.Usage = func() {}
	f.SetOutput(io.Discard) // run prints the error
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stderr, usage)
		f.SetOutput(stderr)
		f.PrintDefaults()
	}
	if err != nil {
		return c, err
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if f.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return c, c.check(given, key)
}

// check refuses what cannot be meant. The comparisons are written so that they
// refuse NaN too.
func (c *config) check(given map[string]bool, key string) error {
	switch {
	case given["listen"] && given["dial"]:
		return errors.New("-listen and -dial: a peer is one or the other")
	case given["listen"] && c.listen == "", given["dial"] && c.dial == "":
		return errors.New("-listen, -dial: empty address")
	case c.sync != "datagram" && c.sync != "ping":
		return fmt.Errorf("-sync %q: must be datagram or ping", c.sync)
	case c.length <= 0:
		return fmt.Errorf("-for %v: must be positive", c.length)
	case !(c.rate > 0 && c.rate <= 1000):
		return fmt.Errorf("-rate %v: must be above 0 and at most 1000", c.rate)
	case !(math.Abs(c.skew) <= 1000):
		return fmt.Errorf("-skew %v: must be from -1000 to 1000 ppm; real clocks stay within 200", c.skew)
	}
	if err := checkAhead(c.at); err != nil {
		return fmt.Errorf("-at %w", err)
	}
	// The first is proposed once the start is over.
	if least := settling + c.at + time.Second; c.at > 0 && c.length < least {
		return fmt.Errorf("-at %v: needs -for %v or more", c.at, least)
	}
	if err := c.net.Check(); err != nil {
		return err
	}
	if given["listen"] || given["dial"] {
		return c.between(given, key)
	}
	if given["key"] {
		return errors.New("-key: needs -listen or -dial; the two peers of the demo draw their own")
	}
	rand.Read(c.key[:])
	c.net.Draw()
	return nil
}

// between is what else holds between two machines.
func (c *config) between(given map[string]bool, key string) error {
	for _, name := range []string{"jitter", "loss", "skew", "asymmetry", "seed", "at"} {
		if given[name] {
			return fmt.Errorf("-%s: only for the demo, where network and true time are known", name)
		}
	}
	if !given["for"] {
		c.length = 0
	}
	return c.readKey(key)
}

// readKey takes a key as -key has it.
func (c *config) readKey(key string) error {
	if key == "" {
		key = os.Getenv(keyVariable)
	}
	if file, ok := strings.CutPrefix(key, "@"); ok {
		b, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("-key: %w", err)
		}
		key = strings.TrimSpace(string(b))
	}
	b, err := hex.DecodeString(key)
	if err != nil || len(b) != len(c.key) {
		// Not the given one: what is wrong with it may be a single digit of a secret.
		rand.Read(c.key[:])
		return fmt.Errorf("-key: must be 64 hex digits, the same on both ends, such as this fresh one: %x", c.key)
	}
	copy(c.key[:], b)
	return nil
}
