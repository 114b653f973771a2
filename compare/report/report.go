// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"timesync/compare/graph"
	"timesync/compare/page"
	"timesync/compare/play"
	"timesync/internal/stat"
)

// report writes everything into a document. costs may be nil: then that section has no times.
// A section is a method of figures; a new one goes where readers want it.
func (f *figures) report(costs []float64) *page.Document {
	d := new(page.Document)
	d.Heading(1, "Every method on identical packets")
	f.headline(d)
	f.wins(d)
	f.offsets(d)
	f.coarse(d)
	f.overTime(d)
	f.turned(d)
	f.starts(d)
	f.authors(d)
	f.costs(d, costs)
	f.measured(d)
	return d
}

// hidden are the columns whose figures are in the CSV only.
var hidden = []string{play.NTP, play.Sutphin, play.WallClock}

// shown returns the columns that the report shows, chronyd beside the original.
func shown() []string {
	all := slices.DeleteFunc(play.Columns(), func(column string) bool { return slices.Contains(hidden, column) })
	return slices.Insert(all, slices.Index(all, play.Original)+1, play.Chronyd)
}

// over returns the geometric mean of a column over worlds, of those in which it has a value.
func (f *figures) over(column string, worlds []int, q float64) float64 {
	var v []float64
	for _, i := range worlds {
		if x := f.value(i, column, q); !math.IsNaN(x) {
			v = append(v, x)
		}
	}
	return play.Geometric(v)
}

func (f *figures) headline(d *page.Document) {
	worlds := f.of(play.Simulated)
	mine, orig, limit := f.means(play.Simulated, 0.99)
	both := slices.DeleteFunc(slices.Clone(worlds), func(i int) bool { return math.IsNaN(f.chronyd.Value(f.worlds[i].Name, 0.99)) })
	chrony, beside := f.over(play.Chronyd, both, 0.99), f.over(play.Ours, both, 0.99)
	d.Text("Two ends exchange datagrams in %d kinds of simulated worlds. Ten times a second each method is asked for the other end's clock. **In the geometric mean over the worlds, the 99th percentile of the error is %s with this package. That is %.0f times less than with the original (%s), which sends the same datagrams, and %.0f times less than with chronyd in the %d worlds that it can be played in (%s against %s). chronyd asks once a second, in packets of its own, with the best of 88 settings in each world. An oracle that knows each series in advance is %.1f times better (%s).**",
		len(worlds), graph.Micros(mine), orig/mine, graph.Micros(orig), chrony/beside, len(both), graph.Micros(chrony), graph.Micros(beside), mine/limit, graph.Micros(limit))
	d.Picture("methods", "A row for each method, a dot for each world, a bar at the geometric mean, over a logarithmic axis of the error",
		"Further left is better. Each dot is a world, each bar the geometric mean. What is below 1 us counts as 1 us. What the names mean: [below](#what-each-does-and-costs).",
		func(path string, t graph.Theme) error {
			return graph.Strips(path, t, "99th percentile of the error in all simulated worlds", graph.ErrorAxis("error, less is better (floor: 1 us)", 1, 1e6), f.strips(worlds))
		})
	d.Text("Measured live beside chronyd and ptp4l: [a real queue](QUEUE.md). chronyd at equal numbers of packets: [CHRONYD.md](CHRONYD.md). Beside the C++ program itself, live: [ORIGINAL.md](ORIGINAL.md). Games, beside Netcode for Entities and lightyear: [INPUTS.md](INPUTS.md). All percentiles of all methods: [report.csv](report.csv).")
}

// strips are the p99 of the worlds by method, the best method first.
func (f *figures) strips(worlds []int) (all []graph.Strip) {
	for _, c := range shown() {
		s := graph.Strip{Name: c, Mean: f.over(c, worlds, 0.99), Color: play.ColorOf(c)}
		for _, i := range worlds {
			if v := f.value(i, c, 0.99); !math.IsNaN(v) {
				s.Dots = append(s.Dots, v)
			}
		}
		if len(s.Dots) > 0 {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b graph.Strip) int { return cmp.Compare(a.Mean, b.Mean) })
	return all
}

