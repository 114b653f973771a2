// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
	"timesync/examples/seal"
)

// world is the demo: peer A calls peer B through a relay, and each has a judge.
type world struct {
	config      config
	appointment *appointment // nil: none is wanted
	relay       *relay.Relay
	peers       [2]*peer
	judges      [2]*judge
	sent        [2]*outbox
	recordings  [2]*program.Recording
	closed      sync.Once
	end         time.Duration // true time of close
}

var names = [2]string{"peer A", "peer B"}

// newWorld opens the sockets; no peer sends before start.
func newWorld(c config) (*world, error) {
	w := &world{config: c, sent: [2]*outbox{{}, {}}}
	if c.at > 0 {
		w.appointment = &appointment{ahead: c.at}
	}
	b, err := relay.Loopback()
	if err != nil {
		return nil, err
	}
	a, err := relay.Loopback()
	if err != nil {
		return nil, err
	}
	if w.relay, err = relay.New(c.Network, relay.Addr(b)); err != nil {
		return nil, err
	}
	for i, conn := range []*net.UDPConn{a, b} {
		w.birth(i, conn)
		// An earlier life of the peer, of which the attacker has kept a datagram.
		w.relay.Recordings[1-i] = seal.New(c.Key, uint64(i)).Seal(nil, make([]byte, payloadLen), 12345)
	}
	for i, j := range w.judges {
		j.remote = w.peers[1-i].clock
	}
	if c.record == "" {
		return w, nil
	}
	for i, suffix := range [...]string{"", peerSuffix} {
		if w.recordings[i], err = program.Record(&w.peers[i].end.Link, c.record+suffix); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// birth makes peer i. Its clock is its own: a process that counts from its start, or a machine that
// has booted, begins somewhere else.
func (w *world) birth(i int, conn *net.UDPConn) {
	rng := rand.New(rand.NewPCG(w.config.Network.Seed, 1+uint64(i)))
	skew := w.config.Skew / 2 // half is A's, slow, and half B's, fast
	if i == 0 {
		skew = -skew
	}
	p := &peer{
		end: seal.New(w.config.Key, uint64(i)), conn: conn,
		clock: clock{program.Clock{Start: rng.Uint64(), PPM: skew}},
	}
	if i == 0 {
		p.dial = w.relay.Addr()
	}
	w.judges[i] = &judge{
		peer: p, start: program.True(), rng: rng, mine: w.sent[i], other: w.sent[1-i],
		appointment: w.appointment,
	}
	p.rider = w.judges[i]
	w.peers[i] = p
}

// start lets the attacker begin, and then the peers.
func (w *world) start() {
	w.relay.Attack.Store(true)
	for _, p := range w.peers {
		p.start(w.config.rate)
	}
}

// close lets what is on the last yards arrive, so that the counts agree.
func (w *world) close() {
	w.closed.Do(func() {
		w.end = program.True()
		for _, p := range w.peers {
			p.hush()
		}
		w.relay.Close()
		time.Sleep(50 * time.Millisecond)
		for _, p := range w.peers {
			p.close()
		}
	})
}

func demo(ctx context.Context, c config, stdout, stderr io.Writer) error {
	w, err := newWorld(c)
	if err != nil {
		return err
	}
	progress := stdout
	if c.JSON {
		progress = stderr // and stdout holds nothing but the JSON
	}
	n := c.Network
	fmt.Fprintf(progress, "%v of %g datagrams/s each way, %g %% lost, %g %% overtaken\n", c.For, c.rate, n.Loss, n.Reorder)
	fmt.Fprintf(progress, "delay %v and jitter from %v to %v\n", n.Delay, time.Duration(relay.JitterFloor*float64(n.Jitter)), n.Jitter)
	fmt.Fprintf(progress, "clocks anywhere and %g ppm apart; -seed %d\n", c.Skew, n.Seed)
	w.start()
	fmt.Fprintln(progress, program.ReceiveTimes(w.peers[0].rx))
	ctx, stop := c.Limit(ctx)
	defer stop()
	eachSecond(ctx, progress, w.progress)
	w.close()
	if err := errors.Join(w.recordings[0].Close(), w.recordings[1].Close()); err != nil {
		return err
	}

	r := w.report()
	if r.Failed != "" {
		err = errors.New(r.Failed)
	}
	return program.Conclude(stdout, c.JSON, r, r.print, err)
}

// progress is a line for each peer: how far its idea of the other's clock is off, and more.
func (w *world) progress() string {
	var lines []string
	for i, p := range w.peers {
		now := program.True()
		offset := "not synchronized"
		if err, ok := w.judges[i].offsetError(now); ok {
			offset = fmt.Sprintf("error %+5d us", err)
		}
		bound, _ := p.end.Link.ErrorBound(p.clock.at(now))
		delay, _ := p.end.Link.MinimumOneWayDelay()
		rejected, _ := p.rejected()
		lines = append(lines, fmt.Sprintf("%s %4.1f s  %s bound %.1f ms  %s  %d in, %d rejected  min OWD %.3f ms",
			names[i], now.Seconds(), offset, ms(bound), p.silence(now), p.tally(nil).n, rejected, ms(delay)))
	}
	return strings.Join(lines, "\n")
}

func (w *world) report() *report {
	c, now := w.config, w.end
	if now == 0 {
		now = program.True()
	}
	r := &report{
		For: seconds(c.For), CountsAfter: settling.Seconds(), Rate: c.rate, Delay: ms(c.Network.Delay),
		JitterMin: ms(time.Duration(relay.JitterFloor * float64(c.Network.Jitter))), JitterMax: ms(c.Network.Jitter),
		Loss: c.Network.Loss, Skew: c.Skew, Asymmetry: ms(c.Network.Asymmetry), Seed: c.Network.Seed,
	}
	if w.appointment != nil {
		if r.Appointment = w.appointment.results(); r.Appointment == nil {
			r.Failed = "the end came before the instant"
		}
	}
	for i, j := range w.judges {
		r.Peers[i] = j.results(names[i], now)
		for kind, err := range injected {
			r.Peers[i].Injected[err.Error()] += w.relay.Injected(relay.Way(i), kind)
		}
		if n := r.Peers[i].IntrudersPassed; n > 0 {
			r.Failed = fmt.Sprintf("%s took %d datagrams that nobody had sent", names[i], n)
		} else if !r.Peers[i].Synchronized && r.Failed == "" {
			r.Failed = names[i] + " never synchronized"
		}
	}
	return r
}
