// SPDX-License-Identifier: BSD-3-Clause

package program

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"time"

	"timesync/internal/badnet"
)

// Flags are the flags of a program that runs either all ends in this process, with a bad network
// between them, or one end, while the others run elsewhere.
type Flags struct {
	Listen, Dial string
	Key          [32]byte
	For          time.Duration // 0: until interrupted
	Skew         float64       // ppm
	Network      badnet.Config

	key string // the flag's text
}

// Add adds the flags to f. The defaults are a run of the length lasting on a very bad network,
// with clocks as far apart as a bad pair of quartz crystals.
func (c *Flags) Add(f *flag.FlagSet, lasting time.Duration) {
	c.Network = badnet.Config{
		Delay:   30 * time.Millisecond,
		Jitter:  10 * time.Millisecond,
		Loss:    1,
		Reorder: 2,
	}
	f.StringVar(&c.Listen, "listen", "", "wait for callers at this `address`, such as :9000")
	f.StringVar(&c.Dial, "dial", "", "call the end that listens at this `address`")
	KeyFlag(f, &c.key, "all ends share; for -listen and -dial")
	f.DurationVar(&c.For, "for", lasting,
		"how long to run; with -listen or -dial the default is until interrupted")
	f.Float64Var(&c.Skew, "skew", 50,
		"how much faster the callers' clocks run than the listener's, in `ppm`;\n"+
			"with -listen or -dial: than this machine's clock, for a trial; the default is then 0")
	c.Network.Flags(f)
}

// Alone reports whether this process is one end, and the others run elsewhere.
func (c *Flags) Alone() bool { return c.Listen != "" || c.Dial != "" }

// Check returns an error for wrong values, including NaN, and draws what was not given. Flags in
// demoOnly are wrong with -listen or -dial. Flags in aloneOnly are wrong without them.
func (c *Flags) Check(f *flag.FlagSet, demoOnly, aloneOnly []string) error {
	if err := c.CheckWorld(f); err != nil {
		return err
	}
	switch listen, dial := Given(f, "listen"), Given(f, "dial"); {
	case listen && dial:
		return errors.New("-listen and -dial exclude each other")
	case listen && c.Listen == "", dial && c.Dial == "":
		return errors.New("-listen, -dial: the address is empty")
	case c.For <= 0:
		return fmt.Errorf("-for %v: must be positive", c.For)
	case !c.Alone():
		rand.Read(c.Key[:])
		return Refuse(f, "only with -listen or -dial", append(aloneOnly, "key")...)
	}
	if !Given(f, "for") {
		c.For = 0
	}
	if !Given(f, "skew") {
		c.Skew = 0
	}
	const why = "only without -listen and -dial: there the network is simulated and true time is known"
	err := Refuse(f, why, append(demoOnly, "jitter", "loss", "up", "down")...)
	if err == nil {
		c.Key, err = Key(c.key)
	}
	return err
}

// CheckWorld returns an error for arguments, and for wrong clocks and networks. It draws a seed if
// none was given.
func (c *Flags) CheckWorld(f *flag.FlagSet) error {
	if !(math.Abs(c.Skew) <= 1000) {
		return fmt.Errorf("-skew %v: must be from -1000 to 1000 ppm; real clocks stay within 200", c.Skew)
	}
	return cmp.Or(Arguments(f, 0), c.Network.Check())
}

// Refuse returns an error, with why, if one of the named flags was given.
func Refuse(f *flag.FlagSet, why string, names ...string) error {
	for _, name := range names {
		if Given(f, name) {
			return fmt.Errorf("-%s: %s", name, why)
		}
	}
	return nil
}

// Limit returns a context that ends after For. If For is 0, it has no limit.
func (c *Flags) Limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.For == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.For)
}

// KeyVariable is the environment variable for the key. Everybody on the machine can see the
// arguments of a program, but not its environment.
const KeyVariable = "TIMESYNC_KEY"

// KeyFlag adds the flag -key. who completes its help: the ends that share the key.
func KeyFlag(f *flag.FlagSet, into *string, who string) {
	// The environment is not the flag's default, because -h would print it.
	f.StringVar(into, "key", "", "64 hex `digits` that "+who+";\nthe default is $"+KeyVariable)
}

// Key parses the text of -key, or reads $TIMESYNC_KEY if it is empty.
func Key(text string) (key [32]byte, err error) {
	b, err := hex.DecodeString(cmp.Or(text, os.Getenv(KeyVariable)))
	if err != nil || len(b) != len(key) {
		// The error does not repeat the key: it may be a secret with one wrong digit.
		rand.Read(key[:])
		return [32]byte{}, fmt.Errorf(
			"-key: want 64 hex digits, the same on all ends, such as these fresh ones: %x", key)
	}
	return [32]byte(b), nil
}

// SubKey derives the key for one part of a program from the shared key. The key of one part does
// not reveal that of another.
func SubKey(key [32]byte, part string) [32]byte {
	h := hmac.New(sha256.New, key[:])
	h.Write([]byte(part))
	return [32]byte(h.Sum(nil))
}
