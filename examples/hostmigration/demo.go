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

	"timesync/internal/badnet"
	"timesync/internal/program"
	"timesync/internal/testkit"
	"timesync/session"
)

const (
	size    = 5                // peers
	ending  = 28 * time.Second // true time
	settled = 6 * time.Second  // how long after its start a peer must agree with the others
	look    = 10 * time.Millisecond
)

// Limits of the test. Bounds and order hold on any machine. A busy machine, which sends and
// receives datagrams late, is less accurate.
const (
	apartMost = 1000 // us, for the p99 of how far apart peers are
	rounded   = 2    // us: clocks show whole microseconds
)

// script lists what happens, in true time.
var script = []struct {
	at   time.Duration
	what string
	do   func(g *group)
}{
	{
		at:   11 * time.Second,
		what: "the host, peer 1, is killed",
		do:   func(g *group) { g.peers[0].Close() },
	},
	{
		at:   13 * time.Second,
		what: "peer 1 restarts, with another clock",
		do:   func(g *group) { g.birth(0) },
	},
	{
		at:   18 * time.Second,
		what: "1, 2 and 3 are cut off from 4 and 5",
		do:   func(g *group) { g.apart.Store(true) },
	},
	{
		at:   23 * time.Second,
		what: "they meet again",
		do:   func(g *group) { g.apart.Store(false) },
	},
}

// group is the peers, the networks in front of them, and the results.
type group struct {
	config
	rng    *random.Rand
	peers  [size]*peer           // peer 1 is the first
	last   [size]session.Reading // the last of each peer since its start; 0: none yet
	relays [size]*badnet.Relay
	apart  atomic.Bool   // 1, 2 and 3 from 4 and 5
	clock  program.Clock // the founder's: session time

	// The distances between the two peers that are furthest apart, us.
	aparts []int64
	// Counts of readings beyond their bound, of readings that went back, and of steps.
	wrong, back, steps int
}

// demo plays the script and prints the session time of each peer.
func demo(ctx context.Context, c config, out io.Writer) *group {
	g := &group{config: c, rng: random.New(random.NewPCG(c.Network.Seed, 49))}
	g.at = make([]netip.AddrPort, size)
	rand.Read(g.Key[:])
	defer g.close()
	for i := range size {
		g.birth(i)
	}
	founder := g.peers[0]
	g.clock = founder.clock
	// No error: the founder is in no session.
	_ = founder.member.Create(founder.started, founder.started)
	n := c.Network
	fmt.Fprintf(out, "%d peers, each connected to each; ", size)
	fmt.Fprintf(out, "delay %v and jitter up to %v, ", n.Delay, n.Jitter)
	fmt.Fprintf(out, "%g %% lost, %g %% reordered; ", n.Loss, n.Reorder)
	fmt.Fprintf(out, "clocks up to %g ppm off; -seed %d\n", c.Skew, n.Seed)
	fmt.Fprint(out, "Each peer's session time, minus the founder's clock, with its bound; ")
	fmt.Fprintln(out, "its host and generation:")
	g.play(ctx, out)
	return g
}

// birth starts a peer that knows nothing, with its own clock and socket. The first time, it puts a
// network in front of the peer.
func (g *group) birth(i int) {
	conn := badnet.Loopback()
	if r := g.relays[i]; r != nil {
		r.Move(badnet.Addr(conn))
	} else {
		network := g.Network
		network.Seed += uint64(i)
		g.relays[i] = badnet.New(network, badnet.Addr(conn))
		g.at[i] = g.relays[i].Addr()
	}
	clock := program.Clock{Start: g.rng.Uint64(), PPM: g.Skew * (2*g.rng.Float64() - 1)}
	p := newPeer(uint64(i)+1, g.Key, clock, g.at)
	p.cut = func(a, b uint64) bool { return g.apart.Load() && (a <= 3) != (b <= 3) }
	p.start(conn)
	g.peers[i] = p
	g.last[i] = session.Reading{}
}

func (g *group) close() {
	for i, p := range g.peers {
		p.Close() // it may be closed already
		g.relays[i].Close()
	}
}

// play follows the script and looks at all peers meanwhile.
func (g *group) play(ctx context.Context, out io.Writer) {
	var since, shown time.Duration
	next := 0 // index in script
	begun := program.True()
	for ; ctx.Err() == nil && since < ending; program.Sleep(ctx, look) {
		now := program.True()
		since = now - begun
		if next < len(script) && since >= script[next].at {
			fmt.Fprintf(out, "%6.1f s  %s\n", since.Seconds(), script[next].what)
			script[next].do(g)
			next++
		}
		line := g.look(now.Microseconds())
		if since-shown >= 2*time.Second {
			shown = since
			fmt.Fprintf(out, "%6.1f s%s\n", since.Seconds(), line)
		}
	}
}

// look reads all clocks at one moment of true time, and judges the readings.
func (g *group) look(now int64) (line string) {
	var offs []int64 // of peers that have settled
	for i, p := range g.peers {
		local := p.clock.At(now)
		reading, ok := p.member.Read(local)
		if !ok || p.Ctx.Err() != nil {
			line += fmt.Sprintf("%28s", "-")
			continue
		}
		off := int64(reading.Usec - g.clock.At(now))
		bound := float64(reading.Bound) / float64(time.Millisecond)
		line += fmt.Sprintf("  %+5d us +-%3.0f ms, %d gen %d",
			off, bound, reading.Host, reading.Generation)
		g.judge(i, reading, off)
		if passed(local, p.started) >= settled {
			offs = append(offs, off)
		}
	}
	if len(offs) > 1 {
		g.aparts = append(g.aparts, slices.Max(offs)-slices.Min(offs))
	}
	return line
}

// judge counts what is wrong with a reading of peer i, which is off by off us.
func (g *group) judge(i int, reading session.Reading, off int64) {
	last := g.last[i]
	g.last[i] = reading
	if max(off, -off)-rounded > reading.Bound.Microseconds() {
		g.wrong++
	}
	if last.Generation == 0 {
		return
	}
	if reading.Steps == last.Steps && int64(reading.Usec-last.Usec) < 0 {
		g.back++
	}
	g.steps += int(reading.Steps - last.Steps)
}

// host returns the host that all followed in the end, or 0.
func (g *group) host() uint64 {
	first := g.last[0]
	for _, r := range g.last {
		if r.Host != first.Host || r.Generation != first.Generation {
			return 0
		}
	}
	return first.Host
}

// print prints the results. The error says what must not happen on any machine. If exact, it also
// says that peers agreed too badly.
func (g *group) print(out io.Writer, exact bool) error {
	apart := testkit.SpreadOf(g.aparts)
	fmt.Fprintf(out, "\nfrom %v after a start, two peers are apart, us: ", settled)
	fmt.Fprintf(out, "%v (median/99th percentile/most of %d)\n", apart, apart.Samples)
	fmt.Fprintf(out, "%d readings beyond the bound, %d went back; ", g.wrong, g.back)
	fmt.Fprintf(out, "%d steps; host %d at the end\n", g.steps, g.host())
	switch {
	case g.wrong > 0 || g.back > 0:
		return errors.New("a reading is beyond the bound, or went back")
	case !exact:
		return nil
	case apart.P99 > apartMost || g.steps > 0:
		return fmt.Errorf("peers must agree within %d us (p99), without a step", apartMost)
	case g.host() == 0:
		return errors.New("the members do not agree on one host at the end")
	}
	return nil
}
