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
// gives to the other methods; the delays are drawn from the same distribution.

// chronyWorld is two clocks and the path between them.
type chronyWorld struct {
	name     string
	up, down func(seed uint64) *sim.Link // from A to B and back
	sine     float64                     // ppm, amplitude of each clock's rate
	period   time.Duration               // of that
	lasting  time.Duration               // 0 is as asked for
	rates    []float64                   // exchanges a second
}

// allChronyWorlds returns them. On paths longer than 10 ms chronyd polls once a second at
// most.
func allChronyWorlds() ([]chronyWorld, error) {
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
	lan, wan := []float64{1, 16, 64}, []float64{1}
	worlds := []chronyWorld{
		{name: "LAN 0.2 ms, jitter 0.1 ms, strong wander", up: exp(200*us, 100*us), sine: 8, rates: lan},
		{name: "LAN 0.2 ms, jitter 0.1 ms, quieter oscillator", up: exp(200*us, 100*us), sine: 2, rates: lan},
		{name: "LAN 0.2 ms, jitter 5 us, quieter oscillator", up: exp(200*us, 5*us), sine: 2, rates: lan},
		{name: "20 ms, jitter 3 ms, strong wander", up: exp(20*ms, 3*ms), sine: 8, rates: wan},
		{name: "20 ms, jitter 3 ms, quieter oscillator", up: exp(20*ms, 3*ms), sine: 2, rates: wan},
		{name: "20 ms, jitter 1 ms, a queue of 100 ms one way for 15 s of each minute", up: path(20*ms, queues), down: exp(20*ms, ms), sine: 2, rates: wan},
	}
	recorded, err := recordedWorlds(lan)
	worlds = append(worlds, recorded...)
	for i := range worlds {
		w := &worlds[i]
		if w.down == nil {
			w.down = w.up
		}
		if w.period = 900 * time.Second; w.sine > 2 {
			w.period = 600 * time.Second
		}
	}
	return worlds, err
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
		worlds = append(worlds, chronyWorld{name: r.name, up: sc.AB, down: sc.BA, sine: 2, lasting: sc.Duration, rates: rates})
	}
	return worlds, nil
}

const (
	chronyRate   = 10 // times a second that clknetsim updates rates and logs offsets, and that ours is asked
	chronyWarmup = 30 * time.Second
	chronyApart  = 40.0 // ppm
	chronyWander = 0.01 // ppm, as of the usual clocks of internal/sim
)

// clock returns the clock of an end.
func (w *chronyWorld) clock(side sim.Side) func(seed uint64) sim.ClockSpec {
	return func(seed uint64) sim.ClockSpec {
		apart := [2]float64{chronyApart / 2, -chronyApart / 2}
		phase := sim.NewWorld(seed).Rand(fmt.Sprint("phase ", side)).Float64()
		return sim.ClockSpec{SkewPPM: apart[side], SinePPM: w.sine, SinePeriod: w.period, SinePhase: 2 * math.Pi * phase, WanderPPM: chronyWander}
	}
}

// scenario is the world for methods of this program.
func (w *chronyWorld) scenario(rate float64) sim.Scenario {
	return sim.Scenario{
		Name: w.name, Duration: w.lasting, Warmup: chronyWarmup, A: w.clock(sim.A), B: w.clock(sim.B),
		AB: w.up, BA: w.down, RateAB: rate, RateBA: rate, PollRate: chronyRate,
	}
}

