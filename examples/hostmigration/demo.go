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
	settled = 6 * time.Second  // how long after its start a peer has to agree with others
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

// party is the peers and the networks in front of them, and what the judge found.
type party struct {
	config
	rng    *random.Rand
	peers  [size]*peer           // peer 1 is the first
	last   [size]session.Reading // of each since it started; 0 before there is one
	relays [size]*badnet.Relay
	apart  atomic.Bool   // 1, 2 and 3 from 4 and 5
	clock  program.Clock // of the founder: session time

	// How far the two peers are apart that are furthest apart, us.
	aparts []int64
	// Readings beyond their bound, and such as went back; jumps.
	wrong, back, steps int
}

// demo plays the script, and prints what the peers think.
func demo(ctx context.Context, c config, out io.Writer) *party {
	x := &party{config: c, rng: random.New(random.NewPCG(c.Network.Seed, 49))}
	x.at = make([]netip.AddrPort, size)
	rand.Read(x.Key[:])
	defer x.close()
	for i := range size {
		x.birth(i)
	}
	founder := x.peers[0]
	x.clock = founder.clock
	_ = founder.member.Found(founder.started, founder.started) // which has no error: it is in no session
	n := c.Network
	fmt.Fprintf(out, "%d peers, each connected to each; delay %v and jitter up to %v, ", size, n.Delay, n.Jitter)
	fmt.Fprintf(out, "%g %% lost, %g %% overtaken; clocks up to %g ppm off; -seed %d\n", n.Loss, n.Reorder, c.Skew, n.Seed)
	fmt.Fprintln(out, "Each peer's session time, minus the founder's clock, with its bound; its host and generation:")
	x.play(ctx, out)
	return x
}

// birth starts a peer that knows nothing, with a clock and a socket of its own, and the first time with
// a network in front of it.
func (x *party) birth(i int) {
	conn := badnet.Loopback()
	if r := x.relays[i]; r != nil {
		r.Move(badnet.Addr(conn))
	} else {
		network := x.Network
		network.Seed += uint64(i)
		x.relays[i] = badnet.New(network, badnet.Addr(conn))
		x.at[i] = x.relays[i].Addr()
	}
	clock := program.Clock{Start: x.rng.Uint64(), PPM: x.Skew * (2*x.rng.Float64() - 1)}
	p := newPeer(uint64(i)+1, x.Key, clock, x.at)
	p.cut = func(a, b uint64) bool { return x.apart.Load() && (a <= 3) != (b <= 3) }
	p.start(conn)
	x.peers[i], x.last[i] = p, session.Reading{}
}

func (x *party) close() {
	for i, p := range x.peers {
		p.Close() // which may have happened
		x.relays[i].Close()
	}
}

// play lets things happen, and looks.
func (x *party) play(ctx context.Context, out io.Writer) {
	shown, since := time.Duration(0), time.Duration(0)
	script, begun := script, program.True()
	for ; ctx.Err() == nil && since < ending; program.Sleep(ctx, look) {
		now := program.True()
		since = now - begun
		if len(script) > 0 && since >= script[0].at {
			fmt.Fprintf(out, "%6.1f s  %s\n", since.Seconds(), script[0].what)
			script[0].do(x)
			script = script[1:]
		}
		line := x.look(now.Microseconds())
		if since-shown >= 2*time.Second {
			shown = since
			fmt.Fprintf(out, "%6.1f s%s\n", since.Seconds(), line)
		}
	}
}

// look reads all clocks at one moment of true time, and judges what they read.
func (x *party) look(now int64) (line string) {
	var offs []int64 // of those that have been there for long
	for i, p := range x.peers {
		local := p.clock.At(now)
		reading, ok := p.member.Read(local)
		if !ok || p.Ctx.Err() != nil {
			line += fmt.Sprintf("%28s", "-")
			continue
		}
		off := int64(reading.Usec - x.clock.At(now))
		bound := float64(reading.Bound) / float64(time.Millisecond)
		line += fmt.Sprintf("  %+5d us +-%3.0f ms, %d gen %d", off, bound, reading.Host, reading.Generation)
		x.judge(i, reading, off)
		if passed(local, p.started) >= settled {
			offs = append(offs, off)
		}
	}
	if len(offs) > 1 {
		x.aparts = append(x.aparts, slices.Max(offs)-slices.Min(offs))
	}
	return line
}

// judge judges one reading of a peer, which is off by so much, by the last one.
func (x *party) judge(i int, reading session.Reading, off int64) {
	last := x.last[i]
	x.last[i] = reading
	if max(off, -off)-rounded > reading.Bound.Microseconds() {
		x.wrong++
	}
	if last.Generation == 0 {
		return
	}
	if reading.Steps == last.Steps && int64(reading.Usec-last.Usec) < 0 {
		x.back++
	}
	x.steps += int(reading.Steps - last.Steps)
}

// host returns which host all followed at last, or 0.
func (x *party) host() uint64 {
	for _, r := range x.last {
		if r.Host != x.last[0].Host || r.Generation != x.last[0].Generation {
			return 0
		}
	}
	return x.last[0].Host
}

// print prints what came out, and says what is wrong: what must never happen, on any machine, and, if exact, how well
// peers have to agree.
func (x *party) print(out io.Writer, exact bool) error {
	apart := testkit.SpreadOf(x.aparts)
	fmt.Fprintf(out, "\nfrom %v after a start, two peers are apart, us: ", settled)
	fmt.Fprintf(out, "%v (median/99th percentile/most of %d)\n", apart, apart.Samples)
	fmt.Fprintf(out, "%d readings beyond the bound, %d went back; ", x.wrong, x.back)
	fmt.Fprintf(out, "%d steps; host %d at the end\n", x.steps, x.host())
	switch {
	case x.wrong > 0 || x.back > 0:
		return errors.New("a reading is beyond the bound, or went back")
	case !exact:
		return nil
	case apart.P99 > apartMost || x.steps > 0:
		return fmt.Errorf("peers must agree within %d us (p99), without a step", apartMost)
	case x.host() == 0:
		return errors.New("there is not one host for all at the end")
	}
	return nil
}
