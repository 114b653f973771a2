// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// report writes everything into a document. costs may be nil: then that section is left out.
func (f *figures) report(costs []float64) *document {
	d := new(document)
	d.heading(1, "Every method on identical packets")
	f.headline(d)
	f.offsets(d)
	f.wins(d)
	f.starts(d)
	f.bounds(d)
	f.times(d)
	f.turned(d)
	f.authors(d)
	f.recordings(d)
	f.inputs(d)
	f.costs(d, costs)
	f.explained(d)
	return d
}

func (f *figures) headline(d *document) {
	strips := f.strips(simulated, 0.99) // the best first, which is the oracle
	mine, limit := f.mean(simulated, ours, 0.99), f.mean(simulated, len(methods), 0.99)
	next := strips[2]
	d.text("Two ends exchange datagrams in %d kinds of simulated worlds. Each method sees the same stamps and the same times of receipt, and is asked ten times a second for the other end's clock. What counts is the error of the answer, without the part that unequal paths make unavoidable for anybody. Unless something else is said, the first 30 s are left out; they have [a section of their own](#the-first-seconds).", len(f.of(simulated)))
	d.text("**In the geometric mean over the worlds the 99th percentile of the error is %s with this package. That is %.0f times less than with the next best method (%s: %s), and %.0f times less than with NTP's filter (%s). An offline oracle that knows the whole series in advance comes to %s: this package is within a factor of %.1f of that limit.**",
		micros(mine), next.mean/mine, next.name, micros(next.mean), f.mean(simulated, ntp, 0.99)/mine, micros(f.mean(simulated, ntp, 0.99)), micros(limit), mine/limit)
	d.picture("methods", "Each dot is a world, the bar the geometric mean of all: between this package and the other methods lies more than a factor of ten, between it and the limit about three.",
		func(path string) error {
			return drawStrips(path, "99th percentile of the error, each method in all worlds", "error", 1, 1e8, strips)
		})
	d.text("Everything here is printed and drawn by one command, in the folder `compare`. Errors are deterministic, and a test holds the figures below to what comes out:")
	d.code("go run . -out ../docs    # this file and its pictures: 1 min\ngo run .                 # into the folder report, with index.html and accuracy.csv: 1 min\ngo test .                # compares this file with what comes out: 1 min")
}

// quantiles are those of the tables.
var quantiles = []struct {
	q    float64
	name string
}{{0.99, "99th percentile"}, {0.5, "median"}, {0.95, "95th percentile"}, {1, "maximum"}}

func (f *figures) offsets(d *document) {
	d.heading(2, "The offset")
	d.text("The 99th percentile of the error in each world, in microseconds, from 30 s on, over %d seeds and both ends. Bold is the best that answers at once: the oracle does not.", simSeeds)
	d.table(f.table(simulated, 0.99))
	for _, q := range quantiles[1:] {
		d.details("The same table with the "+q.name, func() { d.table(f.table(simulated, q.q)) })
	}
	curves := f.cumulative(simulated, logSpace(1, 1e6, 120))
	d.picture("cdf", fmt.Sprintf("Of this package's answers, 90 %% are right to %s and 99 %% to %s; of the original's, to %s and %s.",
		micros(f.reached(simulated, ours, .9)), micros(f.reached(simulated, ours, .99)), micros(f.reached(simulated, original, .9)), micros(f.reached(simulated, original, .99))),
		func(path string) error {
			y := axis{label: "share of the answers", min: 0, max: 100, ticks: multiples("%.0f %%", 10, 100)}
			return drawCurves(path, "How many answers are at most so wrong, all worlds alike", errorAxis("error", 1, 1e6), y, curves)
		})
}

