// SPDX-License-Identifier: BSD-3-Clause

// These tests prove what a transfer does to a simulated link and to a game on it, with and
// without synchronized clocks, and that a receiver that lies gains little.
package main

import (
	"flag"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
)

var traces = flag.String("traces", "", "`folder` with recorded delays, *.csv.gz, for TestWanders")

var seed = flag.Uint64("seed", 1, "the `seed` of the worlds of TestWanders")

var table = flag.Bool("table", false,
	"print the whole table: 10 minutes of skew, 3 seeds, about a minute")

// shortBuffers are shorter than the target, so that losses alone say that the link is full.
var shortBuffers = []net{
	{10, 5 * time.Millisecond, 10 * time.Millisecond},
	{50, 5 * time.Millisecond, 10 * time.Millisecond},
	{50, 5 * time.Millisecond, 50 * time.Millisecond},
}

// tested are the networks of a test: one of them with -table.
func tested() []net {
	if *table {
		return nets[:1]
	}
	return nets
}

// TestShare: alone, a transfer fills the link, and the game hardly notices. Beside TCP it leaves
// the link to that; if the receiver says that there is never a queue, losses still count. A machine
// or a radio that stands still now and then is no queue. Where the round trip becomes longer than
// the sender waits for an acknowledgement, it is measured all the same, and the file goes on.
func TestShare(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	const from = 12 * time.Second
	for _, c := range []struct {
		what        string
		happens     func(*world)
		nets        []net
		worlds      uint64 // one with stalls, a short buffer or a liar says little: the mean of three
		liar        bool
		to          time.Duration
		least, most float64 // of the link
		more        float64 // by which the game's p99 may grow, ms
	}{
		{"alone", func(*world) {}, tested(), 1, false, time.Minute, 0.95, 1, 10},
		{"beside CUBIC", (*world).fill, tested(), 1, false, time.Minute, 0, 0.1, 1},
		{"beside CUBIC, lying", (*world).fill, nets[:1], 1, true, 2 * time.Minute, 0, 0.5, 1000},
		// In a short buffer a liar has more than TCP: the README says so.
		{"beside CUBIC, lying", (*world).fill, nets[1:], 3, true, 2 * time.Minute, 0, 0.65, 1000},
		{"alone", func(*world) {}, shortBuffers, 3, false, time.Minute, 0.7, 1, 10},
		{"beside CUBIC", (*world).fill, shortBuffers, 1, false, time.Minute, 0, 0.65, 1},
		{"beside BBR", (*world).fillBBR, tested(), 1, false, time.Minute, 0, 0.4, 20},
		{"stalls", stalls(5 * time.Millisecond), tested(), 3, false, time.Minute, 0.7, 1, 1000},
		{"long stalls", stalls(20 * time.Millisecond), tested(), 3, false, time.Minute, 0.7, 1, 1000},
		{"longer stalls", stalls(40 * time.Millisecond), tested(), 3, false, time.Minute, 0.7, 1, 1000},
		{"150 ms", far(from, 150*time.Millisecond), nets[:1], 1, false, 2 * time.Minute, 0.4, 1, 1000},
		{"350 ms", far(from, 350*time.Millisecond), nets[:1], 1, false, 2 * time.Minute, 0.4, 1, 1000},
		{"450 ms", far(from, 450*time.Millisecond), nets[:1], 1, false, 2 * time.Minute, 0.4, 1, 1000},
		{"600 ms", far(from, 600*time.Millisecond), nets[:1], 1, false, 2 * time.Minute, 0.4, 1, 1000},
	} {
		for _, n := range c.nets {
			rate, more := 0.0, 0.0
			for seed := range c.worlds {
				f := &flow{from: 10 * time.Second, liar: c.liar}
				without, with := n.world(seed+1), n.world(seed+1)
				with.transfer(f)
				for _, w := range []*world{without, with} {
					c.happens(w)
					w.Run(c.to)
				}
				rate += f.rate(from, c.to) / float64(c.worlds)
				more = max(more, with.p99()-without.p99())
			}
			t.Logf("%v, %s: %.1f %% of the link, game's p99 %+.1f ms", n, c.what, 100*rate, more)
			if rate < c.least || rate > c.most || more > c.more {
				t.Errorf("%.3f of the link, game's p99 %+.1f ms, want %v to %v, %v",
					rate, more, c.least, c.most, c.more)
			}
		}
	}
}

