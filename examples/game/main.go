// SPDX-License-Identifier: BSD-3-Clause

// Game prints for 15 s, each second, how many ticks a server and two players have run and how many
// inputs came too late, while the server and a player are killed and started again; then a verdict.
//
// It is a game over UDP: a server and players in processes of their own, each with a clock of its
// own, at 60 ticks a second.
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
// Without -listen or -dial the program starts them all here, with a bad network in between. After
// a third of the time it kills the server, after two thirds a player, and starts them again.
// It says how long they were out of step, and exits with status 1 if that was more than 2 s
// or if a tick was skipped or repeated and no event told.
//
// With -up 50ms@5s the way to the server, and it alone, becomes longer: the players' lead
// follows. -down does the same to the way back.
//
// The game is in server.go, client.go, world.go and this file. Package judge starts the processes and
// says how they did.
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
	"time"

	"timesync/examples/game/judge"
	"timesync/examples/internal/program"
)

type config struct {
	program.Flags
	player, players int
	record          string // folder; empty: none
}

func main() { program.Main(run) }

var run = program.New("game", usage, (*config).flags, (*config).check, play)

const usage = `usage: game [flags]                        a server and players here, and a bad network between them
       game -listen ADDR -key KEY          the server here ...
       game -dial ADDR -player N -key KEY  ... and a player elsewhere`

func (c *config) flags(f *flag.FlagSet) {
	c.Add(f, 15*time.Second)
	f.IntVar(&c.player, "player", 1, "`number` of the player, 1 to 8, each its own, with -dial")
	f.IntVar(&c.players, "players", 2, "how `many` players there are, 1 to 8")
	f.StringVar(&c.record, "record", "", "record what the clocks are told in this `folder`, a file for each end")
}

// check refuses what cannot be meant.
func (c *config) check(f *flag.FlagSet) error {
	if err := c.Check(f, []string{"players"}, []string{"player"}); err != nil {
		return err
	}
	switch {
	case c.player < 1 || c.player > maxPlayers:
		return fmt.Errorf("-player %d: must be from 1 to %d", c.player, maxPlayers)
	case c.players < 1 || c.players > maxPlayers:
		return fmt.Errorf("-players %d: must be from 1 to %d", c.players, maxPlayers)
	case program.Given(f, "player") && c.Dial == "":
		return errors.New("-player: needs -dial")
	case !c.Alone() && c.For < judge.Least:
		return fmt.Errorf("-for %v: must be %v or more, for two restarts", c.For, judge.Least)
	}
	return nil
}

// play plays the whole game, or one side of it.
func play(ctx context.Context, c config, stdout, stderr io.Writer) error {
	if !c.Alone() {
		game := judge.Config{Flags: c.Flags, Players: c.players, Record: c.record, Tick: tickLength}
		return judge.Play(ctx, game, stdout, stderr)
	}
	ctx, stop := c.Limit(ctx)
	defer stop()
	n, err := newNode(c)
	if err != nil {
		return err
	}
	if c.Listen != "" {
		return n.play(ctx, newServer(n, c.Key), stdout, c.JSON)
	}
	p := newPlayer(n, c.Key, byte(c.player-1))
	go program.Every(ctx.Done(), tickLength, p.knock)
	return n.play(ctx, p, stdout, c.JSON)
}
