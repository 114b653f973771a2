// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"slices"
	"sync"
	"time"

	"timesync/clock"
	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
	"timesync/internal/ledger"
)

// None of this file is needed to make a game: it plays the whole game on this machine, and judges it.

const (
	// leastDemo is the least length. It leaves three parts, each longer than what the clocks may take.
	leastDemo = 9 * time.Second
	// mayTake is how long it may take until they are in step, after a start.
	mayTake = 2 * time.Second
	// lookEvery is how often the clocks are compared.
	lookEvery = 20 * time.Millisecond

	stallProbe = 2 * time.Millisecond
	// stallLeast is what the relay may be late without a consequence: a lead that has set itself
	// has little to spare.
	stallLeast = 5 * time.Millisecond
	// longStall is a stall that puts off a start: clocks are compared by datagrams every 17 ms, and for a
	// few of them shorter ones make no difference.
	longStall = 100 * time.Millisecond
	// underWay is how long before its tick an input is sent, at most: predicted time is
	// ahead by the delay, 34 to 40 ms, and the buffer. While it is under way
	// a stall of the relay may delay it.
	underWay = 100 * time.Millisecond
	// changes is for how long after a change of the network inputs may be late.
	changes = 2 * time.Second
)

// span is a time, true.
type span struct{ from, to time.Duration }

// demo is a server, players, and a bad network between them.
type demo struct {
	config
	out      *log.Logger
	network  *relay.Relay
	servers  []*serverSide // all lives; the last one runs
	players  []*playerSide // all lives
	seats    []seat
	meetings []*meeting // all
	stalls   []span     // of this process
}

// seat is of a player with a number: the life that runs, and its meeting with the server that runs.
type seat struct {
	*playerSide
	meeting *meeting
}

// meeting is the time that one life of a server and one of a player have in common.
type meeting struct {
	Player, After string // After: which of the two began it
	begun         time.Duration
	Length        time.Duration
	Out           time.Duration // from the beginning until in step for good
	Stalled       time.Duration // of that, long stalls
	Apart         time.Duration // the shared clocks, at most, then
}

// see takes how far the shared clocks are apart at a time, if both ends are in one game.
func (m *meeting) see(now, apart time.Duration, same bool, tolerance time.Duration) {
	if m.Length = now - m.begun; same && apart <= tolerance {
		m.Apart = max(m.Apart, apart)
	} else {
		m.Out, m.Apart = m.Length, 0
	}
}

// playAll plays the whole game, and judges it. If ctx ends, it plays for less long.
func playAll(ctx context.Context, c config, out *log.Logger) (*result, error) {
	d := &demo{config: c, out: out, seats: make([]seat, c.players)}
	watching, stop := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() { d.watchStalls(watching) })
	begun := program.True()
	err := d.play(ctx)
	for _, s := range d.seats {
		if s.playerSide != nil {
			err = errors.Join(err, s.kill())
		}
	}
	if d.network != nil {
		d.network.Close()
		err = errors.Join(err, d.server().kill())
	}
	stop()
	watch.Wait()
	if err != nil {
		return nil, err
	}
	return d.judge(program.True() - begun), nil
}

// play starts everything, kills the server after a third and a player after two thirds
// of the time, and starts them anew.
func (d *demo) play(ctx context.Context) error {
	if err := d.open(); err != nil {
		return err
	}
	if d.watch(ctx); ctx.Err() == nil {
		old := d.server()
		d.out.Printf("%-8s is killed and started anew", old.who)
		if err := errors.Join(old.kill(), d.serve()); err != nil {
			return err
		}
		d.network.Move(relay.Addr(old.udp), relay.Addr(d.server().udp))
	}
	if d.watch(ctx); ctx.Err() == nil {
		old := d.seats[0]
		d.out.Printf("%-8s is killed and started anew", old.who)
		if err := errors.Join(old.kill(), d.join(0)); err != nil {
			return err
		}
	}
	d.watch(ctx)
	return nil
}

// open starts a server, the network, and the players.
func (d *demo) open() error {
	err := d.serve()
	if err == nil {
		d.network, err = relay.New(d.Network, relay.Addr(d.server().udp))
	}
	for i := range d.seats {
		if err == nil {
			err = d.join(i)
		}
	}
	return err
}

// server is the one that runs.
func (d *demo) server() *serverSide { return d.servers[len(d.servers)-1] }

// end returns the configuration of the next end to start.
func (d *demo) end() config {
	c := d.config
	c.Network.Seed += uint64(len(d.servers)+len(d.players)) + 1
	return c
}

// serve starts a server. All players meet it.
func (d *demo) serve() error {
	c := d.end()
	c.Listen, c.Skew = "127.0.0.1:0", 0
	s, err := start(c, d.out)
	if err != nil {
		return err
	}
	d.servers = append(d.servers, s.(*serverSide))
	for i := range d.seats {
		if d.seats[i].playerSide != nil {
			d.meet(i, "server")
		}
	}
	return nil
}

// join starts player i + 1.
func (d *demo) join(i int) error {
	c := d.end()
	c.Dial, c.player = d.network.Addr().String(), i+1
	s, err := start(c, d.out)
	if err != nil {
		return err
	}
	p := s.(*playerSide)
	d.players, d.seats[i].playerSide = append(d.players, p), p
	d.meet(i, p.who)
	return nil
}

// meet begins a meeting of the player on a seat and the server.
func (d *demo) meet(i int, after string) {
	m := &meeting{Player: d.seats[i].who, After: after, begun: program.True()}
	d.meetings, d.seats[i].meeting = append(d.meetings, m), m
}

