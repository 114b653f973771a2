// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"timesync/compare/kept"
	"timesync/compare/play"
	"timesync/internal/sim"
	"timesync/internal/stat"
)

// chronyRun is one setting in one world.
type chronyRun struct {
	w      *play.ChronydWorld
	server string    // settings of the line "server"
	tail   string    // settings of a line of their own
	errs   []float64 // their sizes in order, us, once it is played
	failed error
}

// name says what was set.
func (r chronyRun) name() string {
	return strings.TrimSpace(strings.Join([]string{r.server, r.tail}, " "))
}

// play runs clknetsim and both chronyds for so many seeds, and returns the sizes of the errors in
// order, from the warm-up on.
func (r chronyRun) play(clknetsim string, seeds int) (errs []float64, err error) {
	for seed := range uint64(seeds) {
		e, err := r.once(clknetsim, play.FirstSeed+seed)
		if err != nil {
			return nil, fmt.Errorf("%s, %q, seed %d: %w", r.w.Name, r.name(), play.FirstSeed+seed, err)
		}
		errs = append(errs, e[int(r.w.Warmup.Seconds()*play.ChronydRate):]...)
	}
	slices.Sort(errs)
	return errs, nil
}

// files are what the simulation reads. Node 1 is the server and end B, node 2 the client
// and end A.
func (r chronyRun) files(seed uint64) map[string]string {
	const common = "cmdport 0\nbindcmdaddress /\n"
	poll, delays := -int(math.Round(math.Log2(r.w.Rate))), r.delays(seed)
	client, server := r.rates(sim.A, seed), r.rates(sim.B, seed)
	return map[string]string{
		"1.conf": "local stratum 1\nallow\npidfile 1.pid\n" + common,
		"2.conf": fmt.Sprintf("server 192.168.123.1 iburst minpoll %d maxpoll %d %s\n%s\npidfile 2.pid\n", poll, poll, r.server, r.lines()) + common,
		"rate1":  server[0], "rate2": client[0], "step1": server[1], "step2": client[1],
		"delay1": delays[sim.B], "delay2": delays[sim.A],
		"world": "node1_freq = (file \"rate1\")\nnode2_freq = (file \"rate2\")\nnode2_offset = 0.01\n" +
			"node1_step = (file \"step1\")\nnode2_step = (file \"step2\")\n" +
			"node1_delay2 = (file \"delay1\")\nnode2_delay1 = (file \"delay2\")\n",
	}
}

// lines returns the settings of lines of their own. At the start chronyd always sets the
// clock.
func (r chronyRun) lines() string {
	if strings.HasPrefix(r.tail, "makestep") {
		return r.tail
	}
	return "makestep 0.0001 3\n" + r.tail
}

// once runs one seed, and returns the sizes of all errors in the order of time.
func (r chronyRun) once(clknetsim string, seed uint64) (errs []float64, err error) {
	folder, err := os.MkdirTemp("", "chronyd")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	for name, text := range r.files(seed) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	const longest = 5 * time.Minute // of a run that takes seconds
	ctx, stop := context.WithTimeout(context.Background(), longest)
	defer stop()
	for _, node := range []string{"1", "2"} {
		c := exec.CommandContext(ctx, "chronyd", "-d", "-u", "root", "-F", "0", "-f", node+".conf")
		c.Dir, c.Env = folder, append(os.Environ(), "LD_PRELOAD="+filepath.Join(clknetsim, "clknetsim.so"), "CLKNETSIM_SOCKET=sock", "CLKNETSIM_NODE="+node)
		if err := c.Start(); err != nil {
			return nil, err
		}
		defer c.Wait()
		defer c.Process.Kill()
	}
	c := exec.CommandContext(ctx, filepath.Join(clknetsim, "clknetsim"), "-s", "sock", "-v", "0", "-R", strconv.Itoa(play.ChronydRate),
		"-l", fmt.Sprint(r.w.Duration.Seconds()), "-o", "offsets", "world", "2")
	c.Dir = folder
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return r.readOffsets(filepath.Join(folder, "offsets"), seed)
}

