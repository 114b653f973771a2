// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	random "math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
	"timesync/internal/stat"
	"timesync/session"
)

const size = 5 // peers

// The script, in true time.
const (
	kill   = 11 * time.Second // peer 1, the founder and host, dies
	back   = 13 * time.Second // it starts anew
	split  = 18 * time.Second // 1, 2 and 3 are cut off from 4 and 5
	meet   = 23 * time.Second
	ending = 28 * time.Second

	settled = 5 * time.Second // how long after it has joined a peer is judged
	look    = 10 * time.Millisecond
)

// What is judged. Bounds and order hold on any machine. A machine that is so busy that datagrams
// are sent and received late is less accurate.
const (
	apartMost = 1000 // us: p99 of how far peers are apart
	jumpMost  = 2000 // us: by how much session time jumps when another host is followed
)

// party is the peers and the networks between them.
type party struct {
	config
	rng    *random.Rand
	peers  [size + 1]*guest // by identity, from 1 on
	apart  atomic.Bool      // 1, 2 and 3 from 4 and 5
	begun  time.Duration    // true time
	clock  program.Clock    // of the founder
	zero   uint64           // session time minus that clock
	known  bool
	relays []*relay.Relay
	result result
}

// guest is a peer as the judge sees it.
type guest struct {
	*peer
	dials  map[uint64]netip.AddrPort // the networks to those that it calls
	alive  bool
	joined time.Duration
	last   session.Reading // 0 before there is one
	off    int64           // of last, from the founder's clock, us
	jumped time.Duration   // when the jump to another host will be over; 0: there is none
	before int64           // off before it
}

// result is what the judge found, in microseconds.
type result struct {
	Seed      uint64      `json:"seed"`
	Apart     stat.Spread `json:"apart"`                // the two peers that are furthest apart
	Jumps     stat.Spread `json:"jumps"`                // when another host is followed
	Heals     stat.Spread `json:"jumps_when_they_meet"` // the two halves
	Founder   stat.Spread `json:"off_founder"`          // from the founder's clock
	Bound     stat.Spread `json:"bound"`                // to that
	Readings  int         `json:"readings"`
	Wrong     int         `json:"beyond_bound"`      // readings
	WrongHost int         `json:"beyond_host_bound"` // pairs of readings
	Back      int         `json:"went_back"`         // readings
	Steps     int         `json:"steps"`
	Host      uint64      `json:"host"` // at the end; 0: not the same for all

	apart, jumps, heals, founder, bound []int64
}

func demo(ctx context.Context, c config, stdout io.Writer) error {
	x := &party{config: c, rng: random.New(random.NewPCG(c.Network.Seed, 49)), begun: program.True()}
	defer x.close()
	if err := x.open(); err != nil {
		return err
	}
	if !c.JSON {
		n := c.Network
		fmt.Fprintf(stdout, "%d peers, each connected to each; delay %v and jitter up to %v, %g %% lost, %g %% overtaken; clocks up to %g ppm off; -seed %d\n",
			size, n.Delay, n.Jitter, n.Loss, n.Reorder, c.Skew, n.Seed)
		fmt.Fprintln(stdout, "Each peer's session time, minus the founder's clock, with its bound; its host and generation:")
	}
	if err := x.play(ctx, stdout); err != nil {
		return err
	}
	r := x.judge()
	wrong := r.check()
	if n := c.Network; n.Asymmetry != 0 || n.Up.By != 0 || n.Down.By != 0 {
		wrong = r.honest() // with unequal ways nobody can agree better
	}
	return program.Conclude(stdout, c.JSON, r, r.print, wrong)
}

// open opens the sockets and the networks between them, and starts the peers.
func (x *party) open() error {
	rand.Read(x.Key[:])
	var conns [size + 1]*net.UDPConn
	for id := uint64(1); id <= size; id++ {
		conn, err := relay.Loopback()
		if err != nil {
			return err
		}
		conns[id] = conn
		g := &guest{dials: map[uint64]netip.AddrPort{}}
		x.peers[id] = g
		for other := uint64(1); other < id; other++ {
			network := x.Network
			network.Seed += id*size + other
			r, err := relay.New(network, relay.Addr(conns[other]))
			if err != nil {
				return err
			}
			x.relays = append(x.relays, r)
			g.dials[other] = r.Addr()
		}
		for other := id + 1; other <= size; other++ {
			g.dials[other] = netip.AddrPort{} // it calls
		}
	}
	for id := uint64(1); id <= size; id++ {
		x.birth(id, conns[id])
	}
	return nil
}

