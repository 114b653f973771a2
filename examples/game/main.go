// SPDX-License-Identifier: BSD-3-Clause

// Game prints for 15 s, each second, how many ticks a server and two players have run and how many
// inputs came too late, while the server and a player are killed and started again; then a
// verdict.
//
// It is a game over UDP: a server and players, each with a clock of its own, at 60 ticks a second.
//
// Players predict: at each tick they play their input at once and send it for that tick,
// early enough to reach the server before the server gets there. Everybody else is shown in
// server time, so that what is shown has arrived. Clocks are compared by each datagram
// (seal, link), with the kernel's receive times where it has them (rxtime).
//
// Each end counts what tick promises it: inputs that came too late, and ticks that were
// skipped or ran twice. Some inputs are too late only because this process had to wait for a
// processor. For how long it did is said at the end: that says something about the machine.
//
// Without -listen or -dial all run here, with a bad network in between. After a third of the time
// the server is killed, without a word to anybody, and after two thirds a player. Each starts
// again. The program says how long they were out of step, but for long waits for a processor, and
// exits with status 1 if that was more than 2 s or if a tick was skipped or repeated and no event
// told.
//
// With -up 50ms@5s the way to the server, and it alone, becomes longer: the players' lead
// follows. -down does the same to the way back.
//
// The game is in server.go, client.go, world.go and node.go. ledger.go counts what tick promises.
// What plays it here and says how that went is demo.go. elevator_test.go shows at which time to
// draw what.
//
//	go run ./examples/game
//	go run ./examples/game -up 50ms@5s
//	go run ./examples/game -listen :9000 -key HEX
//	go run ./examples/game -dial HOST:9000 -player 1 -key HEX
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"time"

	"timesync/internal/program"
)

type config struct {
	program.Flags
	player int
	record string // folder; empty: none
}

func main() { program.Main(run) }

var run = program.New("game", usage, (*config).flags, (*config).check, play)

const usage = `usage: game [flags]                        a server, players and a bad network
       game -listen ADDR -key KEY          the server here ...
       game -dial ADDR -player N -key KEY  ... and a player elsewhere`

func (c *config) flags(f *flag.FlagSet) {
	c.Add(f, 15*time.Second)
	f.IntVar(&c.player, "player", 1, "`number` of the player, 1 to 8, each its own, with -dial")
	f.StringVar(&c.record, "record", "",
		"record what the clocks are told in this `folder`, a file for each end")
}

// check refuses what cannot be meant.
func (c *config) check(f *flag.FlagSet) error {
	if err := c.Check(f, nil, []string{"player"}); err != nil {
		return err
	}
	switch {
	case c.player < 1 || c.player > maxPlayers:
		return fmt.Errorf("-player %d: must be from 1 to %d", c.player, maxPlayers)
	case program.Given(f, "player") && c.Dial == "":
		return errors.New("-player: needs -dial")
	case !c.Alone() && c.For < leastDemo:
		return fmt.Errorf("-for %v: must be %v or more, for two restarts", c.For, leastDemo)
	}
	return nil
}

// play plays the whole game, or one side of it.
func play(ctx context.Context, c config, stdout, _ io.Writer) error {
	out := log.New(stdout, "", 0)
	if !c.Alone() {
		return playAll(ctx, c, out)
	}
	ctx, stop := c.Limit(ctx)
	defer stop()
	udp, server, err := program.Open(c.Listen, c.Dial)
	if err != nil {
		return err
	}
	var n *node
	if c.Listen != "" {
		n = startServer(c, udp, out).node
	} else {
		n = startPlayer(c, udp, server, out).node
	}
	<-ctx.Done()
	return n.Close()
}
