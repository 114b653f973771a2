// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// report writes everything into a document. costs may be nil: then that section has no times.
// A section is a method of figures; a new one goes where readers want it.
func (f *figures) report(costs []float64) (*document, error) {
	link, err := measuredLink()
	if err != nil {
		return nil, err
	}
	d := new(document)
	d.heading(1, "Every method on identical packets")
	f.headline(d)
	f.wins(d)
	f.offsets(d)
	f.coarse(d)
	f.overTime(d)
	f.turned(d)
	d.include(link)
	d.text("The first seconds, and one clock for both ends: [measured.md](../compare/reallink/measured.md).")
	f.starts(d)
	f.authors(d)
	f.costs(d, costs)
	f.measured(d)
	return d, nil
}

// linkMeasured is what was measured on a real queue. The report takes it over up to linkMore.
const linkMeasured, linkMore = "reallink/measured.md", "### The start, and one clock for both ends"

// measuredLink returns what the report says of the real queue.
func measuredLink() (string, error) {
	text, err := os.ReadFile(linkMeasured)
	if err != nil {
		return "", err
	}
	part, _, found := strings.Cut(string(text), linkMore)
	if !found {
		return "", fmt.Errorf("%s has no %q", linkMeasured, linkMore)
	}
	return part, nil
}

// column is a column of the tables: a method that is played, or chronyd.
type column struct {
	method int // -1 is chronyd
	name   string
}

// chronyName says how often it asks.
const chronyName = "chronyd 1/s"

// hidden are the methods whose figures are in the CSV only.
var hidden = []string{"NTP filter", "Sutphin", "wall clock"}

// chronyColumn is that of chronyd.
var chronyColumn = column{-1, chronyName}

// shown returns the columns that the report shows.
func shown() (all []column) {
	for i, name := range columns() {
		if !slices.Contains(hidden, name) {
			all = append(all, column{i, name})
		}
		if i == original {
			all = append(all, chronyColumn)
		}
	}
	return all
}

// worldValue returns a quantile of a column in a world, NaN if there is none.
func (f *figures) worldValue(c column, i int, q float64) float64 {
	if c.method >= 0 {
		return f.value(i, c.method, q)
	}
	if f.worlds[i].set != simulated {
		return math.NaN()
	}
	return f.chronyd.value(f.worlds[i].name, q)
}

// over returns the geometric mean of a column over worlds, of those in which it has a value.
func (f *figures) over(c column, worlds []int, q float64) float64 {
	var v []float64
	for _, i := range worlds {
		if x := f.worldValue(c, i, q); !math.IsNaN(x) {
			v = append(v, x)
		}
	}
	return geometric(v)
}

func (f *figures) headline(d *document) {
	worlds := f.of(simulated)
	mine, orig, limit := f.means(simulated, 0.99)
	both := slices.DeleteFunc(slices.Clone(worlds), func(i int) bool { return math.IsNaN(f.chronyd.value(f.worlds[i].name, 0.99)) })
	chrony, beside := f.over(chronyColumn, both, 0.99), f.over(column{ours, ""}, both, 0.99)
	d.text("Two ends exchange datagrams in %d kinds of simulated worlds. Ten times a second each method is asked for the other end's clock. **In the geometric mean over the worlds, the 99th percentile of the error is %s with this package. That is %.0f times less than with the original (%s), which sends the same datagrams, and %.0f times less than with chronyd in the %d worlds that it can be played in (%s against %s). chronyd asks once a second, in packets of its own, with the best of 88 settings in each world. An oracle that knows each series in advance is %.1f times better (%s).**",
		len(worlds), micros(mine), orig/mine, micros(orig), chrony/beside, len(both), micros(chrony), micros(beside), mine/limit, micros(limit))
	d.picture("methods", "A row for each method, a dot for each world, a bar at the geometric mean, over a logarithmic axis of the error",
		"Further left is better. Each dot is a world, each bar the geometric mean. What is below 1 us counts as 1 us. What the names mean: [below](#what-each-does-and-costs).",
		func(path string, t theme) error {
			return drawStrips(path, t, "99th percentile of the error in all simulated worlds", errorAxis("error, less is better (floor: 1 us)", 1, 1e6), f.strips(worlds))
		})
	d.text("Measured live beside chronyd and ptp4l: [a real queue](#a-real-queue). chronyd at equal numbers of packets: [CHRONYD.md](CHRONYD.md). Beside the C++ program itself, live: [ORIGINAL.md](ORIGINAL.md). Games, beside Netcode for Entities and lightyear: [INPUTS.md](INPUTS.md). All percentiles of all methods: [report.csv](report.csv).")
}