// reasons say why another method wins a world, by the beginning of its name. TestReasons wants
// one for each of the simulated worlds and of CORE that another wins by a quarter or more.
var reasons = []struct{ worlds, why string }{
	{"ideal wander", "There is no jitter. chronyd averages the rounding of its clock away; a stamp here has a unit of 8 us."},
	{"delayramp delayramp-100ppm", "One way grows by 30 or 100 us a second for 100 s, like a clock that runs away. chronyd drops exchanges that take longer than others."},
	{"E22 E60", "In the first seconds one queue may come as another one goes. That looks like a clock that was set."},
	{"E35 E48 E50 E51 E72 E88 E106 E120 E125", "The queues of both ways swing, wander or grow there by tens of milliseconds within seconds. A method that forgets sooner is wrong for a shorter time."},
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
	whys := []string{}
	for _, r := range reasons {
		whys = append(whys, r.why)
	}
	for _, why := range append(whys, unexplained) {
		var worlds []string
		for _, i := range f.of(set) {
			if winner, us := f.winner(i, q); winner != "" && reason(f.worlds[i].Name) == why {
				name, _, _ := strings.Cut(f.worlds[i].Name, "_")
				worlds = append(worlds, fmt.Sprintf("`%s` (%s %s; ours %s)", name, winner, fine(us), fine(f.value(i, play.Ours, q))))
			}
		}
		if len(worlds) > 0 {
			items = append(items, strings.Join(worlds, ", ")+". "+why)
		}
	}
	return items
}

// winsBegin and winsEnd enclose who wins where.
const winsBegin, winsEnd = "## Where another method wins", "## The offset in each world"

