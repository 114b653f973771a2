// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
	"timesync/lab/play"
	"timesync/lab/results"
)

// The real chronyd in simulated worlds: clknetsim runs two chronyd processes on clocks and
// delays that it is given, faster than real time. The clocks are those that internal/sim
// gives to the other methods; the delays are drawn from the same links.

// chronyRun is one setting in one world.
type chronyRun struct {
	w      play.World
	server string        // settings of the line "server"
	tail   string        // a setting with a line of its own
	errs   []float64     // their sizes, us, once it is played
	first  []play.Answer // those of the first seed, from the start on
}

// name says what was set.
func (r *chronyRun) name() string { return strings.TrimSpace(r.server + " " + r.tail) }

// rate is how many exchanges a second chronyd begins: where the others send as often, as many as
// they.
func (r *chronyRun) rate() float64 {
	if r.w.Set == play.EqualRates {
		return r.w.Scenario.RateAB
	}
	return 1
}

// play runs clknetsim and both chronyds for so many seeds. Errors count from the warm-up on.
func (r *chronyRun) play(clknetsim string, seeds int) *chronyRun {
	for seed := range uint64(seeds) {
		answers := r.once(clknetsim, play.FirstSeed+seed)
		for _, a := range answers {
			if a.At >= r.w.Warmup {
				r.errs = append(r.errs, a.Err)
			}
		}
		if seed == 0 {
			r.first = answers
		}
	}
	return r
}

// files are what the simulation reads. Node 1 is the server and end B, node 2 the client
// and end A. At the start chronyd always sets the clock; of two lines "makestep" the last counts.
func (r *chronyRun) files(seed uint64) map[string]string {
	const common = "cmdport 0\nbindcmdaddress /\n"
	poll := -int(math.Round(math.Log2(r.rate())))
	clientConf := fmt.Sprintf("server 192.168.123.1 iburst minpoll %d maxpoll %d %s\n"+
		"makestep 0.0001 3\n"+
		"%s\n"+
		"pidfile 2.pid\n", poll, poll, r.server, r.tail)
	delays := r.delays(seed)
	client, server := r.rates(sim.A, seed), r.rates(sim.B, seed)
	return map[string]string{
		"1.conf": "local stratum 1\nallow\npidfile 1.pid\n" + common,
		"2.conf": clientConf + common,
		"rate1":  server[0],
		"rate2":  client[0],
		"step1":  server[1],
		"step2":  client[1],
		"delay1": delays[sim.B],
		"delay2": delays[sim.A],
		"world": "node1_freq = (file \"rate1\")\n" +
			"node2_freq = (file \"rate2\")\n" +
			"node2_offset = 0.01\n" +
			"node1_step = (file \"step1\")\n" +
			"node2_step = (file \"step2\")\n" +
			"node1_delay2 = (file \"delay1\")\n" +
			"node2_delay1 = (file \"delay2\")\n",
	}
}

// simulation runs in that folder: two chronyds, which clknetsim ends. It takes seconds.
const simulation = `for node in 1 2; do
	LD_PRELOAD=$0/clknetsim.so CLKNETSIM_SOCKET=sock CLKNETSIM_NODE=$node \
		chronyd -d -u root -F 0 -f $node.conf >log$node 2>&1 &
done
trap 'kill $(jobs -p) 2>log' EXIT
timeout 300 "$0/clknetsim" -s sock -v 0 -R "$1" -l "$2" -o offsets world 2`

