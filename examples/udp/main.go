// Udp keeps the clocks of two peers together over real UDP sockets.
//
// Without -listen or -dial it runs both peers in this process, with a bad network
// and an attacker between them and clocks that disagree by a known amount, and says
// how far off they were. With -listen on one machine and -dial on another it is one
// of two real peers.
//
// hook.go is what a user would copy; the rest is the demo.
package main

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	crand "crypto/rand"
)

type config struct {
	sync, listen, dial string
	key                [32]byte
	length             time.Duration // 0: until interrupted
	rate               float64       // datagrams a second, each way
	jitter             time.Duration // the largest
	loss               float64       // percent
	skew               float64       // ppm
	asymmetry          time.Duration
	seed               uint64
	json               bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
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

// parse returns an error only after it has printed it, with the usage, to stderr.
func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	var key string
	f := flag.NewFlagSet("udp", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&c.listen, "listen", "", "be the peer that waits, at this `address`, such as :9000")
	f.StringVar(&c.dial, "dial", "", "be the peer that calls the one at this `address`")
	f.StringVar(&key, "key", "", "64 hex `digits` that both ends share, with -listen and -dial")
	f.DurationVar(&c.length, "for", 10*time.Second, "how long to run; with -listen and -dial without end unless given")
	f.Float64Var(&c.rate, "rate", 60, "`datagrams` a second each way, up to 1000")
	f.DurationVar(&c.jitter, "jitter", 10*time.Millisecond, "largest jitter; each datagram waits 0.4 to 1 times as long")
	f.Float64Var(&c.loss, "loss", 1, "`percent` of datagrams lost")
	f.Float64Var(&c.skew, "skew", 50, "how much faster peer B's clock runs than A's, in `ppm`")
	f.DurationVar(&c.asymmetry, "asymmetry", 0, "how much longer the way from A to B takes; negative: from B to A")
	f.Uint64Var(&c.seed, "seed", 0, "makes clocks, network and attacker the same again; 0: draw one")
	f.StringVar(&c.sync, "sync", "datagram", "`how` to agree on time: datagram or ping")
	f.BoolVar(&c.json, "json", false, "print the results as JSON")
	f.Usage = func() {
		fmt.Fprintln(stderr, "usage: udp [flags]                    two peers here, and a bad network between them")
		fmt.Fprintln(stderr, "       udp -listen ADDR -key HEX      one peer here ...")
		fmt.Fprintln(stderr, "       udp -dial ADDR -key HEX        ... and the other elsewhere")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return c, err
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if err := c.check(given, key, f.Args()); err != nil {
		fmt.Fprintf(stderr, "udp: %v\n", err)
		f.Usage()
		return c, err
	}
	return c, nil
}

// check refuses what cannot be meant. The comparisons are written so that they
// refuse NaN too.
func (c *config) check(given map[string]bool, key string, rest []string) error {
	peer := given["listen"] || given["dial"]
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case given["listen"] && given["dial"]:
		return errors.New("-listen and -dial: a peer is one or the other")
	case given["listen"] && c.listen == "", given["dial"] && c.dial == "":
		return errors.New("-listen, -dial: empty address")
	case given["key"] && !peer:
		return errors.New("-key: needs -listen or -dial; the two peers of the demo draw their own")
	case c.sync != "datagram" && c.sync != "ping":
		return fmt.Errorf("-sync %q: must be datagram or ping", c.sync)
	case c.length <= 0:
		return fmt.Errorf("-for %v: must be positive", c.length)
	case !(c.rate > 0 && c.rate <= 1000):
		return fmt.Errorf("-rate %v: must be above 0 and at most 1000", c.rate)
	case c.jitter < 0 || c.jitter > 10*time.Second:
		return fmt.Errorf("-jitter %v: must be from 0 to 10s", c.jitter)
	case !(c.loss >= 0 && c.loss <= 100):
		return fmt.Errorf("-loss %v: must be from 0 to 100 percent", c.loss)
	case !(math.Abs(c.skew) <= 1000):
		return fmt.Errorf("-skew %v: must be from -1000 to 1000 ppm; real clocks stay within 200", c.skew)
	case c.asymmetry < -10*time.Second || c.asymmetry > 10*time.Second:
		return fmt.Errorf("-asymmetry %v: must be from -10s to 10s", c.asymmetry)
	}
	if !peer {
		crand.Read(c.key[:])
		if c.seed == 0 {
			c.seed = rand.Uint64N(1e9) + 1
		}
		return nil
	}
	for _, name := range []string{"jitter", "loss", "skew", "asymmetry", "seed"} {
		if given[name] {
			return fmt.Errorf("-%s: only for the demo; between two machines the network sees to it", name)
		}
	}
	if !given["for"] {
		c.length = 0
	}
	b, err := hex.DecodeString(key)
	if err != nil || len(b) != len(c.key) {
		// Not the given one: what is wrong with it may be a single digit of a secret.
		crand.Read(c.key[:])
		return fmt.Errorf("-key: must be 64 hex digits, the same on both ends, such as this fresh one: %x", c.key)
	}
	copy(c.key[:], b)
	return nil
}

// isTerminal tells whether a person watches, so that lines may be overwritten.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
