// SPDX-License-Identifier: BSD-3-Clause

package judge

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"timesync/clock"
	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
)

const (
	// Least is the least length of a demo. It leaves three parts, each longer than what the clocks may take.
	Least = 9 * time.Second
	// startTime is how long a process may take to say its first word.
	startTime = 10 * time.Second
)

// Config is what is played. The program of the flags starts itself again for each side.
type Config struct {
	program.Flags
	Players int
	Record  string        // folder; empty: none
	Tick    time.Duration // the shared clocks are in step while they are less apart
	changed int64         // when the network became another, wall clock, us; 0: never
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
