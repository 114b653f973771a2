// SPDX-License-Identifier: BSD-3-Clause

// Punch connects two peers that are behind NATs, over UDP or TCP.
//
// Both peers keep time with a rendezvous server that both can reach (timesync/link). Once
// both are there and their clocks are known, the server tells each the other's public
// address and an instant. Both send to each other at that instant. So each NAT has let a
// packet out to the other before one comes in, and sees no unsolicited packet, which some
// NATs answer with a reset or take for an attack. Then the two keep time with each other.
//
// Run punch -serve at a public address, and punch -server on both other machines.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"timesync/examples/internal/program"
)

const usage = `usage: punch -serve ADDR -key KEY                be the rendezvous server
       punch -server ADDR -key KEY [-room NAME]  be one of two peers that meet in a room`

type config struct {
	serve, server, room string
	key                 [32]byte
	tcp, random, once   bool
	ready, giveUp       time.Duration
}

func main() { program.Main(run) }

// run is main with its surroundings as arguments. It returns the exit status: 0, 1 if the
// peers were not connected, 2 for wrong flags.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	if err != nil {
		return program.Status("punch", err, stderr)
	}
	if c.serve != "" {
		err = serveAt(ctx, c, stdout)
	} else {
		err = meet(ctx, c, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "punch:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (c config, err error) {
	key := ""
	f := flag.NewFlagSet("punch", flag.ContinueOnError)
	f.StringVar(&c.serve, "serve", "", "be the server at this `address`, UDP and TCP, such as :9000")
	f.StringVar(&c.server, "server", "", "be a peer of the server at this `address`")
	f.StringVar(&key, "key", "", "64 hex digits that the server and both peers share; @FILE: read them there;\nnot given: $"+program.KeyVariable)
	f.StringVar(&c.room, "room", "room", "`name` that both peers know")
	f.BoolVar(&c.tcp, "tcp", false, "connect by TCP: both open the connection at the instant")
	f.BoolVar(&c.random, "random", false, "send when ready, without the instant, to see what it is good for")
	f.DurationVar(&c.ready, "ready", 0, "with -random: being ready takes up to so long, as finding out\naddresses or a busy program do")
	f.BoolVar(&c.once, "once", false, "end when connected, and print the result as JSON")
	f.DurationVar(&c.giveUp, "give-up", 10*time.Second, "how long to try once the other is known")
	if _, err = program.Parse(f, usage, args, stderr); err == nil {
		err = c.check(key)
	}
	return c, err
}

// check refuses what cannot be meant, and reads the key.
func (c *config) check(key string) error {
	switch {
	case (c.serve == "") == (c.server == ""):
		return errors.New("-serve or -server: one of the two")
	case len(c.room) == 0 || len(c.room) > maxRoom:
		return fmt.Errorf("-room: 1 to %d bytes", maxRoom)
	case c.ready < 0 || c.giveUp <= 0:
		return errors.New("-ready, -give-up: must not be negative")
	}
	var err error
	c.key, err = program.Key(key)
	return err
}

// serveAt runs the server.
func serveAt(ctx context.Context, c config, stdout io.Writer) error {
	at, err := netip.ParseAddrPort(c.serve)
	if err != nil {
		resolved, err := net.ResolveUDPAddr("udp", c.serve)
		if err != nil {
			return err
		}
		at = resolved.AddrPort()
	}
	s, err := newServer(c.key, at)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "serving at %v\n", s.conn.LocalAddr())
	<-ctx.Done()
	s.close()
	return nil
}

// meet runs a peer.
func meet(ctx context.Context, c config, stdout io.Writer) error {
	at, err := net.ResolveUDPAddr("udp", c.server)
	if err != nil {
		return err
	}
	p, err := newPeer(c, at.AddrPort())
	if err != nil {
		return err
	}
	defer p.close()
	r, err := p.run(ctx)
	if c.once {
		json.NewEncoder(stdout).Encode(r)
		if err == nil {
			time.Sleep(linger)
		}
		return err
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "connected to %v, %.0f ms after it was known\n", r.Peer, r.Milliseconds)
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			fmt.Fprintln(stdout, p.state())
		}
	}
}
