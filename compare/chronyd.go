// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bufio"
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

	"timesync/internal/sim"
)

// The real chronyd in simulated worlds: clknetsim runs two chronyd processes on clocks and
// delays that it is given, faster than real time. The clocks are those that internal/sim
// gives to the other methods; the delays are drawn from the same links.

// chronyWorld is a world in which chronyd polls at one rate or more. Its set is equalRates,
// where the others send as often, or simulated, where they send as the scenario says.
type chronyWorld struct {
	sim.Scenario
	set   string
	rates []float64 // exchanges a second
	seeds int
}

// equalRates is the set of the worlds in which all methods send equally often.
const equalRates = "equal rates"

const (
	chronyRate   = 10 // times a second that clknetsim updates rates and logs offsets, and that ours is asked
	chronyWarmup = 30 * time.Second
	chronyApart  = 40.0 // ppm
	chronyWander = 0.01 // ppm, as of the usual clocks of internal/sim
	chronySeeds  = 3    // of each world of equal rates
	chronyLasts  = 5 * time.Minute
)

// allChronyWorlds returns them. On paths longer than 10 ms chronyd polls once a second at
// most. A computer that sleeps is not to be had from clknetsim, so those worlds are missing.
func allChronyWorlds() ([]chronyWorld, error) {
	worlds, err := equalWorlds()
	for _, sc := range sim.Scenarios() {
		if sc.Off == nil {
			worlds = append(worlds, chronyWorld{sc, simulated, []float64{1}, simSeeds})
		}
	}
	return worlds, err
}

// equalWorlds are those of equal rates.
func equalWorlds() ([]chronyWorld, error) {
	const us, ms = time.Microsecond, time.Millisecond
	path := func(base time.Duration, delay func() sim.Delay) func(uint64) *sim.Link {
		return func(uint64) *sim.Link { return &sim.Link{Base: sim.Fixed(base), Delay: delay()} }
	}
	exp := func(base, mean time.Duration) func(uint64) *sim.Link {
		return path(base, func() sim.Delay { return sim.Exp(mean) })
	}
	queues := func() sim.Delay { // 15 s of each minute
		d := []sim.Delay{sim.Exp(ms)}
		for at := 40 * time.Second; at < 20*time.Minute; at += time.Minute {
			d = append(d, sim.StandingQueue(at, 15*time.Second, 100*ms))
		}
		return sim.Sum(d...)
	}
	world := func(name string, up, down func(uint64) *sim.Link, sine float64, rates ...float64) chronyWorld {
		return newChronyWorld(sim.Scenario{Name: name, Duration: chronyLasts, Warmup: chronyWarmup, AB: up, BA: down}, sine, rates)
	}
	lan := []float64{1, 16, 64}
	worlds := []chronyWorld{
		world("LAN 0.2 ms, jitter 0.1 ms, strong wander", exp(200*us, 100*us), exp(200*us, 100*us), 8, lan...),
		world("LAN 0.2 ms, jitter 0.1 ms, quieter oscillator", exp(200*us, 100*us), exp(200*us, 100*us), 2, lan...),
		world("LAN 0.2 ms, jitter 5 us, quieter oscillator", exp(200*us, 5*us), exp(200*us, 5*us), 2, lan...),
		world("20 ms, jitter 3 ms, strong wander", exp(20*ms, 3*ms), exp(20*ms, 3*ms), 8, 1),
		world("20 ms, jitter 3 ms, quieter oscillator", exp(20*ms, 3*ms), exp(20*ms, 3*ms), 2, 1),
		world("20 ms, jitter 1 ms, a queue of 100 ms one way for 15 s of each minute", path(20*ms, queues), exp(20*ms, ms), 2, 1),
	}
	recorded, err := recordedWorlds(lan)
	return append(worlds, recorded...), err
}

// newChronyWorld gives a scenario clocks that are 40 ppm apart, and whose rates follow a sine
// of so many ppm.
func newChronyWorld(sc sim.Scenario, sine float64, rates []float64) chronyWorld {
	period := 900 * time.Second
	if sine > 2 {
		period = 600 * time.Second
	}
	clock := func(side sim.Side, ppm float64) func(seed uint64) sim.ClockSpec {
		return func(seed uint64) sim.ClockSpec {
			phase := sim.NewWorld(seed).Rand(fmt.Sprint("phase ", side)).Float64()
			return sim.ClockSpec{SkewPPM: ppm, SinePPM: sine, SinePeriod: period, SinePhase: 2 * math.Pi * phase, WanderPPM: chronyWander}
		}
	}
	sc.A, sc.B, sc.PollRate = clock(sim.A, chronyApart/2), clock(sim.B, -chronyApart/2), chronyRate
	return chronyWorld{sc, equalRates, rates, chronySeeds}
}

