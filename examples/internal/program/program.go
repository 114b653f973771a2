// SPDX-License-Identifier: BSD-3-Clause

// Package program is what the example programs have in common: their flags, the key that the
// ends share, and clocks that disagree by a known amount.
package program

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"timesync/examples/internal/relay"
)

// Main runs a program until it ends or is interrupted, and exits with its status.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) (code int)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Parse parses args, which are flags only. If help is wanted it prints usage and the flags, and
// the error is flag.ErrHelp. given says which flags there were.
func Parse(f *flag.FlagSet, usage string, args []string, stderr io.Writer) (given map[string]bool, err error) {
	err = ParseFlags(f, usage, args, stderr)
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	given = map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return given, err
}

// ParseFlags is Parse for a program that takes arguments behind its flags.
func ParseFlags(f *flag.FlagSet, usage string, args []string, stderr io.Writer) error {
	f.Usage = func() {}
	f.SetOutput(io.Discard) // Status prints the error
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stderr, usage)
		f.SetOutput(stderr)
		f.PrintDefaults()
	}
	return err
}

// Status returns the exit status for an error of the flags, nil excluded, and says which it
// is: 0 after the help, else 2.
func Status(name string, err error, stderr io.Writer) (code int) {
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(stderr, "%s -h explains the flags\n%s: %v\n", name, name, err)
	return 2
}

// Flags are those of a program that runs all ends here, with a bad network between them, or
// one end, and the others elsewhere.
type Flags struct {
	Listen, Dial string
	Key          [32]byte
	For          time.Duration // 0: until interrupted
	Skew         float64       // ppm
	JSON         bool
	Network      relay.Config

	key string // as given
}

// Add adds the flags to f, with what is in c as defaults.
func (c *Flags) Add(f *flag.FlagSet) {
	f.StringVar(&c.Listen, "listen", c.Listen, "be the end that waits, at this `address`, such as :9000")
	f.StringVar(&c.Dial, "dial", c.Dial, "be an end that calls the one at this `address`")
	// The environment is no default here: -h would print it.
	f.StringVar(&c.key, "key", "", "64 hex `digits` that all ends share, with -listen and -dial;\n@FILE: read them there; not given: $"+KeyVariable)
	f.DurationVar(&c.For, "for", c.For, "how long to run; with -listen and -dial without end unless given")
	f.Float64Var(&c.Skew, "skew", c.Skew, "how much faster the clocks of those that call run than that of the one that waits, in `ppm`")
	f.BoolVar(&c.JSON, "json", c.JSON, "print JSON")
	c.Network.Flags(f)
}

// Alone says that this process is one end, and the others are elsewhere.
func (c *Flags) Alone() bool { return c.Listen != "" || c.Dial != "" }

// Check refuses what cannot be meant, NaN too, and draws what was not given. Flags in demoOnly
// are refused together with -listen and -dial, those in aloneOnly without.
func (c *Flags) Check(given map[string]bool, demoOnly, aloneOnly []string) error {
	switch {
	case given["listen"] && given["dial"]:
		return errors.New("-listen and -dial: a process is one or the other")
	case given["listen"] && c.Listen == "", given["dial"] && c.Dial == "":
		return errors.New("-listen, -dial: empty address")
	case c.For <= 0:
		return fmt.Errorf("-for %v: must be positive", c.For)
	case !(math.Abs(c.Skew) <= 1000):
		return fmt.Errorf("-skew %v: must be from -1000 to 1000 ppm; real clocks stay within 200", c.Skew)
	}
	if err := c.Network.Check(); err != nil {
		return err
	}
	c.Network.Draw()
	if !c.Alone() {
		for _, name := range append(aloneOnly, "key") {
			if given[name] {
				return fmt.Errorf("-%s: needs -listen or -dial", name)
			}
		}
		rand.Read(c.Key[:])
		return nil
	}
	for _, name := range append(demoOnly, "jitter", "loss", "asymmetry", "up", "down") {
		if given[name] {
			return fmt.Errorf("-%s: only without -listen and -dial, where network and true time are known", name)
		}
	}
	if !given["for"] {
		c.For = 0
	}
	var err error
	c.Key, err = Key(c.key)
	return err
}

// KeyVariable names the environment variable of the key: arguments can be seen by everybody
// on the machine.
const KeyVariable = "TIMESYNC_KEY"

// Key reads a key as -key has it.
func Key(text string) (key [32]byte, err error) {
	if text == "" {
		text = os.Getenv(KeyVariable)
	}
	if file, ok := strings.CutPrefix(text, "@"); ok {
		b, err := os.ReadFile(file)
		if err != nil {
			return key, fmt.Errorf("-key: %w", err)
		}
		text = strings.TrimSpace(string(b))
	}
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(key) {
		// Not the given one: what is wrong with it may be a single digit of a secret.
		rand.Read(key[:])
		return [32]byte{}, fmt.Errorf("-key: must be 64 hex digits, the same on all ends, such as this fresh one: %x", key)
	}
	return [32]byte(b), nil
}
