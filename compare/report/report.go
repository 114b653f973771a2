// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"timesync/compare/graph"
	"timesync/compare/kept"
	"timesync/compare/page"
	"timesync/compare/play"
	"timesync/internal/stat"
)

// hidden are the columns whose figures are in the CSV only.
var hidden = []string{play.NTP, play.Sutphin, play.WallClock}

// shown returns the columns that the report shows, chronyd beside the original.
func shown() []string {
	all := slices.DeleteFunc(play.Columns(), func(column string) bool { return slices.Contains(hidden, column) })
	return slices.Insert(all, slices.Index(all, play.Original)+1, play.Chronyd)
}

// headline says how far apart the methods are in the simulated worlds.
func (f *figures) headline() string {
	worlds := f.of(play.Simulated)
	mine, orig, limit := f.means(play.Simulated, 0.99)
	both := slices.DeleteFunc(slices.Clone(worlds), func(i int) bool { return math.IsNaN(f.value(i, play.Chronyd, 0.99)) })
	chrony, beside := f.over(play.Chronyd, both, 0.99), f.over(play.Ours, both, 0.99)
	return page.Text("Two ends exchange datagrams in %d kinds of simulated worlds. Ten times a second each method is asked for the other end's clock. **In the geometric mean over the worlds, the 99th percentile of the error is %s with this package. That is %.0f times less than with the original (%s), which sends the same datagrams, and %.0f times less than with chronyd in the %d worlds that it can be played in (%s against %s). chronyd asks once a second, in packets of its own, with the best of 88 settings in each world. An oracle that knows each series in advance is %.1f times better (%s).**",
		len(worlds), graph.Micros(mine), orig/mine, graph.Micros(orig), chrony/beside, len(both), graph.Micros(chrony), graph.Micros(beside), mine/limit, graph.Micros(limit))
}

// reasons say why another method wins a world, by the beginning of its name. TestReasons wants
// one for each of the simulated worlds and of CORE that another wins by a quarter or more.
var reasons = []struct{ worlds, why string }{
	{"ideal wander", "There is no jitter. chronyd averages the rounding of its clock away; a stamp here has a unit of 8 us."},
	{"delayramp delayramp-100ppm", "One way grows by 30 or 100 us a second for 100 s, like a clock that runs away. chronyd drops exchanges that take longer than others."},
	{"E22 E60", "In the first seconds one queue may come as another one goes. That looks like a clock that was set."},
	{"E35 E48 E50 E51 E72 E88 E106 E120 E125", "The queues of both ways swing, wander or grow there by tens of milliseconds within seconds. A method that forgets sooner is wrong for a shorter time."},
	{"", unexplained},
}

// unexplained is the reason of worlds that another method wins by little.
const unexplained = "By little."

// reason returns why another method wins a world.
func reason(world string) string {
	for _, r := range reasons {
		for _, w := range strings.Fields(r.worlds) {
			if world == w || strings.HasPrefix(world, w+"_") {
				return r.why
			}
		}
	}
	return unexplained
}

// winner returns the best method that is better than ours in a world, by more than a twentieth
// and the unit of a stamp; for chronyd, which has no such unit, by more than a twentieth. The
// wall clock, granted to be right, is none. If there is none, name is "".
func (f *figures) winner(i int, q float64) (name string, us float64) {
	mine := f.value(i, play.Ours, q)
	best := mine
	for _, m := range play.Methods {
		if v := f.value(i, m.Name, q); m.Name != play.WallClock && v < mine-8 && v < mine*0.95 && v < best {
			name, best = m.Name, v
		}
	}
	if v := f.value(i, play.Chronyd, q); v < mine*0.95 && v < best {
		name, best = play.Chronyd, v
	}
	return name, best
}

// won returns a list of the worlds of a set in which another method is better, and why.
func (f *figures) won(set string, q float64) (items []string) {
	for _, r := range reasons {
		var worlds []string
		for _, i := range f.of(set) {
			if winner, us := f.winner(i, q); winner != "" && reason(f.worlds[i].Name) == r.why {
				name, _, _ := strings.Cut(f.worlds[i].Name, "_")
				worlds = append(worlds, fmt.Sprintf("`%s` (%s %s; ours %s)", name, winner, fine(us), fine(f.value(i, play.Ours, q))))
			}
		}
		if len(worlds) > 0 {
			items = append(items, strings.Join(worlds, ", ")+". "+r.why)
		}
	}
	return items
}

// wins lists where another method wins.
func (f *figures) wins() string {
	items := f.won(play.Simulated, 0.99)
	if len(items) == 0 {
		items = []string{fmt.Sprintf("In none of the %d simulated worlds.", len(f.of(play.Simulated)))}
	}
	if text := f.steep(); text != "" {
		items = append(items, text)
	}
	if core := f.won(play.Skewed, 0.95); len(core) > 0 {
		items = append(items, "In the [original author's benchmark](#starts-and-other-worlds), with skew: "+strings.Join(core, " "))
	}
	return page.List(items)
}

// steep says what becomes of this package where clocks differ much, if the original is
// better there.
func (f *figures) steep() string {
	for i, ppm := range f.skews.values {
		if mine, theirs := f.skews.p99[play.Ours][i], f.skews.p99[play.Original][i]; mine > theirs {
			return fmt.Sprintf("Clocks that differ by %g ppm or more, several times what two crystals do: at %g ppm the original has %s, this package %s. Such a skew looks like a queue that grows.", ppm, ppm, graph.Micros(theirs), graph.Micros(mine))
		}
	}
	return ""
}