// rates returns the rate errors of a clock, one a line for each update, and by how many
// seconds it is set then.
func (r chronyRun) rates(side sim.Side, seed uint64) (lines [2]string) {
	// Its random walk has the seed that sim.Run gives it.
	spec, name := [...]func(uint64) sim.ClockSpec{r.w.A, r.w.B}[side](seed), [...]string{"clock A", "clock B"}[side]
	c := sim.NewClock(spec, sim.NewWorld(seed).Rand(name).Uint64())
	const (
		step   = time.Second / play.ChronydRate
		faster = 0.01 // than any clock: it is set
	)
	var rates, steps strings.Builder
	last := 0.0
	for at := time.Duration(0); at <= r.w.Duration; at += step {
		gained := c.Reading(at+step) - c.Reading(at)
		rate, set := gained/float64(step/time.Microsecond)-1, 0.0
		if math.Abs(rate) > faster {
			rate, set = last, (rate-last)*step.Seconds()
		}
		last = rate
		fmt.Fprintf(&rates, "%.12e\n", rate)
		fmt.Fprintf(&steps, "%.9f\n", set)
	}
	return [2]string{rates.String(), steps.String()}
}

// delays returns the delays in seconds of the packets that each end sends, one a line, -1
// for a lost one. clknetsim takes them in turn, so a packet's time is where it would be if
// chronyd polled evenly; it does, to some percent. A request that is lost has no response.
func (r chronyRun) delays(seed uint64) (lines [2]string) {
	var out [2]strings.Builder
	links := [2]*sim.Link{r.w.AB(seed), r.w.BA(seed)}
	world := sim.NewWorld(seed)
	random := [2]*rand.Rand{world.Rand("delays A"), world.Rand("delays B")}
	var last time.Duration
	send := func(side sim.Side, at time.Duration) (arrives time.Duration, ok bool) {
		seconds := -1.0
		arrivals := links[side].Arrivals(random[side], at)
		if ok = len(arrivals) > 0; ok {
			arrives, seconds = arrivals[0], (arrivals[0] - at).Seconds()
		}
		fmt.Fprintf(&out[side], "%.9f\n", seconds)
		return arrives, ok
	}
	for n := 0.0; n < 1.2*r.w.Rate*r.w.Duration.Seconds(); n++ { // some more, for polls that come early
		at := time.Duration(n / r.w.Rate * float64(time.Second))
		if arrives, ok := send(sim.A, at); ok {
			last = max(last, arrives) // a response does not go back in time
			send(sim.B, last)
		}
	}
	return [2]string{out[sim.A].String(), out[sim.B].String()}
}

// readOffsets reads both clocks' offsets from the truth, and returns the sizes of their
// difference in microseconds, without what unequal paths make unavoidable.
func (r chronyRun) readOffsets(path string, seed uint64) (errs []float64, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	up, down := r.w.AB(seed), r.w.BA(seed)
	unequal := func(at time.Duration) float64 {
		return float64(up.BaseAt(at)-down.BaseAt(at)) / 2 / float64(time.Microsecond)
	}
	for line := range strings.Lines(string(text)) {
		var server, client float64
		if _, err := fmt.Sscan(line, &server, &client); err != nil {
			return nil, err
		}
		now := unequal(time.Duration(len(errs)) * time.Second / play.ChronydRate)
		o := sim.Observation{ErrUsec: (client - server) * 1e6, LoUsec: min(0, unequal(0), now), HiUsec: max(0, unequal(0), now)}
		errs = append(errs, math.Abs(o.Excess()))
	}
	if want := int(r.w.Duration.Seconds() * play.ChronydRate); len(errs) < want-1 {
		return nil, errors.New("the simulation ended early")
	}
	return errs, nil
}

// chronydSettings are those that a knowing user would try first, one from each line: how
// many samples the line is laid through, which of them count, and whether a few are
// merged to one before.
var chronydSettings = [][]string{
	{"", "maxsamples 8", "maxsamples 16", "minsamples 32", "minsamples 64"},
	{"", "maxdelayquant 0.1", "maxdelayquant 0.5", "maxdelayratio 2", "maxdelaydevratio 1"},
	{"", "filter 4", "filter 16"},
}

