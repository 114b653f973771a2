// SPDX-License-Identifier: BSD-3-Clause

// Package judge plays the game of examples/game on this machine, in processes of their own with a bad
// network in between, and judges by what they say. None of it is needed to make a game.
package judge

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"timesync/clock"
	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
	"timesync/internal/ledger"
)

const (
	// Least is the least length of a demo. It leaves three parts, each longer than what the clocks may take.
	Least = 9 * time.Second
	// startTime is how long a process may take to say its first word.
	startTime = 10 * time.Second
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
	Player string  `json:"player"`
	After  string  `json:"after"` // which of the two began it
	Length float64 `json:"s"`
	// From the beginning until in step for good.
	Out     float64 `json:"out_of_step_s"`
	Stalled float64 `json:"stalled_s"` // of that, long stalls of any process
	Apart   float64 `json:"apart_ms"`  // the shared clocks, at most, then
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
	// An input may be late because of a stall while it is under way.
	for i := range relay {
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
	// Its clock is as fast as the wall clock.
	truth := server.statuses[len(server.statuses)-1]
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

// Config is what is played. The program of the flags starts itself again for each side.
type Config struct {
	program.Flags
	Players int
	Record  string        // folder; empty: none
	Tick    time.Duration // the shared clocks are in step while they are less apart
	// When the network became another, wall clock, us; 0: never.
	changed int64
}

// demo is the whole game on this machine. One goroutine does all but wait for what processes say.
type demo struct {
	Config
	ctx    context.Context  // of the run
	notes  *Notes           // of this process, in which the relay is
	lives  []*life          // the oldest first
	heard  chan func()      // what to do about what a process says
	failed error            // nobody may end by itself
	second <-chan time.Time // when to print how everybody is
	out    io.Writer
	err    io.Writer // a file, or what locks: all processes write to it
}

// life is one process, from its start until it is killed, and what it says.
type life struct {
	who      string
	args     []string
	process  *exec.Cmd
	statuses []Status
	killed   int64 // wall clock, microseconds since 1970; 0: it runs
	ended    bool
}

// Play plays, and judges by what all processes have said. If ctx ends, it plays for
// less long.
func Play(ctx context.Context, c Config, stdout, stderr io.Writer) error {
	d := &demo{Config: c, ctx: ctx, notes: NewNotes("relay"), out: stdout, err: stderr}
	d.heard, d.second = make(chan func()), time.Tick(statusEvery)
	if c.JSON {
		d.out = d.err // and stdout holds nothing but the JSON
	}
	watching, done := context.WithCancel(context.Background())
	defer done()
	go d.notes.WatchStalls(watching)
	err := d.play()
	for _, l := range d.lives {
		d.kill(l)
	}
	for _, l := range d.lives {
		for !l.ended {
			(<-d.heard)()
		}
	}
	if err != nil {
		return err
	}
	r := judge(d.lives, d.notes.Status(clock.Now()).Stalls, d.Config)
	if r.Failed != "" {
		err = errors.New(r.Failed)
	}
	return program.Conclude(stdout, c.JSON, r, r.print, err)
}

// play starts everything, kills the server after a third and a player after two thirds
// of the time, and starts them anew.
func (d *demo) play() error {
	server, err := d.start("server", "-listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	network, err := relay.New(d.Network, server.statuses[0].Listen)
	if err != nil {
		return err
	}
	defer network.Close()
	for _, e := range []relay.Extra{d.Network.Up, d.Network.Down} {
		if e.By > 0 {
			d.changed = max(d.changed, d.notes.Wall()+e.From.Microseconds())
		}
	}
	for i := range d.Players {
		number := strconv.Itoa(i + 1)
		at, skew := network.Addr().String(), fmt.Sprint(d.Skew)
		if _, err := d.start("player "+number, "-dial", at, "-player", number, "-skew", skew); err != nil {
			return err
		}
	}
	for _, l := range d.lives[:2] { // the server, and player 1
		if err := d.watch(d.For / 3); err != nil || d.ctx.Err() != nil {
			return err
		}
		fmt.Fprintf(d.out, "%-8s is killed and started anew\n", l.who)
		d.kill(l)
		again, err := d.start(l.who, l.args...)
		if err != nil {
			return err
		}
		network.Move(l.statuses[0].Listen, again.statuses[0].Listen)
	}
	return d.watch(d.For / 3)
}

// start starts this program again, and waits for its first word.
func (d *demo) start(who string, args ...string) (*life, error) {
	self, _ := os.Executable() // if it is not known, Start fails
	l := &life{who: who, args: args, process: exec.Command(self, append(args, "-json", "-record", d.Record,
		"-for", (d.For+startTime).String(), // if this process cannot end it
		"-seed", fmt.Sprint(d.Network.Seed+uint64(len(d.lives))+1))...)}
	l.process.Env = append(os.Environ(), program.KeyVariable+"="+hex.EncodeToString(d.Key[:]))
	l.process.Stderr = d.err
	out, err := l.process.StdoutPipe()
	if err == nil {
		err = l.process.Start()
	}
	if err != nil {
		return nil, err
	}
	d.lives = append(d.lives, l)
	go d.listen(l, json.NewDecoder(out))
	tooLate := time.After(startTime)
	for len(l.statuses) == 0 && d.failed == nil {
		select {
		case <-tooLate:
			d.failed = fmt.Errorf("%s did not start", who)
		case hear := <-d.heard:
			hear()
		}
	}
	return l, d.failed
}

// listen waits for what a process says.
func (d *demo) listen(l *life, in *json.Decoder) {
	for s := (Status{}); in.Decode(&s) == nil; s = (Status{}) {
		d.heard <- func() {
			l.statuses = append(l.statuses, s)
			s.printEvents(d.out)
		}
	}
	_ = l.process.Wait() // killed, in the end
	d.heard <- func() {
		l.ended = true
		if l.killed == 0 && (d.ctx.Err() == nil || len(l.statuses) == 0) {
			d.failed = fmt.Errorf("%s has ended by itself", l.who)
		}
	}
}

func (d *demo) kill(l *life) {
	if l.killed == 0 {
		l.killed = d.notes.Wall()
		_ = l.process.Process.Kill()
	}
}

// watch hears everybody for so long, and prints how they are, once a second.
func (d *demo) watch(length time.Duration) error {
	ctx, cancel := context.WithTimeout(d.ctx, length)
	defer cancel()
	for ctx.Err() == nil && d.failed == nil {
		select {
		case <-ctx.Done():
		case hear := <-d.heard:
			hear()
		case <-d.second:
			for _, l := range d.lives {
				if l.killed == 0 {
					fmt.Fprintln(d.out, l.statuses[len(l.statuses)-1])
				}
			}
		}
	}
	return d.failed
}
