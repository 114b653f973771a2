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
	begun uint64 // the reading of package clock
	wall  int64  // the wall clock minus package clock when it began, microseconds

	mu     sync.Mutex
	ledger ledger.Ledger
	next   Status // who it is, and what is not yet said
}

// Stretch is a time from and to, on the wall clock, in microseconds since 1970.
type Stretch [2]int64

// NewNotes returns those of a process that begins now.
func NewNotes(who string) *Notes {
	t := time.Now() // of both clocks
	return &Notes{begun: clock.Now(), wall: t.UnixMicro() - int64(clock.At(t)), next: Status{Who: who}}
}

// Wall is the wall clock in microseconds since 1970, as if it had not been set since the start.
func (n *Notes) Wall() int64 { return n.wall + int64(clock.Now()) }

func (n *Notes) note(what func(next *Status)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	what(&n.next)
}

// Say notes a sentence.
func (n *Notes) Say(sentence string) {
	n.note(func(next *Status) { next.Events = append(next.Events, sentence) })
}

// Event notes what package tick reports.
func (n *Notes) Event(e tick.Event) {
	n.Say(e.String())
	n.note(func(*Status) { n.ledger.Event(e) })
}

// Ran notes that a tick runs.
func (n *Notes) Ran(at tick.Tick) {
	n.note(func(next *Status) {
		if wrong := n.ledger.Ran(at); wrong != "" {
			next.Events = append(next.Events, wrong)
		}
	})
}

// Late notes an input that came now, so long after its tick began.
func (n *Notes) Late(by time.Duration) {
	now := n.Wall()
	late := Stretch{now - by.Microseconds(), now}
	n.note(func(next *Status) { next.Lates = append(next.Lates, late) })
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
		if after-before > (stallProbe + stallLeast).Microseconds() {
			n.note(func(next *Status) { next.Stalls = append(next.Stalls, Stretch{before, after}) })
		}
	}
}

// Status returns what was noted since the last one. It is of nowUsec, a reading of package clock: what
// the caller adds must be of then, too, or a process that did not run meanwhile seems out of step.
func (n *Notes) Status(nowUsec uint64) (s Status) {
	n.note(func(next *Status) {
		s, *next = *next, Status{Who: next.Who}
		s.Ticks = n.ledger.Counts
	})
	s.Wall, s.Seconds = n.wall+int64(nowUsec), float64(nowUsec-n.begun)/1e6
	return s
}

// Status is a line of what a process says about itself. Counts are those since its start.
type Status struct {
	Who     string  `json:"who"`
	Wall    int64   `json:"wall_us"` // when, microseconds since 1970
	Seconds float64 `json:"s"`       // since the start of the process
	// Of the game time; 0 while that is not known.
	Epoch  uint64         `json:"epoch"`
	Game   int64          `json:"game_us"`          // the shared game time, microseconds
	Listen netip.AddrPort `json:"listen,omitzero"`  // of a server: its address
	Ticks  ledger.Counts  `json:"ticks"`            // of the ledger
	Inputs *InputCounts   `json:"inputs,omitempty"` // of a server
	Player *PlayerCounts  `json:"player,omitempty"` // of a player
	Events []string       `json:"events,omitempty"` // since the last status
	Stalls []Stretch      `json:"stalls,omitempty"` // since the last status
	// Since the last status: from a tick to its late input.
	Lates []Stretch `json:"lates,omitempty"`
}

// InputCounts counts the inputs for ticks that the server has run. Each is counted once.
type InputCounts struct {
	Players int    `json:"players,omitempty"` // that are heard
	InTime  uint64 `json:"in_time"`           // came before their tick
	Late    uint64 `json:"late"`              // came after it
	// The same, but because a process did not run.
	Waited  uint64 `json:"waited"`
	Missing uint64 `json:"missing"` // never came, though a later one did
}

// PlayerCounts counts what a player sees.
type PlayerCounts struct {
	// States in which the own figure was not where predicted.
	Corrected uint64 `json:"corrected"`
	Shown     uint64 `json:"shown"`  // ticks for which the state of the others had arrived
	Frozen    uint64 `json:"frozen"` // and for which it had not

	// How far ahead of the server it plays.
	Lead float64 `json:"lead_ms,omitempty"`
	// Inputs of the last minute, the server says.
	Late float64 `json:"late_percent,omitempty"`
}

// String is the line for people.
func (s Status) String() string {
	line := fmt.Sprintf("%-8s %5.1f s  %v", s.Who, s.Seconds, s.Ticks)
	if i := s.Inputs; i != nil {
		line += fmt.Sprintf("; %d playing; inputs: %d in time, ", i.Players, i.InTime)
		line += fmt.Sprintf("%d late, %d missing", i.Late+i.Waited, i.Missing)
	}
	if p := s.Player; p != nil {
		if s.Epoch == 0 {
			line += "; not in sync"
		}
		line += fmt.Sprintf("; lead %.1f ms, %.2f %% late, ", p.Lead, p.Late)
		line += fmt.Sprintf("%d corrected, %d shown, %d frozen", p.Corrected, p.Shown, p.Frozen)
	}
	return line
}

// statusEvery is the time between two lines: often for programs, seldom for people.
const (
	statusEvery     = time.Second
	statusEveryJSON = 100 * time.Millisecond
)

// Report prints a status now and then, and when ctx ends.
func Report(ctx context.Context, out io.Writer, asJSON bool, status func() Status) (err error) {
	period := statusEvery
	if asJSON {
		period = statusEveryJSON
	}
	for ; ; program.Sleep(ctx, period) {
		s := status()
		if asJSON {
			err = json.NewEncoder(out).Encode(s)
		} else {
			s.printEvents(out)
			_, err = fmt.Fprintln(out, s)
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

func (s Status) printEvents(out io.Writer) {
	for _, e := range s.Events {
		fmt.Fprintf(out, "%-8s %5.1f s  %s\n", s.Who, s.Seconds, e)
	}
}
