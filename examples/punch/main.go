// SPDX-License-Identifier: BSD-3-Clause

// Punch connects two peers behind NATs, over UDP or TCP. Each prints the other's address, how long
// it took to connect, and then, once a second, what it knows of the other's clock.
//
// Both peers keep time with a rendezvous server (timesync/link). Once both have joined and their
// clocks are known, the server tells each the other's public address and an instant. Both send at
// that instant, so each NAT has let a packet out before one comes in. Otherwise it would see an
// unsolicited packet, which some NATs answer with a reset or take for an attack. Then the two keep
// time with each other.
//
// Run the first command at a public address, the second on both other machines:
//
//	go run ./examples/punch -serve :9000 -key HEX
//	go run ./examples/punch -server HOST:9000 -key HEX
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"timesync/clock"
	"timesync/internal/program"
)

const usage = `usage: punch -serve ADDR -key KEY                be the rendezvous server
       punch -server ADDR -key KEY [-room NAME]  be one of two peers that meet in a room`

type config struct {
	serve, server, room string
	digits              string // the key, as given
	key                 [32]byte
	tcp, random, once   bool
	ready, giveUp       time.Duration
}

func main() { program.Main(run) }

var run = program.New("punch", usage, (*config).flags, (*config).check, punch)

func (c *config) flags(f *flag.FlagSet) {
	f.StringVar(&c.serve, "serve", "", "be the server at this `address`, UDP and TCP, such as :9000")
	f.StringVar(&c.server, "server", "", "be a peer of the server at this `address`")
	program.KeyFlag(f, &c.digits, "the server and both peers share")
	f.StringVar(&c.room, "room", "room", "`name` that both peers know")
	f.BoolVar(&c.tcp, "tcp", false, "connect by TCP: both open the connection at the instant")
	f.BoolVar(&c.random, "random", false,
		"send when ready, without the instant, for comparison")
	f.DurationVar(&c.ready, "ready", 0,
		"with -random: wait for a random time of up to this, as a busy program would")
	f.BoolVar(&c.once, "once", false, "end when connected, and print the result as JSON")
	f.DurationVar(&c.giveUp, "give-up", 10*time.Second, "how long to try once the other is known")
}

// check returns an error for wrong flags, and parses the key.
func (c *config) check(f *flag.FlagSet) error {
	switch {
	case (c.serve == "") == (c.server == ""):
		return errors.New("-serve or -server: one of the two")
	case len(c.room) == 0 || len(c.room) > maxRoom:
		return fmt.Errorf("-room: 1 to %d bytes", maxRoom)
	case c.ready < 0 || c.giveUp <= 0:
		return errors.New("-ready, -give-up: must not be negative")
	}
	var err error
	c.key, err = program.Key(c.digits)
	return cmp.Or(err, program.Arguments(f, 0))
}

// punch runs the server or a peer.
func punch(ctx context.Context, c config, stdout, _ io.Writer) error {
	// One of them is empty.
	at, err := net.ResolveUDPAddr("udp", c.serve+c.server)
	if err != nil {
		return err
	}
	if c.server != "" {
		return meet(ctx, c, at.AddrPort(), stdout)
	}
	s, err := newServer(c.key, at.AddrPort())
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "serving at %v\n", s.UDP.LocalAddr())
	<-ctx.Done()
	s.Close()
	return nil
}

// meet runs a peer.
func meet(ctx context.Context, c config, server netip.AddrPort, stdout io.Writer) error {
	p, err := newPeer(c, server)
	if err != nil {
		return err
	}
	defer p.Close()
	err = p.run(ctx)
	r := p.found()
	if c.once {
		json.NewEncoder(stdout).Encode(r)
		if err == nil {
			time.Sleep(linger)
		}
	} else if err == nil {
		fmt.Fprintf(stdout, "connected to %v, %.0f ms after it was known\n", r.Peer, r.Milliseconds)
		program.Every(ctx.Done(), time.Second, func() {
			s, _ := p.there.Link.Snapshot(clock.Now())
			fmt.Fprintln(stdout, s)
		})
	}
	return err
}