// variant are the names of worlds that are another one at another rate or with another period.
var variant = regexp.MustCompile(`-(3|5|200)hz$|^routeflaps-(7|60)s$|^wrap$`)

// worldTable has the 99th percentiles of all simulated worlds, in their groups.
func (f *figures) worldTable() string {
	rows := [][]string{append([]string{"world"}, shown()...)}
	var groups []string // in the order in which they come first
	worlds := map[string][]int{}
	for _, i := range f.of(play.Simulated) {
		group := f.worlds[i].Group
		if worlds[group] == nil {
			groups = append(groups, group)
		}
		worlds[group] = append(worlds[group], i)
	}
	for _, group := range groups {
		rows = append(rows, f.meanRow("**"+group+"**", worlds[group]))
		for _, i := range worlds[group] {
			if !variant.MatchString(f.worlds[i].Name) {
				rows = append(rows, f.worldRow(i, shown()))
			}
		}
	}
	return page.Table(append(rows, f.meanRow("**all of them**", f.of(play.Simulated))))
}

func (f *figures) meanRow(name string, worlds []int) []string {
	row := []string{name}
	for _, c := range shown() {
		row = append(row, number(f.over(c, worlds, 0.99), false))
	}
	return row
}

func (f *figures) worldRow(i int, columns []string) []string {
	best, row := math.Inf(1), []string{f.worlds[i].Name}
	for _, c := range columns {
		if v := f.value(i, c, 0.99); c != play.OracleName && v < best {
			best = v
		}
	}
	for _, c := range columns {
		v := f.value(i, c, 0.99)
		row = append(row, number(v, c != play.OracleName && v == best))
	}
	return row
}

// number prints microseconds in a table.
func number(v float64, bold bool) string {
	s := strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	if math.IsNaN(v) {
		s = "-"
	}
	if bold {
		return "**" + s + "**"
	}
	return s
}

// fine prints microseconds for people, small ones with a digit more.
func fine(us float64) string {
	if us < 9.95 {
		return fmt.Sprintf("%.1f us", us)
	}
	return graph.Micros(us)
}

// starts says when methods answer, how often the error bound holds, and what comes out in the
// original author's benchmark.
func (f *figures) starts() string {
	var parts []string
	for _, column := range []string{play.Ours, play.Original, play.NTP, play.Netfox} {
		var first, milli []float64
		for _, i := range f.of(play.Simulated) {
			r := f.results[i][column]
			first, milli = append(first, r.First...), append(milli, r.To1ms...)
		}
		parts = append(parts, fmt.Sprintf("%s after %s and %s", column, after(stat.OrNaN(first, 0.5)), after(stat.OrNaN(milli, 0.5))))
	}
	held, widths := 0, []float64{}
	for _, i := range f.of(play.Simulated) {
		held, widths = held+f.results[i][play.Ours].Held, append(widths, f.results[i][play.Ours].Bounds...)
	}
	better := 0
	for _, i := range f.of(play.Skewed) {
		if f.value(i, play.Ours, .95) <= f.value(i, play.Original, .95) {
			better++
		}
	}
	us, orig, limit := f.means(play.Skewed, 0.95)
	return page.Text("When a method answers first, and from when on its error stays below 1 ms, medians over all ends of all simulated worlds: %s.", strings.Join(parts, ", ")) +
		page.Text("From 30 s on, %.2f %% of this package's answers are within its `ErrorBound`, whose median width is %s: half the round trip. No narrower bound can be true, since the two ways may be unequal. Just after a clock is set no bound can hold.",
			100*float64(held)/float64(len(widths)), graph.Micros(stat.OrNaN(widths, 0.5))) +
		page.Text("The author of the original has a benchmark of %d scenarios (catid/TimeSync, `tests/peer_bench.cpp`), re-created here. It looks at the 95th percentile at the worse end, from 2 s on, and subtracts no unavoidable part; the figure here is the median of %d seeds. In the scenarios called CORE, with a skew of 25 to 400 ppm, this package comes to %s in the geometric mean (the original %s, the oracle %s), and is no worse than the original in %d of %d. report.csv has them without that skew, too, and a recorded queue.",
			len(f.of(play.Published)), play.CoreSeeds, graph.Micros(us), graph.Micros(orig), graph.Micros(limit), better, len(f.of(play.Skewed)))
}

// after prints seconds, if there are any.
func after(s float64) string {
	if math.IsInf(s, 0) || math.IsNaN(s) {
		return "never"
	}
	return fmt.Sprintf("%.1f s", s)
}

// costTable says what each method does, and what it costs.
func costTable() string {
	rows := [][]string{{"method", "what it does", "bytes/s", "memory"}}
	for _, m := range play.Methods {
		if !slices.Contains(hidden, m.Name) {
			rows = append(rows, []string{m.Name, m.What, fmt.Sprintf("%.0f", m.Bytes), fmt.Sprintf("%d bytes", play.Size(m))})
		}
	}
	return page.Table(append(rows,
		[]string{"chronyd", "a line through the best of the last exchanges; it steers the computer's clock", fmt.Sprintf("%.0f", play.Asked(1, 48, 48)), "a process"},
		[]string{"oracle", "offline: knows all datagrams of a world and every event; lays the highest line below all datagrams both ways, with one skew, in a window that is chosen in hindsight", "", ""}))
}

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
