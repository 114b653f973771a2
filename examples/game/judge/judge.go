// SPDX-License-Identifier: BSD-3-Clause

// Package judge plays the game of examples/game on this machine, in processes of their own with a bad
// network in between, and judges by what they say. None of it is needed to make a game.
package judge

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"timesync/internal/ledger"
)

const (
	// MayTake is how long it may take until they are in step, after a start.
	MayTake = 2 * time.Second
	// silent is after how long without a word somebody is not in step any more.
	silent = time.Second
	// longStall is a stall that puts off the start of a process: clocks are compared by
	// datagrams every 17 ms, and for a few of them shorter ones make no difference.
	longStall = 100 * time.Millisecond
	// underWay is how long before its tick an input is sent, at most: predicted time is
	// ahead by the delay, 34 to 40 ms, and the buffer. While it is under way
	// a stall of the relay may delay it.
	underWay = 100 * time.Millisecond
	// changes is for how long after a change of the network inputs may be late.
	changes = 2 * time.Second
)

// Result is what comes out.
type Result struct {
	Seconds  float64   `json:"s"`
	Seed     uint64    `json:"seed"`
	Meetings []meeting `json:"meetings"`

	Inputs  InputCounts `json:"inputs"`         // waited: also because of the relay
	Late    float64     `json:"late_percent"`   // or missing; of all but waited and changed
	Changed uint64      `json:"late_in_change"` // late in the 2 s after -up or -down
	// Of the time: late inputs were not counted as such, if they came.
	Stalled float64 `json:"stalled_percent"`

	Ticks  ledger.Counts `json:"ticks"`  // of all processes
	Player PlayerCounts  `json:"player"` // of all players
	Failed string        `json:"failed"`
}

// meeting is the time that one life of a server and one of a player have in common.
type meeting struct {
	Player  string  `json:"player"`
	After   string  `json:"after"` // which of the two began it
	Length  float64 `json:"s"`
	Out     float64 `json:"out_of_step_s"` // from the beginning until in step for good
	Stalled float64 `json:"stalled_s"`     // of that, long stalls of any process
	Apart   float64 `json:"apart_ms"`      // the shared clocks, at most, then
}

func seconds(usec int64) float64 { return float64(usec) / 1e6 }

// judge looks at what the processes have said, when the relay stalled, and when the network became
// another.
func judge(lives []*life, relay []Stretch, c Config) *Result {
	r := &Result{Seconds: c.For.Seconds(), Seed: c.Network.Seed}
	stalls := slices.Clone(relay)
	for _, l := range lives {
		r.count(l, relay, c.changed)
		for _, s := range l.statuses {
			stalls = append(stalls, s.Stalls...)
		}
	}
	stalls = slices.DeleteFunc(stalls, func(s Stretch) bool { return s[1]-s[0] < longStall.Microseconds() })
	slices.SortFunc(stalls, func(a, b Stretch) int { return cmp.Compare(a[0], b[0]) })
	apart := c.Network.Asymmetry + c.Network.Up.By - c.Network.Down.By
	// What the two ways differ by cannot be known, and half of it comes on top.
	tolerance := (c.Tick + max(apart.Abs(), c.Network.Asymmetry.Abs())/2).Microseconds()
	for _, l := range lives {
		for _, server := range lives {
			if l.statuses[0].Player != nil && server.statuses[0].Inputs != nil {
				r.meet(server, l, stalls, tolerance)
			}
		}
	}
	wrong := r.Inputs.Late + r.Inputs.Missing
	r.Late = percent(float64(wrong), float64(r.Inputs.InTime+wrong))
	for i := range relay { // an input may be late because of a stall while it is under way
		relay[i][1] += underWay.Microseconds()
	}
	from, to := lives[0].statuses[0].Wall, lives[len(lives)-1].killed
	r.Stalled = percent(seconds(stalled(relay, from, to)), seconds(to-from))
	if r.Ticks.Unreported > 0 {
		r.Failed = fmt.Sprintf("%d ticks were skipped or repeated, and no event told", r.Ticks.Unreported)
	}
	return r
}