// birth starts a peer that knows nothing, with a clock of its own.
func (x *party) birth(id uint64, conn *net.UDPConn) {
	g := x.peers[id]
	clock := program.Clock{Start: x.rng.Uint64(), PPM: x.Skew * (2*x.rng.Float64() - 1)}
	g.peer, g.alive, g.last, g.off, g.jumped = newPeer(id, x.Key, clock, conn, g.dials), true, session.Reading{}, 0, 0
	g.cut = func(a, b uint64) bool { return x.apart.Load() && (a <= 3) != (b <= 3) }
	g.founds = id == 1 && !x.known // so that it is known whose clock counts
	g.start()
}

// rebirth starts one anew that has died.
func (x *party) rebirth(id uint64) error {
	conn, err := relay.Loopback()
	if err != nil {
		return err
	}
	for _, r := range x.relays {
		r.Move(relay.Addr(x.peers[id].conn), relay.Addr(conn))
	}
	x.birth(id, conn)
	return nil
}

func (x *party) death(id uint64) {
	x.peers[id].close()
	x.peers[id].alive = false
}

func (x *party) close() {
	for _, g := range x.peers {
		if g != nil && g.alive {
			g.close()
		}
	}
	for _, r := range x.relays {
		r.Close()
	}
}

// script is what happens.
var script = []struct {
	at   time.Duration
	what string
	do   func(x *party) error
}{
	{kill, "the host, peer 1, is killed", func(x *party) error { x.death(1); return nil }},
	{back, "peer 1 starts anew, with another clock", func(x *party) error { return x.rebirth(1) }},
	{split, "1, 2 and 3 are cut off from 4 and 5", func(x *party) error { x.apart.Store(true); return nil }},
	{meet, "they meet again", func(x *party) error { x.apart.Store(false); return nil }},
}

// play lets things happen, and looks.
func (x *party) play(ctx context.Context, stdout io.Writer) error {
	say := func(text string) {
		if !x.JSON {
			fmt.Fprintln(stdout, text)
		}
	}
	script := script
	shown := time.Duration(0)
	for ; ctx.Err() == nil; program.Sleep(ctx, look) {
		now := program.True()
		since := now - x.begun
		if len(script) > 0 && since >= script[0].at {
			say(fmt.Sprintf("%6.1f s  %s", since.Seconds(), script[0].what))
			if err := script[0].do(x); err != nil {
				return err
			}
			script = script[1:]
		}
		line := x.look(now.Microseconds(), since)
		if since-shown >= 2*time.Second {
			shown = since
			say(fmt.Sprintf("%6.1f s%s", since.Seconds(), line))
		}
		if since >= ending {
			return nil
		}
	}
	return ctx.Err()
}

// look reads all clocks at one moment of true time.
func (x *party) look(now int64, since time.Duration) (line string) {
	var readings [size + 1]session.Reading
	low, high, n := int64(math.MaxInt64), int64(math.MinInt64), 0
	for id := uint64(1); id <= size; id++ {
		g := x.peers[id]
		local := g.clock.At(now)
		reading, ok := session.Reading{}, false
		if g.alive {
			reading, ok = g.member.Read(local)
		}
		if !ok {
			line += fmt.Sprintf("%28s", "-")
			continue
		}
		if !x.known && reading.Host == id { // it has founded the session
			x.clock, x.zero, x.known = g.clock, reading.Usec-local, true
		}
		off := int64(reading.Usec - x.zero - x.clock.At(now))
		line += fmt.Sprintf("  %+5d us +-%3.0f ms, %d gen %d", off, ms(reading.Bound), reading.Host, reading.Generation)
		readings[id] = reading
		x.judgeOne(g, reading, off, since)
		if since-g.joined >= settled {
			low, high, n = min(low, off), max(high, off), n+1
		}
	}
	if n > 1 {
		x.result.apart = append(x.result.apart, high-low)
	}
	x.judgeAll(readings[1:])
	return line
}

