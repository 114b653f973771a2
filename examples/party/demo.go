// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	random "math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
	"timesync/internal/stat"
	"timesync/session"
)

const (
	size    = 5                // peers
	ending  = 28 * time.Second // true time
	settled = 5 * time.Second  // how long after it has joined a peer is judged
	look    = 10 * time.Millisecond
)

// What is judged. Bounds and order hold on any machine. A machine that is so busy that datagrams
// are sent and received late is less accurate.
const (
	apartMost = 1000 // us: p99 of how far peers are apart
	rounded   = 2    // us: clocks are read in whole microseconds
)

// script is what happens, in true time.
var script = []struct {
	at   time.Duration
	what string
	do   func(x *party)
}{
	{11 * time.Second, "the host, peer 1, is killed", func(x *party) { x.peers[0].Close() }},
	{13 * time.Second, "peer 1 starts anew, with another clock", func(x *party) { x.birth(0) }},
	{18 * time.Second, "1, 2 and 3 are cut off from 4 and 5", func(x *party) { x.apart.Store(true) }},
	{23 * time.Second, "they meet again", func(x *party) { x.apart.Store(false) }},
}

// party is the peers and the networks in front of them.
type party struct {
	config
	rng    *random.Rand
	peers  [size]guest // peer 1 is the first
	relays []*relay.Relay
	apart  atomic.Bool   // 1, 2 and 3 from 4 and 5
	clock  program.Clock // of the founder, once it is known
	zero   uint64        // session time minus that clock
	known  bool
	result result
	// How far the two peers are apart that are furthest apart, us.
	aparts []int64
}

// guest is a peer as the judge sees it, since it started.
type guest struct {
	*peer
	joined time.Duration
	last   session.Reading // 0 before there is one
}

// result is what the judge found.
type result struct {
	Apart     stat.Spread // the two peers that are furthest apart
	Readings  int
	Wrong     int // readings
	Back      int // readings
	Steps     int
	Handovers int    // that a peer followed
	Host      uint64 // at the end; 0: not the same for all
}

// demo plays the script, and prints what the peers think.
func demo(ctx context.Context, c config, out io.Writer) *result {
	x := &party{config: c, rng: random.New(random.NewPCG(c.Network.Seed, 49))}
	x.at = make([]netip.AddrPort, size)
	rand.Read(x.Key[:])
	defer x.close()
	for i := range size {
		x.birth(i)
	}
	n := c.Network
	fmt.Fprintf(out, "%d peers, each connected to each; delay %v and jitter up to %v, ", size, n.Delay, n.Jitter)
	fmt.Fprintf(out, "%g %% lost, %g %% overtaken; clocks up to %g ppm off; -seed %d\n", n.Loss, n.Reorder, c.Skew, n.Seed)
	fmt.Fprintln(out, "Each peer's session time, minus the founder's clock, with its bound; its host and generation:")
	x.play(ctx, out)
	x.result.Apart = stat.SpreadOf(x.aparts)
	return &x.result
}

// birth starts a peer that knows nothing, with a clock and a socket of its own, and the first time with
// a network in front of it.
func (x *party) birth(i int) {
	conn := relay.Loopback()
	if was := x.peers[i].peer; was == nil {
		network := x.Network
		network.Seed += uint64(i)
		r := relay.New(network, relay.Addr(conn))
		x.relays, x.at[i] = append(x.relays, r), r.Addr()
	} else {
		for _, r := range x.relays {
			r.Move(relay.Addr(was.UDP), relay.Addr(conn))
		}
	}
	clock := program.Clock{Start: x.rng.Uint64(), PPM: x.Skew * (2*x.rng.Float64() - 1)}
	p := newPeer(uint64(i)+1, x.Key, clock, x.at)
	p.cut = func(a, b uint64) bool { return x.apart.Load() && (a <= 3) != (b <= 3) }
	p.founds = i == 0 && !x.known // so that it is known whose clock counts
	p.start(conn)
	x.peers[i] = guest{peer: p}
}

