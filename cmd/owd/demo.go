// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"time"

	"timesync/examples/seal"
	"timesync/internal/badnet"
	"timesync/internal/program"
	"timesync/internal/testkit"
)

// kinds are the reasons to reject, and what the attacker injects for each. Before a sender has
// proven itself, replays are unproven, too.
var kinds = []struct {
	err      error
	name     string
	injected []badnet.Kind
}{
	{seal.ErrForged, "forged or cut short", []badnet.Kind{badnet.Forged, badnet.Cut}},
	{seal.ErrReplayed, "replayed", []badnet.Kind{badnet.Replayed}},
	{seal.ErrUnproven, "another session's", []badnet.Kind{badnet.Recorded}},
}

// world is the demo: peer A calls peer B through a relay, and each has a judge.
type world struct {
	relay  *badnet.Relay
	judges [2]*judge
}

// newWorld lets the attacker begin, and then the peers.
func newWorld(c config) (w *world, err error) {
	sockets := [2]*net.UDPConn{badnet.Loopback(), badnet.Loopback()}
	w = &world{relay: badnet.New(c.network, badnet.Addr(sockets[1]))}
	files := [2]string{"owd-a-*.tsr", "owd-b-*.tsr"}
	for i, dial := range [2]netip.AddrPort{w.relay.Addr(), {}} {
		j := &judge{name: [...]string{"peer A", "peer B"}[i], way: badnet.Way(i)}
		rng := rand.New(rand.NewPCG(c.network.Seed, 1+uint64(i)))
		// Its clock is its own: a process that counts from its start, or a machine that has booted,
		// begins somewhere else. Half of the skew is A's, slow, and half B's, fast.
		own := program.Clock{Start: rng.Uint64(), PPM: c.skew * (float64(i) - 0.5)}
		if j.peer, err = newPeer(c, sockets[i], dial, own, files[i]); err != nil {
			return nil, err
		}
		j.peer.judge = j
		w.judges[i] = j
		// An earlier life of the peer, of which the attacker has kept a datagram.
		w.relay.Recordings[1-i] = seal.New(c.key, uint64(i)).Seal(nil, make([]byte, payloadLen), 1)
	}
	w.judges[0].other = w.judges[1]
	w.judges[1].other = w.judges[0]
	w.relay.Attack.Store(true)
	for _, j := range w.judges {
		j.start()
	}
	return w, nil
}

// close lets what is on the last yards arrive, so that the counts agree.
func (w *world) close() error {
	w.relay.Close()
	time.Sleep(50 * time.Millisecond)
	return errors.Join(w.judges[0].Close(), w.judges[1].Close())
}

func demo(ctx context.Context, c config, stdout io.Writer) error {
	n := c.network
	fmt.Fprintf(stdout, "%v of %d datagrams/s each way, %g %% lost, %g %% reordered\n",
		c.lasting, rate, n.Loss, n.Reorder)
	leastJitter := time.Duration(badnet.JitterFloor * float64(n.Jitter))
	fmt.Fprintf(stdout, "delay %v and jitter from %v to %v\n", n.Delay, leastJitter, n.Jitter)
	fmt.Fprintf(stdout, "clocks that start anywhere and run %g ppm apart; -seed %d\n",
		c.skew, n.Seed)
	w, err := newWorld(c)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout,
		"each second: how far off each peer has the other's clock, and the error bound")
	program.Every(ctx.Done(), time.Second, func() { fmt.Fprintln(stdout, w.progress()) })
	err = w.close()
	w.table(stdout)
	if d := (n.Up.By - n.Down.By).Abs(); d > 0 {
		fmt.Fprintf(stdout, "\nOne way takes %v longer. No exchange of datagrams can\n"+
			"show that, so half of it, %v, is in the errors above.\n", d, d/2)
	}
	return errors.Join(err, w.failure())
}

// progress is a line: how far each peer's idea of the other's clock is off, and its bound.
func (w *world) progress() string {
	now := program.True()
	line := fmt.Sprintf("%4.1f s", now.Seconds())
	for _, j := range w.judges {
		err, ok := j.offsetError(now)
		if !ok {
			line += fmt.Sprintf("   %s not synchronized", j.name)
			continue
		}
		bound := j.state().ErrorBound.Seconds() * 1e3
		line += fmt.Sprintf("   %s %+5d us, bound %.1f ms", j.name, err, bound)
	}
	return line
}

// table prints what both peers made of it, 60 columns wide.
func (w *world) table(out io.Writer) {
	a, b := w.judges[0], w.judges[1]
	row := func(name string, value func(j *judge) any) {
		fmt.Fprintf(out, "%-26s %16v %16v\n", name, value(a), value(b))
	}
	title := func(text string) { fmt.Fprintf(out, "%s\n%s\n", strings.Repeat("-", 60), text) }
	fmt.Fprintln(out)
	row("", func(j *judge) any { return j.name })
	row("error bound at the end", func(j *judge) any { return j.state().ErrorBound })
	row("shortest one-way delay", func(j *judge) any { return j.state().MinimumOneWayDelay })
	title(fmt.Sprintf("errors after %v, in us: median/p99/max", settling))
	row("  offset", func(j *judge) any { return testkit.SpreadOf(j.offset) })
	row("  one-way delay", func(j *judge) any { return testkit.SpreadOf(j.owd) })
	row("  payload timestamp", func(j *judge) any { return testkit.SpreadOf(j.event) })
	title("datagrams")
	row("  sent", func(j *judge) any { return j.sent.Load() })
	row("  accepted", func(j *judge) any { return j.tally(nil).n })
	row("  accepted, but never sent", func(j *judge) any { return j.intruders })
	title("rejected / injected")
	for _, k := range kinds {
		row("  "+k.name, func(j *judge) any {
			injected := w.relay.Injected(j.way, k.injected...)
			return fmt.Sprintf("%d / %d", j.tally(k.err).n, injected)
		})
	}
	fmt.Fprintln(out, "Until a sender has proven itself, all that it sends counts\n"+
		"as another session's, replayed or not.")
}

// failure says what went wrong.
func (w *world) failure() (err error) {
	for _, j := range w.judges {
		if _, known := j.end.Link.Snapshot(j.clock.Now()); !known {
			err = errors.Join(err, fmt.Errorf("%s: not synchronized", j.name))
		}
		if j.intruders > 0 {
			accepted := fmt.Errorf("%s: accepted %d datagrams that nobody had sent",
				j.name, j.intruders)
			err = errors.Join(err, accepted)
		}
	}
	return err
}
