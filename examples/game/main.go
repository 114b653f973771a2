// SPDX-License-Identifier: BSD-3-Clause

// Game is a game over UDP: a server and players in processes of their own, each with a
// clock of its own, at 60 ticks a second.
//
// Players predict: at each tick they play their input at once and send it for that tick,
// early enough to reach the server before the server gets there. Everybody else is shown in
// server time, so that what is shown has arrived. Clocks are compared by each datagram
// (seal, link), with the kernel's receive times where it has them (rxtime).
//
// Each process counts what tick promises it: inputs that came too late, and ticks that were
// skipped or ran twice. An input that came too late only because a process or the relay had
// to wait for a processor is counted as one that waited: that says something about the
// machine.
//
// Without -listen or -dial the program starts them all, with a bad network in between. After
// a third of the time it kills the server, after two thirds a player, and starts them again.
// It says how long they were out of step, and exits with status 1 if that was more than 2 s
// or if a tick was skipped or repeated and no event told.
//
//	go run ./examples/game
//	go run ./examples/game -listen :9000 -key HEX
//	go run ./examples/game -dial HOST:9000 -player 1 -key HEX
package main

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"syscall"
	"time"

	"timesync/examples/internal/relay"
)

// keyVariable names the environment variable of the key: arguments can be seen by
// everybody on the machine.
const keyVariable = "TIMESYNC_KEY"

type config struct {
	listen, dial    string
	player, players int
	length          time.Duration // 0: until interrupted
	skew            float64       // ppm
	json            bool
	key             [32]byte
	network         relay.Config
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main with its surroundings as arguments. It returns the exit status: 0, 1 if
// something failed or was not as it should be, 2 for wrong flags.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "game -h explains the flags\ngame: %v\n", err)
		return 2
	}
	if c.length > 0 && (c.listen != "" || c.dial != "") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.length)
		defer cancel()
	}
	switch {
	case c.listen != "":
		err = serve(ctx, c, stdout)
	case c.dial != "":
		err = join(ctx, c, stdout)
	default:
		err = runDemo(ctx, c, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "game:", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, c config, stdout io.Writer) error {
	s, err := newServer(c)
	if err != nil {
		return err
	}
	return s.play(ctx, s, stdout, c.json)
}

func join(ctx context.Context, c config, stdout io.Writer) error {
	p, err := newPlayer(c)
	if err != nil {
		return err
	}
	return p.play(ctx, p, stdout, c.json)
}

func parse(args []string, stderr io.Writer) (config, error) {
	c := config{network: relay.Config{Delay: 30 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 1, Reorder: 2}}
	f := flag.NewFlagSet("game", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&c.listen, "listen", "", "be the server, at this `address`, such as :9000")
	f.StringVar(&c.dial, "dial", "", "be a player of the server at this `address`")
	f.IntVar(&c.player, "player", 1, "`number` of the player, 1 to 8, each its own, with -dial")
	key := f.String("key", os.Getenv(keyVariable), "64 hex `digits` that all share, with -listen and -dial; not given: $"+keyVariable)
	f.IntVar(&c.players, "players", 2, "how `many` players there are, 1 to 8")
	f.DurationVar(&c.length, "for", 15*time.Second, "how long to run; with -listen and -dial without end unless given")
	f.Float64Var(&c.skew, "skew", 50, "how much faster the clocks of players run than the server's, in `ppm`; with -listen and -dial this one's, or 0")
	f.BoolVar(&c.json, "json", false, "print the results as JSON; with -listen and -dial ten lines of JSON a second")
	c.network.Flags(f)
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stderr, "usage: game [flags]                             a server and players here, and a bad network between them")
		fmt.Fprintln(stderr, "       game -listen ADDR -key HEX               the server here ...")
		fmt.Fprintln(stderr, "       game -dial ADDR -player N -key HEX       ... and a player elsewhere")
		f.SetOutput(stderr)
		f.PrintDefaults()
	}
	if err != nil {
		return c, err
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return c, c.check(given, *key, f.Args())
}

// check refuses what cannot be meant. The comparisons are written so that they refuse
// NaN too.
func (c *config) check(given map[string]bool, key string, rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case given["listen"] && given["dial"]:
		return errors.New("-listen and -dial: a process is the server or a player")
	case given["listen"] && c.listen == "", given["dial"] && c.dial == "":
		return errors.New("-listen, -dial: empty address")
	case c.player < 1 || c.player > maxPlayers:
		return fmt.Errorf("-player %d: must be from 1 to %d", c.player, maxPlayers)
	case c.players < 1 || c.players > maxPlayers:
		return fmt.Errorf("-players %d: must be from 1 to %d", c.players, maxPlayers)
	case c.length <= 0:
		return fmt.Errorf("-for %v: must be positive", c.length)
	case !(math.Abs(c.skew) <= 1000):
		return fmt.Errorf("-skew %v: must be from -1000 to 1000 ppm; real clocks stay within 200", c.skew)
	}
	if err := c.network.Check(); err != nil {
		return err
	}
	c.network.Draw()
	if c.listen == "" && c.dial == "" {
		return c.checkDemo(given)
	}
	return c.checkProcess(given, key)
}

func (c *config) checkDemo(given map[string]bool) error {
	switch {
	case given["player"] || given["key"]:
		return errors.New("-player, -key: need -listen or -dial")
	case c.length < minDemo:
		return fmt.Errorf("-for %v: must be %v or more, for two restarts", c.length, minDemo)
	}
	crand.Read(c.key[:])
	return nil
}

func (c *config) checkProcess(given map[string]bool, key string) error {
	for _, name := range []string{"jitter", "loss", "asymmetry", "players"} {
		if given[name] {
			return fmt.Errorf("-%s: only without -listen and -dial; otherwise the network sees to it", name)
		}
	}
	if given["player"] && c.dial == "" {
		return errors.New("-player: needs -dial")
	}
	if !given["for"] {
		c.length = 0
	}
	if !given["skew"] {
		c.skew = 0
	}
	b, err := hex.DecodeString(key)
	if err != nil || len(b) != len(c.key) {
		// Not the given one: what is wrong with it may be a single digit of a secret.
		crand.Read(c.key[:])
		return fmt.Errorf("-key: must be 64 hex digits, the same on all sides, such as this fresh one: %x", c.key)
	}
	copy(c.key[:], b)
	return nil
}