func (x *party) close() {
	for _, g := range x.peers {
		g.Close() // which may have happened
	}
	for _, r := range x.relays {
		r.Close()
	}
}

// play lets things happen, and looks.
func (x *party) play(ctx context.Context, out io.Writer) {
	script, shown, since, begun := script, time.Duration(0), time.Duration(0), program.True()
	for ; ctx.Err() == nil && since < ending; program.Sleep(ctx, look) {
		now := program.True()
		since = now - begun
		if len(script) > 0 && since >= script[0].at {
			fmt.Fprintf(out, "%6.1f s  %s\n", since.Seconds(), script[0].what)
			script[0].do(x)
			script = script[1:]
		}
		line := x.look(now.Microseconds(), since)
		if since-shown >= 2*time.Second {
			shown = since
			fmt.Fprintf(out, "%6.1f s%s\n", since.Seconds(), line)
		}
	}
}

// look reads all clocks at one moment of true time, and judges what they read.
func (x *party) look(now int64, since time.Duration) (line string) {
	var offs []int64              // of those that have been there for long
	hosts := map[[2]uint64]bool{} // and generations
	for i := range x.peers {
		g := &x.peers[i]
		local := g.clock.At(now)
		reading, ok := g.member.Read(local)
		if !ok || g.Ctx.Err() != nil {
			hosts[[2]uint64{}] = true
			line += fmt.Sprintf("%28s", "-")
			continue
		}
		if !x.known && reading.Host == g.id { // it has founded the session
			x.clock, x.zero, x.known = g.clock, reading.Usec-local, true
		}
		off := int64(reading.Usec - x.zero - x.clock.At(now))
		bound := float64(reading.Bound) / float64(time.Millisecond)
		line += fmt.Sprintf("  %+5d us +-%3.0f ms, %d gen %d", off, bound, reading.Host, reading.Generation)
		x.judge(g, reading, off, since)
		hosts[[2]uint64{reading.Host, reading.Generation}] = true
		x.result.Host = reading.Host
		if since-g.joined >= settled {
			offs = append(offs, off)
		}
	}
	if len(offs) > 1 {
		x.aparts = append(x.aparts, slices.Max(offs)-slices.Min(offs))
	}
	if len(hosts) > 1 {
		x.result.Host = 0
	}
	return line
}

// judge judges one reading, which is off by so much.
func (x *party) judge(g *guest, reading session.Reading, off int64, since time.Duration) {
	r := &x.result
	r.Readings++
	if max(off, -off)-rounded > reading.Bound.Microseconds() {
		r.Wrong++
	}
	if g.last.Generation == 0 {
		g.joined, g.last = since, reading
	}
	if reading.Steps == g.last.Steps && int64(reading.Usec-g.last.Usec) < 0 {
		r.Back++
	}
	r.Steps += int(reading.Steps - g.last.Steps)
	if reading.Generation != g.last.Generation {
		r.Handovers++
	}
	g.last = reading
}

func (r *result) print(out io.Writer) {
	fmt.Fprintf(out, "\nfrom %v after a peer has joined, two peers are apart, us: ", settled)
	fmt.Fprintf(out, "%v (median/99th percentile/most of %d)\n", r.Apart, r.Apart.Samples)
	fmt.Fprintf(out, "of %d readings, %d beyond the bound, %d went back; ", r.Readings, r.Wrong, r.Back)
	fmt.Fprintf(out, "another host was followed %d times; %d steps; host %d at the end\n", r.Handovers, r.Steps, r.Host)
}

// check says what is wrong: what must never happen, on any machine, and, if exact, how well peers have to agree.
func (r *result) check(exact bool) error {
	switch {
	case r.Wrong > 0 || r.Back > 0:
		return fmt.Errorf("beyond the bound %d readings; %d went back", r.Wrong, r.Back)
	case !exact:
		return nil
	case r.Apart.P99 > apartMost || r.Steps > 0:
		return fmt.Errorf("peers are to agree within %d us (p99), without a step", apartMost)
	case r.Host == 0 || r.Handovers == 0:
		return errors.New("there is not one host for all at the end, or there was no handover")
	}
	return nil
}
