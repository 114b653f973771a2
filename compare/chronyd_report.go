// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// chronyCell is one world at one rate.
type chronyCell struct {
	w           *chronyWorld
	rate        float64
	stock, best []float64 // sizes of chronyd's errors, in order
	setting     string    // the best one
	tried       int
	mine        [2][]float64 // ours, the original's
}

// measureChronyd plays all worlds and writes CHRONYD.md.
func measureChronyd(o options) error {
	o.lasting = cmp.Or(o.lasting, 5*time.Minute)
	folder, err := filepath.Abs(o.clknetsim)
	if err != nil {
		return err
	}
	o.clknetsim = folder
	worlds, err := allChronyWorlds()
	if err != nil {
		return err
	}
	var cells []*chronyCell
	for i := range worlds {
		w := &worlds[i]
		w.lasting = cmp.Or(w.lasting, o.lasting)
		for _, rate := range w.rates {
			if strings.Contains(fmt.Sprintf("%s, %g/s", w.name, rate), o.only) {
				cells = append(cells, &chronyCell{w: w, rate: rate})
			}
		}
	}
	for _, c := range cells {
		if err := c.measure(o); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "compare:", strings.Join(c.row(), " | "))
	}
	d := chronyDocument(o, cells)
	fmt.Print(d.markdown())
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, "CHRONYD.md"), []byte(d.markdown()), 0o644)
}

// measure looks for chronyd's best setting: all on the first seed, then the best three on all
// seeds, each with every tail. What is best is judged on the very seeds that are reported,
// which favours chronyd.
func (c *chronyCell) measure(o options) error {
	var seeds []uint64
	for i := range o.seeds {
		seeds = append(seeds, firstSeed+uint64(i))
	}
	c.mine = c.w.play(c.rate, seeds)
	run := chronyRun{w: c.w, rate: c.rate}
	var tried []chronyRun
	for _, server := range combinations(chronySettings) {
		run.server = server
		tried = append(tried, run)
	}
	first, err := playAll(o.clknetsim, tried, seeds[:1])
	if err != nil {
		return err
	}
	c.tried = len(tried)
	var short []chronyRun
	for _, i := range byTail(first)[:3] {
		for _, tail := range chronyTails {
			run := tried[i]
			run.tail = tail
			short = append(short, run)
		}
	}
	short = append(short, chronyRun{w: c.w, rate: c.rate}) // as it is
	last, err := playAll(o.clknetsim, short, seeds)
	if err != nil {
		return err
	}
	c.tried += len(short)
	best := byTail(last)[0]
	c.stock, c.best, c.setting = last[len(last)-1], last[best], short[best].name()
	return nil
}

// playAll plays runs on all processors.
func playAll(clknetsim string, runs []chronyRun, seeds []uint64) ([][]float64, error) {
	errs := make([][]float64, len(runs))
	var mu sync.Mutex
	var failed error
	each(len(runs), func(i int) {
		e, err := runs[i].play(clknetsim, seeds)
		mu.Lock()
		defer mu.Unlock()
		if errs[i] = e; err != nil {
			failed = err
		}
	})
	return errs, failed
}

// byTail returns the indexes of errors in order of their 99th percentile.
func byTail(errs [][]float64) (order []int) {
	for i := range errs {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(quantile(errs[a], 0.99), quantile(errs[b], 0.99)) })
	return order
}

// fineCell is two quantiles of errors in order, us.
func fineCell(errs []float64) string {
	fine := func(us float64) string {
		if us < 10 {
			return fmt.Sprintf("%.1f", us)
		}
		return fmt.Sprintf("%.0f", us)
	}
	return fine(quantile(errs, 0.5)) + " / " + fine(quantile(errs, 0.99))
}

// row is a row of the table.
func (c *chronyCell) row() []string {
	setting := "`" + c.setting + "`"
	if c.setting == "" {
		setting = "its defaults"
	}
	return []string{c.w.name, fmt.Sprintf("%g/s", c.rate), fineCell(c.mine[0]), fineCell(c.best), fineCell(c.stock), fineCell(c.mine[1]), setting}
}

// chronyDocument is CHRONYD.md.
func chronyDocument(o options, cells []*chronyCell) *document {
	d := new(document)
	d.heading(1, "Beside the real chronyd")
	d.text("chronyd itself, the program, in simulated worlds: clknetsim runs two of them on the clocks that this package gets, with delays drawn from the same distribution. Each world lasts %.0f s (the recorded queues 80 and 90 s) and counts from %.0f s on, with %d seeds. The clocks are %.0f ppm apart; the rate of each follows a sine (strong wander: 8 ppm in 600 s; quieter: 2 ppm in 900 s) and a random walk. Delays are those of the path and an exponential jitter, drawn anew for each packet, or those of a recording at the packet's time. All times of sending and receipt are exact.", o.lasting.Seconds(), chronyWarmup.Seconds(), o.seeds, chronyApart)
	d.text("In a row all send equally often: n/s is n exchanges a second of chronyd's, and n datagrams a second each way for the others. Error of the remote clock in microseconds, median / 99th percentile:")
	rows := [][]string{{"world", "packets", "timesync", "chronyd, best setting", "chronyd, its defaults", "original", "the best setting"}}
	for _, c := range cells {
		rows = append(rows, c.row())
	}
	d.table(rows)
	tried := 0
	if len(cells) > 0 {
		tried = cells[0].tried
	}
	d.text("chronyd steers the clock that it is asked about; the others leave it alone and calculate. `minpoll` and `maxpoll` are the rate, `makestep 0.0001 3` and `iburst` are always set. %d settings were tried in each row on the seeds that are reported, which favours chronyd: %s, each with each, and the best three with %s. On paths longer than 10 ms chronyd polls once a second at most. %s.",
		tried, quoted(chronySettings), quoted([][]string{chronyTails}), rivalVersions())
	d.code("compare/chronyd/run.sh CLKNETSIM docs    # CLKNETSIM is a checkout of github.com/mlichvar/clknetsim")
	return d
}

// quoted lists settings.
func quoted(lines [][]string) string {
	var all []string
	for _, line := range lines {
		for _, s := range line {
			if s != "" {
				all = append(all, "`"+s+"`")
			}
		}
	}
	return strings.Join(all, ", ")
}

// rivalVersions names what is installed.
func rivalVersions() string {
	var versions []string
	for _, program := range []string{"chronyd", "ptp4l"} {
		version := program + " is not installed"
		if out, err := exec.Command(program, "-v").Output(); err == nil {
			version = program + " " + regexp.MustCompile(`\d+\.[\d.]+`).FindString(string(out))
		}
		versions = append(versions, version)
	}
	return strings.Join(versions, ", ")
}
