// SPDX-License-Identifier: BSD-3-Clause

package badnet

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Config says how bad the network is. The zero value delivers everything at once.
type Config struct {
	Delay time.Duration // each way
	// Jitter is the largest; each datagram waits JitterFloor to 1 times as long.
	Jitter time.Duration
	Loss   float64 // percent
	// Reorder is the percentage that is held back by 15 to 45 ms, so that others overtake.
	Reorder float64
	// Up and Down are how much longer the way to the server, and back, takes from a time on.
	Up, Down Extra
	Seed     uint64 // makes it the same again; 0: see Check
}

// JitterFloor is the least jitter, as a part of the largest: 4 of 10 ms.
const JitterFloor = 0.4

// reorderHold is how long a datagram is held back, times 0.5 to 1.5.
const reorderHold = 30 * time.Millisecond

// longest is the largest jitter, and the largest extra delay.
const longest = 10 * time.Second

// Flags adds the flags that change c, with what is in c as defaults.
func (c *Config) Flags(f *flag.FlagSet) {
	f.DurationVar(&c.Jitter, "jitter", c.Jitter,
		"largest jitter; each datagram waits for 0.4 to 1 times that")
	f.Float64Var(&c.Loss, "loss", c.Loss, "`percent` of datagrams lost")
	f.Func("up", "make the way to the listener longer from a time on, "+
		"such as `50ms@5s`; 50ms@0s: always", c.Up.parse)
	f.Func("down", "make the way from the listener longer, such as `50ms@5s`", c.Down.parse)
	f.Uint64Var(&c.Seed, "seed", c.Seed,
		"repeats clocks, network and attacker of another run; 0: draw one")
}

// Check refuses what cannot be meant, NaN too, and draws the seed if none was given.
func (c *Config) Check() error {
	c.Seed = cmp.Or(c.Seed, rand.Uint64N(1e9)+1)
	switch {
	case c.Jitter < 0 || c.Jitter > longest:
		return fmt.Errorf("-jitter %v: must be from 0 to 10s", c.Jitter)
	case !(c.Loss >= 0 && c.Loss <= 100):
		return fmt.Errorf("-loss %v: must be from 0 to 100 percent", c.Loss)
	}
	return nil
}

// Draw draws how long a datagram takes, but for Up and Down, and whether it is lost.
func (c *Config) Draw(rng *rand.Rand) (delay time.Duration, lost bool) {
	jitter := JitterFloor + (1-JitterFloor)*rng.Float64()
	delay = c.Delay + time.Duration(float64(c.Jitter)*jitter)
	if rng.Float64()*100 < c.Reorder {
		delay += time.Duration((0.5 + rng.Float64()) * float64(reorderHold))
	}
	return delay, rng.Float64()*100 < c.Loss
}

// Extra is a delay that comes later. As a flag it is 50ms@5s.
type Extra struct {
	By   time.Duration
	From time.Duration // since the relay was started
}

func (e *Extra) parse(text string) error {
	by, from, _ := strings.Cut(text, "@")
	var err1, err2 error
	e.By, err1 = time.ParseDuration(by)
	e.From, err2 = time.ParseDuration(from)
	if err1 != nil || err2 != nil || e.By < 0 || e.From < 0 || e.By > longest {
		return errors.New("must be a delay of up to 10s and a time, as in 50ms@5s")
	}
	return nil
}
