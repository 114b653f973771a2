// SPDX-License-Identifier: BSD-3-Clause

// Hostmigration prints the session time of five peers for 28 s, while their host is killed and the
// network splits. Then it prints how far apart they were, by the true time.
//
// All peers are connected over a bad network, and share one session clock that outlives its host.
// The host is killed, and the next one takes over. The first host comes back with another clock
// and joins. Then the network splits into two halves, each with a host, and heals.
//
// The code to copy is in peer.go, where elect chooses the next host. The clock is package session.
// With -id, the process is one peer, and the others run elsewhere:
//
//	go run ./examples/hostmigration
//	go run ./examples/hostmigration -id 1 -peers A:9000,B:9000,C:9000 -key HEX
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"timesync/internal/badnet"
	"timesync/internal/program"
	"timesync/session"
)

type config struct {
	program.Flags // only some of them
	id            uint64
	peers         string
	digits        string           // the key, as given
	at            []netip.AddrPort // the addresses of all peers
}

func main() { program.Main(run) }

const usage = "usage: hostmigration [flags]"

var run = program.New("hostmigration", usage, (*config).flags, (*config).check, play)

func play(ctx context.Context, c config, stdout, _ io.Writer) error {
	if c.id > 0 {
		return live(ctx, c, stdout)
	}
	// If the ways are unequal, peers cannot agree to within less than half the difference.
	equal := c.Network.Up.By == 0 && c.Network.Down.By == 0
	return demo(ctx, c, stdout).print(stdout, equal)
}

func (c *config) flags(f *flag.FlagSet) {
	c.Network = badnet.Config{
		Delay:   30 * time.Millisecond,
		Jitter:  10 * time.Millisecond,
		Loss:    1,
		Reorder: 2,
	}
	f.Uint64Var(&c.id, "id", 0,
		"be one peer: the one with this `number` in -peers, from 1; the others run elsewhere")
	f.StringVar(&c.peers, "peers", "",
		"the `addresses` of all peers, as in a:9000,b:9000; the same for all")
	program.KeyFlag(f, &c.digits, "all peers share, with -id")
	f.DurationVar(&c.For, "for", 0, "how long to run, with -id; 0: until interrupted")
	f.Float64Var(&c.Skew, "skew", 50,
		"how many `ppm` clocks are faster or slower than true time, at most")
	c.Network.Flags(f)
}

func (c *config) check(f *flag.FlagSet) (err error) {
	if err := c.CheckWorld(f); err != nil {
		return err
	}
	if !program.Given(f, "id") {
		return program.Refuse(f, "needs -id", "peers", "key", "for")
	}
	for _, address := range strings.Split(c.peers, ",") {
		at, err := net.ResolveUDPAddr("udp", address)
		if err != nil || at.Port == 0 {
			return fmt.Errorf("-peers: %q is no address with a port", address)
		}
		c.at = append(c.at, at.AddrPort())
	}
	if c.id == 0 || c.id > uint64(len(c.at)) {
		return fmt.Errorf("-id %d: from 1 to %d, as many as -peers", c.id, len(c.at))
	}
	if c.For < 0 {
		return errors.New("-for: must not be negative")
	}
	if !program.Given(f, "skew") {
		c.Skew = 0
	}
	c.Key, err = program.Key(c.digits)
	return err
}

// live runs one peer. Nobody knows the true time.
func live(ctx context.Context, c config, stdout io.Writer) error {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{Port: int(c.at[c.id-1].Port())})
	if err != nil {
		return err
	}
	p := newPeer(c.id, c.Key, program.Clock{PPM: c.Skew}, c.at)
	p.start(conn)
	defer p.Close()
	ctx, stop := c.Limit(ctx)
	defer stop()
	var r session.Reading
	known := false
	for ctx.Err() == nil {
		// Peers that agree print the same second at the same moment.
		wait := time.Second
		if known {
			at, _ := p.member.LocalTime((r.Usec/1e6 + 1) * 1e6)
			wait = passed(at, p.clock.Now())
		}
		program.Sleep(ctx, wait)
		r, known = p.member.Read(p.clock.Now())
		if !known {
			fmt.Fprintln(stdout, "no session yet")
			continue
		}
		seconds := float64(r.Usec) / 1e6
		fmt.Fprintf(stdout, "%.6f s +-%v, from the host's +-%v; ", seconds, r.Bound, r.HostBound)
		fmt.Fprintf(stdout, "host %d, generation %d, %d steps\n", r.Host, r.Generation, r.Steps)
	}
	if !known {
		return errors.New("no session")
	}
	return nil
}
