// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"timesync/clock"
	"timesync/examples/internal/program"
	"timesync/examples/seal"
	"timesync/rxtime"
	"timesync/tick"
)

// play plays the whole game, or one side of it.
func play(ctx context.Context, c config, stdout, stderr io.Writer) error {
	if !c.Alone() {
		return runDemo(ctx, c, stdout, stderr)
	}
	ctx, stop := c.Limit(ctx)
	defer stop()
	if c.Listen != "" {
		return serve(ctx, c, stdout)
	}
	return join(ctx, c, stdout)
}

func serve(ctx context.Context, c config, stdout io.Writer) error {
	s, err := newServer(c)
	if err != nil {
		return err
	}
	return s.play(ctx, s, stdout, c.JSON)
}

func join(ctx context.Context, c config, stdout io.Writer) error {
	p, err := newPlayer(c)
	if err != nil {
		return err
	}
	return p.play(ctx, p, stdout, c.JSON)
}

// node is what a server and a player have in common: a socket, a clock, and the notes
// that they take of themselves.
type node struct {
	who    string
	clock  program.Clock // from a start and at a rate of its own: no two processes agree by chance
	rng    *rand.Rand
	udp    *net.UDPConn
	server netip.AddrPort // where a player sends to
	rx     program.Reader // reads udp, with the kernel's receive times, where it has them
	begun  uint64         // the reading of package clock when it started
	wall   int64          // the wall clock minus package clock when it started, microseconds

	recordings recordings // of the goroutine that receives, once it runs

	mu     sync.Mutex // guards what follows, and the state of the game
	ledger ledger
	events []string  // not yet printed
	stalls []stretch // not yet printed
}

// stretch is a time from and to, on the wall clock, in microseconds since 1970.
type stretch [2]int64

func newNode(who string, c config) (*node, error) {
	rng := rand.New(rand.NewPCG(c.Network.Seed, 0))
	udp, server, err := program.Open(c.Listen, c.Dial)
	if err != nil {
		return nil, err
	}
	n := &node{
		who: who, clock: program.Clock{Start: rng.Uint64(), PPM: c.Skew}, rng: rng, udp: udp, server: server,
		begun: clock.Now(), wall: wallMinusNow(), recordings: recordings{folder: c.record},
	}
	n.rx = program.Reader{Conn: rxtime.NewConn(udp), Clock: n.clock}
	n.events = []string{fmt.Sprintf("at %v; %s", udp.LocalAddr(), program.ReceiveTimes(n.rx.Conn))}
	return n, nil
}

// wallMinusNow compares two clocks that the machine cannot read at once: the quickest of
// some tries was not interrupted.
func wallMinusNow() (usec int64) {
	const tries = 10
	quickest := uint64(1 << 63)
	for range tries {
		before := clock.Now()
		wall := time.Now().UnixMicro()
		after := clock.Now()
		if took := after - before; took < quickest {
			quickest, usec = took, wall-int64(before+took/2)
		}
	}
	return usec
}

// write sends a datagram. An error is a loss like any other.
func (n *node) write(b []byte, to netip.AddrPort) { _, _ = n.udp.WriteToUDPAddrPort(b, to) }

// side is a server or a player.
type side interface {
	take(b []byte, from netip.AddrPort, recvUsec uint64) // a datagram
	run(ctx context.Context, tasks *sync.WaitGroup)      // until ctx ends
	status() status
}

// play lets a side play until ctx ends, and prints how it goes.
func (n *node) play(ctx context.Context, s side, out io.Writer, asJSON bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var tasks sync.WaitGroup
	tasks.Go(func() { seal.Receive(n.rx, s.take) })
	tasks.Go(func() { n.watchStalls(ctx) })
	s.run(ctx, &tasks)
	err := report(ctx, out, asJSON, s.status)
	cancel()
	n.udp.Close()
	tasks.Wait()
	return errors.Join(err, n.recordings.close())
}

// note keeps an event for the next status.
func (n *node) note(e tick.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ledger.event(e)
	n.events = append(n.events, e.String())
}

// say keeps a sentence for the next status.
func (n *node) say(sentence string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, sentence)
}

// ran enters a tick in the ledger. The caller holds the lock.
func (n *node) ran(at tick.Tick) {
	if wrong := n.ledger.ran(at); wrong != "" {
		n.events = append(n.events, wrong)
	}
}

// watchStalls notes when this process did not run although it wanted to: what happens
// then says something about the machine, and nothing about the game.
func (n *node) watchStalls(ctx context.Context) {
	watchStalls(ctx, n.wall, func(s stretch) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.stalls = append(n.stalls, s)
	})
}

const (
	stallProbe = 2 * time.Millisecond
	// stallLeast is what the relay may be late without a consequence: a lead that has set itself
	// has little to spare.
	stallLeast = 5 * time.Millisecond
)

