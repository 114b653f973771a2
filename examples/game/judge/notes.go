// SPDX-License-Identifier: BSD-3-Clause

package judge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"timesync/clock"
	"timesync/examples/internal/program"
	"timesync/internal/ledger"
	"timesync/tick"
)

// Notes are what a process notes about itself until it says so. All methods may be called from any
// goroutine.
type Notes struct {
	who   string
	begun uint64 // the reading of package clock
	wall  int64  // the wall clock minus package clock when it began, microseconds

	mu     sync.Mutex
	ledger ledger.Ledger
	events []string  // not yet said
	stalls []Stretch // not yet said
}

// Stretch is a time from and to, on the wall clock, in microseconds since 1970.
type Stretch [2]int64

// NewNotes returns those of a process that begins now.
func NewNotes(who string) *Notes {
	t := time.Now() // of both clocks
	return &Notes{who: who, begun: clock.Now(), wall: t.UnixMicro() - int64(clock.At(t))}
}

// Wall is the wall clock in microseconds since 1970, as if it had not been set since the start.
func (n *Notes) Wall() int64 { return n.wall + int64(clock.Now()) }

// Event notes what package tick reports.
func (n *Notes) Event(e tick.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ledger.Event(e)
	n.events = append(n.events, e.String())
}

// Say notes a sentence.
func (n *Notes) Say(sentence string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, sentence)
}

// Ran notes that a tick runs.
func (n *Notes) Ran(at tick.Tick) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if wrong := n.ledger.Ran(at); wrong != "" {
		n.events = append(n.events, wrong)
	}
}

const (
	stallProbe = 2 * time.Millisecond
	// stallLeast is what the relay may be late without a consequence: a lead that has set itself
	// has little to spare.
	stallLeast = 5 * time.Millisecond
)

// WatchStalls notes, until ctx ends, when this process did not run although it wanted to: what
// happens then says something about the machine, and nothing about the game.
func (n *Notes) WatchStalls(ctx context.Context) {
	for ctx.Err() == nil {
		before := n.Wall()
		time.Sleep(stallProbe)
		after := n.Wall()
		if time.Duration(after-before)*time.Microsecond > stallProbe+stallLeast {
			n.mu.Lock()
			n.stalls = append(n.stalls, Stretch{before, after})
			n.mu.Unlock()
		}
	}
}

// Status returns what was noted since the last one. It is of nowUsec, a reading of package clock: what
// the caller adds must be of then, too, or a process that did not run meanwhile seems out of step.
func (n *Notes) Status(nowUsec uint64) Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := Status{
		Who: n.who, Wall: n.wall + int64(nowUsec), Seconds: float64(nowUsec-n.begun) / 1e6,
		Ticks: n.ledger.Counts, Events: n.events, Stalls: n.stalls,
	}
	n.events, n.stalls = nil, nil
	return s
}

// Status is a line of what a process says about itself. Counts are those since its start.
type Status struct {
	Who     string         `json:"who"`
	Wall    int64          `json:"wall_us"`         // when, microseconds since 1970
	Seconds float64        `json:"s"`               // since the start of the process
	Epoch   uint64         `json:"epoch"`           // of the game time; 0 while that is not known
	Game    int64          `json:"game_us"`         // the shared game time, microseconds
	Listen  netip.AddrPort `json:"listen,omitzero"` // of a server: its address
	Kernel  bool           `json:"kernel_receive_times"`
	Ticks   ledger.Counts  `json:"ticks"`            // of the ledger
	Inputs  *InputCounts   `json:"inputs,omitempty"` // of a server
	Player  *PlayerCounts  `json:"player,omitempty"` // of a player
	Events  []string       `json:"events,omitempty"` // since the last status
	Stalls  []Stretch      `json:"stalls,omitempty"` // since the last status
	Lates   []Stretch      `json:"lates,omitempty"`  // since the last status: from a tick to its late input
}

// InputCounts counts the inputs for ticks that the server has run. Each is counted once.
type InputCounts struct {
	Players int    `json:"players,omitempty"` // that are heard
	InTime  uint64 `json:"in_time"`           // came before their tick
	Late    uint64 `json:"late"`              // came after it
	Waited  uint64 `json:"waited"`            // came after it, but because a process did not run when it wanted to
	Missing uint64 `json:"missing"`           // never came, though a later one did
}

// PlayerCounts counts what a player sees.
type PlayerCounts struct {
	InSync    bool   `json:"in_sync"`   // the server's clock is known
	Corrected uint64 `json:"corrected"` // states in which the own figure was not where predicted
	Shown     uint64 `json:"shown"`     // ticks for which the state of the others had arrived
	Frozen    uint64 `json:"frozen"`    // and for which it had not

	Lead float64 `json:"lead_ms"`      // how far ahead of the server it plays
	Late float64 `json:"late_percent"` // of its inputs of the last minute, by the server's word
}

// String is the line for people.
func (s Status) String() string {
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

// Report prints a status now and then, and when ctx ends.
func Report(ctx context.Context, out io.Writer, asJSON bool, status func() Status) error {
	period := statusEvery
	if asJSON {
		period = statusEveryJSON
	}
	for ; ; program.Sleep(ctx, period) {
		if err := printStatus(out, asJSON, status()); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

func printStatus(out io.Writer, asJSON bool, s Status) error {
	if asJSON {
		return json.NewEncoder(out).Encode(s)
	}
	for _, e := range s.Events {
		fmt.Fprintf(out, "%-8s %s\n", s.Who, e)
	}
	_, err := fmt.Fprintln(out, s)
	return err
}
