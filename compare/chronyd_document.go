// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"strings"
)

// equalCell is one world at one rate: ours and the original's errors, and chronyd's figures.
type equalCell struct {
	w      *chronyWorld
	rate   float64
	errs   [2][]float64   // of this package and the original, in order
	chrony *chronyFigures // nil: not measured
}

// playEqual plays the worlds of equal rates.
func playEqual(c *chronyd) ([]equalCell, error) {
	worlds, err := equalWorlds()
	if err != nil {
		return nil, err
	}
	var cells []equalCell
	for i := range worlds {
		for _, rate := range worlds[i].rates {
			cells = append(cells, equalCell{w: &worlds[i], rate: rate, chrony: c.find(equalRates, worlds[i].Name, rate)})
		}
	}
	each(len(cells), func(i int) { cells[i].errs = cells[i].w.play(cells[i].rate) })
	return cells, nil
}

// mine is our 99th percentile.
func (c *equalCell) mine() float64 { return quantile(c.errs[0], 0.99) }

// equalWins says where chronyd is better at equal numbers of packets by more than a twentieth,
// and where it is worse by less than half on long paths, one item each.
func (f *figures) equalWins() (items []string) {
	better := f.equalCells(func(chrony, mine float64, long bool) bool { return chrony < mine*0.95 })
	if better != "" {
		items = append(items, "At equal packets chronyd with its best setting is ahead, its figure first, in: "+better+". It averages what it hears; here the fastest datagram counts.")
	}
	near := f.equalCells(func(chrony, mine float64, long bool) bool { return long && chrony >= mine*0.95 && chrony/2 < mine })
	if near != "" {
		items = append(items, "At equal packets this package is ahead of chronyd, but not by half, in: "+near+".")
	}
	return items
}

// equalCells lists the cells that a condition picks, those of a world together.
func (f *figures) equalCells(pick func(chrony, mine float64, long bool) bool) string {
	var worlds []string
	for i := range f.equal {
		c := &f.equal[i]
		if c.chrony == nil || !pick(at(c.chrony.best, 0.99), c.mine(), len(c.w.rates) == 1) {
			continue
		}
		cell := fmt.Sprintf("%g/s %s against %s", c.rate, fine(at(c.chrony.best, 0.99)), fine(c.mine()))
		if n := len(worlds); n > 0 && strings.HasPrefix(worlds[n-1], c.w.Name+": ") {
			worlds[n-1] += ", " + cell
		} else {
			worlds = append(worlds, c.w.Name+": "+cell)
		}
	}
	return strings.Join(worlds, "; ")
}

// row is a row of the table of CHRONYD.md: median and 99th percentile of each.
func (c *equalCell) row() []string {
	pair := func(p50, p99 float64) string { return short(p50) + " / " + short(p99) }
	best, stock, setting := "-", "-", "-"
	if x := c.chrony; x != nil {
		best, stock = pair(at(x.best, 0.5), at(x.best, 0.99)), pair(at(x.stock, 0.5), at(x.stock, 0.99))
		if setting = "`" + x.setting + "`"; x.setting == "" {
			setting = "its defaults"
		}
	}
	return []string{c.w.Name, fmt.Sprintf("%g/s", c.rate), pair(quantile(c.errs[0], 0.5), c.mine()), best, stock,
		pair(quantile(c.errs[1], 0.5), quantile(c.errs[1], 0.99)), setting}
}

// short prints microseconds without their unit.
func short(us float64) string {
	if us < 9.95 {
		return fmt.Sprintf("%.1f", us)
	}
	return fmt.Sprintf("%.0f", us)
}

// chronyDocument is CHRONYD.md.
func (f *figures) chronyDocument() *document {
	d := new(document)
	d.heading(1, "Beside the real chronyd, at equal packets")
	better, n := 0, 0
	for i := range f.equal {
		if c := &f.equal[i]; c.chrony != nil {
			if n++; c.mine() <= at(c.chrony.best, 0.99) {
				better++
			}
		}
	}
	d.text("**In %d of %d rows this package's 99th percentile is at most that of chronyd with the best of its settings.** In a row all send equally often: n/s is n exchanges a second of chronyd's, and n datagrams a second each way of the others. Error of the remote clock in microseconds, median / 99th percentile:", better, n)
	rows := [][]string{{"world", "packets", "timesync", "chronyd, best setting", "chronyd, its defaults", "original", "the best setting"}}
	for i := range f.equal {
		rows = append(rows, f.equal[i].row())
	}
	d.table(rows)
	d.text("chronyd itself, the program, in simulated time: clknetsim runs two of them on the clocks that this package gets, with delays of the same links. Each world lasts %.0f s (the recorded queues 80 and 90 s) and counts from %.0f s on, with %d seeds. The clocks are %.0f ppm apart; the rate of each follows a sine (strong wander: 8 ppm in 600 s; quieter: 2 ppm in 900 s) and a random walk. Jitter is exponential, drawn anew for each packet; a recorded queue delays a packet by what was recorded at its time. All times of sending and receipt are exact, as a network card's would be.",
		chronyLasts.Seconds(), chronyWarmup.Seconds(), chronySeeds, chronyApart)
	d.text("chronyd steers the clock that it is asked about; the others leave it alone and calculate. `minpoll` and `maxpoll` are the rate; `iburst` and `makestep 0.0001 3` are always set. In each row these settings were tried: %s, each with each, and the best three with %s. The best is judged on the seeds that are reported, which favours chronyd. On paths longer than 10 ms chronyd polls once a second at most, also while a recorded queue makes them so.",
		quoted(chronySettings), quoted([][]string{chronyTails}))
	version := "not measured"
	if len(f.chronyd.figures) > 0 {
		version = f.chronyd.figures[0].version
	}
	d.text("chronyd %s. Its figures are kept in `compare/chronyd/measured.csv`, those of the worlds of [REPORT.md](REPORT.md), too; the others are played anew by `go run . -out ../docs`.", version)
	d.code("compare/chronyd/run.sh CLKNETSIM    # CLKNETSIM is a checkout of github.com/mlichvar/clknetsim: 1 h")
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
