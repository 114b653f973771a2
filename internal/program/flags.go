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

// Flags are those of a program that runs all ends here, with a bad network between them, or
// one end, and the others elsewhere.
type Flags struct {
	Listen, Dial string
	Key          [32]byte
	For          time.Duration // 0: until interrupted
	Skew         float64       // ppm
	Network      badnet.Config

	key string // as given
}

// Add adds the flags to f. Without them it runs for so long, on a network as bad as they get, with
// clocks as bad as a bad pair of quartzes.
func (c *Flags) Add(f *flag.FlagSet, lasting time.Duration) {
	c.Network = badnet.Config{Delay: 30 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 1, Reorder: 2}
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

// Alone says that this process is one end, and the others are elsewhere.
func (c *Flags) Alone() bool { return c.Listen != "" || c.Dial != "" }

// Check refuses what cannot be meant, NaN too, and draws what was not given. Flags in demoOnly
// are refused together with -listen and -dial, those in aloneOnly without.
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

// CheckWorld refuses arguments, and clocks and networks that cannot be meant, and draws a seed if
// none was given.
func (c *Flags) CheckWorld(f *flag.FlagSet) error {
	if !(math.Abs(c.Skew) <= 1000) {
		return fmt.Errorf("-skew %v: must be from -1000 to 1000 ppm; real clocks stay within 200", c.Skew)
	}
	return cmp.Or(Arguments(f, 0), c.Network.Check())
}

// Refuse refuses flags if one of them was given, and says why.
func Refuse(f *flag.FlagSet, why string, names ...string) error {
	for _, name := range names {
		if Given(f, name) {
			return fmt.Errorf("-%s: %s", name, why)
		}
	}
	return nil
}

// Limit returns a context that ends after For, if that is not 0.
func (c *Flags) Limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.For == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.For)
}

// KeyVariable names the environment variable of the key: arguments can be seen by everybody
// on the machine.
const KeyVariable = "TIMESYNC_KEY"

// KeyFlag adds the flag -key: who says by whom the key is shared.
func KeyFlag(f *flag.FlagSet, into *string, who string) {
	// The environment is no default here: -h would print it.
	f.StringVar(into, "key", "", "64 hex `digits` that "+who+";\nthe default is $"+KeyVariable)
}

// Key reads a key as -key has it.
func Key(text string) (key [32]byte, err error) {
	b, err := hex.DecodeString(cmp.Or(text, os.Getenv(KeyVariable)))
	if err != nil || len(b) != len(key) {
		// Not the given one: what is wrong with it may be a single digit of a secret.
		rand.Read(key[:])
		return [32]byte{}, fmt.Errorf(
			"-key: want 64 hex digits, the same on all ends, such as these fresh ones: %x", key)
	}
	return [32]byte(b), nil
}

// SubKey returns the key for a part of what all ends share: who knows one for another part cannot tell it.
func SubKey(key [32]byte, part string) [32]byte {
	h := hmac.New(sha256.New, key[:])
	h.Write([]byte(part))
	return [32]byte(h.Sum(nil))
}