func (f *figures) wins(d *page.Document) {
	d.Heading(2, strings.TrimPrefix(winsBegin, "## "))
	d.Text("These are the worlds in which another method's 99th percentile is smaller by more than a twentieth, and where both have stamps also by more than a stamp's 8 us:")
	items := f.won(play.Simulated, 0.99)
	if len(items) == 0 {
		items = []string{fmt.Sprintf("In none of the %d simulated worlds.", len(f.of(play.Simulated)))}
	}
	items = append(items, f.equalWins()...)
	if text := f.steep(); text != "" {
		items = append(items, text)
	}
	if core := f.won(play.Skewed, 0.95); len(core) > 0 {
		items = append(items, "In the [original author's benchmark](#starts-and-other-worlds), with skew: "+strings.Join(core, " "))
	}
	d.List(items)
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

func (f *figures) offsets(d *page.Document) {
	d.Heading(2, strings.TrimPrefix(winsEnd, "## "))
	d.Text("The 99th percentile of the error in microseconds, from 30 s on, over %d seeds and both ends. The part that no method can avoid, because the two ways are unequal, is subtracted. Bold is the best method that answers at once; the oracle answers only afterwards. A row in bold is the geometric mean of a group. Variants at another rate or period count, and are in report.csv. A dash in the column of chronyd: it was not played there.", play.SimSeeds)
	d.Table(f.table())
}

func (f *figures) coarse(d *page.Document) {
	d.Heading(2, "Clocks that advance in steps")
	d.Text("Clocks of browsers advance by 5 us to 1 ms at a time, and that of Windows by 15.6 ms where a program does not ask for a better one. Stamps are what such a clock shows, and times of receipt are rounded up by a step, as by package `clock`, for all methods alike. What counts is the error of the offset, not how old a reading is. The first worlds have one such clock; *jittered* ones advance at random times within each step, as in browsers. Where both are coarse they run 40 ppm apart, but *instep*.")
	rows := [][]string{f.table()[0]}
	for _, i := range f.of(play.Coarse) {
		rows = append(rows, f.worldRow(i))
	}
	d.Table(rows)
}

// variant are the names of worlds that are another one at another rate or with another period.
var variant = regexp.MustCompile(`-(3|5|200)hz$|^routeflaps-(7|60)s$|^wrap$`)

// table returns the 99th percentiles of all simulated worlds, in their groups.
func (f *figures) table() [][]string {
	head := append([]string{"world"}, shown()...)
	rows := [][]string{head}
	for _, group := range f.groups() {
		rows = append(rows, f.meanRow("**"+group+"**", f.inGroup(group)))
		for _, i := range f.inGroup(group) {
			if !variant.MatchString(f.worlds[i].Name) {
				rows = append(rows, f.worldRow(i))
			}
		}
	}
	return append(rows, f.meanRow("**all of them**", f.of(play.Simulated)))
}

// groups returns those of the simulated worlds.
func (f *figures) groups() (groups []string) {
	for _, i := range f.of(play.Simulated) {
		if g := f.worlds[i].Group; !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	return groups
}

func (f *figures) inGroup(group string) []int {
	return slices.DeleteFunc(f.of(play.Simulated), func(i int) bool { return f.worlds[i].Group != group })
}

func (f *figures) meanRow(name string, worlds []int) []string {
	row := []string{name}
	for _, c := range shown() {
		row = append(row, number(f.over(c, worlds, 0.99), false))
	}
	return row
}

func (f *figures) worldRow(i int) []string {
	best, row := math.Inf(1), []string{f.worlds[i].Name}
	for _, c := range shown() {
		if v := f.value(i, c, 0.99); c != play.OracleName && v < best {
			best = v
		}
	}
	for _, c := range shown() {
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

func (f *figures) overTime(d *page.Document) {
	d.Heading(2, "Over time, and with skew and rate turned up")
	d.Text("The first pictures show the largest error of each second at one end, from the start on. Grey areas and lines show what happens.")
	for _, t := range taught {
		s := f.series[t.world]
		seconds := float64(len(*s.errs[play.Ours]))
		d.Picture(t.world, t.title+": the error over time of this package, the original, chronyd and the oracle", t.see, func(path string, th graph.Theme) error {
			return graph.Charts(path, th, &graph.Chart{
				Title: t.title, X: graph.Axis{Label: "seconds since the start", Min: 0, Max: seconds, Ticks: graph.Even(0, seconds)},
				Y: graph.ErrorAxis(graph.ErrorLabel, 1, s.highest()), Curves: s.curves(), Events: s.events,
			})
		})
	}
}

func (f *figures) turned(d *page.Document) {
	d.Picture("skew", "The 99th percentile of the error over the skew of the clocks", "Exponential jitter of 3 ms. Two crystals differ by up to 100 ppm: grey. Once the skew is learnt it adds hardly any error. A minimum over 10 s goes stale as the clocks drift.",
		func(path string, t graph.Theme) error {
			return graph.Charts(path, t, &graph.Chart{
				Title: "Error against skew, 99th percentile", X: graph.Axis{Label: "how far the rates of the clocks are apart, ppm", Min: 0, Max: 1000, Ticks: graph.Fixed(0, 100, 200, 300, 500, 700, 1000)},
				Y: graph.ErrorAxis(graph.ErrorLabel, 1, 1e5), Curves: f.skews.curves(), Events: []graph.Event{{From: 0, To: 100, Name: "two crystals"}},
			})
		})
	d.Picture("rate", "The 99th percentile of the error over the rate of datagrams", "More datagrams are more chances that one did not wait. A method that asks at a pace of its own does not improve.",
		func(path string, t graph.Theme) error {
			return graph.Charts(path, t, &graph.Chart{
				Title: "Error against the rate of datagrams, 99th percentile", X: graph.Axis{Label: "datagrams a second each way", Log: true, Min: 1, Max: 120, Ticks: graph.Fixed(f.rates.values...)},
				Y: graph.ErrorAxis(graph.ErrorLabel, 1, 1e5), Curves: f.rates.curves(),
			})
		})
}

func (f *figures) starts(d *page.Document) {
	d.Heading(2, "Starts and other worlds")
	var parts []string
	for _, column := range []string{play.Ours, play.Original, play.NTP, play.Netfox} {
		var first, milli []float64
		for _, i := range f.of(play.Simulated) {
			r := f.results[i][column]
			first, milli = append(first, r.First...), append(milli, r.Within[0]...)
		}
		parts = append(parts, fmt.Sprintf("%s after %s and %s", column, after(stat.OrNaN(first, 0.5)), after(stat.OrNaN(milli, 0.5))))
	}
	d.Text("When a method answers first, and from when on its error stays below 1 ms, medians over all ends of all simulated worlds: %s.", strings.Join(parts, ", "))
	held, widths := 0, []float64{}
	for _, i := range f.of(play.Simulated) {
		held, widths = held+f.results[i][play.Ours].Held, append(widths, f.results[i][play.Ours].Bounds...)
	}
	d.Text("From 30 s on, %.2f %% of this package's answers are within its `ErrorBound`, whose median width is %s: half the round trip. No narrower bound can be true, since the two ways may be unequal. Just after a clock is set no bound can hold.",
		100*float64(held)/float64(len(widths)), graph.Micros(stat.OrNaN(widths, 0.5)))
}

// after prints seconds, if there are any.
func after(s float64) string {
	if math.IsInf(s, 0) || math.IsNaN(s) {
		return "never"
	}
	return fmt.Sprintf("%.1f s", s)
}

func (f *figures) authors(d *page.Document) {
	better := 0
	for _, i := range f.of(play.Skewed) {
		if f.value(i, play.Ours, .95) <= f.value(i, play.Original, .95) {
			better++
		}
	}
	us, orig, limit := f.means(play.Skewed, 0.95)
	d.Text("The author of the original has a benchmark of %d scenarios (catid/TimeSync, `tests/peer_bench.cpp`), re-created here. It looks at the 95th percentile at the worse end, from 2 s on, and subtracts no unavoidable part; the figure here is the median of %d seeds. In the scenarios called CORE, with a skew of 25 to 400 ppm, this package comes to %s in the geometric mean (the original %s, the oracle %s), and is no worse than the original in %d of %d. report.csv has them without that skew, too, and a recorded queue.",
		len(f.of(play.Published)), play.CoreSeeds, graph.Micros(us), graph.Micros(orig), graph.Micros(limit), better, len(f.of(play.Skewed)))
}

// costBegin and costEnd enclose what no test can hold: it depends on the machine.
const costBegin, costEnd = "## What each does, and costs", "## How it was measured"

func (f *figures) costs(d *page.Document, costs []float64) {
	d.Heading(2, strings.TrimPrefix(costBegin, "## "))
	d.Text("Bytes that one end sends a second, beside 60 datagrams: stamps and reports in them, or packets of its own with %d bytes of IP and UDP. Time in Go, the least of %d turns on the machine that drew this. Memory for each peer.", play.Header, costTurns)
	rows := [][]string{{"method", "what it does", "bytes/s", "time", "memory"}}
	for i, m := range play.Methods {
		if slices.Contains(hidden, m.Name) {
			continue
		}
		time := ""
		if costs != nil {
			time = fmt.Sprintf("%.0f ns per %s", costs[i], m.Per)
		}
		rows = append(rows, []string{m.Name, m.What, fmt.Sprintf("%.0f", m.Bytes(60)), time, fmt.Sprintf("%d bytes", play.Size(m))})
	}
	rows = append(rows, []string{"chronyd", "a line through the best of the last exchanges; it steers the computer's clock", fmt.Sprintf("%.0f", play.Asked(1, 48, 48)(60)), "", "a process"},
		[]string{"oracle", "offline: knows all datagrams of a world and every event; lays the highest line below all datagrams both ways, with one skew, in a window that is chosen in hindsight", "", "", ""})
	d.Table(rows)
}

func (f *figures) measured(d *page.Document) {
	d.Heading(2, strings.TrimPrefix(costEnd, "## "))
	d.Text("**Fairness.** All but chronyd get the same stamps and times of receipt, exact to the microsecond; each is a small file of `internal/rivals`, written from public sources with their constants. This package and the original see 60 datagrams a second where the world says nothing else, because a game sends those anyway. netfox asks 4 times a second, Slot once in 5 s: that is how they are used. chronyd is the program itself, in simulated time by clknetsim, on the same clocks and links, with exact times. It asks once a second, the most that it does on paths longer than 10 ms. Its figures are those of the best of 88 settings, judged on the seeds that are reported. It is made to set a computer's clock, over days, from servers that many share; it is not made for worlds of 5 min and a start of 30 s. clknetsim has no computers that sleep, so two worlds are missing. NTP's filter (the best of the last 8 exchanges), Sutphin (one exchange at the start) and the wall clock (right at the start) are in report.csv.")
	d.Text("One command, in the folder `compare`, writes this file, CHRONYD.md, INPUTS.md, report.csv, the pictures, and the marked parts of README.md, ACCURACY.md and DESIGN.md. All but the costs is deterministic, and a test holds it to what comes out:")
	d.Code("go run ./report                      # 1 min\ngo run ./report -world clockstep     # one world, with what the estimator knew: 5 s\nlab/chronyd.sh CLKNETSIM             # only when chronyd is to be measured anew: 1 h")
}