// recordedWorlds are the project's own recordings of a real queue.
func recordedWorlds(rates []float64) (worlds []chronyWorld, err error) {
	for _, r := range []struct{ file, name string }{
		{"kernel-tcp-10m-60pps", "recorded queue that TCP fills"}, {"kernel-cross90-10m-60pps", "recorded queue, random traffic of 90 %"},
	} {
		sc, err := sim.Replay(r.name, filepath.Join("../internal/sim/testdata", r.file+".csv.gz"))
		if err != nil {
			return nil, err
		}
		worlds = append(worlds, newChronyWorld(sim.Scenario{Name: r.name, Duration: sc.Duration, Warmup: chronyWarmup, AB: sc.AB, BA: sc.BA}, 2, rates))
	}
	return worlds, nil
}

// firstSeeds returns the seeds of a world.
func (w *chronyWorld) firstSeeds() (seeds []uint64) {
	for i := range w.seeds {
		seeds = append(seeds, firstSeed+uint64(i))
	}
	return seeds
}

// play returns the sizes of our errors, and of the original's, in order, where they send as
// often as chronyd.
func (w *chronyWorld) play(rate float64) (errs [2][]float64) {
	sc := w.Scenario
	sc.RateAB, sc.RateBA, sc.SendAB, sc.SendBA = rate, rate, nil, nil
	for _, seed := range w.firstSeeds() {
		pairs := []sim.Pair{{A: methods[ours].make(), B: methods[ours].make()}, {A: methods[original].make(), B: methods[original].make()}}
		sim.Run(sc, seed, pairs, sim.Observer{Poll: func(o *sim.Observation) {
			if o.At >= sc.Warmup && o.OK {
				errs[o.Pair] = append(errs[o.Pair], math.Abs(o.Excess()))
			}
		}})
	}
	slices.Sort(errs[0])
	slices.Sort(errs[1])
	return errs
}

// chronySettings are those that a knowing user would try first, one from each line: how
// many samples the line is laid through, which of them count, and whether a few are
// merged to one before.
var chronySettings = [][]string{
	{"", "maxsamples 8", "maxsamples 16", "minsamples 32", "minsamples 64"},
	{"", "maxdelayquant 0.1", "maxdelayquant 0.5", "maxdelayratio 2", "maxdelaydevratio 1"},
	{"", "filter 4", "filter 16"},
}

// chronyTails are tried with the best of those: for how long chronyd slews the clock, and
// from what on it sets it instead.
var chronyTails = []string{"", "corrtimeratio 1", "corrtimeratio 10", "makestep 0.001 -1"}

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

// chronyRun is one setting in one world.
type chronyRun struct {
	w      *chronyWorld
	rate   float64
	server string // settings of the line "server"
	tail   string // settings of a line of their own
}

// name says what was set.
func (r chronyRun) name() string {
	return strings.TrimSpace(strings.Join([]string{r.server, r.tail}, " "))
}

// play runs clknetsim and both chronyds for each seed, and returns the sizes of the errors in
// order, from the warm-up on.
func (r chronyRun) play(clknetsim string, seeds []uint64) (errs []float64, err error) {
	for _, seed := range seeds {
		e, err := r.once(clknetsim, seed)
		if err != nil {
			return nil, fmt.Errorf("%s, %g/s, %q, seed %d: %w", r.w.Name, r.rate, r.name(), seed, err)
		}
		errs = append(errs, e[int(r.w.Warmup.Seconds()*chronyRate):]...)
	}
	slices.Sort(errs)
	return errs, nil
}

// files are what the simulation reads. Node 1 is the server and end B, node 2 the client
// and end A.
func (r chronyRun) files(seed uint64) map[string]string {
	const common = "cmdport 0\nbindcmdaddress /\n"
	poll, delays := -int(math.Round(math.Log2(r.rate))), r.delays(seed)
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
	c := exec.CommandContext(ctx, filepath.Join(clknetsim, "clknetsim"), "-s", "sock", "-v", "0", "-R", strconv.Itoa(chronyRate),
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
		step   = time.Second / chronyRate
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
	for n := 0.0; n < 1.2*r.rate*r.w.Duration.Seconds(); n++ { // some more, for polls that come early
		at := time.Duration(n / r.rate * float64(time.Second))
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
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	up, down := r.w.AB(seed), r.w.BA(seed)
	unequal := func(at time.Duration) float64 {
		return float64(up.BaseAt(at)-down.BaseAt(at)) / 2 / float64(time.Microsecond)
	}
	for in := bufio.NewScanner(f); in.Scan(); {
		var server, client float64
		if _, err := fmt.Sscan(in.Text(), &server, &client); err != nil {
			return nil, err
		}
		now := unequal(time.Duration(len(errs)) * time.Second / chronyRate)
		o := sim.Observation{ErrUsec: (client - server) * 1e6, LoUsec: min(0, unequal(0), now), HiUsec: max(0, unequal(0), now)}
		errs = append(errs, math.Abs(o.Excess()))
	}
	if want := int(r.w.Duration.Seconds() * chronyRate); len(errs) < want-1 {
		return nil, errors.New("the simulation ended early")
	}
	return errs, nil
}