// table returns a quantile of each method in each world of a set.
func (f *figures) table(set string, q float64) [][]string {
	rows := [][]string{append([]string{"world"}, columns()...)}
	for _, i := range f.of(set) {
		row, least := []string{f.worlds[i].name}, math.Inf(1)
		var values []float64
		for column := range columns() {
			v := f.value(i, column, q)
			values = append(values, v)
			if column < len(methods) {
				least = min(least, v)
			}
		}
		for column, v := range values {
			row = append(row, number(v, column < len(methods) && v == least))
		}
		rows = append(rows, row)
	}
	row := []string{"geometric mean"}
	for column := range columns() {
		row = append(row, number(f.mean(set, column, q), column == ours))
	}
	return append(rows, row)
}

// number prints microseconds in a table.
func number(v float64, bold bool) string {
	s := strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	if math.IsNaN(v) {
		s = "no answer"
	}
	if bold {
		return "**" + s + "**"
	}
	return s
}

// reasons say why another method wins a world, by the beginning of its name. TestReasons wants
// one for each of the simulated worlds and of CORE.
var reasons = []struct{ worlds, why string }{
	{"E50 E51 E120", "The two ways change by different amounts in the middle of the run, and the queues in them swing with a period of about 10 s. Half of the difference stays in the error of whoever goes on listening; the benchmark takes nothing off."},
	{"E88", "The delay of each way wanders at random by up to 20 ms, a step of 3 ms every 1.5 s. Where it stays up for 10 s, this package takes the path for a longer one; a minimum of the last 10 s is as often wrong, and for a shorter time."},
	{"E35 E106", "The queues of both ways swing by 80 to 90 ms, with a period of 3 or 10 s, and touch zero once in each. How far a bucket is faster than the one before is the swing there, so the gate lets some of the queue in. A minimum of the last 10 s sees each zero."},
	{"E72 E125", "The delays of both ways grow by about 1000 us a second. Each of them looks like a clock that runs away; a method with a short memory follows."},
}

// reason returns why another method wins a world, "" if nobody knows.
func reason(world string) string {
	for _, r := range reasons {
		for _, w := range strings.Fields(r.worlds) {
			if world == w || strings.HasPrefix(world, w+"_") {
				return r.why
			}
		}
	}
	return ""
}

// winners returns the methods that are better than ours in a world, by more than the unit of
// a stamp and a twentieth. The wall clock, granted to be right, is none.
func (f *figures) winners(i int, q float64) (names []string) {
	for column, m := range methods {
		v, mine := f.value(i, column, q), f.value(i, ours, q)
		if m.name != "wall clock" && v < mine-8 && v < mine*0.95 {
			names = append(names, fmt.Sprintf("%s %s", m.name, micros(v)))
		}
	}
	return names
}

// won returns a list of the worlds of a set in which another method is better, and why.
func (f *figures) won(set string, q float64) (items []string) {
	for _, r := range reasons {
		var worlds []string
		for _, i := range f.of(set) {
			if names := f.winners(i, q); len(names) > 0 && reason(f.worlds[i].name) == r.why {
				worlds = append(worlds, fmt.Sprintf("`%s` (%s; this package %s)", f.worlds[i].name, strings.Join(names, ", "), micros(f.value(i, ours, q))))
			}
		}
		if len(worlds) > 0 {
			items = append(items, strings.Join(worlds, ", ")+". "+r.why)
		}
	}
	return items
}

func (f *figures) wins(d *document) {
	d.heading(2, "Where another method wins")
	items := f.won(simulated, 0.99)
	if len(items) == 0 {
		d.text("By the 99th percentile, in none of the %d simulated worlds. In the original author's benchmark it happens, see [there](#the-original-authors-benchmark), and where two clocks run at very different rates, see [there](#skew-and-rate-turned-up).", len(f.of(simulated)))
		return
	}
	d.text("By the 99th percentile, and by more than a twentieth and the 8 us of a stamp, in these of the %d simulated worlds. In the original author's benchmark it happens more often, see [there](#the-original-authors-benchmark).", len(f.of(simulated)))
	d.list(items)
}