// judgeAll judges the readings of one moment: those of one host agree. The host is that of all, or 0.
func (x *party) judgeAll(readings []session.Reading) {
	r := &x.result
	r.Host = readings[0].Host
	for i, p := range readings {
		for _, q := range readings[:i] {
			// Clocks are read in whole microseconds.
			if p.Generation > 0 && p.Generation == q.Generation && p.Host == q.Host && abs(int64(p.Usec-q.Usec))-2 > (p.HostBound+q.HostBound).Microseconds() {
				r.WrongHost++
			}
		}
		if p.Host != readings[0].Host || p.Generation != readings[0].Generation {
			r.Host = 0
		}
	}
}

// judgeOne judges one reading, which is off by so much.
func (x *party) judgeOne(g *guest, reading session.Reading, off int64, since time.Duration) {
	r := &x.result
	r.Readings++
	if abs(off)-2 > reading.Bound.Microseconds() {
		r.Wrong++
	}
	if g.last.Generation == 0 {
		g.joined = since
	} else {
		if reading.Steps == g.last.Steps && int64(reading.Usec-g.last.Usec) < 0 {
			r.Back++
		}
		r.Steps += int(reading.Steps - g.last.Steps)
		if (reading.Host != g.last.Host || reading.Generation != g.last.Generation) && since-g.joined >= settled {
			g.before, g.jumped = g.off, since+500*time.Millisecond
		}
	}
	if g.jumped > 0 && since >= g.jumped {
		jump := abs(off - g.before)
		if g.jumped = 0; since > meet {
			r.heals = append(r.heals, jump)
		} else {
			r.jumps = append(r.jumps, jump)
		}
	}
	if since-g.joined >= settled {
		r.founder, r.bound = append(r.founder, abs(off)), append(r.bound, reading.Bound.Microseconds())
	}
	g.last, g.off = reading, off
}

func (x *party) judge() *result {
	r := &x.result
	r.Seed = x.Network.Seed
	r.Apart, r.Jumps, r.Heals = stat.SpreadOf(r.apart), stat.SpreadOf(r.jumps), stat.SpreadOf(r.heals)
	r.Founder, r.Bound = stat.SpreadOf(r.founder), stat.SpreadOf(r.bound)
	return r
}

func (r *result) print(out io.Writer) {
	fmt.Fprintf(out, "\nfrom %v after a peer has joined, us: median/99th percentile/most (how many)\n", settled)
	fmt.Fprintf(out, "  two peers are apart        %v (%d)\n", r.Apart, r.Apart.Samples)
	fmt.Fprintf(out, "  a jump at a handover       %v (%d)\n", r.Jumps, r.Jumps.Samples)
	fmt.Fprintf(out, "  a jump when halves meet    %v (%d)\n", r.Heals, r.Heals.Samples)
	fmt.Fprintf(out, "  off the founder's clock    %v (%d)\n", r.Founder, r.Founder.Samples)
	fmt.Fprintf(out, "  the bound to that          %v (%d)\n", r.Bound, r.Bound.Samples)
	fmt.Fprintf(out, "of %d readings, %d beyond the bound, %d went back; %d pairs beyond their bounds; %d steps; host %d at the end\n",
		r.Readings, r.Wrong, r.Back, r.WrongHost, r.Steps, r.Host)
}

// honest says what must never happen, on any machine.
func (r *result) honest() error {
	if r.Wrong > 0 || r.WrongHost > 0 || r.Back > 0 {
		return fmt.Errorf("%d readings beyond the bound, %d pairs beyond theirs, %d readings that went back", r.Wrong, r.WrongHost, r.Back)
	}
	return nil
}

func (r *result) check() error {
	err := r.honest()
	if r.Apart.P99 > apartMost || r.Jumps.Max > jumpMost || r.Heals.Max > jumpMost || r.Steps > 0 {
		err = errors.Join(err, fmt.Errorf("peers are to agree within %d us (p99), and session time to jump by less than %d us", apartMost, jumpMost))
	}
	if r.Host == 0 || r.Jumps.Samples == 0 || r.Heals.Samples == 0 {
		err = errors.Join(err, errors.New("there is not one host for all at the end, or there was no handover"))
	}
	return err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func abs(v int64) int64 { return max(v, -v) }
