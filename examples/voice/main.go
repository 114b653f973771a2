// SPDX-License-Identifier: BSD-3-Clause

// Voice says what it does, and 20 s later how far from its time each frame of 20 ms was played,
// and what was lost.
//
// It sends sound from one end to another, which plays each frame a fixed time after it was
// captured. The frames are fake; when they are played is real, and judged by true time.
//
// Both ends run here, with clocks that disagree by a known amount and a bad network between
// them. Meanwhile the end that plays is stopped for 2 s, as a process is, and later restarts.
// What plays is package jitter/playout, what seals examples/seal. This program judges itself;
// one to copy is examples/voice/chat.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"timesync/internal/badnet"
	"timesync/internal/program"
	"timesync/jitter/playout"
)

type config struct {
	program.Flags
	latency time.Duration
}

func main() { program.Main(run) }

var run = program.New("voice", "usage: voice [flags]", (*config).flags, (*config).check, voice)

func (c *config) flags(f *flag.FlagSet) {
	// Each datagram takes 15 to 25 ms.
	c.Network = badnet.Config{
		Delay:  8333 * time.Microsecond,
		Jitter: 16667 * time.Microsecond,
		Loss:   1,
	}
	f.DurationVar(&c.For, "for", 20*time.Second, "how long to run")
	f.Float64Var(&c.Skew, "skew", 50,
		"how many `ppm` the clock that captures is faster than the one that plays")
	f.DurationVar(&c.latency, "latency", 80*time.Millisecond,
		"from capture to play; 0: as arrivals need it")
	c.Network.Flags(f)
}

// check refuses what cannot be meant.
func (c *config) check(f *flag.FlagSet) error {
	if least := 4 * settling; c.For < least {
		return fmt.Errorf("-for %v: must be at least %v", c.For, least)
	}
	_, err := playout.New(playout.Config{Latency: c.latency, DropLate: true})
	return cmp.Or(err, c.Check(f, nil, nil))
}

// stoppedBy is how long the end that plays is stopped.
const stoppedBy = 2 * time.Second

// voice runs the demo, and says how it went.
func voice(ctx context.Context, c config, stdout, _ io.Writer) error {
	fmt.Fprintf(stdout, "frames of sound cross a bad network for %v; "+
		"after %v the player is stopped for %v, after %v it is restarted; "+
		"at the end: how exactly each frame was played\n",
		c.For, (c.For / 3).Round(time.Second), stoppedBy, (c.For * 2 / 3).Round(time.Second))
	return demo(ctx, c).print(stdout, c)
}

// demo runs both ends and the network between them. After a third of the time the end that plays
// is stopped, and after two thirds it restarts.
func demo(ctx context.Context, c config) *result {
	rng := rand.New(rand.NewPCG(c.Network.Seed, 'v'))
	clock := func(ppm float64) program.Clock { return program.Clock{Start: rng.Uint64(), PPM: ppm} }
	playing := badnet.Loopback()
	network := badnet.New(c.Network, badnet.Addr(playing))
	defer network.Close()
	speaks := &speaker{side: newSide(0, c, clock(c.Skew/2)), to: network.Addr()}
	plays := newListener(c, clock(-c.Skew/2))
	plays.start(playing)
	speaks.start(badnet.Loopback())
	program.Sleep(ctx, c.For/3)

	plays.running.Lock()
	plays.stopped.from = plays.now()
	program.Sleep(ctx, stoppedBy)
	plays.stopped.to = plays.now()
	plays.running.Unlock()
	program.Sleep(ctx, c.For/3-stoppedBy)

	plays.Close()
	anew := badnet.Loopback()
	network.Move(badnet.Addr(anew))
	again := newListener(c, clock(-c.Skew/2))
	again.start(anew)
	program.Sleep(ctx, c.For/3)
	speaks.Close()
	time.Sleep(c.latency + 100*time.Millisecond) // what is under way is still played
	again.Close()
	return judge(speaks, []*listener{plays, again})
}