func (f *figures) starts(d *document) {
	d.heading(2, "The first seconds")
	d.text("When a method answers first, and from when on its error stays below 1 ms and below 100 us for a second: medians over all ends of all simulated worlds, and the share of ends that never get there. Then the 95th percentile of the answers in the first 1, 3 and 10 s, of which the geometric mean over the worlds. Reports travel every half second at first. The oracle answers from the start, for it knows what comes.")
	rows := [][]string{{"method", "first answer", "below 1 ms", "never", "below 100 us", "never", "p95 of the first 1 s", "3 s", "10 s"}}
	for column, name := range columns() {
		var first []float64
		var within [len(closeEnough)][]float64
		var early [len(ages)][]float64
		for _, i := range f.of(simulated) {
			r := &f.results[i][column]
			first = append(first, r.first...)
			for k := range within {
				within[k] = append(within[k], r.within[k]...)
			}
			for k := range early {
				if len(r.start[k]) > 0 {
					v := slices.Clone(r.start[k])
					slices.Sort(v)
					early[k] = append(early[k], quantile(v, 0.95))
				}
			}
		}
		row := []string{name, seconds(medianOf(first))}
		for k := range within {
			row = append(row, seconds(medianOf(within[k])), share(within[k]))
		}
		for k := range early {
			row = append(row, micros(geometric(early[k])))
		}
		rows = append(rows, row)
	}
	d.table(rows)
}

// seconds prints seconds, if there are any.
func seconds(s float64) string {
	if math.IsInf(s, 0) || math.IsNaN(s) {
		return "never"
	}
	return fmt.Sprintf("%.1f s", s)
}

// share prints how many are infinite.
func share(v []float64) string {
	n := 0
	for _, x := range v {
		if math.IsInf(x, 1) {
			n++
		}
	}
	return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(len(v)))
}

