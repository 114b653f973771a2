// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"strings"

	"timesync/compare/kept"
	"timesync/compare/page"
	"timesync/compare/play"
)

// equalWins says where chronyd is better at equal numbers of packets by more than a twentieth,
// and where it is worse by less than half on long paths, one item each.
func (f *figures) equalWins() (items []string) {
	better := f.equalWorlds(func(world string, chrony, mine float64) bool { return chrony < mine*0.95 })
	if better != "" {
		items = append(items, "chronyd with its best setting is ahead, its figure first, in: "+better+". It averages what it hears; here the fastest datagram counts.")
	}
	near := f.equalWorlds(func(world string, chrony, mine float64) bool {
		return strings.HasPrefix(world, "20 ms") && chrony >= mine*0.95 && chrony/2 < mine
	})
	if near != "" {
		items = append(items, "This package is ahead of chronyd, but not by half, in: "+near+".")
	}
	return items
}

// equalWorlds lists the worlds of equal rates that a condition picks.
func (f *figures) equalWorlds(pick func(world string, chrony, mine float64) bool) string {
	var all []string
	for _, i := range f.of(play.EqualRates) {
		world, chrony, mine := f.worlds[i].Name, f.value(i, play.Chronyd, 0.99), f.value(i, play.Ours, 0.99)
		if pick(world, chrony, mine) {
			all = append(all, fmt.Sprintf("%s (%s against %s)", world, fine(chrony), fine(mine)))
		}
	}
	return strings.Join(all, "; ")
}

// equalTable is the table of CHRONYD.md, and what it comes to.
func (f *figures) equalTable() string {
	better, n, version := 0, 0, ""
	rows := [][]string{{"world", "timesync", "chronyd, best setting", "chronyd, its defaults", "original", "the best setting"}}
	for _, i := range f.of(play.EqualRates) {
		world, best, stock, setting := f.worlds[i].Name, "-", "-", "-"
		if x := f.chronyd.Find(play.EqualRates, world); x != nil {
			if n++; f.value(i, play.Ours, 0.99) <= x.Best.P99 {
				better++
			}
			best, stock, setting, version = pair(x.Best), pair(x.Stock), "`"+x.Setting+"`", x.Version
			if x.Setting == "" {
				setting = "its defaults"
			}
		}
		ours, original := kept.QuantilesOf(f.results[i][play.Ours].Errs), kept.QuantilesOf(f.results[i][play.Original].Errs)
		rows = append(rows, []string{world, pair(ours), best, stock, pair(original), setting})
	}
	return page.Text("**In %d of %d rows this package's 99th percentile is at most that of chronyd %s with the best of its settings.** In a row all send equally often: n/s is n exchanges a second of chronyd's, and n datagrams a second each way of the others. Error of the remote clock in microseconds, median / 99th percentile:", better, n, version) +
		page.Table(rows)
}

// pair prints a median and a 99th percentile in microseconds without their unit.
func pair(q kept.Quantiles) string { return short(q.P50) + " / " + short(q.P99) }

func short(us float64) string {
	if us < 9.95 {
		return fmt.Sprintf("%.1f", us)
	}
	return fmt.Sprintf("%.0f", us)
}