// play returns the sizes of our errors, and of the original's, in order.
func (w *chronyWorld) play(rate float64, seeds []uint64) (errs [2][]float64) {
	for _, seed := range seeds {
		pairs := []sim.Pair{{A: methods[ours].make(), B: methods[ours].make()}, {A: methods[original].make(), B: methods[original].make()}}
		sim.Run(w.scenario(rate), seed, pairs, sim.Observer{Poll: func(o *sim.Observation) {
			if o.At >= chronyWarmup && o.OK {
				errs[o.Pair] = append(errs[o.Pair], math.Abs(o.ErrUsec))
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

// chronyTails are tried with the best of those: for how long chronyd slews the clock.
var chronyTails = []string{"", "corrtimeratio 1", "corrtimeratio 10"}

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
// order.
func (r chronyRun) play(clknetsim string, seeds []uint64) (errs []float64, err error) {
	for _, seed := range seeds {
		folder, err := os.MkdirTemp("", "chronyd")
		if err != nil {
			return nil, err
		}
		e, err := r.once(clknetsim, folder, seed)
		os.RemoveAll(folder)
		if err != nil {
			return nil, fmt.Errorf("%s, %g/s, %q, seed %d: %w", r.w.name, r.rate, r.name(), seed, err)
		}
		errs = append(errs, e...)
	}
	slices.Sort(errs)
	return errs, nil
}

// files are what the simulation reads. Node 1 is the server and end B, node 2 the client
// and end A.
func (r chronyRun) files(seed uint64) map[string]string {
	const common = "cmdport 0\nbindcmdaddress /\n"
	poll, delays := -int(math.Round(math.Log2(r.rate))), r.delays(seed)
	return map[string]string{
		"1.conf": "local stratum 1\nallow\npidfile 1.pid\n" + common,
		"2.conf": fmt.Sprintf("server 192.168.123.1 iburst minpoll %d maxpoll %d %s\nmakestep 0.0001 3\n%s\npidfile 2.pid\n", poll, poll, r.server, r.tail) + common,
		"rate1":  r.rates(sim.B, seed), "rate2": r.rates(sim.A, seed),
		"delay1": delays[sim.B], "delay2": delays[sim.A],
		"world": "node1_freq = (file \"rate1\")\nnode2_freq = (file \"rate2\")\nnode2_offset = 0.01\n" +
			"node1_delay2 = (file \"delay1\")\nnode2_delay1 = (file \"delay2\")\n",
	}
}

// once runs one seed in a folder.
func (r chronyRun) once(clknetsim, folder string, seed uint64) (errs []float64, err error) {
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
		"-l", fmt.Sprint(r.w.lasting.Seconds()), "-o", "offsets", "world", "2")
	c.Dir = folder
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return readOffsets(filepath.Join(folder, "offsets"), int(r.w.lasting.Seconds()*chronyRate))
}

// rates returns the rate errors of a clock, one a line for each update.
func (r chronyRun) rates(side sim.Side, seed uint64) string {
	// Its random walk has the seed that sim.Run gives it.
	name := [...]string{"clock A", "clock B"}[side]
	c := sim.NewClock(r.w.clock(side)(seed), sim.NewWorld(seed).Rand(name).Uint64())
	const step = time.Second / chronyRate
	var b strings.Builder
	for at := time.Duration(0); at <= r.w.lasting; at += step {
		gained := c.Reading(at+step) - c.Reading(at)
		fmt.Fprintf(&b, "%.12e\n", gained/float64(step/time.Microsecond)-1)
	}
	return b.String()
}

// delays returns the delays in seconds of the packets that each end sends, one a line, -1
// for a lost one. clknetsim takes them in turn, so a packet's time is where it would be if
// chronyd polled evenly; it does, to some percent.
func (r chronyRun) delays(seed uint64) (lines [2]string) {
	var out [2]strings.Builder
	links := [2]*sim.Link{r.w.up(seed), r.w.down(seed)}
	world := sim.NewWorld(seed)
	random := [2]*rand.Rand{world.Rand("delays A"), world.Rand("delays B")}
	for n := 0.0; n < 1.2*r.rate*r.w.lasting.Seconds(); n++ { // some more, for polls that come early
		at := time.Duration(n / r.rate * float64(time.Second))
		for side, link := range links {
			seconds := -1.0
			if arrivals := link.Arrivals(random[side], at); len(arrivals) > 0 {
				seconds = (arrivals[0] - at).Seconds()
			}
			fmt.Fprintf(&out[side], "%.9f\n", seconds)
		}
	}
	return [2]string{out[sim.A].String(), out[sim.B].String()}
}

// readOffsets reads both clocks' offsets from the truth, and returns the sizes of their
// difference in microseconds after the warm-up.
func readOffsets(path string, lines int) (errs []float64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n := 0
	for in := bufio.NewScanner(f); in.Scan(); n++ {
		var server, client float64
		if _, err := fmt.Sscan(in.Text(), &server, &client); err != nil {
			return nil, err
		}
		if n >= int(chronyWarmup.Seconds()*chronyRate) {
			errs = append(errs, math.Abs(client-server)*1e6)
		}
	}
	if n < lines-1 {
		return nil, errors.New("the simulation ended early")
	}
	return errs, nil
}