// watch looks for a third of the time, and prints how everybody is, once a second.
func (d *demo) watch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, d.For/3)
	defer cancel()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	program.Every(ctx.Done(), lookEvery, func() {
		d.look()
		select {
		case <-second.C:
			d.out.Print(d.server())
			for _, s := range d.seats {
				d.out.Print(s)
			}
		default:
		}
	})
}

// look compares the clocks of the server and all players at one moment.
func (d *demo) look() {
	usec := clock.Now()
	truth, epoch := d.server().game(usec)
	// What the two ways differ by cannot be known, and half of it comes on top.
	tolerance := tickLength + max(d.Network.Up.By, d.Network.Down.By)/2
	for _, s := range d.seats {
		game, own := s.game(usec)
		s.meeting.see(program.Elapsed(usec), (game - truth).Abs(), own != 0 && own == epoch, tolerance)
	}
}

// watchStalls notes, until ctx ends, when this process did not run although it wanted to: what
// happens then says something about the machine, and nothing about the game.
func (d *demo) watchStalls(ctx context.Context) {
	for ctx.Err() == nil {
		before := program.True()
		time.Sleep(stallProbe)
		if after := program.True(); after-before > stallProbe+stallLeast {
			d.stalls = append(d.stalls, span{before, after})
		}
	}
}

// result is what comes out.
type result struct {
	Length   time.Duration
	Meetings []*meeting

	Inputs  inputCounts // waited: also because of a stall
	Late    float64     // percent that were late or missing, of all but waited and changed
	Changed uint64      // late in the 2 s after -up or -down
	stalls  []span      // of this process

	Ticks  ledger.Counts // of all ends
	Player playerCounts  // of all players
}

// judge sums up what all have counted.
func (d *demo) judge(length time.Duration) *result {
	r := &result{Length: length, Meetings: d.meetings, stalls: d.stalls}
	var changed time.Duration // true time; 0: never
	for _, e := range []relay.Extra{d.Network.Up, d.Network.Down} {
		if e.By > 0 {
			changed = max(changed, d.meetings[0].begun+e.From)
		}
	}
	for _, s := range d.servers {
		r.ticks(s.counted())
		r.inputs(s.inputs, s.lates, d.stalls, changed)
	}
	for _, p := range d.players {
		r.ticks(p.counted())
		r.Player.Corrected += p.counts.Corrected
		r.Player.Shown += p.counts.Shown
		r.Player.Frozen += p.counts.Frozen
	}
	wrong := r.Inputs.Late + r.Inputs.Missing
	r.Late = 100 * float64(wrong) / float64(max(r.Inputs.InTime+wrong, 1))
	long := slices.DeleteFunc(slices.Clone(d.stalls), func(s span) bool { return s.to-s.from < longStall })
	for _, m := range d.meetings {
		m.Stalled = stalled(long, m.begun, m.begun+m.Out)
	}
	return r
}

func (r *result) ticks(c ledger.Counts) {
	r.Ticks.Ran += c.Ran
	r.Ticks.Skipped += c.Skipped
	r.Ticks.Repeated += c.Repeated
	r.Ticks.Unreported += c.Unreported
}

// inputs adds the counts of a server, with the times from a tick to its late input.
func (r *result) inputs(c inputCounts, lates, stalls []span, changed time.Duration) {
	for _, late := range lates {
		switch {
		case stalled(stalls, late.from-underWay, late.to) > 0:
			c.Late--
			c.Waited++
		case changed > 0 && late.to > changed && late.to < changed+changes:
			c.Late--
			r.Changed++
		}
	}
	r.Inputs.InTime += c.InTime
	r.Inputs.Missing += c.Missing
	r.Inputs.Late += c.Late
	r.Inputs.Waited += c.Waited
}

// stalled returns how much of a time was stalled. The stalls are in the order in which
// they began.
func stalled(stalls []span, from, to time.Duration) (sum time.Duration) {
	for _, s := range stalls {
		until := min(s.to, to)
		sum += max(until-max(s.from, from), 0)
		from = max(from, until)
	}
	return sum
}

// check says what is wrong.
func (r *result) check() (err error) {
	if n := r.Ticks.Unreported; n > 0 {
		err = fmt.Errorf("%d ticks were skipped or repeated, and no event told", n)
	}
	for _, m := range r.Meetings {
		if m.Out-m.Stalled > mayTake {
			err = fmt.Errorf("%s was out of step for %.1f s after the start of %s, of which the machine stalled for %.1f s",
				m.Player, m.Out.Seconds(), m.After, m.Stalled.Seconds())
		}
	}
	return err
}

func (r *result) print(out io.Writer, seed uint64) {
	fmt.Fprintf(out, "\n%.1f s; -seed %d\n", r.Length.Seconds(), seed)
	for _, m := range r.Meetings {
		fmt.Fprintf(out, "%s, since the start of %s: ", m.Player, m.After)
		if m.Out < m.Length {
			fmt.Fprintf(out, "in step after %.1f s, then within %.1f ms for %.1f s\n",
				m.Out.Seconds(), m.Apart.Seconds()*1e3, (m.Length - m.Out).Seconds())
		} else {
			fmt.Fprintf(out, "not in step after %.1f s\n", m.Length.Seconds())
		}
	}
	i, p, ticks := r.Inputs, r.Player, r.Ticks
	fmt.Fprintf(out, "inputs   %d in time, %d late, %d missing: %.2f %%; besides, ", i.InTime, i.Late, i.Missing, r.Late)
	fmt.Fprintf(out, "%d waited for a processor, %d were late after a change\n", i.Waited, r.Changed)
	fmt.Fprintf(out, "ticks    %d skipped, %d repeated, %d unreported\n", ticks.Skipped, ticks.Repeated, ticks.Unreported)
	fmt.Fprintf(out, "others   %d times shown, %d frozen; own figure %d times corrected\n", p.Shown, p.Frozen, p.Corrected)
}