// strips are the p99 of the worlds by method, the best method first.
func (f *figures) strips(worlds []int) (all []strip) {
	for _, c := range shown() {
		s := strip{name: c.name, mean: f.over(c, worlds, 0.99), color: colorOf(c.method)}
		for _, i := range worlds {
			if v := f.worldValue(c, i, 0.99); !math.IsNaN(v) {
				s.dots = append(s.dots, v)
			}
		}
		if len(s.dots) > 0 {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b strip) int { return cmp.Compare(a.mean, b.mean) })
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
	mine := f.value(i, ours, q)
	best := mine
	for column, m := range methods {
		if v := f.value(i, column, q); m.name != "wall clock" && v < mine-8 && v < mine*0.95 && v < best {
			name, best = m.name, v
		}
	}
	if v := f.worldValue(chronyColumn, i, q); v < mine*0.95 && v < best {
		name, best = chronyName, v
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
			if winner, us := f.winner(i, q); winner != "" && reason(f.worlds[i].name) == why {
				name, _, _ := strings.Cut(f.worlds[i].name, "_")
				worlds = append(worlds, fmt.Sprintf("`%s` (%s %s; ours %s)", name, winner, fine(us), fine(f.value(i, ours, q))))
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

func (f *figures) wins(d *document) {
	d.heading(2, strings.TrimPrefix(winsBegin, "## "))
	d.text("These are the worlds in which another method's 99th percentile is smaller by more than a twentieth, and where both have stamps also by more than a stamp's 8 us:")
	items := f.won(simulated, 0.99)
	if len(items) == 0 {
		items = []string{fmt.Sprintf("In none of the %d simulated worlds.", len(f.of(simulated)))}
	}
	items = append(items, f.equalWins()...)
	if text := f.steep(); text != "" {
		items = append(items, text)
	}
	if core := f.won(skewed, 0.95); len(core) > 0 {
		items = append(items, "In the [original author's benchmark](#starts-and-other-worlds), with skew: "+strings.Join(core, " "))
	}
	d.list(items)
}

// steep says what becomes of this package where clocks differ much, if the original is
// better there.
func (f *figures) steep() string {
	for i, ppm := range f.skews.values {
		if mine, theirs := f.skews.p99[ours][i], f.skews.p99[original][i]; mine > theirs {
			return fmt.Sprintf("Clocks that differ by %g ppm or more, several times what two crystals do: at %g ppm the original has %s, this package %s. Such a skew looks like a queue that grows.", ppm, ppm, micros(theirs), micros(mine))
		}
	}
	return ""
}

func (f *figures) offsets(d *document) {
	d.heading(2, strings.TrimPrefix(winsEnd, "## "))
	d.text("The 99th percentile of the error in microseconds, from 30 s on, over %d seeds and both ends. The part that no method can avoid, because the two ways are unequal, is subtracted. Bold is the best method that answers at once; the oracle answers only afterwards. A row in bold is the geometric mean of a group. Variants at another rate or period count, and are in report.csv.", simSeeds)
	d.table(f.table())
}

func (f *figures) coarse(d *document) {
	d.heading(2, "Clocks that advance in steps")
	d.text("Clocks of browsers advance by 5 us to 1 ms at a time, and that of Windows by 15.6 ms where a program does not ask for a better one. Stamps are what such a clock shows, and times of receipt are rounded up by a step, as by package `clock`, for all methods alike. What counts is the error of the offset, not how old a reading is. The first worlds have one such clock; *jittered* ones advance at random times within each step, as in browsers. Where both are coarse they run 40 ppm apart, but *instep*.")
	rows := [][]string{f.table()[0]}
	for _, i := range f.of(coarse) {
		rows = append(rows, f.worldRow(i))
	}
	d.table(rows)
}

// variant are the names of worlds that are another one at another rate or with another period.
var variant = regexp.MustCompile(`-(3|5|200)hz$|^routeflaps-(7|60)s$|^wrap$`)

// table returns the 99th percentiles of all simulated worlds, in their groups.
func (f *figures) table() [][]string {
	head := []string{"world"}
	for _, c := range shown() {
		head = append(head, c.name)
	}
	rows := [][]string{head}
	for _, group := range f.groups() {
		rows = append(rows, f.meanRow("**"+group+"**", f.inGroup(group)))
		for _, i := range f.inGroup(group) {
			if !variant.MatchString(f.worlds[i].name) {
				rows = append(rows, f.worldRow(i))
			}
		}
	}
	return append(rows, f.meanRow("**all of them**", f.of(simulated)))
}

// groups returns those of the simulated worlds.
func (f *figures) groups() (groups []string) {
	for _, i := range f.of(simulated) {
		if g := f.worlds[i].group; !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	return groups
}

func (f *figures) inGroup(group string) []int {
	return slices.DeleteFunc(f.of(simulated), func(i int) bool { return f.worlds[i].group != group })
}

func (f *figures) meanRow(name string, worlds []int) []string {
	row := []string{name}
	for _, c := range shown() {
		row = append(row, number(f.over(c, worlds, 0.99), false))
	}
	return row
}

func (f *figures) worldRow(i int) []string {
	best, row := math.Inf(1), []string{f.worlds[i].name}
	for _, c := range shown() {
		if v := f.worldValue(c, i, 0.99); c.method < len(methods) && v < best {
			best = v
		}
	}
	for _, c := range shown() {
		v := f.worldValue(c, i, 0.99)
		row = append(row, number(v, c.method < len(methods) && v == best))
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
	return micros(us)
}

func (f *figures) overTime(d *document) {
	d.heading(2, "Over time, and with skew and rate turned up")
	d.text("The first pictures show the largest error of each second at one end, from the start on. Grey areas and lines show what happens.")
	for _, t := range taught {
		s := f.series[t.world]
		d.picture(t.world, t.title+": the error over time of this package, the original, chronyd and the oracle", t.see, func(path string, th theme) error {
			return drawCharts(path, th, &chart{
				title: t.title, x: axis{label: "seconds since the start", min: 0, max: s.seconds, ticks: multiples("%g", 100, s.seconds)},
				y: errorAxis(errorLabel, 1, s.highest()), curves: s.curves(), events: s.events,
			})
		})
	}
}

func (f *figures) turned(d *document) {
	d.picture("skew", "The 99th percentile of the error over the skew of the clocks", "Exponential jitter of 3 ms. Two crystals differ by up to 100 ppm: grey. Once the skew is learnt it adds hardly any error. A minimum over 10 s goes stale as the clocks drift.",
		func(path string, t theme) error {
			return drawCharts(path, t, &chart{
				title: "Error against skew, 99th percentile", x: axis{label: "how far the rates of the clocks are apart, ppm", min: 0, max: 1000, ticks: fixed("%g", 0, 100, 200, 300, 500, 700, 1000)},
				y: errorAxis(errorLabel, 1, 1e5), curves: f.skews.curves(), events: []event{{from: 0, to: 100, name: "two crystals"}},
			})
		})
	d.picture("rate", "The 99th percentile of the error over the rate of datagrams", "More datagrams are more chances that one did not wait. A method that asks at a pace of its own does not improve.",
		func(path string, t theme) error {
			return drawCharts(path, t, &chart{
				title: "Error against the rate of datagrams, 99th percentile", x: axis{label: "datagrams a second each way", log: true, min: 1, max: 120, ticks: fixed("%g", f.rates.values...)},
				y: errorAxis(errorLabel, 1, 1e5), curves: f.rates.curves(),
			})
		})
}

// errorLabel says where the axis of errors begins.
const errorLabel = "error (floor: 1 us)"

func (f *figures) starts(d *document) {
	d.heading(2, "Starts and other worlds")
	var parts []string
	for _, i := range []int{ours, original, ntp, ntp + 1} {
		var first, milli []float64
		for _, w := range f.of(simulated) {
			first, milli = append(first, f.results[w][i].first...), append(milli, f.results[w][i].within[0]...)
		}
		parts = append(parts, fmt.Sprintf("%s after %s and %s", methods[i].name, after(medianOf(first)), after(medianOf(milli))))
	}
	d.text("When a method answers first, and from when on its error stays below 1 ms, medians over all ends of all simulated worlds: %s.", strings.Join(parts, ", "))
	held, widths := 0, []float64{}
	for _, i := range f.of(simulated) {
		held, widths = held+f.results[i][ours].held, append(widths, f.results[i][ours].bounds...)
	}
	d.text("From 30 s on, %.2f %% of this package's answers are within its `ErrorBound`, whose median width is %s: half the round trip. No narrower bound can be true, since the two ways may be unequal. Just after a clock is set no bound can hold.",
		100*float64(held)/float64(len(widths)), micros(medianOf(widths)))
}

// after prints seconds, if there are any.
func after(s float64) string {
	if math.IsInf(s, 0) || math.IsNaN(s) {
		return "never"
	}
	return fmt.Sprintf("%.1f s", s)
}

func (f *figures) authors(d *document) {
	better := 0
	for _, i := range f.of(skewed) {
		if f.value(i, ours, .95) <= f.value(i, original, .95) {
			better++
		}
	}
	us, orig, limit := f.means(skewed, 0.95)
	d.text("The author of the original has a benchmark of %d scenarios (catid/TimeSync, `tests/peer_bench.cpp`), re-created here. It looks at the 95th percentile at the worse end, from 2 s on, and subtracts no unavoidable part; the figure here is the median of %d seeds. In the scenarios called CORE, with a skew of 25 to 400 ppm, this package comes to %s in the geometric mean (the original %s, the oracle %s), and is no worse than the original in %d of %d. report.csv has them without that skew, too, and a recorded queue.",
		len(f.of(published)), coreSeeds, micros(us), micros(orig), micros(limit), better, len(f.of(skewed)))
}

// costBegin and costEnd enclose what no test can hold: it depends on the machine.
const costBegin, costEnd = "## What each does, and costs", "## How it was measured"

func (f *figures) costs(d *document, costs []float64) {
	d.heading(2, strings.TrimPrefix(costBegin, "## "))
	d.text("Bytes that one end sends a second, beside 60 datagrams: stamps and reports in them, or packets of its own with %d bytes of IP and UDP. Time in Go, the least of %d turns on the machine that drew this. Memory for each peer.", header, costTurns)
	rows := [][]string{{"method", "what it does", "bytes/s", "time", "memory"}}
	for i, m := range methods {
		if slices.Contains(hidden, m.name) {
			continue
		}
		time := ""
		if costs != nil {
			time = fmt.Sprintf("%.0f ns per %s", costs[i], m.per)
		}
		rows = append(rows, []string{m.name, m.what, fmt.Sprintf("%.0f", m.bytes(60)), time, fmt.Sprintf("%d bytes", size(m))})
	}
	rows = append(rows, []string{"chronyd", "a line through the best of the last exchanges; it steers the computer's clock", fmt.Sprintf("%.0f", asked(1, 48, 48)(60)), "", "a process"},
		[]string{"oracle", "offline: knows all datagrams of a world and every event; lays the highest line below all datagrams both ways, with one skew, in a window that is chosen in hindsight", "", "", ""})
	d.table(rows)
}

func (f *figures) measured(d *document) {
	d.heading(2, strings.TrimPrefix(costEnd, "## "))
	d.text("**Fairness.** All but chronyd get the same stamps and times of receipt, exact to the microsecond; each is a small file of `internal/rivals`, written from public sources with their constants. This package and the original see 60 datagrams a second where the world says nothing else, because a game sends those anyway. netfox asks 4 times a second, Slot once in 5 s: that is how they are used. chronyd is the program itself, in simulated time by clknetsim, on the same clocks and links, with exact times. It asks once a second, the most that it does on paths longer than 10 ms. Its figures are those of the best of 88 settings, judged on the seeds that are reported. It is made to set a computer's clock, over days, from servers that many share; it is not made for worlds of 5 min and a start of 30 s. clknetsim has no computers that sleep, so two worlds are missing. NTP's filter (the best of the last 8 exchanges), Sutphin (one exchange at the start) and the wall clock (right at the start) are in report.csv.")
	d.text("One command, in the folder `compare`, writes this file, CHRONYD.md, INPUTS.md, report.csv and the pictures, and brings README.md and ACCURACY.md up to date. All but the costs is deterministic, and a test holds it to what comes out:")
	d.code("go run . -out ../docs                  # 1 min\ngo run . -world clockstep              # one world, with the state of the estimator: 5 s\nchronyd/run.sh CLKNETSIM               # only when chronyd is to be measured anew: 1 h")
}