func watchStalls(ctx context.Context, wall int64, found func(stretch)) {
	for ctx.Err() == nil {
		before := clock.Now()
		time.Sleep(stallProbe)
		after := clock.Now()
		if time.Duration(after-before)*time.Microsecond > stallProbe+stallLeast {
			found(stretch{wall + int64(before), wall + int64(after)})
		}
	}
}

// clocks is what a tick.Server and a tick.Client have in common here.
type clocks interface {
	SharedTime(nowUsec uint64) (tick.Time, bool)
	Epoch() (uint64, bool)
}

// newStatus returns the notes since the last one. The caller holds the lock.
func (n *node) newStatus(c clocks) status {
	now := clock.Now()
	s := status{
		Who: n.who, Wall: n.wall + int64(now), Seconds: float64(now-n.begun) / 1e6,
		Kernel: n.rx.Kernel(), Ticks: n.ledger.counts, Events: n.events, Stalls: n.stalls,
	}
	n.events, n.stalls = nil, nil
	epoch, known := c.Epoch()
	game, ok := c.SharedTime(n.clock.At(program.Elapsed(now).Microseconds()))
	if known && ok {
		s.Epoch, s.Game = epoch, game.Duration().Microseconds()
	}
	return s
}

// status is a line of what a process says about itself. Counts are those since its start.
type status struct {
	Who     string         `json:"who"`
	Wall    int64          `json:"wall_us"`         // when, microseconds since 1970
	Seconds float64        `json:"s"`               // since the start of the process
	Epoch   uint64         `json:"epoch"`           // of the game time; 0 while that is not known
	Game    int64          `json:"game_us"`         // the shared game time, microseconds
	Listen  netip.AddrPort `json:"listen,omitzero"` // of a server: its address
	Kernel  bool           `json:"kernel_receive_times"`
	Ticks   tickCounts     `json:"ticks"`            // of the ledger
	Inputs  *inputCounts   `json:"inputs,omitempty"` // of a server
	Player  *playerCounts  `json:"player,omitempty"` // of a player
	Events  []string       `json:"events,omitempty"` // since the last status
	Stalls  []stretch      `json:"stalls,omitempty"` // since the last status
	Lates   []stretch      `json:"lates,omitempty"`  // since the last status: from a tick to its late input
}

// inputCounts counts the inputs for ticks that the server has run. Each is counted once.
type inputCounts struct {
	Players int    `json:"players,omitempty"` // that are heard
	InTime  uint64 `json:"in_time"`           // came before their tick
	Late    uint64 `json:"late"`              // came after it
	Waited  uint64 `json:"waited"`            // came after it, but because a process did not run when it wanted to
	Missing uint64 `json:"missing"`           // never came, though a later one did
}

// playerCounts counts what a player sees.
type playerCounts struct {
	InSync    bool   `json:"in_sync"`   // the server's clock is known
	Corrected uint64 `json:"corrected"` // states in which the own figure was not where predicted
	Shown     uint64 `json:"shown"`     // ticks for which the state of the others had arrived
	Frozen    uint64 `json:"frozen"`    // and for which it had not

	Lead float64 `json:"lead_ms"`      // how far ahead of the server it plays
	Late float64 `json:"late_percent"` // of its inputs of the last minute, by the server's word
}

func (s status) String() string {
	line := fmt.Sprintf("%-8s %5.1f s  %v", s.Who, s.Seconds, s.Ticks)
	if i := s.Inputs; i != nil {
		line += fmt.Sprintf("; %d playing; inputs: %d in time, %d late, %d missing", i.Players, i.InTime, i.Late+i.Waited, i.Missing)
	}
	if p := s.Player; p != nil {
		sync := "in sync"
		if !p.InSync {
			sync = "not in sync"
		}
		line += fmt.Sprintf("; %s, lead %.1f ms, %.2f %% late, %d corrected, %d shown, %d frozen", sync, p.Lead, p.Late, p.Corrected, p.Shown, p.Frozen)
	}
	return line
}

// statusEvery is the time between two lines: often for programs, seldom for people.
const (
	statusEvery     = time.Second
	statusEveryJSON = 100 * time.Millisecond
)

// report prints a status now and then, and when ctx ends.
func report(ctx context.Context, out io.Writer, asJSON bool, status func() status) error {
	period := statusEvery
	if asJSON {
		period = statusEveryJSON
	}
	every := time.NewTicker(period)
	defer every.Stop()
	for {
		if err := printStatus(out, asJSON, status()); err != nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-every.C:
		case <-ctx.Done():
		}
	}
}

func printStatus(out io.Writer, asJSON bool, s status) error {
	if asJSON {
		return json.NewEncoder(out).Encode(s)
	}
	for _, e := range s.Events {
		fmt.Fprintf(out, "%-8s %s\n", s.Who, e)
	}
	_, err := fmt.Fprintln(out, s)
	return err
}