// count adds the counts of a life.
func (r *Result) count(l *life, relay []Stretch, changed int64) {
	last := l.statuses[len(l.statuses)-1]
	r.Ticks.Ran += last.Ticks.Ran
	r.Ticks.Skipped += last.Ticks.Skipped
	r.Ticks.Repeated += last.Ticks.Repeated
	r.Ticks.Unreported += last.Ticks.Unreported
	if p := last.Player; p != nil {
		r.Player.Corrected += p.Corrected
		r.Player.Shown += p.Shown
		r.Player.Frozen += p.Frozen
	}
	if i := last.Inputs; i != nil {
		r.Inputs.InTime += i.InTime
		r.Inputs.Missing += i.Missing
		r.Inputs.Late += i.Late
		r.Inputs.Waited += i.Waited
	}
	for _, s := range l.statuses {
		for _, late := range s.Lates {
			switch {
			case stalled(relay, late[0]-underWay.Microseconds(), late[1]) > 0:
				r.Inputs.Late--
				r.Inputs.Waited++
			case late[1] > changed && late[1] < changed+changes.Microseconds():
				r.Inputs.Late--
				r.Changed++
			}
		}
	}
}

// meet compares the clocks of a server and a player while both live.
func (r *Result) meet(server, player *life, stalls []Stretch, tolerance int64) {
	from, to := max(server.statuses[0].Wall, player.statuses[0].Wall), min(server.killed, player.killed)
	if from >= to {
		return
	}
	m := meeting{Player: player.who, After: player.who, Length: seconds(to - from)}
	if from == server.statuses[0].Wall {
		m.After = server.who
	}
	truth := server.statuses[len(server.statuses)-1] // its clock is as fast as the wall clock
	outUntil, lastIn, worst := from, from, int64(0)
	for _, s := range player.statuses {
		apart := s.Game - (truth.Game + s.Wall - truth.Wall)
		apart = max(apart, -apart)
		switch {
		case s.Wall < from || s.Wall > to:
		case s.Epoch != truth.Epoch || apart > tolerance:
			outUntil, worst = s.Wall, 0
		default:
			lastIn, worst = s.Wall, max(worst, apart)
		}
	}
	if to-min(lastIn, truth.Wall) > silent.Microseconds() {
		outUntil = to // silent, or not in step any more
	}
	m.Out, m.Stalled = seconds(outUntil-from), seconds(stalled(stalls, from, outUntil))
	m.Apart = float64(worst) / 1e3
	r.Meetings = append(r.Meetings, m)
	if m.Out-m.Stalled > MayTake.Seconds() {
		r.Failed = fmt.Sprintf("%s was out of step for %.1f s after the start of %s, ", m.Player, m.Out, m.After)
		r.Failed += fmt.Sprintf("of which the machine stalled for %.1f s", m.Stalled)
	}
}

// stalled returns how much of a time was stalled. The stalls are in the order in which
// they began.
func stalled(stalls []Stretch, from, to int64) (usec int64) {
	for _, s := range stalls {
		until := min(s[1], to)
		usec += max(until-max(s[0], from), 0)
		from = max(from, until)
	}
	return usec
}

// percent is rounded to a hundredth; of nothing it is 0.
func percent(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return math.Round(1e4*part/whole) / 100
}

func (r *Result) print(out io.Writer) {
	fmt.Fprintf(out, "\n%g s; -seed %d\n", r.Seconds, r.Seed)
	for _, m := range r.Meetings {
		fmt.Fprintf(out, "%s, since the start of %s: ", m.Player, m.After)
		if m.Out < m.Length {
			fmt.Fprintf(out, "in step after %.1f s, then within %.1f ms for %.1f s\n", m.Out, m.Apart, m.Length-m.Out)
		} else {
			fmt.Fprintf(out, "not in step after %.1f s\n", m.Length)
		}
	}
	i, p, ticks := r.Inputs, r.Player, r.Ticks
	fmt.Fprintf(out, "inputs   %d in time, %d late, %d missing: %.2f %%; besides, ", i.InTime, i.Late, i.Missing, r.Late)
	fmt.Fprintf(out, "%d waited for a processor, %d were late after a change\n", i.Waited, r.Changed)
	fmt.Fprintf(out, "ticks    %d skipped, %d repeated, %d unreported\n", ticks.Skipped, ticks.Repeated, ticks.Unreported)
	fmt.Fprintf(out, "others   %d times shown, %d frozen; own figure %d times corrected\n", p.Shown, p.Frozen, p.Corrected)
}