// TestShares: transfers share the link, and one that comes 20 s later gets as much, from a minute
// after that.
func TestShares(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	for _, n := range tested() {
		for _, count := range []int{2, 4} {
			w := n.world(1)
			flows := []*flow{w.transfer(&flow{from: ready + 20*time.Second})}
			for range count - 1 {
				flows = append(flows, w.transfer(&flow{}))
			}
			w.Run(113 * time.Second)
			var rates []float64
			for _, f := range flows {
				rates = append(rates, f.rate(83*time.Second, 113*time.Second))
			}
			t.Logf("%v: %d transfers: %.3f of the link", n, count, rates)
			if slices.Max(rates) > 1.3*slices.Min(rates) {
				t.Errorf("%v: %d transfers have %.3f", n, count, rates)
			}
		}
	}
}

// change is what happens to a transfer that runs alone, from a time on and until the end.
type change struct {
	name     string
	from, to time.Duration
	longer   time.Duration    // one way, for good
	clock    simnet.ClockSpec // the receiver's
	stop     time.Duration    // before from the sender stood still for so long
	most     int              // s in a row below 85 %
	least    float64          // of the link
}

// changes are those that are tested; clocks run differently for so long.
func changes(skewed time.Duration) []change {
	const s, ms = time.Second, time.Millisecond
	set := func(step time.Duration) simnet.ClockSpec {
		return simnet.ClockSpec{Events: []simnet.ClockEvent{{At: 40 * s, Step: step}}}
	}
	fast := simnet.ClockSpec{SkewPPM: 100}
	slow := simnet.ClockSpec{SkewPPM: -100}
	return []change{
		{name: "one way longer by 20 ms for good", from: 30 * s, to: 80 * s, longer: 20 * ms, most: 15},
		{name: "receiver's clock set by +50 ms", from: 40 * s, to: 80 * s,
			clock: set(50 * ms), most: 5, least: 0.9},
		{name: "... by -50 ms", from: 40 * s, to: 80 * s, clock: set(-50 * ms), most: 5, least: 0.9},
		{name: "receiver's clock 100 ppm fast", from: 10 * s, to: skewed,
			clock: fast, most: 5, least: 0.9},
		{name: "... slow", from: 10 * s, to: skewed, clock: slow, most: 5, least: 0.9},
		{name: "after the sender stood still", from: 53 * s, to: 143 * s,
			stop: 30 * s, most: 2, least: 0.9},
	}
}

// play returns for how many seconds in a row the transfer has less than 85 % of the link, at most;
// where a way becomes longer, until when it lacks that for longer than a slowdown: 2 s.
func (c change) play(n net, seed uint64, f *flow) (seconds int) {
	w := n.world(seed)
	w.ways[0].Base = simnet.Route(n.delay, simnet.RouteStep{At: c.from, Change: c.longer})
	f.receiver = c.clock
	w.transfer(f)
	w.At(c.from-c.stop, func() { f.stops = c.from })
	w.Run(c.to)
	run := 0
	for at := c.from; at+time.Second <= c.to; at += time.Second {
		run++
		if f.rate(at, at+time.Second) >= 0.85 {
			run = 0
		}
		if c.longer == 0 {
			seconds = max(seconds, run)
		} else if run > 2 {
			seconds = int((at + time.Second - c.from) / time.Second)
		}
	}
	return seconds
}