// once runs one seed, and returns what chronyd says.
func (r *chronyRun) once(clknetsim string, seed uint64) []play.Answer {
	folder := must(os.MkdirTemp("", "chronyd"))
	defer os.RemoveAll(folder)
	for name, text := range r.files(seed) {
		check(os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	c := exec.Command("sh", "-c", simulation, clknetsim, fmt.Sprint(play.ChronydRate),
		fmt.Sprint(r.w.Scenario.Duration.Seconds()))
	c.Dir = folder
	said, err := c.CombinedOutput()
	answers, bad := r.readOffsets(filepath.Join(folder, "offsets"), seed)
	if err = cmp.Or(err, bad); err != nil {
		check(fmt.Errorf("%s, %q, seed %d: %w\n%s", r.w.Name, r.name(), seed, err, said))
	}
	return answers
}

// rates returns the rate errors of a clock, one a line for each update, and by how many
// seconds it is set then.
func (r *chronyRun) rates(side sim.Side, seed uint64) (lines [2]string) {
	// Its random walk has the seed that sim.Run gives it.
	sc := &r.w.Scenario
	spec := [...]func(uint64) simnet.ClockSpec{sc.A, sc.B}[side](seed)
	name := [...]string{"clock A", "clock B"}[side]
	c := simnet.NewClock(spec, simnet.NewWorld(seed).Rand(name).Uint64())
	const (
		step   = time.Second / play.ChronydRate
		faster = 0.01 // than any clock: it is set
	)
	var rates, steps strings.Builder
	last := 0.0
	for at := time.Duration(0); at <= sc.Duration; at += step {
		rate, set := (c.Reading(at+step)-c.Reading(at))/float64(step/us)-1, 0.0
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
func (r *chronyRun) delays(seed uint64) (lines [2]string) {
	sc, world := &r.w.Scenario, simnet.NewWorld(seed)
	links := [2]*simnet.Link{sc.AB(seed), sc.BA(seed)}
	random := [2]*rand.Rand{world.Rand("delays A"), world.Rand("delays B")}
	var out [2]strings.Builder
	send := func(side sim.Side, at time.Duration) (arrives time.Duration) {
		arrivals := links[side].Arrivals(random[side], at)
		if len(arrivals) == 0 {
			fmt.Fprintln(&out[side], "-1")
			return simnet.Lost
		}
		fmt.Fprintf(&out[side], "%.9f\n", (arrivals[0] - at).Seconds())
		return arrivals[0]
	}
	var last time.Duration
	// some more, for polls that come early
	for n := range int(1.2 * r.rate() * sc.Duration.Seconds()) {
		at := time.Duration(float64(n) / r.rate() * float64(time.Second))
		if arrives := send(sim.A, at); arrives != simnet.Lost {
			last = max(last, arrives) // a response does not go back in time
			send(sim.B, last)
		}
	}
	return [2]string{out[sim.A].String(), out[sim.B].String()}
}

// readOffsets reads both clocks' offsets from the truth. Their difference is the error, without
// what unequal paths make unavoidable.
func (r *chronyRun) readOffsets(path string, seed uint64) (said []play.Answer, err error) {
	text, err := os.ReadFile(path)
	up, down := r.w.Scenario.AB(seed), r.w.Scenario.BA(seed)
	unequal := func(at time.Duration) float64 {
		return float64(up.BaseAt(at)-down.BaseAt(at)) / 2 / float64(us)
	}
	for line := range strings.Lines(string(text)) {
		var server, client float64
		_, bad := fmt.Sscan(line, &server, &client)
		at := time.Duration(len(said)) * time.Second / play.ChronydRate
		then, now := unequal(0), unequal(at)
		o := sim.Observation{
			ErrUsec: (client - server) * 1e6,
			LoUsec:  min(0, then, now),
			HiUsec:  max(0, then, now),
		}
		said, err = append(said, play.Answer{At: at, Err: math.Abs(o.Excess())}), errors.Join(err, bad)
	}
	if want := int(r.w.Scenario.Duration.Seconds() * play.ChronydRate); err == nil &&
		len(said) < want-1 {
		err = errors.New("the simulation ended early")
	}
	return said, err
}

// chronydSettings are those that a knowing user would try first, one from each line: how
// many samples the line is laid through, which of them count, and whether a few are
// merged to one before.
var chronydSettings = [3][]string{
	{"", "maxsamples 8", "maxsamples 16", "minsamples 32", "minsamples 64"},
	{"", "maxdelayquant 0.1", "maxdelayquant 0.5", "maxdelayratio 2", "maxdelaydevratio 1"},
	{"", "filter 4", "filter 16"},
}

// chronydTails are tried with the best of those: for how long chronyd slews the clock, and
// from what on it sets it instead.
var chronydTails = []string{"", "corrtimeratio 1", "corrtimeratio 10", "makestep 0.001 -1"}

// settings are runs with each of those, the defaults first.
func settings(w play.World) (all []*chronyRun) {
	for _, samples := range chronydSettings[0] {
		for _, count := range chronydSettings[1] {
			for _, merged := range chronydSettings[2] {
				words := strings.Fields(samples + " " + count + " " + merged)
				all = append(all, &chronyRun{w: w, server: strings.Join(words, " ")})
			}
		}
	}
	return all
}

// byTail compares runs by their 99th percentile.
func byTail(a, b *chronyRun) int {
	return cmp.Compare(testkit.OrNaN(a.errs, 0.99), testkit.OrNaN(b.errs, 0.99))
}

// measureChronyd plays all simulated worlds and those of equal rates, and writes what chronyd did
// into its files as soon as it is known. A computer that sleeps is not to be had from clknetsim.
func measureChronyd(o options) {
	folder := must(filepath.Abs(o.where))
	check(os.MkdirAll(o.out, 0o755))
	worldsPath := filepath.Join(o.out, results.ChronydFile)
	secondsPath := filepath.Join(o.out, results.ChronydSecondsFile)
	worlds := must(results.ReadCSV[results.ChronydWorld](worldsPath))
	seconds := must(results.ReadCSV[results.ChronydSecond](secondsPath))
	for _, w := range must(play.AllWorlds("")) {
		played := w.Set == play.EqualRates || w.Set == play.Simulated && w.Scenario.Off == nil
		if !played || !strings.Contains(w.Set+", "+w.Name, o.only) {
			continue
		}
		row, best := measureWorld(w, folder)
		worlds = append(slices.DeleteFunc(worlds, row.Same), row)
		check(results.WriteCSV(worldsPath, worlds))
		if w.Set == play.Simulated && play.Taught[w.Name] != "" {
			old := func(s results.ChronydSecond) bool { return s.World == w.Name }
			seconds = slices.DeleteFunc(seconds, old)
			for _, p := range play.Worst(best.first) {
				seconds = append(seconds, results.ChronydSecond{
					World:  w.Name,
					Second: int(p.X),
					Worst:  p.Y,
				})
			}
			check(results.WriteCSV(secondsPath, seconds))
		}
	}
}

// measureWorld looks for the best setting in one world, and returns what chronyd did there and
// the run with the best setting. It tries all on the first seed, then the defaults and the best
// three on all seeds, each of those with every tail. What is best is judged on the very seeds
// that are reported, which favours chronyd.
func measureWorld(w play.World, clknetsim string) (row results.ChronydWorld, best *chronyRun) {
	playAll := func(runs []*chronyRun, seeds int) { // on all processors
		play.Map(runs, func(r *chronyRun) *chronyRun { return r.play(clknetsim, seeds) })
	}
	all := settings(w)
	playAll(all, 1)
	slices.SortStableFunc(all, byTail)
	defaults := &chronyRun{w: w}
	played := []*chronyRun{defaults}
	for _, run := range all[:3] {
		for _, tail := range chronydTails {
			played = append(played, &chronyRun{w: w, server: run.server, tail: tail})
		}
	}
	playAll(played, w.Seeds)
	best = slices.MinFunc(played, byTail)
	row = results.ChronydWorld{
		Set:     w.Set,
		World:   w.Name,
		Version: version("chronyd"),
		Tried:   len(all) + len(played),
		Setting: best.name(),
		Best:    results.QuantilesOf(best.errs),
		Stock:   results.QuantilesOf(defaults.errs),
	}
	fmt.Fprintf(os.Stderr, "live: %s: p99 %.1f us (%q), with its defaults %.1f us\n",
		row.World, row.Best.P99, row.Setting, row.Stock.P99)
	return row, best
}
