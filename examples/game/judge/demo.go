// SPDX-License-Identifier: BSD-3-Clause

package judge

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"sync"
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
	changed int64         // when the network became another, on the wall clock, microseconds; 0: never
}

// demo is the whole game on this machine.
type demo struct {
	config Config
	ctx    context.Context // of the run
	notes  *Notes          // of this process, in which the relay is
	err    io.Writer       // a file, or what locks: all processes write to it
	tasks  sync.WaitGroup

	mu    sync.Mutex
	out   io.Writer
	lives []*life
}

// life is one process, from its start until it is killed, and what it says.
type life struct {
	cmd      *exec.Cmd
	who      string
	statuses []Status
	killed   int64 // wall clock, microseconds since 1970; 0: it runs
	listens  netip.AddrPort
	ended    chan struct{} // closed at the end
}

// Play plays, and judges by what all processes have said. If ctx ends, it plays for
// less long.
func Play(ctx context.Context, c Config, stdout, stderr io.Writer) error {
	d := &demo{config: c, ctx: ctx, notes: NewNotes("relay"), out: stdout, err: stderr}
	if c.JSON {
		d.out = d.err // and stdout holds nothing but the JSON
	}
	watching, done := context.WithCancel(context.Background())
	d.tasks.Go(func() { d.notes.WatchStalls(watching) })
	err := d.play()
	d.mu.Lock()
	for _, l := range d.lives {
		l.kill(d.notes.Wall())
	}
	d.mu.Unlock()
	done()
	d.tasks.Wait()
	if err != nil {
		return err
	}
	r := judge(d.lives, d.notes.Status(clock.Now()).Stalls, d.config)
	if r.Failed != "" {
		err = errors.New(r.Failed)
	}
	return program.Conclude(stdout, c.JSON, r, r.print, err)
}

// play starts everything, kills the server after a third and a player after two thirds
// of the time, and starts them anew.
func (d *demo) play() error {
	startServer := func() (*life, error) { return d.start("server", 0, "-listen", "127.0.0.1:0") }
	server, err := startServer()
	if err != nil {
		return err
	}
	net, err := relay.New(d.config.Network, server.listens)
	if err != nil {
		return err
	}
	defer net.Close()
	for _, e := range []relay.Extra{d.config.Network.Up, d.config.Network.Down} {
		if e.By > 0 {
			d.config.changed = max(d.config.changed, d.notes.Wall()+e.From.Microseconds())
		}
	}
	startPlayer := func(i int) (*life, error) {
		return d.start(fmt.Sprintf("player %d", i), d.config.Skew, "-dial", net.Addr().String(), "-player", strconv.Itoa(i))
	}
	player, err := startPlayer(1)
	for i := 2; i <= d.config.Players && err == nil; i++ {
		_, err = startPlayer(i)
	}
	if err != nil {
		return err
	}
	again, err := d.restart(server, startServer)
	if err != nil {
		return err
	}
	if again != nil {
		net.Move(server.listens, again.listens)
	}
	if _, err := d.restart(player, func() (*life, error) { return startPlayer(1) }); err != nil {
		return err
	}
	return d.watch(d.config.For / 3)
}

// restart lets them play for a third of the time, and then kills one and starts it anew. It returns
// nil if the run is over.
func (d *demo) restart(l *life, start func() (*life, error)) (*life, error) {
	if err := d.watch(d.config.For / 3); err != nil || d.ctx.Err() != nil {
		return nil, err
	}
	d.mu.Lock()
	fmt.Fprintf(d.out, "%-8s is killed and started anew\n", l.who)
	l.kill(d.notes.Wall())
	d.mu.Unlock()
	<-l.ended
	return start()
}

// start starts this program again, and waits for its first word.
func (d *demo) start(who string, skew float64, args ...string) (*life, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := d.config
	args = append(args, "-json", "-skew", fmt.Sprint(skew),
		"-for", (c.For + startTime).String(), // if this process cannot end it
		"-seed", fmt.Sprint(c.Network.Seed+uint64(len(d.lives))+1), "-record", c.Record)
	l := &life{who: who, cmd: exec.Command(self, args...), ended: make(chan struct{})}
	l.cmd.Env = append(os.Environ(), program.KeyVariable+"="+hex.EncodeToString(c.Key[:]))
	l.cmd.Stderr = d.err
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := l.cmd.Start(); err != nil {
		return nil, err
	}
	tooLate := time.AfterFunc(startTime, func() { _ = l.cmd.Process.Kill() })
	in := json.NewDecoder(out)
	spoke := d.hear(l, in)
	tooLate.Stop()
	if spoke {
		l.listens = l.statuses[0].Listen
	}
	d.mu.Lock()
	d.lives = append(d.lives, l)
	d.mu.Unlock()
	d.tasks.Go(func() {
		for d.hear(l, in) {
		}
		_ = l.cmd.Wait() // killed, in the end
		close(l.ended)
	})
	if !spoke {
		return nil, fmt.Errorf("%s did not start", who)
	}
	return l, nil
}

// hear keeps what a process says next; ok is false at its end.
func (d *demo) hear(l *life, in *json.Decoder) (ok bool) {
	var s Status
	if in.Decode(&s) != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l.statuses = append(l.statuses, s)
	for _, e := range s.Events {
		fmt.Fprintf(d.out, "%-8s %5.1f s  %s\n", s.Who, s.Seconds, e)
	}
	return true
}

func (l *life) kill(now int64) {
	if l.killed == 0 {
		l.killed = now
		_ = l.cmd.Process.Kill()
	}
}

// watch prints how everybody is, once a second, and sees to it that nobody dies.
func (d *demo) watch(length time.Duration) error {
	ctx, cancel := context.WithTimeout(d.ctx, length)
	defer cancel()
	for {
		program.Sleep(ctx, statusEvery)
		if err := d.anyDead(); err != nil || ctx.Err() != nil {
			return err
		}
		d.mu.Lock()
		for _, l := range d.lives {
			if l.killed == 0 {
				fmt.Fprintln(d.out, l.statuses[len(l.statuses)-1])
			}
		}
		d.mu.Unlock()
	}
}

func (d *demo) anyDead() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lives {
		select {
		case <-l.ended:
			if l.killed == 0 && d.ctx.Err() == nil {
				return fmt.Errorf("%s has ended by itself", l.who)
			}
		default:
		}
	}
	return nil
}
