// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"strings"
	"timesync/compare/kept"
	"timesync/compare/page"
	"timesync/compare/play"
	"timesync/internal/stat"
)

// equalCell is one world at one rate: ours and the original's errors, and chronyd's figures.
type equalCell struct {
	w      *play.ChronydWorld
	rate   float64
	errs   map[string][]float64 // by column, in order
	chrony *kept.ChronydFigures // nil: not measured
}

// playEqual plays the worlds of equal rates.
func playEqual(c *kept.Chronyd) ([]equalCell, error) {
	worlds, err := play.EqualWorlds()
	if err != nil {
		return nil, err
	}
	var cells []equalCell
	for i := range worlds {
		for _, rate := range worlds[i].Rates {
			cells = append(cells, equalCell{w: &worlds[i], rate: rate, chrony: c.Find(play.EqualRates, worlds[i].Name, rate)})
		}
	}
	play.Each(len(cells), func(i int) { cells[i].errs = cells[i].w.Play(cells[i].rate) })
	return cells, nil
}

// mine is our 99th percentile.
func (c *equalCell) mine() float64 { return stat.OrNaN(c.errs[play.Ours], 0.99) }

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
		if c.chrony == nil || !pick(c.chrony.Best.P99, c.mine(), len(c.w.Rates) == 1) {
			continue
		}
		cell := fmt.Sprintf("%g/s %s against %s", c.rate, fine(c.chrony.Best.P99), fine(c.mine()))
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
		best, stock = pair(x.Best.P50, x.Best.P99), pair(x.Stock.P50, x.Stock.P99)
		if setting = "`" + x.Setting + "`"; x.Setting == "" {
			setting = "its defaults"
		}
	}
	return []string{c.w.Name, fmt.Sprintf("%g/s", c.rate), pair(stat.OrNaN(c.errs[play.Ours], 0.5), c.mine()), best, stock,
		pair(stat.OrNaN(c.errs[play.Original], 0.5), stat.OrNaN(c.errs[play.Original], 0.99)), setting}
}

// short prints microseconds without their unit.
func short(us float64) string {
	if us < 9.95 {
		return fmt.Sprintf("%.1f", us)
	}
	return fmt.Sprintf("%.0f", us)
}

// equalTable is the table of CHRONYD.md, and what it comes to.
func (f *figures) equalTable() string {
	better, n, version := 0, 0, ""
	rows := [][]string{{"world", "packets", "timesync", "chronyd, best setting", "chronyd, its defaults", "original", "the best setting"}}
	for i := range f.equal {
		c := &f.equal[i]
		rows = append(rows, c.row())
		if c.chrony == nil {
			continue
		}
		version = c.chrony.Version
		if n++; c.mine() <= c.chrony.Best.P99 {
			better++
		}
	}
	return page.Text("**In %d of %d rows this package's 99th percentile is at most that of chronyd %s with the best of its settings.** In a row all send equally often: n/s is n exchanges a second of chronyd's, and n datagrams a second each way of the others. Error of the remote clock in microseconds, median / 99th percentile:", better, n, version) +
		page.Table(rows)
}