// chronydTails are tried with the best of those: for how long chronyd slews the clock, and
// from what on it sets it instead.
var chronydTails = []string{"", "corrtimeratio 1", "corrtimeratio 10", "makestep 0.001 -1"}

// combinations returns one choice from each line, joined.
func combinations(lines [][]string) []string {
	all := []string{""}
	for _, line := range lines {
		var longer []string
		for _, head := range all {
			for _, word := range line {
				longer = append(longer, strings.TrimSpace(head+" "+word))
			}
		}
		all = longer
	}
	return all
}

// measureWorld looks for the best setting in one world, and keeps its figures.
func measureWorld(c *kept.Chronyd, w *play.ChronydWorld, clknetsim string) error {
	all, err := search(w, clknetsim)
	if err != nil {
		return err
	}
	best := byTail(all)[0]
	f := kept.ChronydFigures{Set: w.Set, World: w.Name, Version: version("chronyd"), Tried: len(combinations(chronydSettings)) + len(all),
		Setting: best.name(), Best: kept.QuantilesOf(best.errs), Stock: kept.QuantilesOf(all[0].errs)}
	if old := c.Find(f.Set, f.World); old != nil {
		*old = f
	} else {
		c.Figures = append(c.Figures, f)
	}
	fmt.Fprintf(os.Stderr, "lab: %s: p99 %.1f us (%q), with its defaults %.1f us\n", f.World, f.Best.P99, f.Setting, f.Stock.P99)
	if f.Set != play.Simulated || !slices.Contains(play.TaughtWorlds, f.World) {
		return nil
	}
	errs, err := best.once(clknetsim, play.FirstSeed)
	var series play.Seconds
	for i, e := range errs {
		series.Take(time.Duration(i)*time.Second/play.ChronydRate, e)
	}
	c.Series[f.World] = series
	return err
}

// search tries all settings on the first seed, then the defaults and the best three on all seeds, each
// of those with every tail, and returns the latter. What is best is judged on the very seeds that are
// reported, which favours chronyd.
func search(w *play.ChronydWorld, clknetsim string) ([]chronyRun, error) {
	var tried []chronyRun
	for _, server := range combinations(chronydSettings) {
		tried = append(tried, chronyRun{w: w, server: server})
	}
	tried, err := playAll(clknetsim, tried, 1)
	if err != nil {
		return nil, err
	}
	short := []chronyRun{{w: w}}
	for _, run := range byTail(tried)[:3] {
		for _, run.tail = range chronydTails {
			short = append(short, run)
		}
	}
	return playAll(clknetsim, short, w.Seeds)
}

// playAll plays runs on all processors.
func playAll(clknetsim string, runs []chronyRun, seeds int) ([]chronyRun, error) {
	var failed []error
	played := play.Map(runs, func(r chronyRun) chronyRun {
		r.errs, r.failed = r.play(clknetsim, seeds)
		return r
	})
	for _, r := range played {
		failed = append(failed, r.failed)
	}
	return played, errors.Join(failed...)
}

// byTail returns runs in order of their 99th percentile.
func byTail(runs []chronyRun) []chronyRun {
	return slices.SortedStableFunc(slices.Values(runs), func(a, b chronyRun) int {
		return cmp.Compare(stat.OrNaN(a.errs, 0.99), stat.OrNaN(b.errs, 0.99))
	})
}

// measureChronyd plays all worlds, and writes what chronyd did into its files as soon as it is
// known.
func measureChronyd(o options) error {
	folder, err := filepath.Abs(o.clknetsim)
	if err != nil {
		return err
	}
	known, err := kept.ChronydIn(os.DirFS(o.out))
	if err != nil {
		return err
	}
	worlds, err := play.AllChronydWorlds()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for i := range worlds {
		if w := &worlds[i]; strings.Contains(w.Set+", "+w.Name, o.only) {
			err := measureWorld(known, w, folder)
			if err = errors.Join(err, known.Write(o.out)); err != nil {
				return err
			}
		}
	}
	return nil
}