// TestChanges: a way that is longer for good costs the rate for 15 s, a clock that is set for 5 s
// at most; clocks that run differently cost nothing. A sender that stood still does not take that
// for a round trip. With -table it prints what the README shows, the worst of 3 seeds: synchronized
// clocks, raw stamps with a base of 10 minutes, and those with a base by slowdowns.
func TestChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	skewed := 2 * time.Minute
	seeds := uint64(1)
	if *table {
		skewed = 10 * time.Minute
		seeds = 3
	}
	for _, n := range tested() {
		for _, c := range changes(skewed) {
			columns := 1
			if c.longer > 0 {
				columns = 2 // with the control
			}
			if *table {
				columns = 3
			}
			worst := make([]int, columns)
			for column := range worst {
				for seed := range seeds {
					f := &flow{stamps: column}
					worst[column] = max(worst[column], c.play(n, seed+1, f))
					rate := f.rate(c.from, c.to)
					if column == 0 && (worst[0] > c.most || rate < c.least) {
						t.Errorf("%v, %s: %.3f of the link, below 85 %% for %d s", n, c.name, rate, worst)
					}
				}
			}
			t.Logf("%v, %s: below 85 %% of the link for %d s", n, c.name, worst)
			if c.longer > 0 && worst[1] < 30 {
				t.Errorf("the control is back after %d s: nothing is tested", worst[1])
			}
		}
	}
}

// TestWanders: on a path whose delay wanders, the transfer fills an idle link, and a call on it
// waits longer by no more than the target and what the path wanders. CUBIC keeps most of the
// link. With -traces, recorded delays are among the paths.
func TestWanders(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	const from, to = 40 * time.Second, 100 * time.Second
	type path struct {
		name   string
		wander time.Duration
		delays func(*world)
		rules  bool // else it is a recording: nobody promises anything
	}
	wandering := []time.Duration{20}
	if *table {
		wandering = []time.Duration{5, 10, 20, 40}
	}
	var paths []path
	for _, wander := range wandering {
		wander *= time.Millisecond
		paths = append(paths, path{"wanders by " + wander.String(), wander, wanders(wander), true})
	}
	files, err := filepath.Glob(filepath.Join(*traces, "*.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if *traces == "" {
			break
		}
		series, err := simnet.ReadTrace(file)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path{filepath.Base(file), 0, recorded(series["up"]), false})
	}
	for _, n := range nets {
		cubicMost := 0.1
		if n.buffer < 50*time.Millisecond {
			cubicMost = 0.2 // the base delay of a transfer that comes later contains CUBIC's queue
		}
		for _, p := range paths {
			for _, c := range []struct {
				what        string
				others      func(*world)
				least, most float64
			}{
				{"alone", func(*world) {}, 0.8, 1},
				{"beside CUBIC", (*world).fill, 0, cubicMost},
				{"beside BBR", (*world).fillBBR, 0, 0.4},
			} {
				without, with := n.world(*seed), n.world(*seed)
				f := with.transfer(&flow{})
				for _, w := range []*world{without, with} {
					p.delays(w)
					c.others(w)
					w.Run(to)
				}
				rate := f.rate(from, to)
				more := testkit.Quantile(with.game, 0.5) - testkit.Quantile(without.game, 0.5)
				all := n.mbit * 1e6 / 8 * to.Seconds()
				t.Logf("%v, %s, %s: %.1f %% of the link, TCP %.1f %% (without us %.1f %%), "+
					"call's median %+.1f ms",
					n, p.name, c.what, 100*rate, 100*with.others/all, 100*without.others/all, more)
				limit := 8 + p.wander.Seconds()*1e3
				if p.rules && (rate < c.least || rate > c.most || more > limit) {
					t.Errorf("%.3f of the link, call's median %+.1f ms", rate, more)
				}
			}
		}
	}
}

// recorded makes the way to the receivers as long as a recording says, again and again.
func recorded(series []simnet.Sample) func(*world) {
	series = slices.DeleteFunc(series, func(s simnet.Sample) bool { return s.Delay < 0 })
	end := series[len(series)-1].At
	delay := simnet.Recorded(series)
	return func(w *world) {
		w.ways[0].Delay = func(r *rand.Rand, t time.Duration) time.Duration { return delay(r, t%end) }
	}
}