func (f *figures) bounds(d *document) {
	d.heading(2, "The error bound")
	d.text("Two of the methods say how wrong they may be at most, unequal paths included: this package (`ErrorBound`), and NTP (the root distance: half the round trip, and 15 ppm of its age). Of the answers from 30 s on, the share that was within the bound, and the median width. Half the round trip is about 30 ms here, and nothing that two ends can measure makes a narrower bound true. Where clocks are set, no bound can be true until that can be known.")
	var with []int
	for column, m := range methods {
		if _, ok := m.make().(bounded); ok {
			with = append(with, column)
		}
	}
	rows := [][]string{{"worlds with"}}
	for _, column := range with {
		rows[0] = append(rows[0], methods[column].name+", within", "median width")
	}
	var groups []string
	for _, i := range f.of(simulated) {
		if g := f.worlds[i].group; !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	for _, g := range groups {
		row := []string{g}
		for _, column := range with {
			held, widths := 0, []float64{}
			for _, i := range f.of(simulated) {
				if f.worlds[i].group == g {
					held += f.results[i][column].held
					widths = append(widths, f.results[i][column].bounds...)
				}
			}
			row = append(row, fmt.Sprintf("%.2f %%", 100*float64(held)/float64(len(widths))), micros(medianOf(widths)))
		}
		rows = append(rows, row)
	}
	d.table(rows)
}

func (f *figures) times(d *document) {
	d.heading(2, "Six worlds over time")
	d.text("The largest error of each second at one end, the first seed of each world, from the start on.")
	for _, t := range taught {
		s := f.series[t.world]
		d.picture(t.world, t.see, func(path string) error {
			x := axis{label: "seconds since the start", min: 0, max: s.seconds, ticks: multiples("%g s", 50, s.seconds)}
			return drawCurves(path, t.title, x, errorAxis("error", 1, s.highest()), s.curves())
		})
	}
}

func (f *figures) turned(d *document) {
	d.heading(2, "Skew and rate turned up")
	d.text("The world of exponential jitter of 3 ms, from 30 to 200 s, %d seeds.", sweepSeeds)
	d.picture("skew", "A skew that is learnt costs next to nothing. Whoever takes an old minimum or an old answer pays by the age."+f.steep(),
		func(path string) error {
			x := axis{label: "how far the rates of the two clocks are apart, ppm", min: 0, max: 400, ticks: fixed("%g", f.skews.values...)}
			return drawCurves(path, "Error against skew, 99th percentile", x, errorAxis("error", 1, 1e6), f.skews.curves())
		})
	d.picture("rate", "More datagrams are more chances that one did not queue; methods that ask at a pace of their own gain nothing from them.",
		func(path string) error {
			x := axis{label: "datagrams a second each way", log: true, min: 1, max: 120, ticks: fixed("%g", f.rates.values...)}
			return drawCurves(path, "Error against the rate of datagrams, 99th percentile", x, errorAxis("error", 1, 1e6), f.rates.curves())
		})
}

// steep says what becomes of this package at the largest skew, if the original is better
// there.
func (f *figures) steep() string {
	last := len(f.skews.values) - 1
	mine, theirs := f.skews.p99[ours][last], f.skews.p99[original][last]
	if mine <= theirs {
		return ""
	}
	return fmt.Sprintf(" At %g ppm, four times what two crystals differ by, others win (the original %s; this package %s): such a skew looks like a queue that grows, and in some of the worlds a minute or all of the 200 s pass before it is believed.",
		f.skews.values[last], micros(theirs), micros(mine))
}

func (f *figures) authors(d *document) {
	d.heading(2, "The original author's benchmark")
	n, better := 0, 0
	for _, i := range f.of(skewed) {
		n++
		if f.value(i, ours, .95) <= f.value(i, original, .95) {
			better++
		}
	}
	us, orig, limit := f.mean(skewed, ours, .95), f.mean(skewed, original, .95), f.mean(skewed, len(methods), .95)
	d.text("The author of the C++ original has a benchmark of %d scenarios (catid/TimeSync, `tests/peer_bench.cpp`), re-created here. It looks at the 95th percentile at the worse end, from 2 s on, in runs of mostly a minute, and takes off nothing for unequal paths; here of %d seeds the median. Requests and responses are added for the methods that need them. Its late runs give the clocks a skew of 25 to 400 ppm in the scenarios called CORE. There this package comes to %s in the geometric mean (the original %s, the oracle %s), and is no worse than the original in %d of %d.",
		len(f.of(published)), coreSeeds, micros(us), micros(orig), micros(limit), better, n)
	d.text("Other methods than ours are better in these, for a reason; the wall clock does not count, since it was granted to be right at the start:")
	d.list(f.won(skewed, 0.95))
	d.details("95th percentile in the CORE scenarios with skew, us", func() { d.table(f.table(skewed, 0.95)) })
	d.text("As published, without that skew, the table shows other things as well (%d seeds):", authorSeeds)
	d.list([]string{
		"The wall clock is perfect where no clock drifts, for it was granted to be right at the start.",
		"Where both clocks have the same rate and the paths are quiet, an old minimum is as good as a new one. The original is then right to the 8 us of a stamp; this package is to some 4 to 50 us, because it cannot know that there is no skew.",
		"Sutphin, who asks once and never listens again, wins where queues stand or a path changes in one way, as long as the clocks do not drift.",
		"His clocks do not integrate their rate: they jump when it changes. In `E7_drift` with 200 ppm and more they are 1200 to 2400 ppm apart after that jump. No computer's clock is, and this package does not follow beyond 1000 ppm.",
		"Where a clock is set, the 95th percentile says whether that was noticed before 5 % of the run were over.",
		"Where stamps are forged (`E80_ts24_poison`, `E128_ts24_wrap_stress`), the hull of the oracle is as wrong as the stamps are, and so is the minimum of the original.",
	})
	d.details("95th percentile in all scenarios as published, us", func() { d.table(f.table(published, 0.95)) })
}

func (f *figures) recordings(d *document) {
	d.heading(2, "Recorded delays")
	d.text("The project's own recording of a real queue: a bottleneck of 10 Mbit with 300 ms of buffer in Linux, which TCP fills one way, the other way and both ways. The clocks are simulated, 40 ppm apart. 99th percentile in microseconds from 30 s on. With `-traces FOLDER`, other series of delays follow. Beside a queue that is real and not replayed: `docs/LINK.md`.")
	d.table(f.table(recorded, 0.99))
}

// costBegin and costEnd enclose what no test can hold: it depends on the machine.
const costBegin, costEnd = "## What it costs", "## The methods"

func (f *figures) costs(d *document, costs []float64) {
	d.heading(2, strings.TrimPrefix(costBegin, "## "))
	d.text("Bytes that one end sends a second, where it sends 60 or 10 datagrams a second anyway: a stamp and now and then a report in them, or packets of its own with their %d bytes of IP and UDP (%s). Time for a datagram or an exchange in Go, the least of %d turns on the machine that drew this. Memory for each peer.",
		header, "48 bytes of NTP each way; where nobody says how large a message is, a time has 8 bytes", costTurns)
	rows := [][]string{{"method", "bytes/s at 60/s", "at 10/s", "time", "memory"}}
	for i, m := range methods {
		time := ""
		if costs != nil {
			time = fmt.Sprintf("%.0f ns per %s", costs[i], m.per)
		}
		rows = append(rows, []string{m.name, fmt.Sprintf("%.0f", m.bytes(60)), fmt.Sprintf("%.0f", m.bytes(10)), time, fmt.Sprintf("%d bytes", size(m))})
	}
	d.table(rows)
}

func (f *figures) explained(d *document) {
	d.heading(2, strings.TrimPrefix(costEnd, "## "))
	var items []string
	for _, m := range methods {
		items = append(items, fmt.Sprintf("**%s**: %s.", m.name, m.what))
	}
	items = append(items, "**oracle**: offline. It sees all datagrams of a world, those to come as well, and is told when a clock is set or a path changes. In a window around each moment it lays the highest line below all datagrams in both directions, with one skew: edges of their lower convex hulls. The width of the window, up to the whole series, is chosen in hindsight: the one with the least 99th percentile, so that its median may be beaten. Where one way slows down for 100 s (`delayramp`), only a window of minutes reaches back to before. The rates of the clocks change meanwhile, so no straight line is the limit there.")
	d.list(items)
	d.text("Each is a small file in `internal/rivals`, and the oracle is `compare/oracle.go`. To look into one world, with the state of the estimator below the error:")
	d.code("go run . -world clockstep -seed 3    # 5 s")
}

// writeCSV writes all figures of all worlds.
func (f *figures) writeCSV(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w := csv.NewWriter(file)
	row := []string{"set", "world", "method"}
	for _, q := range []string{"p50", "p95", "p99", "max"} {
		row = append(row, q+"_us")
	}
	row = append(row, "unanswered", "first_answer_s", "to_1ms_s", "to_100us_s", "p95_first_1s_us", "p95_first_3s_us", "p95_first_10s_us", "bound_held", "bound_median_us")
	w.Write(row)
	number := func(v float64) string {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return ""
		}
		return strconv.FormatFloat(math.Round(v*1e3)/1e3, 'f', -1, 64)
	}
	for i, world := range f.worlds {
		for column, name := range columns() {
			r := &f.results[i][column]
			row := []string{world.set, world.name, name}
			for _, q := range []float64{0.5, 0.95, 0.99, 1} {
				row = append(row, number(quantile(r.errs, q)))
			}
			row = append(row, strconv.Itoa(r.missed), number(medianOf(r.first)), number(medianOf(r.within[0])), number(medianOf(r.within[1])))
			for _, v := range r.start {
				v = slices.Clone(v)
				slices.Sort(v)
				row = append(row, number(quantile(v, 0.95)))
			}
			row = append(row, number(float64(r.held)/float64(len(r.bounds))), number(quantile(r.bounds, 0.5)))
			w.Write(row)
		}
	}
	w.Flush()
	if err := w.Error(); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
